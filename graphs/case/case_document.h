// The manifest of a case. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include <string>

#include "absl/status/statusor.h"

#include "coppice/graphs/case_file.h"

namespace coppice::internal {

// All but the tensors and the package.
std::string ManifestOf(const Case& value);

// Errors: as ParseCase.
absl::StatusOr<Case> ParseCaseManifest(std::string_view text, const std::string& name);

// That every tensor that the case names is there, and is what its call says. Errors: the same.
absl::Status CheckTensors(const Case& value, const std::string& name);

}  // namespace coppice::internal
