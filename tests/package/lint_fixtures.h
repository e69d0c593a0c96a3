// Images that compilers made, and packages written from JSON, for the tests of the linter.
//
// Threads: one at a time.

#pragma once

#include <map>
#include <string>

#include "nlohmann/json.hpp"

#include "tests/package/package_builder.h"

namespace coppice::package {

// The bytes of tests/package/fixtures/NAME.
std::string ReadFixture(const std::string& name);

// A folder with a package: what a test changed of the manifest and of the files, with digests. It
// goes with this object.
class LintedFolder {
 public:
  LintedFolder(nlohmann::json manifest, const std::map<std::string, std::string>& files);

  const std::string& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

// The same as the bytes of a zip.
std::string LintedZip(nlohmann::json manifest, const std::map<std::string, std::string>& files);

// A manifest that uses what the linter looks at, and has no fault; and its files.
nlohmann::json CleanManifest();
std::map<std::string, std::string> CleanFiles();

}  // namespace coppice::package
