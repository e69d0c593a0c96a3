// Images that compilers made, and packages written from JSON, for the tests of the linter.
//
// Threads: one at a time.

#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace coppice::package {

// The bytes of tests/package/fixtures/NAME.
std::string ReadFixture(const std::string& name);

inline std::span<const std::byte> SpanOf(const std::string& text) {
  return std::as_bytes(std::span(text));
}

// A folder with a package: what a test changed of the manifest and of the files, with digests. It
// goes with this object.
class LintedFolder {
 public:
  LintedFolder(nlohmann::json manifest, const std::map<std::string, std::string>& files);
  ~LintedFolder();
  LintedFolder(const LintedFolder&) = delete;
  LintedFolder& operator=(const LintedFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// A manifest that uses what the linter looks at, and has no fault; and its files.
nlohmann::json CleanManifest();
std::map<std::string, std::string> CleanFiles();

}  // namespace coppice::package
