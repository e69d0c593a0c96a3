// Goal: every sentence of graphs/call/holder.h. Method: tensors on a line of addresses, and slots
// that are filled in by hand.

#include "graphs/call/holder.h"

#include "tests/support/test.h"

namespace coppice::internal {
namespace {

// So many floats in a row.
Tensor Floats(DeviceAddress data, int64_t count) {
  return Tensor::Dense(data, DType::kFloat32, std::vector<int64_t>{count});
}

class HolderTest : public testing::Test {
 protected:
  HolderTest() {
    slot_.holders = Slot::kLaneHolds | Slot::kLeaseHolds;
    slot_.call = 5;
    slot_.owned.tensors = {Floats(1000, 4), Floats(2000, 4)};
    slot_.outputs = &slot_.owned;
  }

  Slot slot_;
  std::vector<Slot*> slots_ = {&slot_};
};

TEST(TensorTest, HoldsWhatLiesWithinFromFirstToLastElement) {
  const Tensor output = Floats(1000, 4);
  EXPECT_TRUE(Holds(output, output));
  EXPECT_TRUE(Holds(output, Floats(1008, 2)));
  EXPECT_FALSE(Holds(output, Floats(1008, 3)));
  EXPECT_FALSE(Holds(output, Floats(996, 2)));
  EXPECT_FALSE(Holds(Floats(0, 4), Floats(0, 1)));
  Tensor spread = Floats(1000, 2);
  spread.strides[0] = 3;
  EXPECT_TRUE(Holds(output, spread));
  spread.strides[0] = 4;
  EXPECT_FALSE(Holds(output, spread));
}

TEST(TensorTest, OverlapIfTheyShareBytes) {
  EXPECT_TRUE(Overlap(Floats(1000, 4), Floats(1012, 4)));
  EXPECT_FALSE(Overlap(Floats(1000, 4), Floats(1016, 4)));
  EXPECT_FALSE(Overlap(Floats(1016, 4), Floats(1000, 4)));
}

TEST(TensorTest, StridesMatterWhereThereIsMoreThanOneElement) {
  const Tensor dense = Tensor::Dense(1000, DType::kFloat32, std::vector<int64_t>{1, 4});
  Tensor other = dense;
  other.strides[0] = 77;
  EXPECT_TRUE(StridesMatch(other, dense));
  other.strides[1] = 2;
  EXPECT_FALSE(StridesMatch(other, dense));
}

TEST_F(HolderTest, FindsTheLeasedOutputThatHoldsATensor) {
  const Tensor* output = nullptr;
  EXPECT_EQ(FindHolder(slots_, Floats(2004, 2), &output), &slot_);
  EXPECT_EQ(output, &slot_.owned.tensors[1]);
  EXPECT_EQ(FindHolder(slots_, Floats(3000, 2)), nullptr);
}

TEST_F(HolderTest, HolderIsOfTheCallThatMadeTheTensor) {
  Tensor tensor = Floats(1000, 4);
  tensor.made_by = 5;
  EXPECT_EQ(FindHolder(slots_, tensor), &slot_);
  tensor.made_by = 4;
  EXPECT_EQ(FindHolder(slots_, tensor), nullptr);
}

TEST_F(HolderTest, DroppedAndExpiredSlotsHoldNothing) {
  slot_.holders = Slot::kLaneHolds;
  EXPECT_EQ(FindHolder(slots_, Floats(1000, 4)), nullptr);
  slot_.holders = Slot::kLaneHolds | Slot::kLeaseHolds;
  slot_.overwritten_by = 6;
  EXPECT_EQ(FindHolder(slots_, Floats(1000, 4)), nullptr);
}

TEST_F(HolderTest, ReaderHasAnOpenScopeOnBytesOfTheTensor) {
  EXPECT_EQ(FindReader(slots_, Floats(1000, 4)), nullptr);
  slot_.OpenScope(nullptr);
  EXPECT_EQ(FindReader(slots_, Floats(2012, 40)), &slot_);
  EXPECT_EQ(FindReader(slots_, Floats(3000, 4)), nullptr);
}

}  // namespace
}  // namespace coppice::internal
