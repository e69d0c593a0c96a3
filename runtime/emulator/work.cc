// What one operation does: kernels, copies, fills and host functions.

#include "runtime/emulator/work.h"

#include <cstring>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/hash/hash.h"
#include "fmt/format.h"

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
    work->kernel->run(work->parameters.data(), block);
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

std::optional<std::string> Describe(std::optional<uint64_t> fault, const char* what) {
  if (!fault.has_value()) return std::nullopt;
  return DescribeFault(what, *fault);
}

struct Runner {
  uint64_t draw;

  std::optional<std::string> operator()(const KernelWork& work) const {
    // Outside the guarded run, which a fault leaves without unwinding. Aligned as CUDA's is.
    std::vector<std::max_align_t> shared((work.shared_bytes + sizeof(std::max_align_t) - 1) /
                                         sizeof(std::max_align_t));
    const Launch launch{
        .work = &work,
        .draw = draw,
        .shared = shared.empty() ? nullptr : reinterpret_cast<std::byte*>(shared.data())};
    return Describe(RunGuarded(RunKernel, &launch), work.kernel->name);
  }
  std::optional<std::string> operator()(const CopyWork& work) const {
    return Describe(RunGuarded(RunCopy, &work), "memcpy");
  }
  std::optional<std::string> operator()(const FillWork& work) const {
    return Describe(RunGuarded(RunFill, &work), "memset");
  }
  // A fault in a host function is the program's own.
  std::optional<std::string> operator()(const HostWork& work) const {
    ThisThread().in_host_function = true;
    work.function(work.user_data);
    ThisThread().in_host_function = false;
    return std::nullopt;
  }
  std::optional<std::string> operator()(const EmptyWork& /*work*/) const { return std::nullopt; }
  std::optional<std::string> operator()(const ChildWork& /*work*/) const { return std::nullopt; }
};

}  // namespace

std::string DescribeFault(const char* what, uint64_t address) {
  return fmt::format("{} touched address {:#x}, which is not mapped or not accessible", what,
                     address);
}

bool IsProgrammatic(const Work& earlier, const Work& later) {
  const auto* const kernel = std::get_if<KernelWork>(&later);
  return kernel != nullptr && kernel->attributes.programmatic &&
         std::holds_alternative<KernelWork>(earlier);
}

std::optional<std::string> Execute(const Work& work, uint64_t draw) {
  return std::visit(Runner{.draw = draw}, work);
}

Task::Task(Work its_work) : work(std::move(its_work)) {
  const auto add = [this](const void* start, size_t bytes, const char* name, bool writes,
                          bool host) {
    const auto begin = reinterpret_cast<uint64_t>(start);
    touched.push_back({{begin, begin + bytes}, name, writes, host});
  };
  if (const auto* const copy = std::get_if<CopyWork>(&work)) {
    add(copy->source, copy->bytes, "memcpy", false, copy->from_host);
    add(copy->target, copy->bytes, "memcpy", true, copy->to_host);
  } else if (const auto* const fill = std::get_if<FillWork>(&work)) {
    add(fill->target, fill->count * fill->element_size, "memset", true, false);
  } else if (const auto* const kernel = std::get_if<KernelWork>(&work)) {
    if (kernel->kernel->declare == nullptr) return;
    KernelAccesses accesses({kernel->grid[0], kernel->grid[1], kernel->grid[2]});
    kernel->kernel->declare(kernel->parameters.data(), accesses);
    for (const KernelAccesses::Range& range : accesses.ranges())
      touched.push_back({{range.begin, range.end}, kernel->kernel->name, range.writes, false});
  }
}

uint64_t SumOfSource(const CopyWork& copy) {
  struct Reading {
    std::string_view bytes;
    uint64_t* sum;
  };
  uint64_t sum = 0;
  const Reading reading{{static_cast<const char*>(copy.source), copy.bytes}, &sum};
  RunGuarded(
      [](const void* argument) {
        const auto& [bytes, result] = *static_cast<const Reading*>(argument);
        *result = absl::HashOf(bytes);
      },
      &reading);
  return sum;
}

}  // namespace coppice::emulator
