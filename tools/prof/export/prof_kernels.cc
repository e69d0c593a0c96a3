// The kernels of all graphs, with the steps that launch them.

#include "tools/prof/export/prof_kernels.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/runtime/package.h"

#include "tools/prof/bucket_figures.h"
#include "tools/prof/export/node_uses.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;
Json KernelJson(const KernelUse& use, int64_t recorded_calls) {
  const auto known = [&](auto value) { return use.origin ? Json(value(*use.origin)) : Json(); };
  const TracedKernel& kernel = *use.kernel;
  return {{"name", kernel.name},
          {"grid", kernel.grid},
          {"block", kernel.block},
          {"shared_bytes", kernel.shared_bytes},
          {"blocks", BlockCount(kernel.grid)},
          {"program", known([](const KernelOrigin& from) { return from.program; })},
          {"step", known([](const KernelOrigin& from) { return from.path.back(); })},
          {"kernel", known([](const KernelOrigin& from) { return from.kernel; })},
          {"source", use.origin && !use.origin->source.empty() ? Json(use.origin->source) : Json()},
          {"blocks_needed", use.origin && recorded_calls > 0
                                ? Json(use.needed_as_recorded / static_cast<double>(recorded_calls))
                                : Json()}};
}

Json PatchedJson(const PatchedCalls& patched, const NodeUse& use) {
  Json grids = Json::array();
  Json needed = Json::array();
  for (size_t i = 0; i < use.kernels.size(); ++i) {
    grids.push_back(patched.grids[i] ? Json(*patched.grids[i]) : Json());
    needed.push_back(use.kernels[i].origin
                         ? Json(patched.needed[i] / static_cast<double>(patched.calls))
                         : Json());
  }
  return {{"node", use.executable->id},
          {"calls", patched.calls},
          {"grids", std::move(grids)},
          {"blocks_needed", std::move(needed)}};
}

Json NodeJson(const PoolTrace& trace, const TracedNode& node, const NodeUse& use) {
  const TracedBucket& bucket = trace.buckets[static_cast<size_t>(node.bucket)];
  const TracedProgram& program = trace.programs[static_cast<size_t>(bucket.program)];
  Json kernels = Json::array();
  for (const KernelUse& each : use.kernels)
    if (use.executable == &node) kernels.push_back(KernelJson(each, use.recorded_calls));
  Json patched = Json::array();
  for (const PatchedCalls& each : use.patched)
    patched.push_back(PatchedJson(each, use));
  const auto whole = {std::ssize(node.kernels)};
  return {{"node", node.id},
          {"label", NameOfBucket(trace, node.bucket)},
          {"program", program.name},
          {"variant", program.variant},
          {"bucket", bucket.extents},
          {"lane", bucket.lane},
          {"calls", use.calls()},
          {"pieces", node.pieces.empty() ? Json(whole) : Json(node.pieces)},
          {"kernels", std::move(kernels)},
          {"patched", std::move(patched)}};
}

// A step of a program in all its graphs.
struct StepRow {
  int64_t launches = 0;
  double blocks = 0;  // Launched.
  double padding = 0;
  bool counted = true;  // How many blocks are known, ...
  bool known = true;    // ... and how many of them are padding.
  std::string source;

  void Add(const KernelUse& use, int64_t calls) {
    launches += calls;
    blocks += use.launched;
    counted = counted && use.all_known;
    if (use.origin) {
      padding += std::max(0.0, use.launched - use.needed);
      source = use.origin->source;
    } else if (calls > 0) {
      known = false;
    }
  }
};
// Program, step ("3", "3.0" of a child; empty: unknown) and kernel.
using StepKey = std::tuple<std::string, std::string, std::string>;

std::string TextOf(const std::map<StepKey, StepRow>& rows) {
  std::vector<std::pair<StepKey, StepRow>> sorted(rows.begin(), rows.end());
  std::ranges::stable_sort(sorted, [](const auto& a, const auto& b) {
    return std::pair(a.second.padding, a.second.blocks) >
           std::pair(b.second.padding, b.second.blocks);
  });
  TextTable table("lllrrrl",
                  {"program", "step", "kernel", "launches", "blocks", "padding", "source"});
  for (const auto& [key, row] : sorted) {
    const auto& [program, step, kernel] = key;
    table.Add({program, step.empty() ? "-" : step, kernel, fmt::format("{}", row.launches),
               row.counted ? fmt::format("{:.0f}", row.blocks) : "-",
               row.known
                   ? fmt::format("{:.1f} %", row.blocks > 0 ? 100 * row.padding / row.blocks : 0)
                   : "-",
               row.source});
  }
  return table.Format() +
         "  padding: blocks that only compute padding; -: not known, or the package is not given\n";
}

// Which replays computed at their own sizes.
class ExactReplays {
 public:
  bool Has(const PoolTrace& trace, const CallEvent& call) {
    if (call.bucket < 0 || call.real_elements != call.padded_elements) return false;
    const int program = trace.ProgramOf(call.bucket);
    const auto [known, is_new] = exact_.try_emplace(program, false);
    if (is_new) known->second = AsksForExact(trace.programs[static_cast<size_t>(program)]);
    return known->second;
  }

 private:
  std::map<int, bool> exact_;  // By program.
};

absl::Status Report(const ProfOptions& options, const Console& console) {
  std::map<int, NodeCalls> calls;
  ExactReplays exact;
  COPPICE_ASSIGN_OR_RETURN(
      const PoolTrace trace,
      ReadPoolTrace(options.trace, [&](const PoolTrace& read, const TracedEvent& event) {
        const auto* const call = event.As<CallEvent>();
        if (call == nullptr || call->node < 0) return;
        const auto extents = call->extents.values();
        NodeCalls& of_node = calls[call->node];
        ++(exact.Has(read, *call)
               ? of_node.exact
               : of_node.padded)[std::vector<int64_t>(extents.begin(), extents.end())];
      }));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<bool> chosen, ChoosePrograms(trace, options.program));
  std::optional<package::Package> package;
  if (!options.package.empty()) {
    COPPICE_ASSIGN_OR_RETURN(package::Package opened, package::Package::Open(options.package, {}));
    package.emplace(std::move(opened));
  }
  const NodeUses uses(trace, package ? &*package : nullptr);
  if (package && !uses.HasAny())
    return InvalidArgument("{}: it has none of the programs of {}", options.package, options.trace);
  Json nodes = Json::array();
  std::map<StepKey, StepRow> rows;
  for (size_t i = 0; i < trace.nodes.size(); ++i) {
    const TracedNode& node = trace.nodes[i];
    const int program = trace.ProgramOf(node.bucket);
    if (!chosen[static_cast<size_t>(program)]) continue;
    COPPICE_ASSIGN_OR_RETURN(const NodeUse use, uses.Of(node, calls[static_cast<int>(i)]));
    if (options.json) {
      nodes.push_back(NodeJson(trace, node, use));
      continue;
    }
    for (const KernelUse& each : use.kernels) {
      const std::optional<KernelOrigin>& origin = each.origin;
      rows[{LabelOfProgram(trace, program),
            origin ? fmt::format("{}", fmt::join(origin->path, ".")) : "",
            origin ? origin->kernel : each.kernel->name}]
          .Add(each, use.calls());
    }
  }
  if (options.json)
    Print(console.out, "{}",
          Dump({{"schema", "coppice.kernels/1"},
                {"trace", options.trace},
                {"package", package ? Json(options.package) : Json()},
                {"nodes", std::move(nodes)}}));
  else
    Print(console.out, "{}{}", NoteGaps(trace), TextOf(rows));
  return absl::OkStatus();
}

}  // namespace

ExitCode ProfKernels(const ProfOptions& options, const Console& console) {
  const absl::Status reported = Report(options, console);
  return reported.ok() ? kExitOk : FailProf(console, reported);
}

}  // namespace coppice
