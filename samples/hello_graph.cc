// hello_graph: doubles vectors of any length. Lengths share buckets, and each bucket is recorded
// once as a CUDA graph.

#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "open_driver.h"
#include "scale.h"

namespace samples {
namespace {

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, scale_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel scale, library.Get("Scale"));

  std::vector<float> values(2000);
  std::iota(values.begin(), values.end(), 0.0F);
  const size_t bytes = values.size() * sizeof(float);
  COPPICE_ASSIGN_OR_RETURN(const auto memory, coppice::DeviceMemory::Create(driver, bytes));
  COPPICE_RETURN_IF_ERROR(driver.Call<&coppice::DriverTable::MemcpyHtoDAsync>(
      memory.address(), values.data(), bytes, stream.handle()));

  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, {}));

  // A program: named sizes, inputs, outputs, and host code that launches kernels.
  coppice::ProgramSpec spec{.name = "double", .claim = coppice::Claim::kRowIndependent};
  const int n = spec.AddSymbol("n", *coppice::PaddingPolicy::Pow2(1024));
  spec.inputs = {{.name = "x", .dims = {coppice::Dim::Symbol(n)}}};
  spec.outputs = {{.name = "y", .dims = {coppice::Dim::Symbol(n)}}};
  const auto launch = [&](coppice::CallContext& call) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const coppice::Tensor y, call.AllocateOutput(0));
    const ScaleParams params{.x = reinterpret_cast<const float*>(call.input(0).data),
                             .y = reinterpret_cast<float*>(y.data),
                             .count = call.extent(n),
                             .factor = 2};
    const auto blocks = static_cast<unsigned>((params.count + 255) / 256);
    return coppice::Launch(driver, scale, call.stream(), params, blocks);
  };
  COPPICE_ASSIGN_OR_RETURN(const auto* program, session->Register(std::move(spec), launch));

  // The first call of a bucket runs without a graph, the second is recorded, every later one
  // replays.
  for (const int64_t length : {5, 7, 6, 100, 8, 70, 2000, 128}) {
    const coppice::Tensor x[] = {
        coppice::Tensor::Dense(memory.address(), coppice::DType::kFloat32, {&length, 1})};
    COPPICE_ASSIGN_OR_RETURN(
        const coppice::Lease lease,
        session->Run({.program = program, .inputs = x, .stream = stream.handle()}));

    float last = 0;
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope scope, lease.Read(stream.handle()));
    const coppice::DeviceAddress address = scope.output(0).data + (length - 1) * sizeof(float);
    COPPICE_RETURN_IF_ERROR(driver.Call<&coppice::DriverTable::MemcpyDtoHAsync>(
        &last, address, sizeof(last), stream.handle()));
    COPPICE_RETURN_IF_ERROR(stream.Synchronize());
    fmt::print("length {:4}  {:8} {:20} y[{}] = {}\n", length, NameOf(lease.path()),
               NameOf(lease.reason()), length - 1, last);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::scale_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("hello_graph", status, emulator);
}
