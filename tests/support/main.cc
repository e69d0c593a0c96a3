// The main() of the test programs, each of which holds the tests of many files.
//
//   graphs_tests --test=graphs/session_test    runs the tests of tests/graphs/session_test.cc
//
// Without it, all tests run. GoogleTest's flags work as ever; if --gtest_filter is given, it alone
// says which tests run: that is how a death test starts its child.

#include <cstdio>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace coppice {
namespace {

constexpr std::string_view kFlag = "--test=";

// A filter of GoogleTest that matches the tests of this file and no others.
std::string FilterOf(std::string_view test) {
  const std::string file = fmt::format("/tests/{}.cc", test);
  std::string filter;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& info = *suite.GetTestInfo(j);
      if (std::string_view(info.file()).ends_with(file))
        filter += fmt::format("{}.{}:", info.test_suite_name(), info.name());
    }
  }
  return filter;
}

int Main(int argc, char** argv) {
  testing::InitGoogleMock(&argc, argv);  // What it knows it takes out of the arguments.
  if (argc == 1) return RUN_ALL_TESTS();
  const std::string_view argument = argv[1];
  const std::string filter =
      argument.starts_with(kFlag) ? FilterOf(argument.substr(kFlag.size())) : std::string();
  if (argc != 2 || filter.empty()) {
    fmt::print(stderr, "{}: {}: pass --test=FOLDER/NAME_test, or flags of GoogleTest\n", argv[0],
               argument);
    return 2;
  }
  if (testing::GTEST_FLAG(filter) == "*") testing::GTEST_FLAG(filter) = filter;
  return RUN_ALL_TESTS();
}

}  // namespace
}  // namespace coppice

int main(int argc, char** argv) {
  return coppice::Main(argc, argv);
}
