// Programs drawn as lists of allocations, and what they compute on the host: for tests about where
// outputs lie and who may read them.
//
//   Sketch sketch{.name = "two", .steps = {Temporary(), Output(), Free(0), Output()}};
//
// Every buffer holds, element by element, its source plus a number of its own, and where the source
// is too short the number alone. The source is the buffer before it, or the input x after a Free.
// Values are whole numbers below 2^24, so a float holds them exactly, and one wrong step shows in
// every value that follows.
//
// Units: elements of four bytes. Threads: as session_fixture.h.

#pragma once

#include "tests/graphs/session_fixture.h"

namespace coppice {

struct SketchStep {
  enum class Kind : uint8_t { kTemporary, kOutput, kFree };
  Kind kind = Kind::kOutput;
  int64_t elements = 0;  // 0: as many as x. Of kFree: which of the temporaries.
};
inline SketchStep Temporary(int64_t elements = 0) {
  return {.kind = SketchStep::Kind::kTemporary, .elements = elements};
}
inline SketchStep Output(int64_t elements = 0) {
  return {.kind = SketchStep::Kind::kOutput, .elements = elements};
}
inline SketchStep Free(int64_t temporary) {
  return {.kind = SketchStep::Kind::kFree, .elements = temporary};
}

struct Sketch {
  static constexpr int64_t kLargest = 512;  // Bucket of n, which are powers of two.

  std::string name;
  // Of x; 0: the symbol n. A buffer of a size of its own needs an input of one.
  int64_t input = 0;
  std::vector<SketchStep> steps;
  int number = 1;  // Of the first buffer; the next ones count on.
};

using Values = std::vector<float>;

// What the outputs are, given x.
inline std::vector<Values> ModelOf(const Sketch& sketch, const Values& x) {
  std::vector<Values> outputs;
  Values source = x;
  float number = static_cast<float>(sketch.number);
  for (const SketchStep& step : sketch.steps) {
    if (step.kind == SketchStep::Kind::kFree) {
      source = x;
      continue;
    }
    Values buffer(step.elements == 0 ? x.size() : static_cast<size_t>(step.elements), number);
    for (size_t i = 0; i < std::min(buffer.size(), source.size()); ++i)
      buffer[i] += source[i];
    number += 1;
    source = buffer;
    if (step.kind == SketchStep::Kind::kOutput) outputs.push_back(buffer);
  }
  return outputs;
}

class SketchDevice : protected AffineDevice {
 protected:
  using AffineDevice::AffineDevice;

  // A session's program, and what it computes.
  struct Sketched {
    Session* session = nullptr;
    Sketch sketch;
    const Program* program = nullptr;
  };

  // The outputs of one call, and what they must hold.
  struct Made {
    const Sketched* sketched = nullptr;
    Lease lease;
    std::vector<Values> values;
    std::vector<Tensor> outputs;  // As a reader saw them.
  };

  // An input: a tensor and its values.
  struct Input {
    Tensor tensor;
    Values values;
  };

  static ProgramSpec SpecOf(const Sketch& sketch) {
    ProgramSpec spec{
        .name = sketch.name, .claim = PaddingContents::kRowIndependent, .one_stream = true};
    Dim size = Dim::Fixed(sketch.input);
    if (sketch.input == 0)
      size = Dim::Symbol(spec.AddSymbol("n", *PaddingPolicy::Pow2(Sketch::kLargest)));
    spec.inputs = {{.name = "x", .dims = {size}}};
    // Only an output larger than the input shows what the padding holds.
    const bool shows = std::any_of(sketch.steps.begin(), sketch.steps.end(),
                                   [](const SketchStep& step) { return step.elements != 0; });
    if (!shows) spec.inputs[0].fill = Fill::Undefined();
    for (const SketchStep& step : sketch.steps) {
      if (step.kind != SketchStep::Kind::kOutput) continue;
      spec.outputs.push_back({.name = "y" + std::to_string(spec.outputs.size()),
                              .dims = {step.elements == 0 ? size : Dim::Fixed(step.elements)}});
    }
    return spec;
  }

  // buffer = number, and buffer += source where that reaches.
  absl::Status FillBuffer(CallContext& context,
                          const Tensor& source,
                          const Tensor& buffer,
                          float number) const {
    const int64_t count = buffer.element_count();
    COPPICE_RETURN_IF_ERROR(LaunchFill(context, buffer.data, count, number));
    return AddOnto(context, source.data, buffer.data, buffer.data,
                   std::min(count, source.element_count()));
  }

  Callable CallableOf(const Sketch& sketch) const {
    return [this, sketch](CallContext& context) { return RunSteps(context, sketch); };
  }

  absl::Status RunSteps(CallContext& context, const Sketch& sketch) const {
    const Tensor& x = context.input(0);
    Tensor source = x;
    std::vector<DeviceAddress> temporaries;
    int output = 0;
    float number = static_cast<float>(sketch.number);
    for (const SketchStep& step : sketch.steps) {
      if (step.kind == SketchStep::Kind::kFree) {
        COPPICE_RETURN_IF_ERROR(context.Free(temporaries[static_cast<size_t>(step.elements)]));
        source = x;
        continue;
      }
      Tensor buffer = FloatsAt(0, step.elements == 0 ? x.element_count() : step.elements);
      if (step.kind == SketchStep::Kind::kOutput) {
        COPPICE_ASSIGN_OR_RETURN(buffer, context.AllocateOutput(output++));
      } else {
        COPPICE_ASSIGN_OR_RETURN(buffer.data, context.Allocate(buffer.element_count() * kFloat));
        temporaries.push_back(buffer.data);
      }
      COPPICE_RETURN_IF_ERROR(FillBuffer(context, source, buffer, number));
      number += 1;
      source = buffer;
    }
    return absl::OkStatus();
  }

  Sketched Draw(Session& session, Sketch sketch) const {
    Sketched sketched{.session = &session, .sketch = std::move(sketch)};
    sketched.program = *session.Register(SpecOf(sketched.sketch), CallableOf(sketched.sketch));
    return sketched;
  }

  // A program of the copied input x and `outputs` outputs, all of n elements, whatever `change`
  // makes of it.
  Sketched Define(Session& session,
                  Callable callable,
                  int outputs = 1,
                  const std::function<void(ProgramSpec&)>& change = nullptr) {
    Sketched defined{.session = &session, .sketch = {.name = "p" + std::to_string(defined_++)}};
    defined.sketch.steps.assign(static_cast<size_t>(outputs), Output());
    ProgramSpec spec = SpecOf(defined.sketch);
    if (change) change(spec);
    absl::StatusOr<const Program*> program = session.Register(spec, std::move(callable));
    EXPECT_OK(program);
    defined.program = *program;
    return defined;
  }

  // y = x + number, as output `index`.
  absl::StatusOr<Tensor> MakeOutput(CallContext& context, int index, float number) const {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(index));
    COPPICE_RETURN_IF_ERROR(FillBuffer(context, context.input(0), y, number));
    return y;
  }
  Callable Plus(float number) const {
    return [this, number](CallContext& context) { return MakeOutput(context, 0, number).status(); };
  }

  static Values Sum(Values values, float number) {
    for (float& value : values)
      value += number;
    return values;
  }

  // `count` values from `first` on, on the device for as long as the fixture lives.
  Input Upload(int64_t count, int first) {
    Values values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<float>(first + i));
    uploads_.push_back(*device_.Upload(values));
    return {.tensor = FloatsAt(uploads_.back().address(), count), .values = std::move(values)};
  }

  // Output `index` of a call as the input of another.
  static Input InputFrom(const Made& made, size_t index = 0) {
    return {.tensor = made.outputs[index], .values = made.values[index]};
  }

  absl::StatusOr<Made> RunSketch(
      const Sketched& sketched,
      const Input& x,
      const std::function<void(coppice::Call&)>& adjust = nullptr) const {
    coppice::Call call{
        .program = sketched.program, .inputs = {&x.tensor, 1}, .stream = device_.stream()};
    if (adjust) adjust(call);
    Made made{.sketched = &sketched, .values = ModelOf(sketched.sketch, x.values)};
    COPPICE_ASSIGN_OR_RETURN(made.lease, sketched.session->Run(call));
    COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, made.lease.Read(call.stream));
    for (int i = 0; i < made.lease.output_count(); ++i)
      made.outputs.push_back(scope.output(i));
    return made;
  }

  // The elements of a dense tensor, by way of `stream`: any thread's that has one of its own.
  Values DownloadOn(const Stream& stream, const Tensor& tensor) const {
    Values values(static_cast<size_t>(tensor.element_count()));
    void* const target = values.data();
    EXPECT_OK(device_.driver().Call<&DriverTable::MemcpyDtoHAsync>(
        target, tensor.data, values.size() * sizeof(float), stream.handle()));
    EXPECT_OK(stream.Synchronize());
    return values;
  }

  // The outputs, or why they cannot be read.
  absl::StatusOr<std::vector<Values>> ReadAll(const Lease& lease) const {
    COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, lease.Read(device_.stream()));
    std::vector<Values> values;
    for (int i = 0; i < lease.output_count(); ++i) {
      const Tensor y = scope.output(i);
      values.push_back(device_.Download<float>(y.data, y.element_count()));
    }
    return values;
  }

  void ExpectFresh(const Made& made) const {
    const absl::StatusOr<std::vector<Values>> read = ReadAll(made.lease);
    ASSERT_OK(read);
    EXPECT_EQ(*read, made.values) << "call " << made.lease.call_number() << " of '"
                                  << made.sketched->sketch.name << "'";
  }

  static constexpr int64_t kFloat = sizeof(float);

  int defined_ = 0;
};

}  // namespace coppice
