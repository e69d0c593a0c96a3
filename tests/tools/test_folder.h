// A folder of the test's own, which goes with it.
//
// Threads: one test at a time.

#pragma once

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "fmt/format.h"
#include "gtest/gtest.h"

namespace coppice {

class TestFolder {
 public:
  TestFolder() {
    const testing::TestInfo& test = *testing::UnitTest::GetInstance()->current_test_info();
    path_ =
        fmt::format("{}/coppice_{}_{}", testing::TempDir(), test.test_suite_name(), test.name());
    std::filesystem::remove_all(path_);
    std::filesystem::create_directories(path_);
  }
  ~TestFolder() { std::filesystem::remove_all(path_); }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

  // Writes a file and returns its path.
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }
  static std::string Read(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    EXPECT_TRUE(file) << path;
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  std::string path_;
};

}  // namespace coppice
