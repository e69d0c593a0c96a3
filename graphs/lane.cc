// Handing a lane from one stream to another.

#include "graphs/lane.h"

#include "coppice/base/status.h"

namespace coppice::internal {

absl::Status Lane::SwitchTo(CuStream stream) {
  if (last_stream != nullptr) {
    COPPICE_RETURN_IF_ERROR(handoff.Record(last_stream));
    COPPICE_RETURN_IF_ERROR(handoff.MakeWait(stream));
    ++stats.stream_switches;
  }
  last_stream = stream;
  return absl::OkStatus();
}

absl::Status Lane::Join(CuStream stream) {
  if (handoff.Record(stream).ok() && handoff.MakeWait(last_stream).ok()) return absl::OkStatus();
  return WaitForStream(stream);
}

absl::Status Lane::Wait() const {
  if (last_stream == nullptr) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(handoff.Record(last_stream));
  return handoff.Synchronize();
}

absl::Status Lane::WaitForStream(CuStream stream) const {
  const RelaxedCaptureScope relaxed(driver);
  return driver.Call<&DriverTable::StreamSynchronize>(stream);
}

}  // namespace coppice::internal
