// Warp operations: lanes that see each other's values.
//
// Each lane says who takes part with it. Lanes that execute together need not say the same: those
// of one mask are a group, and every group is by itself.

#include <array>
#include <bit>
#include <cstring>
#include <span>

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx {
namespace {

// What a lane gets that reads of one which does not take part: undefined, so a NaN of its own.
constexpr uint32_t kUndefined = 0x7fffbad0;

// Waits until for every lane that executes all the members of its mask do. False: not yet, or
// never; the handler returns `step`.
bool GatherGroups(Warp& warp, const uint32_t* members, Step& step) {
  for (;;) {
    uint32_t all = 0;
    for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1) {
      const int lane = std::countr_zero(lanes);
      // Of a lane that is not a member of its own mask, the warp says so.
      if ((members[lane] >> lane & 1) == 0) return warp.Gather(members[lane], step);
      all |= members[lane];
    }
    if (!warp.Gather(all, step)) return false;
    // Who has come may wait for more.
    uint32_t wanted = 0;
    for (uint32_t lanes = warp.mask(); lanes != 0; lanes &= lanes - 1)
      wanted |= members[std::countr_zero(lanes)];
    if ((wanted & ~all) == 0) return true;
  }
}

// Calls `of(group)` for each set of lanes that have the same mask, when they are all here.
template <typename Of>
Step EachGroup(Warp& warp, Slot masks, const Of& of) {
  const uint32_t* const members = warp.From<uint32_t>(masks);
  Step step = Step::kNext;
  if (masks.area == static_cast<uint32_t>(Area::kConstants)) {
    if (!warp.Gather(members[0], step)) return step;
    of(warp.mask());
    return Step::kNext;
  }
  if (!GatherGroups(warp, members, step)) return step;
  for (uint32_t left = warp.mask(); left != 0;) {
    const uint32_t mask = members[std::countr_zero(left)];
    uint32_t group = 0;
    for (int lane = 0; lane < kLanes; ++lane)
      group |= static_cast<uint32_t>(members[lane] == mask) << lane;
    group &= left;
    of(group);
    left &= ~group;
  }
  return Step::kNext;
}

template <typename T>
void Give(T* d, uint32_t group, T value) {
  for (int lane = 0; lane < kLanes; ++lane)
    d[lane] = (group >> lane & 1) != 0 ? value : d[lane];
}

void GivePredicate(Warp& warp, Slot slot, uint32_t group, bool value) {
  uint32_t& bits = *warp.To<uint32_t>(slot);
  bits = value ? bits | group : bits & ~group;
}

// Which lane a lane reads, as the ISA computes it: `minimum` and `maximum` are the ends of its
// segment, `b` is the second source. Outside of the segment it reads itself.
struct Up {
  static int From(int lane, int b, int, int) { return lane - b; }
  static bool Inside(int from, int maximum) { return from >= maximum; }
};
struct Down {
  static int From(int lane, int b, int, int) { return lane + b; }
  static bool Inside(int from, int maximum) { return from <= maximum; }
};
struct Bfly {
  static int From(int lane, int b, int, int) { return lane ^ b; }
  static bool Inside(int from, int maximum) { return from <= maximum; }
};
struct Idx {
  static int From(int, int b, int minimum, int segment) { return minimum | (b & ~segment); }
  static bool Inside(int from, int maximum) { return from <= maximum; }
};

// d|p, a, b, c, mask
template <typename Mode>
Step Shuffle(Warp& warp, const Instr& instr) {
  return EachGroup(warp, warp.More(instr, 1), [&](uint32_t group) {
    const uint32_t* const b = warp.From<uint32_t>(instr.c);
    const uint32_t* const c = warp.From<uint32_t>(warp.More(instr, 0));
    std::array<uint32_t, kLanes> a;  // d may be the same register.
    std::memcpy(a.data(), warp.From<uint32_t>(instr.b), sizeof(a));
    uint32_t* const d = warp.To<uint32_t>(instr.d);
    uint32_t inside = 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const int segment = static_cast<int>(c[lane] >> 8 & 31);
      const int minimum = lane & segment;
      const int maximum = minimum | (static_cast<int>(c[lane] & 31) & ~segment);
      const int wanted = Mode::From(lane, static_cast<int>(b[lane] & 31), minimum, segment);
      const bool in = Mode::Inside(wanted, maximum);
      const int from = in ? wanted : lane;
      const uint32_t value = (group >> from & 1) != 0 ? a[from] : kUndefined;
      inside |= static_cast<uint32_t>(in) << lane;
      d[lane] = (group >> lane & 1) != 0 ? value : d[lane];
    }
    uint32_t& p = *warp.To<uint32_t>(instr.a);
    p = (p & ~group) | (inside & group);
  });
}

// What a vote says of the lanes of a group for which the predicate holds.
struct All {
  static bool Of(uint32_t yes, uint32_t group) { return yes == group; }
};
struct Any {
  static bool Of(uint32_t yes, uint32_t) { return yes != 0; }
};
struct Uni {
  static bool Of(uint32_t yes, uint32_t group) { return yes == 0 || yes == group; }
};

uint32_t Yes(const Warp& warp, const Instr& instr, uint32_t group) {
  const uint32_t bits = warp.Predicate(instr.a);
  return group & ((instr.flags & Instr::kNegated) != 0 ? ~bits : bits);
}

template <typename Op>
Step Vote(Warp& warp, const Instr& instr) {
  return EachGroup(warp, instr.b, [&](uint32_t group) {
    GivePredicate(warp, instr.d, group, Op::Of(Yes(warp, instr, group), group));
  });
}

Step Ballot(Warp& warp, const Instr& instr) {
  return EachGroup(warp, instr.b, [&](uint32_t group) {
    Give(warp.To<uint32_t>(instr.d), group, Yes(warp, instr, group));
  });
}

template <typename T>
uint32_t Equal(const T* a, T value, uint32_t group) {
  uint32_t equal = 0;
  for (int lane = 0; lane < kLanes; ++lane)
    equal |= static_cast<uint32_t>(a[lane] == value) << lane;
  return equal & group;
}

// d, a, mask
template <typename T>
Step MatchAny(Warp& warp, const Instr& instr) {
  return EachGroup(warp, instr.b, [&](uint32_t group) {
    std::array<T, kLanes> a;
    std::memcpy(a.data(), warp.From<T>(instr.a), sizeof(a));
    for (uint32_t left = group; left != 0;) {
      const uint32_t equal = Equal(a.data(), a[std::countr_zero(left)], group);
      Give(warp.To<uint32_t>(instr.d), equal, equal);
      left &= ~equal;
    }
  });
}

// d|p, a, mask
template <typename T>
Step MatchAll(Warp& warp, const Instr& instr) {
  return EachGroup(warp, instr.c, [&](uint32_t group) {
    const T* const a = warp.From<T>(instr.b);
    const bool same = Equal(a, a[std::countr_zero(group)], group) == group;
    Give(warp.To<uint32_t>(instr.d), group, same ? group : 0);
    GivePredicate(warp, instr.a, group, same);
  });
}

struct Sum {
  static uint32_t Of(uint32_t a, uint32_t b) { return a + b; }
};
template <typename T>
struct Least {
  static uint32_t Of(uint32_t a, uint32_t b) {
    return static_cast<T>(a) < static_cast<T>(b) ? a : b;
  }
};
template <typename T>
struct Most {
  static uint32_t Of(uint32_t a, uint32_t b) {
    return static_cast<T>(a) > static_cast<T>(b) ? a : b;
  }
};
struct Every {
  static uint32_t Of(uint32_t a, uint32_t b) { return a & b; }
};
struct Some {
  static uint32_t Of(uint32_t a, uint32_t b) { return a | b; }
};
struct Odd {
  static uint32_t Of(uint32_t a, uint32_t b) { return a ^ b; }
};

template <typename Op>
Step Redux(Warp& warp, const Instr& instr) {
  return EachGroup(warp, instr.b, [&](uint32_t group) {
    const uint32_t* const a = warp.From<uint32_t>(instr.a);
    uint32_t value = a[std::countr_zero(group)];
    for (uint32_t lanes = group & (group - 1); lanes != 0; lanes &= lanes - 1)
      value = Op::Of(value, a[std::countr_zero(lanes)]);
    Give(warp.To<uint32_t>(instr.d), group, value);
  });
}

// d|p, members: p holds for the first of them, which is d.
Step Elect(Warp& warp, const Instr& instr) {
  return EachGroup(warp, instr.b, [&](uint32_t group) {
    const auto leader = static_cast<uint32_t>(std::countr_zero(group));
    Give(warp.To<uint32_t>(instr.d), group, leader);
    uint32_t& p = *warp.To<uint32_t>(instr.a);
    p = (p & ~group) | uint32_t{1} << leader;
  });
}

Step ActiveMask(Warp& warp, const Instr& instr) {
  Give(warp.To<uint32_t>(instr.d), warp.mask(), warp.mask());
  return Step::kNext;
}

constexpr Form kWarpForms[] = {
    {"shfl.sync.up.b32", "W|Pwwww", Shuffle<Up>},
    {"shfl.sync.down.b32", "W|Pwwww", Shuffle<Down>},
    {"shfl.sync.bfly.b32", "W|Pwwww", Shuffle<Bfly>},
    {"shfl.sync.idx.b32", "W|Pwwww", Shuffle<Idx>},
    // Compilers write the mode on either side of .sync.
    {"vote.sync.all.pred", "Ppw", Vote<All>},
    {"vote.all.sync.pred", "Ppw", Vote<All>},
    {"vote.sync.any.pred", "Ppw", Vote<Any>},
    {"vote.any.sync.pred", "Ppw", Vote<Any>},
    {"vote.sync.uni.pred", "Ppw", Vote<Uni>},
    {"vote.uni.sync.pred", "Ppw", Vote<Uni>},
    {"vote.sync.ballot.b32", "Wpw", Ballot},
    {"vote.ballot.sync.b32", "Wpw", Ballot},
    {"match.any.sync.b32", "Www", MatchAny<uint32_t>},
    {"match.sync.any.b32", "Www", MatchAny<uint32_t>},
    {"match.any.sync.b64", "Wdw", MatchAny<uint64_t>},
    {"match.sync.any.b64", "Wdw", MatchAny<uint64_t>},
    {"match.all.sync.b32", "W|Pww", MatchAll<uint32_t>},
    {"match.sync.all.b32", "W|Pww", MatchAll<uint32_t>},
    {"match.all.sync.b64", "W|Pdw", MatchAll<uint64_t>},
    {"match.sync.all.b64", "W|Pdw", MatchAll<uint64_t>},
    {"redux.sync.add.u32", "Www", Redux<Sum>},
    {"redux.sync.add.s32", "Www", Redux<Sum>},
    {"redux.sync.min.u32", "Www", Redux<Least<uint32_t>>},
    {"redux.sync.min.s32", "Www", Redux<Least<int32_t>>},
    {"redux.sync.max.u32", "Www", Redux<Most<uint32_t>>},
    {"redux.sync.max.s32", "Www", Redux<Most<int32_t>>},
    {"redux.sync.and.b32", "Www", Redux<Every>},
    {"redux.sync.or.b32", "Www", Redux<Some>},
    {"redux.sync.xor.b32", "Www", Redux<Odd>},
    {"activemask.b32", "W", ActiveMask},
    {"elect.sync", "W|Pw", Elect},
};

}  // namespace

std::span<const Form> WarpForms() {
  return kWarpForms;
}

}  // namespace coppice::ptx
