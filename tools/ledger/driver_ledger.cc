// The ledger's wrapper table and its books.
//
// Every entry of the table is one instance of Wrapped<entry>::Call, generated from the entry list:
// it calls the inner driver, then writes the books. A driver entry is a plain function, so the
// books are found through one pointer per process.
//
// An exec's node count is learnt from the inner driver, by a call that no book has.
//
// The entries that create or release memory hold the mutex across the inner call. Otherwise another
// thread could be given the same handle or address again before the old one is struck out.

#include "tools/ledger/driver_ledger.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice {

struct DriverLedger::Books {
  // What the latency model has to know of an exec.
  struct Exec {
    int64_t nodes = 0;
    bool uploaded = false;
  };

  Books(const DriverTable& inner_table, const Options& wanted)
      : inner(inner_table), options(wanted) {}

  const DriverTable inner;
  const Options options;
  std::array<std::atomic<int64_t>, kDriverEntryCount> calls{};
  std::atomic<int64_t> driver_ns = 0;

  std::atomic<int64_t> modelled_ps = 0;  // Whole numbers add up in any order to the same sum.
  std::mutex exec_mutex;
  absl::flat_hash_map<CuGraphExec, Exec> execs;  // Kept with a latency model only.

  std::mutex event_mutex;
  absl::flat_hash_map<CuEvent, int64_t> recorded_ps;  // `modelled_ps` after the last record.

  std::mutex trace_mutex;
  std::vector<TracedCall> trace;

  std::mutex memory_mutex;
  std::map<CuDeviceAddress, int64_t> mappings;  // Bytes by first address; disjoint.
  absl::flat_hash_map<CuMemoryHandle, int64_t> created;
  absl::flat_hash_map<CuDeviceAddress, int64_t> allocated;

  std::atomic<bool> armed = false;  // Whether there are faults; a hint that costs no lock.
  std::mutex fault_mutex;
  std::vector<Fault> faults;  // `nth` counts down to the call that fails.
  int64_t faulted = 0;        // Calls that a fault made fail.
};

namespace {

using Books = DriverLedger::Books;

std::atomic<Books*> active_books = nullptr;

constexpr double kPicosecondsPerUs = 1e6;

// Positions of the entries in the table.
enum EntryIndex : int {
#define X(member, version, parameters) k##member,
#include "coppice/runtime/driver_entries.inc"
#undef X
};

// What an entry that succeeded does to the memory books. Most do nothing; those for which this is
// specialised below are called under the memory mutex.
template <int kEntry>
struct MemoryEffect {
  static constexpr bool kAny = false;
};

template <>
struct MemoryEffect<kMemCreate> {
  static constexpr bool kAny = true;
  static void Apply(Books& books,
                    const CuMemoryHandle* handle,
                    size_t bytes,
                    const CuMemAllocationProperties*,
                    unsigned long long) {  // NOLINT(google-runtime-int): CUDA's type.
    books.created[*handle] = static_cast<int64_t>(bytes);
  }
};

template <>
struct MemoryEffect<kMemRelease> {
  static constexpr bool kAny = true;
  static void Apply(Books& books, CuMemoryHandle handle) { books.created.erase(handle); }
};

template <>
struct MemoryEffect<kMemAlloc> {
  static constexpr bool kAny = true;
  static void Apply(Books& books, const CuDeviceAddress* address, size_t bytes) {
    books.allocated[*address] = static_cast<int64_t>(bytes);
  }
};

template <>
struct MemoryEffect<kMemFree> {
  static constexpr bool kAny = true;
  static void Apply(Books& books, CuDeviceAddress address) { books.allocated.erase(address); }
};

template <>
struct MemoryEffect<kMemMap> {
  static constexpr bool kAny = true;
  static void Apply(Books& books,
                    CuDeviceAddress address,
                    size_t bytes,
                    size_t,
                    CuMemoryHandle,
                    unsigned long long) {  // NOLINT(google-runtime-int): CUDA's type.
    books.mappings[address] = static_cast<int64_t>(bytes);
  }
};

template <>
struct MemoryEffect<kMemUnmap> {
  static constexpr bool kAny = true;
  // An unmapped range covers whole mappings: the driver refuses anything else.
  static void Apply(Books& books, CuDeviceAddress address, size_t bytes) {
    books.mappings.erase(books.mappings.lower_bound(address),
                         books.mappings.lower_bound(address + bytes));
  }
};

// The parameter that names a call's bytes, and their size in its unit; none for most entries.
struct BytesParameter {
  int position = -1;
  int unit = 1;
};

constexpr BytesParameter BytesOf(int entry) {
  switch (entry) {
    case kMemAlloc:
    case kMemCreate:
    case kMemMap:
    case kMemUnmap:
    case kMemSetAccess:
      return {.position = 1};
    case kMemcpyHtoDAsync:
    case kMemcpyDtoHAsync:
    case kMemcpyDtoDAsync:
    case kMemsetD8Async:
      return {.position = 2};
    case kMemsetD32Async:
      return {.position = 2, .unit = 4};
    default:
      return {};
  }
}

double InstantiateUs(Books& books, const CuGraphExec* exec, CuGraph graph) {
  size_t count = 0;
  if (books.inner.GraphGetNodes(graph, nullptr, &count) != CuResult::kSuccess) count = 0;
  const auto nodes = static_cast<int64_t>(count);
  const std::lock_guard lock(books.exec_mutex);
  books.execs.insert_or_assign(*exec, Books::Exec{.nodes = nodes});
  return books.options.latency->CallUs(kGraphInstantiateWithFlags, nodes, 0);
}

// Of a launch or an upload; whichever comes first does the work of an upload.
double LaunchUs(Books& books, int entry, CuGraphExec handle) {
  Books::Exec exec = {.nodes = 0, .uploaded = true};  // Of one that the ledger has not seen made.
  {
    const std::lock_guard lock(books.exec_mutex);
    if (const auto found = books.execs.find(handle); found != books.execs.end()) {
      exec = found->second;
      found->second.uploaded = true;
    }
  }
  const LatencyModel& latency = *books.options.latency;
  const double us = latency.CallUs(entry, exec.nodes, 0);
  if (entry == kGraphUpload || exec.uploaded) return us;
  return us + latency.CallUs(kGraphUpload, exec.nodes, 0);
}

// What the latency model gives for a call that passed.
template <int kEntry, typename... Args>
double ModelledUs(Books& books, Args... args) {
  [[maybe_unused]] const std::tuple arguments(args...);
  constexpr BytesParameter kBytes = BytesOf(kEntry);
  if constexpr (kEntry == kGraphInstantiateWithFlags) {
    return InstantiateUs(books, std::get<0>(arguments), std::get<1>(arguments));
  } else if constexpr (kEntry == kGraphLaunch || kEntry == kGraphUpload) {
    return LaunchUs(books, kEntry, std::get<0>(arguments));
  } else if constexpr (kBytes.position >= 0) {
    const auto count = static_cast<int64_t>(std::get<kBytes.position>(arguments));
    return books.options.latency->CallUs(kEntry, 0, count * kBytes.unit);
  } else {
    return books.options.latency->CallUs(kEntry, 0, 0);
  }
}

// What the modelled time means to an entry that succeeded; nothing to most.
template <int kEntry>
struct TimeEffect {
  template <typename... Args>
  static void Apply(Books& /*books*/, Args... /*args*/) {}
};

template <>
struct TimeEffect<kEventRecord> {
  static void Apply(Books& books, CuEvent event, CuStream) {
    const std::lock_guard lock(books.event_mutex);
    books.recorded_ps[event] = books.modelled_ps.load(std::memory_order_relaxed);
  }
};

template <>
struct TimeEffect<kEventElapsedTime> {
  static void Apply(Books& books, float* milliseconds, CuEvent start, CuEvent end) {
    constexpr double kPicosecondsPerMs = 1000 * kPicosecondsPerUs;
    const std::lock_guard lock(books.event_mutex);
    const auto from = books.recorded_ps.find(start);
    const auto to = books.recorded_ps.find(end);
    if (from == books.recorded_ps.end() || to == books.recorded_ps.end()) return;
    *milliseconds =
        static_cast<float>(static_cast<double>(to->second - from->second) / kPicosecondsPerMs);
  }
};

// Entries that reach the driver although they fail, because a caller has no second try.
constexpr bool GivesBack(int entry) {
  switch (entry) {
    case kDevicePrimaryCtxRelease:
    case kMemFree:
    case kMemFreeHost:
    case kMemAddressFree:
    case kMemRelease:
    case kMemUnmap:
    case kStreamDestroy:
    case kStreamEndCapture:
    case kEventDestroy:
    case kLibraryUnload:
    case kGraphDestroy:
    case kGraphExecDestroy:
      return true;
    default:
      return false;
  }
}

// Counts a call of `entry` and returns what the faults make of it; kSuccess for nothing.
CuResult NextFault(Books& books, int entry) {
  const std::lock_guard lock(books.fault_mutex);
  CuResult result = CuResult::kSuccess;
  for (DriverLedger::Fault& fault : books.faults) {
    if (fault.entry >= 0 && fault.entry != entry) continue;
    const bool fails = fault.forever ? fault.nth <= 1 : fault.nth == 1;
    if (fault.nth >= 1) --fault.nth;
    if (fails && result == CuResult::kSuccess) result = fault.result;
  }
  if (result != CuResult::kSuccess) ++books.faulted;
  return result;
}

void AddElapsed(Books& books, std::chrono::steady_clock::time_point start) {
  const auto elapsed = std::chrono::steady_clock::now() - start;
  books.driver_ns.fetch_add(std::chrono::duration_cast<std::chrono::nanoseconds>(elapsed).count(),
                            std::memory_order_relaxed);
}

template <auto kMember, typename... Args>
CuResult CallInner(Books& books, Args... args) {
  if (!books.options.time_calls) return (books.inner.*kMember)(args...);
  const auto start = std::chrono::steady_clock::now();
  const CuResult result = (books.inner.*kMember)(args...);
  AddElapsed(books, start);
  return result;
}

template <int kEntry, auto kMember>
struct Wrapped;

template <int kEntry, typename... Args, CuResult (*DriverTable::*kMember)(Args...)>
struct Wrapped<kEntry, kMember> {
  static CuResult Call(Args... args) {
    Books* const books = active_books.load(std::memory_order_acquire);
    COPPICE_CHECK(books != nullptr, "the ledger of this driver is gone");
    books->calls[kEntry].fetch_add(1, std::memory_order_relaxed);
    const bool armed = books->armed.load(std::memory_order_relaxed);
    const CuResult result = armed ? CallFaulty(*books, args...) : CallAndKeep(*books, args...);
    if (books->options.latency != nullptr &&
        (result == CuResult::kSuccess || result == CuResult::kNotReady)) {
      const double ps = kPicosecondsPerUs * ModelledUs<kEntry>(*books, args...);
      books->modelled_ps.fetch_add(std::llround(ps), std::memory_order_relaxed);
      if (result == CuResult::kSuccess) TimeEffect<kEntry>::Apply(*books, args...);
    }
    if (books->options.trace) {
      const std::lock_guard lock(books->trace_mutex);
      books->trace.push_back({.entry = kEntry, .result = result});
    }
    return result;
  }

 private:
  static CuResult CallFaulty(Books& books, Args... args) {
    const CuResult fault = NextFault(books, kEntry);
    if (fault == CuResult::kSuccess) return CallAndKeep(books, args...);
    if constexpr (GivesBack(kEntry)) {
      const CuResult result = CallAndKeep(books, args...);
      if constexpr (kEntry == kStreamEndCapture) {
        if (result == CuResult::kSuccess) DropGraph(books, args...);
      }
    }
    return fault;
  }

  static void ForgetExec(Books& books, CuGraphExec exec) {
    if (books.options.latency == nullptr) return;
    const std::lock_guard lock(books.exec_mutex);
    books.execs.erase(exec);
  }

  static void ForgetEvent(Books& books, CuEvent event) {
    if (books.options.latency == nullptr) return;
    const std::lock_guard lock(books.event_mutex);
    books.recorded_ps.erase(event);
  }

  static void DropGraph(Books& books, CuStream, CuGraph* graph) {
    if (*graph != nullptr) books.inner.GraphDestroy(std::exchange(*graph, nullptr));
  }

  static CuResult CallAndKeep(Books& books, Args... args) {
    // Struck out beforehand: afterwards something of another thread may have the same handle.
    if constexpr (kEntry == kGraphExecDestroy) ForgetExec(books, args...);
    if constexpr (kEntry == kEventDestroy) ForgetEvent(books, args...);
    if constexpr (MemoryEffect<kEntry>::kAny) {
      const std::lock_guard lock(books.memory_mutex);
      const CuResult result = CallInner<kMember>(books, args...);
      if (result == CuResult::kSuccess) MemoryEffect<kEntry>::Apply(books, args...);
      return result;
    } else {
      return CallInner<kMember>(books, args...);
    }
  }
};

DriverTable WrapperTable() {
  DriverTable table;
#define X(member, version, parameters) \
  table.member = &Wrapped<k##member, &DriverTable::member>::Call;
#include "coppice/runtime/driver_entries.inc"
#undef X
  return table;
}

int64_t SumOfBytes(const absl::flat_hash_map<unsigned long long, int64_t>& bytes_by_key) {
  return std::accumulate(bytes_by_key.begin(), bytes_by_key.end(), int64_t{0},
                         [](int64_t sum, const auto& entry) { return sum + entry.second; });
}

}  // namespace

absl::StatusOr<std::unique_ptr<DriverLedger>> DriverLedger::Create(const Driver& inner,
                                                                   const Options& options) {
  auto books = std::make_unique<Books>(inner.table(), options);
  Books* none = nullptr;
  if (!active_books.compare_exchange_strong(none, books.get())) {
    return FailedPrecondition(
        "DriverLedger::Create: this process already has a ledger; destroy that ledger before you "
        "create another one");
  }
  const Driver wrapped(WrapperTable(), inner.kind());
  return std::unique_ptr<DriverLedger>(new DriverLedger(wrapped, std::move(books)));
}

DriverLedger::DriverLedger(const Driver& wrapped, std::unique_ptr<Books> books)
    : driver_(wrapped), books_(std::move(books)) {}

DriverLedger::~DriverLedger() {
  active_books.store(nullptr, std::memory_order_release);
}

int64_t DriverLedger::calls() const {
  return std::accumulate(books_->calls.begin(), books_->calls.end(), int64_t{0},
                         [](int64_t sum, const std::atomic<int64_t>& count) {
                           return sum + count.load(std::memory_order_relaxed);
                         });
}

int64_t DriverLedger::CallsAt(int index) const {
  return books_->calls[static_cast<size_t>(index)].load(std::memory_order_relaxed);
}

int64_t DriverLedger::driver_ns() const {
  return books_->driver_ns.load(std::memory_order_relaxed);
}

double DriverLedger::modelled_us() const {
  return static_cast<double>(books_->modelled_ps.load(std::memory_order_relaxed)) /
         kPicosecondsPerUs;
}

int64_t DriverLedger::MappedBytes(DeviceAddress address, int64_t bytes) const {
  const std::lock_guard lock(books_->memory_mutex);
  const DeviceAddress end = address + static_cast<DeviceAddress>(bytes);
  auto mapping = books_->mappings.upper_bound(address);
  if (mapping != books_->mappings.begin()) --mapping;  // It may reach into the range.
  int64_t total = 0;
  for (; mapping != books_->mappings.end() && mapping->first < end; ++mapping) {
    const DeviceAddress mapping_end = mapping->first + static_cast<DeviceAddress>(mapping->second);
    const DeviceAddress from = std::max(address, mapping->first);
    const DeviceAddress to = std::min(end, mapping_end);
    if (from < to) total += static_cast<int64_t>(to - from);
  }
  return total;
}

int64_t DriverLedger::created_bytes() const {
  const std::lock_guard lock(books_->memory_mutex);
  return SumOfBytes(books_->created);
}

int64_t DriverLedger::allocated_bytes() const {
  const std::lock_guard lock(books_->memory_mutex);
  return SumOfBytes(books_->allocated);
}

void DriverLedger::Inject(const Fault& fault) {
  COPPICE_CHECK(fault.entry >= -1 && fault.entry < kDriverEntryCount, "no such driver entry");
  COPPICE_CHECK(fault.nth >= 1, "the first call is number 1");
  COPPICE_CHECK(fault.result != CuResult::kSuccess, "a fault is not a success");
  const std::lock_guard lock(books_->fault_mutex);
  books_->faults.push_back(fault);
  books_->armed.store(true, std::memory_order_relaxed);
}

void DriverLedger::ClearFaults() {
  const std::lock_guard lock(books_->fault_mutex);
  books_->faults.clear();
  books_->armed.store(false, std::memory_order_relaxed);
}

int64_t DriverLedger::faulted() const {
  const std::lock_guard lock(books_->fault_mutex);
  return books_->faulted;
}

std::vector<DriverLedger::TracedCall> DriverLedger::TakeTrace() {
  const std::lock_guard lock(books_->trace_mutex);
  return std::exchange(books_->trace, {});
}

}  // namespace coppice
