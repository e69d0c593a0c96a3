// What a program claims about a padded size: what the padding may hold, and how equal the live
// outputs then are to those of a run at the real size.
//
//   real size 3, padded to 5     x  1 2 3 # #      # is padding
//                                y  4 8 9 . .      4 8 9 are live: equal, as the claim says
//
// A program that multiplies padding by 0 allows finite padding, but no NaN. A program that sums an
// axis allows only 0 in its padding. A program that splits a mean into a number of parts that
// depends on the padded size rounds differently. Test each claim: run the program at both sizes,
// fill the padding with the worst values that the claim allows (graphs/poison.h), and compare.
//
// These words mean the same in C, Python, packages and the command:
//
//   exact            nothing is claimed, so the size is never padded
//   any, masked      any bits, in every dtype; write "masked" for kernels that skip the padding
//   row_independent  any bits in floats; the fill in integers and bools, which may be indices
//   finite           any finite values in floats; the fill in integers and bools
//   fill             only the input's fill
//
// Units: counts and indices in elements. Threads: pure functions on plain values.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"

namespace coppice {

// What the elements beyond the real size may hold, as above. Each of the first three allows
// everything that the ones after it allow. The fourth lies between kAny and kFinite.
enum class PaddingContents : uint8_t {
  kAny,
  kFinite,
  kFill,
  kRowIndependent,  // kAny for an input of floats, and kFill for any other input.
};
// The word of `contents` above.
const char* NameOf(PaddingContents contents);

// How equal two results are: equal bits, or within absolute + relative * |value|.
struct Equality {
  bool bits = true;     // Bit for bit; the next two are then ignored.
  double absolute = 0;  // How far apart two values may be; finite and >= 0.
  double relative = 0;  // The same, as a fraction of the value.

  friend bool operator==(const Equality&, const Equality&) = default;
};

// A claim about one size.
struct PaddingClaim {
  PaddingContents padding = PaddingContents::kFill;  // What the padding may hold.
  Equality equal;                                    // How equal the live outputs then are.

  friend bool operator==(const PaddingClaim&, const PaddingClaim&) = default;
};

// Parses a word above, or "finite:ABSOLUTE" or "finite:ABSOLUTE:RELATIVE"; the result is empty for
// "exact". Errors: kInvalidArgument with the valid words.
absl::StatusOr<std::optional<PaddingClaim>> ParseClaim(std::string_view text);

// The claim in words: "any bits, live outputs equal bit for bit". Allocates.
std::string DescribeClaim(const PaddingClaim& claim);

// The equality of results to which both apply: bit for bit if both require that, otherwise the sum
// of their tolerances.
Equality Joined(const Equality& a, const Equality& b);

// Whether `actual` agrees with `expected`, as `equal` requires. Both are the bits of one element,
// and the upper bits are 0. With a tolerance, integers are compared as numbers, and the parts of a
// complex number separately. A NaN agrees with every NaN, an infinity only with itself, and a bool
// only with equal bits.
bool Agree(const Equality& equal, DType dtype, uint64_t expected, uint64_t actual);

// Index of the first element in which two dense tensors of `dtype` do not agree. Requires: both
// have the same number of bytes, and whole elements (checked).
std::optional<int64_t> FindDisagreement(const Equality& equal,
                                        DType dtype,
                                        std::span<const std::byte> expected,
                                        std::span<const std::byte> actual);

}  // namespace coppice
