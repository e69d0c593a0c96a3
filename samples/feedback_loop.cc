// feedback_loop: a value that is fed back, x = f(x), as a decoder's state is. Every step reads the
// output of the last one where it lies, and the loop settles on a few graphs; a second session has
// them before its first step.

#include <memory>
#include <vector>

#include "absl/status/status.h"
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

constexpr int64_t kLength = 8;
constexpr int kSteps = 8;

// Runs x = f(x), and says how each step ran.
absl::Status RunLoop(const coppice::Driver& driver,
                     const coppice::Stream& stream,
                     coppice::Session& session,
                     const coppice::Program* program,
                     coppice::Tensor x) {
  // The lease of the last step keeps its output while the next one reads it. Assigning the next
  // lease drops it.
  coppice::Lease lease;
  for (int step = 1; step <= kSteps; ++step) {
    COPPICE_ASSIGN_OR_RETURN(
        lease, session.Run({.program = program, .inputs = {&x, 1}, .stream = stream.handle()}));
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope scope, lease.Read(stream.handle()));
    x = scope.output(0);
    COPPICE_ASSIGN_OR_RETURN(const float value, Download(driver, stream, x.data));
    fmt::print("step {}  {:8} {:20} x = {}\n", step, NameOf(lease.kind()), NameOf(lease.reason()),
               value);
  }
  const coppice::SessionStats stats = session.stats();
  fmt::print("{} graphs, {} of {} inputs read in place, pool height {} bytes\n",
             session.nodes().size(), stats.inputs_in_place, stats.calls,
             session.memory().usage().height);
  return absl::OkStatus();
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, scale_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel scale, library.Get("Scale"));

  COPPICE_ASSIGN_OR_RETURN(const auto memory,
                           Upload(driver, stream, std::vector<float>(kLength, 1.0F)));

  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, {}));
  coppice::ProgramSpec spec{.name = "step"};
  spec.inputs = {{.name = "x", .dims = {coppice::Dim::Fixed(kLength)}}};
  spec.outputs = {{.name = "y", .dims = {coppice::Dim::Fixed(kLength)}}};
  const auto launch = [&](coppice::CallContext& call) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const coppice::Tensor y, call.AllocateOutput(0));
    const ScaleParams params{.x = reinterpret_cast<const float*>(call.input(0).data),
                             .y = reinterpret_cast<float*>(y.data),
                             .count = kLength,
                             .factor = 2};
    return coppice::Launch(driver, scale, call.stream(), params, 1U);
  };
  COPPICE_ASSIGN_OR_RETURN(const auto* program, session->Register(spec, launch));
  const auto x = coppice::Tensor::Dense(memory.address(), coppice::DType::kFloat32, {&kLength, 1});
  COPPICE_RETURN_IF_ERROR(RunLoop(driver, stream, *session, program, x));

  COPPICE_ASSIGN_OR_RETURN(const auto warmed, coppice::Session::Create(context, {}));
  COPPICE_ASSIGN_OR_RETURN(const auto* step, warmed->Register(spec, launch));
  const coppice::WarmStep loop[] = {
      {.program = step},  // On memory of the caller's, then on its own output.
      {.program = step, .feeds = {{.input = 0, .step = 1, .output = 0}}}};
  COPPICE_RETURN_IF_ERROR(warmed->warming().Warm(loop, {}));
  warmed->SetStance(coppice::Stance::kStrict);  // From here on nothing but replays.
  return RunLoop(driver, stream, *warmed, step, x);
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::scale_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("feedback_loop", status, emulator);
}
