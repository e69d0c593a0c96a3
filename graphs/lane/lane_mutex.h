// A lane's lock. A thread that holds it and wants it again is in a callable, which would wait for
// itself for ever: it ends the process instead, and says why. Private to graphs/.
//
// Threads: any. Cost: that of std::mutex and two stores.

#pragma once

#include <atomic>
#include <mutex>

#include "coppice/base/check.h"

namespace coppice::internal {

class LaneMutex {
 public:
  void lock() {
    if (!mutex_.try_lock()) [[unlikely]]
      Wait();
    holder_.store(&thread_mark, std::memory_order_relaxed);
  }
  bool try_lock() {
    if (!mutex_.try_lock()) return false;
    holder_.store(&thread_mark, std::memory_order_relaxed);
    return true;
  }
  void unlock() {
    holder_.store(nullptr, std::memory_order_relaxed);
    mutex_.unlock();
  }

  // Ends the process as well if the calling thread holds it; for what takes no lock.
  void CheckNotHeld() const {
    COPPICE_CHECK(
        holder_.load(std::memory_order_relaxed) != &thread_mark,
        "a callable must not call its session, or read or release a lease of its session");
  }

 private:
  // Its address tells threads apart at less cost than an id.
  static inline thread_local const char thread_mark = 0;

  [[gnu::noinline]] void Wait() {
    CheckNotHeld();
    mutex_.lock();
  }

  std::mutex mutex_;
  std::atomic<const char*> holder_ = nullptr;
};

}  // namespace coppice::internal
