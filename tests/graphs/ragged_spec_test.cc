// Goal: which ragged sequences are valid, as program.h says of RaggedSpec. Method: its example, and
// specs that are right but for one thing.

#include "tests/graphs/ragged_fixture.h"

namespace coppice {
namespace {

using absl::StatusCode;

class RaggedSpecTest : public RaggedFixture {
 protected:
  static constexpr Form kPackedForm = {.rectangle = false};
  static constexpr Form kRectangleForm = {.rectangle = true};

  static void ExpectInvalid(const Form& form,
                            const std::function<void(ProgramSpec&)>& change,
                            const std::string& words) {
    ProgramSpec spec = SpecOf(form);
    change(spec);
    const absl::Status status = ValidateSpec(spec);
    EXPECT_THAT(status, StatusIs(StatusCode::kInvalidArgument)) << words;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(spec.name), HasSubstr(words)));
  }
};

TEST_F(RaggedSpecTest, TheExampleOfTheHeaderIsValid) {
  ProgramSpec spec{.name = "p", .claim = PaddingContents::kAny};
  const int batch = spec.AddSymbol("batch", *PaddingPolicy::Pow2(8));
  const int tokens = spec.AddSymbol("tokens", *PaddingPolicy::Pow2(512));
  const int longest = spec.AddSymbol("longest", *PaddingPolicy::Pow2(64));
  spec.symbols.back().given = true;
  const int seq =
      spec.AddRagged({.count = batch, .total = tokens, .length = longest, .lengths = 0});
  spec.inputs = {{.name = "lengths", .dtype = DType::kInt32, .dims = {Dim::Symbol(batch)}},
                 {.name = "x", .dims = {Dim::Ragged(seq), Dim::Fixed(64)}}};
  spec.outputs = {{.name = "y", .dims = {Dim::Ragged(seq), Dim::Fixed(64)}}};
  EXPECT_OK(ValidateSpec(spec));
  EXPECT_TRUE(spec.ragged[0].is_rectangle());
}

TEST_F(RaggedSpecTest, SequencesAreWhatRaggedSpecWants) {
  const auto both = {kPackedForm, kRectangleForm};
  for (const Form& form : both) {
    EXPECT_OK(ValidateSpec(SpecOf(form)));
    const auto invalid = [&](auto change, const std::string& words) {
      ExpectInvalid(form, change, words);
    };
    invalid([](ProgramSpec& spec) { spec.ragged[0].count = 9; }, "has symbol 9 as its count");
    invalid([](ProgramSpec& spec) { spec.ragged[0].total = spec.ragged[0].count; },
            "name different symbols");
    invalid([](ProgramSpec& spec) { spec.symbols[kTotal].counted = true; },
            "total of ragged[0] is counted");
    invalid([](ProgramSpec& spec) { spec.ragged[0].length = -7; }, "-1 for no length");
    invalid([](ProgramSpec& spec) { spec.claim = std::nullopt; }, "has no claim");
    invalid(
        [](ProgramSpec& spec) {
          const int sentences = spec.AddSymbol("sentences", *PaddingPolicy::Pow2(8));
          spec.symbols.back().given = true;
          RaggedSpec other = spec.ragged[0];
          other.count = sentences;
          other.lengths = 2;
          spec.inputs.push_back(spec.inputs[0]);
          spec.inputs.back().name = "others";
          const bool offsets = other.by == By::kOffsets;
          spec.inputs.back().dims = {offsets ? spec.AddExtent("sentences + 1")
                                             : Dim::Symbol(sentences)};
          spec.ragged.push_back(other);
        },
        "but also the total of another entry");
    invalid([](ProgramSpec& spec) { spec.ragged[0].lengths = 7; },
            "from input 7, but the number of inputs is 2");
    invalid([](ProgramSpec& spec) { spec.ragged[0].lengths = kX; }, "input x cannot give");
    invalid([](ProgramSpec& spec) { spec.ragged[0].by = By::kOffsets; }, "'count + 1'");
    invalid([](ProgramSpec& spec) { spec.inputs[0].dtype = DType::kFloat32; }, "i32 or i64");
    invalid([](ProgramSpec& spec) { spec.inputs[0].mutated = true; }, "not mutated");
    invalid([](ProgramSpec& spec) { spec.inputs[0].fill = Fill::RepeatLast(); },
            "sequences that are not empty; give it the fill Zero");
    invalid([](ProgramSpec& spec) { spec.ragged.resize(kRaggedMax + 1, spec.ragged[0]); },
            "3 sets of ragged sequences, but at most 2");
    invalid([](ProgramSpec& spec) { spec.inputs[kX].dims[0] = Dim::Ragged(1); },
            "names ragged 1, but the program has only 1");
    invalid([](ProgramSpec& spec) { std::swap(spec.inputs[kX].dims[0], spec.inputs[kX].dims[1]); },
            "along axis 1");
    invalid(
        [](ProgramSpec& spec) {
          spec.inputs[kX].strides = {Dim::Fixed(3), Dim::Fixed(1)};
        },
        "leave the strides out");
    invalid([](ProgramSpec& spec) { spec.inputs[kX].role = InputRole::kStatic; }, "static");
    invalid([](ProgramSpec& spec) { spec.inputs[kX].mutated = true; }, "is mutated");
    invalid([](ProgramSpec& spec) { spec.outputs[kY].role = OutputRole::kStatic; }, "static");
    invalid([](ProgramSpec& spec) { spec.inputs[kX].dims[0] = Dim::Fixed(4); },
            "no copied input has symbol total in its dims");
  }
}

TEST_F(RaggedSpecTest, RectanglesArePadded) {
  ExpectInvalid(
      kRectangleForm, [](ProgramSpec& spec) { spec.claim = std::nullopt; }, "has no claim");
  ExpectInvalid(
      kRectangleForm, [](ProgramSpec& spec) { spec.inputs[kX].fill = Fill::RepeatLast(); },
      "belongs to another sequence");
  ExpectInvalid(
      kRectangleForm,
      [](ProgramSpec& spec) { spec.outputs[kY].dims.resize(kRankMax, Dim::Fixed(1)); }, "rank 9");
  ProgramSpec packed = SpecOf(kPackedForm);
  packed.inputs[kX].fill = Fill::RepeatLast();
  EXPECT_OK(ValidateSpec(packed));
}

TEST_F(RaggedSpecTest, RectanglesBeyondAnyDeviceAreRefused) {
  ExpectInvalid(
      kRectangleForm,
      [](ProgramSpec& spec) {
        spec.symbols[kLength].policy = *PaddingPolicy::Pow2(1 << 24);
        spec.symbols[kCount].policy = *PaddingPolicy::Pow2(1 << 24);
        spec.outputs[kY].dims[1] = Dim::Fixed(1 << 20);
      },
      "larger than 2^63 bytes");
}

TEST_F(RaggedSpecTest, OffsetsRepeatTheLast) {
  const Form form = {.by = By::kOffsets};
  EXPECT_OK(ValidateSpec(SpecOf(form)));
  ExpectInvalid(
      form, [](ProgramSpec& spec) { spec.inputs[0].fill = Fill::Zero(); },
      "give it the fill RepeatLast");
}

TEST_F(RaggedSpecTest, TwoViewsOfTheSameSequencesShareTheirTotal) {
  ProgramSpec spec = SpecOf(kRectangleForm);
  RaggedSpec packed = spec.ragged[0];
  packed.length = -1;
  const int view = spec.AddRagged(packed);
  spec.inputs.push_back({.name = "z", .dims = {Dim::Ragged(view)}});
  EXPECT_OK(ValidateSpec(spec));
  spec.ragged[1].by = By::kOffsets;
  EXPECT_FALSE(ValidateSpec(spec).ok());
}

}  // namespace
}  // namespace coppice
