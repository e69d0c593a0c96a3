// Findings for people and for programs.

#include "coppice/runtime/package_lint.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/runtime/package.h"

#include "tools/package/key_file.h"
#include "tools/package/package.h"

namespace coppice {
namespace {

using package::Finding;
using package::Severity;

absl::StatusOr<std::vector<Finding>> FindingsOf(const PackageOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(const package::Package opened,
                           OpenSigned(options.path, options.trusted_keys));
  COPPICE_RETURN_IF_ERROR(opened.Verify());
  return package::Lint(opened, {});
}

nlohmann::ordered_json ToJson(const Finding& finding) {
  return {{"severity", package::NameOf(finding.severity)},
          {"rule", finding.rule},
          {"file", finding.file},
          {"pointer", finding.pointer},
          {"value", finding.value},
          {"what", finding.what},
          {"advice", finding.advice}};
}

}  // namespace

ExitCode PackageLint(const PackageOptions& options, const Console& console) {
  const absl::StatusOr<std::vector<Finding>> findings = FindingsOf(options);
  if (!findings.ok()) {
    Print(console.err, "coppice package lint: {}\n", MessageOf(findings.status()));
    return kExitUsage;
  }
  int64_t counts[3] = {};
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Finding& finding : *findings) {
    ++counts[static_cast<size_t>(finding.severity)];
    list.push_back(ToJson(finding));
    if (!options.json) Print(console.out, "{}\n", package::ToText(finding));
  }
  const auto count = [&](Severity severity) { return counts[static_cast<size_t>(severity)]; };
  if (options.json) {
    const nlohmann::ordered_json json = {{"package", options.path},
                                         {"errors", count(Severity::kError)},
                                         {"warnings", count(Severity::kWarning)},
                                         {"notes", count(Severity::kNote)},
                                         {"findings", list}};
    Print(console.out, "{}\n",
          json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
  } else {
    Print(console.out, "{} errors, {} warnings, {} notes\n", count(Severity::kError),
          count(Severity::kWarning), count(Severity::kNote));
  }
  return count(Severity::kError) + count(Severity::kWarning) == 0 ? kExitOk : kExitMismatch;
}

}  // namespace coppice
