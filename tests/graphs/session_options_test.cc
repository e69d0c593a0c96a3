// Goal: ValidateOptions refuses what session_options.h says, and nothing else. Method: every number
// at and below its lower limit, lanes above their upper one.

#include "coppice/graphs/session_options.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

// A number of the options, and the least it may be.
struct Number {
  std::function<void(SessionOptions& options, int value)> set;
  int least = 0;
};

std::vector<Number> Numbers() {
  return {{[](auto& options, int value) { options.lanes = value; }, 1},
          {[](auto& options, int value) { options.warmup_runs = value; }, 1},
          {[](auto& options, int value) { options.limits.graphs_per_program_max = value; }},
          {[](auto& options, int value) { options.limits.rerecords_per_bucket_max = value; }},
          {[](auto& options, int value) { options.memory.window_bytes = value; }},
          {[](auto& options, int value) { options.memory.workspace_bytes = value; }},
          {[](auto& options, int value) { options.memory.copy_out_bytes = value; }},
          {[](auto& options, int value) { options.memory.budget_bytes = value; }}};
}

TEST(SessionOptionsTest, DefaultsAreValid) {
  EXPECT_OK(ValidateOptions({}));
}

TEST(SessionOptionsTest, NumbersAreValidDownToTheirLimit) {
  for (const Number& number : Numbers()) {
    SessionOptions options;
    number.set(options, number.least);
    EXPECT_OK(ValidateOptions(options));
  }
}

TEST(SessionOptionsTest, NumbersBelowTheirLimitAreInvalid) {
  for (const Number& number : Numbers()) {
    SessionOptions options;
    number.set(options, number.least - 1);
    EXPECT_THAT(ValidateOptions(options), StatusIs(kWrongArgument));
  }
}

TEST(SessionOptionsTest, LanesAreValidUpToTheirLimit) {
  EXPECT_OK(ValidateOptions({.lanes = kLanesMax}));
  for (const int lanes : {kLanesMax + 1, 1 << 28, INT32_MAX})
    EXPECT_THAT(ValidateOptions({.lanes = lanes}), StatusIs(kWrongArgument));
}

}  // namespace
}  // namespace coppice
