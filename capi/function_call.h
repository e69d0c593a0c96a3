// What a function of a `call` step is told, in C. Private to capi/.
//
// Threads: plain values, but for what says otherwise.

#pragma once

#include <compare>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

#include "coppice/base/tensor.h"
#include "coppice/coppice.h"
#include "coppice/graphs/package_program.h"

#include "capi/counted.h"

namespace coppice::capi {

// Options as texts, in the order of their names.
struct OptionTexts {
  explicit OptionTexts(const FunctionOptions& options);

  std::vector<std::string> names;
  std::vector<std::string> values;
  friend auto operator<=>(const OptionTexts&, const OptionTexts&) = default;
};

// A function of `call` steps of a session, for as long as a graph may run it.
class StepFunctionRecord : public Counted {
 public:
  StepFunctionRecord(std::string name,
                     coppice_step_function run,
                     User user,
                     const coppice_session& session)
      : name_(std::move(name)), run_(run), user_(std::move(user)), session_(session) {}

  const std::string& name() const { return name_; }

  // Calls `release` with the caller's `user` when this ends; null: nothing.
  void ReleaseWith(void (*release)(void*)) { user_.ReleaseWith(release); }

  // Options that live as long as this; equal ones once. Any thread.
  const OptionTexts* Keep(OptionTexts options);

  // Calls the function with these, and returns what it says. The tensors are copied. Any thread.
  absl::Status Call(std::span<const Tensor> inputs,
                    std::span<const Tensor> outputs,
                    const OptionTexts& options,
                    CuStream stream,
                    DLDevice device) const;

 private:
  const std::string name_;
  const coppice_step_function run_;
  User user_;
  const coppice_session& session_;
  std::mutex mutex_;
  std::set<OptionTexts> options_;  // Guarded by mutex_.
};

// Queues `function` on the call's stream. `device` and `function` outlive every launch and replay
// of it. Errors: kFailedPrecondition a GPU; kInvalidArgument more tensors or options than fit.
absl::Status LaunchHostOperation(coppice_device& device,
                                 StepFunctionRecord& function,
                                 const FunctionCall& call);

}  // namespace coppice::capi
