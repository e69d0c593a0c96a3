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
#include "tools/prof/export/kernel_blocks.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;
using Extents = std::vector<int64_t>;

// The calls of a node, by their real sizes.
using CallCounts = std::map<Extents, int64_t>;

// One launch of a node.
struct KernelUse {
  std::optional<KernelOrigin> origin;
  int64_t blocks = 0;
  std::optional<double> needed;  // Blocks, the mean over the node's calls.
};

std::map<std::string, int64_t> SizesOf(const TracedProgram& program,
                                       const TracedBucket& bucket,
                                       const Extents& extents) {
  std::map<std::string, int64_t> sizes;
  for (size_t i = 0; i < std::min(program.symbols.size(), extents.size()); ++i)
    sizes[program.symbols[i]] = extents[i];
  for (size_t i = 0; i < std::min(program.scalars.size(), bucket.scalars.size()); ++i)
    sizes[program.scalars[i]] = bucket.scalars[i];
  return sizes;
}

class KernelList {
 public:
  KernelList(const PoolTrace& trace, const package::Package* package)
      : trace_(trace), package_(package) {}

  // The launches of a node. Errors: as OriginsOf and BlocksAt.
  absl::StatusOr<std::vector<KernelUse>> UsesOf(const TracedNode& node,
                                                const CallCounts& calls) const {
    std::vector<KernelUse> uses;
    for (const TracedKernel& kernel : node.kernels)
      uses.push_back({.blocks = BlockCount(kernel.grid)});
    const TracedBucket& bucket = trace_.buckets[static_cast<size_t>(node.bucket)];
    const TracedProgram& program = trace_.programs[static_cast<size_t>(bucket.program)];
    const int index = IndexOf(program.name);
    // A node that shares another one's executable has no launches of its own in a trace.
    if (index < 0 || uses.empty()) return uses;
    const package::Manifest& manifest = package_->manifest();
    COPPICE_ASSIGN_OR_RETURN(
        const std::vector<std::optional<KernelOrigin>> origins,
        OriginsOf(manifest, index, node, SizesOf(program, bucket, bucket.extents)));
    std::vector<double> needed(uses.size());
    int64_t count = 0;
    for (const auto& [extents, times] : calls) {
      COPPICE_ASSIGN_OR_RETURN(
          const std::vector<int64_t> blocks,
          BlocksAt(manifest, index, origins, SizesOf(program, bucket, extents)));
      for (size_t i = 0; i < uses.size(); ++i)
        needed[i] += static_cast<double>(blocks[i]) * static_cast<double>(times);
      count += times;
    }
    for (size_t i = 0; i < uses.size(); ++i) {
      uses[i].origin = origins[i];
      if (origins[i] && count > 0) uses[i].needed = needed[i] / static_cast<double>(count);
    }
    return uses;
  }

  // Whether the package has any program of the trace.
  bool HasAny() const {
    return std::ranges::any_of(trace_.programs,
                               [&](const TracedProgram& each) { return IndexOf(each.name) >= 0; });
  }

 private:
  // -1: there is no package, or it does not have the program.
  int IndexOf(const std::string& program) const {
    if (package_ == nullptr) return -1;
    const std::vector<package::Program>& programs = package_->manifest().programs;
    const auto found = std::ranges::find(programs, program, &package::Program::name);
    return found == programs.end() ? -1 : static_cast<int>(found - programs.begin());
  }

  const PoolTrace& trace_;
  const package::Package* const package_;
};

Json KernelJson(const TracedKernel& kernel, const KernelUse& use) {
  const auto known = [&](auto value) { return use.origin ? Json(value(*use.origin)) : Json(); };
  return {{"name", kernel.name},
          {"grid", kernel.grid},
          {"block", kernel.block},
          {"shared_bytes", kernel.shared_bytes},
          {"blocks", use.blocks},
          {"program", known([](const KernelOrigin& from) { return from.program; })},
          {"step", known([](const KernelOrigin& from) { return from.path.back(); })},
          {"kernel", known([](const KernelOrigin& from) { return from.kernel; })},
          {"source", use.origin && !use.origin->source.empty() ? Json(use.origin->source) : Json()},
          {"blocks_needed", use.needed ? Json(*use.needed) : Json()}};
}

Json NodeJson(const PoolTrace& trace,
              const TracedNode& node,
              int64_t calls,
              const std::vector<KernelUse>& uses) {
  const TracedBucket& bucket = trace.buckets[static_cast<size_t>(node.bucket)];
  const TracedProgram& program = trace.programs[static_cast<size_t>(bucket.program)];
  Json kernels = Json::array();
  for (size_t i = 0; i < uses.size(); ++i)
    kernels.push_back(KernelJson(node.kernels[i], uses[i]));
  return {{"node", node.id},          {"label", NameOfBucket(trace, node.bucket)},
          {"program", program.name},  {"variant", program.variant},
          {"bucket", bucket.extents}, {"lane", bucket.lane},
          {"calls", calls},           {"kernels", std::move(kernels)}};
}

// A step of a program in all its graphs.
struct StepRow {
  int64_t launches = 0;
  double blocks = 0;  // Launched.
  double padding = 0;
  bool known = true;  // How many are padding.
  std::string source;

  void Add(const KernelUse& use, int64_t calls) {
    launches += calls;
    blocks += static_cast<double>(use.blocks) * static_cast<double>(calls);
    if (use.needed)
      padding +=
          std::max(0.0, static_cast<double>(use.blocks) - *use.needed) * static_cast<double>(calls);
    else if (calls > 0)
      known = false;
    if (use.origin) source = use.origin->source;
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
               fmt::format("{:.0f}", row.blocks),
               row.known
                   ? fmt::format("{:.1f} %", row.blocks > 0 ? 100 * row.padding / row.blocks : 0)
                   : "-",
               row.source});
  }
  return table.Format() +
         "  padding: blocks that only compute padding; -: the package of the step is not given\n";
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
  std::map<int, CallCounts> calls;
  ExactReplays exact;
  COPPICE_ASSIGN_OR_RETURN(
      const PoolTrace trace,
      ReadPoolTrace(options.trace, [&](const PoolTrace& read, const TracedEvent& event) {
        const auto* const call = event.As<CallEvent>();
        if (call == nullptr || call->node < 0) return;
        const auto extents = call->extents.values();
        ++calls[call->node][exact.Has(read, *call)
                                ? read.buckets[static_cast<size_t>(call->bucket)].extents
                                : Extents(extents.begin(), extents.end())];
      }));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<bool> chosen, ChoosePrograms(trace, options.program));
  std::optional<package::Package> package;
  if (!options.package.empty()) {
    COPPICE_ASSIGN_OR_RETURN(package::Package opened, package::Package::Open(options.package, {}));
    package.emplace(std::move(opened));
  }
  const KernelList list(trace, package ? &*package : nullptr);
  if (package && !list.HasAny())
    return InvalidArgument("{}: it has none of the programs of {}", options.package, options.trace);
  Json nodes = Json::array();
  std::map<StepKey, StepRow> rows;
  for (size_t i = 0; i < trace.nodes.size(); ++i) {
    const TracedNode& node = trace.nodes[i];
    const int program = trace.ProgramOf(node.bucket);
    if (!chosen[static_cast<size_t>(program)]) continue;
    const CallCounts& of_node = calls[static_cast<int>(i)];
    int64_t count = 0;
    for (const auto& [extents, times] : of_node)
      count += times;
    COPPICE_ASSIGN_OR_RETURN(const std::vector<KernelUse> uses, list.UsesOf(node, of_node));
    if (options.json) {
      nodes.push_back(NodeJson(trace, node, count, uses));
      continue;
    }
    for (size_t k = 0; k < uses.size(); ++k) {
      const std::optional<KernelOrigin>& origin = uses[k].origin;
      rows[{LabelOfProgram(trace, program),
            origin ? fmt::format("{}", fmt::join(origin->path, ".")) : "",
            origin ? origin->kernel : node.kernels[k].name}]
          .Add(uses[k], count);
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
