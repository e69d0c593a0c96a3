// Fixtures are read from the folder that the build names.

#include "tests/ptx/fixtures.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "coppice/base/check.h"

namespace coppice::ptx {

namespace {

std::string ReadText(std::string_view name) {
  std::ifstream file(std::filesystem::path(COPPICE_PTX_FIXTURES) / name);
  COPPICE_CHECK(file.good(), "a fixture of this name");
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::string ReadFixture(std::string_view name) {
  return ReadText(std::string(name) + ".ptx");
}

std::string ReadTable(std::string_view name) {
  return ReadText(std::string(name) + ".txt");
}

std::vector<std::string> FixtureNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(COPPICE_PTX_FIXTURES))
    if (entry.path().extension() == ".ptx") names.push_back(entry.path().stem().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace coppice::ptx
