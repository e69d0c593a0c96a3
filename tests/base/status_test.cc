// Goal: errors carry their code and a formatted text, and the macros propagate them unchanged.
// Method: small functions that return early.

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(StatusTest, MakersSetCodeAndFormattedText) {
  const absl::Status status =
      MakeError(absl::StatusCode::kAborted, "Where: {} of {} bytes", 3, std::string("8"));
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kAborted));
  EXPECT_EQ(MessageOf(status), "Where: 3 of 8 bytes");
  EXPECT_THAT(InvalidArgument("{}", 1), StatusIs(kWrongArgument));
  EXPECT_THAT(FailedPrecondition("{}", 1), StatusIs(kRefused));
}

TEST(StatusTest, MessageOfAnOkStatusIsEmpty) {
  EXPECT_EQ(MessageOf(absl::OkStatus()), "");
}

absl::Status PassOn(const absl::Status& status, bool& reached_end) {
  COPPICE_RETURN_IF_ERROR(status);
  reached_end = true;
  return absl::OkStatus();
}

TEST(StatusTest, ReturnIfErrorReturnsTheVerySameError) {
  bool reached_end = false;
  absl::Status error = absl::NotFoundError("gone");
  error.SetPayload("key", absl::Cord("value"));
  EXPECT_EQ(PassOn(error, reached_end), error);
  EXPECT_FALSE(reached_end);
}

TEST(StatusTest, ReturnIfErrorGoesOnAfterSuccess) {
  bool reached_end = false;
  EXPECT_OK(PassOn(absl::OkStatus(), reached_end));
  EXPECT_TRUE(reached_end);
}

using Box = std::unique_ptr<int>;

absl::StatusOr<int> SumOf(absl::StatusOr<Box> first, absl::StatusOr<Box> second) {
  COPPICE_ASSIGN_OR_RETURN(const Box a, std::move(first));
  Box b;
  COPPICE_ASSIGN_OR_RETURN(b, std::move(second));
  return *a + *b;
}

TEST(StatusTest, AssignOrReturnMovesTheValue) {
  const absl::StatusOr<int> sum = SumOf(std::make_unique<int>(2), std::make_unique<int>(3));
  ASSERT_OK(sum);
  EXPECT_EQ(*sum, 5);
}

TEST(StatusTest, AssignOrReturnReturnsTheFirstError) {
  EXPECT_THAT(SumOf(absl::NotFoundError("first"), absl::AbortedError("second")),
              StatusIs(absl::StatusCode::kNotFound));
  EXPECT_THAT(SumOf(std::make_unique<int>(2), absl::AbortedError("second")),
              StatusIs(absl::StatusCode::kAborted));
}

}  // namespace
}  // namespace coppice
