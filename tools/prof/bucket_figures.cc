// Sums calls and nodes by bucket.

#include "tools/prof/bucket_figures.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "tools/prof/address_use.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

template <typename Value>
Value& At(std::vector<Value>& values, int place) {
  const size_t index = static_cast<size_t>(place);
  if (index >= values.size()) values.resize(index + 1);
  return values[index];
}

// The number that the order compares, larger first.
double KeyOf(const PoolTrace& trace, BucketOrder order, const BucketFigures& figures) {
  const auto number = [](int64_t value) { return static_cast<double>(value); };
  switch (order) {
    case BucketOrder::kId:
      return -number(trace.buckets[static_cast<size_t>(figures.bucket)].id);
    case BucketOrder::kCalls:
      return number(figures.calls());
    case BucketOrder::kReplays:
      return number(figures.on(RunKind::kReplay));
    case BucketOrder::kEager:
      return number(figures.eager());
    case BucketOrder::kPadding:
      return figures.padded_share_pct();
    case BucketOrder::kHeight:
      return number(figures.height);
    case BucketOrder::kExclusive:
      return number(figures.exclusive_bytes);
    case BucketOrder::kShared:
      return number(figures.shared_bytes());
    case BucketOrder::kExec:
      return number(figures.exec_bytes);
    case BucketOrder::kRecord:
      return number(figures.record_ns);
  }
  return 0;
}

}  // namespace

bool AsksForExact(const TracedProgram& program) {
  const nlohmann::json spec = nlohmann::json::parse(program.spec, nullptr, false);
  const auto exact = spec.find("exact");
  return exact != spec.end() && *exact != NameOf(ExactReplay::kNever);
}

int64_t AddUpTo(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<int64_t>::max() : sum;
}

int64_t BucketFigures::calls() const {
  return std::accumulate(paths.begin(), paths.end(), int64_t{0});
}

double BucketFigures::padded_share_pct() const {
  return Percent(padded_elements - real_elements, padded_elements);
}

void BucketTally::Add(const TracedEvent& event) {
  if (const auto* const call = event.As<CallEvent>()) {
    BucketFigures& figures = call->bucket < 0 ? unbucketed_ : At(buckets_, call->bucket);
    ++figures.paths[static_cast<size_t>(call->path)];
    figures.real_elements = AddUpTo(figures.real_elements, call->real_elements);
    figures.padded_elements = AddUpTo(figures.padded_elements, call->padded_elements);
    if (call->bucket >= 0 && call->node >= 0 && call->real_elements == call->padded_elements)
      ++At(unpadded_, call->bucket);
  }
  if (const auto* const evict = event.As<EvictEvent>()) At(evicted_, evict->node) = 1;
}

std::vector<BucketFigures> BucketTally::Sums(const PoolTrace& trace) const {
  std::vector<BucketFigures> buckets = buckets_;
  buckets.resize(trace.buckets.size());
  std::vector<bool> exact;
  for (const TracedProgram& program : trace.programs)
    exact.push_back(AsksForExact(program));
  for (size_t i = 0; i < buckets.size(); ++i) {
    buckets[i].bucket = static_cast<int>(i);
    if (i < unpadded_.size() && exact[static_cast<size_t>(trace.buckets[i].program)])
      buckets[i].exact_replays = unpadded_[i];
  }
  for (size_t i = 0; i < trace.nodes.size(); ++i) {
    const TracedNode& node = trace.nodes[i];
    BucketFigures& figures = buckets[static_cast<size_t>(node.bucket)];
    figures.height = std::max(figures.height, node.height);
    figures.bound = std::max(figures.bound, node.bound);
    figures.record_ns = AddUpTo(figures.record_ns, node.record_ns);
    ++figures.recorded;
    // One of no nodes takes no bytes.
    figures.executables += node.exec_bytes > 0 || node.graph_nodes == 0 ? 1 : 0;
    if (i < evicted_.size() && evicted_[i] != 0) {
      ++figures.evicted;
    } else {
      figures.exec_bytes = AddUpTo(figures.exec_bytes, node.exec_bytes);
    }
  }
  return buckets;
}

std::vector<BucketFigures> BucketTally::Finish(const PoolTrace& trace) const {
  std::vector<BucketFigures> buckets = Sums(trace);
  const std::vector<AddressUse> uses = FindAddressUse(trace);
  for (size_t i = 0; i < buckets.size(); ++i) {
    buckets[i].used_bytes = uses[i].used_bytes;
    buckets[i].exclusive_bytes = uses[i].exclusive_bytes;
  }
  return buckets;
}

void Sort(const PoolTrace& trace, BucketOrder order, std::vector<BucketFigures>& figures) {
  std::stable_sort(figures.begin(), figures.end(),
                   [&](const BucketFigures& a, const BucketFigures& b) {
                     return KeyOf(trace, order, a) > KeyOf(trace, order, b);
                   });
}

nlohmann::ordered_json ToJson(const PoolTrace& trace, const BucketFigures& figures) {
  const TracedBucket& bucket = trace.buckets[static_cast<size_t>(figures.bucket)];
  const TracedProgram& program = trace.programs[static_cast<size_t>(bucket.program)];
  return {{"bucket", bucket.id},
          {"program", program.name},
          {"variant", program.variant},
          {"extents", bucket.extents},
          {"scalars", bucket.scalars},
          {"lane", bucket.lane},
          {"calls", figures.calls()},
          {"replays", figures.on(RunKind::kReplay)},
          {"records", figures.on(RunKind::kRecord)},
          {"warm_ups", figures.on(RunKind::kWarmUp)},
          {"eager", figures.on(RunKind::kEager)},
          {"includes", figures.on(RunKind::kInclude)},
          {"real_elements", figures.real_elements},
          {"padded_elements", figures.padded_elements},
          {"padded_share_pct", figures.padded_share_pct()},
          {"exact_replays", figures.exact_replays},
          {"graphs_recorded", figures.recorded},
          {"graphs_evicted", figures.evicted},
          {"executables", figures.executables},
          {"height_bytes", figures.height},
          {"bound_bytes", figures.bound},
          {"exclusive_bytes", figures.exclusive_bytes},
          {"shared_bytes", figures.shared_bytes()},
          {"exec_bytes_estimate", figures.exec_bytes},
          {"record_ns", figures.record_ns}};
}

std::string FormatBuckets(const PoolTrace& trace, const std::vector<BucketFigures>& figures) {
  TextTable table("rllrrrrrrrrrrrr", {"bucket", "program", "extents", "lane", "calls", "replays",
                                      "no graph", "padding", "height", "bound", "exclusive",
                                      "shared", "exec*", "record", "graphs"});
  for (const BucketFigures& each : figures) {
    const TracedBucket& bucket = trace.buckets[static_cast<size_t>(each.bucket)];
    table.Add({fmt::format("{}", bucket.id),
               LabelOf(trace.programs[static_cast<size_t>(bucket.program)]), LabelOf(bucket),
               fmt::format("{}", bucket.lane), fmt::format("{}", each.calls()),
               fmt::format("{}", each.on(RunKind::kReplay)), fmt::format("{}", each.eager()),
               fmt::format("{:.1f} %", each.padded_share_pct()), FormatBytes(each.height),
               FormatBytes(each.bound), FormatBytes(each.exclusive_bytes),
               FormatBytes(each.shared_bytes()), FormatBytes(each.exec_bytes),
               fmt::format("{:.3f} ms", static_cast<double>(each.record_ns) / 1e6),
               fmt::format("{}", each.recorded - each.evicted)});
  }
  return table.Format();
}

}  // namespace coppice
