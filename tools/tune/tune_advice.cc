// Learns again with one option changed, and says so where that pays.

#include "tools/tune/tune_advice.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "absl/status/statusor.h"
#include "fmt/format.h"

#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr double kPointsWorthABucket = 0.1;  // Per bucket more.
constexpr double kPointsUnnoticed = 0.25;
constexpr double kPointsWorthChunks = 1;
constexpr int64_t kTile = 16;        // Rows of a tile of matrix units.
constexpr int64_t kTiledFrom = 256;  // Below such a limit, multiples of kTile are too few.
constexpr int64_t kChunkMin = 2048;
constexpr int64_t kChunkMax = 8192;

std::optional<LearnedBuckets> Try(const SizeHistogram& histogram, const LearnOptions& options) {
  absl::StatusOr<LearnedBuckets> learned = LearnBuckets(histogram, options);
  if (!learned.ok()) return std::nullopt;
  return *std::move(learned);
}

int64_t CountOf(const LearnedBuckets& learned) {
  return std::ssize(learned.buckets) - learned.doublings;
}

// The calls that prefills in chunks of `chunk` make.
SizeHistogram Chunked(const SizeHistogram& histogram, int64_t chunk) {
  std::vector<SizeCount> counts;
  for (const SizeCount& each : histogram.counts()) {
    const int64_t whole = each.size / chunk;
    if (whole > 0)
      counts.push_back({.size = chunk, .count = static_cast<double>(whole) * each.count});
    if (each.size % chunk > 0) counts.push_back({.size = each.size % chunk, .count = each.count});
  }
  absl::StatusOr<SizeHistogram> chunked = SizeHistogram::From(counts);
  return chunked.ok() ? *std::move(chunked) : SizeHistogram();
}

void AdviseOnCount(const SizeHistogram& histogram,
                   LearnOptions options,
                   const LearnedBuckets& learned,
                   std::vector<std::string>& advice) {
  if (options.count == 0) return;
  const int64_t count = options.count;
  options.count = std::min(2 * count, options.limit / options.align);
  const std::optional<LearnedBuckets> more = Try(histogram, options);
  if (more && learned.waste_pct - more->waste_pct >
                  kPointsWorthABucket * static_cast<double>(CountOf(*more) - count))
    advice.push_back(
        fmt::format("{} buckets would waste {:.2f} %.", CountOf(*more), more->waste_pct));
  options.count = std::max<int64_t>(count / 2, 1);
  const std::optional<LearnedBuckets> fewer = Try(histogram, options);
  if (fewer && count > 1 && fewer->waste_pct - learned.waste_pct < kPointsUnnoticed)
    advice.push_back(fmt::format("{} would be enough: waste {:.2f} %.",
                                 Counted(CountOf(*fewer), "bucket"), fewer->waste_pct));
}

void AdviseOnTiles(const SizeHistogram& histogram,
                   LearnOptions options,
                   const LearnedBuckets& learned,
                   std::vector<std::string>& advice) {
  if (options.align % kTile == 0 || options.limit < kTiledFrom) return;
  options.align = kTile;
  const std::optional<LearnedBuckets> tiled = Try(histogram, options);
  if (tiled && tiled->waste_pct - learned.waste_pct < kPointsUnnoticed)
    advice.push_back(fmt::format(
        "Multiples of {} (--align {}) would waste {:.2f} %, but would fill Tensor Core tiles.",
        kTile, kTile, tiled->waste_pct));
}

void AdviseOnChunks(const SizeHistogram& histogram,
                    LearnOptions options,
                    const LearnedBuckets& learned,
                    std::vector<std::string>& advice) {
  for (int64_t chunk = kChunkMax; chunk >= kChunkMin; chunk /= 2) {
    if (chunk >= options.limit || !options.forced.empty()) continue;
    options.limit = chunk;
    const std::optional<LearnedBuckets> chunked = Try(Chunked(histogram, chunk), options);
    if (!chunked || learned.waste_pct - chunked->waste_pct < kPointsWorthChunks) continue;
    advice.push_back(fmt::format("Prefills in chunks of {} would waste {:.2f} % with {}.", chunk,
                                 chunked->waste_pct, Counted(CountOf(*chunked), "bucket")));
    return;
  }
}

}  // namespace

std::vector<std::string> AdviseOn(const SizeHistogram& histogram,
                                  const LearnOptions& options,
                                  const LearnedBuckets& learned) {
  std::vector<std::string> advice;
  if (learned.beyond > 0)
    advice.push_back(fmt::format(
        "{:.2f} % of the calls are above the limit and have no bucket: --limit {} holds all calls.",
        100 * learned.beyond / histogram.mass(), histogram.largest()));
  AdviseOnCount(histogram, options, learned, advice);
  AdviseOnTiles(histogram, options, learned, advice);
  AdviseOnChunks(histogram, options, learned, advice);
  return advice;
}

}  // namespace coppice
