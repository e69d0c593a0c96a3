// Goal: lanes of a warp exchange what the PTX ISA says, with those of their member mask and no
// others, and only when these are there.
// Method: every row against an oracle that goes through lanes one by one, with all lanes, some, and
// lanes that name different masks; a warp of which some lanes come late, or never.

#include <bit>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/form.h"
#include "tests/ptx/host_warp.h"
#include "tests/support/test_device.h"

namespace coppice::ptx {
namespace {

// What an operation sees: the lanes that take part with `lane`, and the sources of all lanes.
struct Seen {
  uint32_t group;
  int lane;
  const std::vector<uint64_t>& a;
  const std::vector<uint32_t>& b;
  const std::vector<uint32_t>& c;
};
struct Gives {
  uint64_t d = 0;
  bool p = false;
  bool defined = true;
};
using WarpOracle = std::function<Gives(const Seen&)>;

std::vector<int> LanesOf(uint32_t mask) {
  std::vector<int> lanes;
  for (int lane = 0; lane < kLanes; ++lane) {
    if ((mask >> lane & 1) != 0) lanes.push_back(lane);
  }
  return lanes;
}

// The pseudocode of shfl.sync in the PTX ISA.
Gives Shuffled(const Seen& seen, const std::string& mode) {
  const int lane = seen.lane;
  const int bval = static_cast<int>(seen.b[lane] & 0x1f);
  const int cval = static_cast<int>(seen.c[lane] & 0x1f);
  const int segmask = static_cast<int>(seen.c[lane] >> 8 & 0x1f);
  const int max_lane = (lane & segmask) | (cval & ~segmask);
  const int min_lane = lane & segmask;
  int j = 0;
  bool p = false;
  if (mode == "up") {
    j = lane - bval;
    p = j >= max_lane;
  } else if (mode == "down") {
    j = lane + bval;
    p = j <= max_lane;
  } else if (mode == "bfly") {
    j = lane ^ bval;
    p = j <= max_lane;
  } else {
    j = min_lane | (bval & ~segmask);
    p = j <= max_lane;
  }
  if (!p) j = lane;
  return {seen.a[j], p, (seen.group >> j & 1) != 0};
}

Gives Voted(const Seen& seen, const std::string& mode) {
  uint32_t yes = 0;
  for (const int lane : LanesOf(seen.group))
    yes |= static_cast<uint32_t>(seen.a[lane] != 0) << lane;
  if (mode == "all") return {0, yes == seen.group};
  if (mode == "any") return {0, yes != 0};
  if (mode == "uni") return {0, yes == 0 || yes == seen.group};
  return {yes, false};
}

Gives Matched(const Seen& seen, const std::string& mode) {
  uint32_t equal = 0;
  for (const int lane : LanesOf(seen.group))
    equal |= static_cast<uint32_t>(seen.a[lane] == seen.a[seen.lane]) << lane;
  if (mode == "any") return {equal};
  return {equal == seen.group ? equal : 0, equal == seen.group};
}

Gives Reduced(const Seen& seen, const std::string& mode, bool is_signed) {
  const auto value = [&](int lane) {
    const auto bits = static_cast<uint32_t>(seen.a[lane]);
    return is_signed ? static_cast<int64_t>(static_cast<int32_t>(bits)) : int64_t{bits};
  };
  const std::vector<int> lanes = LanesOf(seen.group);
  int64_t total = value(lanes[0]);
  for (size_t i = 1; i < lanes.size(); ++i) {
    const int64_t next = value(lanes[i]);
    if (mode == "add") total += next;
    if (mode == "min") total = next < total ? next : total;
    if (mode == "max") total = next > total ? next : total;
    if (mode == "and") total &= next;
    if (mode == "or") total |= next;
    if (mode == "xor") total ^= next;
  }
  return {static_cast<uint32_t>(total)};
}

struct WarpCase {
  const char* operands;  // Besides the member mask, which is %r9.
  int a_bytes;           // 0: a predicate.
  bool writes_d;
  bool writes_p;
  WarpOracle of;
};

const std::map<std::string, WarpCase>& WarpCases() {
  static const auto* const cases = [] {
    auto* const made = new std::map<std::string, WarpCase>;
    for (const std::string mode : {"up", "down", "bfly", "idx"}) {
      made->insert({"shfl.sync." + mode + ".b32",
                    {"%r0|%p0, %r1, %r2, %r3, ", 4, true, true,
                     [=](const Seen& seen) { return Shuffled(seen, mode); }}});
    }
    for (const std::string mode : {"all", "any", "uni"}) {
      const WarpCase vote = {"%p0, %p1, ", 0, false, true,
                             [=](const Seen& seen) { return Voted(seen, mode); }};
      made->insert({"vote.sync." + mode + ".pred", vote});
      made->insert({"vote." + mode + ".sync.pred", vote});
    }
    const WarpCase ballot = {"%r0, %p1, ", 0, true, false,
                             [](const Seen& seen) { return Voted(seen, "ballot"); }};
    made->insert({"vote.sync.ballot.b32", ballot});
    made->insert({"vote.ballot.sync.b32", ballot});
    for (const int bytes : {4, 8}) {
      const std::string type = bytes == 4 ? ".b32" : ".b64";
      const WarpCase any = {bytes == 4 ? "%r0, %r1, " : "%r0, %d1, ", bytes, true, false,
                            [](const Seen& seen) { return Matched(seen, "any"); }};
      const WarpCase all = {bytes == 4 ? "%r0|%p0, %r1, " : "%r0|%p0, %d1, ", bytes, true, true,
                            [](const Seen& seen) { return Matched(seen, "all"); }};
      made->insert({"match.any.sync" + type, any});
      made->insert({"match.sync.any" + type, any});
      made->insert({"match.all.sync" + type, all});
      made->insert({"match.sync.all" + type, all});
    }
    for (const std::string name : {"add.u32", "add.s32", "min.u32", "min.s32", "max.u32", "max.s32",
                                   "and.b32", "or.b32", "xor.b32"}) {
      made->insert({"redux.sync." + name, {"%r0, %r1, ", 4, true, false, [=](const Seen& seen) {
                                             return Reduced(seen, name.substr(0, name.find('.')),
                                                            name.ends_with("s32"));
                                           }}});
    }
    return made;
  }();
  return *cases;
}

class WarpOperationsTest : public testing::Test {
 protected:
  // Runs a row where lane i takes part with members[i].
  void RunRow(const std::string& name, uint32_t mask, const std::vector<uint32_t>& members) {
    SCOPED_TRACE(testing::Message() << name << " mask " << mask << " seed " << TestSeed());
    const WarpCase& test = WarpCases().at(name);
    const bool negated = test.a_bytes == 0 && random_() % 2 == 0;
    std::string operands = test.operands;
    if (negated) operands.replace(operands.find("%p1"), 3, "!%p1");
    HostWarp warp(fmt::format("{} {}%r9;", name, operands));
    ASSERT_EQ(warp.error(), "");
    warp.Execute(mask);
    warp.SetLive(mask);

    std::vector<uint64_t> a(kLanes);
    std::vector<uint32_t> b(kLanes);
    std::vector<uint32_t> c(kLanes);
    const bool same = random_() % 4 == 0;
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t drawn = random_();
      a[lane] = test.a_bytes == 0 ? drawn % 2 : same ? 7 : drawn % 8 == 0 ? drawn : drawn % 3;
      if (test.a_bytes == 4) a[lane] = static_cast<uint32_t>(a[lane]);
      b[lane] = static_cast<uint32_t>(random_() % 40);
      constexpr uint32_t kEnds[] = {0x1f, 0, 0x181f, 0x1c03, 0x1800, 0x1e01, 0x100f};
      c[lane] = kEnds[random_() % std::size(kEnds)];
      warp.Lanes<uint32_t>("%r9")[lane] = members[lane];
      warp.Lanes<uint32_t>("%r2")[lane] = b[lane];
      warp.Lanes<uint32_t>("%r3")[lane] = c[lane];
      warp.Lanes<uint32_t>("%r0")[lane] = 0xabcd;
      if (test.a_bytes == 4) warp.Lanes<uint32_t>("%r1")[lane] = static_cast<uint32_t>(a[lane]);
      if (test.a_bytes == 8) warp.Lanes<uint64_t>("%d1")[lane] = a[lane];
      if (test.a_bytes == 0 && (a[lane] != 0) != negated) warp.Bits("%p1") |= 1U << lane;
    }
    const uint32_t p_before = warp.Bits("%p0") = static_cast<uint32_t>(random_());
    ASSERT_EQ(warp.Run(), Step::kNext);
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint32_t d = warp.Lanes<uint32_t>("%r0")[lane];
      const bool p = (warp.Bits("%p0") >> lane & 1) != 0;
      if ((mask >> lane & 1) == 0) {
        EXPECT_EQ(d, 0xabcd) << lane;
        EXPECT_EQ(p, (p_before >> lane & 1) != 0) << lane;
        continue;
      }
      const Gives gives = test.of({members[lane] & mask, lane, a, b, c});
      if (test.writes_d && gives.defined) {
        EXPECT_EQ(d, gives.d) << lane;
      }
      if (test.writes_p) {
        EXPECT_EQ(p, gives.p) << lane;
      }
    }
  }

  std::mt19937_64 random_{TestSeed()};
};

TEST_F(WarpOperationsTest, EveryRowDoesWhatItsOracleSays) {
  for (const Form& form : WarpForms()) {
    const std::string name = form.name;
    if (name == "activemask.b32" || name == "elect.sync")
      continue;  // They have tests of their own.
    ASSERT_TRUE(WarpCases().contains(name)) << name << " has no oracle";
    for (int i = 0; i < 12; ++i) {
      const uint32_t mask = i < 4 ? kAllLanes : static_cast<uint32_t>(random_()) | 1;
      RunRow(name, mask, std::vector<uint32_t>(kLanes, mask));
    }
  }
}

TEST_F(WarpOperationsTest, LanesOfDifferentMasksAreGroupsByThemselves) {
  for (const auto& [name, test] : WarpCases()) {
    for (int i = 0; i < 8; ++i) {
      const uint32_t first = static_cast<uint32_t>(random_());
      const uint32_t second = ~first & static_cast<uint32_t>(random_());
      const uint32_t third = ~first & ~second;
      std::vector<uint32_t> members(kLanes);
      for (int lane = 0; lane < kLanes; ++lane) {
        for (const uint32_t group : {first, second, third})
          members[lane] = (group >> lane & 1) != 0 ? group : members[lane];
      }
      RunRow(name, kAllLanes, members);
    }
  }
}

TEST_F(WarpOperationsTest, ActiveMaskIsWhoExecutesIt) {
  HostWarp warp("activemask.b32 %r0;");
  ASSERT_EQ(warp.error(), "");
  warp.Execute(0x80f0);
  EXPECT_EQ(warp.Run(), Step::kNext);
  EXPECT_EQ(warp.Lanes<uint32_t>("%r0")[4], 0x80f0);
  EXPECT_EQ(warp.Lanes<uint32_t>("%r0")[0], 0);
  EXPECT_TRUE(warp.gathered.empty());
}

TEST_F(WarpOperationsTest, ExitedMembersAreNotWaitedForAndNotCounted) {
  HostWarp warp("vote.sync.ballot.b32 %r0, !%p1, 0xffffffff;");
  ASSERT_EQ(warp.error(), "");
  warp.Execute(0xff);
  warp.SetLive(0xff);
  EXPECT_EQ(warp.Run(), Step::kNext);
  EXPECT_EQ(warp.Lanes<uint32_t>("%r0")[7], 0xff);
  EXPECT_EQ(warp.gathered, std::vector<uint32_t>{kAllLanes});
}

TEST_F(WarpOperationsTest, WaitsForMembersThatAreElsewhere) {
  HostWarp warp("redux.sync.add.u32 %r0, %r1, %r9;");
  ASSERT_EQ(warp.error(), "");
  for (int lane = 0; lane < kLanes; ++lane) {
    warp.Lanes<uint32_t>("%r9")[lane] = lane < 4 ? 0xf : 0xf0;
    warp.Lanes<uint32_t>("%r1")[lane] = 1;
  }
  warp.SetLive(0xff);
  warp.Execute(0x13);
  EXPECT_EQ(warp.Run(), Step::kChoose);
  EXPECT_EQ(warp.Lanes<uint32_t>("%r0")[0], 0);
  // Members of both masks come; each mask is a group.
  warp.arriving = 0xec;
  EXPECT_EQ(warp.Run(), Step::kNext);
  EXPECT_EQ(warp.mask(), 0xff);
  for (int lane = 0; lane < 8; ++lane)
    EXPECT_EQ(warp.Lanes<uint32_t>("%r0")[lane], 4) << lane;
}

TEST_F(WarpOperationsTest, LanesThatComeMayBringFurtherMembers) {
  HostWarp warp("redux.sync.or.b32 %r0, %r1, %r9;");
  ASSERT_EQ(warp.error(), "");
  // Lane 1 is a member of both masks, and names the wider one.
  const uint32_t masks[] = {0x3, 0x7, 0x7};
  for (int lane = 0; lane < 3; ++lane) {
    warp.Lanes<uint32_t>("%r9")[lane] = masks[lane];
    warp.Lanes<uint32_t>("%r1")[lane] = 1U << lane;
  }
  warp.Execute(0x1);
  warp.arriving = 0x6;
  EXPECT_EQ(warp.Run(), Step::kNext);
  EXPECT_EQ(warp.gathered, (std::vector<uint32_t>{0x3, 0x7}));
}

TEST_F(WarpOperationsTest, ALaneOutsideOfItsMaskEndsIt) {
  HostWarp warp("shfl.sync.idx.b32 %r0, %r1, 0, 31, %r9;");
  ASSERT_EQ(warp.error(), "");
  for (int lane = 0; lane < kLanes; ++lane)
    warp.Lanes<uint32_t>("%r9")[lane] = lane == 5 ? 0x1 : kAllLanes;
  EXPECT_EQ(warp.Run(), Step::kStop);
}

TEST_F(WarpOperationsTest, SourceAndResultMayBeOneRegister) {
  HostWarp warp("shfl.sync.idx.b32 %r1, %r1, %r2, 31, -1;");
  ASSERT_EQ(warp.error(), "");
  for (int lane = 0; lane < kLanes; ++lane) {
    warp.Lanes<uint32_t>("%r1")[lane] = 100 + lane;
    warp.Lanes<uint32_t>("%r2")[lane] = 31 - lane;
  }
  EXPECT_EQ(warp.Run(), Step::kNext);
  for (int lane = 0; lane < kLanes; ++lane)
    EXPECT_EQ(warp.Lanes<uint32_t>("%r1")[lane], 131 - lane);
}

TEST_F(WarpOperationsTest, TheFirstMemberIsElected) {
  for (const uint32_t members : {kAllLanes, uint32_t{0x00ff0040}, uint32_t{0x80000000}}) {
    HostWarp warp("elect.sync %r0|%p0, %r1;");
    ASSERT_EQ(warp.error(), "");
    const auto first = static_cast<uint32_t>(std::countr_zero(members));
    for (int lane = 0; lane < kLanes; ++lane)
      warp.Lanes<uint32_t>("%r1")[lane] = members;
    warp.Execute(members);
    ASSERT_EQ(warp.Run(), Step::kNext);
    EXPECT_EQ(warp.Lanes<uint32_t>("%r0")[first], first);
    EXPECT_EQ(warp.Bits("%p0") & members, uint32_t{1} << first);
  }
}

TEST_F(WarpOperationsTest, WhatHasNoRowIsRefused) {
  for (const char* text : {"shfl.bfly.b32 %r0, %r1, 1, 31;", "vote.all.pred %p0, %p1;"}) {
    EXPECT_NE(HostWarp(text).error(), "") << text;
  }
}

}  // namespace
}  // namespace coppice::ptx
