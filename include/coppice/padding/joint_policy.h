// Joint policy: maps the extents of two symbols together to one of a few buckets.
//
// A call of size (a, b) runs in the cheapest bucket (a', b') with a' >= a and b' >= b. A grid has
// every pair of buckets of two ladders. A list has any pairs, such as those of the traffic, so that
// no graph is recorded for pairs that never occur.
//
//   grid pow2/64,256,1024, limit 4x1024        list 1x1024,2x256,4x64,4x1024
//   b 1024  o   o       o                      b 1024  o           o
//      256  o   o       o                         256      o
//       64  o   o       o                          64              o
//           1   2   3   4  a                           1   2   3   4  a
//
// A rule a' x b' <= budget leaves buckets out: with /budget:1024 the grid above lacks 2x1024 and
// 4x1024. Only buckets that obey the rule exist, so a size that breaks it has no bucket. Every
// extent up to its limit is in some bucket: a list has the largest buckets that the rule allows at
// each limit, and a grid whose rule leaves a maximum without a bucket is refused.
//
// Units: extents count elements along each symbol's axes, a budget their product.
// Threads: immutable once created; every const method may be called from any thread.

#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/check.h"
#include "coppice/padding/padding_policy.h"

namespace coppice {

// A size of a call, or a bucket: the extent of the first symbol and that of the second.
struct JointSize {
  int64_t a = 0;
  int64_t b = 0;

  int64_t elements() const { return a * b; }
  bool Holds(const JointSize& size) const { return a >= size.a && b >= size.b; }
  // NOLINTNEXTLINE(modernize-use-nullptr): the 0 is the compiler's own.
  friend auto operator<=>(const JointSize&, const JointSize&) = default;
};

// The cost of a call in a bucket: finite, not negative, and non-decreasing in each extent. An empty
// function means the number of elements of the bucket.
using JointCost = std::function<double(JointSize bucket)>;

// Limits on padding: a policy refuses these calls although a bucket holds them.
struct JointGuard {
  // A call is refused if its bucket has more than this number times its elements; 0: never.
  double max_ratio = 0;  // 0, or >= 1 and finite.
  // The ratio does not apply to buckets of fewer elements.
  int64_t min_replay_elements = 0;  // >= 0.

  friend bool operator==(const JointGuard&, const JointGuard&) = default;
};

class JointPolicy {
 public:
  // Maximum number of buckets of a list: its table takes 2 bytes per pair of an extent a and an
  // extent b that occur in buckets.
  static constexpr int64_t kListMax = 4096;

  // Every pair of the two ladders that obeys the rule; a budget of 0 means that there is no rule.
  // Errors: kInvalidArgument if the budget is negative, or leaves one of the maxima without a
  // bucket, or if a ladder has a guard.
  static absl::StatusOr<JointPolicy> Grid(PaddingPolicy a, PaddingPolicy b, int64_t budget = 0);

  // A list of these buckets, in any order, and of those that the limit needs: `limit` itself, or,
  // if the rule forbids it, (limit.a, budget / limit.a) and (budget / limit.b, limit.b), rounded
  // down. Find prefers the cheaper of two buckets. If both cost the same, it prefers the smaller a,
  // then the smaller b. Buckets that Find can never return are dropped: repeats, and those that fit
  // in a preferred one. Errors: kInvalidArgument for a limit outside [1,
  // PaddingPolicy::kExtentMax], a bucket outside [1, limit] or beyond the rule, a budget that is
  // negative or below one of the limits, no bucket or more than kListMax, and a cost that is
  // negative or not finite.
  static absl::StatusOr<JointPolicy> List(std::span<const JointSize> buckets,
                                          JointSize limit,
                                          int64_t budget = 0,
                                          const JointCost& cost = {});
  // The same, but Find prefers buckets in the order given; those that the limit needs come last.
  static absl::StatusOr<JointPolicy> Ordered(std::span<const JointSize> buckets,
                                             JointSize limit,
                                             int64_t budget = 0);

  // Parses two spellings of PaddingPolicy with a slash between them, or a list such as
  // `1x128,4x512`. `ordered:` before a list makes it Ordered; `/budget:N` after either is the rule.
  // Errors: kInvalidArgument; the message quotes the text and lists the spellings.
  static absl::StatusOr<JointPolicy> Parse(const std::string& text, JointSize limit);

  // The same buckets with this guard instead of its own. Errors: kInvalidArgument a field of the
  // guard is outside its range.
  absl::StatusOr<JointPolicy> WithGuard(const JointGuard& guard) const;

  // Returns the preferred bucket among those that hold (a, b). Returns nullopt if none does,
  // because the size, or every bucket that could hold it, is beyond the limit or the rule. Also
  // returns nullopt if the guard refuses the bucket. Such a call runs eagerly. Every bucket holds
  // extent 0. Requires: a >= 0 and b >= 0 (checked). Cost: two table reads for a grid; O(log of the
  // buckets) for a list, two short searches without branches and one table read. Never allocates.
  std::optional<JointSize> Find(int64_t a, int64_t b) const {
    const std::optional<JointSize> bucket = FindUnguarded(a, b);
    if (bucket && guard_.max_ratio > 0 && Refuses(*bucket, {a, b})) return std::nullopt;
    return bucket;
  }

  // What Find would return without the guard. Requires, Cost: those of Find.
  std::optional<JointSize> FindUnguarded(int64_t a, int64_t b) const {
    COPPICE_CHECK(a >= 0 && b >= 0, "an extent is negative");
    return axes_.empty() ? FindInList(a, b) : FindInGrid(a, b);
  }

  // Why Find returns nullopt. Requires: it does (checked). Cost: that of Find.
  NoBucket WhyNone(int64_t a, int64_t b) const;

  // How many buckets there are. Cost: O(buckets of the first ladder).
  int64_t count() const;
  // The buckets. Those of a grid are in the order of a, then b. In a list, preferred ones come
  // first.
  // Requires: no more than PaddingPolicy::kExtentMax (checked). Cost: allocates.
  std::vector<JointSize> buckets() const;

  bool is_grid() const { return !axes_.empty(); }
  // The two ladders of a grid; empty for a list.
  std::span<const PaddingPolicy> axes() const { return axes_; }
  // Whether a list prefers its buckets in an order other than by their elements.
  bool is_ordered() const { return ordered_; }
  JointSize limit() const { return limit_; }
  int64_t budget() const { return budget_; }  // 0: there is no rule.
  // The spelling that Parse reads back, without the guard.
  const std::string& name() const { return name_; }
  const JointGuard& guard() const { return guard_; }

 private:
  JointPolicy() = default;
  // A list that includes the buckets that its limit needs.
  JointPolicy(std::vector<JointSize> buckets, JointSize limit, int64_t budget);

  // The extents that buckets of a list have along one axis. A slot is the set of extents with the
  // same leading bits; it says where a search begins.
  class Rungs {
   public:
    Rungs() = default;
    Rungs(std::span<const JointSize> buckets, int64_t JointSize::*extent);

    size_t size() const { return size_; }
    // The index of the first one that is >= extent. Requires: there is one.
    size_t Find(int64_t extent) const;

   private:
    size_t size_ = 0;
    std::vector<int32_t> rungs_;    // Strictly increasing, followed by padding that a search may
                                    // read.
    std::vector<uint16_t> begins_;  // By slot: the first rung that is >= the slot's first extent.
    size_t stride_ = 0;             // The first step of a search: a power of two, or 0.
  };

  bool Refuses(JointSize bucket, JointSize size) const {
    return bucket.elements() >= guard_.min_replay_elements &&
           static_cast<double>(bucket.elements()) >
               guard_.max_ratio * static_cast<double>(size.elements());
  }
  std::optional<JointSize> FindInGrid(int64_t a, int64_t b) const;
  std::optional<JointSize> FindInList(int64_t a, int64_t b) const;
  void FillTable();
  void DropUnreachable();

  std::string name_;
  std::vector<PaddingPolicy> axes_;  // Two, or none.
  JointSize limit_;
  int64_t budget_ = 0;
  JointGuard guard_;
  // Of a list:
  std::vector<JointSize> buckets_;  // The preferred first.
  Rungs a_rungs_;
  Rungs b_rungs_;
  std::vector<uint16_t> table_;  // By rung of a, then of b: the preferred bucket that holds both.
  bool ordered_ = false;
};

}  // namespace coppice
