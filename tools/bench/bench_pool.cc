// Records families of programs in several orders, once with the planner and once with a model of a
// caching allocator, and plans each program alone for the time.

#include <algorithm>
#include <limits>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/allocator/planner.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/bench/bench.h"
#include "tools/bench/reference_loop.h"
#include "tools/model/caching_allocator.h"
#include "tools/plan/program_families.h"
#include "tools/support/byte_text.h"
#include "tools/support/console.h"
#include "tools/support/progress.h"
#include "tools/support/recording_order.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr uint64_t kRandomOrders = 5;
constexpr int kTimedRuns = 5;
constexpr double kTimedMsMax = 300;  // A program that takes so long is timed once.

struct OrderFigures {
  std::string order;
  int64_t height = 0;          // Of an arena that only grows, at the end.
  int64_t reserved_bytes = 0;  // By the caching allocator.
};

struct FamilyFigures {
  std::string name;
  int64_t buckets = 0;
  int64_t buffers = 0;
  int64_t bound = 0;             // The most bytes live at once in any bucket.
  int64_t buckets_at_bound = 0;  // Planned alone.
  double plan_ms = 0;            // All buckets, each alone.
  std::vector<OrderFigures> orders;
};

struct TimedPlan {
  PlannerResult result;
  double ms = 0;  // Processor time, the least of the runs: what else happens only adds.
};

struct ProgramFigures {
  std::string name;
  int64_t buffers = 0;
  TimedPlan timed;
};

struct PoolFigures {
  std::vector<FamilyFigures> families;
  std::vector<ProgramFigures> programs;
  double reference_ms = std::numeric_limits<double>::infinity();  // The least, between them.
};

double Ratio(int64_t bytes, int64_t bound) {
  return static_cast<double>(bytes) / static_cast<double>(bound);
}

std::vector<RecordingOrder> Orders() {
  std::vector<RecordingOrder> orders = {{.kind = RecordingOrder::Kind::kAscending},
                                        {.kind = RecordingOrder::Kind::kDescending}};
  for (uint64_t seed = 1; seed <= kRandomOrders; ++seed)
    orders.push_back({.kind = RecordingOrder::Kind::kRandom, .seed = seed});
  return orders;
}

// Makes them what the pool places.
void AlignBuffers(std::vector<Buffer>& buffers) {
  for (Buffer& buffer : buffers) {
    buffer.bytes = AlignUp(buffer.bytes, kBufferAlignment);
    buffer.alignment = kBufferAlignment;
  }
}

absl::StatusOr<TimedPlan> TimePlan(const std::vector<Buffer>& buffers) {
  TimedPlan timed = {.ms = std::numeric_limits<double>::infinity()};
  for (int run = 0; run < kTimedRuns; ++run) {
    const double start_ms = ThreadMs();
    COPPICE_ASSIGN_OR_RETURN(timed.result, PlanBuffers(buffers));
    timed.ms = std::min(timed.ms, ThreadMs() - start_ms);
    if (timed.ms > kTimedMsMax) break;
  }
  return timed;
}

absl::Status RecordInOrder(const std::vector<const std::vector<Buffer>*>& buckets,
                           OrderFigures& figures) {
  CachingAllocator allocator;
  for (const std::vector<Buffer>* bucket : buckets) {
    COPPICE_ASSIGN_OR_RETURN(const PlannerResult result,
                             PlanBuffers(*bucket, {.height_target = figures.height}));
    figures.height = std::max(figures.height, result.plan.height);
    RunProgram(*bucket, allocator);
  }
  figures.reserved_bytes = allocator.reserved_bytes();
  return absl::OkStatus();
}

absl::StatusOr<FamilyFigures> MeasureFamily(std::string name,
                                            std::vector<std::vector<Buffer>> buckets) {
  FamilyFigures figures = {.name = std::move(name),
                           .buckets = static_cast<int64_t>(buckets.size())};
  std::vector<std::pair<int64_t, const std::vector<Buffer>*>> by_bound;
  for (std::vector<Buffer>& bucket : buckets) {
    AlignBuffers(bucket);
    figures.buffers += static_cast<int64_t>(bucket.size());
    by_bound.emplace_back(MaxLiveBytes(bucket), &bucket);
    figures.bound = std::max(figures.bound, by_bound.back().first);
    COPPICE_ASSIGN_OR_RETURN(const TimedPlan timed, TimePlan(bucket));
    figures.plan_ms += timed.ms;
    if (timed.result.plan.height == timed.result.bound) ++figures.buckets_at_bound;
  }
  std::stable_sort(by_bound.begin(), by_bound.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<const std::vector<Buffer>*> ascending;
  ascending.reserve(by_bound.size());
  for (const auto& [bound, bucket] : by_bound)
    ascending.push_back(bucket);
  for (const RecordingOrder& order : Orders()) {
    std::vector<const std::vector<Buffer>*> arranged = ascending;
    Arrange(order, arranged);
    figures.orders.push_back({.order = NameOf(order)});
    COPPICE_RETURN_IF_ERROR(RecordInOrder(arranged, figures.orders.back()));
  }
  return figures;
}

absl::StatusOr<ProgramFigures> MeasureProgram(std::string name, std::vector<Buffer> buffers) {
  AlignBuffers(buffers);
  ProgramFigures figures = {.name = std::move(name),
                            .buffers = static_cast<int64_t>(buffers.size())};
  COPPICE_ASSIGN_OR_RETURN(figures.timed, TimePlan(buffers));
  return figures;
}

// The built-in ones, each unpacked when its turn comes; no further ones once the command is to
// stop.
absl::StatusOr<PoolFigures> Measure(const Console& console) {
  const auto total = static_cast<int64_t>(BuiltInFamilies().size() + BuiltInPrograms().size());
  Progress progress(console.err, /*enabled=*/true, "bench pool");
  PoolFigures figures;
  int64_t done = 0;
  const auto begin = [&] {
    if (done > 0 && console.stopped()) return false;
    progress.Update(done++, total);
    figures.reference_ms = std::min(figures.reference_ms, ReferenceLoopMs());
    return true;
  };
  for (const PackedPrograms& family : BuiltInFamilies()) {
    if (!begin()) return figures;
    COPPICE_ASSIGN_OR_RETURN(figures.families.emplace_back(),
                             MeasureFamily(family.name, family.Unpack()));
  }
  for (const PackedPrograms& program : BuiltInPrograms()) {
    if (!begin()) return figures;
    COPPICE_ASSIGN_OR_RETURN(figures.programs.emplace_back(),
                             MeasureProgram(program.name, std::move(program.Unpack().front())));
  }
  return figures;
}

Json JsonOf(const FamilyFigures& family) {
  Json orders = Json::array();
  Json caching = Json::array();
  for (const OrderFigures& one : family.orders) {
    orders.push_back(
        {{"order", one.order}, {"height_bytes", one.height}, {"bound_bytes", family.bound}});
    caching.push_back({{"order", one.order}, {"reserved_bytes", one.reserved_bytes}});
  }
  return {{"name", family.name},
          {"buckets", family.buckets},
          {"buffers", family.buffers},
          {"plan_ms_total", family.plan_ms},
          {"buckets_at_bound", family.buckets_at_bound},
          {"orders", orders},
          {"caching_allocator", caching}};
}

Json JsonOf(const PoolFigures& figures) {
  Json families = Json::array();
  for (const FamilyFigures& family : figures.families)
    families.push_back(JsonOf(family));
  Json programs = Json::array();
  for (const ProgramFigures& program : figures.programs) {
    programs.push_back({{"name", program.name},
                        {"buffers", program.buffers},
                        {"height_bytes", program.timed.result.plan.height},
                        {"bound_bytes", program.timed.result.bound},
                        {"plan_ms", program.timed.ms},
                        {"method", program.timed.result.method}});
  }
  return {{"families", families}, {"programs", programs}, {"reference_ms", figures.reference_ms}};
}

std::string FormatFamilies(const std::vector<FamilyFigures>& families) {
  TextTable table("lrrrrrrrrr", {"family", "buckets", "buffers", "bound", "height / bound",
                                 "at bound", "plan all", "caching asc", "desc", "random"});
  for (const FamilyFigures& family : families) {
    int64_t height = 0;
    int64_t least = INT64_MAX;
    int64_t most = 0;
    for (const OrderFigures& one : family.orders) {
      height = std::max(height, one.height);
      if (!one.order.starts_with("random")) continue;
      least = std::min(least, one.reserved_bytes);
      most = std::max(most, one.reserved_bytes);
    }
    const auto caching = [&](int64_t bytes) {
      return fmt::format("{:.2f}", Ratio(bytes, family.bound));
    };
    table.Add({family.name, fmt::format("{}", family.buckets), fmt::format("{}", family.buffers),
               FormatBytes(family.bound), fmt::format("{:.4f}", Ratio(height, family.bound)),
               fmt::format("{} of {}", family.buckets_at_bound, family.buckets),
               fmt::format("{:.2f} ms", family.plan_ms), caching(family.orders[0].reserved_bytes),
               caching(family.orders[1].reserved_bytes), caching(least) + "-" + caching(most)});
  }
  return table.Format() +
         "\n"
         "height: height of the arena after all buckets, in the worst recording order\n"
         "caching: bytes a caching allocator reserves for the same requests / bound, per order\n"
         "\n";
}

std::string FormatPrograms(const std::vector<ProgramFigures>& programs) {
  TextTable table("lrrrrrl",
                  {"program", "buffers", "bound", "height", "/ bound", "plan", "method"});
  for (const auto& [name, buffers, timed] : programs)
    table.Add({name, fmt::format("{}", buffers), FormatBytes(timed.result.bound),
               FormatBytes(timed.result.plan.height), fmt::format("{:.4f}", timed.result.gap()),
               fmt::format("{:.2f} ms", timed.ms), fmt::format("{}", timed.result.method)});
  return table.Format();
}

}  // namespace

absl::StatusOr<BenchReport> BenchPool(const BenchOptions& /*options*/, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const PoolFigures figures, Measure(console));
  return BenchReport{
      .json = JsonOf(figures),
      .text = fmt::format("{}{}\nreference loop {:.2f} ms\n", FormatFamilies(figures.families),
                          FormatPrograms(figures.programs), figures.reference_ms)};
}

}  // namespace coppice
