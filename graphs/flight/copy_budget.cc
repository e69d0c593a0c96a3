// Two rounds of copies between two events each.

#include "graphs/flight/copy_budget.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

namespace coppice::internal {
namespace {

constexpr int kCopies = 16;  // Per round, so that the start of a round hardly counts.
constexpr int64_t kSmallBytes = 8;
constexpr int64_t kLargeBytes = int64_t{1} << 20;
constexpr int kRounds = 3;  // The shortest counts: others may use the device.

struct CopyRound {
  Stream stream;
  Event begin;
  Event end;
  DeviceMemory from;
  HostMemory to;
};

absl::StatusOr<double> NsPerCopy(const Driver& driver, const CopyRound& round, int64_t bytes) {
  double least_us = 0;
  for (int i = 0; i < kRounds; ++i) {
    COPPICE_RETURN_IF_ERROR(round.begin.Record(round.stream.handle()));
    for (int copy = 0; copy < kCopies; ++copy)
      COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemcpyDtoHAsync>(
          round.to.data(), round.from.address(), static_cast<size_t>(bytes),
          round.stream.handle()));
    COPPICE_RETURN_IF_ERROR(round.end.Record(round.stream.handle()));
    COPPICE_RETURN_IF_ERROR(round.stream.Synchronize());
    COPPICE_ASSIGN_OR_RETURN(const double us, round.end.ElapsedUs(round.begin));
    least_us = i == 0 ? us : std::min(least_us, us);
  }
  return least_us * 1000 / kCopies;
}

}  // namespace

absl::StatusOr<CopyCost> MeasureCopies(const Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(Event begin, Event::Create(driver, Event::Timing::kOn));
  COPPICE_ASSIGN_OR_RETURN(Event end, Event::Create(driver, Event::Timing::kOn));
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory from, DeviceMemory::Create(driver, kLargeBytes));
  COPPICE_ASSIGN_OR_RETURN(HostMemory to, HostMemory::Create(driver, kLargeBytes));
  const CopyRound round{.stream = std::move(stream),
                        .begin = std::move(begin),
                        .end = std::move(end),
                        .from = std::move(from),
                        .to = std::move(to)};
  COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemsetD8Async>(
      round.from.address(), static_cast<unsigned char>(0), static_cast<size_t>(kLargeBytes),
      round.stream.handle()));
  COPPICE_ASSIGN_OR_RETURN(const double small, NsPerCopy(driver, round, kSmallBytes));
  COPPICE_ASSIGN_OR_RETURN(const double large, NsPerCopy(driver, round, kLargeBytes));
  return CopyCost{
      .ns_per_copy = small,
      .ns_per_byte = std::max(0.0, large - small) / static_cast<double>(kLargeBytes - kSmallBytes)};
}

}  // namespace coppice::internal
