// Memory as a launch accesses it: what was touched, and by whom last.
//
// Units: bytes. Threads: one thread runs a launch.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/launch_writes.h"
#include "runtime/emulator/ptx/order.h"

namespace coppice::ptx {

// Of one block: its order, and its shared memory.
struct BlockShadow {
  BlockOrder order;
  uint64_t acquired = 0;       // Of other blocks' releases.
  std::vector<Stamp> writers;  // By granule.
  std::vector<Stamp> readers;
  std::vector<Stamp> by_proxy;   // The writers that were the async proxy; empty: none yet.
  std::vector<uint8_t> written;  // By byte: whether somebody did.
};

// Who accessed a granule of global memory last: a block, and the stamp in there.
class Visitor {
 public:
  constexpr Visitor() = default;  // Nobody.
  Visitor(uint64_t block, Stamp stamp) : bits_((block + 1) << 32 | stamp.bits()) {}
  // More than one block; the last when there had been so many releases.
  static Visitor Several(uint64_t releases) {
    Visitor visitor;
    visitor.bits_ = kSeveral << 32 | (releases & 0xffffffff);
    return visitor;
  }

  bool operator==(const Visitor&) const = default;
  bool is_nobody() const { return bits_ == 0; }
  bool is_several() const { return bits_ >> 32 == kSeveral; }
  uint64_t block() const { return (bits_ >> 32) - 1; }
  Stamp stamp() const { return Stamp(static_cast<uint32_t>(bits_)); }
  uint64_t releases() const { return bits_ & 0xffffffff; }
  uint64_t bits() const { return bits_; }

 private:
  static constexpr uint64_t kSeveral = 0xffffffff;

  uint64_t bits_ = 0;
};

class GlobalShadow {
 public:
  static constexpr int kPageShift = 12;
  static constexpr uint64_t kPageBytes = LaunchWrites::kPageBytes;
  static_assert(kPageBytes == uint64_t{1} << kPageShift);

  using Bits = LaunchWrites::Bits;
  using Bytes = LaunchWrites::Bytes;

  struct Page {
    Bits read = {};
    Bits written = {};
    std::unique_ptr<Bytes> before;  // Of what is written, as it was; null: nothing is to be kept.
    std::unique_ptr<Bits> known;    // Written before the launch, as far as it was asked.
    // One per granule; null until there is one.
    std::unique_ptr<Visitor[]> writers;
    std::unique_ptr<Visitor[]> readers;
  };

  // Granules are of 1 << shift bytes.
  explicit GlobalShadow(int shift) : shift_(shift) {}

  Page& PageOf(uint64_t address) {
    const uint64_t number = address >> kPageShift;
    Recent& recent = recent_[number % recent_.size()];
    if (recent.number != number) [[unlikely]]
      recent = {number, &FindOrAdd(number)};
    return *recent.page;
  }
  size_t GranuleOf(uint64_t address) const { return (address % kPageBytes) >> shift_; }
  int shift() const { return shift_; }
  // Marks bytes of one page as written, and keeps what they are. To be called before they change.
  static void BeginWrite(Page& page, uint64_t address, uint64_t bytes);
  Visitor* Writers(Page& page) { return Visitors(page.writers); }
  Visitor* Readers(Page& page) { return Visitors(page.readers); }

  // Sets the bits of bytes that are all in one page.
  static void Mark(Bits& bits, uint64_t address, uint64_t bytes);
  // Whether all bytes, which are in one page, are written or known to be.
  static bool IsWritten(const Page& page, uint64_t address, uint64_t bytes);
  // What was touched, ascending.
  std::vector<TouchedRange> Touched() const;
  // What the launch has written, with what was there before. Nothing is left of it here.
  LaunchWrites TakeWrites();

 private:
  struct Recent {
    uint64_t number = ~uint64_t{0};
    Page* page = nullptr;
  };

  Page& FindOrAdd(uint64_t number);
  Visitor* Visitors(std::unique_ptr<Visitor[]>& visitors) {
    if (visitors == nullptr) [[unlikely]]
      visitors = std::make_unique<Visitor[]>(kPageBytes >> shift_);
    return visitors.get();
  }

  int shift_;
  std::array<Recent, 256> recent_;
  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
};

}  // namespace coppice::ptx
