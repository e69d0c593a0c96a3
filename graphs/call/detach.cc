// Outputs on their way out of a session: copies in the order of the lane, and who frees them.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/graphs/detached_outputs.h"
#include "coppice/graphs/lease.h"
#include "coppice/runtime/stream.h"

#include "graphs/call/holder.h"
#include "graphs/lane/lane.h"
#include "graphs/lane/lease.h"
#include "graphs/lane/slot.h"

namespace coppice {

struct internal::DetachedMemory {
  // Waits until the copies have been made. A dead context refuses to, and nothing runs there.
  ~DetachedMemory() {
    const RelaxedCaptureScope relaxed(driver);
    (void)copied.Synchronize().ok();
    if (free) free(address, bytes);
  }

  const Driver& driver;
  Event copied;
  std::optional<DeviceMemory> own;  // Nothing: the caller's, who frees it.
  std::function<void(DeviceAddress address, int64_t bytes)> free{};
  DeviceAddress address = 0;
  int64_t bytes = 0;
};

namespace {

using internal::DetachedMemory;
using internal::Lane;
using internal::Slot;
using Way = DetachedOutputs::Way;

// Bytes that an output takes of the copies: from its first element to its last.
int64_t SpanBytes(const DetachedOutputs::Output& output) {
  const std::optional<internal::ByteSpan> span = internal::SpanOf(output.tensor);
  return output.way == Way::kMoved || !span ? 0 : static_cast<int64_t>(span->bytes());
}

// Of a part, the other outputs are left out.
std::vector<DetachedOutputs::Output> OutputsOf(const Slot& slot, int part) {
  std::vector<DetachedOutputs::Output> outputs;
  const std::vector<OutputSpec>& specs = slot.program->spec.outputs;
  for (size_t i = 0; i < specs.size(); ++i) {
    if (part >= 0 && static_cast<int>(i) != part) {
      outputs.push_back({.tensor = {}, .way = Way::kMoved});
      continue;
    }
    Tensor tensor = internal::OutputOf(slot, i);
    tensor.made_by = 0;
    // The bytes of a static output are the caller's as well, but the next call's, too.
    const bool moved = slot.kind == Slot::Kind::kForeign && specs[i].role != OutputRole::kStatic &&
                       tensor.element_count() > 0;
    outputs.push_back({.tensor = tensor, .way = moved ? Way::kMoved : Way::kCopied});
  }
  return outputs;
}

// Memory for what does not stay where it is; null if there is nothing of that kind.
absl::StatusOr<std::unique_ptr<DetachedMemory>> MakeMemory(
    const Driver& driver,
    const std::vector<DetachedOutputs::Output>& outputs,
    DetachMemory memory) {
  int64_t bytes = 0;
  for (const DetachedOutputs::Output& output : outputs)
    bytes += AlignUp(SpanBytes(output), kBufferAlignment);
  if (bytes == 0) return nullptr;
  COPPICE_ASSIGN_OR_RETURN(Event copied, Event::Create(driver));
  std::unique_ptr<DetachedMemory> made(
      new DetachedMemory{.driver = driver, .copied = std::move(copied)});
  made->bytes = bytes;
  if (!memory.allocate) {
    COPPICE_ASSIGN_OR_RETURN(DeviceMemory own, DeviceMemory::Create(driver, bytes));
    made->own.emplace(std::move(own));
    made->address = made->own->address();
    return made;
  }
  COPPICE_ASSIGN_OR_RETURN(made->address, memory.allocate(bytes));
  made->free = std::move(memory.free);
  if (made->address % static_cast<DeviceAddress>(kBufferAlignment) == 0) return made;
  return InvalidArgument(
      "Lease::Detach: the {} bytes for the copies are at {:#x}; give an address that is a multiple "
      "of {}",
      bytes, made->address, kBufferAlignment);
}

// Copies to `next` and what follows on `stream`, and points the outputs at the copies.
absl::Status CopyOutputs(const Driver& driver,
                         CuStream stream,
                         DeviceAddress next,
                         std::vector<DetachedOutputs::Output>& outputs) {
  for (DetachedOutputs::Output& output : outputs) {
    if (output.way == Way::kMoved) continue;
    const int64_t span = SpanBytes(output);
    if (span == 0) {
      output.tensor.data = 0;
      continue;
    }
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemcpyDtoDAsync>(
        next, output.tensor.data, static_cast<size_t>(span), stream));
    output.tensor.data = next;
    next += static_cast<DeviceAddress>(AlignUp(span, kBufferAlignment));
  }
  return absl::OkStatus();
}

}  // namespace

DetachedOutputs::DetachedOutputs(std::unique_ptr<DetachedMemory> memory,
                                 std::vector<Output> outputs,
                                 int part)
    : memory_(std::move(memory)), outputs_(std::move(outputs)), part_(part) {}

DetachedOutputs::DetachedOutputs(DetachedOutputs&& other) noexcept
    : memory_(std::move(other.memory_)),
      outputs_(std::exchange(other.outputs_, {})),
      part_(other.part_) {}

DetachedOutputs& DetachedOutputs::operator=(DetachedOutputs&& other) noexcept {
  DetachedOutputs taken(std::move(other));
  std::swap(memory_, taken.memory_);
  std::swap(outputs_, taken.outputs_);
  part_ = taken.part_;
  return *this;
}

DetachedOutputs::~DetachedOutputs() = default;

const DetachedOutputs::Output& DetachedOutputs::At(int index) const {
  COPPICE_CHECK(index >= 0 && index < output_count(), "no such output");
  COPPICE_CHECK(part_ < 0 || index == part_, "the lease did not hold this output");
  return outputs_[static_cast<size_t>(index)];
}

absl::StatusOr<DetachedOutputs> Lease::Detach(CuStream stream, DetachMemory source) {
  COPPICE_RETURN_IF_ERROR(internal::CheckReader(slot_, stream));
  Slot& slot = *slot_;
  std::vector<DetachedOutputs::Output> outputs;
  std::unique_ptr<DetachedMemory> memory;
  {
    Lane& lane = *slot.lane;
    const std::lock_guard lock(lane.mutex);
    COPPICE_RETURN_IF_ERROR(internal::CheckReadable("Lease::Detach", slot));
    COPPICE_RETURN_IF_ERROR(lane.order().RefuseCapture(stream));
    outputs = OutputsOf(slot, part());
    COPPICE_ASSIGN_OR_RETURN(memory, MakeMemory(lane.driver, outputs, std::move(source)));
    const bool ordered = !lane.order().IsLast(stream) && slot.kind != Slot::Kind::kIncluded;
    if (ordered) COPPICE_RETURN_IF_ERROR(lane.order().MakeWait(stream));
    absl::Status copied =
        CopyOutputs(lane.driver, stream, memory == nullptr ? 0 : memory->address, outputs);
    if (copied.ok() && memory != nullptr) copied = memory->copied.Record(stream);
    // What was queued reads the outputs, and writes what is about to be freed.
    if (copied.ok() && ordered) copied = lane.order().Join(stream);
    if (!copied.ok()) {
      (void)SynchronizeStream(lane.driver, stream).ok();
      return copied;
    }
  }
  const int detached = part();
  Release();
  return DetachedOutputs(std::move(memory), std::move(outputs), detached);
}

}  // namespace coppice
