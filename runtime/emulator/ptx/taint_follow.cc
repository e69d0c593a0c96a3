// What each kind of instruction does with taint.

#include <algorithm>
#include <bit>
#include <cstring>

#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/forms/resize.h"
#include "runtime/emulator/ptx/taint_tracker.h"

namespace coppice::ptx {
namespace {

constexpr TaintOperand kSelector{.written = false, .bytes = 4};

}  // namespace

uint16_t TaintTracker::ValueOf(const TaintOperand& operand, Slot slot, int part, int lane) const {
  if (operand.bytes == 0) {
    const bool negated = (instr_->flags & Instr::kNegated) != 0;
    return ((warp_->Predicate(slot) >> lane & 1) != 0) != negated ? 0xffff : 0;
  }
  uint16_t value = 0;
  std::memcpy(&value, warp_->From<std::byte>(slot) + lane * operand.bytes + 2 * part,
              sizeof(value));
  return value;
}

bool TaintTracker::IsZero(const TaintOperand& operand, Slot slot, int lane) const {
  for (int part = 0; part < operand.parts(); ++part)
    if (ValueOf(operand, slot, part, lane) != 0 || Read(operand, slot, part, lane) != 0)
      return false;
  return true;
}

bool TaintTracker::Follow(const TaintRule& rule) {
  using Kind = TaintRule::Kind;
  switch (rule.kind) {
    case Kind::kGap:
      taint_.AddGap(AllForms()[instr_->form].name);
      [[fallthrough]];
    case Kind::kNothing:
      WriteAll(rule, {});
      return true;
    case Kind::kClock:
      if (!branches_.empty()) taint_.AddGap("clocks behind a branch that depends on padding");
      WriteAll(rule, {});
      return true;
    case Kind::kByLane:
    case Kind::kProduct:
      FollowLanes(rule);
      return true;
    case Kind::kParts:
    case Kind::kSelect:
    case Kind::kAnd:
    case Kind::kOr:
      FollowParts(rule);
      return true;
    case Kind::kPack:
      FollowPack(rule);
      return true;
    case Kind::kPermute:
      FollowPermute(rule);
      return true;
    case Kind::kMove:
      FollowMove(rule);
      return true;
    case Kind::kConvert:
      FollowConvert();
      return true;
    case Kind::kWarp:
      FollowWarp(rule);
      return true;
    case Kind::kMatrix:
      FollowMatrix(rule);
      return true;
    case Kind::kLoad:
      return FollowLoad(rule);
    case Kind::kStore:
      return FollowStore(rule);
    case Kind::kAtomic:
      return FollowAtomic(rule);
    case Kind::kLoadMatrices:
    case Kind::kStoreMatrices:
      return FollowMatrices(rule);
    case Kind::kCopyAsync:
      return FollowCopy();
    case Kind::kShuffle:  // Is executed twice.
      return true;
  }
  return true;
}

bool TaintTracker::IsAnyTainted(const TaintRule& rule) const {
  bool any = is_guarded_;
  for (size_t i = 0; i < rule.operands.size() && !any; ++i)
    any = rule.operands[i].read() && IsTainted(rule.operands[i], SlotOf(i));
  return any;
}

void TaintTracker::FollowLanes(const TaintRule& rule) {
  Lanes words = {};
  if (!IsAnyTainted(rule)) return WriteAll(rule, words);
  for (int lane = 0; lane < kLanes; ++lane) {
    JoinedTaint joined;
    Guard(lane, joined);
    size_t first = 0;  // Of what is read.
    while (first < rule.operands.size() && rule.operands[first].written)
      ++first;
    // A factor of 0 is all that the product depends on.
    const bool zero = rule.kind == TaintRule::Kind::kProduct &&
                      (IsZero(rule.operands[first], SlotOf(first), lane) ||
                       IsZero(rule.operands[first + 1], SlotOf(first + 1), lane));
    for (size_t i = zero ? first + 2 : first; i < rule.operands.size(); ++i)
      if (rule.operands[i].read()) ReadAll(rule.operands[i], SlotOf(i), lane, joined);
    words[static_cast<size_t>(lane)] = Finish(joined, lane);
  }
  WriteAll(rule, words);
}

// d, and what is read; a select's last is the predicate.
void TaintTracker::FollowParts(const TaintRule& rule) {
  Write& write = Writes(SlotOf(0), rule.operands[0]);
  if (!IsAnyTainted(rule)) return;
  const size_t last = rule.operands.size() - 1;
  for (int part = 0; part < write.to.parts(); ++part) {
    for (int lane = 0; lane < kLanes; ++lane) {
      JoinedTaint joined;
      Guard(lane, joined);
      const auto word = [&](size_t i) { return Read(rule.operands[i], SlotOf(i), part, lane); };
      const auto decides = [&](size_t i, uint16_t value) {
        return word(i) == 0 && (instr_->flags & Instr::kNegated) == 0 &&
               ValueOf(rule.operands[i], SlotOf(i), part, lane) == value;
      };
      const uint16_t deciding = rule.kind == TaintRule::Kind::kAnd ? 0 : 0xffff;
      if (rule.kind == TaintRule::Kind::kSelect) {
        joined.Add(word(last));
        joined.Add(word(ValueOf(rule.operands[last], SlotOf(last), 0, lane) != 0 ? 1 : 2));
      } else if (rule.kind == TaintRule::Kind::kParts ||
                 (!decides(1, deciding) && !decides(2, deciding))) {
        for (size_t i = 1; i <= last; ++i)
          joined.Add(word(i));
      }
      write.parts[static_cast<size_t>(part)][static_cast<size_t>(lane)] = Finish(joined, lane);
    }
  }
}

void TaintTracker::FollowPack(const TaintRule& rule) {
  Write& write = Writes(instr_->d, rule.operands[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (const size_t part : {0, 1}) {
      JoinedTaint joined;
      Guard(lane, joined);
      ReadAll(rule.operands[2 - part], SlotOf(2 - part), lane, joined);
      write.parts[part][static_cast<size_t>(lane)] = Finish(joined, lane);
    }
  }
}

// A nibble of the selector chooses a byte of b and a.
void TaintTracker::FollowPermute(const TaintRule& rule) {
  if (IsTainted(kSelector, instr_->c)) return FollowLanes(rule);
  Write& write = Writes(instr_->d, rule.operands[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (const int part : {0, 1}) {
      JoinedTaint joined;
      Guard(lane, joined);
      const int selector = ValueOf(kSelector, instr_->c, 0, lane) >> (8 * part);
      for (const int nibble : {selector & 7, selector >> 4 & 7})
        joined.Add(Read(kSelector, nibble < 4 ? instr_->a : instr_->b, nibble % 4 / 2, lane));
      write.parts[static_cast<size_t>(part)][static_cast<size_t>(lane)] = Finish(joined, lane);
    }
  }
}

// Elements of a vector have fewer bytes than the register that they fill, or fill it.
void TaintTracker::FollowMove(const TaintRule& rule) {
  const TaintOperand whole{.written = true, .bytes = rule.element_bytes};
  const int parts = whole.parts();
  const auto count = static_cast<int>(instr_->target);
  const int element_bytes = count == 0 ? whole.bytes : whole.bytes / count;
  const TaintOperand element{.written = true, .bytes = std::max(element_bytes, 2)};
  const auto take = [&](Write& write, int to, const TaintOperand& from, Slot slot, int part) {
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto i = static_cast<size_t>(lane);
      TaintWord& word = write.parts[static_cast<size_t>(to)][i];
      JoinedTaint joined;
      joined.Add(word);
      if (is_guarded_) joined.Add(guard_[i]);
      joined.Add(Read(from, slot, part, lane));
      word = Finish(joined, lane);
    }
  };
  if ((instr_->flags & kFormFlag) != 0) {
    for (int e = 0; e < count; ++e) {
      Write& write = Writes(warp_->More(*instr_, static_cast<uint32_t>(e)), element);
      for (int part = 0; part < element.parts(); ++part)
        take(write, part, whole, instr_->a, e * element_bytes / 2 + part);
    }
    return;
  }
  Write& write = Writes(instr_->d, whole);
  for (int part = 0; part < parts && count == 0; ++part)
    take(write, part, whole, instr_->a, part);
  for (int e = 0; e < count; ++e)
    for (int part = 0; part < element.parts(); ++part)
      take(write, e * element_bytes / 2 + part, element,
           warp_->More(*instr_, static_cast<uint32_t>(e)), part);
}

void TaintTracker::FollowConvert() {
  const auto bytes = [](unsigned code) { return 1 << code; };
  const TaintOperand from{.written = false, .bytes = bytes(Resizing::From(*instr_))};
  Write& write = Writes(instr_->d, {.written = true, .bytes = bytes(Resizing::To(*instr_))});
  if (!is_guarded_ && !IsTainted(from, instr_->a)) return;
  // Of an integer, a narrower one has the lower part alone.
  const int parts =
      TaintRuleOf(instr_->form).cuts ? std::min(from.parts(), write.to.parts()) : from.parts();
  for (int lane = 0; lane < kLanes; ++lane) {
    JoinedTaint joined;
    Guard(lane, joined);
    for (int part = 0; part < parts; ++part)
      joined.Add(Read(from, instr_->a, part, lane));
    for (int part = 0; part < write.to.parts(); ++part)
      write.parts[static_cast<size_t>(part)][static_cast<size_t>(lane)] = Finish(joined, lane);
  }
}

void TaintTracker::FollowWarp(const TaintRule& rule) {
  JoinedTaint joined;
  // Who takes part depends on all branches that lanes are behind, or have left by.
  if (const auto controls = controls_.find(warp_); controls != controls_.end())
    for (const Control& control : controls->second)
      std::ranges::for_each(control.words, [&](TaintWord word) { joined.Add(word); });
  for (int lane = 0; lane < kLanes; ++lane) {
    Guard(lane, joined);
    if ((warp_->live() >> lane & 1) == 0) continue;
    for (size_t i = 0; i < rule.operands.size(); ++i)
      if (rule.operands[i].read()) ReadAll(rule.operands[i], SlotOf(i), lane, joined);
  }
  Lanes words;
  words.fill(Finish(joined, std::countr_zero(warp_->mask())));
  WriteAll(rule, words);
}

// mma: lanes 4 g to 4 g + 3 have row g of A (registers with odd numbers, of 16 rows: row g + 8) and
// column g of B. Of the sums, lane 4 g + i has columns 2 i and 2 i + 1 of row g, then of row g + 8.
void TaintTracker::FollowMatrix(const TaintRule& rule) {
  const auto sums = static_cast<size_t>(
      std::ranges::count_if(rule.operands, [](const TaintOperand& each) { return each.written; }));
  const size_t factors = rule.operands.size() - 2 * sums;
  const size_t of_a = rule.rows == 16 ? factors * 2 / 3 : factors / 2;
  std::array<JoinedTaint, 16> rows;
  std::array<JoinedTaint, 8> columns;
  for (size_t i = sums; i < sums + factors; ++i) {
    const bool is_a = i < sums + of_a;
    const size_t lower = is_a && rule.rows == 16 ? (i - sums) % 2 : 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto group = static_cast<size_t>(lane / 4);
      ReadAll(rule.operands[i], SlotOf(i), lane, is_a ? rows[8 * lower + group] : columns[group]);
    }
  }
  const size_t of_row = rule.rows == 16 ? sums / 2 : sums;  // Registers.
  for (size_t i = 0; i < sums; ++i) {
    Write& write = Writes(SlotOf(i), rule.operands[i]);
    const size_t c = sums + factors + i;
    for (int lane = 0; lane < kLanes; ++lane) {
      const auto group = static_cast<size_t>(lane / 4);
      for (int part = 0; part < write.to.parts(); ++part) {
        const size_t column = of_row == 1 ? static_cast<size_t>(part) : i % 2;
        JoinedTaint joined;
        Guard(lane, joined);
        for (const JoinedTaint& factor : {rows[8 * (i / of_row) + group],
                                          columns[static_cast<size_t>(lane % 4) * 2 + column]}) {
          joined.met = joined.met || factor.met;
          joined.Add(factor.word);
        }
        // Two sums of 16 bits are in a register, or one that carries.
        if (of_row == 1)
          joined.Add(Read(rule.operands[c], SlotOf(c), part, lane));
        else
          ReadAll(rule.operands[c], SlotOf(c), lane, joined);
        write.parts[static_cast<size_t>(part)][static_cast<size_t>(lane)] = Finish(joined, lane);
      }
    }
  }
}

}  // namespace coppice::ptx
