// What registers hold, and what an instruction does with it once it has been executed.

#include "runtime/emulator/ptx/taint_tracker.h"

#include <algorithm>
#include <utility>

#include "runtime/emulator/ptx/findings.h"
#include "runtime/emulator/ptx/form_table.h"

namespace coppice::ptx {
void TaintTracker::Start(const Frame& frame) {
  FrameTaint& taint = frames_[&frame];
  taint.registers.assign(static_cast<size_t>(frame.code->frame_bytes) / 2, 0);
  taint.predicates.clear();
}

void TaintTracker::Clear(std::span<const std::byte> host) {
  taint_.plane.Fill(reinterpret_cast<uint64_t>(host.data()), host.size(), 0);
}

void TaintTracker::Copy(const std::byte* from, const std::byte* to, size_t bytes) {
  taint_.plane.Copy(reinterpret_cast<uint64_t>(from), reinterpret_cast<uint64_t>(to), bytes);
}

TaintWord TaintTracker::Read(const TaintOperand& operand, Slot slot, int part, int lane) const {
  if (slot.area != static_cast<uint32_t>(Area::kFrame)) return 0;
  const auto i = static_cast<size_t>(lane);
  if (operand.bytes == 0) {
    const auto found = registers_->predicates.find(slot.offset);
    return found == registers_->predicates.end() ? 0 : found->second[i];
  }
  if (part >= operand.parts()) return 0;
  return registers_->registers[slot.offset / 2 + static_cast<size_t>(part) * kLanes + i];
}

void TaintTracker::ReadAll(const TaintOperand& operand,
                           Slot slot,
                           int lane,
                           JoinedTaint& joined) const {
  for (int part = 0; part < operand.parts(); ++part)
    joined.Add(Read(operand, slot, part, lane));
}

bool TaintTracker::IsTainted(const TaintOperand& operand, Slot slot) const {
  if (slot.area != static_cast<uint32_t>(Area::kFrame)) return false;
  if (operand.bytes == 0) return registers_->predicates.contains(slot.offset);
  const TaintWord* const words = registers_->registers.data() + slot.offset / 2;
  TaintWord any = 0;
  for (int i = 0; i < operand.parts() * kLanes; ++i)
    any |= words[i];
  return any != 0;
}

TaintTracker::Write& TaintTracker::Writes(Slot slot, const TaintOperand& to) {
  if (write_count_ == writes_.size()) writes_.emplace_back();
  Write& write = writes_[write_count_++];
  write.slot = slot;
  write.to = to;
  for (int part = 0; part < to.parts(); ++part)
    write.parts[static_cast<size_t>(part)] = {};
  return write;
}

void TaintTracker::WriteAll(const TaintRule& rule, const Lanes& words) {
  for (size_t i = 0; i < rule.operands.size(); ++i) {
    if (!rule.operands[i].written) continue;
    Write& write = Writes(SlotOf(i), rule.operands[i]);
    for (int part = 0; part < write.to.parts(); ++part)
      write.parts[static_cast<size_t>(part)] = words;
  }
}

// Lanes that the guard keeps out have what they had, which depends on the guard.
void TaintTracker::Commit(uint32_t lanes) {
  const uint32_t kept_out = is_guarded_ ? warp_->active() & ~lanes : 0;
  const auto take = [&](const Lanes& words, TaintWord* to) {
    TaintWord any = 0;
    for (size_t i = 0; i < kLanes; ++i) {
      if ((lanes >> i & 1) != 0) to[i] = words[i];
      if ((kept_out >> i & 1) != 0) to[i] = JoinTaint(to[i], guard_[i]);
      any |= to[i];
    }
    return any;
  };
  for (size_t w = 0; w < write_count_; ++w) {
    const Write& write = writes_[w];
    if (write.slot.area != static_cast<uint32_t>(Area::kFrame)) continue;
    if (write.to.bytes == 0) {
      auto found = registers_->predicates.find(write.slot.offset);
      if (found == registers_->predicates.end()) {
        if (kept_out == 0 && write.parts[0] == Lanes{}) continue;
        found = registers_->predicates.emplace(write.slot.offset, Lanes{}).first;
      }
      if (take(write.parts[0], found->second.data()) == 0) registers_->predicates.erase(found);
      continue;
    }
    for (int part = 0; part < write.to.parts(); ++part)
      take(write.parts[static_cast<size_t>(part)],
           registers_->registers.data() + write.slot.offset / 2 + part * kLanes);
  }
}

Slot TaintTracker::SlotOf(size_t index) const {
  const Slot near[] = {instr_->d, instr_->a, instr_->b, instr_->c};
  if (index < std::size(near)) return near[index];
  return warp_->More(*instr_, static_cast<uint32_t>(index - std::size(near)));
}

void TaintTracker::Begin(ResidentWarp& warp, const Instr& instr, const TaintRule& rule) {
  warp_ = &warp;
  instr_ = &instr;
  registers_ = &frames_.at(&warp.frame());
  write_count_ = 0;
  is_guarded_ = false;
  TakeControl();
  const auto take = [&](int lane, TaintWord word) {
    if (word == 0) return;
    if (!is_guarded_) guard_ = {};
    is_guarded_ = true;
    guard_[static_cast<size_t>(lane)] = JoinTaint(guard_[static_cast<size_t>(lane)], word);
  };
  bool decides = false;
  const auto take_all = [&](const TaintOperand& operand, Slot slot) {
    for (int lane = 0; lane < kLanes; ++lane) {
      JoinedTaint joined;
      ReadAll(operand, slot, lane, joined);
      take(lane, joined.word);
      decides = decides || IsPadding(joined.word);
    }
  };
  if (instr.guard != Instr::kUnguarded)
    take_all({.written = false, .bytes = 0}, Slot::At(Area::kFrame, instr.guard));
  if (!rule.branches) return;
  // An index, or the address of a function.
  const bool indexed =
      rule.indexed && (!rule.calls || warp.frame().code->calls[instr.target].callee == nullptr);
  if (indexed) take_all({.written = false, .bytes = rule.calls ? 8 : 4}, instr.a);
  if (decides) TakeBranch();
}

const TaintTracker::Branch& TaintTracker::BranchAt(const Code& code) {
  const auto [known, added] = branches_.try_emplace(instr_);
  Branch& branch = known->second;
  if (!added) return branch;
  const auto at = static_cast<uint32_t>(instr_ - code.instrs.data());
  std::vector<uint32_t>& joins = joins_[&code];
  if (joins.empty()) joins = JoinPoints(code);
  const bool calls = TaintRuleOf(instr_->form).calls;
  branch.join = calls ? at + 1 : joins[at];
  branch.stores = calls;  // Its callee may.
  for (const uint32_t behind : InstructionsBetween(code, at, branch.join)) {
    const Instr& instr = code.instrs[behind];
    const TaintRule& rule = TaintRuleOf(instr.form);
    branch.stores = branch.stores || rule.stores || rule.calls;
    for (const TaintWritten& written : WrittenBy(code, instr))
      branch.written.push_back(written);
  }
  return branch;
}

// What is written on a way that is not taken, would be: it depends on the branch, too.
void TaintTracker::TakeBranch() {
  const Frame& frame = warp_->frame();
  const Branch& branch = BranchAt(*frame.code);
  std::vector<Control>& controls = controls_[warp_];
  auto known = std::ranges::find_if(controls, [&](const Control& control) {
    return control.frame == &frame && control.join == branch.join;
  });
  if (known == controls.end())
    known = controls.insert(
        known,
        {.frame = &frame, .depth = frame.depth, .join = branch.join, .lanes = 0, .words = {}});
  const uint32_t active = warp_->active();
  known->lanes |= active;
  for (size_t i = 0; i < kLanes; ++i)
    if ((active >> i & 1) != 0) known->words[i] = JoinTaint(known->words[i], guard_[i]);
  for (const TaintWritten& written : branch.written)
    Writes(written.slot, written.to);
  Commit(/*lanes=*/0);
  write_count_ = 0;
  if (branch.stores) taint_.AddGap("stores behind a branch that depends on padding");
}

void TaintTracker::TakeControl() {
  const auto found = controls_.find(warp_);
  if (found == controls_.end()) return;
  std::vector<Control>& controls = found->second;
  const auto pc = static_cast<uint32_t>(instr_ - warp_->frame().code->instrs.data());
  for (Control& control : controls) {
    const bool met = control.frame == &warp_->frame() && control.join == pc;
    if (met || warp_->frame().depth < control.depth) control.lanes &= ~warp_->active();
    if ((control.lanes & warp_->active()) == 0) continue;
    if (!is_guarded_) guard_ = {};
    is_guarded_ = true;
    for (size_t i = 0; i < kLanes; ++i)
      if ((control.lanes >> i & 1) != 0) guard_[i] = JoinTaint(guard_[i], control.words[i]);
  }
  std::erase_if(controls, [](const Control& control) { return control.lanes == 0; });
  if (controls.empty()) controls_.erase(found);
}

TaintWord TaintTracker::Meeting(int lane) {
  const auto [known, added] = meetings_.try_emplace(instr_);
  if (added && taint_.meetings.size() < Taint::kMeetingsMax) {
    const Whereabouts where = warp_->WhereIs(lane);
    taint_.meetings.push_back({.kernel = warp_->state().kernel.code->name,
                               .block = where.block,
                               .thread = where.thread,
                               .line = where.instr.line,
                               .source = SourceOf(where)});
    known->second = static_cast<TaintWord>(taint_.meetings.size()) << kTaintMeetingShift;
  }
  return known->second;
}

TaintWord TaintTracker::Finish(const JoinedTaint& joined, int lane) {
  if (!IsMet(joined.word) || joined.met) return joined.word;
  return (joined.word & kTaintLabels) | Meeting(lane);
}

TaintWord TaintTracker::Stored(TaintWord word, int lane) {
  if (!IsPadding(word) || word >> kTaintMeetingShift != 0) return word;
  return word | Meeting(lane);
}

Step TaintTracker::Execute(ResidentWarp& warp, const Instr& instr) {
  const TaintRule& rule = TaintRuleOf(instr.form);
  Begin(warp, instr, rule);
  if (rule.kind == TaintRule::Kind::kShuffle) return Shuffle(rule);
  if (!Follow(rule)) return Step::kStop;
  const Step step = instr.handler(warp, instr);
  // An access that may wait for others has been made, and makes room.
  const bool accessed =
      rule.kind == TaintRule::Kind::kLoad || rule.kind == TaintRule::Kind::kAtomic;
  if ((step == Step::kNext || (accessed && step == Step::kChoose)) && write_count_ != 0)
    Commit(warp.mask());
  return step;
}

void TaintTracker::Skip(ResidentWarp& warp, const Instr& instr) {
  const TaintRule& rule = TaintRuleOf(instr.form);
  Begin(warp, instr, rule);
  if (!is_guarded_) return;
  for (const TaintWritten& written : WrittenBy(*warp.frame().code, instr))
    Writes(written.slot, written.to);
  Commit(/*lanes=*/0);
  StoreKeptOut(rule, warp.active());
}

// Which lane a lane reads shows where each has its own number as the value.
Step TaintTracker::Shuffle(const TaintRule& rule) {
  const Slot from = SlotOf(2);
  const bool tainted = IsTainted(rule.operands[2], from);
  const auto is_from = [&](Slot slot) {
    return slot.area == from.area && slot.offset == from.offset;
  };
  if (tainted && (is_from(SlotOf(3)) || is_from(SlotOf(4)) || is_from(SlotOf(5)))) {
    FollowWarp(rule);
    const Step step = instr_->handler(*warp_, *instr_);
    if (step == Step::kNext) Commit(warp_->mask());
    return step;
  }
  Lanes lane_of = {};
  if (tainted) {
    const auto keep = [&](Slot slot, size_t bytes) {
      const std::byte* const at = warp_->From<std::byte>(slot);
      return std::vector<std::byte>(at, at + bytes);
    };
    constexpr size_t kBytes = sizeof(uint32_t) * kLanes;
    const std::vector<std::byte> value = keep(from, kBytes);
    const std::vector<std::byte> d = keep(instr_->d, kBytes);
    const std::vector<std::byte> p = keep(instr_->a, sizeof(uint32_t));
    for (uint32_t i = 0; i < kLanes; ++i)
      warp_->To<uint32_t>(from)[i] = i;
    const Step step = instr_->handler(*warp_, *instr_);
    std::copy_n(warp_->From<uint32_t>(instr_->d), kLanes, lane_of.begin());
    std::ranges::copy(p, warp_->To<std::byte>(instr_->a));
    std::ranges::copy(d, warp_->To<std::byte>(instr_->d));
    std::ranges::copy(value, warp_->To<std::byte>(from));
    if (step != Step::kNext) return step;
  }
  Write& result = Writes(instr_->d, rule.operands[0]);
  Write& inside = Writes(instr_->a, rule.operands[1]);
  for (int lane = 0; lane < kLanes; ++lane) {
    const auto i = static_cast<size_t>(lane);
    JoinedTaint chosen;
    Guard(lane, chosen);
    for (size_t selector = 3; selector < rule.operands.size(); ++selector)
      ReadAll(rule.operands[selector], SlotOf(selector), lane, chosen);
    inside.parts[0][i] = chosen.word;
    for (int part = 0; part < rule.operands[0].parts(); ++part) {
      JoinedTaint joined = chosen;
      if (tainted && lane_of[i] < kLanes)
        joined.Add(Read(rule.operands[2], from, part, static_cast<int>(lane_of[i])));
      result.parts[static_cast<size_t>(part)][i] = Finish(joined, lane);
    }
  }
  const Step step = instr_->handler(*warp_, *instr_);
  if (step == Step::kNext) Commit(warp_->mask());
  return step;
}

}  // namespace coppice::ptx
