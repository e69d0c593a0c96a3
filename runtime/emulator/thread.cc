// One state per thread, told apart by emulator.

#include "runtime/emulator/thread.h"

#include <atomic>

namespace coppice::emulator {
namespace {

std::atomic<uint64_t> g_emulator_count = 0;
std::atomic<uint64_t> g_thread_count = 0;

}  // namespace

ThreadState& ThisThread() {
  thread_local ThreadState thread{.id = ++g_thread_count};
  const uint64_t emulator = g_emulator_count.load(std::memory_order_relaxed);
  if (thread.emulator != emulator) thread = {.id = thread.id, .emulator = emulator};
  return thread;
}

void ForgetThreads() {
  ++g_emulator_count;
}

}  // namespace coppice::emulator
