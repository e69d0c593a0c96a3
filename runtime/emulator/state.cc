// The one state of the process.

#include "runtime/emulator/state.h"

#include <atomic>
#include <mutex>
#include <pthread.h>

namespace coppice::emulator {
namespace {

std::atomic<State*> g_state = nullptr;
std::atomic<bool> g_forked = false;

// In the child, whose only thread may have been forked while another held the mutex.
void OnFork() {
  if (g_state.exchange(nullptr) != nullptr) g_forked = true;
}

}  // namespace

State* FindState() {
  return g_state.load(std::memory_order_acquire);
}

State& TheState() {
  return *g_state.load(std::memory_order_relaxed);
}

State* ExchangeState(State* state) {
  return g_state.exchange(state);
}

void WatchForks() {
  [[maybe_unused]] static const int watches = pthread_atfork(nullptr, nullptr, &OnFork);
}

bool IsForked() {
  return g_forked.load(std::memory_order_relaxed);
}

bool IsDeviceAddress(uint64_t address) {
  State* const state = g_state.load(std::memory_order_relaxed);
  if (state == nullptr || !state->mutex.try_lock()) return false;
  const std::lock_guard lock(state->mutex, std::adopt_lock);
  return state->memory->Covers(address, 1, CuMemAccessFlags::kNone);
}

void State::Restart() {
  scheduler.Clear();
  captures.clear();
  events.Clear();
  graphs.Clear();
  nodes.Clear();
  execs.Clear();
  libraries.Clear();
  kernels.Clear();
  memory->Clear();
  processor.Restart();
  context = nullptr;
  context_retains = 0;
}

Capture* State::FindCapture(uint64_t id) const {
  for (const std::unique_ptr<Capture>& capture : captures)
    if (capture->id == id) return capture.get();
  return nullptr;
}

}  // namespace coppice::emulator
