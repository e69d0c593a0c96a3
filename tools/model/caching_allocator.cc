// Blocks by address, so that neighbours are neighbours, and free ones by size.

#include "tools/model/caching_allocator.h"

#include <algorithm>
#include <tuple>
#include <vector>

#include "coppice/base/check.h"
#include "coppice/base/units.h"

namespace coppice {
namespace {

constexpr int64_t kRounding = 512;
constexpr int64_t kSmallRequestMax = kMiB;
constexpr int64_t kSmallSegment = 2 * kMiB;
constexpr int64_t kOwnSegmentMin = 10 * kMiB;  // Requests from here on get a segment of their own.
constexpr int64_t kLargeSegment = 20 * kMiB;
constexpr int64_t kSegmentRounding = 2 * kMiB;
constexpr int64_t kLargeRestMax = kMiB;  // So much a large request leaves unused.

int64_t SegmentBytes(int64_t bytes) {
  if (bytes <= kSmallRequestMax) return kSmallSegment;
  if (bytes < kOwnSegmentMin) return kLargeSegment;
  return AlignUp(bytes, kSegmentRounding);
}

}  // namespace

CachingAllocator::Blocks::iterator CachingAllocator::Grow(int64_t bytes, bool small) {
  // Segments may touch, but blocks of two never join.
  const int64_t address =
      blocks_.empty() ? 0 : blocks_.rbegin()->first + blocks_.rbegin()->second.bytes;
  const int64_t segment_bytes = SegmentBytes(bytes);
  reserved_bytes_ += segment_bytes;
  return blocks_
      .insert(
          {address, {.bytes = segment_bytes, .segment = address, .small = small, .free = false}})
      .first;
}

int64_t CachingAllocator::Allocate(int64_t bytes) {
  COPPICE_CHECK(bytes >= 1, "a request of no bytes");
  const int64_t rounded = AlignUp(bytes, kRounding);
  const bool small = rounded <= kSmallRequestMax;
  auto& free = free_[small ? 1 : 0];
  const auto fit = free.lower_bound({rounded, 0});
  Blocks::iterator block;
  if (fit == free.end()) {
    block = Grow(rounded, small);
  } else {
    block = blocks_.find(fit->second);
    block->second.free = false;
    free.erase(fit);
  }
  const int64_t rest = block->second.bytes - rounded;
  if (small ? rest >= kRounding : rest > kLargeRestMax) {
    Block second = block->second;
    second.bytes = rest;
    block->second.bytes = rounded;
    Release(blocks_.insert({block->first + rounded, second}).first);
  }
  return block->first;
}

void CachingAllocator::Free(int64_t address) {
  const auto block = blocks_.find(address);
  COPPICE_CHECK(block != blocks_.end() && !block->second.free, "the address is not allocated");
  Release(block);
}

// Joins the block with its free neighbours and offers the result.
void CachingAllocator::Release(Blocks::iterator block) {
  auto& free = free_[block->second.small ? 1 : 0];
  const auto joins = [&](Blocks::iterator one) {
    return one->second.free && one->second.segment == block->second.segment;
  };
  if (const auto next = std::next(block); next != blocks_.end() && joins(next)) {
    free.erase({next->second.bytes, next->first});
    block->second.bytes += next->second.bytes;
    blocks_.erase(next);
  }
  if (block != blocks_.begin() && joins(std::prev(block))) {
    const auto previous = std::prev(block);
    free.erase({previous->second.bytes, previous->first});
    previous->second.bytes += block->second.bytes;
    blocks_.erase(block);
    block = previous;
  }
  block->second.free = true;
  free.emplace(block->second.bytes, block->first);
}

void RunProgram(std::span<const Buffer> buffers, CachingAllocator& allocator) {
  struct Step {
    int64_t step = 0;
    bool begins = false;
    size_t buffer = 0;
  };
  std::vector<Step> events;
  events.reserve(2 * buffers.size());
  for (size_t i = 0; i < buffers.size(); ++i) {
    events.push_back({buffers[i].lifetime.front().lower, true, i});
    events.push_back({buffers[i].lifetime.back().upper, false, i});
  }
  std::sort(events.begin(), events.end(), [](const Step& a, const Step& b) {
    return std::tie(a.step, a.begins, a.buffer) < std::tie(b.step, b.begins, b.buffer);
  });
  std::vector<int64_t> addresses(buffers.size());
  for (const Step& event : events) {
    if (event.begins) {
      addresses[event.buffer] = allocator.Allocate(buffers[event.buffer].bytes);
    } else {
      allocator.Free(addresses[event.buffer]);
    }
  }
}

}  // namespace coppice
