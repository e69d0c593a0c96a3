// mbarrier: words of shared memory that count arrivals, of threads and of their copies.
//
// Before a barrier is looked at, the copies land that it waits for (async_work.h). What a thread
// asks is answered at once: try_wait does not wait longer than test_wait.

#include "runtime/emulator/ptx/mbarrier.h"

#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "fmt/format.h"

#include "runtime/emulator/ptx/async_work.h"
#include "runtime/emulator/ptx/forms/async_tables.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/lanes.h"
#include "runtime/emulator/ptx/resident_warp.h"
#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {
namespace {

Mbarrier MbarrierAt(const std::byte* memory) {
  uint64_t word;
  std::memcpy(&word, memory, sizeof(word));
  return Mbarrier(word);
}

void SetMbarrier(std::byte* memory, Mbarrier barrier) {
  const uint64_t word = barrier.word();
  std::memcpy(memory, &word, sizeof(word));
}

constexpr const char* kNotShared = "is not in shared memory";
constexpr const char* kNotInitialized = "no thread has initialized; execute mbarrier.init first";

Step RefuseMbarrier(ResidentWarp& warp, int lane, uint64_t address, const char* why) {
  warp.Fault(Finding::Kind::kIllegalInstruction, lane,
             fmt::format("uses an mbarrier at {:#x} that {}", address, why), address);
  return Step::kStop;
}

// A word of the shared memory of a block: of the warp's own, or of another one of its cluster.
// Null: it is no shared memory.
struct SharedWord {
  BlockState* block = nullptr;
  uint64_t offset = 0;
};

SharedWord SharedWordAt(ResidentWarp& warp, const std::byte* memory) {
  for (BlockState* const block : warp.block().cluster->members) {
    const std::span<std::byte> shared = block->shared;
    if (memory >= shared.data() && memory < shared.data() + shared.size())
      return {.block = block, .offset = static_cast<uint64_t>(memory - shared.data())};
  }
  return {};
}

// What an instruction does to the words that it names.
enum class WordUse : uint8_t { kInit, kInval, kUse };

// Calls `of(lane, memory)` with the barrier of each lane that executes.
template <WordUse use = WordUse::kUse, typename Of>
Step EachMbarrier(Warp& on, const Instr& instr, const Of& of) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  constexpr AccessKind kKind = use == WordUse::kUse ? AccessKind::kAtomic : AccessKind::kWrite;
  const LaneAddresses addresses(warp, instr);
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    std::byte* const memory = warp.At(SpaceOf(instr), addresses[lane], 8, kKind, lane);
    if (memory == nullptr) return Step::kStop;
    const SharedWord word = SharedWordAt(warp, memory);
    if (word.block == nullptr) return RefuseMbarrier(warp, lane, addresses[lane], kNotShared);
    Mbarriers& barriers = word.block->async->barriers;
    if constexpr (use == WordUse::kInit) {
      barriers.Init(word.offset);
    } else if (!barriers.Has(word.offset)) {
      return RefuseMbarrier(warp, lane, addresses[lane], kNotInitialized);
    }
    if constexpr (use == WordUse::kInval) barriers.Inval(word.offset);
    of(lane, memory);
  }
  return Step::kNext;
}

// [address]{, count}
Step Init(Warp& warp, const Instr& instr) {
  const uint32_t* const counts = warp.From<uint32_t>(instr.b);
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    if (counts[lane] - 1 < Mbarrier::kCountMax) continue;
    static_cast<ResidentWarp&>(warp).Fault(
        Finding::Kind::kIllegalInstruction, lane,
        fmt::format("initializes an mbarrier with a count of {}; a count is from 1 to {}",
                    counts[lane], Mbarrier::kCountMax));
    return Step::kStop;
  }
  return EachMbarrier<WordUse::kInit>(warp, instr, [&](int lane, std::byte* memory) {
    SetMbarrier(memory, Mbarrier::Of(counts[lane]));
  });
}

Step Inval(Warp& warp, const Instr& instr) {
  return EachMbarrier<WordUse::kInval>(
      warp, instr, [](int, std::byte* memory) { SetMbarrier(memory, Mbarrier(0)); });
}

struct CountedArrive {
  static void Of(Mbarrier& barrier, uint32_t count) { barrier.Arrive(count); }
};
struct CountedDrop {
  static void Of(Mbarrier& barrier, uint32_t count) { barrier.Drop(count); }
};
// Arrives once, behind so many bytes.
struct ArriveExpecting {
  static void Of(Mbarrier& barrier, uint32_t bytes) {
    barrier.ExpectBytes(bytes);
    barrier.Arrive(1);
  }
};
struct DropExpecting {
  static void Of(Mbarrier& barrier, uint32_t bytes) {
    barrier.ExpectBytes(bytes);
    barrier.Drop(1);
  }
};
struct Expecting {
  static void Of(Mbarrier& barrier, uint32_t bytes) { barrier.ExpectBytes(bytes); }
};
struct Completing {
  static void Of(Mbarrier& barrier, uint32_t bytes) { barrier.CompleteBytes(bytes); }
};

constexpr uint8_t kCounted = kFormFlag;  // b says how many; else 1.

template <typename Op>
Step Arrive(Warp& warp, const Instr& instr) {
  uint64_t* const states = warp.To<uint64_t>(instr.d);
  const uint32_t* const counts =
      (instr.flags & kCounted) != 0 ? warp.From<uint32_t>(instr.b) : nullptr;
  return EachMbarrier(warp, instr, [&](int lane, std::byte* memory) {
    Mbarrier barrier = MbarrierAt(memory);
    const uint32_t count = counts != nullptr ? counts[lane] : 1;
    states[lane] = barrier.word();
    Op::Of(barrier, count);
    SetMbarrier(memory, barrier);
  });
}

template <typename Op>
Step ChangeBytes(Warp& warp, const Instr& instr) {
  const uint32_t* const bytes = warp.From<uint32_t>(instr.b);
  return EachMbarrier(warp, instr, [&](int lane, std::byte* memory) {
    Mbarrier barrier = MbarrierAt(memory);
    Op::Of(barrier, bytes[lane]);
    SetMbarrier(memory, barrier);
  });
}

// Copies happen that an mbarrier of the block waits for. Its address is an offset in shared memory,
// or one of its window, with the block's rank or without.
bool Settle(Warp& warp, uint64_t address) {
  AsyncWork& async = warp.async();
  const uint64_t offset = address & ((uint64_t{1} << kRankShift) - 1);
  return async.copies.Settle(Space::kShared, offset) && async.bulk.Settle(offset);
}

// A phase is over if the barrier's has the other parity.
template <bool by_parity>
Step Test(Warp& warp, const Instr& instr) {
  const LaneAddresses addresses(warp, instr);
  // Lanes that ask one barrier ask once.
  std::optional<uint64_t> asked;
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const uint64_t address = addresses[std::countr_zero(lanes)];
    if (std::exchange(asked, address) != address && !Settle(warp, address)) return Step::kStop;
  }
  uint32_t over = 0;
  LaneSum given(warp.mask());
  const Step step = EachMbarrier(warp, instr, [&](int lane, std::byte* memory) {
    const bool parity = by_parity ? (warp.From<uint32_t>(instr.b)[lane] & 1) != 0
                                  : Mbarrier(warp.From<uint64_t>(instr.b)[lane]).parity();
    const bool is_over = MbarrierAt(memory).parity() != parity;
    over |= static_cast<uint32_t>(is_over) << lane;
    given.Add(addresses[lane], is_over);
  });
  if (step != Step::kNext) return step;
  warp.SetPredicate(instr.d, over);
  // Who has nothing to wait for asks no more.
  return over == warp.mask() ? Step::kNext : warp.Poll(instr, Space::kShared, given.sum());
}

Step PendingCount(Warp& warp, const Instr& instr) {
  const uint64_t* const states = warp.From<uint64_t>(instr.a);
  uint32_t* const d = warp.To<uint32_t>(instr.d);
  for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
    const int lane = std::countr_zero(lanes);
    d[lane] = Mbarrier(states[lane]).pending();
  }
  return Step::kNext;
}

// cp.async.mbarrier.arrive. Without .noinc the phase waits for the arrival in addition.
template <bool increments>
Step ArriveBehindCopies(Warp& warp, const Instr& instr) {
  const LaneAddresses named(warp, instr);
  LaneWords addresses = {};
  const Step step = EachMbarrier(warp, instr, [&](int lane, std::byte* memory) {
    addresses[lane] = named[lane];
    if (!increments) return;
    Mbarrier barrier = MbarrierAt(memory);
    barrier.Expect();
    SetMbarrier(memory, barrier);
  });
  if (step == Step::kNext) warp.async().copies.Arrive(warp, SpaceOf(instr), addresses);
  return step;
}

// [address]
bool DecodeAddress(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 1, 1);
  operands.Address(to);
  return operands.ok();
}

// [address], count
bool DecodeCount(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 2, 2);
  operands.Address(to);
  to.b = operands.Read(4);
  return operands.ok();
}

// state, [address]{, count}
bool DecodeArrive(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 2, 3);
  to.d = operands.Write(8);
  operands.Address(to);
  if (operands.more()) {
    to.b = operands.Read(4);
    to.flags |= kCounted;
  }
  return operands.ok();
}

// done, [address], state or parity{, for how long}
template <int bytes>
bool DecodeTest(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  OperandReader operands(decoder, from, 3, 4);
  to.d = operands.WritePredicate();
  operands.Address(to);
  to.b = operands.Read(bytes);
  return operands.ok();
}

struct MbarrierOperation {
  const char* name;
  DecodeHook decode;
  Handler handler;
};

constexpr MbarrierOperation kMbarrierOperations[] = {
    {"mbarrier.init", DecodeCount, Init},
    {"mbarrier.inval", DecodeAddress, Inval},
    {"mbarrier.arrive", DecodeArrive, Arrive<CountedArrive>},
    {"mbarrier.arrive.noComplete", DecodeArrive, Arrive<CountedArrive>},
    {"mbarrier.arrive.expect_tx", DecodeArrive, Arrive<ArriveExpecting>},
    {"mbarrier.arrive_drop", DecodeArrive, Arrive<CountedDrop>},
    {"mbarrier.arrive_drop.noComplete", DecodeArrive, Arrive<CountedDrop>},
    {"mbarrier.arrive_drop.expect_tx", DecodeArrive, Arrive<DropExpecting>},
    {"mbarrier.expect_tx", DecodeCount, ChangeBytes<Expecting>},
    {"mbarrier.complete_tx", DecodeCount, ChangeBytes<Completing>},
    {"mbarrier.test_wait", DecodeTest<8>, Test<false>},
    {"mbarrier.test_wait.parity", DecodeTest<4>, Test<true>},
    {"mbarrier.try_wait", DecodeTest<8>, Test<false>},
    {"mbarrier.try_wait.parity", DecodeTest<4>, Test<true>},
    {"cp.async.mbarrier.arrive", DecodeAddress, ArriveBehindCopies<true>},
    {"cp.async.mbarrier.arrive.noinc", DecodeAddress, ArriveBehindCopies<false>},
};

}  // namespace

void AddMbarrierForms(FormTable& rows) {
  for (const MbarrierOperation& operation : kMbarrierOperations) {
    const std::string name = operation.name;
    const uint8_t shared = SpaceFlags(Space::kShared);
    rows.Decoded(name + ".shared.b64", operation.decode, operation.handler, shared);
    rows.Decoded(name + ".b64", operation.decode, operation.handler, SpaceFlags(Space::kGeneric));
  }
  rows.Add("mbarrier.pending_count.b64", "Wd", PendingCount);
}

}  // namespace coppice::ptx
