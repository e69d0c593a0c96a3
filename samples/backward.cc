// backward: a forward that saves what its backward needs. Its lease is split, so that the result is
// kept while what was saved is given to the backward, which frees each tensor after its last read:
// gradients go where saved tensors were. Prints how high the backward's plan is with and without.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "open_driver.h"
#include "scale.h"

namespace samples {
namespace {

using coppice::Dim;
using coppice::Lease;
using coppice::Tensor;

constexpr int64_t kLength = 256;  // Of every tensor: 1 KiB.
constexpr int kLayers = 8;        // Each doubles what the one before made.
constexpr int kSaved = kLayers - 1;
constexpr int kCalls = 3;  // A warm-up, a recording, a replay.

coppice::ProgramSpec SpecOf(const char* name, int inputs, int outputs) {
  coppice::ProgramSpec spec{.name = name};
  for (int i = 0; i < inputs; ++i)
    spec.inputs.push_back({.name = fmt::format("x{}", i), .dims = {Dim::Fixed(kLength)}});
  for (int i = 0; i < outputs; ++i)
    spec.outputs.push_back({.name = fmt::format("y{}", i), .dims = {Dim::Fixed(kLength)}});
  return spec;
}

absl::Status Scale(coppice::CallContext& call,
                   const coppice::Kernel& scale,
                   const Tensor& x,
                   const Tensor& y,
                   float factor) {
  const ScaleParams params{.x = reinterpret_cast<const float*>(x.data),
                           .y = reinterpret_cast<float*>(y.data),
                           .count = kLength,
                           .factor = factor};
  return coppice::Launch(call.driver(), scale, call.stream(), params, 1U);
}

// Puts out what each layer made. The last is the result, the others are saved for the backward.
absl::Status RunForward(coppice::CallContext& call, const coppice::Kernel& scale) {
  Tensor x = call.input(0);
  for (int layer = 0; layer < kLayers; ++layer) {
    COPPICE_ASSIGN_OR_RETURN(const Tensor y, call.AllocateOutput(layer));
    COPPICE_RETURN_IF_ERROR(Scale(call, scale, x, y, 2));
    x = y;
  }
  return absl::OkStatus();
}

// The gradient by the factor of each layer but the first: what went into that layer, times the
// factors of all behind it.
absl::Status RunBackward(coppice::CallContext& call, const coppice::Kernel& scale) {
  float factors = 1;
  for (int layer = kSaved - 1; layer >= 0; --layer) {
    const Tensor& saved = call.input(layer);
    COPPICE_ASSIGN_OR_RETURN(const Tensor gradient, call.AllocateOutput(layer));
    COPPICE_RETURN_IF_ERROR(Scale(call, scale, saved, gradient, factors));
    COPPICE_RETURN_IF_ERROR(call.Free(saved.data));  // Read for the last time.
    factors *= 2;
  }
  return absl::OkStatus();
}

// The tensors that parts of a split lease show.
absl::StatusOr<std::vector<Tensor>> OutputsOf(std::span<const Lease> parts,
                                              const coppice::Stream& stream) {
  std::vector<Tensor> outputs;
  for (const Lease& part : parts) {
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope scope, part.Read(stream.handle()));
    outputs.push_back(scope.output(part.part()));
  }
  return outputs;
}

// Whether what they show is `value` in every element.
absl::Status Expect(const coppice::Driver& driver,
                    const coppice::Stream& stream,
                    std::span<const Lease> parts,
                    float value) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, OutputsOf(parts, stream));
  for (const Tensor& output : outputs) {
    COPPICE_ASSIGN_OR_RETURN(const std::vector<float> values, Download(driver, stream, output));
    if (values != std::vector<float>(kLength, value))
      return absl::InternalError("an output is wrong");
  }
  return absl::OkStatus();
}

// Runs both in a session of their own and checks the gradients. Prints the backward's plan.
absl::Status RunPasses(const coppice::Context& context,
                       const coppice::Stream& stream,
                       const coppice::Kernel& scale,
                       bool donate) {
  const coppice::Driver& driver = context.driver();
  COPPICE_ASSIGN_OR_RETURN(const auto memory,
                           Upload(driver, stream, std::vector<float>(kLength, 1.0F)));
  const auto x = Tensor::Dense(memory.address(), coppice::DType::kFloat32, {&kLength, 1});
  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, {}));
  const auto run_forward = [&](coppice::CallContext& call) { return RunForward(call, scale); };
  const auto run_backward = [&](coppice::CallContext& call) { return RunBackward(call, scale); };
  COPPICE_ASSIGN_OR_RETURN(const auto* forward,
                           session->Register(SpecOf("forward", 1, kLayers), run_forward));
  COPPICE_ASSIGN_OR_RETURN(const auto* backward,
                           session->Register(SpecOf("backward", kSaved, kSaved), run_backward));

  for (int i = 0; i < kCalls; ++i) {
    COPPICE_ASSIGN_OR_RETURN(
        Lease made,
        session->Run({.program = forward, .inputs = {&x, 1}, .stream = stream.handle()}));
    COPPICE_ASSIGN_OR_RETURN(std::vector<Lease> parts, made.Split());  // One per output.
    const auto saved = std::span(parts).first(kSaved);
    const auto result = std::span(parts).last(1);
    COPPICE_ASSIGN_OR_RETURN(const std::vector<Tensor> inputs, OutputsOf(saved, stream));
    coppice::Call call{.program = backward, .inputs = inputs, .stream = stream.handle()};
    if (donate) call.donated = saved;  // Empty once the backward has run.
    COPPICE_ASSIGN_OR_RETURN(Lease lease, session->Run(call));

    COPPICE_ASSIGN_OR_RETURN(const std::vector<Lease> gradients, lease.Split());
    COPPICE_RETURN_IF_ERROR(Expect(driver, stream, gradients, 128));
    COPPICE_RETURN_IF_ERROR(Expect(driver, stream, result, 256));
  }
  const coppice::NodeInfo node = session->nodes().back();
  fmt::print("{:7}  the backward's plan is {:2} KiB high, {} KiB of its inputs were given away\n",
             donate ? "donated" : "kept", node.plan_height / 1024, node.donated_bytes / 1024);
  return absl::OkStatus();
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, scale_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel scale, library.Get("Scale"));
  COPPICE_RETURN_IF_ERROR(RunPasses(context, stream, scale, /*donate=*/false));
  return RunPasses(context, stream, scale, /*donate=*/true);
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::scale_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("backward", status, emulator);
}
