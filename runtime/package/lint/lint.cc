// Asks every part of the linter.

#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "fmt/format.h"

#include "coppice/runtime/package.h"
#include "coppice/runtime/package_lint.h"

#include "runtime/package/lint/images.h"
#include "runtime/package/lint/program_lint.h"
#include "runtime/package/lint/report.h"

namespace coppice::package {
namespace {

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

std::vector<Finding> Lint(const Package& package, const LintOptions& options) {
  const auto read = [&](const std::string& name) { return package.Read(name); };
  return LintManifest(package.manifest(), read, options);
}

std::vector<Finding> LintManifest(const Manifest& manifest,
                                  const FileReader& read,
                                  const LintOptions& options) {
  Report report;
  LintImages(manifest, read, report);
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
