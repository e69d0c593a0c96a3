// The findings of a run of the linter, and the places that they name.
//
// Threads: one at a time.

#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "coppice/runtime/package_lint.h"

namespace coppice::package {

// A place in the manifest, as a JSON pointer.
class Place {
 public:
  Place() = default;
  // The place below this one: a key, whose `~` and `/` are escaped, or an index.
  Place operator/(std::string_view key) const;
  Place operator/(size_t index) const;

  const std::string& pointer() const { return pointer_; }

 private:
  std::string pointer_;
};

class Report {
 public:
  // Keeps a finding unless there is one of its rule and place: the first sizes stand for others.
  void Add(Severity severity,
           std::string_view rule,
           const Place& place,
           std::string value,
           std::string what,
           std::string advice,
           std::string file = "manifest.json");
  void Error(std::string_view rule,
             const Place& place,
             std::string value,
             std::string what,
             std::string advice) {
    Add(Severity::kError, rule, place, std::move(value), std::move(what), std::move(advice));
  }

  // Errors first, then by pointer; leaves none behind.
  std::vector<Finding> Take();

 private:
  std::set<std::pair<std::string, std::string>> seen_;  // Rule and pointer.
  std::vector<Finding> findings_;
};

}  // namespace coppice::package
