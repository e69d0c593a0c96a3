// Reads COPPICE_TEST_SHARE and COPPICE_MUTATIONS.

#include "tests/support/test_share.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>

#include "coppice/base/check.h"

#include "tests/support/sanitized.h"

namespace coppice {
namespace {

#ifdef COPPICE_SANITIZED
constexpr int64_t kDefaultShare = 60;
#else
constexpr int64_t kDefaultShare = 1;
#endif

// A whole number from `least` on, which the variable holds; nothing without it.
std::optional<int64_t> NumberIn(const char* variable, int64_t least) {
  const char* const text = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  COPPICE_CHECK(error == std::errc() && end == digits.data() + digits.size() && number >= least,
                "COPPICE_TEST_SHARE is a whole number, at least 1, and COPPICE_MUTATIONS one");
  return number;
}

}  // namespace

int64_t TestShare() {
  return NumberIn("COPPICE_TEST_SHARE", 1).value_or(kDefaultShare);
}

int64_t Mutations(int64_t all) {
  return NumberIn("COPPICE_MUTATIONS", 0).value_or(all / TestShare());
}

}  // namespace coppice
