// Events go by once; lanes follow each other in pieces, so that they are sorted by time at the end.

#include "tools/prof/html/report_facts.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"

namespace coppice {
namespace {

class FactReader {
 public:
  void Add(const TraceEvent& event) {
    tally_.Add(event);
    switch (event.kind) {
      case TraceEventKind::kCall:
        facts_.calls.push_back({.time_ns = event.time_ns,
                                .call = event.call,
                                .real_elements = event.first,
                                .padded_elements = event.second,
                                .program = event.program,
                                .bucket = event.bucket,
                                .node = event.node,
                                .host_ns = event.host_ns,
                                .lane = event.lane,
                                .path = event.path,
                                .reason = event.reason});
        for (int i = 0; i < event.extent_count; ++i)
          if (const int64_t size = event.extents[static_cast<size_t>(i)]; size > 0)
            facts_.sizes[{event.program, i}].Add(size);
        return;
      case TraceEventKind::kBytes:
        facts_.bytes.push_back({.time_ns = event.time_ns,
                                .bytes = event.first,
                                .total = event.second,
                                .kind = event.memory});
        return;
      case TraceEventKind::kStatics:
        facts_.statics.push_back({.time_ns = event.time_ns, .bytes = event.second});
        return;
      case TraceEventKind::kUse:
        facts_.reads.push_back({.lane = event.lane, .call = event.call, .maker = event.other_call});
        return;
      case TraceEventKind::kOutputs:
        open_[{event.lane, event.call}] = facts_.leases.size();
        facts_.leases.push_back(
            {.from_ns = event.time_ns, .call = event.call, .lane = event.lane, .node = event.node});
        return;
      case TraceEventKind::kRelease:
        Close(event);
        return;
      case TraceEventKind::kRequest:
        facts_.requests.push_back({.time_ns = event.time_ns,
                                   .id = event.request,
                                   .first_token_ns = event.first,
                                   .last_token_ns = event.second,
                                   .input_tokens = event.input,
                                   .output_tokens = event.output});
        return;
      case TraceEventKind::kPolicy:
        return facts_.policies.Add(event);
      case TraceEventKind::kPart:
      case TraceEventKind::kExpire:
      case TraceEventKind::kEnd:
        return;
      default:
        AddMoment(event);
    }
  }

  ReportFacts Finish(PoolTrace trace) {
    facts_.trace = std::move(trace);
    facts_.buckets = tally_.Finish(facts_.trace);
    facts_.unbucketed = tally_.unbucketed();
    facts_.uses = FindAddressUse(facts_.trace);
    FindHighest();
    SortByTime(facts_.calls);
    SortByTime(facts_.bytes);
    SortByTime(facts_.statics);
    SortByTime(facts_.moments);
    SortByTime(facts_.requests);
    std::stable_sort(
        facts_.leases.begin(), facts_.leases.end(),
        [](const ReportLease& a, const ReportLease& b) { return a.from_ns < b.from_ns; });
    return std::move(facts_);
  }

 private:
  template <typename Fact>
  static void SortByTime(std::vector<Fact>& facts) {
    const auto earlier = [](const Fact& a, const Fact& b) { return a.time_ns < b.time_ns; };
    if (!std::is_sorted(facts.begin(), facts.end(), earlier))
      std::stable_sort(facts.begin(), facts.end(), earlier);
  }

  void AddMoment(const TraceEvent& event) {
    facts_.moments.push_back({.time_ns = event.time_ns,
                              .line = event.line,
                              .count = event.first,
                              .kind = event.kind,
                              .lane = event.lane,
                              .node = event.node,
                              .bucket = event.bucket,
                              .program = event.program,
                              .failure = event.failure,
                              .mark = event.mark});
  }

  void Close(const TraceEvent& event) {
    const auto open = open_.find({event.lane, event.call});
    if (open == open_.end()) return;  // Its beginning was dropped.
    facts_.leases[open->second].until_ns = event.time_ns;
    open_.erase(open);
  }

  void FindHighest() {
    facts_.highest.assign(facts_.trace.buckets.size(), -1);
    for (size_t i = 0; i < facts_.trace.nodes.size(); ++i) {
      const TracedNode& node = facts_.trace.nodes[i];
      int& best = facts_.highest[static_cast<size_t>(node.bucket)];
      if (best < 0 || node.height > facts_.trace.nodes[static_cast<size_t>(best)].height)
        best = static_cast<int>(i);
    }
  }

  ReportFacts facts_;
  BucketTally tally_;
  absl::flat_hash_map<std::pair<int, int64_t>, size_t> open_;  // Leases, by lane and call.
};

}  // namespace

absl::StatusOr<ReportFacts> ReadReportFacts(const std::string& path) {
  FactReader reader;
  COPPICE_ASSIGN_OR_RETURN(
      PoolTrace trace,
      ReadPoolTrace(path, [&](const PoolTrace&, const TraceEvent& event) { reader.Add(event); }));
  return reader.Finish(std::move(trace));
}

}  // namespace coppice
