// The memory of a ring.

#include "graphs/flight/lane_recorder.h"

#include <random>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/base/units.h"

namespace coppice::internal {
namespace {

constexpr int64_t kMarkBytes = 8;
constexpr unsigned char kMark = 0xA5;

uint64_t DrawCanary() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

absl::StatusOr<DeviceMemory> MakeMark(const Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory mark, DeviceMemory::Create(driver, kMarkBytes));
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver));
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemsetD8Async>(
      mark.address(), kMark, size_t{kMarkBytes}, stream.handle()));
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return mark;
}

}  // namespace

LaneRecorder::LaneRecorder(const RecorderOptions& options,
                           HostMemory memory,
                           std::optional<DeviceMemory> mark,
                           const CopyBudget& budget)
    : options_(options),
      is_plain_(!options.outputs && options.static_bytes_max == 0 && !budget.has_limit()),
      memory_(std::move(memory)),
      mark_(std::move(mark)),
      ring_(
          {memory_.data(), static_cast<size_t>(memory_.bytes())}, options.calls_max, DrawCanary()),
      budget_(budget) {}

absl::StatusOr<std::unique_ptr<LaneRecorder>> LaneRecorder::Create(const Driver& driver,
                                                                   const RecorderOptions& options,
                                                                   const CopyBudget& budget) {
  COPPICE_ASSIGN_OR_RETURN(
      HostMemory memory,
      HostMemory::Create(driver, AlignUp(options.ring_bytes, FlightEntry::kAlignment)));
  std::optional<DeviceMemory> mark;
  if (options.outputs) {
    COPPICE_ASSIGN_OR_RETURN(DeviceMemory made, MakeMark(driver));
    mark.emplace(std::move(made));
  }
  return std::unique_ptr<LaneRecorder>(
      new LaneRecorder(options, std::move(memory), std::move(mark), budget));
}

}  // namespace coppice::internal
