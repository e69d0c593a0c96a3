// give_memory_back: a session within a budget that lends its idle pool, erases what a tenant left
// there, and gives all its memory back for a while, as a server does whose device somebody else
// needs at night. Weights go with it, and come back with the graphs.

#include <algorithm>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "copies.h"
#include "open_driver.h"
#include "scale.h"

namespace samples {
namespace {

constexpr int64_t kLength = 8;

void PrintMemory(const char* when, const coppice::Session& session) {
  const coppice::MemoryUsage usage = session.memory().usage();
  fmt::print("{:10}", when);
  for (int i = 0; i < coppice::kMemoryKindCount; ++i) {
    const auto kind = static_cast<coppice::MemoryKind>(i);
    if (usage.peak_of(kind) > 0) fmt::print("  {} {} KiB", NameOf(kind), usage.of(kind) / 1024);
  }
  fmt::print("\n");
}

absl::Status RunSample(const coppice::Driver& driver) {
  COPPICE_ASSIGN_OR_RETURN(const auto context, coppice::Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto stream, coppice::Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const auto library, coppice::KernelLibrary::Load(driver, scale_image));
  COPPICE_ASSIGN_OR_RETURN(const coppice::Kernel scale, library.Get("Scale"));

  coppice::SessionOptions options;
  options.memory.budget_bytes = 16 * coppice::kMiB;
  COPPICE_ASSIGN_OR_RETURN(const auto session, coppice::Session::Create(context, options));

  // The weights: a constant of the session, filled again whenever that is asked for.
  COPPICE_ASSIGN_OR_RETURN(
      const coppice::Tensor weights,
      session->memory().AddConstant(coppice::DType::kFloat32, {&kLength, 1},
                                    [](std::span<std::byte> bytes) {
                                      auto* const values = reinterpret_cast<float*>(bytes.data());
                                      std::fill_n(values, bytes.size() / sizeof(float), 3.0F);
                                      return absl::OkStatus();
                                    }));

  coppice::ProgramSpec spec{.name = "model"};
  spec.inputs = {{.name = "weights",
                  .dims = {coppice::Dim::Fixed(kLength)},
                  .role = coppice::InputRole::kStatic}};
  spec.outputs = {{.name = "y", .dims = {coppice::Dim::Fixed(kLength)}}};
  const auto launch = [&](coppice::CallContext& call) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const coppice::Tensor y, call.AllocateOutput(0));
    const ScaleParams params{.x = reinterpret_cast<const float*>(call.input(0).data),
                             .y = reinterpret_cast<float*>(y.data),
                             .count = kLength,
                             .factor = 2};
    return coppice::Launch(driver, scale, call.stream(), params, 1U);
  };
  COPPICE_ASSIGN_OR_RETURN(const auto* program, session->Register(std::move(spec), launch));
  COPPICE_ASSIGN_OR_RETURN(const auto* binding, session->Bind(*program, {&weights, 1}));

  const auto run = [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(
        const coppice::Lease lease,
        session->Run({.program = program, .binding = binding, .stream = stream.handle()}));
    COPPICE_ASSIGN_OR_RETURN(const coppice::ReadScope scope, lease.Read(stream.handle()));
    COPPICE_ASSIGN_OR_RETURN(const float value, Download(driver, stream, scope.output(0).data));
    fmt::print("{:10}  y = {}\n", NameOf(lease.kind()), value);
    return absl::OkStatus();
  };
  for (int call = 0; call < 3; ++call)
    COPPICE_RETURN_IF_ERROR(run());
  PrintMemory("running", *session);

  // Between two calls the pool is idle: somebody else may use it, who leaves nothing behind.
  COPPICE_ASSIGN_OR_RETURN(coppice::Loan loan, session->memory().Lend());
  fmt::print("{:10}  {} KiB\n", "lent", loan.bytes() / 1024);
  COPPICE_RETURN_IF_ERROR(loan.Return(stream.handle()));
  COPPICE_RETURN_IF_ERROR(session->memory().Scrub(stream.handle()));

  COPPICE_RETURN_IF_ERROR(
      session->memory().Suspend({.constants = coppice::SuspendedConstants::kReload}));
  PrintMemory("suspended", *session);
  COPPICE_RETURN_IF_ERROR(session->memory().Resume());
  PrintMemory("resumed", *session);
  COPPICE_RETURN_IF_ERROR(run());

  // Other weights would get a binding of their own; the graphs of these go.
  COPPICE_RETURN_IF_ERROR(session->Unbind(*binding));
  const std::vector<coppice::NodeInfo> nodes = session->nodes();  // Warm buckets among them.
  fmt::print("{:10}  {} graphs\n", "unbound",
             std::count_if(nodes.begin(), nodes.end(),
                           [](const coppice::NodeInfo& node) { return node.recorded; }));
  return absl::OkStatus();
}

}  // namespace
}  // namespace samples

int main() {
  std::unique_ptr<coppice::Emulator> emulator;
  const auto driver = samples::OpenDriver(samples::scale_image, emulator);
  const absl::Status status = driver.ok() ? samples::RunSample(*driver) : driver.status();
  return samples::Finish("give_memory_back", status, emulator);
}
