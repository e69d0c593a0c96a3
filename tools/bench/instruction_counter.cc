// perf_event_open(2), which has no wrapper in the C library.

#include "tools/bench/instruction_counter.h"

#include <unistd.h>

#include <linux/perf_event.h>
#include <sys/syscall.h>

namespace coppice {

std::optional<InstructionCounter> InstructionCounter::Open() {
  perf_event_attr attributes = {};
  attributes.type = PERF_TYPE_HARDWARE;
  attributes.size = sizeof(attributes);
  attributes.config = PERF_COUNT_HW_INSTRUCTIONS;
  attributes.exclude_kernel = 1;
  attributes.exclude_hv = 1;
  const auto file = static_cast<int>(syscall(SYS_perf_event_open, &attributes, /*pid=*/0,
                                             /*cpu=*/-1, /*group_fd=*/-1, /*flags=*/0UL));
  if (file < 0) return std::nullopt;
  InstructionCounter counter(file);
  // Some virtual machines accept the event and then count nothing.
  if (counter.Read() <= 0) return std::nullopt;
  return counter;
}

InstructionCounter::~InstructionCounter() {
  if (file_ >= 0) close(file_);
}

int64_t InstructionCounter::Read() const {
  int64_t count = 0;
  return read(file_, &count, sizeof(count)) == sizeof(count) ? count : 0;
}

}  // namespace coppice
