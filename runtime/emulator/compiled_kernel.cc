// Hands a launch to the executor of PTX, and what it found to the emulator.

#include "runtime/emulator/compiled_kernel.h"

#include <cstdio>
#include <string_view>

#include "runtime/emulator/fault.h"
#include "runtime/emulator/ptx/executor.h"

namespace coppice::emulator {
namespace {

CuResult ResultOf(ptx::Finding::Kind kind) {
  switch (kind) {
    case ptx::Finding::Kind::kIllegalAddress:
      return CuResult::kIllegalAddress;
    case ptx::Finding::Kind::kMisaligned:
      return CuResult::kMisalignedAddress;
    case ptx::Finding::Kind::kAssert:
      return CuResult::kAssert;
    case ptx::Finding::Kind::kIllegalInstruction:
      return CuResult::kIllegalInstruction;
    case ptx::Finding::Kind::kDeadlock:
      return CuResult::kLaunchTimeout;
    case ptx::Finding::Kind::kTrap:
    case ptx::Finding::Kind::kRace:
    case ptx::Finding::Kind::kReplicas:
    case ptx::Finding::Kind::kUninitialized:
      return CuResult::kLaunchFailed;
  }
  return CuResult::kLaunchFailed;
}

void Print(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

struct Execution {
  ptx::Launch launch;
  ptx::Environment environment;
  ptx::Outcome* outcome = nullptr;
};

}  // namespace

Outcome RunCompiled(const KernelWork& work, const Surroundings& surroundings) {
  ptx::Outcome executed;
  const Execution execution{
      .launch = {.kernel = work.kernel.ptx,
                 .grid = work.grid,
                 .block = work.block,
                 .dynamic_shared_bytes = work.shared_bytes,
                 .parameters = work.parameters,
                 .cooperative = work.attributes.cooperative},
      .environment = {.memory = surroundings.memory,
                      .arguments = work.bounds,
                      .seed = surroundings.draw,
                      .checks = surroundings.checks,
                      .clock_ns = static_cast<uint64_t>(surroundings.now_us) * 1000,
                      .print = Print,
                      .written = surroundings.written},
      .outcome = &executed};
  // Accesses are checked, but another thread may unmap meanwhile what the kernel uses.
  const std::optional<uint64_t> faulted = RunGuarded(
      [](const void* argument) {
        const auto& [launch, environment, outcome] = *static_cast<const Execution*>(argument);
        *outcome = coppice_ptx_executor.run(launch, environment);
      },
      &execution);
  if (faulted.has_value()) return {.fault = DescribeFault(work.kernel.name, *faulted)};
  Outcome outcome;
  if (executed.fault.has_value())
    outcome.fault = {ResultOf(executed.fault->kind),
                     coppice_ptx_executor.describe(*executed.fault)};
  for (const ptx::Finding& finding : executed.findings)
    outcome.findings.push_back(coppice_ptx_executor.describe(finding));
  for (const ptx::TouchedRange& range : executed.touched)
    outcome.touched.push_back({{range.begin, range.end}, work.kernel.name, range.writes, false});
  return outcome;
}

}  // namespace coppice::emulator
