// A package with another manifest: the same files, packed anew.
//
// Units: bytes. Threads: one at a time per path.

#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "coppice/base/padding_claim.h"
#include "coppice/runtime/package.h"

namespace coppice {

// The manifest as JSON, to be changed.
nlohmann::json ManifestOf(const package::Package& package);

// Writes a zip at `zip_path` with this manifest and the files of `package`. Errors: as
// package::Pack, and of files that cannot be written.
absl::Status PackWith(const package::Package& package,
                      const nlohmann::json& manifest,
                      const std::string& zip_path);

// Writes a signature of the manifest into the package at its own path, a zip or a folder. Errors:
// as package::Pack, and of files that cannot be written; nothing was changed then.
absl::Status WriteSignature(const package::Package& package, std::string_view signature);

// Writes what the symbols of a program claim into the package at its own path, a zip or a folder;
// nothing: no claim. Errors: kDataLoss; nothing was changed then.
absl::Status WriteClaims(const package::Package& package,
                         const std::string& program,
                         const std::map<std::string, std::optional<PaddingClaim>>& claims);

}  // namespace coppice
