// What the mutants are made of: the right table, what they noticed so far, and common kinds of
// mistakes. For mutants_*.cc alone.
//
// A table entry is a plain function, so the right table is a global, and so is whatever a mutant
// remembers between two calls. Handles are never reused; addresses are.
//
// Threads: not synchronised; tests order their threads.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"

#include "tests/conformance/mutants.h"

namespace coppice::mutation {

using T = DriverTable;

// The driver that a mutant gets its answers from.
inline DriverTable right;

// A stream that began a capture.
struct OpenCapture {
  CuCaptureMode mode = CuCaptureMode::kGlobal;
  std::thread::id thread;
};

// A run of addresses: a reservation or a mapping.
struct AddressRange {
  size_t bytes = 0;
  CuMemoryHandle handle = 0;
};

// The arguments of a kernel launch.
struct KernelLaunch {
  CuFunction function;
  unsigned grid_x, grid_y, grid_z;
  unsigned block_x, block_y, block_z;
  unsigned shared_bytes;
  CuStream stream;
  void** params;
  void** extra;

  CuResult On(CuStream target) const {
    return right.LaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                              shared_bytes, target, params, extra);
  }
  CuResult Run() const { return On(stream); }
};

// A launch that copies its arguments when it runs, not when it is made.
class LateLaunch {
 public:
  explicit LateLaunch(const KernelLaunch& launch) : launch_(launch), argument_(*launch.params) {}
  CuResult Run() {
    launch_.params = &argument_;
    return launch_.Run();
  }

 private:
  KernelLaunch launch_;
  void* argument_;
};

// A host function that another one is called instead of.
struct HostCall {
  CuHostFunction function = nullptr;
  void* data = nullptr;
  bool ran = false;
};

// A child that is looked up when its parent is instantiated: an empty node holds its place.
struct LateChild {
  CuGraph parent = nullptr;
  CuGraphNode place = nullptr;
  CuGraph child = nullptr;
};

// What a mutant saw of one test.
struct Notes {
  std::map<CuStream, OpenCapture> captures;
  std::map<CuEvent, uint64_t> captured_events;  // The id of the capture.
  std::map<DeviceAddress, AddressRange> reservations;
  std::map<DeviceAddress, AddressRange> mappings;
  std::map<CuMemoryHandle, size_t> handle_bytes;
  std::map<DeviceAddress, size_t> allocations;
  std::map<DeviceAddress, uint64_t> ids;  // Of allocations, by their first address.
  std::map<CuGraphExec, CuGraph> templates;
  std::map<CuGraphExec, CuGraphExec> twins;
  std::vector<std::pair<CuGraphExec, CuStream>> waiting;  // Launches that are not made yet.
  std::set<const void*> seen;  // Handles or addresses, as the mutant needs it.
  std::vector<std::vector<std::byte>> copies;
  std::map<CuStream, LateLaunch> late_launches;
  std::map<CuEvent, CuStream> late_records;
  std::vector<LateChild> late_children;
  std::map<CuGraph, std::vector<std::byte>> first_arguments;  // Of the graph's first kernel node.
  std::deque<HostCall> host_calls;
  CuContext context = nullptr;
  size_t lost_bytes = 0;
};
inline Notes notes;

// The lists, one or two per file.
std::vector<Mutant> CaptureMutants();
std::vector<Mutant> CaptureModeMutants();
std::vector<Mutant> CaptureConflictMutants();
std::vector<Mutant> RangeMutants();
std::vector<Mutant> MappingMutants();
std::vector<Mutant> ContextMutants();
std::vector<Mutant> PlainMemoryMutants();
std::vector<Mutant> OrderMutants();
std::vector<Mutant> CodeMutants();
std::vector<Mutant> LaunchMutants();
std::vector<Mutant> StructureMutants();
std::vector<Mutant> ExecMutants();
std::vector<Mutant> UpdateMutants();

// Runs `body` with the thread relaxed, so that no capture forbids it.
template <typename Body>
auto Relaxed(Body body) {
  CuCaptureMode mode = CuCaptureMode::kRelaxed;
  right.ThreadExchangeStreamCaptureMode(&mode);
  const auto result = body();
  right.ThreadExchangeStreamCaptureMode(&mode);
  return result;
}

// Kinds of mistakes.

template <typename Member>
struct EntryOf;
template <typename... Args>
struct EntryOf<CuResult (*DriverTable::*)(Args...)> {
  template <auto entry, CuResult from, CuResult to>
  static CuResult Misreport(Args... args) {
    const CuResult result = (right.*entry)(args...);
    return result == from ? to : result;
  }
  template <auto entry>
  static CuResult Skip(Args... /*args*/) {
    return CuResult::kSuccess;
  }
  template <auto entry, size_t index, auto change>
  static CuResult Pass(Args... args) {
    std::tuple<Args...> changed(args...);
    std::get<index>(changed) = change(std::get<index>(changed));
    return std::apply(right.*entry, changed);
  }
  template <auto entry, auto then>
  static CuResult Then(Args... args) {
    const CuResult result = (right.*entry)(args...);
    if (result == CuResult::kSuccess) then(args...);
    return result;
  }
  template <auto entry, auto before>
  static CuResult Before(Args... args) {
    before();
    return (right.*entry)(args...);
  }
  template <auto entry, CuResult answer, auto when>
  static CuResult AnswerWhen(Args... args) {
    return when(args...) ? answer : (right.*entry)(args...);
  }
  template <auto entry>
  static CuResult Unguarded(Args... args) {
    return Relaxed([&] { return (right.*entry)(args...); });
  }
};

// The entry returns `to` where the driver returns `from`, and does what the driver does.
template <auto entry, CuResult from, CuResult to = CuResult::kSuccess>
void Misreport(T& cu) {
  cu.*entry = &EntryOf<decltype(entry)>::template Misreport<entry, from, to>;
}

// The entry does nothing, successfully.
template <auto entry>
void Skip(T& cu) {
  cu.*entry = &EntryOf<decltype(entry)>::template Skip<entry>;
}

// The driver gets argument `index` of the entry as `change` makes it.
template <auto entry, size_t index, auto change>
void Pass(T& cu) {
  cu.*entry = &EntryOf<decltype(entry)>::template Pass<entry, index, change>;
}
inline constexpr auto kNone = [](auto given) { return decltype(given){}; };  // No flags, and such.

// What the entry did successfully, `then` spoils.
template <auto entry, auto then>
void Then(T& cu) {
  cu.*entry = &EntryOf<decltype(entry)>::template Then<entry, then>;
}

// What `before` does comes first.
template <auto entry, auto before>
void Before(T& cu) {
  cu.*entry = &EntryOf<decltype(entry)>::template Before<entry, before>;
}

// The entry does nothing and returns `answer` where `when` says so of its arguments.
template <auto entry, CuResult answer, auto when>
void AnswerWhen(T& cu) {
  cu.*entry = &EntryOf<decltype(entry)>::template AnswerWhen<entry, answer, when>;
}

// The entry is missing in the list of calls that a capture may forbid.
template <auto entry>
void Unguard(T& cu) {
  cu.*entry = &EntryOf<decltype(entry)>::template Unguarded<entry>;
}

// cuLaunchKernel is `launch`; `entry` is `function`.
template <CuResult (*launch)(KernelLaunch)>
void ChangeLaunch(T& cu) {
  cu.LaunchKernel = [](CuFunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                       CuStream stream, void** params, void** extra) {
    return launch({function, grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes,
                   stream, params, extra});
  };
}
template <auto entry, auto function>
void Change(T& cu) {
  cu.*entry = function;
}

// Steps of a mistake.

// Runs `body` on a stream of its own, whose work is ordered with no other. `waits`: and at once.
template <typename Body>
CuResult Aside(Body body, bool waits = false) {
  return Relaxed([&] {
    CuStream stream = nullptr;
    right.StreamCreate(&stream, kStreamNonBlocking);
    CuResult result = body(stream);
    if (waits && result == CuResult::kSuccess) result = right.StreamSynchronize(stream);
    right.StreamDestroy(stream);
    return result;
  });
}

// A host function that makes the HostCall `data` on a thread that no driver call recognises.
inline void CallOnAnyThread(void* data) {
  const auto& call = *static_cast<HostCall*>(data);
  std::thread(call.function, call.data).join();
}

// cuMemGetInfo, less what was lost.
inline CuResult FreeBytesWithoutTheLost(size_t* free_bytes, size_t* total_bytes) {
  const CuResult result = right.MemGetInfo(free_bytes, total_bytes);
  if (result == CuResult::kSuccess) *free_bytes -= notes.lost_bytes;
  return result;
}

inline CuCaptureStatus StatusOf(CuStream stream) {
  CuCaptureStatus status = CuCaptureStatus::kNone;
  right.StreamIsCapturing(stream, &status);
  return status;
}

inline bool Captures(CuStream stream) {
  return StatusOf(stream) == CuCaptureStatus::kActive;
}

// The graph that `stream` captures into and the capture's id; null and 0 if there is none.
struct CaptureOf {
  explicit CaptureOf(CuStream stream) {
    CuCaptureStatus status{};
    right.StreamGetCaptureInfo(stream, &status, &id, &graph, nullptr, nullptr, nullptr);
  }
  uint64_t id = 0;
  CuGraph graph = nullptr;
};

// Makes `cu` note which streams began a capture and which events were recorded in one.
void NoteCaptures(T& cu);

// Makes `cu` forget what the mutant has seen whenever the host waits for a stream, an event or all.
void ForgetAtWaits(T& cu);

// Makes `cu` note reservations, mappings and handles. MapAndNote is its cuMemMap.
CuResult MapAndNote(CuDeviceAddress address,
                    size_t bytes,
                    size_t offset,
                    CuMemoryHandle handle,
                    unsigned long long flags);  // NOLINT(google-runtime-int)
void NoteMemory(T& cu);

}  // namespace coppice::mutation
