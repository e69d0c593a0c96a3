// What padding holds: the elements of a copied input beyond its real extents.
//
// Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

// The value of an element of the padding.
enum class FillKind : uint8_t {
  kZero,        // 0 in the input's dtype.
  kValue,       // A number, converted to the input's dtype.
  kSentinel,    // All bits set: -1 in signed integers, NaN in floats. No kernel mistakes it for
                // data.
  kRepeatLast,  // The last real element along each axis.
  kUndefined,   // Any bits: nothing is written. Every padded symbol of the input must claim that
                // its padding may hold any bits.
};
inline constexpr int kFillKindCount = 5;

// "zero", "value", "sentinel", "repeat_last", "undefined".
constexpr const char* NameOf(FillKind kind) {
  switch (kind) {
    case FillKind::kZero:
      return "zero";
    case FillKind::kValue:
      return "value";
    case FillKind::kSentinel:
      return "sentinel";
    case FillKind::kRepeatLast:
      return "repeat_last";
    case FillKind::kUndefined:
      return "undefined";
  }
  return "?";
}

// Whether all elements are the same number, independent of the input's contents.
constexpr bool IsConstant(FillKind kind) {
  switch (kind) {
    case FillKind::kZero:
    case FillKind::kValue:
    case FillKind::kSentinel:
      return true;
    case FillKind::kRepeatLast:
    case FillKind::kUndefined:
      return false;
  }
  return false;
}

// What padding holds, in C++, in C, in Python and in packages.
struct Fill {
  FillKind kind = FillKind::kZero;  // The value of an element of the padding.
  double value = 0;                 // The number of a fill that is a value.

  static Fill Zero() { return {}; }
  static Fill Value(double value) { return {.kind = FillKind::kValue, .value = value}; }
  static Fill Sentinel() { return {.kind = FillKind::kSentinel}; }
  static Fill RepeatLast() { return {.kind = FillKind::kRepeatLast}; }
  static Fill Undefined() { return {.kind = FillKind::kUndefined}; }

  friend bool operator==(const Fill&, const Fill&) = default;
};

}  // namespace coppice
