// Reads COPPICE_TEST_SHARE.

#include "tests/support/test_share.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "coppice/base/check.h"

namespace coppice {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr int64_t kDefaultShare = 20;
#else
constexpr int64_t kDefaultShare = 1;
#endif

}  // namespace

int64_t TestShare() {
  const char* const text = std::getenv("COPPICE_TEST_SHARE");  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return kDefaultShare;
  const std::string_view digits(text);
  int64_t share = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), share);
  COPPICE_CHECK(error == std::errc() && end == digits.data() + digits.size() && share >= 1,
                "COPPICE_TEST_SHARE is a whole number, at least 1");
  return share;
}

}  // namespace coppice
