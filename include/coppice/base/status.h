// Errors as values: functions that make an absl::Status from an fmt format, and two macros that
// propagate a status.
//
// A message reads `Where: what, with numbers and units; what to do.` The codes mean:
//
//   kInvalidArgument     this argument can never be right           fix the call
//   kOutOfRange          valid in form, beyond a configured limit   change the limit or the call
//   kFailedPrecondition  wrong order: stale lease, closed session   fix the sequence
//   kResourceExhausted   not even the eager path fits               free outputs
//   kNotFound            a named kernel or file is absent           check the name
//   kUnavailable         no driver library, no device               use the emulator
//   kUnimplemented       the driver is too old for this entry       upgrade it
//   kAborted             a capture was invalidated midway           retry the call
//   kInternal            a driver error without another code        read its name in the text
//
// Threads: any.

#pragma once

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "fmt/format.h"

namespace coppice {

// Formats with fmt and wraps the text in a status of `code`. Cost: allocates.
template <typename... Args>
absl::Status MakeError(absl::StatusCode code, fmt::format_string<Args...> format, Args&&... args) {
  const std::string text = fmt::format(format, std::forward<Args>(args)...);
  return absl::Status(code, absl::string_view(text.data(), text.size()));
}

template <typename... Args>
absl::Status InvalidArgument(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(absl::StatusCode::kInvalidArgument, format, std::forward<Args>(args)...);
}

template <typename... Args>
absl::Status FailedPrecondition(fmt::format_string<Args...> format, Args&&... args) {
  return MakeError(absl::StatusCode::kFailedPrecondition, format, std::forward<Args>(args)...);
}

// The message of `status` as a std::string, for use with fmt.
inline std::string MessageOf(const absl::Status& status) {
  return std::string(status.message().data(), status.message().size());
}

}  // namespace coppice

#define COPPICE_INTERNAL_CONCAT_(a, b) a##b
#define COPPICE_INTERNAL_CONCAT(a, b) COPPICE_INTERNAL_CONCAT_(a, b)

// Returns from the enclosing function if `expression`, an absl::Status, is not OK.
#define COPPICE_RETURN_IF_ERROR(expression)                                                      \
  do {                                                                                           \
    if (absl::Status coppice_failed = (expression); !coppice_failed.ok()) return coppice_failed; \
  } while (false)

// Moves the value of `expression`, an absl::StatusOr, into `declaration`; if there is no value,
// returns the status.
#define COPPICE_ASSIGN_OR_RETURN(declaration, expression)                                        \
  COPPICE_INTERNAL_ASSIGN_OR_RETURN(COPPICE_INTERNAL_CONCAT(coppice_or_, __LINE__), declaration, \
                                    expression)
#define COPPICE_INTERNAL_ASSIGN_OR_RETURN(result, declaration, expression) \
  auto result = (expression);                                              \
  if (!result.ok()) return result.status();                                \
  declaration = *std::move(result)
