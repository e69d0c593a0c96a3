// Goal: a tensor describes dense memory, counts its elements and compares by value.
// Method: shapes written out by hand.

#include "coppice/base/tensor.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

Tensor Dense(const std::vector<int64_t>& dims) {
  return Tensor::Dense(0x1000, DType::kFloat32, dims);
}

TEST(DTypeTest, SizesAreBytesOfOneElementAndNamesTheOnesPeopleWrite) {
  const std::map<DType, std::pair<int64_t, std::string>> facts = {
      {DType::kFloat32, {4, "f32"}},       {DType::kFloat16, {2, "f16"}},
      {DType::kBFloat16, {2, "bf16"}},     {DType::kFloat64, {8, "f64"}},
      {DType::kFloat8E4M3, {1, "f8e4m3"}}, {DType::kFloat8E5M2, {1, "f8e5m2"}},
      {DType::kComplex64, {8, "c64"}},     {DType::kBool, {1, "bool"}},
      {DType::kInt8, {1, "i8"}},           {DType::kInt16, {2, "i16"}},
      {DType::kInt32, {4, "i32"}},         {DType::kInt64, {8, "i64"}},
      {DType::kUInt8, {1, "u8"}},          {DType::kUInt16, {2, "u16"}},
      {DType::kUInt32, {4, "u32"}},        {DType::kUInt64, {8, "u64"}}};
  for (const auto& [dtype, fact] : facts) {
    EXPECT_EQ(SizeOf(dtype), fact.first) << fact.second;
    EXPECT_EQ(NameOf(dtype), fact.second);
  }
  EXPECT_EQ(SizeOf(static_cast<DType>(facts.size())), 0);
  EXPECT_EQ(NameOf(static_cast<DType>(facts.size())), std::string("?"));
}

TEST(TensorTest, DenseIsRowMajorWithoutGaps) {
  const Tensor tensor = Dense({2, 3, 5});
  EXPECT_EQ(tensor.data, 0x1000U);
  EXPECT_EQ(tensor.dtype, DType::kFloat32);
  EXPECT_EQ(tensor.rank, 3);
  EXPECT_THAT(tensor.sizes, ElementsAre(2, 3, 5, 0, 0, 0, 0, 0));
  EXPECT_THAT(tensor.strides, ElementsAre(15, 5, 1, 0, 0, 0, 0, 0));
  EXPECT_EQ(tensor.element_count(), 30);
}

TEST(TensorTest, RankZeroHoldsOneElement) {
  EXPECT_EQ(Dense({}).element_count(), 1);
}

Tensor Strided(const std::vector<int64_t>& dims, const std::vector<int64_t>& strides) {
  Tensor tensor = Dense(dims);
  std::copy(strides.begin(), strides.end(), tensor.strides.begin());
  return tensor;
}

TEST(TensorTest, SpanReachesBehindTheLastElement) {
  EXPECT_EQ(Dense({}).span(), 1);
  EXPECT_EQ(Dense({2, 3, 5}).span(), 30);
  EXPECT_EQ(Dense({2, 0, 5}).span(), 0);
  EXPECT_EQ(Strided({2, 3}, {1, 2}).span(), 6);
  EXPECT_EQ(Strided({2, 3}, {8, 1}).span(), 11);
  EXPECT_EQ(Strided({7, 3}, {0, 1}).span(), 3);
}

// Against a set of all places.
TEST(TensorTest, ElementsKeptApartHavePlacesOfTheirOwn) {
  for (const int64_t rows : {0, 1, 2, 3}) {
    for (const int64_t columns : {0, 1, 2, 3}) {
      for (const int64_t down : {0, 1, 2, 3, 4, 6}) {
        for (const int64_t right : {0, 1, 2, 3, 4, 6}) {
          std::set<int64_t> places;
          for (int64_t i = 0; i < rows; ++i) {
            for (int64_t j = 0; j < columns; ++j)
              places.insert(i * down + j * right);
          }
          const bool distinct = static_cast<int64_t>(places.size()) == rows * columns;
          const Tensor tensor = Strided({rows, columns}, {down, right});
          // {2, 3} with strides {3, 2} is one of the views that do as well: 0 2 4, 3 5 7.
          if (tensor.keeps_apart()) {
            EXPECT_TRUE(distinct) << rows << columns << down << right;
          } else if (distinct) {
            EXPECT_NE(down, right);
            EXPECT_GT(std::min(down, right), 1) << rows << columns << down << right;
          }
        }
      }
    }
  }
  EXPECT_TRUE(Dense({2, 3, 5}).keeps_apart());
  EXPECT_FALSE(Strided({2, 2, 2}, {4, 2, 0}).keeps_apart());
  EXPECT_TRUE(Strided({2, 1, 2}, {4, 0, 1}).keeps_apart());
}

TEST(TensorTest, EmptyAxisHoldsNoElementsAndKeepsStridesPositive) {
  const Tensor tensor = Dense({2, 0, 5});
  EXPECT_EQ(tensor.element_count(), 0);
  EXPECT_THAT(tensor.strides, ElementsAre(5, 5, 1, 0, 0, 0, 0, 0));
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
  EXPECT_DEATH(Dense({1, 1, 1, 1, 1, 1, 1, 1, 1}), "too many dimensions");
  EXPECT_DEATH(Dense({2, -1}), "a dimension is negative");
}

}  // namespace
}  // namespace coppice
