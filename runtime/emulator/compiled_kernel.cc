// Hands a launch to the executor of PTX, and what it found to the emulator.

#include "runtime/emulator/compiled_kernel.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <string_view>
#include <utility>

#include "runtime/emulator/fault.h"
#include "runtime/emulator/ptx/executor.h"
#include "runtime/emulator/ptx/taint.h"

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

KernelFinding::Kind KindOf(ptx::Finding::Kind kind) {
  switch (kind) {
    case ptx::Finding::Kind::kIllegalAddress:
      return KernelFinding::Kind::kOutOfBounds;
    case ptx::Finding::Kind::kMisaligned:
      return KernelFinding::Kind::kMisaligned;
    case ptx::Finding::Kind::kAssert:
      return KernelFinding::Kind::kAssert;
    case ptx::Finding::Kind::kIllegalInstruction:
      return KernelFinding::Kind::kIllegalInstruction;
    case ptx::Finding::Kind::kDeadlock:
      return KernelFinding::Kind::kDeadlock;
    case ptx::Finding::Kind::kRace:
      return KernelFinding::Kind::kRace;
    case ptx::Finding::Kind::kReplicas:
      return KernelFinding::Kind::kReplicas;
    case ptx::Finding::Kind::kUninitialized:
      return KernelFinding::Kind::kUninitialized;
    case ptx::Finding::Kind::kTrap:
      return KernelFinding::Kind::kTrap;
  }
  return KernelFinding::Kind::kTrap;
}

// Says in which argument of the launch the address of the finding lies, or which one is nearest.
void NameBuffer(const KernelWork& work, KernelFinding& finding) {
  if (finding.address == 0 || work.bounds.empty()) return;
  const auto distance = [&](const ptx::ArgumentRange& argument) -> uint64_t {
    if (finding.address < argument.range.begin) return argument.range.begin - finding.address;
    return finding.address < argument.range.end ? 0 : finding.address - argument.range.end + 1;
  };
  const ptx::ArgumentRange& nearest = *std::ranges::min_element(work.bounds, {}, distance);
  finding.argument = nearest.argument;
  finding.buffer = nearest.name;
  finding.offset = static_cast<int64_t>(finding.address - nearest.range.begin);
  finding.buffer_bytes = static_cast<int64_t>(nearest.range.end - nearest.range.begin);
}

KernelFinding FindingOf(const KernelWork& work, const ptx::Finding& found) {
  KernelFinding finding{.kind = KindOf(found.kind),
                        .kernel = found.kernel,
                        .block = found.block,
                        .thread = found.thread,
                        .line = found.line,
                        .source = found.source,
                        .message = found.message,
                        .address = found.address,
                        .program = work.program,
                        .step = work.step,
                        .text = coppice_ptx_executor.describe(found)};
  NameBuffer(work, finding);
  return finding;
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
  const size_t meetings = surroundings.taint == nullptr ? 0 : surroundings.taint->meetings.size();
  const Execution execution{
      .launch = {.kernel = work.kernel.ptx,
                 .grid = work.grid,
                 .block = work.block,
                 .cluster = work.attributes.cluster,
                 .dynamic_shared_bytes = work.shared_bytes,
                 .parameters = work.parameters,
                 .cooperative = work.attributes.cooperative},
      .environment = {.memory = surroundings.memory,
                      .arguments = work.bounds,
                      .whole_words = true,  // A word lies in one page.
                      .seed = surroundings.draw,
                      .checks = surroundings.checks,
                      .clock_ns = static_cast<uint64_t>(surroundings.now_us) * 1000,
                      .print = Print,
                      .taint = surroundings.taint,
                      .written = surroundings.written},
      .outcome = &executed};
  // Accesses are checked, but another thread may unmap meanwhile what the kernel uses.
  const std::optional<uint64_t> faulted = RunGuarded(
      [](const void* argument) {
        const auto& [launch, environment, outcome] = *static_cast<const Execution*>(argument);
        *outcome = coppice_ptx_executor.run(launch, environment);
      },
      &execution);
  if (surroundings.taint != nullptr) {
    for (ptx::TaintMeeting& met : std::span(surroundings.taint->meetings).subspan(meetings)) {
      met.program = work.program;
      met.step = work.step;
    }
  }
  if (faulted.has_value()) return {.fault = DescribeFault(work.kernel.name, *faulted)};
  Outcome outcome;
  if (executed.fault.has_value()) {
    KernelFinding fault = FindingOf(work, *executed.fault);
    std::string text = fault.text;
    outcome.fault = {ResultOf(executed.fault->kind), std::move(text), std::move(fault)};
  }
  for (const ptx::Finding& finding : executed.findings)
    outcome.findings.push_back(FindingOf(work, finding));
  for (const ptx::TouchedRange& range : executed.touched)
    outcome.touched.push_back({{range.begin, range.end}, work.kernel.name, range.writes, false});
  return outcome;
}

}  // namespace coppice::emulator
