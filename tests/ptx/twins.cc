// Arrays with room around them, and what differs in them.

#include "tests/ptx/twins.h"

#include <algorithm>
#include <cmath>

#include "fmt/format.h"

#include "coppice/base/check.h"

namespace coppice::ptx {
namespace {

constexpr size_t kRoom = 1024;
constexpr size_t kAlignment = 256;

float FloatAt(std::span<const std::byte> bytes, size_t offset) {
  float value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof(value));
  return value;
}

bool Near(float a, float b, const TwinTolerance& tolerance) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  const float larger = std::max({std::abs(a), std::abs(b), tolerance.floor});
  if (std::isinf(larger)) return a == b;
  const double ulp = double{std::nextafter(larger, INFINITY)} - larger;
  return std::abs(double{a} - b) <= tolerance.ulps * ulp;
}

}  // namespace

void* TwinScene::Place(std::span<const std::byte> values,
                       size_t offset,
                       const TwinTolerance& tolerance) {
  const size_t bytes = std::max<size_t>(values.size(), 1);
  Allocation& allocation = allocations_.emplace_back();
  allocation.memory.resize(bytes + offset + 2 * kRoom + kAlignment);
  const uint64_t begin = reinterpret_cast<uint64_t>(allocation.memory.data());
  const uint64_t aligned = (begin + kRoom + kAlignment - 1) / kAlignment * kAlignment + offset;
  allocation.used = std::span(allocation.memory).subspan(aligned - begin, bytes);
  allocation.tolerance = tolerance;
  std::copy(values.begin(), values.end(), allocation.used.begin());
  return allocation.used.data();
}

TwinScene::Contents TwinScene::Save() const {
  Contents contents;
  for (const Allocation& allocation : allocations_)
    contents.push_back(allocation.memory);
  return contents;
}

void TwinScene::Restore(const Contents& contents) {
  for (size_t i = 0; i < contents.size(); ++i)
    std::copy(contents[i].begin(), contents[i].end(), allocations_[i].memory.begin());
}

void TwinScene::RunHost(const HostKernel& host) const {
  struct alignas(16) Line {
    std::array<std::byte, 16> bytes;
  };
  std::vector<Line> shared(static_cast<size_t>(shared_bytes_) / sizeof(Line) + 1);
  HostBlock block{.grid = {grid_[0], grid_[1], grid_[2]}, .shared = shared.front().bytes.data()};
  for (block.index[2] = 0; block.index[2] < grid_[2]; ++block.index[2]) {
    for (block.index[1] = 0; block.index[1] < grid_[1]; ++block.index[1]) {
      for (block.index[0] = 0; block.index[0] < grid_[0]; ++block.index[0])
        host.run(parameters_.data(), block);
    }
  }
}

std::string TwinScene::Undeclared(const HostKernel& host,
                                  const MemoryRange& variables,
                                  const Outcome& outcome) const {
  const unsigned grid[3] = {grid_[0], grid_[1], grid_[2]};
  KernelAccesses accesses(grid);
  host.declare(parameters_.data(), accesses);
  for (const TouchedRange& touched : outcome.touched) {
    if (touched.begin >= variables.begin && touched.end <= variables.end && !touched.writes)
      continue;
    // Goes on as long as some declaration covers the next byte.
    uint64_t at = touched.begin;
    for (bool found = true; found && at < touched.end;) {
      found = false;
      for (const KernelAccesses::Range& range : accesses.ranges()) {
        if (range.begin > at || range.end <= at || (touched.writes && !range.writes)) continue;
        at = range.end;
        found = true;
      }
    }
    if (at >= touched.end) continue;
    return fmt::format("{} [{:#x}, {:#x}), but declares nothing of it at {:#x}",
                       touched.writes ? "writes" : "reads", touched.begin, touched.end, at);
  }
  return "";
}

std::string TwinScene::Differing(const Allocation& allocation,
                                 std::span<const std::byte> expected) {
  const std::span<const std::byte> actual = allocation.memory;
  const auto first = static_cast<size_t>(allocation.used.data() - allocation.memory.data());
  const size_t end = first + allocation.used.size();
  const auto describe = [&](size_t i, const std::string& what) {
    const auto from = static_cast<int64_t>(i) - static_cast<int64_t>(first);
    return fmt::format("byte {} of an array of {}: {}", from, allocation.used.size(), what);
  };
  for (size_t i = 0; i < actual.size(); ++i) {
    if (actual[i] == expected[i]) continue;
    if (allocation.tolerance.ulps == 0 || i < first || i >= end)
      return describe(i, fmt::format("{:#04x}, not {:#04x}", std::to_integer<int>(actual[i]),
                                     std::to_integer<int>(expected[i])));
    const size_t word = first + (i - first) / sizeof(float) * sizeof(float);
    const float a = FloatAt(actual, word);
    const float b = FloatAt(expected, word);
    if (!Near(a, b, allocation.tolerance))
      return describe(
          word, fmt::format("{}, more than {} ulps from {}", a, allocation.tolerance.ulps, b));
    i = word + sizeof(float) - 1;
  }
  return "";
}

std::string TwinScene::Compare(const HostKernel& host,
                               const Kernel& kernel,
                               const MemoryRange& variables,
                               uint64_t seed) {
  COPPICE_CHECK(host.parameter_bytes == parameters_.size(), "not the parameters of this kernel");
  const Contents before = Save();
  RunHost(host);
  const Contents expected = Save();
  Restore(before);

  std::vector<MemoryRange> ranges;
  if (variables.begin < variables.end) ranges.push_back(variables);
  for (const Allocation& allocation : allocations_) {
    const auto begin = reinterpret_cast<uint64_t>(allocation.used.data());
    ranges.push_back({.begin = begin, .end = begin + allocation.used.size()});
  }
  std::sort(ranges.begin(), ranges.end(),
            [](const MemoryRange& a, const MemoryRange& b) { return a.begin < b.begin; });
  const ptx::Launch launch = {.kernel = &kernel,
                              .grid = grid_,
                              .block = {host.block_threads, 1, 1},
                              .dynamic_shared_bytes = shared_bytes_,
                              .parameters = parameters_};
  const Environment environment = {.memory = ranges, .seed = seed, .checks = Checks::All(true)};
  const Outcome outcome = Run(launch, environment);
  if (outcome.fault.has_value()) return outcome.fault->Describe();
  if (!outcome.findings.empty()) return outcome.findings.front().Describe();
  std::string wrong = Undeclared(host, variables, outcome);
  for (size_t i = 0; i < expected.size() && wrong.empty(); ++i)
    wrong = Differing(allocations_[i], expected[i]);
  return wrong;
}

}  // namespace coppice::ptx
