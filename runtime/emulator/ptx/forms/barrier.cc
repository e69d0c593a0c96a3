// Threads that wait for others.
//
// Slots of barriers of the block: a is the barrier, b the count of threads, c the predicate, d the
// result.

#include <bit>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "runtime/emulator/ptx/decoder.h"
#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/operands.h"
#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {
namespace {

using Barriers = ResidentWarp::Barriers;

// Flags, beside a Barriers::Result.
constexpr uint8_t kWaits = 0x10;
constexpr uint8_t kCountsThreads = 0x20;

constexpr uint32_t kBlockThreadsMax = 1024;

Step ArriveAtBarrier(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  const uint32_t* const barrier = warp.From<uint32_t>(instr.a);
  const int first = std::countr_zero(warp.mask());
  uint32_t together = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    together |= static_cast<uint32_t>(barrier[lane] == barrier[first]) << lane;
  if ((warp.mask() & ~together) != 0) warp.Restrict(together);

  const bool counted = (instr.flags & kCountsThreads) != 0;
  const uint32_t threads = counted ? warp.From<uint32_t>(instr.b)[first] : 0;
  const auto refuse = [&](std::string why) {
    warp.Fault(Finding::Kind::kIllegalInstruction, first, std::move(why));
    return Step::kStop;
  };
  if (barrier[first] >= Barriers::kCount)
    return refuse(fmt::format("uses barrier {}, but a block has only the barriers 0 to {}",
                              barrier[first], Barriers::kCount - 1));
  if (counted && (threads == 0 || threads % kLanes != 0 || threads > kBlockThreadsMax))
    return refuse(
        fmt::format("uses barrier {} with a thread count of {}; a count is a multiple of "
                    "32, from 32 to {}",
                    barrier[first], threads, kBlockThreadsMax));
  uint32_t predicate = 0;
  if ((instr.flags & Barriers::kResultMask) != 0) {
    predicate = warp.Predicate(instr.c);
    if ((instr.flags & Instr::kNegated) != 0) predicate = ~predicate;
  }
  return warp.barriers().Arrive(warp, static_cast<int>(barrier[first]), static_cast<int>(threads),
                                (instr.flags & kWaits) != 0, predicate);
}

Step ArriveAtCluster(Warp& on, const Instr&) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  return warp.barriers().ArriveAtCluster(warp);
}

Step WaitForCluster(Warp& on, const Instr&) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  return warp.barriers().WaitForCluster(warp);
}

Step SyncWarp(Warp& on, const Instr& instr) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  return warp.WaitForWarp(warp.From<uint32_t>(instr.d)[std::countr_zero(warp.mask())]);
}

Step RunSleep(Warp& warp, const Instr&) {
  return static_cast<ResidentWarp&>(warp).Sleep();
}

// {d,} barrier {, threads} {, predicate}
bool DecodeBarrier(FunctionDecoder& decoder, const Instruction& from, Instr& to) {
  std::span<const Operand> operands = from.operands;
  const bool reduces = (to.flags & Barriers::kResultMask) != 0;
  const bool counts =
      (to.flags & Barriers::kResultMask) == static_cast<int>(Barriers::Result::kCount);
  if (operands.size() < (reduces ? 3u : 1u) || operands.size() > (reduces ? 4u : 2u))
    return decoder.Fail("expected a barrier and, optionally, a number of threads");
  if (reduces) {
    const auto result =
        counts ? decoder.Write(operands[0], 4) : decoder.WritePredicate(operands[0]);
    Operand predicate = operands.back();
    if (predicate.negated) to.flags |= Instr::kNegated;
    predicate.negated = false;
    const auto holds = decoder.ReadPredicate(predicate);
    if (!result.has_value() || !holds.has_value()) return false;
    to.d = *result;
    to.c = *holds;
    operands = operands.subspan(1, operands.size() - 2);
  }
  const auto barrier = decoder.Read(operands[0], 4);
  if (!barrier.has_value()) return false;
  to.a = *barrier;
  if (operands.size() == 1) return true;
  const auto threads = decoder.Read(operands[1], 4);
  if (!threads.has_value()) return false;
  to.b = *threads;
  to.flags |= kCountsThreads;
  return true;
}

struct BarrierName {
  const char* name;
  Barriers::Result result;
  bool waits;
};

constexpr BarrierName kBarrierNames[] = {
    {"sync", Barriers::Result::kNone, true},          {"arrive", Barriers::Result::kNone, false},
    {"red.and.pred", Barriers::Result::kAll, true},   {"red.or.pred", Barriers::Result::kAny, true},
    {"red.popc.u32", Barriers::Result::kCount, true},
};

// Orders what was done before what copies in bulk, and products, do later.
Step FenceProxy(Warp& on, const Instr&) {
  ResidentWarp& warp = static_cast<ResidentWarp&>(on);
  if (warp.observer() != nullptr) warp.observer()->FenceProxy(warp);
  return Step::kNext;
}

// Execution is sequentially consistent, so that other fences do nothing.
constexpr Form kBarrierRows[] = {
    {"bar.warp.sync", "w", SyncWarp},
    {"fence", "", RunNothing, DecodeAnything},
    {"membar.cta", "", RunNothing, DecodeAnything},
    {"membar.gl", "", RunNothing, DecodeAnything},
    {"membar.sys", "", RunNothing, DecodeAnything},
    {"nanosleep.u32", "w", RunSleep},
    {"fence.mbarrier_init", "", RunNothing, DecodeAnything},
    {"fence.proxy.async", "", FenceProxy, DecodeAnything},
    {"fence.proxy.async.global", "", RunNothing, DecodeAnything},
    {"fence.proxy.async.shared", "", FenceProxy, DecodeAnything},
    {"fence.proxy.tensormap::generic", "", RunNothing, DecodeAnything},
    // Launches follow each other.
    {"griddepcontrol.launch_dependents", "", RunNothing, DecodeAnything},
    {"griddepcontrol.wait", "", RunNothing, DecodeAnything},
    // Every thread has the registers that it needs.
    {"setmaxnreg.dec.sync.aligned.u32", "i", RunNothing},
    {"setmaxnreg.inc.sync.aligned.u32", "i", RunNothing},
};

// "bar.red.and.pred" is "barrier.cta.red.aligned.and.pred" in full.
std::string BarrierOpcode(std::string_view prefix, std::string_view name, bool aligned) {
  const size_t operation = name.find('.');
  std::string opcode = fmt::format("{}.{}", prefix, name.substr(0, operation));
  if (aligned) opcode += ".aligned";
  if (operation != std::string_view::npos) opcode += name.substr(operation);
  return opcode;
}

}  // namespace

std::span<const Form> BarrierForms() {
  static std::deque<std::string> names;
  static const std::vector<Form> rows = [] {
    std::vector<Form> all(std::begin(kBarrierRows), std::end(kBarrierRows));
    const auto add = [&all](std::string name, Handler handler, DecodeHook decode, uint8_t flags) {
      names.push_back(std::move(name));
      all.push_back({names.back().c_str(), "", handler, decode, flags});
    };
    for (const char* const prefix : {"bar", "bar.cta", "barrier", "barrier.cta"}) {
      for (const BarrierName& barrier : kBarrierNames) {
        const uint8_t flags =
            static_cast<uint8_t>(static_cast<int>(barrier.result) | (barrier.waits ? kWaits : 0));
        for (const bool aligned : {false, true})
          add(BarrierOpcode(prefix, barrier.name, aligned), ArriveAtBarrier, DecodeBarrier, flags);
      }
    }
    for (const char* const aligned : {"", ".aligned"}) {
      for (const char* const order : {"", ".release", ".relaxed"})
        add(fmt::format("barrier.cluster.arrive{}{}", order, aligned), ArriveAtCluster,
            DecodeNothing, 0);
      for (const char* const order : {"", ".acquire"})
        add(fmt::format("barrier.cluster.wait{}{}", order, aligned), WaitForCluster, DecodeNothing,
            0);
    }
    return all;
  }();
  return rows;
}

}  // namespace coppice::ptx
