// perf_event_open(2), which has no wrapper in the C library, and the total that callgrind prints.

#include "tools/bench/instruction_counter.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string_view>
#include <unistd.h>

#include "fmt/format.h"
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

std::optional<int64_t> CountUnderCallgrind(const std::string& command) {
  const std::string counted =
      fmt::format("valgrind --tool=callgrind --callgrind-out-file=/dev/null {} 2>&1", command);
  const auto close = [](std::FILE* pipe) { pclose(pipe); };
  const std::unique_ptr<std::FILE, decltype(close)> pipe(popen(counted.c_str(), "r"), close);
  if (pipe == nullptr) return std::nullopt;
  constexpr std::string_view kLabel = "Collected : ";
  std::optional<int64_t> collected;
  std::array<char, 512> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr) {
    const std::string_view line(buffer.data());
    const size_t start = line.find(kLabel);
    if (start == std::string_view::npos) continue;
    int64_t value = 0;
    std::from_chars(line.data() + start + kLabel.size(), line.data() + line.size(), value);
    if (value > 0) collected = value;
  }
  return collected;
}

}  // namespace coppice
