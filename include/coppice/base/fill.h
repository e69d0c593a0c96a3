// What a copied input holds beyond its real extents.
//
// Threads: plain values.

#pragma once

#include <cstdint>

namespace coppice {

// What an element of the padding is.
enum class FillKind : uint8_t {
  kZero,        // 0 in the input's dtype.
  kValue,       // A number, converted to the input's dtype.
  kSentinel,    // All bits set: -1 in signed integers, NaN in floats; no kernel takes it for data.
  kRepeatLast,  // The last real element along each axis.
  kUndefined,   // What was there, which may be any bits: no symbol of the input may claim less.
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

// What padding holds, in C++, in C, in Python and in packages.
struct Fill {
  FillKind kind = FillKind::kZero;  // What an element of the padding is.
  double value = 0;                 // The number of a fill that is a value.

  static Fill Zero() { return {}; }
  static Fill Value(double value) { return {.kind = FillKind::kValue, .value = value}; }
  static Fill Sentinel() { return {.kind = FillKind::kSentinel}; }
  static Fill RepeatLast() { return {.kind = FillKind::kRepeatLast}; }
  static Fill Undefined() { return {.kind = FillKind::kUndefined}; }

  friend bool operator==(const Fill&, const Fill&) = default;
};

}  // namespace coppice
