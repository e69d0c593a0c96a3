// Runs whose requests are answered from a plan, in the order of their script. Private to graphs/.
//
// Threads: one at a time; no lock is needed.

#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"
#include "coppice/runtime/driver.h"

#include "graphs/capture/segmented_capture.h"
#include "graphs/node/allocation_script.h"
#include "graphs/record/run_context.h"

namespace coppice::internal {

// Whether `status` is a departure from a script, which PlannedContext found, and not the driver's
// lack of a device, which has the same code.
bool IsDeparture(const absl::Status& status);

// What a request may ask for, where the script has so many bytes.
enum class RequestSize : uint8_t {
  kSame,    // A program makes the same requests at equal extents.
  kAtMost,  // It runs at smaller ones.
};

class PlannedContext : public RunContext {
 public:
  absl::Status Free(DeviceAddress address) final;

  // Whether the run, which returned `ran`, made every request of its script and no other.
  // Errors: kUnavailable it departed from it; kFailedPrecondition it failed otherwise.
  absl::Status Finish(const absl::Status& ran) const;

 protected:
  // All outlive it. The offsets of `plan` begin at `base`.
  PlannedContext(const Driver& driver,
                 LaneMemory& memory,
                 const RunRequest& request,
                 const AllocationScript& script,
                 const Plan& plan,
                 DeviceAddress base,
                 RequestSize request_size = RequestSize::kSame)
      : RunContext(driver, memory, request, Phase::kRecord),
        script_(script),
        plan_(plan),
        base_(base),
        request_size_(request_size) {}

  // The run is at its next event, whichever that is.
  virtual absl::Status Reach() = 0;
  // That event is this one.
  virtual void Note(const ScriptEvent& event) = 0;

  // The next event of the script if it is of `kind`.
  absl::StatusOr<const ScriptEvent*> Next(ScriptEvent::Kind kind);
  DeviceAddress AddressOf(const ScriptEvent& event) const;
  int64_t event() const { return static_cast<int64_t>(cursor_); }  // The next one.
  const AllocationScript& script() const { return script_; }

 private:
  absl::Status Depart(const char* how);
  absl::StatusOr<DeviceAddress> AllocateBytes(const ScriptEvent& request) final;
  void NoteAlias(const ScriptEvent&) final {}  // Its script has none.

  const AllocationScript& script_;
  const Plan& plan_;
  const DeviceAddress base_;
  const RequestSize request_size_;
  size_t cursor_ = 0;
  absl::Status departure_;
};

// Which nodes of the graph a capture had added by each event of the script.
using NodeMarks = std::vector<std::vector<CuGraphNode>>;

// A run under capture.
class CaptureContext final : public PlannedContext {
 public:
  // With `with_marks`, asks `capture` at every event for the nodes so far.
  CaptureContext(const Driver& driver,
                 LaneMemory& memory,
                 const RunRequest& request,
                 const AllocationScript& script,
                 const Plan& plan,
                 DeviceAddress base,
                 SegmentedCapture& capture,
                 bool with_marks)
      : PlannedContext(driver, memory, request, script, plan, base),
        capture_(capture),
        with_marks_(with_marks) {}

  absl::Status Break(EagerStep step) override;

  NodeMarks TakeMarks() { return std::move(marks_); }

 private:
  absl::Status Reach() override;
  void Note(const ScriptEvent&) override {}

  SegmentedCapture& capture_;
  const bool with_marks_;
  NodeMarks marks_;
};

}  // namespace coppice::internal
