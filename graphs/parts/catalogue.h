// The catalogue: the programs and bindings that a session knows. Private to graphs/.
//
// Programs live as long as the catalogue, those that were unregistered without name and callable; a
// binding lives until kEndedBindingsMax more have ended after it did. Static inputs that keep
// moving are *demoted*: from then on every call copies them, and their address is in no key. A
// version that no binding has any more is *retired*: its nodes are of no use, and it goes when they
// are gone.
//
// Units: bytes. Threads: any; one lock, never held while anything else is called but the trace and
// the log.

#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"
#include "coppice/graphs/session_options.h"
#include "coppice/runtime/driver.h"

#include "graphs/lane/window_map.h"
#include "graphs/parts/covered_bytes.h"
#include "graphs/program/program.h"
#include "graphs/trace/tracer.h"

namespace coppice::internal {

// Ends of bindings after which one that stayed ended is gone.
inline constexpr size_t kEndedBindingsMax = 1024;

class Catalogue {
 public:
  // All outlive the catalogue; `tracer` may be null.
  Catalogue(const Driver& driver,
            const SessionOptions& options,
            const WindowMap& windows,
            Tracer* tracer)
      : driver_(driver), options_(options), windows_(windows), tracer_(tracer) {}

  // As Session's methods of these names; `dry_run` may be null.
  absl::StatusOr<const Program*> Register(ProgramSpec spec,
                                          Callable callable,
                                          Callable dry_run = nullptr);
  // The same of a program whose steps are known.
  absl::StatusOr<const Program*> RegisterSource(ProgramSpec spec,
                                                std::unique_ptr<const StepSource> steps);
  const Program* Find(const std::string& name, const std::string& variant) const;
  // Those that are registered, in order. Allocates.
  std::vector<const Program*> programs() const;
  absl::StatusOr<const Binding*> Bind(const Program& program, std::span<const Tensor> statics);

  // Ends the program: its name is free, its bindings have ended, no call that takes a lane's lock
  // from here on runs it. Errors: kInvalidArgument another catalogue's; kFailedPrecondition it was
  // unregistered before.
  absl::Status Unregister(const Program& program);
  // Destroys the callable of an unregistered program. Requires: nobody runs it any more.
  static void DropCallable(const Program& program) {
    program.state_.callable = nullptr;
    program.state_.dry_run = nullptr;
  }
  // Makes a program as it was registered, but for its bindings: no static input is demoted, no
  // extent seen. Errors: as Unregister.
  absl::Status Forget(const Program& program);

  // Ends a binding. Requires: one of this catalogue, that is not gone.
  void Unbind(const Binding& binding);

  // The tensors of the binding of this number; none if it has ended. What they show stays there
  // while the caller holds the lock of a lane, for which Session::Unbind waits. O(bindings),
  // allocates.
  std::vector<Tensor> TensorsOf(uint64_t binding) const;

  // Retired versions, each with its program. One that was taken is nobody's any more; those that
  // still have nodes are to be given back.
  struct Retired {
    const Program* program = nullptr;
    std::unique_ptr<const StaticVersion> version;
    bool used = false;  // For whoever takes it.
  };
  std::list<Retired> TakeRetired();
  void ReturnRetired(std::list<Retired>& retired);  // Throws nothing.
  // Those not taken, and how often a version was retired or given back. Whoever holds a lane's lock
  // may use them until it gives that back, because whoever takes them waits for it before they go.
  std::vector<std::pair<const Program*, const StaticVersion*>> retired() const;
  int64_t retirements() const { return retirements_.load(std::memory_order_relaxed); }

  // Copies these static inputs from here on, as far as they can be, because they move too often:
  // bindings have other versions then. Returns how many.
  int Demote(const Program& program, std::span<const size_t> inputs);

  // Of the programs whose specs name none.
  Generator& generator() const { return *generator_; }

  bool gated(GateMode mode) const {
    return mode == GateMode::kOn || (mode == GateMode::kSession && options_.gate);
  }

 private:
  // A program, and what its static inputs make of their addresses.
  struct Entry {
    std::unique_ptr<const Program> program;
    std::vector<bool> demoted;  // Static inputs that are copied because they moved too often.
    CoveredBytes statics;       // By tensors of its bindings; only with a trace.
  };

  // Of one program: the addresses of a binding and the driver's ids of their allocations; the
  // addresses of a version and what it copies.
  using BindingKey = std::tuple<const Program*, std::vector<DeviceAddress>, std::vector<uint64_t>>;
  using BindingMap = std::map<BindingKey, std::unique_ptr<Binding>>;
  using VersionKey = std::tuple<const Program*, std::vector<DeviceAddress>, std::vector<int>>;
  struct Version {
    std::unique_ptr<const StaticVersion> version;
    int64_t bindings = 0;  // That have it.
  };

  absl::StatusOr<const Program*> Add(ProgramSpec spec, Program::Work work);
  // The driver's allocation ids of the tensors, if they are checked.
  absl::StatusOr<std::vector<uint64_t>> AllocationIds(const std::vector<Tensor>& tensors) const;

  // Tells the trace, if there is one, that the tensors of a binding are bound, or are no more.
  void TellStatics(const Binding& binding, bool bound);

  // Whether the program is one that is registered here. `where` is for messages.
  absl::Status CheckOwn(const char* where, const Program& program) const;

  // Under the lock.
  Entry& EntryOf(const Program& program) {
    return entries_[static_cast<size_t>(program.place.number)];
  }
  static absl::StatusOr<std::unique_ptr<const StaticVersion>> VersionOf(
      const Entry& entry, const std::vector<Tensor>& tensors);
  // Gives the binding this version, and retires the one it had if nobody else has it.
  void SetVersion(Binding& binding, std::unique_ptr<const StaticVersion> version);
  void ReplaceVersion(Binding& binding, Version* by);  // Null: by none.
  void End(BindingMap::iterator binding);              // Of a version. The last that goes for it.
  // Gives each binding of the program the version that its static inputs make now.
  void UpdateVersions(const Entry& entry);
  static bool CanDemote(const Entry& entry, size_t index);

  const Driver& driver_;
  const SessionOptions& options_;
  const WindowMap& windows_;
  Tracer* const tracer_;
  const std::unique_ptr<Generator> generator_ = std::make_unique<Generator>();
  mutable std::mutex mutex_;  // Guards what is below.
  std::vector<Entry> entries_;
  CoveredBytes statics_;  // By tensors of all bindings; only with a trace.
  BindingMap bindings_;
  uint64_t bindings_made_ = 0;
  std::map<VersionKey, Version> versions_;
  std::deque<std::pair<BindingMap::iterator, uint64_t>> ended_;  // With the number of the end.
  uint64_t ends_ = 0;
  std::list<Retired> retired_;
  std::atomic<int64_t> retirements_{0};
};

}  // namespace coppice::internal
