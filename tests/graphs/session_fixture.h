// What the session's tests share: a device with a ledger, the test kernels, and a small program
// whose every execution can be counted.
//
//   affine:  y[i] = factor * x[i] + x[i],   counter += 1
//
// The program claims kRowIndependent, takes x as a copied input, `one` and `counter` as static
// ones, and asks for one temporary.
//
// An AffineDevice is all of that; a SessionFixture is one as a GoogleTest fixture.
//
// Threads: one test at a time.

#pragma once

#include "coppice/graphs/session.h"

#include "tests/support/test.h"
#include "tests/support/test_device.h"
#include "tests/support/test_kernels.h"

namespace coppice {

// The kernels that test callables launch.
struct TestKernels {
  explicit TestKernels(const Driver& driver)
      : library(*KernelLibrary::Load(driver, test_kernels_image)),
        add(*library.Get("Add")),
        compact(*library.Get("Compact")),
        fill(*library.Get("Fill")),
        masked_scale(*library.Get("MaskedScale")),
        philox(*library.Get("Philox")),
        ragged_rows(*library.Get("RaggedRows")),
        scale(*library.Get("Scale")) {}

  KernelLibrary library;
  Kernel add;
  Kernel compact;
  Kernel fill;
  Kernel masked_scale;
  Kernel philox;
  Kernel ragged_rows;
  Kernel scale;
};

class AffineDevice {
 protected:
  static constexpr int64_t kLargest = 64;  // Of affine's buckets, which are powers of two.

  explicit AffineDevice(const DriverLedger::Options& ledger = {},
                        DriverKind kind = DriverKind::kEmulator)
      : device_(kind, EmulatorOptions(), ledger),
        kernels_(device_.driver()),
        one_(*device_.Upload(std::vector<float>{1})),
        counter_(*device_.Upload(std::vector<float>{0})) {}

  // Small enough for a test to use up.
  static Emulator::Options EmulatorOptions() {
    Emulator::Options options = TestEmulatorOptions();
    options.memory_bytes = 64 * kMiB;
    options.strictness.captured_loading = true;
    return options;
  }

  static ProgramSpec AffineSpec(std::string name = "affine") {
    ProgramSpec spec{.name = std::move(name), .claim = PaddingContents::kRowIndependent};
    const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(kLargest));
    spec.inputs = {
        {.name = "x", .dtype = DType::kFloat32, .dims = {Dim::Symbol(n)}},
        {.name = "one", .dims = {Dim::Fixed(1)}, .role = InputRole::kStatic},
        {.name = "counter", .dims = {Dim::Fixed(1)}, .role = InputRole::kStatic, .mutated = true}};
    spec.outputs = {{.name = "y", .dtype = DType::kFloat32, .dims = {Dim::Symbol(n)}}};
    spec.scalars = {{.name = "factor"}};
    return spec;
  }

  // Runs affine; `hook`, if any, is called with the context between the two element kernels.
  Callable AffineCallable(std::function<absl::Status(CallContext&)> hook = nullptr) const {
    return [this, hook = std::move(hook)](CallContext& context) -> absl::Status {
      const int64_t n = context.extent(0);
      const auto x = context.input(0).data;
      const auto counter = context.input(2).data;
      COPPICE_ASSIGN_OR_RETURN(const DeviceAddress scaled,
                               context.Allocate(n * static_cast<int64_t>(sizeof(float))));
      const auto factor = std::bit_cast<double>(context.scalar(0));
      COPPICE_RETURN_IF_ERROR(LaunchScale(context, x, scaled, n, static_cast<float>(factor)));
      if (hook) COPPICE_RETURN_IF_ERROR(hook(context));
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      COPPICE_RETURN_IF_ERROR(AddOnto(context, scaled, x, y.data, n));
      COPPICE_RETURN_IF_ERROR(AddOnto(context, counter, context.input(1).data, counter, 1));
      return context.Free(scaled);
    };
  }

  // y = factor * x on the context's stream, and target = value.
  absl::Status LaunchScale(
      CallContext& context, DeviceAddress x, DeviceAddress y, int64_t count, float factor) const {
    const ScaleParams params{
        .x = PointerAt<float>(x), .y = PointerAt<float>(y), .count = count, .factor = factor};
    return Launch(context.driver(), kernels_.scale, context.stream(), params, GridFor(count));
  }
  absl::Status LaunchFill(CallContext& context,
                          DeviceAddress target,
                          int64_t count,
                          float value) const {
    const FillParams params{.target = PointerAt<float>(target), .count = count, .value = value};
    return Launch(context.driver(), kernels_.fill, context.stream(), params, GridFor(count));
  }

  // z = x + y on the context's stream.
  absl::Status AddOnto(CallContext& context,
                       DeviceAddress x,
                       DeviceAddress y,
                       DeviceAddress z,
                       int64_t count) const {
    return Launch(context.driver(), kernels_.add, context.stream(),
                  AddParams{.x = PointerAt<float>(x),
                            .y = PointerAt<float>(y),
                            .z = PointerAt<float>(z),
                            .count = count},
                  GridFor(count));
  }

  std::unique_ptr<Session> MakeSession(const SessionOptions& options = {}) const {
    absl::StatusOr<std::unique_ptr<Session>> session = Session::Create(device_.context(), options);
    EXPECT_OK(session);
    return *std::move(session);
  }

  std::vector<Tensor> AffineStatics(DeviceAddress counter) const {
    const int64_t dims[] = {1};
    return {Tensor::Dense(one_.address(), DType::kFloat32, dims),
            Tensor::Dense(counter, DType::kFloat32, dims)};
  }

  // A session with affine, be it as another spec has it, registered and bound.
  struct Affine {
    std::unique_ptr<Session> session;
    const Program* program = nullptr;
    const Binding* binding = nullptr;
  };
  Affine MakeAffine(const SessionOptions& options = {},
                    Callable callable = nullptr,
                    ProgramSpec spec = AffineSpec()) const {
    Affine affine{.session = MakeSession(options)};
    affine.program = *affine.session->Register(std::move(spec),
                                               callable ? std::move(callable) : AffineCallable());
    affine.binding = *affine.session->Bind(*affine.program, AffineStatics(counter_.address()));
    return affine;
  }

  // The values 1, 2, ... n.
  static std::vector<float> Ramp(int64_t n) {
    std::vector<float> values;
    for (int64_t i = 1; i <= n; ++i)
      values.push_back(static_cast<float>(i));
    return values;
  }

  // Runs affine on 1, 2, ... n and keeps the lease. `adjust` may change the call before it runs.
  absl::StatusOr<Lease> Call(const Affine& affine,
                             int64_t n,
                             double factor = 2,
                             const std::function<void(coppice::Call&)>& adjust = nullptr) {
    uploads_.push_back(*device_.Upload(Ramp(n)));
    const Tensor x = FloatsAt(uploads_.back().address(), n);
    const int64_t scalar = std::bit_cast<int64_t>(factor);
    coppice::Call call{.program = affine.program,
                       .binding = affine.binding,
                       .inputs = {&x, 1},
                       .scalars = {&scalar, 1},
                       .stream = device_.stream()};
    if (adjust) adjust(call);
    return affine.session->Run(call);
  }

  // Does it so many times, and drops the leases.
  void CallTimes(int times, const Affine& affine, int64_t n) {
    for (int i = 0; i < times; ++i)
      ASSERT_OK(Call(affine, n));
  }

  // The first output of `lease`, read on the device's stream.
  std::vector<float> Read(const Lease& lease) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    if (!scope.ok()) return {};
    const Tensor y = scope->output(0);
    return device_.Download<float>(y.data, y.element_count());
  }

  static std::vector<float> Expected(int64_t n, double factor = 2) {
    std::vector<float> values = Ramp(n);
    for (float& value : values)
      value = static_cast<float>(factor) * value + value;
    return values;
  }

  // Runs affine and expects its values and its path.
  void ExpectRun(const Affine& affine, int64_t n, RunKind path, double factor = 2) {
    absl::StatusOr<Lease> lease = Call(affine, n, factor);
    ASSERT_OK(lease);
    EXPECT_EQ(lease->kind(), path) << NameOf(lease->kind()) << " for n = " << n;
    EXPECT_EQ(Read(*lease), Expected(n, factor));
  }

  // How often affine has executed.
  int Executions() { return static_cast<int>(device_.Download<float>(counter_.address(), 1)[0]); }

  TestDevice device_;
  TestKernels kernels_;
  DeviceMemory one_;
  DeviceMemory counter_;
  std::vector<DeviceMemory> uploads_;  // Inputs of calls, kept until the test ends.
};

class SessionFixture : public testing::Test, protected AffineDevice {
 protected:
  explicit SessionFixture(const DriverLedger::Options& ledger = {}) : AffineDevice(ledger) {}
};

}  // namespace coppice
