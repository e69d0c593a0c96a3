// Integers of twice the width, of the same sign.
//
// Threads: no state.

#pragma once

#include <cstdint>

namespace coppice::ptx {

template <typename T>
struct WideOf;
template <>
struct WideOf<uint16_t> {
  using Type = uint32_t;
};
template <>
struct WideOf<int16_t> {
  using Type = int32_t;
};
template <>
struct WideOf<uint32_t> {
  using Type = uint64_t;
};
template <>
struct WideOf<int32_t> {
  using Type = int64_t;
};
template <>
struct WideOf<uint64_t> {
  __extension__ typedef unsigned __int128 Type;
};
template <>
struct WideOf<int64_t> {
  __extension__ typedef __int128 Type;
};

template <typename T>
using Wide = typename WideOf<T>::Type;

}  // namespace coppice::ptx
