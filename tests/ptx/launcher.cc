// Allocations with room around them, so that no access beyond one meets another.

#include "tests/ptx/launcher.h"

#include <algorithm>
#include <cstdio>

#include "coppice/base/check.h"

namespace coppice::ptx {
namespace {

constexpr size_t kMemoryRoom = 4096;
constexpr size_t kMemoryAlignment = 256;

}  // namespace

Launcher::Launcher(std::string text) {
  auto program = Program::Build(std::move(text));
  if (!program.ok()) std::fprintf(stderr, "%s\n", program.status().ToString().c_str());
  COPPICE_CHECK(program.ok(), "the text is no program");
  program_ = *std::move(program);
  const size_t bytes = static_cast<size_t>(program_->global_bytes());
  const uint64_t address = AllocateBytes(std::max<size_t>(bytes, 1));
  program_->Link(address, reinterpret_cast<std::byte*>(address));
}

uint64_t Launcher::AllocateBytes(size_t bytes) {
  std::vector<std::byte>& memory =
      allocations_.emplace_back(bytes + 2 * kMemoryRoom + kMemoryAlignment);
  const uint64_t begin = reinterpret_cast<uint64_t>(memory.data()) + kMemoryRoom;
  const uint64_t address = (begin + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  ranges_.push_back({address, address + bytes});
  std::sort(ranges_.begin(), ranges_.end(),
            [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
  return address;
}

Outcome Launcher::RunWith(std::string_view name,
                          const Shape& shape,
                          const std::vector<std::byte>& bank) {
  const Kernel* const kernel = program_->FindKernel(name);
  COPPICE_CHECK(kernel != nullptr, "no kernel has that name");
  const Launch launch = {.kernel = kernel,
                         .grid = shape.grid,
                         .block = shape.block,
                         .cluster = shape.cluster,
                         .dynamic_shared_bytes = shape.shared,
                         .parameters = bank,
                         .cooperative = shape.cooperative};
  const Environment environment = {.memory = ranges_,
                                   .seed = seed,
                                   .checks = checks,
                                   .clock_ns = 1'000'000,
                                   .print = [this](std::string_view text) { printed_ += text; },
                                   .taint = taint};
  return ptx::Run(launch, environment);
}

void ExpectClean(const Outcome& outcome) {
  EXPECT_FALSE(outcome.fault.has_value()) << outcome.fault->Describe();
  for (const Finding& finding : outcome.findings)
    ADD_FAILURE() << finding.Describe();
}

}  // namespace coppice::ptx
