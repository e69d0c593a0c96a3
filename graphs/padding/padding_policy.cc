// Padding policy: the ladders, the dense table from extent to bucket, and the spellings.

#include "coppice/padding/padding_policy.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/padding/padding_presets.h"

#include "graphs/padding/preset_ladder.h"

namespace coppice {
namespace {

constexpr double kRatioMax = 16;

constexpr const char* kSpellings =
    "exact, pow2, linear:<step>, geometric:<ratio>:<align>, ramp:<minimum>:<step>, a list of "
    "extents such as 1,2,4, or a preset: ";

std::string Spellings() {
  std::string text = kSpellings;
  for (const PaddingPreset& preset : PaddingPresets()) {
    // The others are spellings above.
    if (preset.limit != 0) text += fmt::format("{} ", preset.name);
  }
  text.pop_back();
  return text;
}

absl::Status CheckMaximum(const char* where, int64_t maximum) {
  if (maximum >= 1 && maximum <= PaddingPolicy::kExtentMax) return absl::OkStatus();
  return InvalidArgument("PaddingPolicy::{}: maximum {} is outside [1, {}]", where, maximum,
                         PaddingPolicy::kExtentMax);
}

// The rungs from `first` on that lie below `maximum`, then `maximum`. `next` must grow.
template <typename Next>
std::vector<int64_t> Climb(int64_t first, int64_t maximum, Next next) {
  std::vector<int64_t> ladder;
  for (int64_t bucket = first; bucket < maximum; bucket = next(bucket))
    ladder.push_back(bucket);
  ladder.push_back(maximum);
  return ladder;
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  size_t begin = 0;
  for (size_t end = text.find(separator); end != std::string_view::npos;
       end = text.find(separator, begin)) {
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  parts.push_back(text.substr(begin));
  return parts;
}

// Reads all of `text` as a number without sign or exponent into `value`; false if it is not one.
template <typename Number, typename... Format>
bool ReadNumber(std::string_view text, Number& value, Format... format) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value, format...);
  return result.ec == std::errc() && result.ptr == end;
}

absl::StatusOr<std::vector<int64_t>> ReadExtents(const std::vector<std::string_view>& parts) {
  std::vector<int64_t> extents;
  for (const std::string_view part : parts) {
    int64_t extent = 0;
    if (!ReadNumber(part, extent)) return InvalidArgument("\"{}\" is not an extent", part);
    extents.push_back(extent);
  }
  return extents;
}

absl::StatusOr<PaddingPolicy> ParseList(std::string_view text, int64_t maximum) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> buckets, ReadExtents(Split(text, ',')));
  return PaddingPolicy::List(buckets, maximum);
}

absl::StatusOr<PaddingPolicy> ParseGeometric(std::span<const std::string_view> arguments,
                                             int64_t maximum) {
  double ratio = 1.25;
  int64_t align = 1;
  if (!arguments.empty()) {
    if (arguments.size() != 2) return InvalidArgument("geometric takes a ratio and an alignment");
    if (!ReadNumber(arguments[0], ratio, std::chars_format::fixed))
      return InvalidArgument("\"{}\" is not a ratio", arguments[0]);
    if (!ReadNumber(arguments[1], align))
      return InvalidArgument("\"{}\" is not an alignment", arguments[1]);
  }
  return PaddingPolicy::Geometric(ratio, align, maximum);
}

absl::StatusOr<PaddingPolicy> ParseAny(std::string_view text, int64_t maximum) {
  const std::vector<std::string_view> parts = Split(text, ':');
  const std::span<const std::string_view> arguments = std::span(parts).subspan(1);
  const std::string_view name = parts.front();
  if (name == "geometric") return ParseGeometric(arguments, maximum);
  if (arguments.empty()) {
    if (name == "exact") return PaddingPolicy::Exact(maximum);
    if (name == "pow2") return PaddingPolicy::Pow2(maximum);
    if (name == "linear") return PaddingPolicy::Linear(16, maximum);
    if (name == "ramp") return PaddingPolicy::Ramp(4, 16, maximum);
    return ParseList(text, maximum);
  }
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                           ReadExtents({arguments.begin(), arguments.end()}));
  if (name == "linear" && numbers.size() == 1) return PaddingPolicy::Linear(numbers[0], maximum);
  if (name == "ramp" && numbers.size() == 2)
    return PaddingPolicy::Ramp(numbers[0], numbers[1], maximum);
  return InvalidArgument("no policy \"{}\" takes {} arguments", name, numbers.size());
}

// The ladder of a preset, or nullopt if another kind of policy has this name.
absl::StatusOr<std::optional<std::vector<int64_t>>> ParsePreset(std::string_view text,
                                                                int64_t maximum) {
  const std::vector<std::string_view> parts = Split(text, ':');
  const PaddingPreset* preset = FindPaddingPreset(parts.front());
  if (preset == nullptr || preset->limit == 0) return std::nullopt;
  COPPICE_RETURN_IF_ERROR(CheckMaximum("Parse", maximum));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> numbers,
                           ReadExtents({parts.begin() + 1, parts.end()}));
  std::optional<std::vector<int64_t>> ladder = PresetLadder(parts.front(), numbers, maximum);
  if (!ladder)
    return InvalidArgument("{} does not take {} arguments", preset->name, numbers.size());
  return ladder;
}

}  // namespace

PaddingPolicy::PaddingPolicy(std::string name, std::vector<int64_t> ladder, int64_t maximum)
    : name_(std::move(name)), ladder_(std::move(ladder)), maximum_(maximum) {
  if (ladder_.empty()) return;
  table_.reserve(static_cast<size_t>(maximum) + 1);
  for (const int64_t bucket : ladder_)
    table_.resize(static_cast<size_t>(bucket) + 1, static_cast<int32_t>(bucket));
}

absl::StatusOr<PaddingPolicy> PaddingPolicy::Exact(int64_t maximum) {
  COPPICE_RETURN_IF_ERROR(CheckMaximum("Exact", maximum));
  return PaddingPolicy("exact", {}, maximum);
}

absl::StatusOr<PaddingPolicy> PaddingPolicy::Linear(int64_t step, int64_t maximum) {
  COPPICE_RETURN_IF_ERROR(CheckMaximum("Linear", maximum));
  if (step < 1) return InvalidArgument("PaddingPolicy::Linear: step {} is below 1", step);
  return PaddingPolicy(fmt::format("linear:{}", step),
                       Climb(step, maximum, [step](int64_t bucket) { return bucket + step; }),
                       maximum);
}

absl::StatusOr<PaddingPolicy> PaddingPolicy::Pow2(int64_t maximum) {
  COPPICE_RETURN_IF_ERROR(CheckMaximum("Pow2", maximum));
  return PaddingPolicy("pow2", Climb(1, maximum, [](int64_t bucket) { return 2 * bucket; }),
                       maximum);
}

absl::StatusOr<PaddingPolicy> PaddingPolicy::Geometric(double ratio,
                                                       int64_t align,
                                                       int64_t maximum) {
  COPPICE_RETURN_IF_ERROR(CheckMaximum("Geometric", maximum));
  // Written so that a NaN fails.
  if (!(ratio > 1 && ratio <= kRatioMax))
    return InvalidArgument("PaddingPolicy::Geometric: ratio {} is outside (1, {}]", ratio,
                           kRatioMax);
  if (align < 1) return InvalidArgument("PaddingPolicy::Geometric: align {} is below 1", align);
  // A product with a ratio above 1 exceeds its bucket even after rounding, so its ceiling grows.
  const auto next = [ratio, align](int64_t bucket) {
    return AlignUp(static_cast<int64_t>(std::ceil(static_cast<double>(bucket) * ratio)), align);
  };
  return PaddingPolicy(fmt::format("geometric:{}:{}", ratio, align), Climb(align, maximum, next),
                       maximum);
}

absl::StatusOr<PaddingPolicy> PaddingPolicy::Ramp(int64_t minimum, int64_t step, int64_t maximum) {
  COPPICE_RETURN_IF_ERROR(CheckMaximum("Ramp", maximum));
  if (minimum < 1 || step < minimum)
    return InvalidArgument(
        "PaddingPolicy::Ramp: minimum {} and step {} violate 1 <= minimum <= step", minimum, step);
  const auto next = [step](int64_t bucket) {
    return bucket < step ? std::min(2 * bucket, step) : bucket + step;
  };
  return PaddingPolicy(fmt::format("ramp:{}:{}", minimum, step), Climb(minimum, maximum, next),
                       maximum);
}

absl::StatusOr<PaddingPolicy> PaddingPolicy::List(std::span<const int64_t> buckets,
                                                  int64_t maximum) {
  COPPICE_RETURN_IF_ERROR(CheckMaximum("List", maximum));
  if (buckets.empty()) return InvalidArgument("PaddingPolicy::List: there are no buckets");
  for (const int64_t bucket : buckets) {
    if (bucket < 1 || bucket > maximum)
      return InvalidArgument(
          "PaddingPolicy::List: bucket {} is outside the range from 1 to the maximum, {}", bucket,
          maximum);
  }
  std::vector<int64_t> ladder(buckets.begin(), buckets.end());
  ladder.push_back(maximum);
  std::sort(ladder.begin(), ladder.end());
  ladder.erase(std::unique(ladder.begin(), ladder.end()), ladder.end());
  std::string name = fmt::format("{}", fmt::join(ladder, ","));
  return PaddingPolicy(std::move(name), std::move(ladder), maximum);
}

absl::StatusOr<PaddingPolicy> PaddingPolicy::Parse(const std::string& text, int64_t maximum) {
  absl::StatusOr<std::optional<std::vector<int64_t>>> preset = ParsePreset(text, maximum);
  if (preset.ok() && *preset)
    return PaddingPolicy(text == "tpu" ? "tpu:256" : text, **std::move(preset), maximum);
  absl::StatusOr<PaddingPolicy> policy = ParseAny(text, maximum);
  if (preset.ok() && policy.ok()) return policy;
  return InvalidArgument("PaddingPolicy::Parse: \"{}\" is not a policy: {}; the spellings are {}",
                         text, MessageOf(preset.ok() ? policy.status() : preset.status()),
                         Spellings());
}

absl::StatusOr<PaddingPolicy> PaddingPolicy::WithGuard(const PaddingGuard& guard) const {
  // Written so that a NaN fails.
  if (guard.max_ratio != 0 && !(guard.max_ratio >= 1 && std::isfinite(guard.max_ratio)))
    return InvalidArgument("PaddingPolicy::WithGuard: max_ratio {} must be 0, or at least 1",
                           guard.max_ratio);
  if (guard.min_replay_size < 0)
    return InvalidArgument("PaddingPolicy::WithGuard: min_replay_size {} is below 0",
                           guard.min_replay_size);
  const std::vector<int64_t>& bounds = guard.lower_bounds;
  if (!bounds.empty() && bounds.size() != ladder_.size())
    return InvalidArgument(
        "PaddingPolicy::WithGuard: {} lower bounds for {} buckets; give one for each bucket",
        bounds.size(), ladder_.size());
  PaddingPolicy guarded(name_, ladder_, maximum_);
  guarded.guard_ = guard;
  int64_t extent = 0;
  for (size_t i = 0; i < ladder_.size(); ++i) {
    const int64_t lower = bounds.empty() ? 0 : bounds[i];
    if (lower < 0 || lower > ladder_[i])
      return InvalidArgument(
          "PaddingPolicy::WithGuard: lower bound {} is outside the range from 0 to its bucket, {}",
          lower, ladder_[i]);
    for (; extent <= ladder_[i]; ++extent) {
      const bool padded_too_much =
          guard.max_ratio != 0 && extent >= guard.min_replay_size &&
          static_cast<double>(ladder_[i]) > guard.max_ratio * static_cast<double>(extent);
      if (extent < lower || padded_too_much) guarded.table_[static_cast<size_t>(extent)] *= -1;
    }
  }
  return guarded;
}

NoBucket PaddingPolicy::WhyNone(int64_t extent) const {
  COPPICE_CHECK(!Find(extent), "the extent has a bucket");
  return extent > maximum_ ? NoBucket::kBeyondMaximum : NoBucket::kPaddedTooMuch;
}

std::vector<int64_t> PaddingPolicy::buckets() const {
  if (!is_exact()) return ladder_;
  return Climb(1, maximum_, [](int64_t bucket) { return bucket + 1; });
}

}  // namespace coppice
