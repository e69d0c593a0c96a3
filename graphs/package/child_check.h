// What a program has to be, and at which sizes, to run inside another. Private to graphs/.
//
// Threads: pure functions.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

#include "coppice/runtime/manifest.h"

namespace coppice::internal {

// That `child` draws no seeds and reads no real sizes, which are those of a call. `path` is for the
// message. Errors: kUnimplemented which it does, and where.
absl::Status CheckChild(const std::string& path,
                        const package::Manifest& manifest,
                        const package::Program& child);

// That `child` allows these sizes, one per symbol. Errors: kInvalidArgument which it does not, or
// which of its guards fails.
absl::Status CheckChildSizes(const package::Program& child, std::span<const int64_t> sizes);

}  // namespace coppice::internal
