// What tests put into padding instead of its fill: the worst values that a claim allows.
//
// A claim is right if, for all allowed values in the padding, live outputs are as equal as claimed
// to those of a run at the real size. No finite number of tests proves that, but these three find
// wrong claims in practice. A NaN shows code that computes with padding. A large number shows code
// that adds or compares padding. Noise of both signs shows code that compares padding with padding,
// such as its minimum, or differences that are 0 if all padding is equal.
//
//   contents   kNan                  kPattern           kNoise
//   any        a NaN, the top bit    0x5A in each byte  bits that differ from element to element
//   finite     the lowest number     0x5A in each byte  numbers of both signs, in floats
//   fill       its fill in all cases
//
// Units: elements. Threads: pure functions.

#pragma once

#include <cstdint>

#include "coppice/base/padding_claim.h"
#include "coppice/base/tensor.h"

namespace coppice {

// What is written instead of each fill, if the claim allows it.
enum class Poison : uint8_t {
  kOff,      // The fill stays.
  kNan,      // A quiet NaN in floats and in both parts of complex numbers; the lowest finite number
             // if they must be finite. In integers and bools only the top bit is set, which is the
             // lowest signed number.
  kPattern,  // 0x5A in every byte: a large finite float, a large positive integer.
  kNoise,    // Different bits in each element, and in each call of a session.
};

// Whether padding of this dtype may hold anything but its fill.
bool MayPoison(PaddingContents contents, DType dtype);

// Bits of one element under kNan or kPattern; 0 under the others. Requires: MayPoison, except for
// kOff (checked).
uint64_t PoisonPattern(Poison poison,
                       DType dtype,
                       PaddingContents contents = PaddingContents::kAny);

// Bits of element `index` >= 0 of a dense tensor. Under kNoise they are drawn from `seed`, so equal
// seeds give equal bits. If `contents` is kFinite, they are floats of either sign, from 2 up to the
// largest finite float; otherwise they are any bits. Requires: as PoisonPattern.
uint64_t PoisonElement(
    Poison poison, DType dtype, PaddingContents contents, uint64_t seed, int64_t index);

// The bit that noise sets and the bit that it clears in each float, to make it large and finite;
// -1: none.
struct NoiseBits {
  int8_t set = -1;
  int8_t clear = -1;
};
NoiseBits NoiseBitsOf(DType dtype, PaddingContents contents);

}  // namespace coppice
