// Events go by once; lanes follow each other in pieces, so that they are sorted by time at the end.

#include "tools/prof/html/report_facts.h"

#include <algorithm>
#include <utility>

#include "coppice/base/status.h"

namespace coppice {
namespace {

class FactReader {
 public:
  void Add(const TracedEvent& event) {
    tally_.Add(event);
    facts_.policies.Add(event);
    std::visit([&](const auto& what) { Add(event, what); }, event.what);
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

  void Add(const TracedEvent& event, const CallEvent& call) {
    facts_.calls.push_back({.time_ns = event.time_ns,
                            .call = call.call,
                            .real_elements = call.real_elements,
                            .padded_elements = call.padded_elements,
                            .program = call.program,
                            .bucket = call.bucket,
                            .node = call.node,
                            .host_ns = call.host_ns,
                            .lane = event.lane,
                            .path = call.path,
                            .reason = call.reason});
    for (size_t i = 0; i < call.extents.size(); ++i)
      if (const int64_t size = call.extents[i]; size > 0)
        facts_.sizes[{call.program, static_cast<int>(i)}].Add(size);
  }
  void Add(const TracedEvent& event, const BytesEvent& bytes) {
    facts_.bytes.push_back({.time_ns = event.time_ns,
                            .bytes = bytes.bytes,
                            .total = bytes.total_bytes,
                            .kind = bytes.kind});
  }
  void Add(const TracedEvent& event, const StaticsEvent& statics) {
    facts_.statics.push_back({.time_ns = event.time_ns, .bytes = statics.total_bytes});
  }
  void Add(const TracedEvent& event, const UseEvent& use) {
    facts_.reads.push_back({.lane = event.lane, .call = use.call, .maker = use.other_call});
  }
  void Add(const TracedEvent& event, const OutputsEvent& outputs) {
    open_[{event.lane, outputs.call}] = facts_.leases.size();
    facts_.leases.push_back(
        {.from_ns = event.time_ns, .call = outputs.call, .lane = event.lane, .node = outputs.node});
  }
  void Add(const TracedEvent& event, const ReleaseEvent& release) {
    const auto open = open_.find({event.lane, release.call});
    if (open == open_.end()) return;  // Its beginning was dropped.
    facts_.leases[open->second].until_ns = event.time_ns;
    open_.erase(open);
  }
  void Add(const TracedEvent& event, const RequestEvent& request) {
    facts_.requests.push_back({.time_ns = event.time_ns,
                               .id = request.request,
                               .first_token_ns = request.first_token_ns,
                               .last_token_ns = request.last_token_ns,
                               .input_tokens = request.input_tokens,
                               .output_tokens = request.output_tokens});
  }
  void Add(const TracedEvent& /*event*/, const PolicyEvent& /*kept by policies*/) {}
  void Add(const TracedEvent& /*event*/, const PartEvent& /*part*/) {}
  void Add(const TracedEvent& /*event*/, const ExpireEvent& /*expire*/) {}
  void Add(const TracedEvent& /*event*/, const EndEvent& /*end*/) {}
  template <typename Moment>
  void Add(const TracedEvent& event, const Moment& /*moment*/) {
    facts_.moments.push_back(event);
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
      ReadPoolTrace(path, [&](const PoolTrace&, const TracedEvent& event) { reader.Add(event); }));
  return reader.Finish(std::move(trace));
}

}  // namespace coppice
