// Runs the command in this process and keeps what it wrote.
//
// Threads: one at a time.

#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/tools/text_stream.h"
#include "tools/coppice/command_line.h"
#include "tools/support/console.h"

namespace coppice {

struct CommandOutcome {
  ExitCode code = kExitOk;
  std::string out;
  std::string err;
};

// Runs `program` with `arguments` by `run(argument_count, arguments, console)`, which `stop` may
// ask to stop.
template <typename Run>
CommandOutcome OutcomeOf(const char* program,
                         const std::vector<std::string>& arguments,
                         Run run,
                         std::function<bool()> stop = nullptr) {
  std::vector<const char*> pointers = {program};
  for (const std::string& argument : arguments)
    pointers.push_back(argument.c_str());
  const TextStream out;
  const TextStream err;
  CommandOutcome outcome;
  outcome.code = run(static_cast<int>(pointers.size()), pointers.data(),
                     Console{.out = out.stream(), .err = err.stream(), .stop = std::move(stop)});
  outcome.out = out.Text();
  outcome.err = err.Text();
  return outcome;
}

inline CommandOutcome RunCoppice(const std::vector<std::string>& arguments,
                                 std::function<bool()> stop = nullptr) {
  return OutcomeOf(
      "coppice", arguments,
      [](int count, const char* const* pointers, const Console& console) {
        return RunCommandLine(count, pointers, /*program=*/"", console);
      },
      std::move(stop));
}

// What a run printed that succeeded without a word on standard error.
inline nlohmann::json JsonOf(const CommandOutcome& outcome) {
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.err, testing::IsEmpty());
  return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
}

}  // namespace coppice
