// Admission: what is checked of every call before its entry runs.
//
// Threads: the entries of the table from any thread.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

#include "coppice/base/check.h"
#include "coppice/runtime/driver.h"

#include "runtime/emulator/entries.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/thread.h"

namespace coppice::emulator {

// The driver's table; its entries return kDeinitialized while there is no emulator.
DriverTable MakeTable();

// What an entry needs.
struct Admission {
  bool init = true;             // cuInit was called.
  bool context = true;          // A context is current, and no fault has ended it.
  bool orphan = false;          // Runs where none is current: its arguments know theirs.
  bool releases = false;        // A dead context takes it, and reports its death all the same.
  bool handle_first = false;    // It asks what captures forbid by itself, after its own handle.
  EntryId as = EntryId::kInit;  // What captures forbid of it.

  friend bool operator==(const Admission&, const Admission&) = default;
};

// Whether a call may run at this moment.
CuResult Admit(State& state, const Admission& admission);

// Claims the graphs and execs among a call's arguments while it lives. CUDA synchronises neither,
// so that a second thread inside one is a bug of the caller, whether or not anything breaks.
class ExclusiveUse {
 public:
  template <typename... Args>
  explicit ExclusiveUse(bool checks, Args... args) {
    if (checks) (Claim(args), ...);
  }
  ~ExclusiveUse() {
    if (count_ == 0) return;
    const std::lock_guard lock(Books().mutex);
    for (size_t i = 0; i < count_; ++i)
      std::erase(Books().claimed, claimed_[i]);
  }
  ExclusiveUse(const ExclusiveUse&) = delete;
  ExclusiveUse& operator=(const ExclusiveUse&) = delete;

 private:
  struct Registry {
    std::mutex mutex;
    std::vector<const void*> claimed;
  };

  static Registry& Books() {
    static Registry& registry = *new Registry;  // For threads that are left when the process ends.
    return registry;
  }

  template <typename Arg>
  void Claim(Arg /*arg*/) {}
  void Claim(CuGraph graph) { ClaimHandle(graph); }
  void Claim(CuGraphExec exec) { ClaimHandle(exec); }

  void ClaimHandle(const void* handle) {
    if (handle == nullptr || (count_ > 0 && claimed_[0] == handle)) return;
    const std::lock_guard lock(Books().mutex);
    const std::vector<const void*>& claimed = Books().claimed;
    COPPICE_CHECK(std::find(claimed.begin(), claimed.end(), handle) == claimed.end(),
                  "two threads use the same graph or graph exec at the same time; use it on one "
                  "thread at a time");
    Books().claimed.push_back(handle);
    claimed_[count_++] = handle;
  }

  std::array<const void*, 2> claimed_ = {};  // No entry takes more than two.
  size_t count_ = 0;
};

// CUDA knows no null graph, node or exec: it calls one an invalid value, not an invalid handle.
template <typename Arg>
bool IsNullGraph(Arg /*arg*/) {
  return false;
}
inline bool IsNullGraph(CuGraph graph) {
  return graph == nullptr;
}
inline bool IsNullGraph(CuGraphNode node) {
  return node == nullptr;
}
inline bool IsNullGraph(CuGraphExec exec) {
  return exec == nullptr;
}

// The entry as clients call it.
template <Admission admission, auto entry>
struct Admitted;

template <Admission admission, typename... Args, CuResult (*entry)(Args...)>
struct Admitted<admission, entry> {
  static CuResult Call(Args... args) {
    State* const state = FindState();
    if (state == nullptr) return IsForked() ? CuResult::kNotInitialized : CuResult::kDeinitialized;
    if (ThisThread().runs_host_code) return CuResult::kNotPermitted;
    const ExclusiveUse use(state->options.concurrent_entry, args...);
    const std::lock_guard lock(state->mutex);
    CuResult result = Admit(*state, admission);
    if (result != CuResult::kSuccess) return result;
    result = (IsNullGraph(args) || ...) ? CuResult::kInvalidValue : entry(args...);
    const CuResult sticky = state->processor.sticky();
    return result == CuResult::kSuccess && admission.releases ? sticky : result;
  }
};

}  // namespace coppice::emulator
