// Asks every part of the linter.

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "fmt/format.h"

#include "coppice/runtime/package_lint.h"

#include "runtime/package/lint/images.h"
#include "runtime/package/lint/program_lint.h"
#include "runtime/package/lint/report.h"

namespace coppice::package {
namespace {

std::vector<int> ChildrenOf(const Program& program) {
  std::vector<int> children;
  for (const Step& step : program.steps)
    if (const auto* const child = std::get_if<ChildStep>(&step.action))
      children.push_back(child->program);
  return children;
}

// Programs that run themselves, through others or not.
void LintRecursion(const Manifest& manifest, Report& report) {
  const size_t count = manifest.programs.size();
  for (size_t start = 0; start < count; ++start) {
    std::vector<bool> reached(count);
    std::vector<int> pending = ChildrenOf(manifest.programs[start]);
    while (!pending.empty()) {
      const auto next = static_cast<size_t>(pending.back());
      pending.pop_back();
      if (reached[next]) continue;
      reached[next] = true;
      const std::vector<int> children = ChildrenOf(manifest.programs[next]);
      pending.insert(pending.end(), children.begin(), children.end());
    }
    if (reached[start])
      report.Error("child-circle", Place() / "programs" / manifest.programs[start].name,
                   manifest.programs[start].name, "the program runs itself, through its children",
                   "break the circle");
  }
}

void LintFunctions(const Manifest& manifest, const LintOptions& options, Report& report) {
  if (options.functions.empty()) return;
  for (const Program& program : manifest.programs)
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const auto* const call = std::get_if<CallStep>(&program.steps[i].action);
      if (call == nullptr || call->function == "gemm") continue;
      if (std::find(options.functions.begin(), options.functions.end(), call->function) ==
          options.functions.end())
        report.Error("function-unknown",
                     Place() / "programs" / program.name / "steps" / i / "function", call->function,
                     "no function of this name is registered",
                     "register it before the package is loaded");
    }
}

}  // namespace

std::vector<Finding> LintManifest(const Manifest& manifest,
                                  const FileReader& read,
                                  const LintOptions& options) {
  Report report;
  LintImages(manifest, read, report);
  LintRecursion(manifest, report);
  LintFunctions(manifest, options, report);
  for (const Program& program : manifest.programs) {
    ProgramLint lint(manifest, program, options.points_max, report);
    LintSymbols(lint);
    LintLaunches(lint);
    LintMemory(lint);
    LintPromises(lint);
  }
  LintUnused(manifest, report);
  return report.Take();
}

}  // namespace coppice::package
