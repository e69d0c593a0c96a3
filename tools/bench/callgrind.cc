// Reads the total that callgrind prints when the program ends.

#include "tools/bench/callgrind.h"

#include <array>
#include <charconv>
#include <cstdio>
#include <memory>
#include <string_view>

#include "fmt/format.h"

namespace coppice {

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
