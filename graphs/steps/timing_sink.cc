// Two events per launch that is timed.

#include "graphs/steps/timing_sink.h"

#include "coppice/base/status.h"

namespace coppice::internal {

absl::Status TimingSink::Launch(const KernelLaunch& launch, std::span<const Touch> touched) {
  if (launch.choice < 0) return plain_.Launch(launch, touched);
  if (used_ == timed_.size()) {
    COPPICE_ASSIGN_OR_RETURN(Event begin, Event::Create(driver_, Event::Timing::kOn));
    COPPICE_ASSIGN_OR_RETURN(Event end, Event::Create(driver_, Event::Timing::kOn));
    timed_.push_back({.begin = std::move(begin), .end = std::move(end)});
  }
  Timed& timed = timed_[used_];
  timed.choice = static_cast<size_t>(launch.choice);
  COPPICE_RETURN_IF_ERROR(timed.begin.Record(stream_));
  COPPICE_RETURN_IF_ERROR(plain_.Launch(launch, touched));
  COPPICE_RETURN_IF_ERROR(timed.end.Record(stream_));
  ++used_;
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> TimingSink::TakeTimes(size_t count) {
  std::vector<double> times(count);
  COPPICE_RETURN_IF_ERROR(SynchronizeStream(driver_, stream_));
  for (const Timed& timed : std::span(timed_).first(std::exchange(used_, 0))) {
    COPPICE_ASSIGN_OR_RETURN(const double us, timed.end.ElapsedUs(timed.begin));
    times[timed.choice] += us;
  }
  return times;
}

}  // namespace coppice::internal
