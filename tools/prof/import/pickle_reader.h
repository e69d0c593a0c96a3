// Reads a pickle by the opcodes that PyTorch's memory viewer reads, and no others: none of them
// runs anything, and what they make is lists, dicts, tuples, numbers and texts.
//
// Threads: pure functions.

#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "tools/prof/import/foreign_value.h"

namespace coppice {

// Reads `bytes` into `tree`; `name` stands for the file in messages. The bytes behind the end are
// passed over, as Python does.
//
// Errors: kInvalidArgument, `name: byte N: what; what to do`: an opcode of another kind, a protocol
// outside of 2 to 5, an end too early, a value that is not there, too much memory.
// Cost: O(bytes); at most ForeignTree::kBytesMax besides.
absl::StatusOr<ForeignValue> ReadPickle(std::string_view bytes,
                                        const std::string& name,
                                        ForeignTree& tree);

// Reads JSON of the same values. Errors: as above.
absl::StatusOr<ForeignValue> ReadForeignJson(std::string_view text,
                                             const std::string& name,
                                             ForeignTree& tree);

}  // namespace coppice
