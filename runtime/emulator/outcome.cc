// Names faults of the host's memory.

#include "runtime/emulator/outcome.h"

#include "fmt/format.h"

namespace coppice::emulator {

Fault DescribeFault(const char* what, uint64_t address) {
  return {CuResult::kIllegalAddress,
          fmt::format("{} touched address {:#x}, which is not mapped or not accessible", what,
                      address)};
}

}  // namespace coppice::emulator
