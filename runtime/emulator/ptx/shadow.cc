// Pages by their number, and the ranges that their bits make.

#include "runtime/emulator/ptx/shadow.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace coppice::ptx {
namespace {

// Calls `visit(word, ones)` for the words of bits that bytes of one page have, until it returns
// false. Returns whether it never did.
template <typename Visit>
bool ForEachWord(uint64_t address, uint64_t bytes, Visit visit) {
  uint64_t at = address % GlobalShadow::kPageBytes;
  while (bytes > 0) {
    const uint64_t count = std::min(bytes, 64 - at % 64);
    const uint64_t ones = count == 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1;
    if (!visit(at / 64, ones << at % 64)) return false;
    at += count;
    bytes -= count;
  }
  return true;
}

}  // namespace

GlobalShadow::Page& GlobalShadow::FindOrAdd(uint64_t number) {
  std::unique_ptr<Page>& page = pages_[number];
  if (page == nullptr) page = std::make_unique<Page>();
  return *page;
}

// Of the page no other byte is read: another allocation, or thread, may have it.
void GlobalShadow::BeginWrite(Page& page, uint64_t address, uint64_t bytes) {
  if (page.before == nullptr) [[unlikely]]
    page.before = std::make_unique<Bytes>();
  const std::byte* const memory = reinterpret_cast<const std::byte*>(address & ~(kPageBytes - 1));
  ForEachWord(address, bytes, [&](size_t word, uint64_t ones) {
    uint64_t fresh = ones & ~page.written[word];
    page.written[word] |= ones;
    while (fresh != 0) {
      const int skip = std::countr_zero(fresh);
      const int count = std::countr_one(fresh >> skip);
      const size_t at = 64 * word + static_cast<size_t>(skip);
      std::memcpy(page.before->data() + at, memory + at, static_cast<size_t>(count));
      if (skip + count == 64) break;
      fresh &= ~uint64_t{0} << (skip + count);
    }
    return true;
  });
}

LaunchWrites GlobalShadow::TakeWrites() {
  LaunchWrites writes;
  for (const auto& [number, page] : pages_)
    if (page->before != nullptr) writes.Add(number << kPageShift, page->written, *page->before);
  pages_.clear();
  recent_.fill({});
  return writes;
}

void GlobalShadow::Mark(Bits& bits, uint64_t address, uint64_t bytes) {
  ForEachWord(address, bytes, [&](size_t word, uint64_t ones) {
    bits[word] |= ones;
    return true;
  });
}

bool GlobalShadow::IsWritten(const Page& page, uint64_t address, uint64_t bytes) {
  return ForEachWord(address, bytes, [&](size_t word, uint64_t ones) {
    const uint64_t known = page.known == nullptr ? 0 : (*page.known)[word];
    return ((page.written[word] | known) & ones) == ones;
  });
}

std::vector<TouchedRange> GlobalShadow::Touched() const {
  std::vector<uint64_t> numbers;
  numbers.reserve(pages_.size());
  for (const auto& [number, page] : pages_)
    numbers.push_back(number);
  std::sort(numbers.begin(), numbers.end());
  std::vector<TouchedRange> touched;
  for (const bool writes : {false, true}) {
    const size_t first = touched.size();
    const auto add = [&](uint64_t begin, uint64_t end) {
      if (touched.size() > first && touched.back().end == begin) {
        touched.back().end = end;
      } else {
        touched.push_back({begin, end, writes});
      }
    };
    for (const uint64_t number : numbers) {
      const Page& page = *pages_.at(number);
      const auto& bits = writes ? page.written : page.read;
      for (size_t i = 0; i < bits.size(); ++i) {
        const uint64_t begin = (number << kPageShift) + 64 * i;
        for (uint64_t left = bits[i]; left != 0;) {
          const int skip = std::countr_zero(left);
          const int count = std::countr_one(left >> skip);
          add(begin + static_cast<uint64_t>(skip), begin + static_cast<uint64_t>(skip + count));
          if (skip + count == 64) break;
          left &= ~uint64_t{0} << (skip + count);
        }
      }
    }
  }
  std::stable_sort(touched.begin(), touched.end(),
                   [](const TouchedRange& a, const TouchedRange& b) { return a.begin < b.begin; });
  return touched;
}

}  // namespace coppice::ptx
