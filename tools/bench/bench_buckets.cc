// Records the decode step of every batch size into one pool, in several orders and with outputs
// dropped and held; then watches what recording does to a kernel stream beside it.

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/bench/bench.h"
#include "tools/bench/bench_model.h"
#include "tools/bench/kernel_watch.h"
#include "tools/support/byte_text.h"
#include "tools/support/console.h"
#include "tools/support/progress.h"
#include "tools/support/recording_order.h"
#include "tools/support/statistics.h"
#include "tools/support/stopwatch.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kRoundsMax = 2000;  // That are printed of each.
constexpr int64_t kIdleMs = 200;     // How long the other stream is watched beside nothing.

// One session, in which some buckets are recorded.
struct CaseFigures {
  std::string order;
  bool held = false;             // All results stay leased; else each is dropped at once.
  std::vector<int64_t> batches;  // In the order of recording.
  std::vector<double> record_ms;
  int64_t nodes = 0;         // Of all graphs.
  int64_t exec_bytes = 0;    // Of all graphs, estimated.
  int64_t mapped_bytes = 0;  // Of the plan window.
  MemoryUsage usage;         // The pool's books.
  int64_t driver_bytes = 0;  // What the driver has free less than before the first case.
  int64_t left_bytes = 0;    // The same, once the session is gone.
  int64_t mismatches = 0;    // Steps that predicted other tokens than eagerly.
  absl::Status status;       // Why there are no figures.
};

struct StallFigures {
  std::vector<double> idle;    // Microseconds of each round ...
  std::vector<double> beside;  // ... of the other stream.
  double recorded_ms = 0;      // All buckets.
};

struct BucketsFigures {
  std::vector<CaseFigures> cases;
  absl::StatusOr<StallFigures> stall = absl::UnknownError("not measured");

  const CaseFigures& largest() const { return cases.back(); }
};

// Room to keep the outputs of one step of each batch size.
int64_t CopyOutBytes(const BenchModel& model) {
  int64_t bytes = 0;
  for (const int64_t batch : model.batches().buckets()) {
    bytes += AlignUp(batch * model.config().vocab * SizeOf(DType::kFloat32), kBufferAlignment) +
             AlignUp(batch * SizeOf(DType::kInt32), kBufferAlignment);
  }
  return bytes;
}

class BucketsBench {
 public:
  BucketsBench(const BenchModel& model, const Console& console)
      : model_(model), batches_(model.batches().buckets()), console_(console) {}

  // Errors: what spoils every figure. A case or the stall may fail alone.
  absl::StatusOr<BucketsFigures> Measure() {
    COPPICE_ASSIGN_OR_RETURN(expected_, EagerTokens(model_, batches_));
    // What the first graph of a process makes the driver keep for good is nobody's.
    CaseFigures ignored = {.batches = {batches_.back()}};
    COPPICE_RETURN_IF_ERROR(RecordCase(ignored));
    COPPICE_ASSIGN_OR_RETURN(free_bytes_, model_.FreeBytes());
    BucketsFigures figures;
    // First, because a driver may keep memory of graphs that are gone for those to come.
    CaseFigures largest = MeasureCase("largest", {batches_.back()}, /*held=*/false);
    for (const bool held : {false, true}) {
      for (const RecordingOrder& order : Orders()) {
        std::vector<int64_t> arranged = batches_;
        Arrange(order, arranged);
        figures.cases.push_back(MeasureCase(NameOf(order), std::move(arranged), held));
      }
    }
    figures.cases.push_back(std::move(largest));
    figures.stall = MeasureStall();
    return figures;
  }

 private:
  static std::vector<RecordingOrder> Orders() {
    return {{.kind = RecordingOrder::Kind::kAscending},
            {.kind = RecordingOrder::Kind::kDescending},
            {.kind = RecordingOrder::Kind::kRandom, .seed = 1}};
  }

  CaseFigures MeasureCase(std::string order, std::vector<int64_t> batches, bool held) {
    CaseFigures figures;
    figures.order = std::move(order);
    figures.batches = std::move(batches);
    figures.held = held;
    figures.status = RecordCase(figures);
    const absl::StatusOr<int64_t> free_bytes = model_.FreeBytes();
    if (free_bytes.ok()) figures.left_bytes = free_bytes_ - *free_bytes;
    return figures;
  }

  absl::Status RecordCase(CaseFigures& figures) {
    SessionOptions options;
    if (figures.held) options.memory.copy_out_bytes = CopyOutBytes(model_);
    COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DecodeSession> decode,
                             DecodeSession::Create(model_, options));
    std::vector<std::pair<int64_t, Lease>> leases;
    for (const int64_t batch : figures.batches) {
      if (console_.stopped()) return absl::CancelledError(kStopped);
      COPPICE_ASSIGN_OR_RETURN(Lease lease, RecordBucket(*decode, batch, figures));
      if (figures.held) leases.emplace_back(batch, std::move(lease));
    }
    COPPICE_RETURN_IF_ERROR(model_.stream().Synchronize());
    COPPICE_RETURN_IF_ERROR(Weigh(decode->session(), figures));
    for (const auto& [batch, lease] : leases)
      COPPICE_RETURN_IF_ERROR(Compare(*decode, batch, lease, figures));
    for (const int64_t batch : figures.batches) {
      COPPICE_ASSIGN_OR_RETURN(const Lease lease, decode->RunExpecting(RunKind::kReplay, batch));
      COPPICE_RETURN_IF_ERROR(Compare(*decode, batch, lease, figures));
    }
    return absl::OkStatus();
  }

  // Runs a bucket's first two steps, and times the second one, which records.
  absl::StatusOr<Lease> RecordBucket(const DecodeSession& decode,
                                     int64_t batch,
                                     CaseFigures& figures) {
    COPPICE_RETURN_IF_ERROR(decode.RunExpecting(RunKind::kWarmUp, batch).status());
    COPPICE_RETURN_IF_ERROR(model_.stream().Synchronize());
    const OutputMode mode = figures.held ? OutputMode::kCopyOut : OutputMode::kBorrow;
    Stopwatch stopwatch;
    COPPICE_ASSIGN_OR_RETURN(Lease lease, decode.RunExpecting(RunKind::kRecord, batch, mode));
    figures.record_ms.push_back(stopwatch.Lap() / 1e3);
    Advance();
    return lease;
  }

  // What the session has, once it is given no more than replays need.
  absl::Status Weigh(Session& session, CaseFigures& figures) const {
    COPPICE_RETURN_IF_ERROR(session.memory().Trim());
    figures.usage = session.memory().usage();
    figures.mapped_bytes = session.memory().window(0, MemoryKind::kPlan).mapped_bytes;
    COPPICE_ASSIGN_OR_RETURN(const int64_t free_bytes, model_.FreeBytes());
    figures.driver_bytes = free_bytes_ - free_bytes;
    for (const NodeInfo& node : session.nodes()) {
      figures.nodes += node.graph_nodes;
      figures.exec_bytes += node.exec_bytes;
    }
    return absl::OkStatus();
  }

  absl::Status Compare(const DecodeSession& decode,
                       int64_t batch,
                       const Lease& lease,
                       CaseFigures& figures) const {
    COPPICE_ASSIGN_OR_RETURN(const std::vector<int32_t> tokens, decode.ReadTokens(lease));
    if (tokens != expected_.at(batch)) ++figures.mismatches;
    return absl::OkStatus();
  }

  absl::StatusOr<StallFigures> MeasureStall() {
    if (console_.stopped()) return absl::CancelledError(kStopped);
    COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<KernelWatch> watch,
                             KernelWatch::Create(model_.context()));
    COPPICE_ASSIGN_OR_RETURN(const KvCache scratch,
                             KvCache::Create(model_.driver(), model_.config()));
    COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DecodeSession> decode,
                             DecodeSession::Create(model_, {}));
    // What warm-ups launch would take the device from the other stream.
    for (const int64_t batch : batches_) {
      COPPICE_RETURN_IF_ERROR(decode->RunExpecting(RunKind::kWarmUp, batch).status());
      Advance();
    }
    COPPICE_RETURN_IF_ERROR(model_.stream().Synchronize());
    StallFigures figures;
    COPPICE_ASSIGN_OR_RETURN(figures.idle, watch->WatchFor(kIdleMs));
    COPPICE_ASSIGN_OR_RETURN(figures.beside, watch->Watch([&] {
      Stopwatch stopwatch;
      COPPICE_RETURN_IF_ERROR(decode->Warm(batches_, scratch));
      figures.recorded_ms = stopwatch.Lap() / 1e3;
      return absl::OkStatus();
    }));
    return figures;
  }

  void Advance() {
    const int64_t passes = 2 * static_cast<int64_t>(Orders().size()) + 1;
    progress_.Update(++done_, passes * static_cast<int64_t>(batches_.size()) + 2);
  }

  const BenchModel& model_;
  const std::vector<int64_t> batches_;
  const Console& console_;
  Progress progress_{console_.err, /*enabled=*/true, "bench buckets"};
  int64_t done_ = 0;
  int64_t free_bytes_ = 0;  // Before the first case.
  std::map<int64_t, std::vector<int32_t>> expected_;
};

const char* OutputsOf(const CaseFigures& one) {
  return one.held ? "held" : "dropped";
}

// Mapped bytes of the plan window, against those of the largest bucket alone.
double MappedRatio(const CaseFigures& one, const CaseFigures& largest) {
  return static_cast<double>(one.mapped_bytes) / static_cast<double>(largest.mapped_bytes);
}

Json ToJson(const CaseFigures& one, const CaseFigures& largest) {
  Json json = {{"order", one.order}, {"outputs", OutputsOf(one)}};
  if (!one.status.ok()) {
    json["skipped"] = MessageOf(one.status);
    return json;
  }
  Json usage = Json::object();
  for (int i = 0; i < kMemoryKindCount; ++i)
    usage[NameOf(static_cast<MemoryKind>(i))] = one.usage.of(static_cast<MemoryKind>(i));
  json.update({{"buckets", one.batches.size()},
               {"nodes", one.nodes},
               {"own_bytes", one.usage.total},
               {"driver_bytes", one.driver_bytes},
               {"left_bytes", one.left_bytes},
               {"exec_bytes", one.exec_bytes},
               {"mapped_bytes", one.mapped_bytes},
               {"height_bytes", one.usage.height},
               {"usage", usage},
               {"mismatches", one.mismatches},
               {"recorded", one.batches},
               {"record_ms", one.record_ms}});
  if (largest.status.ok()) json["mapped_ratio"] = MappedRatio(one, largest);
  return json;
}

// The values in order; of too many, evenly spaced ones, both ends included.
std::vector<double> Thinned(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  if (values.size() <= kRoundsMax) return values;
  std::vector<double> kept;
  for (size_t i = 0; i < kRoundsMax; ++i)
    kept.push_back(values[i * (values.size() - 1) / (kRoundsMax - 1)]);
  return kept;
}

Json ToJson(const absl::StatusOr<StallFigures>& stall) {
  if (!stall.ok()) return {{"skipped", MessageOf(stall.status())}};
  return {{"recorded_ms", stall->recorded_ms},
          {"rounds", {{"idle", stall->idle.size()}, {"beside", stall->beside.size()}}},
          {"idle_us", Thinned(stall->idle)},
          {"beside_us", Thinned(stall->beside)}};
}

Json ToJson(const BucketsFigures& figures, const BenchModel& model) {
  Json cases = Json::array();
  for (const CaseFigures& one : figures.cases)
    cases.push_back(ToJson(one, figures.largest()));
  return {{"section", "buckets"},
          {"device", model.kind()},
          {"device_name", model.DeviceName()},
          {"model", ToJson(model.config())},
          {"batches", model.batches().buckets()},
          {"cases", cases},
          {"stall", ToJson(figures.stall)}};
}

std::string FormatCases(const BucketsFigures& figures) {
  TextTable table("llrrrrrrrr", {"order", "outputs", "buckets", "nodes", "pool, mapped",
                                 "/ largest", "all kinds", "driver", "graphs, est.", "to record"});
  for (const CaseFigures& one : figures.cases) {
    if (!one.status.ok()) {
      table.Add({one.order, OutputsOf(one), "-", "-", "-", "-", "-", "-", "-", "-"});
      continue;
    }
    const double all_ms = std::accumulate(one.record_ms.begin(), one.record_ms.end(), 0.0);
    table.Add({one.order, OutputsOf(one), fmt::format("{}", one.batches.size()),
               fmt::format("{}", one.nodes), FormatBytes(one.mapped_bytes),
               figures.largest().status.ok()
                   ? fmt::format("{:.4f}", MappedRatio(one, figures.largest()))
                   : "-",
               FormatBytes(one.usage.total), FormatBytes(one.driver_bytes),
               FormatBytes(one.exec_bytes), fmt::format("{:.1f} ms", all_ms)});
  }
  return table.Format();
}

std::string FormatStall(const StallFigures& stall) {
  TextTable table("lrrrr", {"a kernel beside", "rounds", "median", "p99", "longest"});
  const auto add = [&](const char* label, const std::vector<double>& us) {
    table.Add({label, fmt::format("{}", us.size()), fmt::format("{:.1f} us", Median(us)),
               fmt::format("{:.1f} us", Quantile(us, 0.99)),
               fmt::format("{:.1f} us", Quantile(us, 1))});
  };
  add("nothing", stall.idle);
  add("recording", stall.beside);
  return table.Format();
}

}  // namespace

absl::StatusOr<BenchReport> BenchBuckets(const BenchOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<BenchModel> model,
                           BenchModel::Open(ModelSize::kSmall, options.device));
  COPPICE_ASSIGN_OR_RETURN(const BucketsFigures figures, BucketsBench(*model, console).Measure());
  BenchReport report{.json = ToJson(figures, *model),
                     .text = fmt::format("{}\n{}", model->Title(), FormatCases(figures)),
                     .wrong = model->reports()};
  if (figures.stall.ok()) report.text += "\n" + FormatStall(*figures.stall);
  for (const CaseFigures& one : figures.cases) {
    const std::string name = fmt::format("order {}, outputs {}", one.order, OutputsOf(one));
    if (!one.status.ok()) {
      report.failed.push_back(fmt::format("{}: {}", name, MessageOf(one.status)));
    } else if (one.mismatches > 0) {
      report.wrong.push_back(fmt::format("{}: graphs change the predicted tokens of {}", name,
                                         Counted(one.mismatches, "step")));
    }
  }
  if (!figures.stall.ok()) report.failed.push_back("stall: " + MessageOf(figures.stall.status()));
  return report;
}

}  // namespace coppice
