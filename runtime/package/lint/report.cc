// Orders findings and writes JSON pointers.

#include "runtime/package/lint/report.h"

#include <algorithm>
#include <tuple>

#include "fmt/format.h"

namespace coppice::package {

Place Place::operator/(std::string_view key) const {
  Place below = *this;
  below.pointer_ += '/';
  for (const char character : key) {
    if (character == '~')
      below.pointer_ += "~0";
    else if (character == '/')
      below.pointer_ += "~1";
    else
      below.pointer_ += character;
  }
  return below;
}

Place Place::operator/(size_t index) const {
  return *this / std::string_view(std::to_string(index));
}

const char* NameOf(Severity severity) {
  switch (severity) {
    case Severity::kError:
      return "error";
    case Severity::kWarning:
      return "warning";
    case Severity::kNote:
      return "note";
  }
  return "";
}

std::string ToText(const Finding& finding) {
  return fmt::format("{} {}: {} {}: {}: {}; {}", finding.file, finding.pointer,
                     NameOf(finding.severity), finding.rule, finding.value, finding.what,
                     finding.advice);
}

void Report::Add(Severity severity,
                 std::string_view rule,
                 const Place& place,
                 std::string value,
                 std::string what,
                 std::string advice,
                 std::string file) {
  if (!seen_.emplace(rule, place.pointer()).second) return;
  findings_.push_back({.severity = severity,
                       .rule = std::string(rule),
                       .file = std::move(file),
                       .pointer = place.pointer(),
                       .value = std::move(value),
                       .what = std::move(what),
                       .advice = std::move(advice)});
}

std::vector<Finding> Report::Take() {
  std::stable_sort(findings_.begin(), findings_.end(), [](const Finding& a, const Finding& b) {
    return std::tie(a.severity, a.pointer, a.rule) < std::tie(b.severity, b.pointer, b.rule);
  });
  seen_.clear();
  return std::exchange(findings_, {});
}

}  // namespace coppice::package
