// Leases are of the lane: outputs that lie in the plan window of another are in nobody's way.

#include "tools/prof/call_obstacles.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/padding/policy_document.h"

#include "tools/support/byte_text.h"

namespace coppice {
namespace {

constexpr size_t kLeasesNamed = 4;

// A whole number among the session's options; nothing in older traces.
std::optional<int64_t> OptionOf(const PoolTrace& trace, const char* name) {
  const auto options = nlohmann::json::parse(trace.options, nullptr, /*allow_exceptions=*/false);
  if (!options.is_object()) return std::nullopt;
  const auto found = options.find(name);
  if (found == options.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

// The largest bucket of a policy's document; 0 if it is none.
int64_t LargestOf(const std::string& document) {
  const absl::StatusOr<PolicyDocument> read = ReadPolicyDocument(document, "the trace");
  return read.ok() ? read->policy.maximum() : 0;
}

}  // namespace

void CallObstacles::See(const PoolTrace& trace, const TraceEvent& event) {
  const auto program_of = [&](int node) {
    return trace.buckets[static_cast<size_t>(trace.nodes[static_cast<size_t>(node)].bucket)]
        .program;
  };
  switch (event.kind) {
    case TraceEventKind::kOutputs:
      if (event.node >= 0) leased_[event.lane][event.call] = event.node;
      break;
    case TraceEventKind::kRelease:
    case TraceEventKind::kExpire:
      leased_[event.lane].erase(event.call);
      break;
    case TraceEventKind::kRecord:
      ++graphs_[{event.lane, program_of(event.node)}];
      break;
    case TraceEventKind::kEvict:
      --graphs_[{event.lane, program_of(event.node)}];
      evicted_ns_[trace.nodes[static_cast<size_t>(event.node)].bucket] = event.time_ns;
      break;
    case TraceEventKind::kBytes:
      booked_ = event.second;
      break;
    case TraceEventKind::kPolicy:
      largest_buckets_[{event.program, event.symbol}] =
          LargestOf(trace.policies[static_cast<size_t>(event.policy)]);
      break;
    case TraceEventKind::kCall:
      if (event.reason == Reason::kOverLargestBucket) SeeOverLargest(trace, event);
      break;
    default:
      break;
  }
}

// Of symbols whose policy is that of the program's definition.
void CallObstacles::SeeOverLargest(const PoolTrace& trace, const TraceEvent& call) {
  if (call.program < 0) return;
  const std::vector<std::string>& policies =
      trace.programs[static_cast<size_t>(call.program)].policies;
  for (size_t symbol = 0; symbol < policies.size(); ++symbol) {
    const std::pair<int, int> place(call.program, static_cast<int>(symbol));
    if (!largest_buckets_.contains(place)) largest_buckets_[place] = LargestOf(policies[symbol]);
  }
}

std::string CallObstacles::Leases(const PoolTrace& trace, const TraceEvent& call) const {
  const auto lane = leased_.find(call.lane);
  if (lane == leased_.end() || lane->second.empty()) return {};
  std::string text;
  size_t named = 0;
  for (auto lease = lane->second.rbegin(); lease != lane->second.rend(); ++lease) {
    if (named++ == kLeasesNamed) break;
    text +=
        fmt::format("{} {} of {}", text.empty() ? "leased: call" : ", call", lease->first,
                    NameOfBucket(trace, trace.nodes[static_cast<size_t>(lease->second)].bucket));
  }
  if (lane->second.size() > kLeasesNamed)
    text += fmt::format(", and {} more", lane->second.size() - kLeasesNamed);
  return text;
}

std::string CallObstacles::Graphs(const PoolTrace& trace, const TraceEvent& call) const {
  const auto graphs = graphs_.find({call.lane, call.program});
  std::string text =
      fmt::format("{} graphs on the lane", graphs == graphs_.end() ? 0 : graphs->second);
  if (const std::optional<int64_t> most = OptionOf(trace, "graphs_per_program_max"))
    text += fmt::format(", graphs_per_program_max is {}", *most);
  return text;
}

std::string CallObstacles::Bytes(const PoolTrace& trace) const {
  std::string text = fmt::format("{} were booked", FormatBytes(booked_));
  text += trace.budget > 0 ? " of a budget of " + FormatBytes(trace.budget) : ", without a budget";
  if (const std::optional<int64_t> window = OptionOf(trace, "window_bytes"); window.value_or(0) > 0)
    text += fmt::format(", windows are of {}", FormatBytes(*window));
  return text;
}

std::string CallObstacles::Sizes(const PoolTrace& trace, const TraceEvent& call) const {
  if (call.program < 0) return {};
  const TracedProgram& program = trace.programs[static_cast<size_t>(call.program)];
  std::string text;
  for (int8_t i = 0; i < call.extent_count; ++i) {
    const auto symbol = static_cast<size_t>(i);
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ",
                        symbol < program.symbols.size() ? program.symbols[symbol] : "?",
                        call.extents[symbol]);
    const auto largest = largest_buckets_.find({call.program, static_cast<int>(i)});
    if (largest != largest_buckets_.end() && largest->second > 0 &&
        call.extents[symbol] > largest->second)
      text += fmt::format(" over the largest bucket, {}", largest->second);
  }
  return text;
}

std::string CallObstacles::Of(const PoolTrace& trace, const TraceEvent& call) const {
  switch (call.reason) {
    case Reason::kOtherLiveRegions:
      return Leases(trace, call);
    case Reason::kGraphLimit:
      return Graphs(trace, call);
    case Reason::kByteLimit:
      return Bytes(trace);
    case Reason::kOverLargestBucket:
    case Reason::kUnpaddedExtent:
    case Reason::kPaddedTooMuch:
      return Sizes(trace, call);
    case Reason::kEvicted: {
      const auto evicted = evicted_ns_.find(call.bucket);
      if (evicted == evicted_ns_.end()) return {};
      return fmt::format("evicted at {:.6f} s", static_cast<double>(evicted->second) / 1e9);
    }
    case Reason::kStaticInputMoved: {
      const std::optional<int64_t> most = OptionOf(trace, "static_moves_max");
      return most.has_value() ? fmt::format("static_moves_max is {}", *most) : "";
    }
    default:
      return {};
  }
}

}  // namespace coppice
