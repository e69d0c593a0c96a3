// Counters that calls write, and weights that folding writes under a lock.

#include "coppice/padding/decaying_histogram.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/padding/padding_policy.h"

#include "base/json_document.h"
#include "base/json_fields.h"

namespace coppice {
namespace {

constexpr int64_t kHistogramVersion = 1;
constexpr int kHistogramDepthMax = 4;
constexpr double kForgotten = 1e-9;  // A weight below it is gone: no learner would see it.

}  // namespace

struct DecayingHistogram::State {
  explicit State(const Options& given)
      : options(given),
        align(CeilDivide(given.limit, kCountersMax)),
        counters(static_cast<size_t>(CeilDivide(given.limit, align)) + 1),
        weights(counters.size()) {}

  int64_t SizeOf(size_t counter) const {
    return std::min(static_cast<int64_t>(counter) * align, options.limit);
  }

  // Requires: the lock.
  void FoldYoung() {
    std::vector<int64_t> young(counters.size());
    int64_t inside = 0;
    for (size_t i = 0; i < counters.size(); ++i) {
      young[i] = counters[i].exchange(0, std::memory_order_relaxed);
      inside += young[i];
    }
    const int64_t outside = young_beyond.exchange(0, std::memory_order_relaxed);
    const double kept = std::exp2(-static_cast<double>(inside + outside) / options.half_life);
    for (size_t i = 0; i < counters.size(); ++i) {
      const double old = weights[i] * kept;
      weights[i] = (old < kForgotten ? 0 : old) + static_cast<double>(young[i]);
    }
    calls += inside + outside;
    beyond += outside;
  }

  const Options options;
  const int64_t align;
  std::vector<std::atomic<int64_t>> counters;  // Of young calls, by size / align, rounded up.
  std::atomic<int64_t> young_beyond = 0;

  std::mutex mutex;  // Guards what follows.
  std::vector<double> weights;
  int64_t calls = 0;
  int64_t beyond = 0;
};

DecayingHistogram::DecayingHistogram(std::unique_ptr<State> state) : state_(std::move(state)) {}
DecayingHistogram::DecayingHistogram(DecayingHistogram&&) noexcept = default;
DecayingHistogram& DecayingHistogram::operator=(DecayingHistogram&&) noexcept = default;
DecayingHistogram::~DecayingHistogram() = default;

absl::StatusOr<DecayingHistogram> DecayingHistogram::Create(const Options& options) {
  if (options.limit < 1 || options.limit > PaddingPolicy::kExtentMax)
    return InvalidArgument(
        "DecayingHistogram::Create: limit {} is outside [1, {}]; give a limit in this range",
        options.limit, PaddingPolicy::kExtentMax);
  if (!(options.half_life > 0))
    return InvalidArgument(
        "DecayingHistogram::Create: a half-life of {} calls; give a half-life above 0",
        options.half_life);
  return DecayingHistogram(std::make_unique<State>(options));
}

void DecayingHistogram::Add(int64_t size) {
  COPPICE_CHECK(size >= 0, "a size is negative");
  State& state = *state_;
  std::atomic<int64_t>& counter =
      size > state.options.limit
          ? state.young_beyond
          : state.counters[static_cast<size_t>(CeilDivide(size, state.align))];
  counter.fetch_add(1, std::memory_order_relaxed);
}

SizeHistogram DecayingHistogram::Fold() {
  const std::lock_guard lock(state_->mutex);
  state_->FoldYoung();
  std::vector<SizeCount> counts;
  for (size_t i = 0; i < state_->weights.size(); ++i) {
    if (state_->weights[i] > 0)
      counts.push_back({.size = state_->SizeOf(i), .count = state_->weights[i]});
  }
  absl::StatusOr<SizeHistogram> histogram = SizeHistogram::From(counts);
  COPPICE_CHECK(histogram.ok(), "weights are above 0 and finite");
  return *std::move(histogram);
}

int64_t DecayingHistogram::calls() const {
  const std::lock_guard lock(state_->mutex);
  return state_->calls;
}

int64_t DecayingHistogram::beyond() const {
  const std::lock_guard lock(state_->mutex);
  return state_->beyond;
}

int64_t DecayingHistogram::align() const {
  return state_->align;
}

const DecayingHistogram::Options& DecayingHistogram::options() const {
  return state_->options;
}

std::string DecayingHistogram::ToJson() {
  const std::lock_guard lock(state_->mutex);
  state_->FoldYoung();
  std::string sizes;
  for (size_t i = 0; i < state_->weights.size(); ++i) {
    if (state_->weights[i] > 0)
      fmt::format_to(std::back_inserter(sizes), "{}[{}, \"{}\"]", sizes.empty() ? "" : ", ",
                     state_->SizeOf(i), state_->weights[i]);
  }
  return fmt::format(
      R"({{"version": {}, "limit": {}, "half_life": "{}", "calls": {}, "beyond": {}, )"
      R"("sizes": [{}]}})",
      kHistogramVersion, state_->options.limit, state_->options.half_life, state_->calls,
      state_->beyond, sizes);
}

absl::StatusOr<DecayingHistogram> DecayingHistogram::Read(std::string_view text,
                                                          const std::string& where) {
  COPPICE_ASSIGN_OR_RETURN(
      const JsonDocument document,
      JsonDocument::Parse(text, where, {.canonical = false, .depth_max = kHistogramDepthMax}));
  const Json root = document.root();
  COPPICE_RETURN_IF_ERROR(CheckKind(root, JsonKind::kObject));
  const Json version = root["version"];
  if (!version.is(JsonKind::kInteger) || version.integer() != kHistogramVersion)
    return MakeError(absl::StatusCode::kUnimplemented,
                     "{}: version {}; this library reads version {}", where,
                     version.present() ? version.Show() : "is not given", kHistogramVersion);
  COPPICE_RETURN_IF_ERROR(
      CheckFields(root, {"version", "limit", "half_life", "calls", "beyond", "sizes"}));

  Options options;
  COPPICE_ASSIGN_OR_RETURN(options.limit, IntegerOf(root["limit"], 1, PaddingPolicy::kExtentMax));
  COPPICE_ASSIGN_OR_RETURN(options.half_life, FractionOf(root["half_life"]));
  if (!(options.half_life > 0))
    return root["half_life"].Error("{}; give calls above 0", root["half_life"].Show());
  auto state = std::make_unique<State>(options);
  COPPICE_ASSIGN_OR_RETURN(state->calls, IntegerOf(root["calls"], 0, INT64_MAX));
  COPPICE_ASSIGN_OR_RETURN(state->beyond, IntegerOf(root["beyond"], 0, state->calls));
  COPPICE_RETURN_IF_ERROR(CheckList(root["sizes"], 0, kCountersMax + 1));
  for (const Json pair : root["sizes"]) {
    COPPICE_RETURN_IF_ERROR(CheckList(pair, 2, 2));
    const Json::Iterator first = pair.begin();
    Json::Iterator second = first;
    COPPICE_ASSIGN_OR_RETURN(const int64_t size, IntegerOf(*first, 0, options.limit));
    COPPICE_ASSIGN_OR_RETURN(const double weight, FractionOf(*++second));
    if (!(weight > 0 && std::isfinite(weight)))
      return (*second).Error("{}; give a weight above 0", (*second).Show());
    state->weights[static_cast<size_t>(CeilDivide(size, state->align))] += weight;
  }
  return DecayingHistogram(std::move(state));
}

}  // namespace coppice
