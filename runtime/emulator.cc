// Life cycle of the emulator, admission of calls, and the entries for device and context.

#include "coppice/runtime/emulator.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>

#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

#include "emulator_state.h"

namespace coppice {
namespace emulator {
namespace {

std::atomic<State*> g_state = nullptr;
std::atomic<uint64_t> g_emulator_count = 0;
std::atomic<uint64_t> g_thread_count = 0;

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
  if (state.scheduler.sticky() != CuResult::kSuccess && !Releases(entry))
    return state.scheduler.sticky();
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
    static Registry registry;
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
    State* const state = g_state.load(std::memory_order_acquire);
    if (state == nullptr) return CuResult::kDeinitialized;
    if (id != EntryId::kGetErrorName && ThisThread().in_host_function)
      return CuResult::kNotPermitted;
    const ExclusiveUse use(state->strictness.concurrent_entry, args...);
    const std::lock_guard lock(state->mutex);
    CuResult result = Admit(*state, id);
    if (result != CuResult::kSuccess) return result;
    result = (IsNullGraph(args) || ...) ? CuResult::kInvalidValue : entry(args...);
    const CuResult sticky = state->scheduler.sticky();
    return result == CuResult::kSuccess && Releases(id) ? sticky : result;
  }
};

DriverTable MakeTable() {
  DriverTable table;
#define X(member, version, parameters) table.member = &Admitted<EntryId::k##member, &member>::Call;
#include "coppice/runtime/driver_entries.inc"
#undef X
  return table;
}

}  // namespace

State& TheState() {
  return *g_state.load(std::memory_order_relaxed);
}

bool IsDeviceAddress(uint64_t address) {
  State* const state = g_state.load(std::memory_order_relaxed);
  if (state == nullptr || !state->mutex.try_lock()) return false;
  const std::lock_guard lock(state->mutex, std::adopt_lock);
  return state->memory->Covers(address, 1, CuMemAccessFlags::kNone);
}

ThreadState& ThisThread() {
  thread_local ThreadState thread{.id = ++g_thread_count};
  const uint64_t emulator = g_emulator_count.load(std::memory_order_relaxed);
  if (thread.emulator != emulator) thread = {.id = thread.id, .emulator = emulator};
  return thread;
}

// Driver entries: device and context.

CuResult GetErrorName(CuResult error, const char** text) {
  if (text == nullptr) return CuResult::kInvalidValue;
  // Names live as long as the process, as CUDA's do. Guarded by the emulator's mutex.
  static std::map<CuResult, std::string> names;
  const std::string& name = names.try_emplace(error, NameOf(error)).first->second;
  const bool known = name != fmt::format("CUDA_ERROR_{}", static_cast<int>(error));
  *text = known ? name.c_str() : nullptr;
  return known ? CuResult::kSuccess : CuResult::kInvalidValue;
}

CuResult Init(unsigned flags) {
  if (flags != 0) return CuResult::kInvalidValue;
  TheState().initialized = true;
  return CuResult::kSuccess;
}

CuResult DriverGetVersion(int* version) {
  constexpr int kVersion = 13000;
  if (version == nullptr) return CuResult::kInvalidValue;
  *version = kVersion;
  return CuResult::kSuccess;
}

CuResult DeviceGetCount(int* count) {
  if (count == nullptr) return CuResult::kInvalidValue;
  *count = 1;
  return CuResult::kSuccess;
}

CuResult DeviceGet(CuDevice* device, int ordinal) {
  if (device == nullptr) return CuResult::kInvalidValue;
  if (ordinal != 0) return CuResult::kInvalidDevice;
  *device = 0;
  return CuResult::kSuccess;
}

CuResult DeviceGetName(char* name, int capacity, CuDevice device) {
  constexpr char kName[] = "coppice emulator";
  if (name == nullptr || capacity < 1) return CuResult::kInvalidValue;
  if (device != 0) return CuResult::kInvalidDevice;
  const size_t length = std::min(static_cast<size_t>(capacity), sizeof(kName)) - 1;
  std::memcpy(name, kName, length);
  name[length] = '\0';
  return CuResult::kSuccess;
}

CuResult DeviceTotalMem(size_t* bytes, CuDevice device) {
  if (bytes == nullptr) return CuResult::kInvalidValue;
  if (device != 0) return CuResult::kInvalidDevice;
  *bytes = static_cast<size_t>(TheState().memory->capacity_bytes());
  return CuResult::kSuccess;
}

CuResult DeviceGetAttribute(int* value, CuDeviceAttribute attribute, CuDevice device) {
  if (value == nullptr) return CuResult::kInvalidValue;
  if (device != 0) return CuResult::kInvalidDevice;
  switch (attribute) {
    case CuDeviceAttribute::kMaxThreadsPerBlock:
      *value = 1024;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kMaxSharedMemoryPerBlock:
      *value = 49152;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kMultiprocessorCount:
      *value = 132;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kComputeCapabilityMajor:
      *value = 9;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kComputeCapabilityMinor:
      *value = 0;
      return CuResult::kSuccess;
    case CuDeviceAttribute::kVirtualMemoryManagementSupported:
      *value = 1;
      return CuResult::kSuccess;
  }
  return CuResult::kInvalidValue;
}

CuResult DevicePrimaryCtxRetain(CuContext* context, CuDevice device) {
  if (context == nullptr) return CuResult::kInvalidValue;
  if (device != 0) return CuResult::kInvalidDevice;
  State& state = TheState();
  if (state.context_retains++ == 0) state.context = MakeHandle<CuContext>();
  *context = state.context;
  return CuResult::kSuccess;
}

CuResult DevicePrimaryCtxRelease(CuDevice device) {
  if (device != 0) return CuResult::kInvalidDevice;
  State& state = TheState();
  if (state.context_retains == 0) return CuResult::kInvalidContext;
  if (--state.context_retains > 0) return CuResult::kSuccess;
  state.context = nullptr;
  state.scheduler.Abandon();
  state.events.Abandon();
  state.graphs.Abandon();
  state.nodes.Abandon();
  state.execs.Abandon();
  state.libraries.Abandon();
  state.kernels.Abandon();
  state.captures.clear();
  state.memory->AbandonAllocations();
  return CuResult::kSuccess;
}

CuResult CtxSetCurrent(CuContext context) {
  if (context != nullptr && context != TheState().context) return CuResult::kInvalidContext;
  ThisThread().context = context;
  return CuResult::kSuccess;
}

CuResult CtxGetCurrent(CuContext* context) {
  if (context == nullptr) return CuResult::kInvalidValue;
  // A context that was released is no longer current anywhere.
  *context = ThisThread().context == TheState().context ? ThisThread().context : nullptr;
  return CuResult::kSuccess;
}

}  // namespace emulator

using emulator::g_state;
using emulator::Memory;
using emulator::State;

absl::StatusOr<std::unique_ptr<Emulator>> Emulator::Create(const Options& options) {
  if (options.memory_bytes < emulator::kGranularity ||
      options.memory_bytes % emulator::kGranularity != 0)
    return InvalidArgument(
        "Emulator::Create: memory_bytes is {}; pass a multiple of {} bytes, and at least that",
        options.memory_bytes, emulator::kGranularity);
  if (options.eager_permille < 0 || options.eager_permille > 1000)
    return InvalidArgument("Emulator::Create: eager_permille is {}; pass 0 to 1000",
                           options.eager_permille);
  if (options.queue_limit < 1)
    return InvalidArgument("Emulator::Create: queue_limit is {}; pass 1 or more operations",
                           options.queue_limit);
  COPPICE_ASSIGN_OR_RETURN(
      const emulator::CaptureLegality legality,
      emulator::CaptureLegality::Parse(options.capture_legality.empty()
                                           ? emulator::CaptureLegality::BuiltIn()
                                           : std::string_view(options.capture_legality)));
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  if (g_state.load() != nullptr)
    return FailedPrecondition(
        "Emulator::Create: an emulator exists in this process; destroy it first");
  std::unique_ptr<Memory> memory = Memory::Create(options);
  if (memory == nullptr)
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Emulator::Create: the host refuses a memfd for {} bytes of device memory",
                     options.memory_bytes);
  ++emulator::g_emulator_count;
  g_state.store(new State(options, legality, std::move(memory)), std::memory_order_release);
  return std::unique_ptr<Emulator>(
      new Emulator(Driver(emulator::MakeTable(), DriverKind::kEmulator)));
}

Emulator::~Emulator() {
  delete g_state.exchange(nullptr);
}

Emulator::Live Emulator::live() const {
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  return {.physical_bytes = state.memory->physical_bytes(),
          .mapped_bytes = state.memory->mapped_bytes(),
          .reserved_bytes = state.memory->reserved_bytes(),
          .handles = state.memory->handle_count(),
          .allocations = state.memory->allocation_count(),
          .streams = state.scheduler.streams().count(),
          .events = state.events.count(),
          .graphs = state.graphs.count(),
          .execs = state.execs.count(),
          .libraries = state.libraries.count(),
          .captures = static_cast<int64_t>(state.captures.size()),
          .contexts = state.context_retains,
          .nodes_executed = state.scheduler.nodes_executed()};
}

bool Emulator::Readable(DeviceAddress address, int64_t bytes) const {
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  return state.memory->Covers(address, bytes, CuMemAccessFlags::kRead);
}

std::vector<std::string> Emulator::reports() const {
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  return state.scheduler.checks().reports();
}

std::string Emulator::fault() const {
  State& state = emulator::TheState();
  const std::lock_guard lock(state.mutex);
  return state.scheduler.fault();
}

}  // namespace coppice
