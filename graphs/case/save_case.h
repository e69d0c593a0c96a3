// The rings of a lane as a case. Private to graphs/.

#pragma once

#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/case_file.h"

#include "graphs/lane/lane.h"
#include "graphs/parts/session_parts.h"

namespace coppice::internal {

// What the lane's recorder has. `error` is the device's sticky error; if there is none, the lane's
// work has run, and static inputs may be read. Under the lane's lock. Requires: the lane has a
// recorder. Errors: the driver's.
absl::StatusOr<Case> CaseOf(const SessionParts& parts,
                            Lane& lane,
                            std::string_view why,
                            const absl::Status& error,
                            const SaveCaseOptions& options);

}  // namespace coppice::internal
