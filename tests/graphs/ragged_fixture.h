// What tests of ragged sequences share: programs of packed rows and of rectangles, on the emulator,
// and the host's loop.
//
//   y        [rows, width]        2 * x + the place in the sequence + 1000 * the sequence
//   starts   [count + 1 or more]  where each sequence of the bucket begins, and the last one ends
//   total    one                  what the parameter block says of the rows
//   seen     as x is staged       x itself, with its padding
//
// Buckets are the powers of two: 16 sequences of up to 64 rows, 256 rows in all. Inputs hold 1, 2,
// 3 and so on. Threads: one test at a time.

#pragma once

#include "tests/graphs/session_fixture.h"

namespace coppice {

class RaggedFixture : public SessionFixture {
 protected:
  using Lengths = std::vector<int64_t>;
  using By = RaggedBy;

  static constexpr int64_t kWidth = 3;
  static constexpr int64_t kSequencesMax = 16;
  static constexpr int64_t kRowsMax = 256;
  static constexpr float kFill = -5;
  // Symbols, inputs and outputs.
  static constexpr int kCount = 0;
  static constexpr int kTotal = 1;
  static constexpr int kLength = 2;
  static constexpr int kX = 1;
  enum Output { kY, kStarts, kRows, kSeen };

  struct Form {
    bool rectangle = false;
    By by = By::kLengths;
    DType dtype = DType::kInt32;  // Of the lengths.

    std::string name() const {
      return std::string(rectangle ? "rectangle" : "packed") +
             (by == By::kLengths ? "_lengths_" : "_offsets_") + NameOf(dtype);
    }
  };
  static std::vector<Form> Forms() {
    std::vector<Form> forms;
    for (const bool rectangle : {false, true})
      for (const By by : {By::kLengths, By::kOffsets})
        for (const DType dtype : {DType::kInt32, DType::kInt64})
          forms.push_back({rectangle, by, dtype});
    return forms;
  }

  static ProgramSpec SpecOf(const Form& form) {
    ProgramSpec spec{.name = form.name(), .claim = PaddingContents::kAny};
    const int count = spec.AddSymbol("count", *PaddingPolicy::Pow2(kSequencesMax));
    const int total = spec.AddSymbol("total", *PaddingPolicy::Pow2(kRowsMax));
    RaggedSpec sequences{.count = count, .total = total, .lengths = 0, .by = form.by};
    if (form.rectangle) {
      sequences.length = spec.AddSymbol("length", *PaddingPolicy::Pow2(kLargest));
      spec.symbols.back().given = true;
    }
    const int ragged = spec.AddRagged(sequences);
    const Dim entries = spec.AddExtent("count + 1");
    const bool offsets = form.by == By::kOffsets;
    spec.inputs = {{.name = "lengths",
                    .dtype = form.dtype,
                    .dims = {offsets ? entries : Dim::Symbol(count)},
                    .fill = offsets ? Fill::RepeatLast() : Fill::Zero()},
                   {.name = "x",
                    .dims = {Dim::Ragged(ragged), Dim::Fixed(kWidth)},
                    .fill = Fill::Value(kFill)}};
    Dims seen = {Dim::Symbol(total), Dim::Fixed(kWidth)};
    if (form.rectangle) seen = {Dim::Symbol(count), Dim::Symbol(kLength), Dim::Fixed(kWidth)};
    spec.outputs = {{.name = "y", .dims = {Dim::Ragged(ragged), Dim::Fixed(kWidth)}},
                    {.name = "starts", .dtype = form.dtype, .dims = {Dim::Fixed(kStartsMax)}},
                    {.name = "total", .dtype = DType::kInt64, .dims = {Dim::Fixed(1)}},
                    {.name = "seen", .dims = seen}};
    return spec;
  }

  // Computes the outputs of such a spec.
  Callable RowsCallable() const {
    return [this](CallContext& context) -> absl::Status {
      const Tensor& x = context.input(kX);
      const Tensor& offsets = context.offsets(0);
      const bool narrow = offsets.dtype == DType::kInt32;
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(kY));
      EXPECT_EQ(y.sizes, x.sizes) << "a rectangle gives a rectangle";
      COPPICE_RETURN_IF_ERROR(
          Launch(context.driver(), kernels_.ragged_rows, context.stream(),
                 RaggedRowsParams{
                     .x = PointerAt<float>(x.data),
                     .y = PointerAt<float>(y.data),
                     .narrow_offsets = narrow ? PointerAt<int32_t>(offsets.data) : nullptr,
                     .offsets = narrow ? nullptr : PointerAt<int64_t>(offsets.data),
                     .words = PointerAt<int64_t>(context.parameters()),
                     .sequences = context.extent(kCount),
                     .rows = context.extent(kTotal),
                     .length = x.rank == 3 ? std::max<int64_t>(context.extent(kLength), 1) : 0,
                     .width = kWidth,
                     .word = kTotal},
                 GridFor(y.element_count())));
      COPPICE_RETURN_IF_ERROR(CopyInto(context, kStarts, offsets.data,
                                       offsets.element_count() * SizeOf(offsets.dtype)));
      COPPICE_RETURN_IF_ERROR(CopyInto(context, kRows, context.parameters() + 8 * kTotal, 8));
      return CopyInto(context, kSeen, x.data, x.element_count() * SizeOf(x.dtype));
    };
  }
  static absl::Status CopyInto(CallContext& context,
                               int output,
                               DeviceAddress from,
                               int64_t bytes) {
    COPPICE_ASSIGN_OR_RETURN(const Tensor to, context.AllocateOutput(output));
    if (bytes == 0) return absl::OkStatus();
    return context.driver().Call<&DriverTable::MemcpyDtoDAsync>(
        to.data, from, static_cast<size_t>(bytes), context.stream());
  }

  void Open(const Form& form, const SessionOptions& options = {}) {
    form_ = form;
    session_ = MakeSession(options);
    absl::StatusOr<const Program*> program = session_->Register(SpecOf(form), RowsCallable());
    ASSERT_OK(program);
    program_ = *program;
  }

  static int64_t TotalOf(const Lengths& lengths) {
    return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
  }
  static int64_t LongestOf(const Lengths& lengths) {
    return lengths.empty() ? 0 : *std::max_element(lengths.begin(), lengths.end());
  }

  // What a call of these sequences brings. Packed tensors have `rows` rows, or as many as there
  // are.
  struct Inputs {
    std::vector<Tensor> tensors;
    std::vector<int64_t> extents;  // Given.
  };
  Inputs Bring(const Lengths& lengths, std::optional<int64_t> rows = {}) {
    Inputs inputs;
    Lengths said = lengths;
    if (form_.by == By::kOffsets) {
      said.insert(said.begin(), 0);
      std::partial_sum(said.begin(), said.end(), said.begin());
    }
    inputs.tensors.push_back(UploadIntegers(said));
    inputs.tensors.push_back(UploadRows(rows.value_or(TotalOf(lengths))));
    if (form_.rectangle) inputs.extents = {LongestOf(lengths)};
    return inputs;
  }
  Tensor UploadIntegers(const Lengths& values) {
    const auto size = static_cast<int64_t>(values.size());
    if (form_.dtype == DType::kInt64) {
      uploads_.push_back(*device_.Upload(values));
    } else {
      uploads_.push_back(*device_.Upload(std::vector<int32_t>(values.begin(), values.end())));
    }
    return Tensor::Dense(uploads_.back().address(), form_.dtype, {&size, 1});
  }
  Tensor UploadRows(int64_t rows) {
    const int64_t dims[] = {rows, kWidth};
    uploads_.push_back(*device_.Upload(Ramp(rows * kWidth)));
    return Tensor::Dense(uploads_.back().address(), DType::kFloat32, dims);
  }

  coppice::Call CallOf(const Inputs& inputs) const {
    return {.program = program_,
            .inputs = inputs.tensors,
            .extents = inputs.extents,
            .stream = device_.stream()};
  }
  absl::StatusOr<Lease> Run(const Inputs& inputs,
                            const std::function<void(coppice::Call&)>& adjust = nullptr) {
    coppice::Call call = CallOf(inputs);
    if (adjust) adjust(call);
    return session_->Run(call);
  }

  // The packed rows that the host computes, up to `shown` rows; those of nobody are `none`.
  static std::vector<float> Expected(const Lengths& lengths, int64_t shown, float none) {
    std::vector<float> rows;
    for (size_t sequence = 0; sequence < lengths.size(); ++sequence) {
      for (int64_t place = 0; place < lengths[sequence]; ++place) {
        for (int64_t column = 0; column < kWidth; ++column) {
          const auto x = static_cast<float>(rows.size() + 1);
          rows.push_back(2 * x + static_cast<float>(place) + 1000 * static_cast<float>(sequence));
        }
      }
    }
    rows.resize(static_cast<size_t>(shown * kWidth), none);
    return rows;
  }
  // What a row of nobody becomes: what the kernel of packed rows writes, or packing.
  float none() const { return form_.rectangle ? 0 : -1; }

  // The elements of a tensor with any strides >= 0, in row-major order.
  std::vector<float> Elements(const Tensor& tensor) const {
    std::vector<float> values;
    if (tensor.element_count() == 0) return values;
    const std::vector<float> span = device_.Download<float>(tensor.data, tensor.span());
    std::vector<int64_t> at(static_cast<size_t>(tensor.rank));
    for (int64_t i = 0; i < tensor.element_count(); ++i) {
      int64_t rest = i;
      int64_t offset = 0;
      for (auto axis = static_cast<size_t>(tensor.rank); axis-- > 0;) {
        offset += rest % tensor.sizes[axis] * tensor.strides[axis];
        rest /= tensor.sizes[axis];
      }
      values.push_back(span[static_cast<size_t>(offset)]);
    }
    return values;
  }
  std::vector<int64_t> Integers(const Tensor& tensor, int64_t count) const {
    if (tensor.dtype == DType::kInt64) return device_.Download<int64_t>(tensor.data, count);
    const std::vector<int32_t> narrow = device_.Download<int32_t>(tensor.data, count);
    return {narrow.begin(), narrow.end()};
  }
  std::vector<float> ElementsOf(const Lease& lease, int output) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    return scope.ok() ? Elements(scope->output(output)) : std::vector<float>();
  }
  std::vector<int64_t> StartsOf(const Lease& lease, int64_t count) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    return scope.ok() ? Integers(scope->output(kStarts), count) : std::vector<int64_t>();
  }
  int64_t RowsOf(const Lease& lease) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    return scope.ok() ? device_.Download<int64_t>(scope->output(kRows).data, 1)[0] : -1;
  }

  // x as the program sees it in a call of these sequences, at the call's extents.
  std::vector<float> ExpectedSeen(const Lengths& lengths, int64_t rows) const {
    if (!form_.rectangle) {
      std::vector<float> seen = Ramp(TotalOf(lengths) * kWidth);
      seen.resize(static_cast<size_t>(rows * kWidth), kFill);
      return seen;
    }
    std::vector<float> seen;
    float next = 1;
    for (const int64_t length : lengths) {
      for (int64_t i = 0; i < LongestOf(lengths) * kWidth; ++i)
        seen.push_back(i < length * kWidth ? next++ : kFill);
    }
    return seen;
  }

  // Expects all outputs of a call of these sequences.
  void ExpectOutputs(const Lease& lease, const Lengths& lengths, std::optional<int64_t> rows = {}) {
    const int64_t total = TotalOf(lengths);
    const int64_t shown = rows.value_or(total);
    EXPECT_EQ(ElementsOf(lease, kY), Expected(lengths, shown, none()));
    EXPECT_EQ(ElementsOf(lease, kSeen), ExpectedSeen(lengths, shown));
    EXPECT_EQ(RowsOf(lease), total);
    Lengths starts = lengths;
    starts.insert(starts.begin(), 0);
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    const bool eager = lease.kind() == RunKind::kEager;
    const auto count = static_cast<int64_t>(lengths.size());
    const int64_t slots = eager ? count : PaddingPolicy::Pow2(kSequencesMax)->Find(count).value();
    starts.resize(static_cast<size_t>(slots) + 1, total);
    EXPECT_EQ(StartsOf(lease, slots + 1), starts);
  }
  void ExpectCall(RunKind kind, const Lengths& lengths, std::optional<int64_t> rows = {}) {
    const absl::StatusOr<Lease> lease = Run(Bring(lengths, rows));
    ASSERT_OK(lease);
    EXPECT_EQ(lease->kind(), kind) << NameOf(lease->kind()) << ": " << NameOf(lease->reason());
    ExpectOutputs(*lease, lengths, rows);
  }

  static constexpr int64_t kStartsMax = 64;
  Form form_;
  std::unique_ptr<Session> session_;
  const Program* program_ = nullptr;
};

}  // namespace coppice
