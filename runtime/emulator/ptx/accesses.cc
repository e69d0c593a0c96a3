// Accesses, a lane at a time; writes are in access_writes.cc, rows in access_rows.cc.

#include "runtime/emulator/ptx/accesses.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <set>
#include <string_view>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/plural.h"

#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/forms/access.h"

namespace coppice::ptx {
namespace {

constexpr int kShiftMax = 2;

const char* NameOf(Space space) {
  return space == Space::kShared ? "shared" : "global";
}

// The logarithm of what a form stores at least, and no more than kShiftMax.
int StoreShift(std::string_view form) {
  if (form.starts_with("atom.") || form.starts_with("red."))
    return form.ends_with("16") ? 1 : kShiftMax;
  if (!form.starts_with("st.")) return kShiftMax;
  const auto opcode = AccessOpcode::Parse(form);
  if (!opcode.has_value()) return kShiftMax;
  const auto bytes = static_cast<unsigned>(SizeOf(opcode->type) * opcode->elements);
  return std::min(std::countr_zero(std::bit_floor(bytes)), kShiftMax);
}

std::vector<uint8_t> StoreShifts() {
  std::vector<uint8_t> shifts;
  for (const Form& form : AllForms())
    shifts.push_back(static_cast<uint8_t>(StoreShift(form.name)));
  return shifts;
}

int NarrowestStore(const Kernel& kernel) {
  static const std::vector<uint8_t> shifts = StoreShifts();
  std::set<const Code*> seen = {kernel.code};
  std::vector<const Code*> left = {kernel.code};
  const auto visit = [&](const Code* code) {
    if (seen.insert(code).second) left.push_back(code);
  };
  int narrowest = kShiftMax;
  while (!left.empty()) {
    const Code& code = *left.back();
    left.pop_back();
    for (const Instr& instr : code.instrs)
      narrowest = std::min<int>(narrowest, shifts[instr.form]);
    for (const CallSite& site : code.calls) {
      if (site.callee != nullptr) {
        visit(site.callee);
      } else if (kernel.functions != nullptr) {
        std::ranges::for_each(*kernel.functions, visit);
      }
    }
  }
  return narrowest;
}

}  // namespace

std::unique_ptr<Accesses> Accesses::Create(LaunchState& state) {
  const Checks& checks = state.environment.checks;
  if (!checks.races && !checks.uninitialized && !checks.record) return nullptr;
  const int shift = checks.races ? NarrowestStore(state.kernel) : kShiftMax;
  return std::unique_ptr<Accesses>(new Accesses(state, shift));
}

Accesses::Accesses(LaunchState& state, int shift)
    : state_(state),
      // Cells hold 32 bits of a block's index.
      races_(state.environment.checks.races && state.block_count < 0xfffffffe),
      record_(state.environment.checks.record),
      uninitialized_(state.environment.checks.uninitialized),
      asks_written_(uninitialized_ && state.environment.written != nullptr),
      shift_(shift),
      shadow_(shift),
      order_(state.block_count) {}

Actor Accesses::ActorOf(ResidentWarp& warp) {
  return ActorOf(warp, warp.block().shadow.order.Now());
}

Actor Accesses::ActorOf(ResidentWarp& warp, uint32_t now) {
  BlockState& block = warp.block();
  return {.warp = warp,
          .shadow = block.shadow,
          .block = block.index,
          .index = static_cast<uint32_t>(warp.index()),
          .now = now,
          .code = warp.code(),
          .instr = warp.instr(),
          .together = warp.IsTogether()};
}

// --- events

void Accesses::Start(BlockState& block) {
  Settle();
  BlockShadow& shadow = block.shadow;
  shadow.order.Start();
  shadow.acquired = 0;
  const size_t bytes = block.shared.size();
  const size_t granules = races_ ? (bytes >> shift_) + 1 : 0;
  shadow.writers.assign(granules, {});
  shadow.readers.assign(granules, {});
  shadow.by_proxy.clear();
  shadow.written.assign(uninitialized_ ? bytes : 0, 0);
}

void Accesses::MeetAll(BlockState& block) {
  Settle();
  block.shadow.order.MeetAll();
}

void Accesses::MeetCluster(const std::vector<BlockState*>& blocks) {
  Settle();
  for (BlockState* const block : blocks) {
    block->shadow.order.MeetAll();
    if (blocks.size() > 1) order_.Release(block->index, block->shadow.order.time());
  }
  for (BlockState* const block : blocks)
    block->shadow.acquired = order_.releases();
}

void Accesses::Arrive(ResidentWarp& warp, BlockOrder::Knowledge& barrier) {
  Settle();
  warp.block().shadow.order.Arrive(static_cast<uint32_t>(warp.index()), barrier);
}

void Accesses::Depart(ResidentWarp& warp, const BlockOrder::Knowledge& barrier) {
  warp.block().shadow.order.Depart(static_cast<uint32_t>(warp.index()), barrier);
}

void Accesses::MeetInWarp(ResidentWarp& warp) {
  Settle();
  warp.block().shadow.order.MeetInWarp(static_cast<uint32_t>(warp.index()));
}

void Accesses::Acquire(Actor& actor, Space space) {
  actor.shadow.order.Acquire(actor.index);
  const bool clustered = actor.warp.block().cluster->members.size() > 1;
  if (space != Space::kShared || clustered) actor.shadow.acquired = order_.releases();
  actor.now = actor.shadow.order.Now();
}

void Accesses::Release(Actor& actor, Space space) {
  actor.shadow.order.Release(actor.index);
  if (space != Space::kShared) order_.Release(actor.block, actor.shadow.order.time());
}

void Accesses::Finish(Outcome& outcome) {
  Settle();
  if (record_) outcome.touched = shadow_.Touched();
}

// --- lanes

Visitor Accesses::InBlock(const Actor& actor, Stamp stamp) {
  return stamp.bits() == 0 ? Visitor() : Visitor(actor.block, stamp);
}

bool Accesses::IsBefore(const Actor& actor, Stamp stamp) {
  return stamp.bits() == 0 || actor.shadow.order.IsBefore(stamp, actor.index, actor.thread());
}

bool Accesses::IsBefore(const Actor& actor, Visitor visitor) const {
  if (visitor.is_nobody()) return true;
  if (visitor.is_several()) return visitor.releases() < (actor.shadow.acquired & 0xffffffff);
  const Stamp stamp = visitor.stamp();
  if (visitor.block() == actor.block)
    return actor.shadow.order.IsBefore(stamp, actor.index, actor.thread());
  return order_.IsBefore(visitor.block(), stamp.time(), actor.shadow.acquired);
}

Visitor Accesses::Joined(const Actor& actor, Visitor reader) const {
  if (IsBefore(actor, reader)) return actor.visitor();
  if (reader.is_several() || reader.block() != actor.block)
    return Visitor::Several(order_.releases());
  const bool together = actor.together && reader.stamp().is_together();
  return {actor.block, Stamp(actor.now, Stamp::kSeveral | (together ? Stamp::kTogether : 0))};
}

void Accesses::ReadGlobal(Actor& actor, uint64_t address, uint64_t bytes, bool keep) {
  GlobalShadow::Page& page = shadow_.PageOf(address);
  if (record_) GlobalShadow::Mark(page.read, address, bytes);
  if (asks_written_ && !GlobalShadow::IsWritten(page, address, bytes))
    AskWritten(actor, page, address, bytes);
  if (!races_) return;
  const size_t begin = shadow_.GranuleOf(address);
  const size_t end = shadow_.GranuleOf(address + bytes - 1) + 1;
  if (page.writers != nullptr) {
    for (size_t i = begin; i < end; ++i) {
      const Visitor writer = page.writers[i];
      if (IsBefore(actor, writer)) continue;
      ReportRace(actor, {Space::kGlobal, address, bytes}, Clash::kReadsWritten, writer);
      break;
    }
  }
  if (!keep) return;
  Visitor* const readers = shadow_.Readers(page);
  const Visitor mine = actor.visitor();
  const Visitor several = Visitor::Several(order_.releases());
  for (size_t i = begin; i < end; ++i) {
    if (readers[i] == several) continue;
    readers[i] = readers[i].is_nobody() ? mine : Joined(actor, readers[i]);
  }
}

void Accesses::ReadShared(Actor& actor, uint64_t offset, uint64_t bytes, bool keep) {
  BlockShadow& shadow = actor.shadow;
  if (uninitialized_) CheckWritten(actor, offset, bytes);
  if (!races_) return;
  const Stamp mine = actor.stamp();
  const Stamp several(actor.now, Stamp::kSeveral);
  const size_t end = ((offset + bytes - 1) >> shift_) + 1;
  for (size_t i = offset >> shift_; i < end; ++i) {
    const Stamp writer = shadow.writers[i];
    if (!IsBefore(actor, writer)) [[unlikely]]
      ReportRace(actor, {Space::kShared, offset, bytes}, Clash::kReadsWritten,
                 InBlock(actor, writer));
    Stamp& reader = shadow.readers[i];
    if (keep && reader.bits() != several.bits()) reader = IsBefore(actor, reader) ? mine : several;
  }
}

void Accesses::CheckWritten(Actor& actor, uint64_t offset, uint64_t bytes) {
  const uint8_t* const written = actor.shadow.written.data() + offset;
  if (std::memchr(written, 0, bytes) != nullptr)
    ReportUnwritten(actor, {Space::kShared, offset, bytes});
}

void Accesses::AskWritten(Actor& actor,
                          GlobalShadow::Page& page,
                          uint64_t address,
                          uint64_t bytes) {
  if (!state_.environment.written(address, address + bytes)) {
    ReportUnwritten(actor, {Space::kGlobal, address, bytes});
    return;
  }
  if (page.known == nullptr) page.known = std::make_unique<GlobalShadow::Bits>();
  GlobalShadow::Mark(*page.known, address, bytes);
}

void Accesses::ReportUnwritten(Actor& actor, const Access& access) {
  if (state_.findings.WasReported(Finding::Kind::kUninitialized, actor.instr)) return;
  state_.findings.Report(
      Finding::Kind::kUninitialized, actor.where(),
      fmt::format("reads {} at {:#x} of {} memory, but these bytes were never written",
                  Plural(access.bytes, "byte"), access.address, NameOf(access.space)),
      access.address);
}

// --- warps

bool Accesses::IsChecked(Space space) const {
  switch (space) {
    case Space::kLocal:
    case Space::kParam:
      return false;
    case Space::kShared:
      return races_ || uninitialized_;
    default:
      return true;
  }
}

void Accesses::Read(ResidentWarp& warp, const Reach& reach, int64_t bytes, bool strong) {
  if (!IsChecked(reach.space)) return;
  Settle();
  Actor actor = ActorOf(warp);
  if (strong) Acquire(actor, reach.space);
  if (reach.contiguous && !strong && ReadRow(actor, reach, static_cast<uint64_t>(bytes))) return;
  const uint64_t size = static_cast<uint64_t>(bytes);
  switch (SpaceOf(actor, reach, size)) {
    case Space::kShared:
      return ReadSharedLanes(actor, reach, size, !strong);
    case Space::kGlobal:
      return ReadGlobalLanes(actor, reach, size, !strong);
    default:
      break;
  }
  for (uint32_t left = warp.mask(); left != 0; left &= left - 1) {
    actor.lane = std::countr_zero(left);
    ReadLane(actor, reach.at(actor.lane), size, !strong);
  }
}

Accesses::Location Accesses::LocationOf(const Actor& actor, const std::byte* host) const {
  const auto inside = [host](const std::byte* begin, size_t size) {
    return host >= begin && host < begin + size;
  };
  const auto shared = actor.warp.block().shared;
  if (inside(shared.data(), shared.size()))
    return {Space::kShared, static_cast<uint64_t>(host - shared.data())};
  const size_t thread_bytes = static_cast<size_t>(actor.warp.thread_stride() * kLanes);
  if (inside(actor.warp.thread_memory(), thread_bytes)) return {Space::kLocal, 0};
  if (state_.IsOwn(host) || actor.warp.IsOfCluster(host)) return {Space::kParam, 0};
  return {Space::kGlobal, reinterpret_cast<uint64_t>(host)};
}

void Accesses::ReadLane(Actor& actor, const std::byte* host, uint64_t bytes, bool keep) {
  const Location at = LocationOf(actor, host);
  if (at.space == Space::kShared) ReadShared(actor, at.address, bytes, keep);
  if (at.space == Space::kGlobal) ReadGlobal(actor, at.address, bytes, keep);
}

void Accesses::Note(ResidentWarp& warp, std::byte* host, int64_t size, AccessKind kind, int lane) {
  const uint64_t bytes = static_cast<uint64_t>(size);
  const bool same = pending_warp_ == &warp && pending_clock_ == warp.Clock();
  const AtomicTurn turn = atomic_;
  if (kind != AccessKind::kWrite || !same) Settle();
  if (kind == AccessKind::kWrite) {
    pending_warp_ = &warp;
    pending_code_ = &warp.code();
    pending_instr_ = &warp.instr();
    pending_clock_ = warp.Clock();
    pending_together_ = warp.IsTogether();
    Pending& pending = pending_.emplace_back(Pending{.host = host, .bytes = bytes, .lane = lane});
    std::memcpy(pending.before.data(), host, std::min(bytes, pending.before.size()));
    BeginWrite(ActorOf(warp), host, bytes);
    return;
  }
  // Lanes of one instruction acquire and release together: they are at one time.
  const bool continues =
      kind == AccessKind::kAtomic && turn.warp == &warp && turn.clock == warp.Clock();
  Actor actor = continues ? ActorOf(warp, turn.now) : ActorOf(warp);
  actor.lane = lane;
  if (kind == AccessKind::kRead) {
    ReadLane(actor, host, bytes, true);
    return;
  }
  const auto [space, address] = LocationOf(actor, host);
  const bool together = continues && turn.space == space;
  if (!together) Acquire(actor, space);
  ReadLane(actor, host, bytes, false);
  BeginWrite(actor, host, bytes);
  const Change change = {{space, address, bytes}};
  CheckChange(actor, change);
  KeepChange(actor, change);
  if (!together) Release(actor, space);
  atomic_ = {&warp, warp.Clock(), space, actor.now};
}

// --- findings

void Accesses::ReportRace(
    Actor& actor, const Access& access, Clash clash, Visitor other, Finding::Kind kind) {
  if (state_.findings.WasReported(kind, actor.instr)) return;
  // Of the values that compilers hold in several warps of a block only one is stored. What a warp
  // did together clashes with none of its own accesses, and what it does together with none before.
  const bool of_others = other.stamp().thread() == Stamp::kSeveral
                             ? other.stamp().is_together()
                             : other.stamp().thread() / kLanes != actor.index;
  const bool doubtful = !state_.environment.checks.harmless_races &&
                        access.space == Space::kGlobal && clash != Clash::kWritesWritten &&
                        !other.is_several() && other.block() == actor.block &&
                        (actor.together || of_others);
  const bool unfenced = clash == Clash::kReadsUnfenced;
  const bool writes = clash != Clash::kReadsWritten && !unfenced;
  const bool written = clash != Clash::kWritesRead;
  std::string who;
  if (other.is_several()) {
    who = "several blocks have";
  } else if (other.stamp().is_under_way()) {
    who = "an asynchronous copy that no thread has waited for may have";
  } else if (other.stamp().thread() == Stamp::kSeveral) {
    who = "several threads have";
  } else {
    const auto& block = state_.launch.block;
    const uint32_t thread = other.stamp().thread();
    who = fmt::format("thread ({}, {}, {})", thread % block[0], thread / block[0] % block[1],
                      thread / block[0] / block[1]);
    if (other.block() != actor.block) {
      const auto& grid = state_.launch.grid;
      who += fmt::format(" of block ({}, {}, {})", other.block() % grid[0],
                         other.block() / grid[0] % grid[1], other.block() / grid[0] / grid[1]);
    }
    who += " has";
  }
  std::string message = fmt::format(
      "{} {} at {:#x} of {} memory{}; {} {} these bytes, and {} orders the two accesses",
      writes ? "writes" : "reads", Plural(access.bytes, "byte"), access.address,
      NameOf(access.space), unfenced ? " through the async proxy" : "", who,
      written ? "written" : "read", unfenced ? "no fence.proxy.async" : "nothing");
  if (kind == Finding::Kind::kReplicas)
    message +=
        "; the compiler rounded copies of the same value differently; to avoid this, launch the "
        "Triton kernel with enable_fp_fusion=False";
  if (doubtful) {
    state_.findings.ReportDoubtful(actor.where(), std::move(message), access.address);
  } else {
    state_.findings.Report(kind, actor.where(), std::move(message), access.address);
  }
}

}  // namespace coppice::ptx
