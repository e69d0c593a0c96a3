// Lifetimes of a program's buffers, from the steps that name them.

#include "tools/package/bucket_memory.h"

#include <algorithm>
#include <set>
#include <variant>

#include "fmt/format.h"

#include "coppice/allocator/plan.h"
#include "coppice/runtime/package_uses.h"

namespace coppice {
namespace {

using package::Amount;
using package::Program;
using package::Role;
using package::Symbol;

std::vector<int64_t> SizesOf(const Symbol& symbol) {
  if (!symbol.buckets.empty()) return symbol.buckets;
  const int64_t fallback = symbol.hint >= 0 ? symbol.hint : std::max<int64_t>(symbol.min, 1);
  const int64_t max = symbol.max == INT64_MAX ? fallback : symbol.max;
  std::set<int64_t> sizes = {symbol.min, max};
  for (int64_t power = 1; symbol.buckets_pow2 && power <= max / 2 + max % 2; power *= 2)
    if (power >= symbol.min) sizes.insert(power);
  return {sizes.begin(), sizes.end()};
}

// Bytes of a dense buffer; nothing if a size has a fault or is negative.
std::optional<int64_t> BytesOf(const package::Buffer& buffer, std::span<const int64_t> values) {
  int64_t bytes = SizeOf(buffer.dtype);
  for (const Amount& size : buffer.shape) {
    const Computed computed = size.At(values);
    if (!computed.ok() || computed.value < 0 ||
        __builtin_mul_overflow(bytes, computed.value, &bytes))
      return std::nullopt;
  }
  if (bytes > INT64_MAX - kBufferAlignment) return std::nullopt;
  return bytes;
}

// Outputs live to the end of the call.
std::optional<int64_t> LiveBytesMax(const Program& program,
                                    std::span<const package::Lifetime> lifetimes,
                                    std::span<const int64_t> values) {
  std::vector<Buffer> buffers;
  const int end = static_cast<int>(program.steps.size());
  for (size_t i = 0; i < program.buffers.size(); ++i) {
    const package::Buffer& buffer = program.buffers[i];
    const bool is_output = buffer.role == Role::kOutput && !buffer.alias;
    if ((!is_output && buffer.role != Role::kTemporary) || lifetimes[i].first < 0) continue;
    const std::optional<int64_t> bytes = BytesOf(buffer, values);
    if (!bytes) return std::nullopt;
    if (*bytes > 0)
      buffers.push_back(
          {.lifetime = {{lifetimes[i].first, is_output ? end : lifetimes[i].last + 1}},
           .bytes = *bytes});
  }
  if (!ValidateBuffers(buffers).ok()) return std::nullopt;  // Sums beyond 2^63.
  return MaxLiveBytes(buffers);
}

}  // namespace

std::vector<BucketMemory> MemoryOfBuckets(const package::Manifest& manifest,
                                          const Program& program) {
  const std::vector<package::Lifetime> lifetimes = package::LifetimesOf(manifest, program);
  std::vector<std::vector<int64_t>> sizes;
  for (const Symbol& symbol : program.symbols)
    sizes.push_back(SizesOf(symbol));
  std::vector<int64_t> smallest;
  std::vector<int64_t> largest;
  for (const std::vector<int64_t>& each : sizes) {
    smallest.push_back(each.front());
    largest.push_back(each.back());
  }
  std::vector<std::vector<int64_t>> points = {smallest};
  for (size_t i = 0; i < sizes.size(); ++i)
    for (const int64_t size : sizes[i]) {
      std::vector<int64_t> point = largest;
      point[i] = size;
      if (std::find(points.begin(), points.end(), point) == points.end()) points.push_back(point);
    }
  std::vector<BucketMemory> buckets;
  for (std::vector<int64_t>& point : points) {
    BucketMemory bucket;
    for (size_t i = 0; i < point.size(); ++i)
      bucket.sizes += fmt::format("{}{} {}", i == 0 ? "" : ", ", program.symbols[i].name, point[i]);
    point.resize(point.size() + program.scalars.size());
    bucket.live_bytes_max = LiveBytesMax(program, lifetimes, point);
    buckets.push_back(std::move(bucket));
  }
  return buckets;
}

}  // namespace coppice
