// One run, for people and for programs.

#include <algorithm>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/ptx/kernel_run.h"
#include "tools/ptx/ptx.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

// Bytes of an array that the kernel read, or wrote.
int64_t TouchedBytes(const ptx::Outcome& outcome, std::span<const std::byte> memory, bool writes) {
  const uint64_t begin = reinterpret_cast<uint64_t>(memory.data());
  const uint64_t end = begin + memory.size();
  int64_t bytes = 0;
  for (const ptx::TouchedRange& range : outcome.touched) {
    if (range.writes != writes || range.end <= begin || range.begin >= end) continue;
    bytes += static_cast<int64_t>(std::min(range.end, end) - std::max(range.begin, begin));
  }
  return bytes;
}

// What ended the launch, if something did, and then the others.
std::vector<ptx::Finding> FindingsOf(const ptx::Outcome& outcome) {
  std::vector<ptx::Finding> findings = outcome.findings;
  if (outcome.fault) findings.insert(findings.begin(), *outcome.fault);
  return findings;
}

Json ArgumentJson(const KernelRun& run, size_t i, const ptx::Outcome& outcome, bool recorded) {
  const KernelRun::Argument& argument = run.arguments()[i];
  Json json = {{"index", i},
               {"parameter", run.kernel().code->parameters[i].name},
               {"argument", argument.given.text}};
  if (!argument.given.is_array()) return json;
  const auto touched = [&](bool writes) {
    return recorded ? Json(TouchedBytes(outcome, argument.memory, writes)) : Json(nullptr);
  };
  json.update({{"type", NameOf(argument.dtype)},
               {"shape", argument.dims},
               {"address", argument.given.bits},
               {"bytes", argument.memory.size()},
               {"read_bytes", touched(false)},
               {"written_bytes", touched(true)}});
  return json;
}

// Where padding got in an output.
struct Reached {
  int64_t elements = 0;
  int64_t first = -1;  // Its index, rows first.
  const ptx::TaintMeeting* meeting = nullptr;
};

Reached ReachedIn(const KernelRun& run, const KernelRun::Argument& argument) {
  Reached reached;
  const std::vector<ptx::TaintWord> words = run.TaintOf(argument);
  for (size_t i = 0; i < words.size(); ++i) {
    if (!ptx::IsPadding(words[i])) continue;
    if (reached.elements++ > 0) continue;
    reached.first = static_cast<int64_t>(i);
    if (const size_t number = words[i] >> ptx::kTaintMeetingShift; number != 0)
      reached.meeting = &run.taint()->meetings[number - 1];
  }
  return reached;
}

Json PaddingJson(const KernelRun& run) {
  if (run.taint() == nullptr) return nullptr;
  Json outputs = Json::array();
  for (size_t i = 0; i < run.arguments().size(); ++i) {
    const KernelRun::Argument& argument = run.arguments()[i];
    if (argument.given.output.empty()) continue;
    const Reached reached = ReachedIn(run, argument);
    Json output = {{"index", i}, {"reached", reached.elements}, {"first", nullptr}};
    if (reached.elements > 0) output["first"] = {{"element", reached.first}};
    if (const ptx::TaintMeeting* const at = reached.meeting; at != nullptr)
      output["first"].update({{"line", at->line},
                              {"source", at->source.empty() ? Json(nullptr) : Json(at->source)},
                              {"block", at->block},
                              {"thread", at->thread}});
    outputs.push_back(output);
  }
  return {{"outputs", outputs}, {"gaps", run.taint()->gaps}};
}

std::string PaddingText(const KernelRun& run) {
  std::string text;
  if (run.taint() == nullptr) return text;
  for (const KernelRun::Argument& argument : run.arguments()) {
    if (argument.given.output.empty()) continue;
    const Reached reached = ReachedIn(run, argument);
    text += fmt::format("padding reaches {} of {}", reached.elements,
                        Counted(std::ssize(run.TaintOf(argument)), "element"));
    text += " of " + argument.given.text;
    if (const ptx::TaintMeeting* const at = reached.meeting; at != nullptr)
      text += fmt::format("; element {} by PTX line {}{}, thread ({}) of block ({})", reached.first,
                          at->line, at->source.empty() ? "" : fmt::format(" ({})", at->source),
                          fmt::join(at->thread, ", "), fmt::join(at->block, ", "));
    text += "\n";
  }
  if (!run.taint()->gaps.empty())
    text +=
        fmt::format("padding cannot be followed through {}\n", fmt::join(run.taint()->gaps, ", "));
  return text;
}

Json ToJson(const PtxRunOptions& options, const KernelRun& run, const ptx::Outcome& outcome) {
  Json findings = Json::array();
  for (const ptx::Finding& finding : FindingsOf(outcome)) {
    findings.push_back({{"kind", NameOf(finding.kind)},
                        {"kernel", finding.kernel},
                        {"block", finding.block},
                        {"thread", finding.thread},
                        {"line", finding.line},
                        {"source", finding.source.empty() ? Json(nullptr) : Json(finding.source)},
                        {"message", finding.message}});
  }
  Json arguments = Json::array();
  for (size_t i = 0; i < run.arguments().size(); ++i)
    arguments.push_back(ArgumentJson(run, i, outcome, options.checks.record));
  return {{"file", options.file},
          {"kernel", run.kernel().code->name},
          {"grid", run.launch().grid},
          {"block", run.launch().block},
          {"static_shared_bytes", run.kernel().shared_bytes},
          {"dynamic_shared_bytes", options.shared_bytes},
          {"cooperative", options.cooperative},
          {"seed", options.seed},
          {"instructions", outcome.counts.instructions},
          {"lane_instructions", outcome.counts.lane_instructions},
          {"loads", outcome.counts.loads},
          {"stores", outcome.counts.stores},
          {"completed", !outcome.fault.has_value()},
          {"arguments", arguments},
          {"padding", PaddingJson(run)},
          {"findings", findings}};
}

std::string Format(const PtxRunOptions& options,
                   const KernelRun& run,
                   const ptx::Outcome& outcome) {
  const std::vector<ptx::Finding> findings = FindingsOf(outcome);
  std::string text;
  for (const ptx::Finding& finding : findings)
    text += finding.Describe() + "\n";
  const ptx::Counts& counts = outcome.counts;
  text += fmt::format(
      "kernel {}, grid {}, block {}, {} bytes of static and {} bytes of dynamic shared memory, "
      "seed {}\n"
      "  instructions  {} by warps, {} by lanes\n"
      "  loads         {} by lanes\n"
      "  stores        {} by lanes\n",
      run.kernel().code->name, fmt::join(run.launch().grid, " x "),
      fmt::join(run.launch().block, " x "), run.kernel().shared_bytes, options.shared_bytes,
      options.seed, counts.instructions, counts.lane_instructions, counts.loads, counts.stores);
  TextTable table("lrrrr", {"argument", "address", "bytes", "read", "written"});
  bool any = false;
  for (const KernelRun::Argument& argument : run.arguments()) {
    if (!argument.given.is_array()) continue;
    any = true;
    const auto touched = [&](bool writes) {
      return options.checks.record
                 ? fmt::format("{}", TouchedBytes(outcome, argument.memory, writes))
                 : "";
    };
    table.Add({argument.given.text, fmt::format("{:#x}", argument.given.bits),
               fmt::format("{}", argument.memory.size()), touched(false), touched(true)});
  }
  if (any) text += table.Format();
  text += PaddingText(run);
  return text + fmt::format("{}{}\n", Counted(std::ssize(findings), "finding"),
                            outcome.fault ? "; the first ended the launch" : "");
}

}  // namespace

ExitCode PtxRun(const PtxRunOptions& options, const Console& console) {
  const absl::StatusOr<KernelRun> run = KernelRun::Prepare(options);
  if (!run.ok()) {
    Print(console.err, "coppice ptx run: {}\n", MessageOf(run.status()));
    return kExitUsage;
  }
  // JSON is alone on its stream.
  std::FILE* const printed = options.json ? console.err : console.out;
  const ptx::Outcome outcome =
      run->Run([&](std::string_view text) { std::fwrite(text.data(), 1, text.size(), printed); });
  Print(console.out, "{}",
        options.json ? FormatJson(ToJson(options, *run, outcome)) : Format(options, *run, outcome));
  if (const absl::Status status = run->WriteOutputs(); !status.ok()) {
    Print(console.err, "coppice ptx run: {}\n", MessageOf(status));
    return kExitOutput;
  }
  return outcome.fault || !outcome.findings.empty() ? kExitDevice : kExitOk;
}

}  // namespace coppice
