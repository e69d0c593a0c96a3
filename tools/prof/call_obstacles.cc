// Leases are of the lane: outputs that lie in the plan window of another are in nobody's way.

#include "tools/prof/call_obstacles.h"

#include <algorithm>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr size_t kLeasesNamed = 4;

// A whole number among the session's options; nothing if there is none.
std::optional<int64_t> OptionOf(const PoolTrace& trace, const char* name) {
  const auto options = nlohmann::json::parse(trace.options, nullptr, /*allow_exceptions=*/false);
  if (!options.is_object()) return std::nullopt;
  const auto found = options.find(name);
  if (found == options.end() || !found->is_number_integer()) return std::nullopt;
  return found->get<int64_t>();
}

// The largest bucket of a policy, by its document (coppice/padding/policy_document.h); 0 if it says
// none. The policy itself may have a table of millions of sizes, which takes long to make.
int64_t LargestOf(const std::string& document) {
  const auto policy = nlohmann::json::parse(document, nullptr, /*allow_exceptions=*/false);
  if (!policy.is_object()) return 0;
  const auto buckets = policy.find("buckets");
  const auto largest = buckets != policy.end() && buckets->is_array() && !buckets->empty()
                           ? buckets->back()
                           : policy.value("maximum", nlohmann::json());
  return largest.is_number_integer() ? largest.get<int64_t>() : 0;
}

}  // namespace

void CallObstacles::See(const TracedEvent& event) {
  const auto bucket_of = [&](int node) { return trace_.nodes[static_cast<size_t>(node)].bucket; };
  const auto graphs_of = [&](int node) -> int64_t& {
    return graphs_[{event.lane, trace_.ProgramOf(bucket_of(node))}];
  };
  policies_.Add(event);
  std::visit(Cases{[&](const OutputsEvent& outputs) {
                     if (outputs.node >= 0) leased_[event.lane][outputs.call] = outputs.node;
                   },
                   [&](const ReleaseEvent& release) { leased_[event.lane].erase(release.call); },
                   [&](const ExpireEvent& expire) { leased_[event.lane].erase(expire.call); },
                   [&](const RecordEvent& record) { ++graphs_of(record.node); },
                   [&](const EvictEvent& evict) {
                     --graphs_of(evict.node);
                     evicted_ns_[bucket_of(evict.node)] = event.time_ns;
                   },
                   [&](const BytesEvent& bytes) { booked_ = bytes.total_bytes; },
                   [](const auto& /*other*/) {}},
             event.what);
}

// Of a symbol in no joint policy; 0: not known.
int64_t CallObstacles::LargestBucketOf(int program, size_t symbol) {
  const TracedProgram& traced = trace_.programs[static_cast<size_t>(program)];
  const auto is_of = [&](const TracedProgram::Joint& joint) {
    return joint.a == static_cast<int>(symbol) || joint.b == static_cast<int>(symbol);
  };
  if (std::ranges::any_of(traced.joint, is_of)) return 0;
  const std::string* const document =
      policies_.FindDocument(trace_, program, static_cast<int>(symbol));
  if (document == nullptr) return 0;
  const auto [largest, fresh] = largest_buckets_.try_emplace(document, 0);
  if (fresh) largest->second = LargestOf(*document);
  return largest->second;
}

std::string CallObstacles::Leases(int of) const {
  const auto lane = leased_.find(of);
  if (lane == leased_.end() || lane->second.empty()) return {};
  std::string text;
  size_t named = 0;
  for (auto lease = lane->second.rbegin(); lease != lane->second.rend(); ++lease) {
    if (named++ == kLeasesNamed) break;
    text +=
        fmt::format("{} {} of {}", text.empty() ? "leased: call" : ", call", lease->first,
                    NameOfBucket(trace_, trace_.nodes[static_cast<size_t>(lease->second)].bucket));
  }
  if (lane->second.size() > kLeasesNamed)
    text += fmt::format(", and {} more", lane->second.size() - kLeasesNamed);
  return text;
}

std::string CallObstacles::Graphs(int lane, int program) const {
  const auto graphs = graphs_.find({lane, program});
  std::string text =
      fmt::format("{} on the lane", Counted(graphs == graphs_.end() ? 0 : graphs->second, "graph"));
  if (const std::optional<int64_t> most = OptionOf(trace_, "graphs_per_program_max"))
    text += fmt::format(", graphs_per_program_max is {}", *most);
  return text;
}

std::string CallObstacles::Bytes() const {
  std::string text = fmt::format("{} in use", FormatBytes(booked_));
  text += trace_.budget > 0 ? ", budget " + FormatBytes(trace_.budget) : ", no budget";
  if (const std::optional<int64_t> window = OptionOf(trace_, "window_bytes");
      window.value_or(0) > 0)
    text += fmt::format(", window {}", FormatBytes(*window));
  return text;
}

std::string CallObstacles::Sizes(const CallEvent& call) {
  const TracedProgram& program = trace_.programs[static_cast<size_t>(call.program)];
  std::string text;
  for (size_t symbol = 0; symbol < call.extents.size(); ++symbol) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ",
                        symbol < program.symbols.size() ? program.symbols[symbol] : "?",
                        call.extents[symbol]);
    if (call.reason != Reason::kOverLargestBucket) continue;
    const int64_t largest = LargestBucketOf(call.program, symbol);
    if (largest > 0 && call.extents[symbol] > largest)
      text += fmt::format(" over the largest bucket, {}", largest);
  }
  return text;
}

std::string CallObstacles::Of(int lane, const CallEvent& call) {
  switch (call.reason) {
    case Reason::kOtherLiveRegions:
      return Leases(lane);
    case Reason::kGraphLimit:
      return Graphs(lane, call.program);
    case Reason::kByteLimit:
      return Bytes();
    case Reason::kOverLargestBucket:
    case Reason::kUnpaddedExtent:
    case Reason::kPaddedTooMuch:
      return Sizes(call);
    case Reason::kEvicted: {
      const auto evicted = evicted_ns_.find(call.bucket);
      if (evicted == evicted_ns_.end()) return {};
      return fmt::format("evicted at {:.6f} s", static_cast<double>(evicted->second) / 1e9);
    }
    case Reason::kStaticInputMoved: {
      const std::optional<int64_t> most = OptionOf(trace_, "static_moves_max");
      return most.has_value() ? fmt::format("static_moves_max is {}", *most) : "";
    }
    default:
      return {};
  }
}

}  // namespace coppice
