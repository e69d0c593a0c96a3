// What a program claims about a size that is padded: what the padding may hold, and how equal the
// live outputs are then to those of a run at the real size.
//
//   real size 3, padded to 5     x  1 2 3 # #      # is padding
//                                y  4 8 9 . .      4 8 9 are live: equal, as the claim says
//
// A program that multiplies padding by 0 stands finite padding and no NaN; one that adds all of an
// axis up stands 0 there and nothing else; one that splits a mean into as many parts as the padded
// size says gives another rounding. Nobody takes a claim on trust: run the program at both sizes,
// fill the padding as badly as the claim allows (graphs/poison.h), and compare.
//
// These words mean the same in C, Python, packages and the command:
//
//   exact            nothing is claimed: never padded
//   any, masked      any bits, of every dtype; "masked" is said of kernels that skip the padding
//   row_independent  any bits in floats; in integers and bools, which may be indices, the fill
//   finite           any finite values in floats; in integers and bools the fill
//   fill             what the input's fill says and nothing else
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

// What the elements beyond the real size may hold, as above. Of the first three each allows what
// those after it allow; the last lies between the first and the second.
enum class PaddingContents : uint8_t {
  kAny,
  kFinite,
  kFill,
  kRowIndependent,  // Of an input with floats it is kAny, of another kFill.
};
// Its word.
const char* NameOf(PaddingContents contents);

// How equal two results are: equal bits, or within absolute + relative * |value|.
struct Equality {
  bool bits = true;     // Bit for bit; the next two are not read then.
  double absolute = 0;  // How far apart two values may be, finite and >= 0.
  double relative = 0;  // The same as a part of the value.

  friend bool operator==(const Equality&, const Equality&) = default;
};

// A claim about one size.
struct PaddingClaim {
  PaddingContents padding = PaddingContents::kFill;  // What the padding may hold.
  Equality equal;                                    // How equal live outputs are then.

  friend bool operator==(const PaddingClaim&, const PaddingClaim&) = default;
};

// What "finite", "finite:ABSOLUTE" or "finite:ABSOLUTE:RELATIVE" claims, or any other word above;
// nothing of "exact". Errors: kInvalidArgument with the words that there are.
absl::StatusOr<std::optional<PaddingClaim>> ParseClaim(std::string_view text);

// The two in words: "any bits, live outputs equal bit for bit". Allocates.
std::string DescribeClaim(const PaddingClaim& claim);

// What holds of results that differ by both: bits if both ask for them, else tolerances added up.
Equality Joined(const Equality& a, const Equality& b);

// Whether `actual` is as equal to `expected` as `equal` asks for; both are the bits of one element,
// the upper ones 0. Within a tolerance integers count as numbers, each part of a complex number by
// itself, a NaN agrees with every NaN, an infinity with itself, and a bool with its own bits alone.
bool Agree(const Equality& equal, DType dtype, uint64_t expected, uint64_t actual);

// Index of the first element in which two dense tensors of `dtype` do not agree. Requires: as many
// bytes, of whole elements (checked).
std::optional<int64_t> FindDisagreement(const Equality& equal,
                                        DType dtype,
                                        std::span<const std::byte> expected,
                                        std::span<const std::byte> actual);

}  // namespace coppice
