// What each kind of instruction does with taint.

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/forms/access.h"
#include "runtime/emulator/ptx/forms/async_tables.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/forms/resize.h"
#include "runtime/emulator/ptx/taint_tracker.h"
#include "runtime/emulator/ptx/windows.h"

namespace coppice::ptx {
namespace {

constexpr TaintOperand k64Bits{.written = false, .bytes = 8};
constexpr TaintOperand k32Bits{.written = false, .bytes = 4};

bool IsNarrow(const Instr& instr, uint8_t flag) {
  return (instr.flags & flag) != 0;
}

Space AccessSpaceOf(const Instr& instr) {
  return static_cast<Space>((instr.flags & AccessFlags::kSpace) >> AccessFlags::kSpaceShift);
}

TaintOperand AddressOperand(bool narrow) {
  return narrow ? k32Bits : k64Bits;
}

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

void TaintTracker::FollowLanes(const TaintRule& rule) {
  bool any = is_guarded_;
  for (size_t i = 0; i < rule.operands.size() && !any; ++i)
    any = !rule.operands[i].written && IsTainted(rule.operands[i], SlotOf(i));
  Lanes words = {};
  if (!any) return WriteAll(rule, words);
  for (int lane = 0; lane < kLanes; ++lane) {
    JoinedTaint joined;
    if (is_guarded_) joined.Add(guard_[static_cast<size_t>(lane)]);
    size_t first = 0;  // Of what is read.
    while (first < rule.operands.size() && rule.operands[first].written)
      ++first;
    // A factor of 0 is all that the product depends on.
    const bool zero = rule.kind == TaintRule::Kind::kProduct &&
                      (IsZero(rule.operands[first], SlotOf(first), lane) ||
                       IsZero(rule.operands[first + 1], SlotOf(first + 1), lane));
    for (size_t i = zero ? first + 2 : first; i < rule.operands.size(); ++i)
      if (!rule.operands[i].written) ReadAll(rule.operands[i], SlotOf(i), lane, joined);
    words[static_cast<size_t>(lane)] = Finish(joined, lane);
  }
  WriteAll(rule, words);
}

// d, and what is read; a select's last is the predicate.
void TaintTracker::FollowParts(const TaintRule& rule) {
  bool any = is_guarded_;
  for (size_t i = 1; i < rule.operands.size() && !any; ++i)
    any = IsTainted(rule.operands[i], SlotOf(i));
  Write& write = Writes(SlotOf(0), rule.operands[0]);
  if (!any) return;
  const size_t last = rule.operands.size() - 1;
  for (int part = 0; part < write.to.parts(); ++part) {
    for (int lane = 0; lane < kLanes; ++lane) {
      JoinedTaint joined;
      if (is_guarded_) joined.Add(guard_[static_cast<size_t>(lane)]);
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
      if (is_guarded_) joined.Add(guard_[static_cast<size_t>(lane)]);
      ReadAll(rule.operands[2 - part], SlotOf(2 - part), lane, joined);
      write.parts[part][static_cast<size_t>(lane)] = Finish(joined, lane);
    }
  }
}

// A nibble of the selector chooses a byte of b and a.
void TaintTracker::FollowPermute(const TaintRule& rule) {
  if (IsTainted(k32Bits, instr_->c)) return FollowLanes(rule);
  Write& write = Writes(instr_->d, rule.operands[0]);
  for (int lane = 0; lane < kLanes; ++lane) {
    for (const int part : {0, 1}) {
      JoinedTaint joined;
      if (is_guarded_) joined.Add(guard_[static_cast<size_t>(lane)]);
      const int selector = ValueOf(k32Bits, instr_->c, 0, lane) >> (8 * part);
      for (const int nibble : {selector & 7, selector >> 4 & 7})
        joined.Add(Read(k32Bits, nibble < 4 ? instr_->a : instr_->b, nibble % 4 / 2, lane));
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
  for (int lane = 0; lane < kLanes; ++lane) {
    JoinedTaint joined;
    if (is_guarded_) joined.Add(guard_[static_cast<size_t>(lane)]);
    ReadAll(from, instr_->a, lane, joined);
    for (int part = 0; part < write.to.parts(); ++part)
      write.parts[static_cast<size_t>(part)][static_cast<size_t>(lane)] = Finish(joined, lane);
  }
}

void TaintTracker::FollowWarp(const TaintRule& rule) {
  JoinedTaint joined;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((warp_->live() >> lane & 1) == 0) continue;
    if (is_guarded_) joined.Add(guard_[static_cast<size_t>(lane)]);
    for (size_t i = 0; i < rule.operands.size(); ++i)
      if (!rule.operands[i].written) ReadAll(rule.operands[i], SlotOf(i), lane, joined);
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
        if (is_guarded_) joined.Add(guard_[static_cast<size_t>(lane)]);
        for (const JoinedTaint& factor : {rows[8 * (i / of_row) + group],
                                          columns[static_cast<size_t>(lane % 4) * 2 + column]}) {
          joined.met = joined.met || factor.met;
          joined.Add(factor.word);
        }
        joined.Add(Read(rule.operands[c], SlotOf(c), part, lane));
        write.parts[static_cast<size_t>(part)][static_cast<size_t>(lane)] = Finish(joined, lane);
      }
    }
  }
}

int TaintTracker::ElementsOf() const {
  return 1 << (instr_->flags & AccessFlags::kElements);
}

Slot TaintTracker::ElementSlot(int element) const {
  return ElementsOf() == 1 ? instr_->d : warp_->More(*instr_, static_cast<uint32_t>(element));
}

TaintOperand TaintTracker::ElementRegister(bool written) const {
  return {.written = written, .bytes = static_cast<int>(instr_->target)};
}

bool TaintTracker::FindAccess(int64_t bytes, AccessKind kind, LaneWords& hosts) const {
  const bool narrow = IsNarrow(*instr_, AccessFlags::kNarrow);
  for (size_t i = 0; i < kLanes; ++i)
    hosts[i] = instr_->immediate +
               (narrow ? warp_->From<uint32_t>(instr_->a)[i] : warp_->From<uint64_t>(instr_->a)[i]);
  return warp_->FindLanes(AccessSpaceOf(*instr_), warp_->mask(), bytes, kind, hosts);
}

bool TaintTracker::FollowLoad(const TaintRule& rule) {
  const int elements = ElementsOf();
  const TaintOperand to = ElementRegister(/*written=*/true);
  const TaintOperand base = AddressOperand(IsNarrow(*instr_, AccessFlags::kNarrow));
  const size_t first = write_count_;
  for (int element = 0; element < elements; ++element)
    Writes(ElementSlot(element), to);
  // Parameters of a kernel are no inputs.
  if (AccessSpaceOf(*instr_) == Space::kParam && base.bytes == k64Bits.bytes &&
      instr_->a.area == static_cast<uint32_t>(Area::kConstants))
    return true;
  LaneWords hosts;
  if (!FindAccess(int64_t{elements} * rule.element_bytes, AccessKind::kRead, hosts)) return false;
  for (uint32_t left = warp_->mask(); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto i = static_cast<size_t>(lane);
    JoinedTaint address;
    if (is_guarded_) address.Add(guard_[i]);
    ReadAll(base, instr_->a, lane, address);
    for (int element = 0; element < elements; ++element) {
      for (int part = 0; part < to.parts(); ++part) {
        // What extends a value has its sign.
        const int begin = 2 * part < rule.element_bytes ? 2 * part : 0;
        const int end = std::min(begin + 2, rule.element_bytes);
        JoinedTaint joined = address;
        for (int byte = begin; byte < end; ++byte)
          joined.Add(taint_.plane.At(hosts[i] +
                                     static_cast<uint64_t>(element * rule.element_bytes + byte)));
        writes_[first + static_cast<size_t>(element)].parts[static_cast<size_t>(part)][i] =
            Finish(joined, lane);
      }
    }
  }
  return true;
}

void TaintTracker::StoreKeptOut(const TaintRule& rule, uint32_t lanes) {
  if (rule.kind != TaintRule::Kind::kStore && rule.kind != TaintRule::Kind::kAtomic) return;
  const bool stores = rule.kind == TaintRule::Kind::kStore;
  const auto space = stores ? AccessSpaceOf(*instr_) : SpaceOf(*instr_);
  const LaneAddresses addresses(*warp_, instr_->a,
                                IsNarrow(*instr_, stores ? AccessFlags::kNarrow : kNarrowAddress),
                                instr_->immediate);
  const std::span<std::byte> shared = warp_->block().shared;
  const auto bytes = static_cast<uint64_t>((stores ? ElementsOf() : 1) * rule.element_bytes);
  for (int lane = 0; lane < kLanes; ++lane) {
    const TaintWord guard = guard_[static_cast<size_t>(lane)];
    if ((lanes >> lane & 1) == 0 || !IsPadding(guard)) continue;
    // It may be any address, and is looked up nowhere.
    uint64_t host = addresses[lane];
    if (space == Space::kShared || host >> kWindowShift == kSharedWindow >> kWindowShift) {
      const uint64_t offset = host & ~kWindowMask;
      if (offset + bytes > shared.size()) continue;
      host = reinterpret_cast<uint64_t>(shared.data() + offset);
    }
    for (uint64_t byte = 0; byte < bytes; ++byte)
      taint_.plane.Fill(host + byte, 1,
                        Stored(JoinTaint(taint_.plane.At(host + byte), guard), lane));
  }
}

bool TaintTracker::FollowStore(const TaintRule& rule) {
  if (is_guarded_) StoreKeptOut(rule, warp_->active() & ~warp_->mask());
  const int elements = ElementsOf();
  const TaintOperand from = ElementRegister(/*written=*/false);
  const TaintOperand base = AddressOperand(IsNarrow(*instr_, AccessFlags::kNarrow));
  LaneWords hosts;
  if (!FindAccess(int64_t{elements} * rule.element_bytes, AccessKind::kWrite, hosts)) return false;
  for (uint32_t left = warp_->mask(); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto i = static_cast<size_t>(lane);
    JoinedTaint address;
    if (is_guarded_) address.Add(guard_[i]);
    ReadAll(base, instr_->a, lane, address);
    for (int byte = 0; byte < elements * rule.element_bytes; ++byte) {
      JoinedTaint joined = address;
      joined.Add(
          Read(from, ElementSlot(byte / rule.element_bytes), byte % rule.element_bytes / 2, lane));
      taint_.plane.Fill(hosts[i] + static_cast<uint64_t>(byte), 1,
                        Stored(Finish(joined, lane), lane));
    }
  }
  return true;
}

bool TaintTracker::FollowAtomic(const TaintRule& rule) {
  if (is_guarded_) StoreKeptOut(rule, warp_->active() & ~warp_->mask());
  const TaintOperand value{.written = false, .bytes = rule.element_bytes};
  const bool reduces = (instr_->flags & kFormFlag) != 0;
  const LaneAddresses addresses(*warp_, *instr_);
  LaneWords hosts;
  for (int lane = 0; lane < kLanes; ++lane)
    hosts[static_cast<size_t>(lane)] = addresses[lane];
  if (!warp_->FindLanes(SpaceOf(*instr_), warp_->mask(), rule.element_bytes, AccessKind::kAtomic,
                        hosts))
    return false;
  Write* const write =
      reduces ? nullptr : &Writes(instr_->d, {.written = true, .bytes = rule.element_bytes});
  for (uint32_t left = warp_->mask(); left != 0; left &= left - 1) {
    const int lane = std::countr_zero(left);
    const auto i = static_cast<size_t>(lane);
    JoinedTaint joined;
    if (is_guarded_) joined.Add(guard_[i]);
    ReadAll(AddressOperand(IsNarrow(*instr_, kNarrowAddress)), instr_->a, lane, joined);
    const TaintWord before =
        taint_.plane.Joined(hosts[i], static_cast<uint64_t>(rule.element_bytes));
    joined.Add(before);
    if (write != nullptr)
      for (int part = 0; part < write->to.parts(); ++part)
        write->parts[static_cast<size_t>(part)][i] = joined.word;
    ReadAll(value, instr_->b, lane, joined);
    if (rule.swaps) ReadAll(value, instr_->c, lane, joined);
    taint_.plane.Fill(hosts[i], static_cast<uint64_t>(rule.element_bytes),
                      Stored(Finish(joined, lane), lane));
  }
  return true;
}

// Lane 8 m + r has the address of row r of matrix m, of 16 bytes.
bool TaintTracker::FollowMatrices(const TaintRule& rule) {
  const bool loads = rule.kind == TaintRule::Kind::kLoadMatrices;
  const LaneAddresses addresses(*warp_, *instr_);
  LaneWords rows;
  for (int lane = 0; lane < kLanes; ++lane)
    rows[static_cast<size_t>(lane)] = addresses[lane];
  const uint32_t row_lanes = kAllLanes >> (kLanes - 8 * rule.rows);
  if (!warp_->FindLanes(SpaceOf(*instr_), row_lanes, 16,
                        loads ? AccessKind::kRead : AccessKind::kWrite, rows))
    return false;
  for (int matrix = 0; matrix < rule.rows; ++matrix) {
    const Slot slot = warp_->More(*instr_, static_cast<uint32_t>(matrix));
    Write* const write = loads ? &Writes(slot, {.written = true, .bytes = 4}) : nullptr;
    for (int lane = 0; lane < kLanes; ++lane) {
      for (const int part : {0, 1}) {
        const int row = rule.transposed ? 2 * (lane % 4) + part : lane / 4;
        const int column = rule.transposed ? lane / 4 : 2 * (lane % 4) + part;
        const uint64_t host =
            rows[static_cast<size_t>(8 * matrix + row)] + static_cast<uint64_t>(2 * column);
        JoinedTaint joined;
        if (is_guarded_) joined.Add(guard_[static_cast<size_t>(lane)]);
        joined.Add(loads ? taint_.plane.Joined(host, 2) : Read(k32Bits, slot, part, lane));
        const TaintWord word = Finish(joined, lane);
        if (loads)
          write->parts[static_cast<size_t>(part)][static_cast<size_t>(lane)] = word;
        else
          taint_.plane.Fill(host, 2, Stored(word, lane));
      }
    }
  }
  return true;
}

// As if it landed at once: nobody may look before it does.
bool TaintTracker::FollowCopy() {
  const AsyncCopies::Copy copy = AsyncCopyOf(*warp_, *instr_);
  LaneWords to = copy.to;
  if (!warp_->FindLanes(Space::kShared, warp_->mask(), copy.bytes, AccessKind::kWrite, to))
    return false;
  for (uint32_t left = warp_->mask(); left != 0; left &= left - 1) {
    const auto i = static_cast<size_t>(std::countr_zero(left));
    for (uint64_t byte = 0; byte < static_cast<uint64_t>(copy.bytes); ++byte) {
      JoinedTaint joined;
      if (is_guarded_) joined.Add(guard_[i]);
      if (byte < copy.read[i]) joined.Add(taint_.plane.At(copy.from[i] + byte));
      taint_.plane.Fill(to[i] + byte, 1, joined.word);
    }
  }
  return true;
}

}  // namespace coppice::ptx
