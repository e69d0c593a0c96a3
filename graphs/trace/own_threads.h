// Whether the threads that sessions started are there: a forked child has none of its parent's.
// Private to graphs/.
//
// What such a thread waits on must not be destroyed in the child, which would wait for it, and a
// mutex may be held there for ever. Its owner forgets them:
//
//   if (OwnThreads::AreGone()) OwnThreads::Forget(mutex_, changed_, thread_);
//
// No session can be made where they are gone: the device is the parent's, too.
//
// Threads: any.

#pragma once

#include <atomic>
#include <memory>
#include <pthread.h>

namespace coppice::internal {

class OwnThreads {
 public:
  // One starts, or has ended.
  static void Begin() {
    [[maybe_unused]] static const int watches = pthread_atfork(nullptr, nullptr, [] {
      if (count_ > 0) gone_ = true;
    });
    ++count_;
  }
  static void End() { --count_; }

  // Whether this process was forked from one where there were any.
  static bool AreGone() { return gone_.load(std::memory_order_relaxed); }

  // Makes new ones in their place, without an end to those that were there.
  template <typename... Parts>
  static void Forget(Parts&... parts) {
    (std::construct_at(&parts), ...);
  }

 private:
  static inline std::atomic<int> count_ = 0;
  static inline std::atomic<bool> gone_ = false;
};

}  // namespace coppice::internal
