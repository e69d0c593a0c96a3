// The functions of the driver table, around the entries.

#include "runtime/emulator/admission.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <mutex>
#include <vector>

#include "coppice/base/check.h"

#include "runtime/emulator/capture.h"
#include "runtime/emulator/entries.h"
#include "runtime/emulator/state.h"
#include "runtime/emulator/thread.h"

namespace coppice::emulator {
namespace {

// Calls that work before cuInit.
bool NeedsNoInit(EntryId entry) {
  return entry == EntryId::kGetErrorName || entry == EntryId::kInit ||
         entry == EntryId::kDriverGetVersion;
}

// Calls about the driver and the device; they work without a context and after its death.
bool NeedsNoContext(EntryId entry) {
  switch (entry) {
    case EntryId::kGetErrorName:
    case EntryId::kInit:
    case EntryId::kDriverGetVersion:
    case EntryId::kDeviceGetCount:
    case EntryId::kDeviceGet:
    case EntryId::kDeviceGetName:
    case EntryId::kDeviceTotalMem:
    case EntryId::kDeviceGetAttribute:
    case EntryId::kDevicePrimaryCtxRetain:
    case EntryId::kDevicePrimaryCtxRelease:
    case EntryId::kCtxSetCurrent:
    case EntryId::kCtxGetCurrent:
    case EntryId::kThreadExchangeStreamCaptureMode:
      return true;
    default:
      return false;
  }
}

// Calls that give something back: a dead context takes it, and reports its death all the same.
bool Releases(EntryId entry) {
  switch (entry) {
    case EntryId::kMemFree:
    case EntryId::kMemAddressFree:
    case EntryId::kMemRelease:
    case EntryId::kMemUnmap:
    case EntryId::kStreamDestroy:
    case EntryId::kStreamEndCapture:
    case EntryId::kEventDestroy:
    case EntryId::kLibraryUnload:
    case EntryId::kGraphDestroy:
    case EntryId::kGraphExecDestroy:
      return true;
    default:
      return false;
  }
}

// Whether `entry` may run at this moment.
CuResult Admit(State& state, EntryId entry) {
  if (!state.initialized && !NeedsNoInit(entry)) return CuResult::kNotInitialized;
  if (NeedsNoContext(entry)) return CuResult::kSuccess;
  if (ThisThread().context == nullptr || ThisThread().context != state.context)
    return CuResult::kInvalidContext;
  if (state.processor.sticky() != CuResult::kSuccess && !Releases(entry))
    return state.processor.sticky();
  if (state.captures.empty() || LooksAtHandleFirst(entry)) return CuResult::kSuccess;
  return CheckCaptureAllows(state, entry);
}

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
                  "two threads are inside one graph or graph exec at the same time");
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
bool IsNullGraph(CuGraph graph) {
  return graph == nullptr;
}
bool IsNullGraph(CuGraphNode node) {
  return node == nullptr;
}
bool IsNullGraph(CuGraphExec exec) {
  return exec == nullptr;
}

// The function in the driver table for `entry`.
template <EntryId id, auto entry>
struct Admitted;

template <EntryId id, typename... Args, CuResult (*entry)(Args...)>
struct Admitted<id, entry> {
  static CuResult Call(Args... args) {
    State* const state = FindState();
    if (state == nullptr) return IsForked() ? CuResult::kNotInitialized : CuResult::kDeinitialized;
    if (id != EntryId::kGetErrorName && ThisThread().runs_host_code) return CuResult::kNotPermitted;
    const ExclusiveUse use(state->options.concurrent_entry, args...);
    const std::lock_guard lock(state->mutex);
    CuResult result = Admit(*state, id);
    if (result != CuResult::kSuccess) return result;
    result = (IsNullGraph(args) || ...) ? CuResult::kInvalidValue : entry(args...);
    const CuResult sticky = state->processor.sticky();
    return result == CuResult::kSuccess && Releases(id) ? sticky : result;
  }
};

}  // namespace

DriverTable MakeTable() {
  DriverTable table;
#define X(member, version, parameters) table.member = &Admitted<EntryId::k##member, &member>::Call;
#include "coppice/runtime/driver_entries.inc"
#undef X
  return table;
}

}  // namespace coppice::emulator
