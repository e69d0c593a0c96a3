// What a callable sees of its runs, and of eager ones, with or without a script. Private to
// graphs/.
//
// Threads: one at a time. An eager run is under its lane's lock; a recording need not be.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/staging.h"

#include "graphs/lane/lane_memory.h"
#include "graphs/node/allocation_script.h"
#include "graphs/node/input_layout.h"
#include "graphs/program/program.h"

namespace coppice::internal {

// What every run of a callable needs to know about its call.
struct RunRequest {
  const Program* program = nullptr;
  const InputLayout* layout = nullptr;
  std::span<const int64_t> extents;  // What the program computes at.
  std::span<const int64_t> scalars;  // In spec order.
  int64_t foreign_scalar = 0;        // What the program sees of those that are not in the key.
  CuStream stream = nullptr;
  DeviceAddress workspace = 0;
  int64_t workspace_bytes = 0;
  const StagingKernels* staging = nullptr;  // Null: the program packs no output.
};

// Errors: kInvalidArgument a break without a step.
absl::Status CheckStep(const EagerStep& step);

// The view of the call, and the rule that each output is asked for once.
class RunContext : public CallContext {
 public:
  absl::StatusOr<Tensor> AllocateOutput(int index) final;
  using CallContext::Allocate;
  absl::StatusOr<DeviceAddress> Allocate(int64_t bytes, std::string_view label) final;
  absl::Status AliasOutput(int index, DeviceAddress address) final;

  // The outputs, once the callable has returned: packs rectangles, and copies what may not stay an
  // alias. Errors: kFailedPrecondition if an output is missing; otherwise the driver's.
  absl::StatusOr<std::vector<Tensor>> TakeOutputs();

 protected:
  RunContext(const Driver& driver, LaneMemory& memory, const RunRequest& request, Phase phase);

  // Memory for a temporary, an output, or the copy that an output is of a staged input.
  virtual absl::StatusOr<DeviceAddress> AllocateBytes(const ScriptEvent& request) = 0;
  // An output is an input that lies where it stays.
  virtual void NoteAlias(const ScriptEvent& alias) = 0;
  // Makes the copy that an output is of a staged input; on the stream, unless a run has none.
  virtual absl::Status CopyBytes(DeviceAddress target, DeviceAddress source, int64_t bytes);

  // Refuses to free a rectangle, which the run packs at its end. Errors: kInvalidArgument.
  absl::Status CheckFree(DeviceAddress address) const;

  // Marks a copied input at `address` as freed, `wanted` if it is one, and returns its index in the
  // spec; -1 if there is none that was not.
  int TakeInputToFree(DeviceAddress address, int wanted = -1);

  LaneMemory& memory_;
  const Program& program_;
  const ProgramSpec& spec_;

 private:
  struct InputAlias {
    int output = 0;
    int input = 0;
    Tensor source;
  };

  // The output if it may still be set.
  absl::StatusOr<std::optional<Tensor>*> FindUnset(const char* where, int index);
  absl::Status PlaceAlias(const InputAlias& alias);
  absl::StatusOr<DeviceAddress> AllocateFor(int output, const Tensor& tensor);
  absl::Status PackRectangle(int output, const RaggedSpec& sequences);

  const InputLayout& layout_;
  std::vector<std::optional<Tensor>> outputs_;
  std::vector<Tensor> static_outputs_;  // Address 0 for a pool output.
  std::vector<InputAlias> aliases_;
  std::vector<bool> freed_;  // Per input.
  const StagingKernels* const staging_;
};

// Memory comes from the lane's eager window.
class EagerContext final : public RunContext {
 public:
  // With `script`, writes the allocations there.
  EagerContext(const Driver& driver,
               LaneMemory& memory,
               const RunRequest& request,
               Phase phase,
               AllocationScript* script)
      : RunContext(driver, memory, request, phase), script_(script) {}
  // Temporaries die with the run, in stream order; so do outputs that were not taken.
  ~EagerContext() override;

  absl::Status Free(DeviceAddress address) override;
  absl::Status Break(EagerStep step) override;

  // Hands over the bytes of the outputs, which the caller frees.
  void KeepOutputs(std::vector<DeviceAddress>& allocations);

 private:
  struct Allocation {
    int buffer = 0;
    int output = -1;
  };

  absl::StatusOr<DeviceAddress> AllocateBytes(const ScriptEvent& request) override;
  void NoteAlias(const ScriptEvent& alias) override { Note(alias); }
  void Note(ScriptEvent event);

  AllocationScript* const script_;
  std::unordered_map<DeviceAddress, Allocation> live_;
  std::vector<DeviceAddress> parked_;  // Freed, but a forked stream may still be using them.
  int buffer_count_ = 0;
};

}  // namespace coppice::internal
