// `coppice prof map`: which picture, and where it goes.

#include <algorithm>
#include <string>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/prof/prof.h"
#include "tools/prof/prof_map.h"

namespace coppice {
namespace {

// The bucket that --bucket means, or -1 for all.
absl::StatusOr<int> ChooseBucket(const AddressMap& map, const ProfOptions& options) {
  if (!options.bucket) return -1;
  for (size_t i = 0; i < map.trace.buckets.size(); ++i) {
    if (map.trace.buckets[i].id != *options.bucket) continue;
    const int node = map.nodes[i];
    if (node >= 0 && !map.trace.nodes[static_cast<size_t>(node)].buffers.empty())
      return static_cast<int>(i);
    return InvalidArgument("bucket {} ({}) has no graph with buffers; give another bucket",
                           *options.bucket, map.NameOfBucket(static_cast<int>(i)));
  }
  return InvalidArgument("the trace has no bucket {}; see `coppice prof buckets {}`",
                         *options.bucket, options.trace);
}

nlohmann::ordered_json RangesJson(const std::vector<AddressRange>& ranges) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const AddressRange& range : ranges)
    json.push_back({range.begin, range.end});
  return json;
}

nlohmann::ordered_json NodeJson(const TracedNode& node) {
  nlohmann::ordered_json buffers = nlohmann::ordered_json::array();
  for (size_t i = 0; i < node.buffers.size(); ++i) {
    nlohmann::ordered_json steps = nlohmann::ordered_json::array();
    for (const Interval& interval : node.buffers[i].lifetime)
      steps.push_back({interval.lower, interval.upper});
    buffers.push_back({{"label", node.labels[i]},
                       {"offset", node.offsets[i]},
                       {"bytes", node.buffers[i].bytes},
                       {"output", node.outputs[i]},
                       {"steps", steps}});
  }
  return {{"node", node.id},       {"height_bytes", node.height},       {"bound_bytes", node.bound},
          {"method", node.method}, {"around", RangesJson(node.around)}, {"buffers", buffers}};
}

std::string MapJson(const AddressMap& map, int only) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (size_t i = 0; i < map.nodes.size(); ++i) {  // In the order of the trace.
    if (map.nodes[i] < 0 || (only >= 0 && static_cast<int>(i) != only)) continue;
    const TracedBucket& bucket = map.trace.buckets[i];
    rows.push_back({{"bucket", bucket.id},
                    {"program", LabelOf(map.trace.programs[static_cast<size_t>(bucket.program)])},
                    {"extents", bucket.extents},
                    {"lane", bucket.lane},
                    {"used", RangesJson(map.uses[i].used)},
                    {"shared", RangesJson(map.uses[i].Shared())},
                    {"exclusive", RangesJson(map.uses[i].exclusive)},
                    {"highest", NodeJson(map.trace.nodes[static_cast<size_t>(map.nodes[i])])}});
  }
  nlohmann::ordered_json lanes = nlohmann::ordered_json::array();
  for (int lane = 0; lane < map.trace.lanes; ++lane) {
    lanes.push_back(
        {{"lane", lane}, {"height_bytes", map.HeightOf(lane)}, {"bound_bytes", map.BoundOf(lane)}});
  }
  nlohmann::ordered_json kinds = nlohmann::ordered_json::object();
  for (size_t i = 0; i < map.kinds_then.size(); ++i)
    kinds[NameOf(static_cast<MemoryKind>(i))] = map.kinds_then[i];
  return Dump({{"schema", kPoolTraceSchema},
               {"together_bytes", map.together_bytes()},
               {"apart_bytes", map.apart_bytes()},
               {"mapped_peak_bytes", map.mapped_peak},
               {"total_peak_bytes", map.total_peak},
               {"kinds_at_total_peak_bytes", kinds},
               {"statics_peak_bytes", map.statics.total},
               {"lanes", lanes},
               {"rows", rows}});
}

}  // namespace

ExitCode ProfMap(const ProfOptions& options, const Console& console) {
  const std::string suffix =
      options.bucket ? fmt::format(".bucket{}.svg", *options.bucket) : ".svg";
  const absl::StatusOr<ProfOutput> output = OutputOf(options, suffix);
  if (!output.ok()) return FailProf(console, output.status());
  const absl::StatusOr<AddressMap> map = ReadAddressMap(options.trace);
  if (!map.ok()) return FailProf(console, map.status());
  const absl::StatusOr<int> bucket = ChooseBucket(*map, options);
  if (!bucket.ok()) return FailProf(console, bucket.status());
  if (!output->path.empty()) {
    const std::string svg = *bucket < 0 ? DrawAddressMap(*map) : DrawBucketMap(*map, *bucket);
    if (const absl::Status written = WriteOutput(*output, svg, console); !written.ok())
      return FailProf(console, written, kExitOutput);
  }
  if (options.json) {
    Print(console.out, "{}", MapJson(*map, *bucket));
  } else if (options.ascii) {
    Print(console.out, "{}", *bucket < 0 ? PrintAddressMap(*map) : PrintBucketMap(*map, *bucket));
  }
  return kExitOk;
}

}  // namespace coppice
