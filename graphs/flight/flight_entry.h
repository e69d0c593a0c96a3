// What the flight recorder keeps of one call. Private to graphs/.
//
//   entry   | header | words | sources | statics | outputs | donated | staging window | bytes of
//   statics | bytes of outputs |
//
// The header says how many there are of each. Everything is found from the address of the header,
// so an entry is read without its session's lanes, but for its program.
//
// Units: bytes from the start of the entry. Threads: the lane's lock.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "coppice/base/units.h"
#include "coppice/graphs/call.h"
#include "coppice/graphs/reason.h"

namespace coppice::internal {

// Where an input of the spec came from.
struct FlightSource {
  static constexpr int32_t kStaged = -1;
  static constexpr int32_t kUnknown = -2;  // Read in place, from nobody whom the lane knows.

  int32_t input = 0;  // Of the spec.
  // kStaged: `at` is its offset in the staging window. Otherwise the output of call `call` that it
  // lies in, from its byte `at` on.
  int32_t output = kStaged;
  int64_t at = 0;
  uint64_t call = 0;
  int64_t strides[kRankMax] = {};  // Of one in place.
};

// A static input, or an output, whose bytes were to be copied.
struct FlightCopy {
  static constexpr int64_t kTooLarge = -1;
  static constexpr int64_t kRefused = -2;  // The driver knows no memory there.

  int64_t at = kTooLarge;  // In the entry.
  int64_t bytes = 0;
};

// What the entries of all calls that replay one node have in common.
struct FlightShape {
  static constexpr int64_t kAlignment = 16;  // Of an entry, and of what lies behind its lists.

  int64_t bytes = 0;  // To the next entry.
  const Program* program = nullptr;
  int64_t staging_bytes = 0;  // Of the staging window.
  uint16_t sources = 0;       // Of copied inputs, and of staged static ones.
  uint16_t extents = 0;       // Words: as many real ones, and as many that it ran with.
  uint16_t scalars = 0;       // Words behind them.
  uint16_t numbers = 0;       // Words behind these: 2, of its generator, or 0.

  size_t WordCount() const { return size_t{2} * extents + scalars + numbers; }
};

// An entry of words alone leaves `staging` and `mark` as they are.
struct FlightEntry : FlightShape {
  uint64_t call = 0;
  uint64_t binding = 0;  // Its number, because it may be gone when the entry is read; 0: none.
  uint16_t statics = 0;  // If they are recorded.
  uint16_t outputs = 0;  // The same.
  uint16_t donated = 0;  // Words: the calls whose leases were given up.
  bool pending = false;  // Not all of its work was submitted.
  bool copies = false;   // The copy of the staging window was.
  RunKind kind = RunKind::kReplay;
  Reason reason = Reason::kNone;
  // Apart from the two before, so that each pair is copied by one instruction.
  alignas(4) Poison poison = Poison::kOff;
  OutputMode mode = OutputMode::kBorrow;
  int64_t staging = 0;  // Where the staging window is, if it has bytes.
  // With outputs: comes from the device behind them, 0 until then.
  static constexpr uint64_t kNoMark = 1;  // None is on its way.
  uint64_t mark = kNoMark;

  std::span<const int64_t> words() const {
    return {reinterpret_cast<const int64_t*>(this + 1), WordCount()};
  }
  std::span<int64_t> words() { return {reinterpret_cast<int64_t*>(this + 1), WordCount()}; }

  std::span<const int64_t> real() const { return words().first(extents); }
  std::span<const int64_t> run() const { return words().subspan(extents, extents); }
  std::span<const int64_t> scalar_values() const {
    return words().subspan(size_t{2} * extents, scalars);
  }
  std::span<const int64_t> random() const { return words().last(numbers); }

  // Where the staging window is, by the counts.
  int64_t StagingByCounts() const {
    return AlignUp(static_cast<int64_t>(
                       sizeof(FlightEntry) + 8 * WordCount() + sources * sizeof(FlightSource) +
                       (size_t{statics} + outputs) * sizeof(FlightCopy) + size_t{8} * donated),
                   kAlignment);
  }

  FlightSource* source_list() {
    return reinterpret_cast<FlightSource*>(words().data() + WordCount());
  }
  FlightCopy* static_list() { return reinterpret_cast<FlightCopy*>(source_list() + sources); }
  FlightCopy* output_list() { return static_list() + statics; }
  uint64_t* donated_list() { return reinterpret_cast<uint64_t*>(output_list() + outputs); }
  std::byte* byte(int64_t at) { return reinterpret_cast<std::byte*>(this) + at; }
  const std::byte* byte(int64_t at) const { return reinterpret_cast<const std::byte*>(this) + at; }
};

}  // namespace coppice::internal
