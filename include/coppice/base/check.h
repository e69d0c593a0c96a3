// Checks for programmer errors: a failed check prints where and why, then aborts.
//
// A check verifies that the caller keeps a contract. Failures that are not programmer errors (a
// driver, a file, an option) return an absl::Status instead; see status.h.
//
// Threads: any.

#pragma once

#include <cstdio>
#include <cstdlib>

namespace coppice::internal {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "%s:%d: check failed: %s\n", file, line, what);
  std::abort();
}

}  // namespace coppice::internal

// Aborts with file, line and `message` unless `condition` holds. It is active in every build.
#define COPPICE_CHECK(condition, message)                                            \
  do {                                                                               \
    if (!(condition)) [[unlikely]]                                                   \
      ::coppice::internal::CheckFailed(__FILE__, __LINE__, #condition ": " message); \
  } while (false)

// The same for checks that cost more than a compare; compiled out with NDEBUG.
#ifdef NDEBUG
#define COPPICE_DCHECK(condition, message) ((void)0)
#else
#define COPPICE_DCHECK(condition, message) COPPICE_CHECK(condition, message)
#endif
