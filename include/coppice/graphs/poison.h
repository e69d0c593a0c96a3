// What tests put into padding in place of its fill: as bad as a claim allows, and nothing worse.
//
// A program holds its claim if its live outputs are as equal as claimed to those of a run at the
// real size, whatever the padding holds that the claim allows. No finite number of tries proves
// that; these three refute what is wrong in practice. A NaN shows whatever computes with padding, a
// large number what adds or compares it, noise of both signs what compares padding with padding:
// the least of it, or differences that vanish where all of it is equal.
//
//   contents   kNan                  kPattern           kNoise
//   any        a NaN, the top bit    0x5A in each byte  bits that differ from element to element
//   finite     the least number      0x5A in each byte  numbers of both signs, in floats
//   fill       its fill in all cases
//
// Units: elements. Threads: pure functions.

#pragma once

#include <cstdint>

#include "coppice/base/padding_claim.h"
#include "coppice/base/tensor.h"

namespace coppice {

// What poison mode writes in place of every fill that the claim lets it.
enum class Poison : uint8_t {
  kOff,      // The fill stays.
  kNan,      // A quiet NaN for floats and both parts of complex numbers. Of finite ones the least;
             // for integers and bools the top bit alone, the least signed number.
  kPattern,  // 0x5A in every byte: a large finite float, a large positive integer.
  kNoise,    // Another one in each element; in each call of a session, too.
};

// Whether padding of this dtype may hold anything but its fill.
bool MayPoison(PaddingContents contents, DType dtype);

// Bits of one element under kNan or kPattern; 0 for the others. Requires: MayPoison (checked), but
// for kOff.
uint64_t PoisonPattern(Poison poison,
                       DType dtype,
                       PaddingContents contents = PaddingContents::kAny);

// Bits of element `index` >= 0 of a dense tensor; under kNoise drawn from `seed`, so that all who
// ask get the same: any bits, or finite floats of either sign from 2 up to the largest there is.
// Requires: as PoisonPattern.
uint64_t PoisonElement(
    Poison poison, DType dtype, PaddingContents contents, uint64_t seed, int64_t index);

// Bits that noise has set and clear in each float, which make it large and finite; -1: none.
struct NoiseBits {
  int8_t set = -1;
  int8_t clear = -1;
};
NoiseBits NoiseBitsOf(DType dtype, PaddingContents contents);

}  // namespace coppice
