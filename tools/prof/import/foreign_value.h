// Values of a file that strangers wrote: lists, dicts, numbers and a few words, with a bound on
// their memory.
//
// Of a dict only keys that a memory snapshot is planned from are kept, so that looking one up takes
// no time, whatever the file. A list may hold the same value many times, and itself: whoever walks
// one counts its steps.
//
// Units: bytes. Threads: one at a time per tree.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace coppice {

enum class ForeignKind : uint8_t { kNone, kOther, kNumber, kHuge, kWord, kList, kTuple, kDict };

struct ForeignValue {
  ForeignKind kind = ForeignKind::kNone;
  uint8_t key = 0;     // Within a dict: the ForeignWord that it is the value of.
  int64_t number = 0;  // kHuge: its low 64 bits; kWord: a ForeignWord; containers: their place.
};

// Texts that mean something as values, and keys. The others are kOther, or passed over.
enum class ForeignWord : uint8_t {
  kAlloc,
  kFreeRequested,
  kFreeCompleted,
  kFree,
  kSegmentAlloc,
  kSegmentMap,
  kSegmentFree,
  kSegmentUnmap,
  kOom,
  kActiveAllocated,
  kActivePendingFree,
  kActiveAwaitingFree,
  kSegments,
  kDeviceTraces,
  kDevice,
  kAddress,
  kTotalSize,
  kBlocks,
  kSize,
  kState,
  kAction,
  kAddr,
};

class ForeignTree {
 public:
  // More than this no file may take, its own bytes apart.
  static constexpr int64_t kBytesMax = int64_t{400} << 20;

  // A number of this many bytes, or of a text.
  static ForeignValue Number(int64_t number) {
    return {.kind = ForeignKind::kNumber, .number = number};
  }
  static ForeignValue Text(std::string_view text);

  // An empty container.
  ForeignValue Add(ForeignKind kind);

  // Requires: `list` is a list or a tuple (checked).
  void Append(ForeignValue list, ForeignValue item);
  // Requires: `dict` is a dict (checked). The last value of a key counts.
  void Set(ForeignValue dict, ForeignValue key, ForeignValue value);

  // Requires: `list` is a list or a tuple (checked).
  std::span<const ForeignValue> Items(ForeignValue list) const;
  // kNone if there is none, or `dict` is no dict.
  ForeignValue Find(ForeignValue dict, ForeignWord key) const;

  // For what readers keep besides.
  void Charge(int64_t bytes) { bytes_ += bytes; }
  // True once the file has taken more than kBytesMax: what reads it stops there.
  bool full() const { return bytes_ > kBytesMax; }

 private:
  std::vector<std::vector<ForeignValue>> containers_;
  int64_t bytes_ = 0;
};

}  // namespace coppice
