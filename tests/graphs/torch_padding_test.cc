// Goal: what PyTorch's tests show of padding - which filling a reader needs, and that the real
// extent belongs on the device - holds here too; PEERS.md says which test answers which.
// Method: reductions over padded inputs, and programs that are told their length in either way.

#include <algorithm>
#include <limits>
#include <vector>

#include "tests/graphs/torch_fixture.h"

namespace coppice {
namespace {

class TorchPaddingTest : public TorchFixture {
 protected:
  TorchPaddingTest() : collectives_(*kernels_.library.Get("Collectives")) {}

  // y = {sum, maximum} of x, whose padding is filled as told.
  const Program* AddReduction(const std::string& name, Fill fill) {
    ProgramSpec spec = SpecOf(name, 1, *PaddingPolicy::Linear(kCount, kCount));
    spec.inputs[0].fill = fill;
    spec.outputs = {{.name = "y", .dims = {Dim::Fixed(2)}}};
    return Add(spec, [this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress rest, context.Allocate(6 * kBufferAlignment));
      const auto part = [rest](int index) {
        return rest + static_cast<DeviceAddress>(index * kBufferAlignment);
      };
      return Launch(context.driver(), collectives_, context.stream(),
                    CollectivesParams{.keys = PointerAt<float>(context.input(0).data),
                                      .sum = PointerAt<float>(y.data),
                                      .maximum = PointerAt<float>(y.data) + 1,
                                      .arg_max = PointerAt<int32_t>(part(0)),
                                      .positive_total = PointerAt<int32_t>(part(1)),
                                      .positive_rank = PointerAt<int32_t>(part(2)),
                                      .sorted_keys = PointerAt<float>(part(3)),
                                      .sorted_threads = PointerAt<int32_t>(part(4)),
                                      .reversed = PointerAt<float>(part(5))},
                    1);
    });
  }

  Kernel collectives_;
};

TEST_F(TorchPaddingTest, PaddingIsFilledAsItsReaderNeedsZeroForASumAndMinusInfinityForAMaximum) {
  const Program* sum = AddReduction("sum", Fill::Zero());
  const Program* maximum =
      AddReduction("maximum", Fill::Value(-std::numeric_limits<double>::infinity()));
  for (const int64_t count : {5, 9, 64, 9, 5, 1}) {
    Floats values = Ramp(count);
    for (float& value : values)
      value = -value;
    const Tensor x = Upload(values);
    EXPECT_EQ(ValuesOf(Run(sum, {x}))[0], -static_cast<float>(count * (count + 1) / 2));
    EXPECT_EQ(ValuesOf(Run(maximum, {x}))[1], -1);
    if (count < kCount) {
      EXPECT_EQ(ValuesOf(Run(sum, {x}))[1], 0) << "zero is no filling for a maximum";
    }
  }
  EXPECT_EQ(Recorded().size(), 2U) << "all extents share the bucket of 64";
}

// The producer leaves its own value in the padding too.
TEST_F(TorchPaddingTest, FillIsThereAlsoWhereAnEarlierOutputLiesWithAnotherPadding) {
  const Program* producer = Add(
      SpecOf("threes", 1, *PaddingPolicy::Linear(kCount, kCount)),
      [this](CallContext& context) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
        return Launch(
            context.driver(), kernels_.fill, context.stream(),
            FillParams{.target = PointerAt<float>(y.data), .count = context.extent(0), .value = 3},
            1);
      });
  const Program* sum = AddReduction("sum", Fill::Zero());
  for (const int64_t count : {5, 9, 64, 9, 5, 1}) {
    const Lease threes = Run(producer, {Upload(Constant(1, count))});
    const SessionStats before = session_->stats();
    const Lease total = Run(sum, {At(threes)});
    EXPECT_EQ(ValuesOf(total)[0], static_cast<float>(3 * count)) << NameOf(total.kind());
    EXPECT_EQ(ValuesOf(threes), Constant(3, count)) << "a child leaves its parent alone";
    const SessionStats after = session_->stats();
    const bool whole = count == kCount;
    const bool warms = total.kind() == RunKind::kWarmUp;
    EXPECT_EQ(after.inputs_filled - before.inputs_filled,
              whole || threes.kind() == RunKind::kWarmUp ? 0 : 1);
    EXPECT_EQ(after.inputs_in_place - before.inputs_in_place, whole && !warms ? 1 : 0);
  }
}

// y = 2 * x over the elements that the program is told of, and -1 beyond them.
TEST_F(TorchPaddingTest, ExtentsSixAndSevenShareTheGraphOfEightIfTheLengthIsOnTheDevice) {
  for (const bool on_device : {true, false}) {
    Open();
    ProgramSpec spec = SpecOf("f", 1, *PaddingPolicy::Pow2(kCount));
    spec.claim = Claim::kMasked;
    spec.scalars = {{.name = "length", .device_resident = on_device}};
    spec.outputs = {{.name = "y", .dims = {Dim::Fixed(8)}}};
    const int word = ExtentWord(spec, 0);
    const Program* f = Add(spec, [this, on_device, word](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      COPPICE_RETURN_IF_ERROR(
          Launch(context.driver(), kernels_.fill, context.stream(),
                 FillParams{.target = PointerAt<float>(y.data), .count = 8, .value = -1}, 1));
      const DeviceAddress x = context.input(0).data;
      if (!on_device) return ScaleOn(context.stream(), x, y.data, 2, context.scalar(0));
      return Launch(context.driver(), kernels_.masked_scale, context.stream(),
                    MaskedScaleParams{.x = PointerAt<float>(x),
                                      .y = PointerAt<float>(y.data),
                                      .words = PointerAt<int64_t>(context.parameters()),
                                      .word = word,
                                      .factor = 2},
                    1);
    });
    for (const int64_t count : {6, 7, 6, 7, 8, 6, 7, 8}) {
      Floats expected(8, -1);
      std::fill_n(expected.begin(), count, 6.0F);
      const Lease lease = Run(f, {Upload(Constant(3, count))}, {.scalars = {count}});
      EXPECT_EQ(ValuesOf(lease), expected) << "length " << count;
    }
    EXPECT_EQ(Recorded().size(), on_device ? 1U : 3U);
    EXPECT_EQ(Count(RunKind::kWarmUp), on_device ? 1 : 3);
  }
}

}  // namespace
}  // namespace coppice
