// Goal: bulk copies move the box that a tensor map and coordinates name, and nothing else; they
// land when they are waited for; who does not wait, or does not fence, is found. Method: drawn
// maps, each byte of whose boxes is compared with what the definition says of it; and mutants of
// kernels that pass boxes through shared memory, a line changed.

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/bulk_box.h"
#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/tensor_map.h"
#include "tests/ptx/launcher.h"

namespace coppice::ptx {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

// --- boxes

TEST(BulkBoxTest, RowsAreWhatTheMapSays) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE(seed);
  std::mt19937 random(seed);
  const auto below = [&random](int bound) {
    return static_cast<int>(random() % static_cast<unsigned>(bound));
  };
  for (int trial = 0; trial < 2000; ++trial) {
    TensorMap map{.address = 0x10000,
                  .last_dimension = static_cast<uint8_t>(below(5)),
                  .type = static_cast<TensorMap::Type>(below(13))};
    const int rank = map.last_dimension + 1;
    const auto element = static_cast<int64_t>(TensorMap::BytesOf(map.type));
    BoxCoordinates at = {};
    for (int i = 0; i < rank; ++i) {
      map.last[i] = static_cast<uint32_t>(below(40));
      map.last_in_box[i] =
          static_cast<uint8_t>(i == 0 ? 16 / element * (1 + below(4)) - 1 : below(5));
      map.element_strides[i] = static_cast<uint8_t>(1 + below(3));
      at[static_cast<size_t>(i)] = below(60) - 15;
      if (i > 0) map.strides[i - 1] = static_cast<uint64_t>(16 * (1 + below(50)));
    }
    std::string why;
    const std::optional<BulkBox> box = BoxOf(map, rank, at, why);
    ASSERT_TRUE(box.has_value()) << why;
    const int64_t columns = map.last_in_box[0] + 1;
    ASSERT_EQ(box->row_bytes, columns * element);
    size_t row = 0;
    // The element strides of dimensions above the first step through the box.
    std::array<int, 5> in = {};
    for (bool more = true; more; ++row) {
      ASSERT_LT(row, box->rows.size());
      const BulkBox::Row& found = box->rows[row];
      for (int64_t column = 0; column < columns; ++column) {
        bool inside = at[0] + column >= 0 && at[0] + column <= map.last[0];
        uint64_t address = map.address + static_cast<uint64_t>((at[0] + column) * element);
        for (int i = 1; i < rank; ++i) {
          const int64_t index = at[static_cast<size_t>(i)] + in[static_cast<size_t>(i)];
          inside = inside && index >= 0 && index <= map.last[i];
          address += static_cast<uint64_t>(index) * map.strides[i - 1];
        }
        const int64_t byte = column * element - found.first;
        const bool has = found.bytes > 0 && byte >= 0 && byte < found.bytes;
        ASSERT_EQ(has, inside) << "row " << row << " column " << column;
        if (inside) {
          ASSERT_EQ(found.address + static_cast<uint64_t>(byte), address);
        }
      }
      more = false;
      for (int i = 1; i < rank && !more; ++i) {
        const auto axis = static_cast<size_t>(i);
        in[axis] += map.element_strides[i];
        more = in[axis] <= map.last_in_box[i];
        if (!more) in[axis] = 0;
      }
    }
    ASSERT_EQ(row, box->rows.size());
  }
}

TEST(BulkBoxTest, WhatNoDeviceCopiesIsRefused) {
  const TensorMap good{.address = 0x1000,
                       .strides = {64},
                       .last = {31, 7},
                       .last_in_box = {15, 3},
                       .element_strides = {1, 1},
                       .last_dimension = 1,
                       .type = TensorMap::Type::kFloat16};
  const auto why = [](TensorMap map, int rank = 2) {
    std::string text;
    EXPECT_FALSE(BoxOf(map, rank, {}, text).has_value());
    return text;
  };
  std::string text;
  EXPECT_TRUE(BoxOf(good, 2, {}, text).has_value());
  EXPECT_THAT(why(good, 3), HasSubstr("not a valid 3-dimensional tensor map"));
  TensorMap map = good;
  map.last_in_box[0] = 2;
  EXPECT_THAT(why(map), HasSubstr("rows of 6 bytes"));
  map = good;
  map.swizzle = 1;
  map.last_in_box[0] = 31;
  EXPECT_THAT(why(map), HasSubstr("rows of 64 bytes, more than its swizzle of 32"));
  map = good;
  map.address = 0x1008;
  EXPECT_THAT(why(map), HasSubstr("address 0x1008"));
  map = good;
  map.strides[0] = 40;
  EXPECT_THAT(why(map), HasSubstr("stride of 40 bytes"));
  map = good;
  map.last_dimension = 4;
  std::ranges::fill(map.last_in_box, uint8_t{255});
  std::ranges::fill(map.element_strides, uint8_t{1});
  EXPECT_THAT(why(map, 5), HasSubstr("boxes of more than 262144 bytes"));
  map = good;
  map.interleave = 1;
  EXPECT_THAT(why(map), HasSubstr("interleaved"));
}

// --- kernels

// A box of 8 rows of 16 words, to shared memory and back to a second tensor; %r9 and %r10 are its
// coordinates.
constexpr char kRoundTrip[] = R"(.version 8.0
.target sm_90a
.address_size 64
.visible .entry K(.param .align 64 .b8 from[128], .param .align 64 .b8 to[128], .param .u32 x,
                  .param .u32 y) {
  .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
  .shared .align 1024 .b8 s[2048]; .shared .align 8 .b64 bar;
  mov.u32 %r1, %tid.x; mov.u32 %r2, s; mov.u32 %r3, bar;
  ld.param.u32 %r9, [x]; ld.param.u32 %r10, [y];
  mov.b64 %rd1, from; cvta.param.u64 %rd1, %rd1;
  mov.b64 %rd2, to; cvta.param.u64 %rd2, %rd2;
  setp.eq.u32 %p1, %r1, 0;
  @%p1 mbarrier.init.shared::cta.b64 [%r3], 1;
  bar.sync 0;
  @%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;
  @%p1 cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes
      [%r2], [%rd1, {%r9, %r10}], [%r3];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
  shl.b32 %r4, %r1, 2; add.s32 %r4, %r4, %r2;
  ld.shared.u32 %r5, [%r4]; add.s32 %r5, %r5, 1; st.shared.u32 [%r4], %r5;
  fence.proxy.async.shared::cta;
  bar.sync 0;
  @%p1 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r9, %r10}], [%r2];
  @%p1 cp.async.bulk.commit_group;
  @%p1 cp.async.bulk.wait_group.read 0;
  bar.sync 0;
  st.shared.u32 [%r4], 0;
  ret;
}
)";

constexpr int kTensorColumns = 24;
constexpr int kTensorRows = 10;

class RoundTrip {
 public:
  explicit RoundTrip(std::string text, int swizzle = 0) : launcher_(std::move(text)) {
    std::vector<uint32_t> values(kTensorColumns * kTensorRows);
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<uint32_t>(1000 + i);
    from_ = launcher_.Allocate(values);
    to_ = launcher_.Allocate(std::vector<uint32_t>(values.size(), 7));
    swizzle_ = swizzle;
  }

  Outcome Run(int x, int y, uint64_t seed = 1) {
    launcher_.seed = seed;
    std::vector<std::byte> bank(264);
    MapOf(from_).Store(bank.data());
    MapOf(to_).Store(bank.data() + 128);
    std::memcpy(&bank[256], &x, 4);
    std::memcpy(&bank[260], &y, 4);
    return launcher_.RunWith("K", {.block = {128, 1, 1}}, bank);
  }
  std::vector<uint32_t> Stored() const {
    return launcher_.Read<uint32_t>(to_, kTensorColumns * kTensorRows);
  }

 private:
  TensorMap MapOf(uint64_t address) const {
    return {.address = address,
            .strides = {4 * kTensorColumns},
            .last = {kTensorColumns - 1, kTensorRows - 1},
            .last_in_box = {15, 7},
            .element_strides = {1, 1},
            .last_dimension = 1,
            .type = TensorMap::Type::kUint32,
            .swizzle = static_cast<uint8_t>(swizzle_)};
  }

  Launcher launcher_;
  uint64_t from_ = 0;
  uint64_t to_ = 0;
  int swizzle_ = 0;
};

TEST(BulkCopyTest, ABoxGoesThroughSharedMemory) {
  for (const int swizzle : {0, 2, 3})
    for (const auto& [x, y] : {std::pair(0, 0), std::pair(8, 2), std::pair(-5, 4),
                               std::pair(20, -3), std::pair(30, 0)}) {
      RoundTrip trip(kRoundTrip, swizzle);
      ExpectClean(trip.Run(x, y));
      const std::vector<uint32_t> stored = trip.Stored();
      for (int row = 0; row < kTensorRows; ++row)
        for (int column = 0; column < kTensorColumns; ++column) {
          const bool inside = column >= x && column < x + 16 && row >= y && row < y + 8;
          const auto i = static_cast<size_t>(row * kTensorColumns + column);
          ASSERT_EQ(stored[i], inside ? 1001 + i : size_t{7}) << x << " " << y << " " << i;
        }
    }
}

std::string ChangedTrip(std::string_view line, std::string_view other) {
  std::string text = kRoundTrip;
  const size_t at = text.find(line);
  EXPECT_NE(at, std::string::npos) << line;
  return text.replace(at, line.size(), other);
}

TEST(BulkCopyTest, WhatIsMissingIsFound) {
  struct {
    const char* line;
    const char* other;
    const char* message;  // Of a finding, or of the fault.
  } constexpr kMutants[] = {
      {"@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;", "", "that no thread has initialized"},
      {"@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;",
       "@%p1 mbarrier.init.shared::cta.b64 [%r3], 0;", "with a count of 0; a count is from 1 to"},
      {"@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;",
       "@%p1 mbarrier.init.shared::cta.b64 [%r3], 1048576;", "with a count of 1048576"},
      {"@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;\n  bar.sync 0;",
       "@%p1 mbarrier.init.shared::cta.b64 [%r3], 1;", "that no thread has initialized"},
      {"@%p1 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 512;",
       "@%p1 mbarrier.inval.shared::cta.b64 [%r3];", "that no thread has initialized"},
      {"@%p1 cp.async.bulk.commit_group;", "", "copies from shared memory, but its block ended"},
      {"@%p1 cp.async.bulk.wait_group.read 0;", "@%p1 cp.async.bulk.wait_group.read 1;",
       "copies from shared memory, but its block ended"},
      {"WAIT:\n  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;\n  @!%p2 bra WAIT;", "",
       "copies to shared memory, but its block ended"},
      {"@!%p2 bra WAIT;", "", "an asynchronous copy that no thread has waited for may have"},
      {"mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;",
       "mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 1;",
       "an asynchronous copy that no thread has waited for may have"},
      {"fence.proxy.async.shared::cta;", "", "no fence.proxy.async"},
      {"@%p1 cp.async.bulk.wait_group.read 0;\n  bar.sync 0;", "", "nothing orders the two"},
      {"fence.proxy.async.shared::cta;\n  bar.sync 0;", "fence.proxy.async.shared::cta;",
       "nothing orders the two"},
  };
  for (const auto& mutant : kMutants) {
    SCOPED_TRACE(mutant.line);
    bool found = false;
    for (uint64_t seed = 1; seed <= 20 && !found; ++seed) {
      const Outcome outcome = RoundTrip(ChangedTrip(mutant.line, mutant.other)).Run(0, 0, seed);
      std::vector<Finding> all = outcome.findings;
      if (outcome.fault) all.push_back(*outcome.fault);
      for (const Finding& finding : all)
        found = found || finding.message.find(mutant.message) != std::string::npos;
    }
    EXPECT_TRUE(found);
  }
}

TEST(BulkCopyTest, WhatIsNeverWaitedForIsNotWritten) {
  RoundTrip trip(ChangedTrip("@%p1 cp.async.bulk.wait_group.read 0;", ""));
  trip.Run(0, 0);
  EXPECT_THAT(trip.Stored(), testing::Each(7));
}

TEST(BulkCopyTest, TooManyBytesAreADeadlock) {
  RoundTrip trip(ChangedTrip("[%r3], 512;", "[%r3], 528;"));
  EXPECT_EQ(trip.Run(0, 0).fault->kind, Finding::Kind::kDeadlock);
}

TEST(BulkCopyTest, WhatNoDeviceCopiesIsAFault) {
  const auto message = [](std::string_view line, std::string_view other) {
    return RoundTrip(ChangedTrip(line, other)).Run(0, 0).fault->message;
  };
  EXPECT_THAT(message("mov.u32 %r2, s;", "mov.u32 %r2, s; add.s32 %r2, %r2, 64;"),
              HasSubstr("not a multiple of 128"));
  EXPECT_THAT(message("mov.u32 %r2, s;", "mov.u32 %r2, s; add.s32 %r2, %r2, 1920;"),
              HasSubstr("in shared memory"));
  EXPECT_THAT(message("mov.b64 %rd1, from;", "mov.b64 %rd1, from; add.s64 %rd1, %rd1, 64;"),
              HasSubstr("which"));
}

// --- rows and reductions

constexpr char kRowKernel[] = R"(.version 8.0
.target sm_90
.address_size 64
.visible .entry K(.param .u64 from, .param .u64 to) {
  .reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<8>;
  .shared .align 128 .b8 s[256]; .shared .align 8 .b64 bar;
  mov.u32 %r2, s; mov.u32 %r3, bar;
  ld.param.u64 %rd1, [from]; ld.param.u64 %rd2, [to];
  mbarrier.init.shared::cta.b64 [%r3], 1;
  fence.mbarrier_init.release.cluster;
  mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 256;
  cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 256, [%r3];
WAIT:
  mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
  @!%p2 bra WAIT;
  STORE
  cp.async.bulk.commit_group;
  cp.async.bulk.wait_group 0;
  ret;
}
)";

TEST(BulkCopyTest, RowsAreCopiedAndReduced) {
  struct {
    const char* opcode;
    uint32_t stored;
  } constexpr kStores[] = {
      {"cp.async.bulk.global.shared::cta.bulk_group", 12},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32", 22},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.min.s32", 10},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.max.u32", 12},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.and.b32", 8},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.or.b32", 14},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.xor.b32", 6},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.inc.u32", 11},
      {"cp.reduce.async.bulk.global.shared::cta.bulk_group.dec.u32", 9},
  };
  for (const auto& store : kStores) {
    std::string text = kRowKernel;
    text.replace(text.find("STORE"), 5, fmt::format("{} [%rd2], [%r2], 256;", store.opcode));
    Launcher launcher(text);
    const uint64_t from = launcher.Allocate(std::vector<uint32_t>(64, 12));
    const uint64_t to = launcher.Allocate(std::vector<uint32_t>(64, 10));
    ExpectClean(launcher.Run("K", {}, from, to));
    EXPECT_THAT(launcher.Read<uint32_t>(to, 64), testing::Each(store.stored)) << store.opcode;
  }
}

std::string RowKernel(std::string_view line, std::string_view other) {
  std::string text = kRowKernel;
  text.replace(text.find("STORE"), 5,
               "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 256;");
  return text.replace(text.find(line), line.size(), other);
}

TEST(BulkCopyTest, NoBytesAreCopied) {
  std::string text = RowKernel("[%rd1], 256, [%r3];", "[%rd1], 0, [%r3];");
  text = text.replace(text.find("[%r2], 256;"), 11, "[%r2], 0;");
  text = text.replace(text.find("[%r3], 256;"), 11, "[%r3], 0;");
  Launcher launcher(text);
  ExpectClean(launcher.Run("K", {}, launcher.AllocateBytes(16), launcher.AllocateBytes(16)));
}

TEST(BulkCopyTest, AddressesAreChecked) {
  struct {
    const char* line;
    const char* other;
  } constexpr kMutants[] = {
      {"ld.param.u64 %rd1, [from];", "mov.u64 %rd1, -16;"},
      {"ld.param.u64 %rd2, [to];", "mov.u64 %rd2, -16;"},
      {"mov.u32 %r2, s;", "mov.u32 %r2, 0x2000000;"},
      {"mov.u32 %r2, s;", "mov.u32 %r2, 512;"},
  };
  for (const auto& mutant : kMutants) {
    Launcher launcher(RowKernel(mutant.line, mutant.other));
    const Outcome outcome =
        launcher.Run("K", {}, launcher.AllocateBytes(256), launcher.AllocateBytes(256));
    ASSERT_TRUE(outcome.fault.has_value()) << mutant.other;
    EXPECT_EQ(outcome.fault->kind, Finding::Kind::kIllegalAddress) << mutant.other;
  }
}

}  // namespace
}  // namespace coppice::ptx
