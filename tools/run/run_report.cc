// Derives the figures once, then prints them twice.

#include "tools/run/run_report.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "tools/support/byte_text.h"
#include "tools/support/statistics.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

struct Figures {
  int64_t replays = 0;
  int64_t records = 0;
  int64_t warm_ups = 0;
  int64_t eager = 0;
  int64_t graphs = 0;
  double replay_pct = 0;  // Of the calls after each bucket's warm-up and record.
  double pad_waste_pct = 0;
  double pad_computed_pct = 0;  // Elements that replays computed for padding, of the real ones.
  int64_t executables = 0;
  int64_t families = 0;  // Executables that are set to the sizes of calls.
  int64_t max_bucket_live_bytes = 0;
  int64_t sum_bucket_bytes = 0;
  double record_ms_p50 = 0;
  double replay_host_ns_p50 = 0;
  double replay_driver_ns_p50 = 0;
};

int64_t CallsOn(const SessionStats& stats, RunKind path) {
  return stats.runs[static_cast<size_t>(path)];
}

Figures Derive(const RunReport& report) {
  const SessionStats& stats = report.stats;
  Figures figures;
  figures.replays = CallsOn(stats, RunKind::kReplay);
  figures.records = CallsOn(stats, RunKind::kRecord);
  figures.warm_ups = CallsOn(stats, RunKind::kWarmUp);
  figures.eager = figures.warm_ups + CallsOn(stats, RunKind::kEager);
  figures.replay_pct = Percent(figures.replays, stats.calls - figures.warm_ups - figures.records);
  figures.pad_waste_pct =
      Percent(stats.padded_elements - stats.real_elements, stats.padded_elements);
  figures.pad_computed_pct =
      Percent(stats.padded_elements - stats.real_elements, stats.real_elements);
  std::vector<int64_t> record_ns;
  std::set<int64_t> families;
  for (const NodeInfo& node : report.nodes) {
    if (!node.recorded) continue;
    ++figures.graphs;
    if (node.family > 0)
      families.insert(node.family);
    else
      figures.executables += node.graphs;
    record_ns.push_back(node.record_ns);
    figures.max_bucket_live_bytes = std::max(figures.max_bucket_live_bytes, node.live_bytes);
    figures.sum_bucket_bytes += node.plan_height;
  }
  figures.families = std::ssize(families);
  figures.executables += figures.families;
  figures.record_ms_p50 = Median(std::move(record_ns)) / 1e6;
  figures.replay_host_ns_p50 = Median(report.replay_host_ns);
  figures.replay_driver_ns_p50 = Median(report.replay_driver_ns);
  return figures;
}

// "a 3, b 1", or "none".
std::string EagerReasons(const SessionStats& stats) {
  std::vector<std::string> parts;
  for (int i = 0; i < kReasonCount; ++i) {
    const int64_t count = stats.reasons[static_cast<size_t>(i)];
    if (count > 0) parts.push_back(fmt::format("{} {}", NameOf(static_cast<Reason>(i)), count));
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, ", "));
}

std::string EqualHow(const Equality& equal) {
  if (equal.bits) return "bit for bit";
  return fmt::format("within {:g} + {:g} x |reference|", equal.absolute, equal.relative);
}

std::string VerifiedHow(const RunReport& report) {
  if (report.bound > 0) return fmt::format("within {:g} x (1 + |reference|)", report.bound);
  if (report.prefill_claimed == report.decode_claimed) return EqualHow(report.decode_claimed);
  return fmt::format("prefill {}, decode {}", EqualHow(report.prefill_claimed),
                     EqualHow(report.decode_claimed));
}

class Table {
 public:
  void Head(const char* title) { text_ += fmt::format("\n{}\n", title); }

  template <typename... Args>
  void Row(const char* label, fmt::format_string<Args...> format, Args&&... args) {
    text_ += fmt::format("  {:<22}{}\n", label, fmt::format(format, std::forward<Args>(args)...));
  }

  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

void AddJob(const RunReport& report, Table& table) {
  table.Row("trace", "{}, seed {}", report.trace, report.seed);
  table.Row("device", "{}: {}", report.device, report.device_name);
  if (report.package.empty()) {
    table.Row("kernels", "{}", report.kernels);
  } else {
    std::vector<std::string> targets;
    for (const auto& [name, kernels] : report.targets)
      targets.push_back(fmt::format("{} of {}", kernels, name));
    table.Row("package", "{}", report.package);
    table.Row("kernels", "{}: {}", report.kernels, fmt::join(targets, ", "));
  }
  table.Row("requests", "{}, lengths divided by {}, {} cut to fit the context of {} tokens",
            report.requests, report.shrink, report.requests_cut, report.max_context);
  table.Row("virtual clock", "a step costs {:g} ms + {:g} ms x rows; {:.1f} s in all",
            1e3 * report.cost.step_seconds, 1e3 * report.cost.row_seconds, report.virtual_seconds);
  table.Row("steps", "{}: {} prefill, {} decode in batches of up to {}",
            report.prefill_steps + report.decode_steps, report.prefill_steps, report.decode_steps,
            report.slots);
  table.Row("policies", "prefill {}, decode {}", report.prefill_policy, report.decode_policy);
  table.Row("recorded", "{}",
            report.order.empty() ? "when traffic first uses a bucket" : "ahead, " + report.order);
}

void AddCalls(const RunReport& report, const Figures& figures, Table& table) {
  table.Head("calls");
  table.Row(
      "calls", "{}{}", report.stats.calls,
      report.poison ? " (each step twice, with a different poison in the padding each time)" : "");
  table.Row("replays", "{} ({:.2f} % of the calls after warm-up and recording)", figures.replays,
            figures.replay_pct);
  table.Row("records", "{}", figures.records);
  table.Row("without a graph", "{}, {} of them warm-ups", figures.eager, figures.warm_ups);
  table.Row("reasons", "{}", EagerReasons(report.stats));
  table.Row("buckets replayed", "{} prefill, {} decode", report.prefill_buckets,
            report.decode_buckets);
  table.Row("padding waste", "{:.1f} % of the staged elements", figures.pad_waste_pct);
  if (report.stats.exact_replays > 0)
    table.Row("at exact sizes", "replays {}, executables {}, node updates {}",
              report.stats.exact_replays, figures.families, report.stats.patched_nodes);
}

std::string ListOf(const std::vector<int64_t>& buckets) {
  return buckets.empty() ? "none" : fmt::format("{}", fmt::join(buckets, ","));
}

void AddSymbol(const RelearnedSymbol& symbol, Table& table) {
  table.Row(fmt::format("{} {}", symbol.program, symbol.name).c_str(),
            "looks {}, swaps {}, graphs recorded {}", symbol.looks, symbol.swaps.size(),
            symbol.graphs());
  for (const BucketSwap& swap : symbol.swaps) {
    table.Row(fmt::format("  after {} steps", swap.step).c_str(),
              "new {}; gone {}; padding {:.2f} % to {:.2f} %{}", ListOf(swap.learned.added),
              ListOf(swap.learned.dropped), swap.learned.waste_before_pct,
              swap.learned.waste_after_pct,
              symbol.guarded ? ", ignoring the guard's refusals" : "");
  }
  if (symbol.refused > 0) table.Row("  refused", "{}, the last: {}", symbol.refused, symbol.why);
  table.Row("  buckets before", "{}", ListOf(symbol.buckets_before));
  if (symbol.swaps.empty()) {
    table.Row("  padding", "{:.2f} %", symbol.all.served.waste_pct());
    if (symbol.all.served.without > 0)
      table.Row("  without a bucket", "{} of {} steps", symbol.all.served.without,
                symbol.all.steps);
    return;
  }
  table.Row("  buckets after", "{}", ListOf(symbol.buckets_after));
  table.Row("  before the first", "{:.2f} % padding", symbol.before.served.waste_pct());
  const auto row = [&table](const char* label, const PaddingSum& sum) {
    table.Row(label, "{:.2f} % padding; {:.2f} % with the first buckets", sum.served.waste_pct(),
              sum.at_rest.waste_pct());
  };
  if (symbol.after.steps > 0) row("  after the last", symbol.after);
  row("  in all", symbol.all);
  if (symbol.all.served.without + symbol.all.at_rest.without > 0)
    table.Row("  without a bucket", "{} of {} steps; {} with the first buckets",
              symbol.all.served.without, symbol.all.steps, symbol.all.at_rest.without);
}

void AddRelearned(const RelearnReport& report, Table& table) {
  table.Head(fmt::format("relearned every {} steps of a program; padding in % of the real sizes",
                         report.period)
                 .c_str());
  for (const RelearnedSymbol& symbol : report.symbols)
    AddSymbol(symbol, table);
}

nlohmann::ordered_json CallsByReason(const SessionStats& stats) {
  nlohmann::ordered_json calls = nlohmann::ordered_json::object();
  for (int i = 1; i < kReasonCount; ++i)
    calls[NameOf(static_cast<Reason>(i))] = stats.reasons[static_cast<size_t>(i)];
  return calls;
}

nlohmann::ordered_json BytesByKind(const MemoryUsage& usage) {
  nlohmann::ordered_json bytes = nlohmann::ordered_json::object();
  for (int i = 0; i < kMemoryKindCount; ++i)
    bytes[NameOf(static_cast<MemoryKind>(i))] = usage.bytes[static_cast<size_t>(i)];
  return bytes;
}

nlohmann::ordered_json JsonOf(const RelearnedSymbol& symbol) {
  nlohmann::ordered_json swaps = nlohmann::ordered_json::array();
  for (const BucketSwap& swap : symbol.swaps) {
    swaps.push_back({{"step", swap.step},
                     {"graphs", swap.graphs},
                     {"added", swap.learned.added},
                     {"dropped", swap.learned.dropped},
                     {"waste_before_pct", swap.learned.waste_before_pct},
                     {"waste_after_pct", swap.learned.waste_after_pct}});
  }
  const auto after = [&symbol](double waste) {
    return symbol.after.steps > 0 ? nlohmann::ordered_json(waste) : nlohmann::ordered_json();
  };
  return {{"program", symbol.program},
          {"symbol", symbol.name},
          {"looks", symbol.looks},
          {"swaps", swaps},
          {"graphs_recorded", symbol.graphs()},
          {"refused", symbol.refused},
          {"why", symbol.why},
          {"buckets_before", symbol.buckets_before},
          {"buckets_after", symbol.buckets_after},
          {"waste_before_first_swap_pct", symbol.before.served.waste_pct()},
          {"waste_after_last_swap_pct", after(symbol.after.served.waste_pct())},
          {"waste_after_last_swap_without_pct", after(symbol.after.at_rest.waste_pct())},
          {"waste_pct", symbol.all.served.waste_pct()},
          {"waste_without_pct", symbol.all.at_rest.waste_pct()},
          {"guarded", symbol.guarded},
          {"steps_without_bucket", symbol.all.served.without},
          {"steps_without_bucket_at_rest", symbol.all.at_rest.without}};
}

nlohmann::ordered_json JsonOf(const std::optional<RelearnReport>& report) {
  if (!report) return {};
  size_t swaps = 0;
  int64_t graphs = 0;
  nlohmann::ordered_json symbols = nlohmann::ordered_json::array();
  for (const RelearnedSymbol& symbol : report->symbols) {
    swaps += symbol.swaps.size();
    graphs += symbol.graphs();
    symbols.push_back(JsonOf(symbol));
  }
  return {{"period", report->period},
          {"swaps", swaps},
          {"graphs_recorded", graphs},
          {"symbols", symbols}};
}

nlohmann::ordered_json JsonOf(const Replayer::Padding& padding) {
  return {{"served", padding.served.waste_pct()}, {"pow2", padding.pow2.waste_pct()}};
}

nlohmann::ordered_json JsonOf(const std::optional<int64_t>& bytes) {
  return bytes ? nlohmann::ordered_json(*bytes) : nlohmann::ordered_json();
}

void AddMemory(const RunReport& report, const Figures& figures, Table& table) {
  table.Head("memory");
  table.Row("plan height", "{}", FormatBytes(report.pool.height));
  table.Row("largest bucket, live", "{}", FormatBytes(figures.max_bucket_live_bytes));
  table.Row("pool, mapped", "{}", FormatBytes(report.pool_mapped_bytes));
  table.Row("a pool per bucket", "{} over {} graphs", FormatBytes(figures.sum_bucket_bytes),
            figures.graphs);
  table.Row("eager window, peak", "{}", FormatBytes(report.pool.eager_peak));
  for (int i = 0; i < kMemoryKindCount; ++i) {
    const auto kind = static_cast<MemoryKind>(i);
    if (report.pool.peak_of(kind) == 0) continue;
    table.Row(NameOf(kind), "{} at the end, {} at most{}", FormatBytes(report.pool.of(kind)),
              FormatBytes(report.pool.peak_of(kind)),
              kind == MemoryKind::kGraphs ? ", estimated" : "");
  }
  table.Row("all kinds", "{} at the end, {} at most{}", FormatBytes(report.pool.total),
            FormatBytes(report.pool.total_peak),
            report.pool.budget == 0
                ? ""
                : fmt::format("; budget {}, graphs dropped to stay within it: {}",
                              FormatBytes(report.pool.budget), report.stats.evictions));
}

std::string PaddingOf(const char* program, const Replayer::Padding& padding) {
  return fmt::format("{} {:.1f} % (powers of two {:.1f} %)", program, padding.served.waste_pct(),
                     padding.pow2.waste_pct());
}

// What a reader takes home.
void AddResult(const RunReport& report, const Figures& figures, Table& table) {
  table.Head("in short");
  table.Row("right", "mismatches with eager runs at real sizes: {} of {} comparisons, {}",
            report.mismatches, report.comparisons, VerifiedHow(report));
  table.Row(
      "memory", "{} (a pool per graph: {}{})", FormatBytes(report.pool.height),
      FormatBytes(figures.sum_bucket_bytes),
      report.caching_allocator_bytes
          ? fmt::format("; a caching allocator: {}", FormatBytes(*report.caching_allocator_bytes))
          : "");
  table.Row("speed", "{:.2f} us of host time per replay, {:.2f} us of it in the {}",
            figures.replay_host_ns_p50 / 1e3, figures.replay_driver_ns_p50 / 1e3,
            report.device == "host" ? "emulator" : "driver");
  table.Row("padding", "{}; {}", PaddingOf("prefill", report.prefill_padding),
            PaddingOf("decode", report.decode_padding));
}

// What was run, and how it was checked.
nlohmann::ordered_json JsonOfJob(const RunReport& report) {
  return {{"trace", report.trace},
          {"requests", report.requests},
          {"requests_cut", report.requests_cut},
          {"prefill_steps", report.prefill_steps},
          {"decode_steps", report.decode_steps},
          {"verify", report.verify},
          {"verified_requests", report.verified_requests},
          {"verified_steps", report.verified_steps},
          {"comparisons", report.comparisons},
          {"bound", report.bound},
          {"poison", report.poison},
          {"mismatch_lines", report.mismatch_lines},
          {"findings", report.emulator_reports.size()},
          {"emulator_reports", report.emulator_reports},
          {"device", report.device},
          {"device_name", report.device_name},
          {"kernels", report.kernels},
          {"package", report.package},
          {"targets", report.targets},
          {"shrink", report.shrink},
          {"slots", report.slots},
          {"max_context", report.max_context},
          {"prefill_policy", report.prefill_policy},
          {"decode_policy", report.decode_policy},
          {"order", report.order},
          {"relearn", JsonOf(report.relearned)},
          {"seed", report.seed},
          {"step_seconds", report.cost.step_seconds},
          {"row_seconds", report.cost.row_seconds},
          {"virtual_seconds", report.virtual_seconds},
          {"wall_seconds", report.wall_seconds}};
}

}  // namespace

std::string FormatTable(const RunReport& report) {
  const Figures figures = Derive(report);
  Table table;
  AddJob(report, table);
  AddCalls(report, figures, table);
  if (report.relearned) AddRelearned(*report.relearned, table);
  AddMemory(report, figures, table);
  table.Head("time");
  table.Row("to record a graph", "{:.3f} ms (median)", figures.record_ms_p50);
  table.Row("host, per replay", "{:.2f} us (median)", figures.replay_host_ns_p50 / 1e3);
  table.Row("driver, modelled", "{:.1f} ms for {} calls, on {}", report.modelled_driver_us / 1e3,
            report.driver_calls, report.latency_table);
  table.Row("wall", "{:.1f} s", report.wall_seconds);
  table.Head("verification");
  table.Row("compared", "{}: {} of {} requests, {} steps, {}", report.verify,
            report.verified_requests, report.requests, report.verified_steps, VerifiedHow(report));
  table.Row("mismatches", "{} in {} comparisons", report.mismatches, report.comparisons);
  for (const std::string& line : report.mismatch_lines)
    table.Row("", "{}", line);
  for (const std::string& line : report.emulator_reports)
    table.Row("emulator reports", "{}", line);
  AddResult(report, figures, table);
  return table.text();
}

std::string FormatJson(const RunReport& report) {
  const Figures figures = Derive(report);
  nlohmann::ordered_json json = {
      {"calls", report.stats.calls},
      {"replays", figures.replays},
      {"eager", figures.eager},
      {"prefill_buckets", report.prefill_buckets},
      {"decode_buckets", report.decode_buckets},
      {"mismatches", report.mismatches},
      {"pad_waste_pct", figures.pad_waste_pct},
      {"pool_height_bytes", report.pool.height},
      {"pool_mapped_bytes", report.pool_mapped_bytes},
      {"eager_peak_bytes", report.pool.eager_peak},
      {"max_bucket_live_bytes", figures.max_bucket_live_bytes},
      {"sum_bucket_bytes", figures.sum_bucket_bytes},
      {"record_ms_p50", figures.record_ms_p50},
      {"caching_allocator_bytes", JsonOf(report.caching_allocator_bytes)},
      {"replay_host_ns_p50", figures.replay_host_ns_p50},
      {"replay_driver_ns_p50", figures.replay_driver_ns_p50},
      {"prefill_padding_pct", JsonOf(report.prefill_padding)},
      {"decode_padding_pct", JsonOf(report.decode_padding)},
      {"driver_calls", report.driver_calls},
      {"modelled_driver_us", report.modelled_driver_us},
      {"latency_table", report.latency_table},
      {"records", figures.records},
      {"warm_ups", figures.warm_ups},
      {"replay_pct_after_record", figures.replay_pct},
      {"reasons", CallsByReason(report.stats)},
      {"graphs", figures.graphs},
      {"executables", figures.executables},
      {"families", figures.families},
      {"pad_computed_pct", figures.pad_computed_pct},
      {"exact_replays", report.stats.exact_replays},
      {"patched_nodes", report.stats.patched_nodes},
      {"staging_mapped_bytes", report.pool.of(MemoryKind::kStaging)},
      {"memory_bytes", BytesByKind(report.pool)},
      {"memory_peak_bytes", report.pool.total_peak},
      {"budget_bytes", report.pool.budget},
      {"evictions", report.stats.evictions},
      {"remaps", report.stats.remaps}};
  json.update(JsonOfJob(report));
  // A file name may hold bytes that are not UTF-8.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace coppice
