// Kernels as host code, copies, fills and host functions.

#include "runtime/emulator/execution.h"

#include <cstring>
#include <numeric>
#include <optional>
#include <vector>

#include "runtime/emulator/compiled_kernel.h"
#include "runtime/emulator/fault.h"
#include "runtime/emulator/thread.h"

namespace coppice::emulator {
namespace {

constexpr int kFresh = 0xCB;  // What shared memory holds before a block writes it.

struct Launch {
  const KernelWork* work;
  uint64_t draw;
  std::byte* shared;  // The dynamic shared memory of whichever block runs.
};

// Blocks run one after another in a drawn order, since no kernel may rely on one: from a drawn
// first block in steps of a drawn stride that meets every block. A draw of 0 is the natural order.
void RunKernel(const void* argument) {
  const auto& launch = *static_cast<const Launch*>(argument);
  const KernelWork* const work = launch.work;
  const uint64_t draw = launch.draw;
  const auto& grid = work->grid;
  const uint64_t blocks = uint64_t{grid[0]} * grid[1] * grid[2];
  uint64_t stride = 1 + (draw >> 32) % blocks;
  while (std::gcd(stride, blocks) != 1)
    ++stride;
  uint64_t next = draw % blocks;
  HostBlock block{.grid = {grid[0], grid[1], grid[2]}, .index = {0, 0, 0}, .shared = launch.shared};
  for (uint64_t i = 0; i < blocks; ++i, next = (next + stride) % blocks) {
    block.index[0] = static_cast<unsigned>(next % grid[0]);
    block.index[1] = static_cast<unsigned>(next / grid[0] % grid[1]);
    block.index[2] = static_cast<unsigned>(next / grid[0] / grid[1]);
    if (launch.shared != nullptr) std::memset(launch.shared, kFresh, work->shared_bytes);
    work->kernel.host->run(work->parameters.data(), block);
  }
}

void RunCopy(const void* argument) {
  const auto& work = *static_cast<const CopyWork*>(argument);
  std::memmove(work.target, work.source, work.bytes);
}

void RunFill(const void* argument) {
  const auto& work = *static_cast<const FillWork*>(argument);
  auto* const target = static_cast<std::byte*>(work.target);
  if (work.element_size == 1) {
    std::memset(target, static_cast<int>(work.value), work.count);
    return;
  }
  for (size_t i = 0; i < work.count; ++i)
    std::memcpy(target + i * work.element_size, &work.value, work.element_size);
}

Outcome Describe(std::optional<uint64_t> fault, const char* what) {
  if (!fault.has_value()) return {};
  return {.fault = DescribeFault(what, *fault)};
}

// While it lives, the thread runs code of the host's as work, which may not call the driver.
class HostCodeScope {
 public:
  HostCodeScope() { ThisThread().runs_host_code = true; }
  ~HostCodeScope() { ThisThread().runs_host_code = false; }
  HostCodeScope(const HostCodeScope&) = delete;
  HostCodeScope& operator=(const HostCodeScope&) = delete;
};

struct Runner {
  const Surroundings& surroundings;

  Outcome operator()(const KernelWork& work) const {
    if (work.kernel.ptx != nullptr) return RunCompiled(work, surroundings);
    // Outside the guarded run, which a fault leaves without unwinding. Aligned as CUDA's is.
    std::vector<std::max_align_t> shared((work.shared_bytes + sizeof(std::max_align_t) - 1) /
                                         sizeof(std::max_align_t));
    const Launch launch{
        .work = &work,
        .draw = surroundings.draw,
        .shared = shared.empty() ? nullptr : reinterpret_cast<std::byte*>(shared.data())};
    const HostCodeScope scope;
    return Describe(RunGuarded(RunKernel, &launch), work.kernel.name);
  }
  Outcome operator()(const CopyWork& work) const {
    return Describe(RunGuarded(RunCopy, &work), "memcpy");
  }
  Outcome operator()(const FillWork& work) const {
    return Describe(RunGuarded(RunFill, &work), "memset");
  }
  // A fault in a host function is the program's own.
  Outcome operator()(const HostWork& work) const {
    const HostCodeScope scope;
    work.function(work.user_data);
    return {};
  }
  Outcome operator()(const EmptyWork& /*work*/) const { return {}; }
  Outcome operator()(const ChildWork& /*work*/) const { return {}; }
  // The processor has done it, which has the memory.
  Outcome operator()(const ReleaseWork& /*work*/) const { return {}; }
};

}  // namespace

Outcome Execute(const Work& work, const Surroundings& surroundings) {
  return std::visit(Runner{surroundings}, work);
}

}  // namespace coppice::emulator
