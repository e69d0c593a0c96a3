// The program of the conformance suite: which drivers it runs on, and how wrong they are.

#include <system_error>

#include "tests/conformance/conformance_fixture.h"
#include "tests/conformance/mutants.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

constexpr char kHelp[] =
    R"(conformance_suite: whether a driver behaves as CUDA documents.

  --driver=emulator|cuda|all  Drivers to test (all). Under all, CUDA's tests are skipped where it
                              cannot run; under cuda that is an error.
  --strict=on|off             Whether the emulator also refuses what a GPU may tolerate (on).
  --mutant=NAME               Breaks one rule of the emulator: the suite has to fail.
  --list-mutants              Prints every mutant's name and the rule that it breaks, and ends.

Exit: 0 every test passed, 1 some failed, 2 wrong usage, no test chosen, or the output cannot be
written. COPPICE_TEST_SEED repeats the order of the emulator's work. The other flags are
GoogleTest's:

)";

int Misused(const std::string& what) {
  fmt::print(stderr, "conformance_suite: {}\n", what);
  return 2;
}

// The rest of `argument` if it starts with `flag`.
std::optional<std::string_view> ValueOf(std::string_view argument, std::string_view flag) {
  if (!argument.starts_with(flag)) return std::nullopt;
  return argument.substr(flag.size());
}

// Whether `argument` is a flag of this program; if so, it takes effect, or `*error` says why not.
bool Take(std::string_view argument, std::string* error) {
  if (const auto driver = ValueOf(argument, "--driver=")) {
    if (*driver == "emulator")
      suite_options.driver = DriverKind::kEmulator;
    else if (*driver == "cuda")
      suite_options.driver = DriverKind::kCuda;
    else if (*driver != "all")
      *error = fmt::format("--driver={}: pass emulator, cuda or all", *driver);
    else
      suite_options.driver = std::nullopt;
    return true;
  }
  if (const auto strict = ValueOf(argument, "--strict=")) {
    suite_options.strict = *strict == "on";
    if (*strict != "on" && *strict != "off")
      *error = fmt::format("--strict={}: pass on or off", *strict);
    return true;
  }
  if (const auto mutant = ValueOf(argument, "--mutant=")) {
    suite_options.mutant = FindMutant(*mutant);
    if (suite_options.mutant == nullptr)
      *error = fmt::format("--mutant={}: no such mutant; see --list-mutants", *mutant);
    return true;
  }
  return argument == "--list-mutants";
}

// `code`, unless what was printed so far cannot be written.
int Printed(int code) {
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
  return Misused("the output cannot be written");
}

int ListMutants() {
  for (const Mutant& mutant : Mutants())
    std::fputs(fmt::format("{}\t{}\n", mutant.name, mutant.rule).c_str(), stdout);
  return Printed(0);
}

int RunTests() {
  if (const auto seed = GivenTestSeed(); !seed.ok()) return Misused(MessageOf(seed.status()));
  const int code = RUN_ALL_TESTS();
  if (testing::UnitTest::GetInstance()->test_to_run_count() == 0 &&
      !testing::GTEST_FLAG(list_tests))
    return Misused(fmt::format("--gtest_filter={}: no test to run", testing::GTEST_FLAG(filter)));
  return Printed(code);
}

// Where this program is. A name that the shell found in PATH starts no death test.
std::string OwnPath(const char* name) {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  return error ? name : path.string();
}

int Main(int argc, char** argv) {
  // The arguments stay in argv until GoogleTest has kept them: its death tests start this program
  // again. The drivers have to be known before it registers the instances.
  std::string own_path = OwnPath(argv[0]);
  argv[0] = own_path.data();
  std::string error;
  bool helps = false;
  bool lists_mutants = false;
  for (int i = 1; i < argc && error.empty(); ++i) {
    const std::string_view argument = argv[i];
    helps |= !Take(argument, &error) && argument == "--help";
    lists_mutants |= argument == "--list-mutants";
  }
  if (!error.empty()) return Misused(error);
  if (helps) std::fputs(kHelp, stdout);
  testing::InitGoogleTest(&argc, argv);
  for (int i = 1; i < argc; ++i)
    if (const std::string_view argument = argv[i]; argument != "--help" && !Take(argument, &error))
      return Misused(fmt::format("{}: no such flag; see --help", argument));
  if (helps) return Printed(0);
  if (lists_mutants) return ListMutants();
  if (suite_options.driver == DriverKind::kCuda) {
    if (suite_options.mutant != nullptr) return Misused("--mutant: only the emulator has mutants");
    if (const std::string reason = WhyNoCuda(); !reason.empty())
      return Misused("--driver=cuda: " + reason);
  }
  return RunTests();
}

}  // namespace
}  // namespace coppice

int main(int argc, char** argv) {
  return coppice::Main(argc, argv);
}
