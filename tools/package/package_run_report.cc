// One run of a program, for people and for programs.

#include "tools/package/package_run_report.h"

#include <map>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/graphs/reason.h"

#include "tools/ptx/ptx.h"
#include "tools/support/byte_text.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

std::string NamedSizes(const std::vector<std::string>& names, const std::vector<int64_t>& sizes) {
  std::string text;
  for (size_t i = 0; i < sizes.size() && i < names.size(); ++i)
    text += fmt::format("{}{}={}", i == 0 ? "" : " ", names[i], sizes[i]);
  return text;
}

Json SizesJson(const std::vector<std::string>& names, const std::vector<int64_t>& sizes) {
  Json json = Json::object();
  for (size_t i = 0; i < sizes.size() && i < names.size(); ++i)
    json[names[i]] = sizes[i];
  return json;
}

// One line for all kernels that took the same kind of target for the same reason; names are long.
std::string FormatKernels(const PackageRunReport& report) {
  std::map<std::pair<std::string, std::string>, int64_t> counts;
  for (const KernelChosen& kernel : report.kernels)
    ++counts[{kernel.fit, kernel.why}];
  TextTable table("rll", {"kernels", "fit", "why"});
  for (const auto& [reason, count] : counts)
    table.Add({fmt::format("{}", count), reason.first, reason.second});
  return report.kernels.empty() ? "" : table.Format() + "\n";
}

std::string FormatCalls(const PackageRunReport& report) {
  TextTable table("rrllll", {"set", "call", "sizes", "bucket", "ran", "because"});
  for (const RanCall& call : report.calls)
    table.Add({fmt::format("{}", call.set), fmt::format("{}", call.call),
               NamedSizes(report.symbols, call.extents),
               NamedSizes(report.symbols, call.outcome.bucket), NameOf(call.outcome.kind),
               NameOf(call.outcome.reason)});
  return table.Format() + "\n";
}

std::string FormatNodes(const PackageRunReport& report) {
  TextTable table("lrrrrl", {"graph", "nodes", "replays", "height", "live", "planned by"});
  for (const NodeInfo& node : report.nodes) {
    if (!node.recorded) continue;
    const std::string sizes = NamedSizes(report.symbols, node.bucket);
    table.Add({sizes.empty() ? "(no sizes)" : sizes, fmt::format("{}", node.graph_nodes),
               fmt::format("{}", node.replays), FormatBytes(node.plan_height),
               FormatBytes(node.live_bytes),
               fmt::format("{}{}", node.plan_method, node.serial ? ", in series" : "")});
  }
  return table.Format();
}

// "plain 9.0, shifted 3.0"
std::string FormatTimes(const KernelVariant& chosen) {
  std::string text;
  for (const auto& [variant, us] : chosen.times_us)
    text += fmt::format("{}{} {:.1f}", text.empty() ? "" : ", ", variant, us);
  return text.empty() ? "not timed" : text;
}

std::string FormatVariants(const PackageRunReport& report) {
  TextTable table("llll", {"kernel", "bucket", "variant", "us"});
  for (const KernelVariant& chosen : report.variants)
    table.Add({chosen.kernel, NamedSizes(report.symbols, chosen.bucket), chosen.variant,
               FormatTimes(chosen)});
  return report.variants.empty() ? "" : "\n" + table.Format();
}

Json VariantsJson(const PackageRunReport& report) {
  Json variants = Json::array();
  for (const KernelVariant& chosen : report.variants) {
    Json times = Json::object();
    for (const auto& [variant, us] : chosen.times_us)
      times[variant] = us;
    variants.push_back({{"kernel", chosen.kernel},
                        {"bucket", SizesJson(report.symbols, chosen.bucket)},
                        {"scalars", chosen.scalars},
                        {"variant", chosen.variant},
                        {"times_us", times}});
  }
  return variants;
}

}  // namespace

std::vector<KernelChosen> ChosenTargets(const package::LoadedPackage& loaded, int program) {
  const package::Manifest& manifest = loaded.manifest();
  const std::vector<bool> run = KernelsRun(manifest, program);
  std::vector<KernelChosen> chosen;
  for (size_t i = 0; i < run.size(); ++i) {
    if (!run[i]) continue;
    const package::Kernel& kernel = manifest.kernels[i];
    for (const package::LoadedKernel& variant : loaded.kernel(static_cast<int>(i))) {
      const package::Target& target = kernel.targets[static_cast<size_t>(variant.fit.target)];
      const package::Module& module = manifest.modules[static_cast<size_t>(target.module)];
      const package::Source& source = kernel.source;
      chosen.push_back({.kernel = kernel.name,
                        .variant = target.variant,
                        .module = module.name,
                        .arch = module.arch,
                        .fit = NameOf(variant.fit.fit),
                        .why = variant.fit.why,
                        .source = source.line > 0 ? fmt::format("{}:{}", source.file, source.line)
                                                  : source.file});
    }
  }
  return chosen;
}

std::string FormatReport(const PackageRunReport& report) {
  std::string text =
      fmt::format("package   {}\n  program {}\n  sha256  {}\n  device  {}: {}\n\n", report.path,
                  report.program, report.sha256, report.device_kind, report.device);
  text += FormatKernels(report) + FormatCalls(report) + FormatNodes(report);
  text += FormatVariants(report);
  text += fmt::format("  pool height {}, {} mapped\n\n", FormatBytes(report.pool_bytes),
                      FormatBytes(report.pool_mapped));
  for (const std::string& file : report.files)
    text += fmt::format("wrote {}\n", file);
  for (const std::string& line : report.mismatches)
    text += fmt::format("differs: {}\n", line);
  for (const std::string& line : report.findings)
    text += fmt::format("finding: {}\n", line);
  if (report.compared > 0)
    text += fmt::format("{} of {} comparisons differ\n", report.mismatches.size(), report.compared);
  return text + fmt::format("{}\n", Counted(std::ssize(report.findings), "finding"));
}

std::string FormatReportJson(const PackageRunReport& report) {
  Json kernels = Json::array();
  for (const KernelChosen& kernel : report.kernels)
    kernels.push_back({{"kernel", kernel.kernel},
                       {"variant", kernel.variant},
                       {"module", kernel.module},
                       {"arch", kernel.arch},
                       {"fit", kernel.fit},
                       {"why", kernel.why},
                       {"source", kernel.source}});
  Json calls = Json::array();
  for (const RanCall& call : report.calls)
    calls.push_back({{"set", call.set},
                     {"call", call.call},
                     {"extents", SizesJson(report.symbols, call.extents)},
                     {"bucket", call.outcome.bucket.empty() && !report.symbols.empty()
                                    ? Json(nullptr)
                                    : SizesJson(report.symbols, call.outcome.bucket)},
                     {"kind", NameOf(call.outcome.kind)},
                     {"reason", NameOf(call.outcome.reason)}});
  Json nodes = Json::array();
  for (const NodeInfo& node : report.nodes) {
    if (!node.recorded) continue;
    nodes.push_back({{"bucket", SizesJson(report.symbols, node.bucket)},
                     {"graph_nodes", node.graph_nodes},
                     {"replays", node.replays},
                     {"plan_height", node.plan_height},
                     {"live_bytes", node.live_bytes},
                     {"plan_method", node.plan_method},
                     {"serial", node.serial},
                     {"record_ns", node.record_ns}});
  }
  return FormatJson({{"package", report.path},
                     {"sha256", report.sha256},
                     {"program", report.program},
                     {"device", report.device},
                     {"device_kind", report.device_kind},
                     {"kernels", kernels},
                     {"calls", calls},
                     {"graphs", nodes},
                     {"variants", VariantsJson(report)},
                     {"pool_height", report.pool_bytes},
                     {"pool_mapped", report.pool_mapped},
                     {"compared", report.compared},
                     {"mismatches", report.mismatches},
                     {"files", report.files},
                     {"findings", report.findings}});
}

}  // namespace coppice
