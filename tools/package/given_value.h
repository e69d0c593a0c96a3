// What one --input, --static, --extent or --policy of `coppice package` says.
//
//   x=@x.npy              a file
//   n=5   n=5,33,64       a number, or one for each set of inputs
//   x=random:7            drawn from the seed 7: floats in [-1, 1), integers 0 or 1
//   x=random:7:0:512      from another range
//   lens=random:7:1:n+1   from one whose end is an expression of sizes
//   kv=zeros
//
// Units: elements. Threads: pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "tools/package/host_array.h"

namespace coppice {

struct GivenValue {
  enum class Kind : uint8_t { kFile, kNumbers, kRandom, kZeros };

  std::string name;
  Kind kind = Kind::kZeros;
  std::string file;
  std::vector<int64_t> numbers;  // At least one.
  DrawnRange range;
  std::string high;  // Not empty: the expression that the end of the range is.
};

// Errors, of all: kInvalidArgument  quotes the text, and says what to give.
absl::StatusOr<GivenValue> ParseGivenValue(const std::string& text);

// Of which only kNumbers will do.
absl::StatusOr<GivenValue> ParseGivenNumbers(const std::string& text);

// Splits "name=text" at its first '='.
absl::StatusOr<std::pair<std::string, std::string>> SplitGiven(const std::string& text,
                                                               const char* forms);

}  // namespace coppice
