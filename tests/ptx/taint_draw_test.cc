// Goal: what padding changes, it reaches. Method: programs are drawn of instructions and of
// branches forwards, without memory, loops and calls. Each runs once while padding is followed, and
// again with other contents of the padding. An element that differs and was not reached is a
// failure, and the program is printed.

#include <algorithm>
#include <cstdio>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/taint.h"
#include "tests/ptx/launcher.h"
#include "tests/support/test_device.h"
#include "tests/support/test_share.h"

namespace coppice::ptx {
namespace {

constexpr size_t kLaneCountOfDraw = 32;
constexpr int kWordsOfDraw = 8;  // Registers, and elements of y per lane.
constexpr int kContents = 5;

// R: a register that is written, r: one that is read, p: a predicate, P: one that is written, h, H
// of 16 bits, d, D of 64.
constexpr const char* kDrawn[] = {
    "add.u32 R, r, r;",
    "sub.s32 R, r, r;",
    "mul.lo.u32 R, r, r;",
    "mul.hi.u32 R, r, r;",
    "mad.lo.s32 R, r, r, r;",
    "mul.wide.u32 D, r, r;",
    "mad.wide.s32 D, r, r, d;",
    "and.b32 R, r, r;",
    "and.b32 R, r, 65535;",
    "or.b32 R, r, -65536;",
    "xor.b32 R, r, r;",
    "not.b32 R, r;",
    "lop3.b32 R, r, r, r, 202;",
    "shl.b32 R, r, r;",
    "shr.u32 R, r, 16;",
    "shf.l.wrap.b32 R, r, r, r;",
    "prmt.b32 R, r, r, 0x5410;",
    "prmt.b32 R, r, r, 0x7632;",
    "prmt.b32 R, r, r, r;",
    "bfe.u32 R, r, r, r;",
    "bfi.b32 R, r, r, 8, 8;",
    "brev.b32 R, r;",
    "popc.b32 R, r;",
    "min.u32 R, r, r;",
    "max.s32 R, r, r;",
    "selp.b32 R, r, r, p;",
    "selp.b32 R, r, r, !p;",
    "setp.lt.u32 P, r, r;",
    "setp.eq.s32 P, r, 7;",
    "setp.gt.and.u32 P, r, r, p;",
    "and.pred P, p, p;",
    "or.pred P, p, !p;",
    "xor.pred P, p, p;",
    "not.pred P, p;",
    "mov.b32 {H, H}, r;",
    "mov.b32 R, {h, h};",
    "mov.b64 {R, R}, d;",
    "mov.b64 D, {r, r};",
    "mov.b64 D, {h, h, h, h};",
    "add.u16 H, h, h;",
    "cvt.u32.u16 R, h;",
    "cvt.u16.u32 H, r;",
    "cvt.s64.s32 D, r;",
    "cvt.u32.u64 R, d;",
    "cvt.sat.u8.s32 R, r;",
    "add.s64 D, d, d;",
    "add.rn.f16x2 R, r, r;",
    "min.u16x2 R, r, r;",
    "add.cc.u32 R, r, r;",
    "addc.u32 R, r, r;",
    "subc.cc.u32 R, r, r;",
};
// Of all lanes together.
constexpr const char* kDrawnTogether[] = {
    "shfl.sync.bfly.b32 R, r, 3, 31, -1;",
    "shfl.sync.idx.b32 R, r, r, 31, -1;",
    "vote.sync.ballot.b32 R, p, -1;",
    "vote.sync.any.pred P, p, -1;",
    "redux.sync.add.u32 R, r, -1;",
    "match.any.sync.b32 R, r, -1;",
    "activemask.b32 R;",
};

class ProgramDraw {
 public:
  explicit ProgramDraw(uint64_t seed) : random_(seed) {}

  size_t Below(size_t bound) {
    return std::uniform_int_distribution<size_t>(0, bound - 1)(random_);
  }

  std::string Text() {
    std::string body;
    size_t branch = 0;  // Labels that are open.
    const size_t count = 4 + Below(20);
    std::vector<size_t> ends;  // Of branches: after so many instructions.
    for (size_t i = 0; i < count; ++i) {
      for (size_t label = 0; label < ends.size(); ++label)
        if (ends[label] == i) body += fmt::format("L{}:\n", label);
      const size_t kind = Below(10);
      if (kind == 0) {
        ends.push_back(i + 1 + Below(count - i));
        body += fmt::format("@{}%p{} bra L{};\n", Below(2) == 0 ? "!" : "", 1 + Below(4), branch++);
      } else if (kind == 1 && ends.empty()) {
        body += Filled(kDrawnTogether[Below(std::size(kDrawnTogether))]);
      } else {
        if (Below(4) == 0) body += fmt::format("@%p{} ", 1 + Below(4));
        body += Filled(kDrawn[Below(std::size(kDrawn))]);
      }
    }
    for (size_t label = 0; label < ends.size(); ++label)
      if (ends[label] >= count) body += fmt::format("L{}:\n", label);
    return body;
  }

 private:
  std::string Filled(std::string_view form) {
    const size_t space = form.find(' ');
    std::string text(form.substr(0, space));
    std::vector<size_t> written;  // No vector has a register twice.
    for (const char c : form.substr(space)) {
      switch (c) {
        case 'R':
          text += fmt::format("%r{}", Fresh(kWordsOfDraw, written));
          break;
        case 'H':
          text += fmt::format("%h{}", Fresh(4, written));
          break;
        case 'D':
          text += fmt::format("%rd{}", 10 + Below(2));
          break;
        case 'P':
          text += fmt::format("%p{}", 1 + Below(4));
          break;
        case 'r':
          text += fmt::format("%r{}", 1 + Below(kWordsOfDraw));
          break;
        case 'h':
          text += fmt::format("%h{}", 1 + Below(4));
          break;
        case 'd':
          text += fmt::format("%rd{}", 10 + Below(2));
          break;
        case 'p':
          text += fmt::format("%p{}", 1 + Below(4));
          break;
        default:
          text += c;
      }
    }
    return text + "\n";
  }
  size_t Fresh(size_t bound, std::vector<size_t>& written) {
    size_t number = 1 + Below(bound);
    while (std::ranges::find(written, number) != written.end())
      number = number % bound + 1;
    written.push_back(number);
    return number;
  }

  std::mt19937_64 random_;
};

std::string KernelOfDraw(const std::string& body) {
  std::string text = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 x, .param .u64 y) {
  .reg .pred %p<8>; .reg .b16 %h<8>; .reg .b32 %r<16>; .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y];
  mov.u32 %r12, %tid.x; mul.wide.u32 %rd3, %r12, 4; add.s64 %rd4, %rd1, %rd3;
  mul.wide.u32 %rd5, %r12, 32; add.s64 %rd6, %rd2, %rd5;
  ld.global.u32 %r1, [%rd4]; xor.b32 %r13, %r12, 1; mul.wide.u32 %rd3, %r13, 4;
  add.s64 %rd4, %rd1, %rd3; ld.global.u32 %r2, [%rd4];
  mov.u32 %r3, %r12; mov.u32 %r4, 77; mov.u32 %r5, 0; mov.u32 %r6, %r1;
  mul.lo.u32 %r7, %r12, 65539; mov.u32 %r8, -1;
  mov.b32 {%h1, %h2}, %r1; mov.b32 {%h3, %h4}, %r7;
  mov.b64 %rd10, {%r1, %r7}; mov.b64 %rd11, 9;
  setp.lt.u32 %p1, %r1, 500; setp.lt.u32 %p2, %r12, 11; setp.gt.u32 %p3, %r2, 99;
  setp.eq.u32 %p4, %r12, 3; add.cc.u32 %r9, %r8, 0;
)" + body + "  mov.u32 %r9, 0;\n";
  for (int p = 1; p <= 4; ++p)
    text += fmt::format("  selp.u32 %r10, {}, 0, %p{};\n  or.b32 %r9, %r9, %r10;\n", 1 << p, p);
  text += "  xor.b32 %r8, %r8, %r9;\n";
  for (int i = 0; i < kWordsOfDraw; ++i)
    text += fmt::format("  st.global.u32 [%rd6+{}], %r{};\n", 4 * i, i + 1);
  return text + "  ret;\n}\n";
}

TEST(TaintDrawTest, WhatPaddingChangesItReaches) {
  const int64_t programs = std::max<int64_t>(2000 / TestShare(), 1);
  const uint64_t seed = TestSeed();
  int64_t reached = 0;
  int64_t changed = 0;
  for (int64_t i = 0; i < programs; ++i) {
    ProgramDraw draw(seed + static_cast<uint64_t>(i));
    const std::string body = draw.Text();
    Launcher launcher(KernelOfDraw(body));
    launcher.checks = Checks::All(false);
    std::vector<uint32_t> x(kLaneCountOfDraw);
    std::vector<bool> padding(kLaneCountOfDraw);
    for (size_t lane = 0; lane < x.size(); ++lane) {
      x[lane] = static_cast<uint32_t>(draw.Below(1000));
      padding[lane] = draw.Below(5) == 0;
    }
    constexpr size_t kCount = kLaneCountOfDraw * kWordsOfDraw;
    Taint taint;
    std::vector<uint32_t> first;
    std::vector<bool> reaches(kCount);
    std::vector<bool> differs(kCount);
    for (int content = 0; content < kContents; ++content) {
      for (size_t lane = 0; lane < x.size(); ++lane)
        if (content > 0 && padding[lane])
          x[lane] = static_cast<uint32_t>(draw.Below(content % 2 == 0 ? 1000 : UINT32_MAX));
      const uint64_t from = launcher.Allocate(x);
      const uint64_t to = launcher.Allocate(std::vector<uint32_t>(kCount));
      launcher.taint = content == 0 ? &taint : nullptr;
      for (size_t lane = 0; content == 0 && lane < x.size(); ++lane)
        taint.plane.Fill(from + 4 * lane, 4, TaintOfInput(0, padding[lane]));
      ExpectClean(launcher.Run("K", {.block = {kLaneCountOfDraw, 1, 1}}, from, to));
      const auto values = launcher.Read<uint32_t>(to, kCount);
      if (content == 0) {
        first = values;
        for (size_t element = 0; element < kCount; ++element)
          reaches[element] = IsPadding(taint.plane.Joined(to + 4 * element, 4));
        continue;
      }
      for (size_t element = 0; element < kCount; ++element)
        differs[element] = differs[element] || values[element] != first[element];
    }
    EXPECT_TRUE(taint.gaps.empty()) << taint.gaps.front();
    for (size_t element = 0; element < kCount; ++element) {
      reached += reaches[element] ? 1 : 0;
      changed += differs[element] ? 1 : 0;
      ASSERT_TRUE(reaches[element] || !differs[element])
          << "seed " << seed + static_cast<uint64_t>(i) << ": register "
          << element % kWordsOfDraw + 1 << " of lane " << element / kWordsOfDraw << " in\n"
          << body;
    }
  }
  std::printf("padding reaches %lld elements of %lld programs, and changes %lld\n",
              static_cast<long long>(reached), static_cast<long long>(programs),
              static_cast<long long>(changed));
  if (programs >= 100) {
    EXPECT_GT(changed, reached / 4);
  }
}

}  // namespace
}  // namespace coppice::ptx
