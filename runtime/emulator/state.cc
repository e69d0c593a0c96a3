// The one state of the process.

#include "runtime/emulator/state.h"

#include <atomic>
#include <mutex>

namespace coppice::emulator {
namespace {

std::atomic<State*> g_state = nullptr;

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

bool IsDeviceAddress(uint64_t address) {
  State* const state = g_state.load(std::memory_order_relaxed);
  if (state == nullptr || !state->mutex.try_lock()) return false;
  const std::lock_guard lock(state->mutex, std::adopt_lock);
  return state->memory->Covers(address, 1, CuMemAccessFlags::kNone);
}

Capture* State::FindCapture(uint64_t id) const {
  for (const std::unique_ptr<Capture>& capture : captures)
    if (capture->id == id) return capture.get();
  return nullptr;
}

}  // namespace coppice::emulator
