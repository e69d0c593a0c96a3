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

}  // namespace coppice::internal
