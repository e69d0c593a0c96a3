// What a process takes of the machine, for tests of readers of hostile files.
//
// Threads: one at a time.

#pragma once

#include <csignal>
#include <cstdint>
#include <string_view>
#include <unistd.h>

#include <sys/resource.h>
#include <sys/time.h>

#include "tests/support/sanitized.h"

namespace coppice {

// Whether memory and time are the program's own, and not a sanitizer's.
#ifdef COPPICE_SANITIZED
inline constexpr bool kPlainBuild = false;
#else
inline constexpr bool kPlainBuild = true;
#endif

// The most memory that the process ever had.
inline int64_t MostBytesOfProcess() {
  struct rusage usage {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss * 1024;
}

// Ends the program if it takes more than five seconds of the processor from here to the next call.
inline void LimitTime() {
  std::signal(SIGPROF, [](int) {
    constexpr std::string_view kMessage = "more than 5 s of the processor for one file\n";
    static_cast<void>(!write(STDERR_FILENO, kMessage.data(), kMessage.size()));
    _exit(1);
  });
  const itimerval limit = {.it_value = {.tv_sec = kPlainBuild ? 5 : 60}};
  setitimer(ITIMER_PROF, &limit, nullptr);
}

// Ends what LimitTime began.
inline void EndTimeLimit() {
  const itimerval none = {};
  setitimer(ITIMER_PROF, &none, nullptr);
}

}  // namespace coppice
