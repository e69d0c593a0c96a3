// Joint policy: grids of two ladders, lists with a table by rungs, and the spellings.

#include "coppice/padding/joint_policy.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <string_view>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "fmt/format.h"

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr uint16_t kNoBucket = 0xFFFF;

constexpr const char* kJointSpellings =
    "two ladders with a slash between them, such as pow2/linear:128, or a list, such as "
    "1x128,4x512 or ordered:1x128,4x512; both may end with /budget:N";

absl::Status CheckJointLimit(JointSize limit, int64_t budget) {
  for (const int64_t extent : {limit.a, limit.b}) {
    if (extent < 1 || extent > PaddingPolicy::kExtentMax)
      return InvalidArgument("JointPolicy: limit {}x{} is outside [1, {}]", limit.a, limit.b,
                             PaddingPolicy::kExtentMax);
  }
  if (budget < 0)
    return InvalidArgument("JointPolicy: budget {} is negative; 0 means no budget", budget);
  if (budget > 0 && budget < std::max(limit.a, limit.b))
    return InvalidArgument(
        "JointPolicy: budget {} leaves the limit {}x{} without a bucket; give a larger budget, or "
        "a smaller limit",
        budget, limit.a, limit.b);
  return absl::OkStatus();
}

absl::Status CheckJointBuckets(std::span<const JointSize> buckets,
                               JointSize limit,
                               int64_t budget) {
  if (buckets.empty()) return InvalidArgument("JointPolicy: there are no buckets");
  if (std::ssize(buckets) > JointPolicy::kListMax)
    return InvalidArgument("JointPolicy: {} buckets; a list has at most {}", buckets.size(),
                           JointPolicy::kListMax);
  for (const JointSize& bucket : buckets) {
    if (bucket.a < 1 || bucket.b < 1 || !limit.Holds(bucket))
      return InvalidArgument(
          "JointPolicy: bucket {}x{} is outside the range from 1x1 to the limit, {}x{}", bucket.a,
          bucket.b, limit.a, limit.b);
    if (budget > 0 && bucket.elements() > budget)
      return InvalidArgument("JointPolicy: bucket {}x{} has {} elements, but the budget is {}",
                             bucket.a, bucket.b, bucket.elements(), budget);
  }
  return absl::OkStatus();
}

// The buckets that reach the limit: the limit, or the largest that the rule allows at each.
std::vector<JointSize> LimitBuckets(JointSize limit, int64_t budget) {
  if (budget == 0 || limit.elements() <= budget) return {limit};
  return {{limit.a, budget / limit.a}, {budget / limit.b, limit.b}};
}

bool FewerElements(const JointSize& left, const JointSize& right) {
  if (left.elements() != right.elements()) return left.elements() < right.elements();
  return left < right;
}

// Slots: those of small extents have one each, those above as many per octave.
constexpr int kSlotBits = 6;
constexpr int64_t kSlotsPerOctave = int64_t{1} << kSlotBits;

size_t SlotOf(int64_t extent) {
  const int octave =
      std::max(0, static_cast<int>(std::bit_width(static_cast<uint64_t>(extent))) - kSlotBits - 1);
  return static_cast<size_t>((int64_t{octave} << kSlotBits) + (extent >> octave));
}

int64_t FirstOf(size_t slot) {
  const int64_t octave = std::max<int64_t>(0, static_cast<int64_t>(slot) / kSlotsPerOctave - 1);
  return (static_cast<int64_t>(slot) - octave * kSlotsPerOctave) << octave;
}

int64_t FirstRung(const PaddingPolicy& ladder) {
  return ladder.is_exact() ? 1 : ladder.buckets().front();
}

bool ReadCount(std::string_view text, int64_t& value) {
  if (text.empty() || text.front() < '0' || text.front() > '9') return false;
  const char* end = text.data() + text.size();
  const std::from_chars_result result = std::from_chars(text.data(), end, value);
  return result.ec == std::errc() && result.ptr == end;
}

absl::StatusOr<std::vector<JointSize>> ReadPairs(std::string_view text) {
  std::vector<JointSize> buckets;
  for (bool more = true; more;) {
    const size_t comma = text.find(',');
    const std::string_view pair = text.substr(0, comma);
    more = comma != std::string_view::npos;
    if (more) text.remove_prefix(comma + 1);
    const size_t cross = pair.find('x');
    JointSize bucket;
    if (cross == std::string_view::npos || !ReadCount(pair.substr(0, cross), bucket.a) ||
        !ReadCount(pair.substr(cross + 1), bucket.b))
      return InvalidArgument("\"{}\" is not a bucket such as 4x512", pair);
    buckets.push_back(bucket);
  }
  return buckets;
}

absl::StatusOr<JointPolicy> ParseJoint(std::string_view text, JointSize limit) {
  constexpr std::string_view kBudget = "/budget:";
  constexpr std::string_view kOrdered = "ordered:";
  int64_t budget = 0;
  if (const size_t rule = text.rfind(kBudget); rule != std::string_view::npos) {
    const std::string_view digits = text.substr(rule + kBudget.size());
    if (!ReadCount(digits, budget) || budget == 0)
      return InvalidArgument("\"{}\" is not a budget", digits);
    text = text.substr(0, rule);
  }
  if (const size_t slash = text.find('/'); slash != std::string_view::npos) {
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy a,
                             PaddingPolicy::Parse(std::string(text.substr(0, slash)), limit.a));
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy b,
                             PaddingPolicy::Parse(std::string(text.substr(slash + 1)), limit.b));
    return JointPolicy::Grid(std::move(a), std::move(b), budget);
  }
  const bool ordered = text.starts_with(kOrdered);
  if (ordered) text.remove_prefix(kOrdered.size());
  COPPICE_ASSIGN_OR_RETURN(const std::vector<JointSize> buckets, ReadPairs(text));
  return ordered ? JointPolicy::Ordered(buckets, limit, budget)
                 : JointPolicy::List(buckets, limit, budget);
}

std::string RuleName(int64_t budget) {
  return budget == 0 ? std::string() : fmt::format("/budget:{}", budget);
}

}  // namespace

absl::StatusOr<JointPolicy> JointPolicy::Grid(PaddingPolicy a, PaddingPolicy b, int64_t budget) {
  if (budget < 0)
    return InvalidArgument("JointPolicy::Grid: budget {} is negative; 0 means no budget", budget);
  if (a.guard() != PaddingGuard() || b.guard() != PaddingGuard())
    return InvalidArgument(
        "JointPolicy::Grid: a ladder has a guard; give the guard to the grid with WithGuard");
  const int64_t least = std::max(a.maximum() * FirstRung(b), FirstRung(a) * b.maximum());
  if (budget > 0 && budget < least)
    return InvalidArgument(
        "JointPolicy::Grid: budget {} leaves the maximum {}x{} without a bucket; give a budget of "
        "at least {}",
        budget, a.maximum(), b.maximum(), least);
  JointPolicy policy;
  policy.limit_ = {a.maximum(), b.maximum()};
  policy.budget_ = budget;
  policy.name_ = fmt::format("{}/{}{}", a.name(), b.name(), RuleName(budget));
  policy.axes_.push_back(std::move(a));
  policy.axes_.push_back(std::move(b));
  return policy;
}

absl::StatusOr<JointPolicy> JointPolicy::List(std::span<const JointSize> buckets,
                                              JointSize limit,
                                              int64_t budget,
                                              const JointCost& cost) {
  COPPICE_RETURN_IF_ERROR(CheckJointLimit(limit, budget));
  COPPICE_RETURN_IF_ERROR(CheckJointBuckets(buckets, limit, budget));
  std::vector<JointSize> all(buckets.begin(), buckets.end());
  for (const JointSize& bucket : LimitBuckets(limit, budget))
    all.push_back(bucket);
  std::vector<std::pair<double, JointSize>> priced;
  for (const JointSize& bucket : all) {
    const double price = cost ? cost(bucket) : static_cast<double>(bucket.elements());
    if (!(price >= 0) || std::isinf(price))
      return InvalidArgument(
          "JointPolicy::List: bucket {}x{} costs {}; give a finite cost of 0 or more", bucket.a,
          bucket.b, price);
    priced.emplace_back(price, bucket);
  }
  std::sort(priced.begin(), priced.end());
  for (size_t i = 0; i < all.size(); ++i)
    all[i] = priced[i].second;
  return JointPolicy(std::move(all), limit, budget);
}

absl::StatusOr<JointPolicy> JointPolicy::Ordered(std::span<const JointSize> buckets,
                                                 JointSize limit,
                                                 int64_t budget) {
  COPPICE_RETURN_IF_ERROR(CheckJointLimit(limit, budget));
  COPPICE_RETURN_IF_ERROR(CheckJointBuckets(buckets, limit, budget));
  std::vector<JointSize> all(buckets.begin(), buckets.end());
  for (const JointSize& bucket : LimitBuckets(limit, budget))
    all.push_back(bucket);
  return JointPolicy(std::move(all), limit, budget);
}

JointPolicy::JointPolicy(std::vector<JointSize> buckets, JointSize limit, int64_t budget)
    : limit_(limit), budget_(budget), buckets_(std::move(buckets)) {
  DropUnreachable();
  ordered_ = !std::is_sorted(buckets_.begin(), buckets_.end(), FewerElements);
  for (const JointSize& bucket : buckets_)
    name_ += fmt::format("{}{}x{}", name_.empty() ? "" : ",", bucket.a, bucket.b);
  name_ = fmt::format("{}{}{}", ordered_ ? "ordered:" : "", name_, RuleName(budget));
}

absl::StatusOr<JointPolicy> JointPolicy::WithGuard(const JointGuard& guard) const {
  const double ratio = guard.max_ratio;
  if (ratio != 0 && !(ratio >= 1 && std::isfinite(ratio)))
    return InvalidArgument("JointPolicy::WithGuard: max_ratio {} is below 1; 0 means no guard",
                           ratio);
  if (guard.min_replay_elements < 0)
    return InvalidArgument("JointPolicy::WithGuard: min_replay_elements {} is negative",
                           guard.min_replay_elements);
  JointPolicy policy = *this;
  policy.guard_ = guard;
  return policy;
}

NoBucket JointPolicy::WhyNone(int64_t a, int64_t b) const {
  COPPICE_CHECK(!Find(a, b), "there is a bucket");
  return FindUnguarded(a, b) ? NoBucket::kPaddedTooMuch : NoBucket::kBeyondMaximum;
}

absl::StatusOr<JointPolicy> JointPolicy::Parse(const std::string& text, JointSize limit) {
  absl::StatusOr<JointPolicy> policy = ParseJoint(text, limit);
  if (policy.ok()) return policy;
  return InvalidArgument("JointPolicy::Parse: \"{}\" is not a policy: {}; the spellings are {}",
                         text, MessageOf(policy.status()), kJointSpellings);
}

JointPolicy::Rungs::Rungs(std::span<const JointSize> buckets, int64_t JointSize::*extent) {
  for (const JointSize& bucket : buckets)
    rungs_.push_back(static_cast<int32_t>(bucket.*extent));
  std::sort(rungs_.begin(), rungs_.end());
  rungs_.erase(std::unique(rungs_.begin(), rungs_.end()), rungs_.end());
  size_ = rungs_.size();
  const size_t slots = SlotOf(rungs_.back()) + 1;
  size_t most = 0;  // Rungs in a slot.
  for (size_t slot = 0; slot <= slots; ++slot) {
    const auto first = std::lower_bound(rungs_.begin(), rungs_.end(), FirstOf(slot));
    begins_.push_back(static_cast<uint16_t>(first - rungs_.begin()));
    if (slot > 0) most = std::max(most, size_t{begins_[slot]} - begins_[slot - 1]);
  }
  stride_ = std::bit_floor(most);
  rungs_.resize(size_ + 2 * stride_, std::numeric_limits<int32_t>::max());
}

// As many steps whatever the extent, each of which compiles to a conditional move.
size_t JointPolicy::Rungs::Find(int64_t extent) const {
  const int32_t wanted = static_cast<int32_t>(extent);
  size_t found = begins_[SlotOf(extent)];
  for (size_t stride = stride_; stride > 0; stride /= 2)
    found += static_cast<size_t>(rungs_[found + stride - 1] < wanted) * stride;
  return found;
}

// From the largest rungs down, a cell has the preferred of its own bucket and of what the cells
// above it in either direction have.
void JointPolicy::FillTable() {
  a_rungs_ = Rungs(buckets_, &JointSize::a);
  b_rungs_ = Rungs(buckets_, &JointSize::b);
  const size_t columns = b_rungs_.size();
  table_.assign(a_rungs_.size() * columns, kNoBucket);
  for (size_t i = 0; i < buckets_.size(); ++i) {
    uint16_t& cell = table_[a_rungs_.Find(buckets_[i].a) * columns + b_rungs_.Find(buckets_[i].b)];
    cell = std::min(cell, static_cast<uint16_t>(i));
  }
  for (size_t cell = table_.size(); cell-- > 0;) {
    if (cell + columns < table_.size())
      table_[cell] = std::min(table_[cell], table_[cell + columns]);
    if ((cell + 1) % columns != 0) table_[cell] = std::min(table_[cell], table_[cell + 1]);
  }
}

// Whatever a bucket that is not found at its own size would hold, another one has.
void JointPolicy::DropUnreachable() {
  FillTable();
  std::vector<JointSize> found;
  for (size_t i = 0; i < buckets_.size(); ++i) {
    const size_t row = a_rungs_.Find(buckets_[i].a);
    if (table_[row * b_rungs_.size() + b_rungs_.Find(buckets_[i].b)] == i)
      found.push_back(buckets_[i]);
  }
  buckets_ = std::move(found);
  FillTable();
}

std::optional<JointSize> JointPolicy::FindInGrid(int64_t a, int64_t b) const {
  const std::optional<int64_t> rung_a = axes_[0].Find(a);
  const std::optional<int64_t> rung_b = axes_[1].Find(b);
  if (!rung_a || !rung_b) return std::nullopt;
  const JointSize bucket = {*rung_a, *rung_b};
  if (budget_ > 0 && bucket.elements() > budget_) return std::nullopt;
  return bucket;
}

std::optional<JointSize> JointPolicy::FindInList(int64_t a, int64_t b) const {
  if (a > limit_.a || b > limit_.b) return std::nullopt;
  const uint16_t found = table_[a_rungs_.Find(a) * b_rungs_.size() + b_rungs_.Find(b)];
  if (found == kNoBucket) return std::nullopt;
  return buckets_[found];
}

int64_t JointPolicy::count() const {
  if (axes_.empty()) return std::ssize(buckets_);
  const std::vector<int64_t> rungs_a = axes_[0].buckets();
  const std::vector<int64_t> rungs_b = axes_[1].buckets();
  if (budget_ == 0) return std::ssize(rungs_a) * std::ssize(rungs_b);
  int64_t count = 0;
  for (const int64_t a : rungs_a)
    count += std::upper_bound(rungs_b.begin(), rungs_b.end(), budget_ / a) - rungs_b.begin();
  return count;
}

std::vector<JointSize> JointPolicy::buckets() const {
  if (axes_.empty()) return buckets_;
  COPPICE_CHECK(count() <= PaddingPolicy::kExtentMax, "a grid has too many buckets to list");
  std::vector<JointSize> all;
  const std::vector<int64_t> rungs_b = axes_[1].buckets();
  for (const int64_t a : axes_[0].buckets()) {
    for (const int64_t b : rungs_b) {
      if (budget_ == 0 || a * b <= budget_) all.push_back({a, b});
    }
  }
  return all;
}

}  // namespace coppice
