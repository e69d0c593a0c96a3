// Goal: a tensor describes dense memory, counts its elements and compares by value.
// Method: shapes written out by hand.

#include "coppice/base/tensor.h"

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coppice {
namespace {

using testing::ElementsAre;

Tensor Dense(const std::vector<int64_t>& dims) {
  return Tensor::Dense(0x1000, DType::kFloat32, dims);
}

TEST(DTypeTest, SizesAreBytesOfOneElement) {
  EXPECT_EQ(SizeOf(DType::kFloat32), 4);
  EXPECT_EQ(SizeOf(DType::kFloat16), 2);
  EXPECT_EQ(SizeOf(DType::kBFloat16), 2);
  EXPECT_EQ(SizeOf(DType::kInt32), 4);
  EXPECT_EQ(SizeOf(DType::kInt64), 8);
  EXPECT_EQ(SizeOf(DType::kUInt8), 1);
}

TEST(DTypeTest, NamesAreTheOnesPeopleWrite) {
  EXPECT_EQ(std::string(NameOf(DType::kFloat32)), "f32");
  EXPECT_EQ(std::string(NameOf(DType::kFloat16)), "f16");
  EXPECT_EQ(std::string(NameOf(DType::kBFloat16)), "bf16");
  EXPECT_EQ(std::string(NameOf(DType::kInt32)), "i32");
  EXPECT_EQ(std::string(NameOf(DType::kInt64)), "i64");
  EXPECT_EQ(std::string(NameOf(DType::kUInt8)), "u8");
}

TEST(TensorTest, DenseIsRowMajorWithoutGaps) {
  const Tensor tensor = Dense({2, 3, 5});
  EXPECT_EQ(tensor.data, 0x1000U);
  EXPECT_EQ(tensor.dtype, DType::kFloat32);
  EXPECT_EQ(tensor.rank, 3);
  EXPECT_THAT(tensor.sizes, ElementsAre(2, 3, 5, 0));
  EXPECT_THAT(tensor.strides, ElementsAre(15, 5, 1, 0));
  EXPECT_EQ(tensor.element_count(), 30);
}

TEST(TensorTest, RankZeroHoldsOneElement) {
  EXPECT_EQ(Dense({}).element_count(), 1);
}

TEST(TensorTest, EmptyAxisHoldsNoElementsAndKeepsStridesPositive) {
  const Tensor tensor = Dense({2, 0, 5});
  EXPECT_EQ(tensor.element_count(), 0);
  EXPECT_THAT(tensor.strides, ElementsAre(5, 5, 1, 0));
}

TEST(TensorTest, ViewsAreEqualWhicheverCallMadeThem) {
  Tensor made = Dense({2, 3});
  made.made_by = 7;
  EXPECT_EQ(made, Dense({2, 3}));
}

TEST(TensorTest, ComparesEveryFieldOfTheView) {
  const Tensor tensor = Dense({2, 3});
  EXPECT_EQ(tensor, Dense({2, 3}));
  EXPECT_NE(tensor, Dense({3, 2}));
  Tensor other = tensor;
  other.data = 0x2000;
  EXPECT_NE(tensor, other);
  other = tensor;
  other.dtype = DType::kInt32;
  EXPECT_NE(tensor, other);
  other = tensor;
  other.strides[0] = 4;
  EXPECT_NE(tensor, other);
}

TEST(TensorDeathTest, TooManyOrNegativeDimensionsAreErrors) {
  EXPECT_DEATH(Dense({1, 1, 1, 1, 1}), "too many dimensions");
  EXPECT_DEATH(Dense({2, -1}), "a dimension is negative");
}

}  // namespace
}  // namespace coppice
