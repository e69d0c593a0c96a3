// Text files whole, what is written over what, and what messages quote of files.
//
// Units: bytes. Threads: pure functions, apart from the file system.

#pragma once

#include <cstdint>
#include <span>
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

// Writes `text` to the file at `path`, over what is there. A file that cannot be written to its end
// is removed, because half of one passes for a whole one.
//
// Errors: kFailedPrecondition  the file cannot be opened or not be written to its end.
absl::Status WriteTextFile(const std::string& path, std::string_view text);

// Makes the folder at `path`, and those that it lies in, unless they are there. Errors:
// kFailedPrecondition it cannot be made.
absl::Status MakeFolder(const std::string& path);

// Refuses outputs of a command that are one of its inputs or the same file twice, whatever the
// paths and links that lead there. Empty paths stand for no file. Every command that writes files
// asks this before it writes or works.
//
// Errors: kInvalidArgument naming the first such output.
absl::Status CheckOutputs(std::span<const std::string> inputs,
                          std::span<const std::string> outputs);

// Takes the first line off `text`, without its LF or CRLF.
std::string_view TakeLine(std::string_view& text);

// `text` in quotes, printable and short enough for one line of a message.
std::string Quote(std::string_view text);

}  // namespace coppice
