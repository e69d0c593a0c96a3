// Pages, byte by byte.

#include "runtime/emulator/ptx/launch_writes.h"

#include <utility>

namespace coppice::ptx {
namespace {

bool IsSet(const LaunchWrites::Bits& bits, size_t i) {
  return (bits[i / 64] >> i % 64 & 1) != 0;
}

}  // namespace

void LaunchWrites::Add(uint64_t address, const Bits& written, const Bytes& before) {
  pages_.emplace(address, Page{written, before});
}

void LaunchWrites::Exchange() {
  for (auto& [address, page] : pages_) {
    std::byte* const memory = reinterpret_cast<std::byte*>(address);
    for (size_t i = 0; i < kPageBytes; ++i)
      if (IsSet(page.written, i)) std::swap(memory[i], page.bytes[i]);
  }
}

bool LaunchWrites::operator==(const LaunchWrites&) const = default;

bool LaunchWrites::Page::operator==(const Page& other) const {
  if (written != other.written) return false;
  for (size_t i = 0; i < kPageBytes; ++i)
    if (IsSet(written, i) && bytes[i] != other.bytes[i]) return false;
  return true;
}

}  // namespace coppice::ptx
