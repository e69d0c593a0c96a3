// Text files whole, and what messages quote of them.
//
// Units: bytes. Threads: pure functions, apart from the file system.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/units.h"

namespace coppice {

inline constexpr int64_t kTextFileBytesMax = kGiB;

// Reads the file at `path`; `wanted` says in messages what belongs there ("a trace file").
//
// Errors: kInvalidArgument  the file is missing, a directory, unreadable or larger than
//                           kTextFileBytesMax.
absl::StatusOr<std::string> ReadTextFile(const std::string& path, const char* wanted);

// Writes `text` to the file at `path`, over what is there.
//
// Errors: kFailedPrecondition  the file cannot be opened or not be written to its end.
absl::Status WriteTextFile(const std::string& path, std::string_view text);

// Takes the first line off `text`, without its LF or CRLF.
std::string_view TakeLine(std::string_view& text);

// `text` in quotes, printable and short enough for one line of a message.
std::string Quote(std::string_view text);

}  // namespace coppice
