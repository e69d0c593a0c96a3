// Padding taint: which bytes hold what padding has reached, and where padding met other data.
//
// A byte of memory, and every 16 bits of a lane of a register, have a word: a bit for the padding
// of each input that reached it, a bit for elements that are not padding, and the number of the
// instruction that first made one value of both. What depends on no input has the word 0.
//
//   31            16 15      8   7     6 ... 0
//   | meeting, or 0 | not used | live | padding of input 6 and later ... of input 0 |
//
// Units: bytes. Threads: one thread at a time.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

namespace coppice::ptx {

using TaintWord = uint32_t;

inline constexpr int kTaintInputs = 7;  // The last is of all further inputs.
inline constexpr TaintWord kTaintPadding = (TaintWord{1} << kTaintInputs) - 1;
inline constexpr TaintWord kTaintLive = TaintWord{1} << kTaintInputs;
inline constexpr int kTaintMeetingShift = 16;
inline constexpr TaintWord kTaintLabels = (TaintWord{1} << kTaintMeetingShift) - 1;

constexpr TaintWord TaintOfInput(int input, bool padding) {
  return padding ? TaintWord{1} << std::min(input, kTaintInputs - 1) : kTaintLive;
}
constexpr bool IsPadding(TaintWord word) {
  return (word & kTaintPadding) != 0;
}
constexpr bool IsMet(TaintWord word) {
  return IsPadding(word) && (word & kTaintLive) != 0;
}
// What depends on both. Of two meetings, the first operand's is kept.
constexpr TaintWord JoinTaint(TaintWord a, TaintWord b) {
  const TaintWord meeting = (a >> kTaintMeetingShift) != 0 ? a : b;
  return ((a | b) & kTaintLabels) | (meeting & ~kTaintLabels);
}

// What a value is made of, while its sources are looked at.
struct JoinedTaint {
  TaintWord word = 0;
  bool met = false;  // In one of the sources: what they make has met there, and not here.

  void Add(TaintWord source) {
    // A meeting with what is live says more than where padding was stored.
    if (IsMet(source) && !met) word &= kTaintLabels;
    met = met || IsMet(source);
    word = JoinTaint(word, source);
  }
};

// Where a thread made one value of padding and of something else.
struct TaintMeeting {
  std::string kernel;
  std::array<unsigned, 3> block = {};
  std::array<unsigned, 3> thread = {};
  int line = 0;         // Of the PTX.
  std::string source;   // "file.py:12", if the PTX says so.
  std::string program;  // Whose step launched the kernel; who runs launches may say so.
  int step = -1;
};

// Words of memory, by address. Memory that nobody named has words of 0.
class TaintPlane {
 public:
  TaintWord At(uint64_t address) const {
    const Page* const page = Find(address >> kShift);
    return page == nullptr ? 0 : (*page)[address & kMask];
  }
  // The words of `bytes` bytes, joined.
  TaintWord Joined(uint64_t address, uint64_t bytes) const {
    TaintWord word = 0;
    for (uint64_t i = 0; i < bytes; ++i)
      word = JoinTaint(word, At(address + i));
    return word;
  }
  void Fill(uint64_t address, uint64_t bytes, TaintWord word) {
    for (const uint64_t end = address + bytes; address < end; ++address) {
      // Pages of nothing are not made.
      Page* const page = word == 0 ? Find(address >> kShift) : &Made(address >> kShift);
      if (page == nullptr) {
        address |= kMask;
        continue;
      }
      (*page)[address & kMask] = word;
    }
  }
  void Copy(uint64_t from, uint64_t to, uint64_t bytes) {
    std::vector<TaintWord> words(bytes);
    for (uint64_t i = 0; i < bytes; ++i)
      words[i] = At(from + i);
    for (uint64_t i = 0; i < bytes; ++i)
      Fill(to + i, 1, words[i]);
  }

 private:
  static constexpr int kShift = 12;
  static constexpr uint64_t kMask = (uint64_t{1} << kShift) - 1;
  using Page = std::array<TaintWord, kMask + 1>;

  Page* Find(uint64_t number) const {
    if (number == recent_number_) [[likely]]
      return recent_;
    const auto found = pages_.find(number);
    recent_number_ = number;
    recent_ = found == pages_.end() ? nullptr : found->second.get();
    return recent_;
  }
  Page& Made(uint64_t number) {
    if (Page* const page = Find(number); page != nullptr) return *page;
    recent_ = pages_.emplace(number, std::make_unique<Page>()).first->second.get();
    return *recent_;
  }

  std::unordered_map<uint64_t, std::unique_ptr<Page>> pages_;
  mutable uint64_t recent_number_ = ~uint64_t{0};
  mutable Page* recent_ = nullptr;
};

// What launches leave behind.
struct Taint {
  static constexpr size_t kMeetingsMax = 0xffff;

  TaintPlane plane;
  std::vector<TaintMeeting> meetings;  // Number i + 1 in words; no more than kMeetingsMax.
  std::vector<std::string> gaps;       // What was executed and cannot be followed; each once.

  void AddGap(std::string what) {
    if (std::ranges::find(gaps, what) == gaps.end()) gaps.push_back(std::move(what));
  }
};

}  // namespace coppice::ptx
