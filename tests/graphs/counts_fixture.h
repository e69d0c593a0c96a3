// What tests of sizes that the device decides share: programs that make such a size, and programs
// that take one, on the emulator.
//
//   compact   y holds the positive elements of x [n], in order; kept, one integer, how many
//   masked    y [n] is 2 * x where the parameter block says that there is some, else -1
//   rows      y [n] is 2 * x everywhere, so that it shows what padding x has
//   add       x [n] += 1 everywhere, written back
//
// Buckets are the powers of two to 64. Threads: one test at a time.

#pragma once

#include "tests/graphs/session_fixture.h"

namespace coppice {

class CountsFixture : public SessionFixture {
 protected:
  static constexpr int kY = 0;  // Outputs of compact.
  static constexpr int kKept = 1;

  static ProgramSpec SpecOf(std::string name, std::optional<PaddingContents> claim) {
    ProgramSpec spec{.name = std::move(name), .claim = claim};
    spec.AddSymbol("n", *PaddingPolicy::Pow2(kLargest));
    spec.inputs = {{.name = "x", .dims = {Dim::Symbol(0)}}};
    spec.outputs = {{.name = "y", .dims = {Dim::Symbol(0)}}};
    return spec;
  }
  static ProgramSpec CompactSpec(DType count = DType::kInt64) {
    ProgramSpec spec = SpecOf("compact", PaddingContents::kAny);
    spec.outputs[0].count = {.output = kKept, .axis = 0};
    spec.outputs.push_back({.name = "kept", .dtype = count});
    return spec;
  }
  static ProgramSpec TakingSpec(std::string name,
                                std::optional<PaddingContents> claim,
                                Fill fill = {}) {
    ProgramSpec spec = SpecOf(std::move(name), claim);
    spec.symbols[0].counted = true;
    spec.inputs[0].fill = fill;
    return spec;
  }

  const Program* AddCompact(DType count = DType::kInt64) { return AddCompact(CompactSpec(count)); }
  const Program* AddCompact(ProgramSpec spec) {
    return *session_->Register(std::move(spec), [this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(kY));
      COPPICE_ASSIGN_OR_RETURN(const Tensor kept, context.AllocateOutput(kKept));
      const bool narrow = kept.dtype == DType::kInt32;
      return Launch(context.driver(), kernels_.compact, context.stream(),
                    CompactParams{.x = PointerAt<float>(context.input(0).data),
                                  .y = PointerAt<float>(y.data),
                                  .words = PointerAt<int64_t>(context.parameters()),
                                  .capacity = context.extent(0),
                                  .count = narrow ? nullptr : PointerAt<int64_t>(kept.data),
                                  .narrow_count = narrow ? PointerAt<int32_t>(kept.data) : nullptr},
                    1);
    });
  }

  const Program* AddMasked(ProgramSpec spec = TakingSpec("masked", PaddingContents::kAny)) {
    return *session_->Register(std::move(spec), [this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      COPPICE_RETURN_IF_ERROR(FillAll(context, y, -1));
      return Launch(context.driver(), kernels_.masked_scale, context.stream(),
                    MaskedScaleParams{.x = PointerAt<float>(context.input(0).data),
                                      .y = PointerAt<float>(y.data),
                                      .words = PointerAt<int64_t>(context.parameters()),
                                      .factor = 2},
                    GridFor(y.element_count()));
    });
  }

  const Program* AddRows(Fill fill,
                         std::optional<PaddingContents> claim = PaddingContents::kRowIndependent) {
    return *session_->Register(
        TakingSpec("rows", claim, fill), [this](CallContext& context) -> absl::Status {
          COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
          return LaunchScale(context, context.input(0).data, y.data, y.element_count(), 2);
        });
  }

  // Adds `one_`, as often as there are elements.
  const Program* AddAdd() {
    ProgramSpec spec = TakingSpec("add", PaddingContents::kRowIndependent);
    spec.inputs[0].mutated = true;
    spec.outputs.clear();
    return *session_->Register(std::move(spec), [this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(
          const DeviceAddress ones,
          context.Allocate(context.extent(0) * static_cast<int64_t>(sizeof(float))));
      COPPICE_RETURN_IF_ERROR(
          FillAll(context, {.data = ones, .rank = 1, .sizes = {context.extent(0)}}, 1));
      const DeviceAddress x = context.input(0).data;
      return AddOnto(context, x, ones, x, context.extent(0));
    });
  }

  absl::Status FillAll(CallContext& context, const Tensor& tensor, float value) const {
    return LaunchFill(context, tensor.data, tensor.element_count(), value);
  }

  Tensor Upload(const std::vector<float>& values) {
    uploads_.push_back(*device_.Upload(values));
    return FloatsAt(uploads_.back().address(), static_cast<int64_t>(values.size()));
  }
  // `kept` positive elements, the numbers 1, 2, ..., each behind a negative one while these last.
  Tensor UploadMixed(int64_t n, int64_t kept) {
    std::vector<float> values;
    int64_t negative = n - kept;
    for (int64_t i = 1; i <= kept; ++i) {
      if (negative-- > 0) values.push_back(-1);
      values.push_back(static_cast<float>(i));
    }
    values.resize(static_cast<size_t>(n), -1);
    return Upload(values);
  }
  template <typename Integer>
  Tensor UploadCount(Integer value) {
    uploads_.push_back(*device_.Upload(std::vector<Integer>{value}));
    return {.data = uploads_.back().address(),
            .dtype = sizeof(Integer) == 4 ? DType::kInt32 : DType::kInt64};
  }

  // A call of a program with one input, perhaps counted. Both outlive the call.
  coppice::Call CallOf(const Program* program, const Tensor& x, const Tensor& count = {}) const {
    coppice::Call call{.program = program, .inputs = {&x, 1}, .stream = device_.stream()};
    if (count.data != 0) call.counts = {&count, 1};
    return call;
  }

  // An output as a call shows it, and its count.
  struct Counted {
    Tensor y;
    Tensor count;
  };
  Counted OutputOf(const Lease& lease, int index = kY) const {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    if (!scope.ok()) return {};
    return {.y = scope->output(index), .count = scope->count(index)};
  }
  std::vector<float> SizedOutput(const Lease& lease) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    if (!scope.ok()) return {};
    absl::StatusOr<Tensor> y = scope->ReadSized(kY);
    EXPECT_OK(y);
    return y.ok() ? device_.Download<float>(y->data, y->sizes[0]) : std::vector<float>();
  }

  // What masked gives of 1, 2, ... n, of which this many count.
  static std::vector<float> MaskedTo(int64_t count, int64_t n) {
    return Padded(Doubled(Ramp(count)), -1, static_cast<size_t>(n));
  }
  // `values`, and `padding` behind them up to `n` elements.
  static std::vector<float> Padded(std::vector<float> values, float padding, size_t n) {
    values.resize(n, padding);
    return values;
  }
  static std::vector<float> Doubled(std::vector<float> values) {
    for (float& value : values)
      value *= 2;
    return values;
  }

  std::unique_ptr<Session> session_ = MakeSession();
};

}  // namespace coppice
