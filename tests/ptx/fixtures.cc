// Fixtures are read from the folder that the build names.

#include "tests/ptx/fixtures.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "coppice/base/check.h"

namespace coppice::ptx {

std::string ReadFixture(std::string_view name) {
  std::ifstream file(std::filesystem::path(COPPICE_PTX_FIXTURES) / name);
  COPPICE_CHECK(file.good(), "a fixture of this name");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<std::string> PtxFixtureNames() {
  const std::filesystem::path root(COPPICE_PTX_FIXTURES);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(root))
    if (entry.path().extension() == ".ptx")
      names.push_back(entry.path().lexically_relative(root).string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace coppice::ptx
