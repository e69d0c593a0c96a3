// The flight recorder's public face.

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/graphs/case_file.h"
#include "coppice/graphs/flight_recorder.h"

#include "graphs/case/save_case.h"
#include "graphs/flight/lane_recorder.h"
#include "graphs/parts/session_parts.h"

namespace coppice {

using internal::Lane;
using internal::LaneRecorder;

absl::Status SessionRecorder::Start(const RecorderOptions& options) {
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  return parts_.StartRecorders(options);
}

void SessionRecorder::Stop() {
  parts_.StopRecorders();
}

bool SessionRecorder::running() const {
  const std::lock_guard lock(parts_.lane(0).mutex);
  return parts_.lane(0).recorder() != nullptr;
}

absl::Status SessionRecorder::Save(const std::string& path,
                                   std::string_view why,
                                   const SaveCaseOptions& options) const {
  COPPICE_RETURN_IF_ERROR(parts_.CheckLane("SessionRecorder::Save", options.lane));
  if (options.package_bytes_max < 0 || options.static_bytes_max < 0)
    return InvalidArgument(
        "SessionRecorder::Save: package_bytes_max is {} and static_bytes_max {}; "
        "give 0 or more",
        options.package_bytes_max, options.static_bytes_max);
  Lane& lane = parts_.lane(options.lane);
  Case made;
  {
    const std::lock_guard lock(lane.mutex);
    if (lane.recorder() == nullptr)
      return FailedPrecondition(
          "SessionRecorder::Save: nothing is recorded; set SessionOptions::recorder.ring_bytes, or "
          "call Start");
    absl::Status error = parts_.sticky.Get();
    if (error.ok()) {
      absl::Status waited = parts_.sticky.Note(lane.order().Wait());
      error = parts_.sticky.Get();
      // What is no fault of the device keeps copies from arriving.
      if (error.ok()) COPPICE_RETURN_IF_ERROR(waited);
    }
    COPPICE_ASSIGN_OR_RETURN(made, internal::CaseOf(parts_, lane, why, error, options));
  }
  return WriteCase(made, path);
}

}  // namespace coppice
