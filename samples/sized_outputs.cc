// sized_outputs: a filter whose result is as long as the device finds, and a program that goes on
// with what is left. The host passes the size on without knowing it and reads it at the end, and
// one graph of each program serves every size.

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "filter.h"
#include "open_driver.h"

namespace samples {
namespace {

using coppice::CallContext;
using coppice::Dim;
using coppice::Tensor;

// y [n] of x [n], by kernels that read n from the parameter block.
coppice::ProgramSpec Spec(const char* name) {
  coppice::ProgramSpec spec{.name = name, .claim = coppice::PaddingContents::kAny};
  const Dim n = Dim::Symbol(spec.AddSymbol("n", *coppice::PaddingPolicy::Pow2(1024)));
  spec.inputs = {{.name = "x", .dims = {n}}};
  spec.outputs = {{.name = "y", .dims = {n}}};
  return spec;
}

// `n` values, of which every `step`th is positive: 1, 2, 3 and so on.
std::vector<float> Values(int64_t n, int64_t step) {
  std::vector<float> values;
  for (int64_t i = 0; i < n; ++i)
    values.push_back(i % step == 0 ? static_cast<float>(i / step + 1) : -1.0F);
  return values;
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, filter_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel filter, library.Get("Filter"));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel square, library.Get("Square"));
  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, {}));

  // There is room for n elements of y; `kept`, the other output, says how many there are.
  coppice::ProgramSpec filtering = Spec("filter");
  filtering.outputs[0].count = {.output = 1, .axis = 0};
  filtering.outputs.push_back({.name = "kept", .dtype = coppice::DType::kInt64});
  COPPICE_ASSIGN_OR_RETURN(
      const auto* first,
      session->Register(std::move(filtering), [&](CallContext& call) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, call.AllocateOutput(0));
        COPPICE_ASSIGN_OR_RETURN(const Tensor kept, call.AllocateOutput(1));
        const FilterParams params{.words = reinterpret_cast<const int64_t*>(call.parameters()),
                                  .x = reinterpret_cast<const float*>(call.input(0).data),
                                  .y = reinterpret_cast<float*>(y.data),
                                  .kept = reinterpret_cast<int64_t*>(kept.data),
                                  .capacity = call.extent(0)};
        return coppice::Launch(driver, filter, call.stream(), params, 1U);
      }));

  // Its n may be for the device to say.
  coppice::ProgramSpec squaring = Spec("square");
  squaring.symbols[0].counted = true;
  COPPICE_ASSIGN_OR_RETURN(
      const auto* second,
      session->Register(std::move(squaring), [&](CallContext& call) -> absl::Status {
        COPPICE_ASSIGN_OR_RETURN(const Tensor y, call.AllocateOutput(0));
        const SquareParams params{.words = reinterpret_cast<const int64_t*>(call.parameters()),
                                  .x = reinterpret_cast<const float*>(call.input(0).data),
                                  .y = reinterpret_cast<float*>(y.data),
                                  .capacity = call.extent(0)};
        const auto blocks = static_cast<unsigned>((call.extent(0) + 255) / 256);
        return coppice::Launch(driver, square, call.stream(), params, blocks);
      }));

  for (const auto& [n, step] :
       {std::pair<int64_t, int64_t>{600, 2}, {700, 3}, {1000, 1}, {800, 999}, {513, 4}}) {
    COPPICE_ASSIGN_OR_RETURN(const auto memory, Upload(driver, stream, Values(n, step)));
    const Tensor x = Tensor::Dense(memory.address(), coppice::DType::kFloat32, {&n, 1});
    COPPICE_ASSIGN_OR_RETURN(
        const coppice::Lease filtered,
        session->Run({.program = first, .inputs = {&x, 1}, .stream = stream.handle()}));
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope positive, filtered.Read(stream.handle()));
    const Tensor y = positive.output(0);    // As long as x.
    const Tensor kept = positive.count(0);  // Where the device writes how much of y there is.
    COPPICE_ASSIGN_OR_RETURN(const coppice::Lease squared,
                             session->Run({.program = second,
                                           .inputs = {&y, 1},
                                           .counts = {&kept, 1},
                                           .stream = stream.handle()}));
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope squares, squared.Read(stream.handle()));

    // Here the host waits, and finds out.
    COPPICE_ASSIGN_OR_RETURN(const Tensor found, positive.ReadSized(0));
    const int64_t size = found.sizes[0];
    const coppice::DeviceAddress last = squares.output(0).data + (size - 1) * sizeof(float);
    COPPICE_ASSIGN_OR_RETURN(const float value, Download(driver, stream, last));
    fmt::print("{:4} values  {:7} {:4} are positive, the last one squared is {}\n", n,
               NameOf(squared.kind()), size, value);
    const int64_t expected = (n + step - 1) / step;
    if (size != expected || value != static_cast<float>(expected * expected))
      return absl::InternalError(fmt::format("not {} and its square", expected));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::filter_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("sized_outputs", status, emulator);
}
