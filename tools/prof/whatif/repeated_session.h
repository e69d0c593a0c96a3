// A session that makes the calls of a trace again. Private to tools/prof/whatif/.
//
// Threads: one at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/session.h"

#include "tools/prof/whatif/call_arguments.h"
#include "tools/prof/whatif/changes.h"
#include "tools/prof/whatif/run_scripts.h"
#include "tools/prof/whatif/traced_calls.h"
#include "tools/prof/whatif/weightless_device.h"

namespace coppice {

class RepeatedSession {
 public:
  // How a call ran.
  struct Ran {
    bool refused = false;
    RunKind kind = RunKind::kEager;
    Reason reason = Reason::kNone;
  };

  // All outlive it. Errors: as Session::Create and Register.
  static absl::StatusOr<std::unique_ptr<RepeatedSession>> Create(
      WeightlessDevice& device,
      const TracedCalls& traced,
      const WhatIfChanges& changes,
      const ChangedMaking& making,
      std::vector<std::unique_ptr<RunScripts>>& scripts);

  // Makes all calls. Errors: those that no call has, such as a suspension's.
  absl::Status Repeat(const std::function<void(int64_t, int64_t)>& on_progress);

  const WhatIfFigures& figures() const { return figures_; }
  const std::vector<Ran>& ran() const { return ran_; }  // One per call of the trace.
  const std::string& first_refusal() const { return first_refusal_; }
  // What could not be warmed though there was room, and why; empty: nothing.
  std::string unwarmed() const;
  // Suspensions that the changes brought, before which memory of eager runs may have been leased.
  int64_t unsure_suspensions() const { return unsure_suspensions_; }
  const Session& session() const { return *session_; }
  int lane_of(size_t call) const { return lanes_[call]; }

 private:
  struct Registered {
    const Program* program = nullptr;
    const Binding* binding = nullptr;
    const Binding* scratch = nullptr;
    std::vector<Expression> expressions;
    // Of its inputs and then its outputs, where callers have them.
    std::vector<DeviceAddress> addresses;
    std::vector<int64_t> scalars;  // Of the key, as a call had them last.
  };
  // The lease of a call that somebody keeps.
  struct Held {
    Lease whole;
    std::vector<Lease> parts;
  };
  using BucketSet = std::vector<std::vector<int64_t>>;

  RepeatedSession(WeightlessDevice& device,
                  const TracedCalls& traced,
                  const WhatIfChanges& changes,
                  const ChangedMaking& making,
                  std::vector<std::unique_ptr<RunScripts>>& scripts);

  absl::Status Register(int program);
  absl::StatusOr<const Binding*> Bind(const Registered& registered, const ProgramSpec& spec);
  absl::Status RunScript(int program, CallContext& context);
  void AssignLanes();

  absl::Status Take(const TracedStep& step, size_t place);
  absl::Status MakeCall(int index);
  absl::Status UseOutputs(const TracedCall& call, CuStream stream, CallArguments& arguments);
  std::vector<Lease> TakeGifts(const TracedCall& call);
  void DropPart(int index, int64_t output);
  static Lease* PartOf(std::optional<Held>& held, int64_t output);
  absl::StatusOr<PaddingPolicy> ChangedPolicy(int program, int symbol, int policy) const;
  absl::Status Warm(size_t place);
  absl::StatusOr<std::vector<std::optional<PaddingPolicy>>> PoliciesToWarm(int program,
                                                                           const BucketSet& warmed,
                                                                           size_t place);
  absl::StatusOr<BucketSet> BucketsToWarm(int program, const BucketSet& warmed, size_t place);
  absl::StatusOr<std::optional<PaddingPolicy>> PolicyAhead(int program,
                                                           int symbol,
                                                           const BucketSet& warmed,
                                                           size_t place) const;
  absl::Status Suspend(const SuspendOptions& options);
  absl::Status Resume(int64_t suspended_ns);
  absl::Status Idle(const TracedStep& call);
  void Refuse(int index, const absl::Status& why);
  void Finish();

  WeightlessDevice& device_;
  const TracedCalls& traced_;
  const WhatIfChanges& changes_;
  const ChangedMaking& making_;
  std::vector<std::unique_ptr<RunScripts>>& scripts_;
  int64_t clock_ns_ = 0;  // That recordings are timed by.
  std::vector<Registered> programs_;
  std::unique_ptr<Session> session_;
  std::vector<int> lanes_;  // Of each call.
  std::vector<std::optional<Held>> held_;
  std::vector<Ran> ran_;
  std::vector<bool> warmed_;  // Of each step, whether another one's Warm took it.
  // Places of steps that set a policy, by program and symbol.
  std::map<std::pair<int, int>, std::vector<size_t>> policy_steps_;
  int64_t last_call_ns_ = -1;
  int64_t suspended_at_ns_ = -1;  // By the application; -1: it is not.
  int64_t given_back_ = 0;        // By the last suspension.
  WhatIfFigures figures_;
  std::string first_refusal_;
  int64_t surely_dropped_before_ = 0;  // A call: leases of eager runs that are dropped here.
  int64_t unsure_suspensions_ = 0;
  int64_t unwarmed_ = 0;      // Warms that failed, other than for lack of room,
  std::string why_unwarmed_;  // the first for this.
};

}  // namespace coppice
