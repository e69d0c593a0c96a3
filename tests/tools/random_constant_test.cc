// Goal: a constant is drawn as its `x-random` says, on every platform, or the message names the
// place. Method: elements that numpy computed by the rule in samples/torch_decoder.py, as bits.

#include "tools/support/random_constant.h"

#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/status_matchers.h"

namespace coppice {
namespace {

using testing::HasSubstr;

package::Constant MatrixOf(int64_t rows, int64_t columns) {
  return {.name = "w", .shape = {rows, columns}, .strides = {columns, 1}};
}

nlohmann::json Described(int64_t seed, const char* mean, const char* deviation) {
  return {{"x-random", {{"seed", seed}, {"mean", mean}, {"deviation", deviation}}}};
}

TEST(RandomConstantTest, DrawsWhatNumpyDraws) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<float> values,
                               DrawConstant(MatrixOf(2, 3), Described(5508912558, "1.0", "0.1")));
  std::vector<uint32_t> bits;
  for (const float value : values)
    bits.push_back(std::bit_cast<uint32_t>(value));
  EXPECT_EQ(bits, (std::vector<uint32_t>{0x3f7f44be, 0x3f6ac844, 0x3f92b020, 0x3f8f653c, 0x3f68c4bc,
                                         0x3f7c7cf2}));
}

TEST(RandomConstantTest, ElementsFollowEachOtherWhateverTheShape) {
  const nlohmann::json how = Described(7, "0.0", "1.0");
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<float> wide, DrawConstant(MatrixOf(2, 6), how));
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<float> high, DrawConstant(MatrixOf(6, 2), how));
  EXPECT_EQ(wide, high);
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::vector<float> other,
                               DrawConstant(MatrixOf(6, 2), Described(8, "0.0", "1.0")));
  EXPECT_NE(wide, other);
}

TEST(RandomConstantTest, WhatSaysNotHowIsRefusedWithItsPlace) {
  nlohmann::json no_seed = Described(1, "0.0", "1.0");
  no_seed["x-random"].erase("seed");
  for (const nlohmann::json& described :
       {nlohmann::json::object(), no_seed, Described(1, "zero", "1.0"), Described(1, "0.0", "inf"),
        Described(1, "0.0", "1.0 ")}) {
    const absl::Status status = DrawConstant(MatrixOf(2, 3), described).status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument)) << described;
    EXPECT_THAT(std::string(status.message()), HasSubstr("/constants/w"));
  }
}

TEST(RandomConstantTest, OnlyDenseFloatsAreDrawn) {
  package::Constant transposed = MatrixOf(2, 3);
  transposed.strides = {1, 2};
  package::Constant half = MatrixOf(2, 3);
  half.dtype = DType::kFloat16;
  for (const package::Constant& constant : {transposed, half})
    EXPECT_THAT(DrawConstant(constant, Described(1, "0.0", "1.0")),
                StatusIs(absl::StatusCode::kInvalidArgument));
}

}  // namespace
}  // namespace coppice
