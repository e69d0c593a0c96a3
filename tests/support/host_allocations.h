// Counts the allocations of operator new, and makes chosen ones fail. For programs that link
// host_allocations.cc, which replaces operator new.
//
// Threads: every thread has its own count.

#pragma once

#include <cstdint>
#include <utility>

namespace coppice {

// Allocations of the calling thread.
struct HostAllocations {
  bool counting = false;
  int64_t count = 0;
  int64_t fail_from = 0;  // The first one that fails; 0: none.
  bool forever = false;   // Whether all later ones fail as well.

  // Counts one allocation; true if it is to fail.
  bool Fails() {
    if (!counting) return false;
    ++count;
    return fail_from > 0 && (count == fail_from || (forever && count > fail_from));
  }
};
inline thread_local HostAllocations host_allocations;

// Counts, or does not count, while it lives.
class CountingScope {
 public:
  explicit CountingScope(bool counting)
      : previous_(std::exchange(host_allocations.counting, counting)) {}
  ~CountingScope() { host_allocations.counting = previous_; }
  CountingScope(const CountingScope&) = delete;
  CountingScope& operator=(const CountingScope&) = delete;

 private:
  const bool previous_;
};

}  // namespace coppice
