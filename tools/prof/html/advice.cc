// What costs most, in words, and what to do about it.

#include <algorithm>
#include <array>
#include <cctype>
#include <string>

#include "fmt/format.h"

#include "coppice/base/units.h"

#include "tools/prof/bucket_drops.h"
#include "tools/prof/html/report_document.h"
#include "tools/prof/remedy.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

// From here on a share of something is worth a line, and from there on it comes first. Percent.
constexpr double kNoticed = 5;
constexpr double kCostly = 20;
constexpr double kRareCalls = 1;  // A bucket with no larger share of the calls is rare.
constexpr double kTightBudget = 90;
constexpr size_t kRareBucketsMax = 5;

enum class Level { kHigh, kMedium, kLow, kGood };

const char* NameOf(Level level) {
  static constexpr std::array kNames = {"high", "medium", "low", "good"};
  return kNames[static_cast<size_t>(level)];
}

double ShareOf(int64_t part, int64_t whole) {
  return whole <= 0 ? 0 : 100.0 * static_cast<double>(part) / static_cast<double>(whole);
}

Level LevelOf(double share) {
  return share >= kCostly ? Level::kHigh : Level::kMedium;
}

// "over largest bucket".
std::string Words(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

// "0.02 %", but what is there is not 0.
std::string Percentage(double share) {
  return share > 0 && share < 0.01 ? "less than 0.01 %" : fmt::format("{:.2f} %", share);
}

class Findings {
 public:
  explicit Findings(const ReportFacts& facts) : facts_(facts) {
    calls_ = facts.unbucketed.calls();
    for (const BucketFigures& bucket : facts.buckets)
      calls_ += bucket.calls();
    for (const ReportBytes& bytes : facts.bytes)
      peak_ = std::max(peak_, bytes.total);
  }

  void AddGaps() {
    const PoolTrace& trace = facts_.trace;
    if (trace.dropped > 0) {
      Add(Level::kHigh, "timeline", fmt::format("{} lost", Counted(trace.dropped, "event")),
          "A ring buffer was full, so counts are too low and some bytes may be missing.",
          "Make TraceOptions::events_per_lane larger, or set wait_when_full.");
    }
    if (!trace.ended) {
      Add(Level::kLow, "timeline", "The trace has no end",
          "The session was still running when the file was read, or it ended abnormally.",
          "Read the trace again after the session has ended.");
    }
  }

  void AddPadding() {
    struct Padding {
      int64_t real = 0;
      int64_t padded = 0;
      int worst = -1;  // The bucket with most of it ...
      int64_t worst_waste = 0;
    };
    std::vector<Padding> programs(facts_.trace.programs.size());
    for (const BucketFigures& bucket : facts_.buckets) {
      Padding& program = programs[static_cast<size_t>(facts_.ProgramOf(bucket.bucket))];
      program.real = AddUpTo(program.real, bucket.real_elements);
      program.padded = AddUpTo(program.padded, bucket.padded_elements);
      const int64_t waste = bucket.padded_elements - bucket.real_elements;
      if (waste <= program.worst_waste) continue;
      program.worst_waste = waste;
      program.worst = bucket.bucket;
    }
    for (size_t i = 0; i < programs.size(); ++i) {
      const Padding& program = programs[i];
      const int64_t waste = program.padded - program.real;
      const double share = ShareOf(waste, program.padded);
      if (share < kNoticed || program.worst < 0) continue;
      Add(LevelOf(share), "buckets",
          fmt::format("{:.1f} % of the elements that {} stages are padding", share,
                      LabelOfProgram(facts_.trace, static_cast<int>(i))),
          fmt::format(
              "{} of {} staged elements are padding; bucket {} alone has {:.0f} % of this padding.",
              Grouped(waste), Grouped(program.padded), facts_.NameOf(program.worst),
              ShareOf(program.worst_waste, waste)),
          "Learn the buckets from this traffic (coppice tune, the policy \"learn\" in Python, or "
          "Session::policies().Rebucket), or add a bucket just below that bucket.");
    }
  }

  void AddRareBuckets() {
    int64_t pool = 0;
    for (const TracedNode& node : facts_.trace.nodes)
      pool = std::max(pool, node.height);
    pool = AlignUp(pool, facts_.trace.granularity);
    size_t added = 0;
    for (const BucketDrop& drop : RankDrops(facts_.trace, facts_.buckets, facts_.policies)) {
      const double calls = ShareOf(drop.calls, calls_);
      if (ShareOf(drop.mapped_bytes, pool) < kNoticed || calls > kRareCalls) continue;
      if (++added > kRareBucketsMax) break;
      const double of_peak = ShareOf(drop.freed_bytes(), peak_);
      Add(of_peak >= kNoticed ? LevelOf(of_peak) : Level::kLow, "buckets",
          fmt::format("Bucket {}{} is rarely used, but holds {}", facts_.NameOf(drop.bucket),
                      LaneText(drop.bucket), FormatBytes(drop.freed_bytes())),
          fmt::format("{}, {} of all calls. Dropping the bucket frees {} of plans and an estimated "
                      "{} of graphs; its calls then run {}.",
                      Counted(drop.calls, "call"), Percentage(calls),
                      FormatBytes(drop.mapped_bytes), FormatBytes(drop.exec_bytes),
                      drop.served_by < 0 ? "without a graph"
                                         : "in bucket " + facts_.NameOf(drop.served_by)),
          "Leave the bucket out of the policy; to try this first, run coppice prof whatif TRACE "
          "--drop PROGRAM:BUCKET.");
    }
  }

  void AddGraphBytes() {
    int64_t exec = 0;
    for (const BucketFigures& bucket : facts_.buckets)
      exec = AddUpTo(exec, bucket.exec_bytes);
    const double share = ShareOf(exec, peak_);
    if (share < kCostly) return;
    const int64_t left = GraphsLeft();
    Add(Level::kLow, "memory",
        fmt::format("Executable graphs take {}, {:.0f} % of the peak", FormatBytes(exec), share),
        fmt::format("{} {}; the size is an estimate.", Counted(left, "graph"),
                    left == 1 ? "exists, and the driver keeps memory for it"
                              : "exist, and the driver keeps memory for each"),
        "Fewer buckets mean fewer graphs: look for graphs that replay too rarely to repay their "
        "recording.");
  }

  void AddReasons() {
    std::array<int64_t, kReasonCount> counts{};
    for (const ReportCall& call : facts_.calls)
      if (call.path == RunKind::kEager || call.path == RunKind::kWarmUp)
        ++counts[static_cast<size_t>(call.reason)];
    for (size_t i = 0; i < counts.size(); ++i) {
      const Reason reason = static_cast<Reason>(i);
      const double share = ShareOf(counts[i], calls_);
      if (counts[i] == 0 || (reason == Reason::kNewBucket && share < kNoticed)) continue;
      Add(share >= kCostly      ? Level::kHigh
          : share >= kRareCalls ? Level::kMedium
                                : Level::kLow,
          "why",
          fmt::format("{} ran without a graph: {}", Counted(counts[i], "call"),
                      Words(coppice::NameOf(reason))),
          fmt::format("That is {} of all calls.", Percentage(share)), AdviceFor(reason));
    }
  }

  void AddEvictions() {
    int64_t evicted = 0;
    for (const BucketFigures& bucket : facts_.buckets)
      evicted += bucket.evicted;
    if (evicted == 0) return;
    int64_t again = 0;
    int64_t again_ns = 0;
    for (const TracedNode& node : facts_.trace.nodes) {
      if (node.reason != Reason::kEvicted) continue;
      ++again;
      again_ns = AddUpTo(again_ns, node.record_ns);
    }
    Add(again > 0 ? Level::kMedium : Level::kLow, "memory",
        fmt::format("{} evicted, {} recorded again", Counted(evicted, "graph"), again),
        again > 0
            ? fmt::format("Recording these graphs again took {:.1f} ms.",
                          static_cast<double>(again_ns) / 1e6)
            : "Graphs are dropped to make room, if a policy no longer has their bucket, or if the "
              "application drops them.",
        again > 0 ? "Give the session a larger budget or more graphs per program, or drop the "
                    "buckets that evict each other."
                  : "Nothing to do.");
  }

  void AddFailures() {
    int64_t failed = 0;
    for (const TracedEvent& moment : facts_.moments)
      failed += moment.As<FailEvent>() != nullptr ? 1 : 0;
    if (failed == 0) return;
    Add(Level::kHigh, "why", fmt::format("{} failed", Counted(failed, "recording")),
        "Calls of the affected buckets run without a graph; the failed driver call is below.",
        "The program does something that CUDA forbids during a capture: remove it, or do it before "
        "or after the program.");
  }

  void AddBudget() {
    const int64_t budget = facts_.trace.budget;
    if (budget == 0) return;
    const double share = ShareOf(peak_, budget);
    const std::string what =
        fmt::format("At most {} of {}.", FormatBytes(peak_), FormatBytes(budget));
    if (share < kTightBudget) {
      Add(Level::kGood, "memory", fmt::format("{:.0f} % of the budget is free", 100 - share), what,
          "Nothing to do; the free part could hold more buckets.");
      return;
    }
    Add(Level::kHigh, "memory", fmt::format("The budget is {:.0f} % full", share), what,
        "Raise MemoryOptions::budget_bytes, or drop buckets that only a few calls need, before "
        "graphs are evicted.");
  }

  void AddReplays() {
    int64_t replays = 0;
    int64_t records = 0;
    for (const BucketFigures& bucket : facts_.buckets) {
      replays += bucket.on(RunKind::kReplay);
      records += bucket.on(RunKind::kRecord);
    }
    const double share = ShareOf(replays, calls_);
    if (calls_ == 0) {
      Add(Level::kLow, "timeline", "The trace has no calls", "Nothing ran.",
          "Trace a session while it serves.");
    } else if (share >= 100 - kNoticed) {
      Add(Level::kGood, "timeline", fmt::format("{:.2f} % of the calls were replays", share),
          fmt::format("{} of {}; {} recorded.", Grouped(replays), Grouped(calls_),
                      Grouped(records)),
          "Nothing to do.");
    }
  }

  Json Take() {
    std::stable_sort(rows_.begin(), rows_.end(),
                     [](const Row& a, const Row& b) { return a.level < b.level; });
    Json json = Json::array();
    for (Row& row : rows_)
      json.push_back(std::move(row.json));
    return json;
  }

 private:
  struct Row {
    Level level;
    Json json;
  };

  void Add(Level level,
           const char* view,
           const std::string& title,
           const std::string& what,
           const std::string& advice) {
    rows_.push_back({level,
                     {{"level", NameOf(level)},
                      {"view", view},
                      {"title", title},
                      {"what", what},
                      {"advice", advice}}});
  }

  // Tells buckets of equal extents on several lanes apart.
  std::string LaneText(int bucket) const {
    if (facts_.trace.lanes == 1) return {};
    return fmt::format(" of lane {}", facts_.trace.buckets[static_cast<size_t>(bucket)].lane);
  }

  int64_t GraphsLeft() const {
    int64_t graphs = 0;
    for (const BucketFigures& bucket : facts_.buckets)
      graphs += bucket.recorded - bucket.evicted;
    return graphs;
  }

  const ReportFacts& facts_;
  int64_t calls_ = 0;
  int64_t peak_ = 0;  // Of all kinds of bytes.
  std::vector<Row> rows_;
};

}  // namespace

std::string AdviceFor(Reason reason) {
  std::string sentence = RemedyOf(reason);
  if (sentence.empty()) return "Nothing to do.";
  sentence[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(sentence[0])));
  return sentence + ".";
}

Json FindingsOf(const ReportFacts& facts) {
  Findings findings(facts);
  findings.AddGaps();
  findings.AddFailures();
  findings.AddBudget();
  findings.AddPadding();
  findings.AddRareBuckets();
  findings.AddReasons();
  findings.AddEvictions();
  findings.AddGraphBytes();
  findings.AddReplays();
  return findings.Take();
}

}  // namespace coppice
