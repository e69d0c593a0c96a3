// Matchers and assertions for absl::Status and absl::StatusOr.
//
// Tests compare codes, and of messages at most parts, never the whole text:
//
//   COPPICE_ASSERT_OK_AND_ASSIGN(const Stream stream, Stream::Create(driver));
//   EXPECT_THAT(DeviceMemory::Create(driver, 0), StatusIs(kWrongArgument, HasSubstr("0 bytes")));
//
// Threads: stateless.

#pragma once

#include <ostream>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"

namespace coppice {

// What Session::Explain says where Run says this.
inline std::string AsExplained(std::string message) {
  constexpr std::string_view kRun = "Session::Run";
  const size_t at = message.find(kRun);
  return at == std::string::npos ? message : message.replace(at, kRun.size(), "Session::Explain");
}

// What misuse, a wrong argument and want of room are refused with.
inline constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;
inline constexpr absl::StatusCode kWrongArgument = absl::StatusCode::kInvalidArgument;
inline constexpr absl::StatusCode kExhausted = absl::StatusCode::kResourceExhausted;

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}

template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

MATCHER(IsOk, negation ? "is not OK" : "is OK") {
  *result_listener << "whose status is " << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

MATCHER_P(StatusIs, code, "has status code " + absl::StatusCodeToString(code)) {
  *result_listener << "whose status is " << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code;
}

MATCHER_P2(StatusIs, code, message, "has status code " + absl::StatusCodeToString(code)) {
  *result_listener << "whose status is " << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         testing::Matches(message)(std::string(StatusOf(arg).message()));
}

}  // namespace coppice

namespace absl {

// How GoogleTest prints a StatusOr of any type.
template <typename T>
void PrintTo(const StatusOr<T>& result, std::ostream* out) {
  *out << "StatusOr with " << result.status();
}

}  // namespace absl

#define ASSERT_OK(expression) ASSERT_THAT(expression, ::coppice::IsOk())
#define EXPECT_OK(expression) EXPECT_THAT(expression, ::coppice::IsOk())

// Moves the value of `expression`, a StatusOr, into `declaration`, or fails the test and returns.
#define COPPICE_ASSERT_OK_AND_ASSIGN(declaration, expression)                           \
  COPPICE_INTERNAL_ASSERT_OK_AND_ASSIGN(COPPICE_INTERNAL_CONCAT(coppice_or_, __LINE__), \
                                        declaration, expression)
#define COPPICE_INTERNAL_ASSERT_OK_AND_ASSIGN(result, declaration, expression) \
  auto result = (expression);                                                  \
  ASSERT_OK(result);                                                           \
  declaration = *std::move(result)
