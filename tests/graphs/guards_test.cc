// Goal: every sentence of guards.h. Method: small programs by hand, and seeded random guards, which
// must agree with each guard evaluated alone.

#include "coppice/graphs/guards.h"

#include "tests/support/host_allocations.h"
#include "tests/support/random_expression.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

const std::vector<std::string> kGuardNames = {"n", "m", "k"};

std::vector<GuardSpec> SpecsOf(const std::vector<std::string>& texts) {
  std::vector<GuardSpec> specs(texts.size());
  for (size_t i = 0; i < texts.size(); ++i)
    specs[i].text = texts[i];
  return specs;
}

// The program of these texts; fails the test and has no guards if it does not compile.
GuardProgram Compiled(const std::vector<std::string>& texts) {
  absl::StatusOr<GuardProgram> program = GuardProgram::Compile(SpecsOf(texts), kGuardNames);
  EXPECT_OK(program);
  return program.ok() ? *std::move(program) : GuardProgram();
}

std::optional<int> FirstFailing(const GuardProgram& program, int64_t n, int64_t m, int64_t k) {
  const std::vector<int64_t> values = {n, m, k};
  return program.FirstFailing(values);
}

TEST(GuardsTest, AGuardHoldsIfItsValueIsNotZero) {
  const GuardProgram program = Compiled({"n - 4"});
  EXPECT_EQ(FirstFailing(program, 4, 0, 0), 0);
  EXPECT_EQ(FirstFailing(program, 5, 0, 0), std::nullopt);
  EXPECT_EQ(FirstFailing(program, -5, 0, 0), std::nullopt);
}

TEST(GuardsTest, NamesTheGuardByItsIndexInTheOrderGiven) {
  const GuardProgram program = Compiled({"(n + m) * k != 8", "n", "n + m < 9"});
  EXPECT_EQ(FirstFailing(program, 1, 1, 1), std::nullopt);
  EXPECT_EQ(FirstFailing(program, 1, 7, 1), 0);
  EXPECT_EQ(FirstFailing(program, 0, 1, 1), 1);
  EXPECT_EQ(FirstFailing(program, 1, 8, 5), 2);
}

TEST(GuardsTest, TheCheapestOfSeveralFailingGuardsIsFirst) {
  const GuardProgram program = Compiled({"n + m + k < 0", "n + m < 0", "n < 0", "0"});
  EXPECT_EQ(FirstFailing(program, 1, 1, 1), 3);
}

TEST(GuardsTest, WhatAGuardAddsDecidesNotWhatItHas) {
  // Alone the second has five operations and the third four; after the first it adds one and four.
  const GuardProgram program = Compiled({"n % m + k", "not (n % m + k)", "-n + 1"});
  EXPECT_EQ(FirstFailing(program, 1, 2, -2), 2) << "n % m + k = -1 holds and comes after -n + 1";
  const GuardProgram shared = Compiled({"n % m + k", "(n % m + k) * n", "-n + 1 + k + 0"});
  EXPECT_EQ(FirstFailing(shared, 0, 2, -1), 1) << "one more operation is cheaper than four";
}

TEST(GuardsTest, EquallyCheapGuardsRunInTheOrderGiven) {
  EXPECT_EQ(FirstFailing(Compiled({"n", "m", "k"}), 1, 0, 0), 1);
  EXPECT_EQ(FirstFailing(Compiled({"k", "m", "n"}), 1, 0, 0), 0);
}

TEST(GuardsTest, AFaultThatAnotherGuardIgnoresFailsOnlyTheGuardThatHasIt) {
  const GuardProgram program = Compiled({"n == 0 or 8 // n > 1"});
  EXPECT_EQ(FirstFailing(program, 0, 0, 0), std::nullopt);
  const GuardProgram both = Compiled({"n == 0 or 8 // n > 1", "m == 0 or 8 // n > 1"});
  EXPECT_EQ(FirstFailing(both, 0, 0, 0), std::nullopt);
  EXPECT_EQ(FirstFailing(both, 0, 1, 0), 1);
}

TEST(GuardsTest, AProgramWithoutGuardsPassesEveryCall) {
  const GuardProgram empty;
  EXPECT_EQ(empty.FirstFailing({}), std::nullopt);
  EXPECT_EQ(FirstFailing(empty, 1, 2, 3), std::nullopt);
  EXPECT_EQ(empty.op_count(), 0);
  EXPECT_EQ(empty.guard_count(), 0);
  EXPECT_EQ(FirstFailing(Compiled({}), 1, 2, 3), std::nullopt);
}

TEST(GuardsTest, SharesTheOperationsOfThePicture) {
  EXPECT_EQ(Compiled({"n % 8 == 0"}).op_count(), 5);
  EXPECT_EQ(Compiled({"n % 8 == 0", "n % 8 == 0 or m > n"}).op_count(), 8);
}

TEST(GuardsTest, DescribesTheValuesOfTheNamesThatOccur) {
  const GuardProgram program = Compiled({"n % 8 == 0", "m < n and m > k - m", "1 > 2"});
  EXPECT_EQ(program.source(0), "n % 8 == 0");
  EXPECT_EQ(program.source(1), "m < n and m > k - m");
  const std::vector<int64_t> values = {12, 3, -1};
  EXPECT_EQ(program.DescribeValues(0, values), "n = 12");
  EXPECT_EQ(program.DescribeValues(1, values), "m = 3, n = 12, k = -1");
  EXPECT_EQ(program.DescribeValues(2, values), "");
}

TEST(GuardsTest, DescribesTheFault) {
  const GuardProgram program = Compiled({"8 // n == 2", "m * m > 0", "1 // 0"});
  const std::vector<int64_t> values = {0, INT64_MAX, 0};
  EXPECT_EQ(program.DescribeValues(0, values), "n = 0 (division by zero)");
  EXPECT_EQ(program.DescribeValues(1, values), "m = 9223372036854775807 (overflow)");
  EXPECT_EQ(program.DescribeValues(2, values), "(division by zero)");
}

TEST(GuardsTest, BoundsBecomeGuardsAndDefaultsDoNot) {
  std::vector<GuardSpec> guards = SpecsOf({"m"});
  AppendBoundGuards("n", {}, guards);
  EXPECT_THAT(guards, ElementsAre(GuardSpec{"m"}));
  AppendBoundGuards("n", {.min = 2, .max = 512, .multiple_of = 8}, guards);
  EXPECT_THAT(guards, ElementsAre(GuardSpec{"m"}, GuardSpec{"n >= 2"}, GuardSpec{"n <= 512"},
                                  GuardSpec{"n % 8 == 0"}));
  guards.clear();
  AppendBoundGuards("k", {.max = 0}, guards);
  EXPECT_THAT(guards, ElementsAre(GuardSpec{"k <= 0"}));
}

TEST(GuardsTest, BoundsHoldForExactlyTheExtentsWithin) {
  std::vector<GuardSpec> guards;
  AppendBoundGuards("n", {.min = 5, .max = 40, .multiple_of = 8}, guards);
  COPPICE_ASSERT_OK_AND_ASSIGN(const GuardProgram program,
                               GuardProgram::Compile(guards, kGuardNames));
  for (int64_t n = 0; n < 60; ++n)
    EXPECT_EQ(!FirstFailing(program, n, 0, 0).has_value(), n >= 5 && n <= 40 && n % 8 == 0) << n;
}

TEST(GuardsTest, RefusesAGuardByItsNumberAndTheExpressionsError) {
  const absl::StatusOr<GuardProgram> program =
      GuardProgram::Compile(SpecsOf({"n", "n % % 8"}), kGuardNames);
  ASSERT_THAT(program, StatusIs(kWrongArgument));
  for (const char* part : {"guard 1", "\"n % % 8\"", "column 5", "expected an integer"})
    EXPECT_THAT(MessageOf(program.status()), HasSubstr(part));
  const std::string long_text(Expression::kTextMax + 1, '1');
  EXPECT_THAT(GuardProgram::Compile(SpecsOf({long_text}), kGuardNames),
              StatusIs(absl::StatusCode::kOutOfRange));
}

TEST(GuardsTest, HoldsAsManyOperationsAsTheLimitAndNoMore) {
  std::vector<std::string> texts = {"n"};
  for (int i = 1; 1 + 2 * i < GuardProgram::kOperationsMax; ++i)
    texts.push_back("n != " + std::to_string(i));
  texts.push_back("7000");
  const GuardProgram program = Compiled(texts);
  EXPECT_EQ(program.op_count(), GuardProgram::kOperationsMax);
  EXPECT_EQ(FirstFailing(program, 300, 0, 0), 300);
  texts.push_back("7000 and n");
  const absl::StatusOr<GuardProgram> larger = GuardProgram::Compile(SpecsOf(texts), kGuardNames);
  ASSERT_THAT(larger, StatusIs(absl::StatusCode::kOutOfRange));
  for (const char* part : {"guard 513 of 514", "'7000 and n'", "1024"})
    EXPECT_THAT(MessageOf(larger.status()), HasSubstr(part));
}

TEST(GuardsTest, FindsTheFirstFailingWithoutAllocating) {
  const GuardProgram program = Compiled({"n % 8 == 0", "8 // m > 1"});
  const std::vector<int64_t> passing = {8, 1, 0};
  const std::vector<int64_t> failing = {8, 0, 0};
  host_allocations.count = 0;
  {
    const CountingScope scope(true);
    EXPECT_FALSE(program.FirstFailing(passing).has_value());
    EXPECT_TRUE(program.FirstFailing(failing).has_value());
  }
  EXPECT_EQ(host_allocations.count, 0);
}

TEST(GuardsDeathTest, ChecksWhatItRequires) {
  const GuardProgram program = Compiled({"n"});
  const std::vector<int64_t> two = {1, 2};
  EXPECT_DEATH(program.FirstFailing(two), "as many values as names");
  EXPECT_DEATH(program.DescribeValues(0, two), "as many values as names");
  EXPECT_DEATH(program.source(1), "no such guard");
  EXPECT_DEATH(program.source(-1), "no such guard");
  std::vector<GuardSpec> guards;
  EXPECT_DEATH(AppendBoundGuards("x.0", {}, guards), "no expression can use this name");
  EXPECT_DEATH(AppendBoundGuards("n", {.min = 3, .max = 2}, guards), "bounds of no extent");
  EXPECT_DEATH(AppendBoundGuards("n", {.min = -1}, guards), "bounds of no extent");
  EXPECT_DEATH(AppendBoundGuards("n", {.multiple_of = 0}, guards), "positive number");
}

// Different subexpressions of all texts, written out with swappable sides sorted.
std::set<std::string> DifferentSubexpressions(const std::vector<std::string>& texts) {
  const std::vector<std::string> names(RandomExpression::kNames.begin(),
                                       RandomExpression::kNames.end());
  std::set<std::string> different;
  for (const std::string& text : texts) {
    const Expression expression = *Expression::Parse(text, names);
    std::vector<std::string> written;
    for (const Operation& operation : expression.operations()) {
      std::vector<std::string> sides;
      for (const int16_t operand : operation.operands) {
        if (!operation.is_leaf()) sides.push_back(written[static_cast<size_t>(operand)]);
      }
      const std::set<Operator> swappable = {Operator::kAdd,   Operator::kMultiply,
                                            Operator::kMin,   Operator::kMax,
                                            Operator::kEqual, Operator::kNotEqual};
      if (swappable.count(operation.op) > 0) {
        sides.pop_back();
        std::sort(sides.begin(), sides.end());
      }
      std::string all = std::to_string(static_cast<int>(operation.op)) + "[" +
                        std::to_string(operation.immediate);
      for (const std::string& side : sides)
        all += "," + side;
      written.push_back(all + "]");
      different.insert(written.back());
    }
  }
  return different;
}

TEST(GuardsTest, CompiledGuardsAgreeWithEachGuardAlone) {
  SCOPED_TRACE(testing::Message() << "seed " << TestSeed());
  std::mt19937_64 random(TestSeed());
  const std::vector<std::string> names(RandomExpression::kNames.begin(),
                                       RandomExpression::kNames.end());
  int64_t shared = 0;
  int64_t passed = 0;
  for (int64_t i = 0; i < 3'000 / TestShare(); ++i) {
    std::vector<RandomExpression> meanings;
    std::vector<std::string> texts;
    size_t alone = 0;
    for (size_t guard = 0; guard <= random() % 8; ++guard) {
      meanings.emplace_back(random, static_cast<int>(random() % 4));
      texts.push_back(meanings.back().Render(random));
      alone += (*Expression::Parse(texts.back(), names)).operations().size();
    }
    COPPICE_ASSERT_OK_AND_ASSIGN(const GuardProgram program,
                                 GuardProgram::Compile(SpecsOf(texts), names));
    ASSERT_EQ(program.op_count(), DifferentSubexpressions(texts).size())
        << testing::PrintToString(texts);
    shared += static_cast<int64_t>(alone) - program.op_count();
    for (int round = 0; round < 16; ++round) {
      RandomExpression::Values values;
      for (int64_t& value : values)
        value = RandomExpression::DrawNumber(random);
      const std::optional<int> failing = program.FirstFailing(values);
      const auto holds = [&](const RandomExpression& meaning) {
        return meaning.Evaluate(values).is_true();
      };
      if (failing) {
        ASSERT_FALSE(holds(meanings[static_cast<size_t>(*failing)])) << program.source(*failing);
      } else {
        ASSERT_TRUE(std::all_of(meanings.begin(), meanings.end(), holds))
            << testing::PrintToString(texts) << " at " << testing::PrintToString(values);
        ++passed;
      }
    }
  }
  EXPECT_GT(shared, 0) << "nothing was shared";
  EXPECT_GT(passed, 0) << "no program ever passed";
}

}  // namespace
}  // namespace coppice
