// Accesses of all lanes: loops that become vector code.

#include "runtime/emulator/ptx/lane_access.h"

#include <cstring>
#include <utility>

#include "runtime/emulator/ptx/lanes.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

constexpr size_t kBlockBytes = 32;

template <typename T>
struct Block {
  static constexpr size_t kCount = kBlockBytes / sizeof(T);
  typedef T Values __attribute__((vector_size(kBlockBytes)));
};

template <typename T>
void AddOffset(const T* base, uint64_t offset, LaneWords& to) {
  uint64_t* const out = to.data();
#pragma GCC ivdep
  for (int i = 0; i < kLanes; ++i)
    out[i] = base[i] + offset;
}

void Keep(LaneWords& addresses, uint32_t mask, uint64_t other) {
  KeepLanes(~mask, addresses.data(), [other](int) { return other; });
}

// Whether any lane is outside shows in the sign of what lanes have in common, so that the loop is
// vector code on any machine.
bool Move(LaneWords& addresses, const LaneAccess::Window& window, uint64_t bytes, bool& in_row) {
  uint64_t* const at = addresses.data();
  const uint64_t first = at[0];
  uint64_t outside = 0;
  uint64_t low_bits = 0;
  uint64_t astray = 0;
  for (uint64_t i = 0; i < kLanes; ++i) {
    const uint64_t offset = at[i] - window.begin;
    outside |= (window.limit - offset) | offset;
    low_bits |= at[i];
    astray |= at[i] ^ (first + i * bytes);
  }
  if (static_cast<int64_t>(outside) < 0 || (low_bits & (bytes - 1)) != 0) return false;
  if (window.moved != 0 || window.stride != 0) {
    for (uint64_t i = 0; i < kLanes; ++i)
      at[i] += window.moved + i * window.stride;
  }
  in_row = astray == 0 && window.stride == 0;
  return true;
}

template <typename T>
[[gnu::always_inline]] inline T ValueAt(uint64_t host) {
  T value;
  std::memcpy(&value, reinterpret_cast<const std::byte*>(host), sizeof(value));
  return value;
}

// A block is put together in a register.
template <typename T, size_t... i>
[[gnu::always_inline]] inline void GatherBlock(const uint64_t* hosts,
                                               T* to,
                                               std::index_sequence<i...>) {
  const typename Block<T>::Values values = {ValueAt<T>(hosts[i])...};
  std::memcpy(to, &values, sizeof(values));
}

template <typename T>
void Gather(const LaneWords& hosts, T* to) {
  constexpr size_t kCount = Block<T>::kCount;
  for (size_t i = 0; i < kLanes; i += kCount)
    GatherBlock<T>(hosts.data() + i, to + i, std::make_index_sequence<kCount>());
}

void Copy(const std::byte* from, std::byte* to, size_t bytes) {
  for (size_t i = 0; i < bytes; i += kBlockBytes) {
    Block<uint64_t>::Values values;
    std::memcpy(&values, from + i, sizeof(values));
    std::memcpy(to + i, &values, sizeof(values));
  }
}

}  // namespace

const LaneAccess& LaneAccessFunctions() {
  static constexpr LaneAccess functions = {
      .add_wide = AddOffset<uint64_t>,
      .add_narrow = AddOffset<uint32_t>,
      .keep = Keep,
      .move = Move,
      .gather32 = Gather<uint32_t>,
      .gather64 = Gather<uint64_t>,
      .copy = Copy,
  };
  return functions;
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
