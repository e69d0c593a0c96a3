// The one state of the process.

#include "runtime/emulator/state.h"

#include <atomic>
#include <mutex>
#include <pthread.h>
#include <vector>

#include "runtime/emulator/client_abi.h"
#include "runtime/emulator/thread.h"

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
  contexts.Clear();
  devices.assign(devices.size(), {});
}

CuContext State::Context() const {
  return ThisThread().context();
}

int State::Device() const {
  return contexts.Find(Context())->device;
}

StreamState* State::FindStream(CuStream stream) {
  const auto value = reinterpret_cast<uintptr_t>(stream);
  if (value == kPerThreadStream) return &scheduler.OwnOf(ThisThread().id, Context(), Device());
  if (value <= kLegacyStream) return &scheduler.LegacyOf(Context(), Device());
  return scheduler.Find(stream);
}

CuContext State::MakeContext(ContextState context) {
  static uint64_t last_id = 0;  // Unique in the process; guarded by the emulator's mutex.
  context.id = ++last_id;
  return contexts.Insert(std::make_unique<ContextState>(context));
}

void State::EndContext(CuContext context) {
  contexts.Take(context);
  std::erase_if(captures, [&](const std::unique_ptr<Capture>& capture) {
    if (scheduler.Find(capture->origin)->context != context) return false;
    for (const auto& [handle, stream] : scheduler.streams())
      if (stream->capture == capture.get()) stream->capture = nullptr;
    return true;
  });
  if (contexts.begin() != contexts.end()) {
    scheduler.AbandonContext(context);
    std::vector<CuEvent> gone;
    for (const auto& [handle, event] : events)
      if (event->context == context) gone.push_back(handle);
    for (const CuEvent handle : gone) {
      events.Take(handle);
      events.CountAbandoned();
    }
    return;
  }
  scheduler.Abandon();
  events.Abandon();
  graphs.Abandon();
  nodes.Abandon();
  execs.Abandon();
  libraries.Abandon();
  kernels.Abandon();
  memory->AbandonAllocations();
}

Capture* State::FindCapture(uint64_t id) const {
  for (const std::unique_ptr<Capture>& capture : captures)
    if (capture->id == id) return capture.get();
  return nullptr;
}

}  // namespace coppice::emulator
