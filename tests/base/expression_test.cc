// Goal: every sentence of expression.h. Method: the table of the header by hand, each bad text with
// its column and what was expected, each operator at the ends of int64, and seeded random
// expressions against their meaning in 128 bits.

#include "coppice/base/expression.h"

#include "tests/support/host_allocations.h"
#include "tests/support/random_expression.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

const std::vector<std::string> kNames = {"n", "m", "k"};

// The text at n, m, k; fails the test if it does not parse.
Computed At(const std::string& text, int64_t n = 0, int64_t m = 0, int64_t k = 0) {
  const absl::StatusOr<Expression> expression = Expression::Parse(text, kNames);
  EXPECT_OK(expression);
  if (!expression.ok()) return {-999, ArithmeticFault::kNone};
  const std::vector<int64_t> values = {n, m, k};
  return expression->Evaluate(values);
}

Computed Value(int64_t value) {
  return {value, ArithmeticFault::kNone};
}

const Computed kOverflow = {0, ArithmeticFault::kOverflow};
const Computed kDivisionByZero = {0, ArithmeticFault::kDivisionByZero};

// Expects a refusal that quotes the text, the column and `expected`.
void ExpectRefused(const std::string& text,
                   int column,
                   const std::string& expected,
                   absl::StatusCode code = absl::StatusCode::kInvalidArgument) {
  const absl::StatusOr<Expression> expression = Expression::Parse(text, kNames);
  ASSERT_THAT(expression, StatusIs(code)) << text;
  const std::string message = MessageOf(expression.status());
  EXPECT_THAT(message, HasSubstr(fmt::format("\"{}\"", text)));
  EXPECT_THAT(message, HasSubstr(fmt::format(" column {};", column)));
  EXPECT_THAT(message.substr(message.find("; expected ")), HasSubstr(expected));
}

TEST(ExpressionTest, ReadsIntegersAndNames) {
  EXPECT_EQ(At("0"), Value(0));
  EXPECT_EQ(At("007"), Value(7));
  EXPECT_EQ(At("9223372036854775807"), Value(INT64_MAX));
  EXPECT_EQ(At(" \tn ", 12), Value(12));
  EXPECT_EQ(At("n*100+m*10+k", 1, 2, 3), Value(123));
}

TEST(ExpressionTest, ComparisonsDoNotChain) {
  ExpectRefused("0 < n < 8", 7, "a < b and b < c");
  ExpectRefused("n == m != k", 8, "a < b and b < c");
  EXPECT_EQ(At("0 < n and n < 8", 5), Value(1));
  EXPECT_EQ(At("(0 < n) < 8", 5), Value(1));
}

TEST(ExpressionTest, FunctionsAreNamesWithoutAParenthesis) {
  const std::vector<std::string> names = {"min", "order"};
  COPPICE_ASSERT_OK_AND_ASSIGN(const Expression expression,
                               Expression::Parse("min + min (min, order)", names));
  const std::vector<int64_t> values = {5, 3};
  EXPECT_EQ(expression.Evaluate(values), Value(8));
}

TEST(ExpressionTest, ArithmeticThatAnInt64CannotHoldOverflows) {
  EXPECT_EQ(At("n + 1", INT64_MAX), kOverflow);
  EXPECT_EQ(At("n - 1", INT64_MIN), kOverflow);
  EXPECT_EQ(At("n * m", INT64_MIN, -1), kOverflow);
  EXPECT_EQ(At("n * m", int64_t{1} << 32, int64_t{1} << 31), kOverflow);
  EXPECT_EQ(At("-n", INT64_MIN), kOverflow);
  EXPECT_EQ(At("n // m", INT64_MIN, -1), kOverflow);
  EXPECT_EQ(At("ceildiv(n, m)", INT64_MIN, -1), kOverflow);
  EXPECT_EQ(At("align(n, 8)", INT64_MAX), kOverflow);
  EXPECT_EQ(At("align(n, m)", 1, INT64_MIN), kOverflow);
}

TEST(ExpressionTest, ArithmeticAtTheEndsOfInt64IsExact) {
  EXPECT_EQ(At("-9223372036854775807 - 1"), Value(INT64_MIN));
  EXPECT_EQ(At("n % m", INT64_MIN, -1), Value(0));
  EXPECT_EQ(At("n // m", INT64_MIN, 1), Value(INT64_MIN));
  EXPECT_EQ(At("n // m", INT64_MAX, INT64_MIN), Value(-1));
  EXPECT_EQ(At("n % m", INT64_MAX, INT64_MIN), Value(-1));
  EXPECT_EQ(At("ceildiv(n, m)", INT64_MAX, INT64_MIN), Value(0));
  EXPECT_EQ(At("align(n, m)", INT64_MIN, -1), Value(INT64_MIN));
  EXPECT_EQ(At("align(n, m)", INT64_MIN, INT64_MIN), Value(INT64_MIN));
  EXPECT_EQ(At("align(n, m)", -1, INT64_MIN), Value(0));
  EXPECT_EQ(At("align(n, 8)", INT64_MAX - 7), Value(INT64_MAX - 7));
}

TEST(ExpressionTest, AFaultReachesWhateverIsComputedFromIt) {
  for (const char* text :
       {"-(1 // n)", "not 1 // n", "1 // n + 1", "1 - 1 // n", "0 * (1 // n)", "1 // n == 1",
        "1 // n < 1", "min(1 // n, 0)", "max(0, 1 // n)", "align(1 // n, 1)", "1 // n // 1",
        "1 // n and 1", "1 // n or 1", "1 and 1 // n", "0 or 1 // n", "select(1 // n, 1, 2)",
        "select(1, 1 // n, 2)", "select(0, 1, 1 // n)"})
    EXPECT_EQ(At(text, 0), kDivisionByZero) << text;
}

TEST(ExpressionTest, WhatTheFirstOperandMakesIrrelevantIsIgnoredFaultAndAll) {
  EXPECT_EQ(At("0 and 1 // n", 0), Value(0));
  EXPECT_EQ(At("2 or 1 // n", 0), Value(1));
  EXPECT_EQ(At("select(1, 7, 1 // n)", 0), Value(7));
  EXPECT_EQ(At("select(0, 1 // n, 7)", 0), Value(7));
  for (const int64_t n : {-1, 0, 1, 4})
    EXPECT_EQ(At("n != 0 and 8 // n == 2", n), Value(n == 4 ? 1 : 0));
}

TEST(ExpressionTest, RefusesWhatIsNoOperand) {
  const char* const operand = "an integer, a name, a function, '(', '-' or 'not'";
  ExpectRefused("", 1, operand);
  ExpectRefused("  ", 3, operand);
  ExpectRefused("n +", 4, operand);
  ExpectRefused("n % % 8", 5, operand);
  ExpectRefused("()", 2, operand);
  ExpectRefused("(", 2, operand);
  ExpectRefused("+n", 1, operand);
  ExpectRefused("n + not m", 5, operand);
  ExpectRefused("- not m", 3, operand);
  ExpectRefused("n and or m", 7, operand);
  ExpectRefused("min(,n)", 5, operand);
  ExpectRefused("!n", 1, operand);
  ExpectRefused("\"n\"", 1, operand);
}

TEST(ExpressionTest, RefusesWhatIsNoOperator) {
  const char* const after = "an operator or the end";
  ExpectRefused("n m", 3, after);
  ExpectRefused("n)", 2, after);
  ExpectRefused("n / 2", 3, after);
  ExpectRefused("n = 2", 3, after);
  ExpectRefused("n ** 2", 4, "an integer");
  ExpectRefused("n & m", 3, after);
  ExpectRefused("n, m", 2, after);
  ExpectRefused("8n", 2, after);
  ExpectRefused("(n)(m)", 4, after);
  ExpectRefused("(n m)", 4, "an operator or ')'");
  ExpectRefused("(n", 3, "an operator or ')'");
  ExpectRefused(std::string("n\0", 2), 2, after);
  ExpectRefused("n \xc3\xa9", 3, after);
}

TEST(ExpressionTest, ThereAreNoFloats) {
  ExpectRefused("1.5", 2, "an operator or the end");
  ExpectRefused("1e3", 2, "an operator or the end");
  ExpectRefused(".5", 1, "an integer");
}

TEST(ExpressionTest, RefusesIntegersAboveTheRange) {
  ExpectRefused("n + 9223372036854775808", 5, "at most 9223372036854775807");
  ExpectRefused("99999999999999999999999", 1, "at most 9223372036854775807");
}

TEST(ExpressionTest, RefusesUnknownNamesAndSaysWhichThereAre) {
  ExpectRefused("n + q", 5, "one of n, m, k");
  ExpectRefused("N", 1, "one of n, m, k");
  EXPECT_THAT(MessageOf(Expression::Parse("n", {}).status()), HasSubstr("expected no name"));
}

TEST(ExpressionTest, RefusesANameThatMeansTwoValuesOnlyWhereItIsUsed) {
  const std::vector<std::string> names = {"n", "m", "n"};
  EXPECT_THAT(Expression::Parse("n + m", names), StatusIs(kWrongArgument));
  EXPECT_OK(Expression::Parse("m + 1", names));
}

TEST(ExpressionTest, RefusesUnknownFunctionsAndWrongNumbersOfArguments) {
  ExpectRefused("1 + abs(n)", 5, "ceildiv, align, min, max or select");
  ExpectRefused("n(1)", 1, "ceildiv, align, min, max or select");
  ExpectRefused("min(n)", 6, "min takes 2 arguments");
  ExpectRefused("min(n, m, k)", 9, "min takes 2 arguments");
  ExpectRefused("select(n, m)", 12, "select takes 3 arguments");
  ExpectRefused("align(n, m", 11, "an operator or ')'");
}

TEST(ExpressionTest, NestsAsDeepAsTheLimitAndNoDeeper) {
  const auto nested = [](const std::string& opening, const std::string& closing, int depth) {
    std::string before;
    std::string after;
    for (int i = 0; i < depth; ++i) {
      before += opening;
      after += closing;
    }
    return before + "n" + after;
  };
  const int max = Expression::kDepthMax;
  EXPECT_EQ(At(nested("(", ")", max), 3), Value(3));
  EXPECT_EQ(At(nested("-", "", max), 3), Value(3));
  EXPECT_EQ(At(nested("not ", "", max), 3), Value(1));
  EXPECT_EQ(At(nested("max(", ", 1)", max), 3), Value(3));
  for (const char* opening : {"(", "-", "not ", "max("}) {
    const std::string text = nested(opening, "", max + 1);
    ExpectRefused(text, static_cast<int>(text.size()), "at most 32 levels",
                  absl::StatusCode::kOutOfRange);
  }
}

TEST(ExpressionTest, TakesTextsAsLongAsTheLimitAndNoLonger) {
  std::string text = "1";
  for (int operations = 1; operations + 2 <= Expression::kOperationsMax; operations += 2)
    text += "+1";
  const std::string most = text;
  text.resize(Expression::kTextMax, ' ');
  EXPECT_EQ(At(text), Value(Expression::kOperationsMax / 2));
  EXPECT_EQ(At("-(" + most + ")"), Value(-Expression::kOperationsMax / 2));
  ExpectRefused(most + "+1", static_cast<int>(most.size()) + 3, "at most 1024 names, numbers",
                absl::StatusCode::kOutOfRange);
  const absl::StatusOr<Expression> longer = Expression::Parse(text + " ", kNames);
  ASSERT_THAT(longer, StatusIs(absl::StatusCode::kOutOfRange));
  for (const char* part : {"\"1+1+1", "column 8193", "at most 8192 characters"})
    EXPECT_THAT(MessageOf(longer.status()), HasSubstr(part));
}

TEST(ExpressionTest, OperationsAreNeverMoreThanCharacters) {
  for (const std::string text : {"1", "n+1", "-n", "---1", "-n+-n", "not 0", "1<2", "1 or 0"}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Expression expression, Expression::Parse(text, kNames));
    EXPECT_LE(expression.operations().size(), text.size()) << text;
    EXPECT_FALSE(expression.operations().empty());
  }
}

TEST(ExpressionTest, TheLastSlotOfTheFlatFormIsTheResult) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Expression expression, Expression::Parse("n*2 - m", kNames));
  EXPECT_EQ(expression.text(), "n*2 - m");
  const std::vector<int64_t> values = {5, 3, 0};
  std::vector<Computed> slots(expression.operations().size(), Value(-1));
  Compute(expression.operations().first(2), 0, values, slots);
  EXPECT_EQ(slots[2], Value(-1)) << "only the slots asked for are filled";
  Compute(expression.operations(), 2, values, slots);
  EXPECT_EQ(slots.back(), Value(7));
}

TEST(ExpressionTest, AStepOfFewerOperandsNamesTheLastOneAgain) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Expression expression,
                               Expression::Parse("-n + min(m, k)", kNames));
  for (const Operation& operation : expression.operations()) {
    if (operation.is_leaf()) continue;
    EXPECT_EQ(operation.immediate, 0);
    EXPECT_EQ(operation.operands[2], operation.operands[1]);
    if (operation.op == Operator::kNegate) {
      EXPECT_EQ(operation.operands[1], operation.operands[0]);
    }
  }
}

TEST(ExpressionTest, NamesThatExpressionsCanUse) {
  for (const char* name : {"n", "_", "x_0", "N9", "order", "min", "nota"})
    EXPECT_TRUE(IsExpressionName(name)) << name;
  for (const char* name : {"", "9n", "x.0", "a b", " n", "n ", "or", "and", "not", "-", "1", "=="})
    EXPECT_FALSE(IsExpressionName(name)) << name;
}

TEST(ExpressionTest, FaultsHaveNames) {
  EXPECT_STREQ(NameOf(ArithmeticFault::kNone), "none");
  EXPECT_STREQ(NameOf(ArithmeticFault::kOverflow), "overflow");
  EXPECT_STREQ(NameOf(ArithmeticFault::kDivisionByZero), "division by zero");
}

TEST(ExpressionTest, NoFaultIsTrue) {
  EXPECT_TRUE(Value(-1).is_true());
  EXPECT_FALSE(Value(0).is_true());
  EXPECT_FALSE(kOverflow.ok());
  EXPECT_FALSE(kOverflow.is_true());
}

TEST(ExpressionTest, EvaluatesWithoutAllocating) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const Expression expression,
                               Expression::Parse("select(n // m == 2, n * n * n, k) + 1", kNames));
  const std::vector<int64_t> fine = {4, 2, 1};
  const std::vector<int64_t> faulty = {4, 0, 1};
  host_allocations.count = 0;
  {
    const CountingScope scope(true);
    EXPECT_TRUE(expression.Evaluate(fine).ok());
    EXPECT_FALSE(expression.Evaluate(faulty).ok());
  }
  EXPECT_EQ(host_allocations.count, 0);
}

TEST(ExpressionDeathTest, EvaluateChecksTheNumberOfValues) {
  const Expression expression = *Expression::Parse("1", kNames);
  const std::vector<int64_t> values = {1, 2};
  EXPECT_DEATH(expression.Evaluate(values), "as many values as names");
}

TEST(ExpressionDeathTest, ComputeChecksItsSlotsAndValues) {
  const Expression expression = *Expression::Parse("1 + k", kNames);
  const std::vector<int64_t> values = {1, 2};
  std::vector<Computed> slots(3);
  EXPECT_DEATH(Compute(expression.operations(), 0, values, slots), "a value is missing");
  slots.pop_back();
  EXPECT_DEATH(Compute(expression.operations(), 0, values, slots), "slots are missing");
}

TEST(ExpressionTest, DescribesTheValuesThatItReads) {
  const std::vector<std::string> names = {"n", "m", "k"};
  const std::vector<int64_t> values = {4, 0, 7};
  const auto describe = [&](const char* text) {
    return Expression::Parse(text, names)->Describe(names, values);
  };
  EXPECT_EQ(describe("k + n * k"), "k = 7, n = 4");
  EXPECT_EQ(describe("n // m"), "n = 4, m = 0 (division by zero)");
  EXPECT_EQ(describe("1 + 2"), "");
  EXPECT_EQ(describe("1 // 0"), "(division by zero)");
  EXPECT_EQ(Expression::Parse("k + n * k", names)->Reads(), (std::vector<size_t>{2, 0}));
  EXPECT_TRUE(Expression::Parse("1 + 2", names)->Reads().empty());
}

TEST(ExpressionTest, AgreesWithItsMeaningIn128Bits) {
  SCOPED_TRACE(testing::Message() << "seed " << TestSeed());
  std::mt19937_64 random(TestSeed());
  const std::vector<std::string> names(RandomExpression::kNames.begin(),
                                       RandomExpression::kNames.end());
  int64_t faults[3] = {};
  for (int64_t i = 0; i < 50'000 / TestShare(); ++i) {
    const RandomExpression meaning(random, static_cast<int>(random() % 5));
    const std::string text = meaning.Render(random);
    if (text.size() > static_cast<size_t>(Expression::kTextMax)) continue;
    COPPICE_ASSERT_OK_AND_ASSIGN(const Expression expression, Expression::Parse(text, names));
    ASSERT_LE(expression.operations().size(), text.size()) << text;
    for (int round = 0; round < 8; ++round) {
      RandomExpression::Values values;
      for (int64_t& value : values)
        value = RandomExpression::DrawNumber(random);
      const Computed expected = meaning.Evaluate(values);
      ASSERT_EQ(expression.Evaluate(values), expected)
          << text << " at " << testing::PrintToString(values);
      ++faults[static_cast<int>(expected.fault)];
    }
  }
  for (const int64_t count : faults)
    EXPECT_GT(count, 0) << "the random expressions miss an outcome";
}

}  // namespace
}  // namespace coppice
