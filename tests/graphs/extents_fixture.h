// What the tests of computed, given and bound extents share: a session of one program that takes
// any spec, and shows what padding it saw.
//
//   output i = 2 * input i, where there is a copied input i, at the padded extents
//   output i = 7 everywhere, else
//
// Inputs hold 1, 2, 3 and so on, in row-major order. Threads: one test at a time.

#pragma once

#include "tests/graphs/session_fixture.h"

namespace coppice {

using Sizes = std::vector<int64_t>;

// What a call brings beside its inputs.
struct Beside {
  Sizes extents{};
  Sizes scalars{};
  std::function<void(Call&)> adjust = nullptr;
};

class ExtentsFixture : public SessionFixture {
 protected:
  // A row-independent program of these symbols, whose buckets are the powers of two to 64.
  static ProgramSpec SpecOf(const std::vector<std::string>& symbols) {
    ProgramSpec spec{.name = "p", .claim = PaddingContents::kRowIndependent};
    for (const std::string& name : symbols)
      spec.AddSymbol(name, *PaddingPolicy::Pow2(kLargest));
    return spec;
  }
  // x [n] and w [2*n] give 2*x and 2*w.
  static ProgramSpec DoublesSpec() {
    ProgramSpec spec = SpecOf({"n"});
    const Dim twice = spec.AddExtent("2*n");
    spec.inputs = {{.name = "x", .dims = {Dim::Symbol(0)}}, {.name = "w", .dims = {twice}}};
    spec.outputs = {{.name = "y", .dims = {Dim::Symbol(0)}}, {.name = "z", .dims = {twice}}};
    return spec;
  }
  // x [n] and w [expression] give 2*x alone.
  static ProgramSpec SpecWith(const std::string& expression, std::vector<std::string> symbols) {
    ProgramSpec spec = SpecOf(symbols);
    for (size_t i = 0; i < symbols.size(); ++i)
      spec.inputs.push_back(
          {.name = "of_" + symbols[i], .dims = {Dim::Symbol(static_cast<int>(i))}});
    spec.inputs.push_back({.name = "w", .dims = {spec.AddExtent(expression)}});
    for (const InputSpec& input : spec.inputs)
      spec.outputs.push_back({.name = input.name, .dims = input.dims});
    return spec;
  }

  Callable DoubleAll(std::function<absl::Status(CallContext&)> look = nullptr) const {
    return [this, look = std::move(look)](CallContext& context) -> absl::Status {
      if (look) COPPICE_RETURN_IF_ERROR(look(context));
      for (int i = 0; i < outputs_; ++i) {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(i));
        const int64_t count = y.span();
        if (i < inputs_) {
          COPPICE_RETURN_IF_ERROR(LaunchScale(context, context.input(i).data, y.data, count, 2));
          continue;
        }
        COPPICE_RETURN_IF_ERROR(LaunchFill(context, y.data, count, 7));
      }
      return absl::OkStatus();
    };
  }

  void Open(ProgramSpec spec, const SessionOptions& options = {}, Callable callable = nullptr) {
    inputs_ = static_cast<int>(spec.inputs.size());
    outputs_ = static_cast<int>(spec.outputs.size());
    session_ = MakeSession(options);
    absl::StatusOr<const Program*> program =
        session_->Register(std::move(spec), callable ? std::move(callable) : DoubleAll());
    ASSERT_OK(program);
    program_ = *program;
  }

  Tensor Upload(const Sizes& sizes) {
    const Tensor tensor = Tensor::Dense(0, DType::kFloat32, sizes);
    uploads_.push_back(*device_.Upload(Ramp(tensor.element_count())));
    return Tensor::Dense(uploads_.back().address(), DType::kFloat32, sizes);
  }
  absl::StatusOr<Lease> RunOn(const std::vector<Tensor>& inputs, const Beside& beside = {}) {
    coppice::Call call{.program = program_,
                       .inputs = inputs,
                       .scalars = beside.scalars,
                       .extents = beside.extents,
                       .stream = device_.stream()};
    if (beside.adjust) beside.adjust(call);
    last_ = session_->Explain(call);
    return session_->Run(call);
  }
  absl::StatusOr<Lease> Run(const std::vector<Sizes>& inputs, const Beside& beside = {}) {
    std::vector<Tensor> tensors;
    for (const Sizes& sizes : inputs)
      tensors.push_back(Upload(sizes));
    return RunOn(tensors, beside);
  }

  // The elements of a tensor of rank 1 or 2, in row-major order.
  std::vector<float> Elements(const Tensor& tensor) {
    std::vector<float> values;
    const int64_t rows = tensor.rank == 2 ? tensor.sizes[0] : 1;
    const int64_t columns = tensor.sizes[static_cast<size_t>(tensor.rank) - 1];
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t skip = row * tensor.strides[0] * static_cast<int64_t>(sizeof(float));
      const std::vector<float> read =
          device_.Download<float>(tensor.data + static_cast<DeviceAddress>(skip), columns);
      values.insert(values.end(), read.begin(), read.end());
    }
    return values;
  }

  // Expects outputs of these sizes, with their values.
  void ExpectOutputs(const Lease& lease, const std::vector<Sizes>& outputs) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    ASSERT_OK(scope);
    ASSERT_EQ(lease.output_count(), static_cast<int>(outputs.size()));
    for (size_t i = 0; i < outputs.size(); ++i) {
      const Tensor y = scope->output(static_cast<int>(i));
      const Tensor dense = Tensor::Dense(y.data, DType::kFloat32, outputs[i]);
      EXPECT_EQ(y.sizes, dense.sizes) << "output " << i;
      std::vector<float> expected = Ramp(dense.element_count());
      for (float& value : expected)
        value = static_cast<int>(i) < inputs_ ? 2 * value : 7;
      EXPECT_EQ(Elements(y), expected) << "output " << i;
    }
  }

  // Expects a call to run so, on inputs of these sizes, and to give outputs of those.
  void ExpectCall(RunKind kind,
                  const std::vector<Sizes>& inputs,
                  const std::vector<Sizes>& outputs,
                  const Beside& beside = {}) {
    const absl::StatusOr<Lease> lease = Run(inputs, beside);
    ASSERT_OK(lease);
    EXPECT_EQ(lease->kind(), kind) << NameOf(lease->kind()) << ": " << NameOf(lease->reason());
    EXPECT_EQ(last_.kind, kind) << last_.text;
    EXPECT_EQ(last_.reason, lease->reason()) << last_.text;
    ExpectOutputs(*lease, outputs);
  }

  std::vector<std::vector<int64_t>> Buckets() const {
    std::vector<std::vector<int64_t>> buckets;
    for (const NodeInfo& node : session_->nodes())
      buckets.push_back(node.bucket);
    return buckets;
  }

  std::unique_ptr<Session> session_;
  const Program* program_ = nullptr;
  int inputs_ = 0;
  int outputs_ = 0;
  Explanation last_;  // Of the last call.
};

}  // namespace coppice
