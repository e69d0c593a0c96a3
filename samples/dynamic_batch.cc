// dynamic_batch: a two-layer network under traffic whose batch size changes with every call. Prints
// what each batch bucket cost, what padding wasted, and what the shared pool saved.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "layer.h"
#include "open_driver.h"

namespace samples {
namespace {

using coppice::Dim;
using coppice::Tensor;

constexpr int64_t kFeatures = 64;
constexpr int64_t kHidden = 256;
constexpr int64_t kBatchMax = 64;
constexpr int kCalls = 500;

// y = relu(relu(x W1) W2) for a batch of rows; the weights are static inputs.
coppice::ProgramSpec NetworkSpec() {
  coppice::ProgramSpec spec{.name = "network", .claim = coppice::PaddingContents::kRowIndependent};
  const int batch = spec.AddSymbol("batch", *coppice::PaddingPolicy::Ramp(4, 16, kBatchMax));
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(batch), Dim::Fixed(kFeatures)}},
                 {.name = "w1",
                  .dims = {Dim::Fixed(kFeatures), Dim::Fixed(kHidden)},
                  .role = coppice::InputRole::kStatic},
                 {.name = "w2",
                  .dims = {Dim::Fixed(kHidden), Dim::Fixed(kFeatures)},
                  .role = coppice::InputRole::kStatic}};
  spec.outputs = {{.name = "y", .dims = {Dim::Symbol(batch), Dim::Fixed(kFeatures)}}};
  return spec;
}

LayerParams Layer(coppice::DeviceAddress x, const Tensor& weights, coppice::DeviceAddress y) {
  return {.x = reinterpret_cast<const float*>(x),
          .weights = reinterpret_cast<const float*>(weights.data),
          .y = reinterpret_cast<float*>(y),
          .in = weights.sizes[0],
          .out = weights.sizes[1]};
}

// Host code of the program: two launches with a temporary between them.
absl::Status RunNetwork(coppice::CallContext& call, const coppice::Kernel& layer) {
  const auto rows = static_cast<unsigned>(call.extent(0));
  COPPICE_ASSIGN_OR_RETURN(const auto hidden, call.Allocate(rows * kHidden * sizeof(float)));
  COPPICE_RETURN_IF_ERROR(coppice::Launch(call.driver(), layer, call.stream(),
                                          Layer(call.input(0).data, call.input(1), hidden), rows));
  COPPICE_ASSIGN_OR_RETURN(const Tensor y, call.AllocateOutput(0));
  COPPICE_RETURN_IF_ERROR(coppice::Launch(call.driver(), layer, call.stream(),
                                          Layer(hidden, call.input(2), y.data), rows));
  return call.Free(hidden);
}

Tensor Matrix(const coppice::DeviceMemory& memory, int64_t rows, int64_t columns) {
  const int64_t dims[] = {rows, columns};
  return Tensor::Dense(memory.address(), coppice::DType::kFloat32, dims);
}

void Print(const coppice::Session& session) {
  int64_t sum = 0;
  fmt::print("bucket  replays  plan height\n");
  for (const coppice::NodeInfo& node : session.nodes()) {
    fmt::print("{:6}  {:7}  {:11}\n", node.bucket[0], node.replays, node.plan_height);
    sum += node.plan_height;
  }
  const coppice::SessionStats stats = session.stats();
  const auto replays = stats.runs[static_cast<size_t>(coppice::RunKind::kReplay)];
  const auto padding = static_cast<double>(stats.padded_elements - stats.real_elements);
  fmt::print("{} of {} calls replayed; {:.1f} % of the staged elements were padding\n", replays,
             stats.calls, 100 * padding / static_cast<double>(stats.padded_elements));
  fmt::print("pool height {} bytes; {} if every bucket had a pool of its own\n",
             session.memory().usage().height, sum);
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, layer_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel layer, library.Get("Layer"));

  const std::vector<float> ones(kFeatures * kHidden, 1.0F);
  COPPICE_ASSIGN_OR_RETURN(const auto rows, Upload(driver, stream, ones));
  COPPICE_ASSIGN_OR_RETURN(const auto w1, Upload(driver, stream, ones));
  COPPICE_ASSIGN_OR_RETURN(const auto w2, Upload(driver, stream, ones));

  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, {}));
  COPPICE_ASSIGN_OR_RETURN(const auto* program,
                           session->Register(NetworkSpec(), [&](coppice::CallContext& call) {
                             return RunNetwork(call, layer);
                           }));
  const Tensor weights[] = {Matrix(w1, kFeatures, kHidden), Matrix(w2, kHidden, kFeatures)};
  COPPICE_ASSIGN_OR_RETURN(const auto* binding, session->Bind(*program, weights));

  std::mt19937 random(1);
  std::geometric_distribution<int64_t> arrivals(0.08);
  for (int i = 0; i < kCalls; ++i) {
    const Tensor x[] = {Matrix(rows, std::min(1 + arrivals(random), kBatchMax), kFeatures)};
    const coppice::Call call{
        .program = program, .binding = binding, .inputs = x, .stream = stream.handle()};
    COPPICE_RETURN_IF_ERROR(session->Run(call).status());
  }
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  Print(*session);
  return absl::OkStatus();
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::layer_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("dynamic_batch", status, emulator);
}
