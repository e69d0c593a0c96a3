// inside_a_capture: a program as part of a graph that the caller captures himself, and host code
// inside of a program, where no capture can go.

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/graph.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "open_driver.h"
#include "scale.h"

namespace samples {
namespace {

using coppice::Tensor;

constexpr int64_t kLength = 8;

coppice::ProgramSpec Spec(const char* name) {
  coppice::ProgramSpec spec{.name = name};
  spec.inputs = {{.name = "x", .dims = {coppice::Dim::Fixed(kLength)}}};
  spec.outputs = {{.name = "y", .dims = {coppice::Dim::Fixed(kLength)}}};
  return spec;
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, scale_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel kernel, library.Get("Scale"));
  const auto scale = [&](coppice::CuStream on, coppice::DeviceAddress x, coppice::DeviceAddress y,
                         float factor) {
    const ScaleParams params{.x = reinterpret_cast<const float*>(x),
                             .y = reinterpret_cast<float*>(y),
                             .count = kLength,
                             .factor = factor};
    return coppice::Launch(driver, kernel, on, params, 1U);
  };
  const std::vector<float> ones(kLength, 1.0F);
  COPPICE_ASSIGN_OR_RETURN(const auto memory, Upload(driver, stream, ones));
  const Tensor x[] = {Tensor::Dense(memory.address(), coppice::DType::kFloat32, {&kLength, 1})};
  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, {}));

  // 1. The caller captures a graph: x = 10 x, then the program y = 2 x.
  COPPICE_ASSIGN_OR_RETURN(
      const auto* program,
      session->Register(Spec("double"), [&](coppice::CallContext& call) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, call.AllocateOutput(0));
        return scale(call.stream(), call.input(0).data, y.data, 2);
      }));
  const coppice::Call call{.program = program, .inputs = x, .stream = stream.handle()};
  COPPICE_RETURN_IF_ERROR(session->Run(call).status());  // Only a warm program can be included.

  COPPICE_ASSIGN_OR_RETURN(auto capture, coppice::Capture::Begin(driver, stream.handle()));
  COPPICE_RETURN_IF_ERROR(scale(stream.handle(), memory.address(), memory.address(), 10));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Lease included, session->Include(call));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Graph graph, capture.End());
  COPPICE_ASSIGN_OR_RETURN(const auto exec, coppice::GraphExec::Instantiate(driver, graph));
  for (int launch = 1; launch <= 3; ++launch) {
    COPPICE_RETURN_IF_ERROR(
        driver.Call<&coppice::DriverTable::GraphLaunch>(exec.handle(), stream.handle()));
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope scope, included.Read(stream.handle()));
    COPPICE_ASSIGN_OR_RETURN(const float y, Download(driver, stream, scope.output(0).data));
    fmt::print("launch {} of the caller's graph  y = {}\n", launch, y);
  }

  // 2. The program looks at y = 2 x on the host, in each call, before it goes on to z = 3 y.
  float seen = 0;
  COPPICE_ASSIGN_OR_RETURN(
      const auto* checked,
      session->Register(Spec("checked"), [&](coppice::CallContext& run) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const auto y, run.Allocate(kLength * sizeof(float)));
        COPPICE_RETURN_IF_ERROR(scale(run.stream(), run.input(0).data, y, 2));
        COPPICE_RETURN_IF_ERROR(run.Break([&, y](coppice::CuStream) -> absl::Status {
          COPPICE_ASSIGN_OR_RETURN(seen, Download(driver, stream, y));
          return absl::OkStatus();
        }));
        COPPICE_ASSIGN_OR_RETURN(const Tensor z, run.AllocateOutput(0));
        return scale(run.stream(), y, z.data, 3);
      }));
  for (int i = 0; i < 3; ++i) {
    COPPICE_ASSIGN_OR_RETURN(
        const coppice::Lease lease,
        session->Run({.program = checked, .inputs = x, .stream = stream.handle()}));
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope scope, lease.Read(stream.handle()));
    COPPICE_ASSIGN_OR_RETURN(const float z, Download(driver, stream, scope.output(0).data));
    fmt::print("{:8} the host saw y = {}, z = {}\n", NameOf(lease.kind()), seen, z);
  }
  fmt::print("{} graphs with host code between them\n", session->nodes().back().graphs);
  return absl::OkStatus();
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::scale_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("inside_a_capture", status, emulator);
}
