// Where lanes go on.

#include <bit>
#include <iterator>
#include <span>
#include <vector>

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/access.h"
#include "runtime/emulator/ptx/lanes.h"
#include "runtime/emulator/ptx/resident_warp.h"

namespace coppice::ptx {
namespace {

ResidentWarp& Resident(Warp& warp) {
  return static_cast<ResidentWarp&>(warp);
}

Step RunBranch(Warp& warp, const Instr& instr) {
  return Resident(warp).Branch(instr.target);
}

// The lanes that go where the first does, go; the others come by again.
Step RunIndexedBranch(Warp& on, const Instr& instr) {
  ResidentWarp& warp = Resident(on);
  const uint32_t* const index = warp.From<uint32_t>(instr.a);
  const int first = std::countr_zero(warp.mask());
  const std::vector<uint32_t>& targets = warp.frame().code->target_lists[instr.target];
  if (index[first] >= targets.size()) {
    warp.Fault(Finding::Kind::kIllegalInstruction, first,
               fmt::format("uses branch index {}, but the length of the .branchtargets list is {}",
                           index[first], targets.size()));
    return Step::kStop;
  }
  uint32_t together = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    together |= index[lane] == index[first] ? kLaneBits[static_cast<size_t>(lane)] : 0;
  if ((warp.mask() & ~together) != 0) warp.Restrict(together);
  return warp.Branch(targets[index[first]]);
}

Step RunReturn(Warp& warp, const Instr&) {
  return Resident(warp).Return();
}

Step RunExit(Warp& warp, const Instr&) {
  return Resident(warp).Exit();
}

Step RunTrap(Warp& on, const Instr&) {
  ResidentWarp& warp = Resident(on);
  warp.Fault(Finding::Kind::kTrap, std::countr_zero(warp.mask()), "executes a trap");
  return Step::kStop;
}

// A debugger would take over here; there is none.
Step RunBreakpoint(Warp& on, const Instr&) {
  ResidentWarp& warp = Resident(on);
  warp.Fault(Finding::Kind::kTrap, std::countr_zero(warp.mask()), "stops at a breakpoint");
  return Step::kStop;
}

// Clocks count the instructions of the launch; one takes a nanosecond.
template <typename T, int shift, bool global>
Step ReadClock(Warp& on, const Instr& instr) {
  ResidentWarp& warp = Resident(on);
  uint64_t clock = static_cast<uint64_t>(warp.Clock());
  if (global) clock += warp.state().environment.clock_ns;
  const T value = static_cast<T>(clock >> shift);
  KeepLanes(warp.mask(), warp.To<T>(instr.d), [value](int) { return value; });
  return Step::kNext;
}

constexpr Form kControlRows[] = {
    {"bra", "", RunBranch},
    {"brkpt", "", RunBreakpoint},
    {"brx.idx", "", RunIndexedBranch},
    {"exit", "", RunExit},
    {"mov.clock", "W", ReadClock<uint32_t, 0, false>},
    {"mov.clock64", "D", ReadClock<uint64_t, 0, false>},
    {"mov.clock_hi", "W", ReadClock<uint32_t, 32, false>},
    {"mov.globaltimer", "D", ReadClock<uint64_t, 0, true>},
    {"mov.globaltimer_hi", "W", ReadClock<uint32_t, 32, true>},
    {"mov.globaltimer_lo", "W", ReadClock<uint32_t, 0, true>},
    {"ret", "", RunReturn},
    {"trap", "", RunTrap},
};

}  // namespace

std::span<const Form> ControlForms() {
  static const std::vector<Form> rows = [] {
    std::vector<Form> all(std::begin(kControlRows), std::end(kControlRows));
    const std::span<const Form> calls = CallForms();
    all.insert(all.end(), calls.begin(), calls.end());
    return all;
  }();
  return rows;
}

}  // namespace coppice::ptx
