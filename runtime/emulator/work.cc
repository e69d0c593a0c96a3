// What work touches.

#include "runtime/emulator/work.h"

#include <string_view>
#include <utility>

#include "absl/hash/hash.h"

#include "runtime/emulator/fault.h"

namespace coppice::emulator {

bool IsProgrammatic(const Work& earlier, const Work& later) {
  const auto* const kernel = std::get_if<KernelWork>(&later);
  return kernel != nullptr && kernel->attributes.programmatic &&
         std::holds_alternative<KernelWork>(earlier);
}

bool Task::is_declared() const {
  const auto* const kernel = std::get_if<KernelWork>(&work);
  return kernel == nullptr || kernel->kernel.is_declared();
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
    const HostKernel* const host = kernel->kernel.host;
    if (host == nullptr || host->declare == nullptr) return;
    KernelAccesses accesses({kernel->grid[0], kernel->grid[1], kernel->grid[2]});
    host->declare(kernel->parameters.data(), accesses);
    for (const KernelAccesses::Range& range : accesses.ranges())
      touched.push_back({{range.begin, range.end}, kernel->kernel.name, range.writes, false});
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
