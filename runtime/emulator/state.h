// The emulator's state, and how it is put together.
//
//   emulator.cc     life cycle, and what the emulator tells of itself
//   admission       what is checked of every call before its entry runs
//   *_entries.cc    the entries: device, memory, streams, work, libraries, captures, graphs, execs
//   arguments       work out of the arguments of a call
//   image           what an image holds that is loaded
//   capture, graph  captures, and the graphs that they and the entries build
//   state           what there is in the process
//   scheduler       streams, and which operation runs next
//   processor       runs one piece of work; clock and sticky fault
//   checks          what strictness finds: unordered accesses, changed sources
//   execution       runs what one operation does; compiled_kernel, a launch of PTX (folder ptx)
//   outcome         what comes of it
//   snapshot, work  what launches run, and what one operation does
//   kernel_code     what a kernel is made of, and what a launch of it may ask
//   memory          device memory, in physical_memory; its freed addresses, address_quarantine
//   thread, fault   what is remembered of a thread; memory faults as values
//   written_bytes   which bytes of physical memory something has written
//   device_limits   what the emulated device can run
//
// A file includes only files below it in this list.
//
// Threads: everything is guarded by State::mutex, which is free while device work runs.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/capture_legality.h"
#include "runtime/emulator/checks.h"
#include "runtime/emulator/device_limits.h"
#include "runtime/emulator/fault.h"
#include "runtime/emulator/handles.h"
#include "runtime/emulator/kernel_code.h"
#include "runtime/emulator/memory.h"
#include "runtime/emulator/processor.h"
#include "runtime/emulator/ptx/program.h"
#include "runtime/emulator/scheduler.h"
#include "runtime/emulator/snapshot.h"
#include "runtime/emulator/stream.h"
#include "runtime/emulator/work.h"

namespace coppice::emulator {

// A context: the primary one of a device, or one that a call made.
struct ContextState {
  int device = 0;
  bool is_primary = false;
  unsigned flags = 0;
  uint64_t id = 0;  // Unique in the process.
};

// What there is once per device.
struct DeviceState {
  CuContext primary = nullptr;  // While it is retained.
  int64_t retains = 0;
  unsigned primary_flags = 0;
};

struct GraphState {
  CuGraph handle = nullptr;
  std::vector<GraphNode> nodes;
  std::vector<CuGraphNode> node_handles;
  Capture* capture = nullptr;  // The capture that is writing to the graph, if any.
};

// Where a node handle points.
struct NodeState {
  GraphState* graph = nullptr;
  int index = 0;
  std::vector<void*> parameters;  // What cuGraphKernelNodeGetParams gives out.
};

struct ExecState {
  int device = 0;
  uint64_t flags = 0;
  std::unique_ptr<Snapshot> snapshot;            // An update replaces it if launches are queued.
  absl::flat_hash_map<CuGraphNode, int> places;  // Of the graph's own nodes, children left out.
  Mark last_launch;                              // The launch that the next one has to wait for.
  Mark upload;                                   // The last one, which launches do not wait for.
};

struct Capture {
  uint64_t id = 0;
  CuCaptureMode mode = CuCaptureMode::kGlobal;
  CuStream origin = nullptr;
  uint64_t origin_thread = 0;
  CuGraph graph = nullptr;   // Null once invalidated.
  bool given_graph = false;  // Somebody else's, which stays.
  bool invalidated = false;
};

struct KernelState {
  CuLibrary library = nullptr;
  KernelCode code;
  int shared_bytes_max = 0;     // Dynamic.
  bool large_clusters = false;  // May have clusters that are not portable.
  bool launched = false;        // Outside a capture, once at least.
};

struct LibraryState {
  int device = 0;  // On which its variables are.
  std::vector<CuKernel> kernels;
  std::unique_ptr<ptx::Program> program;  // Null: host code, or a device's own.
  std::unique_ptr<package::Cubin> cubin;  // Null: none.
  DeviceAddress globals = 0;              // Of the program; 0 if it has none.
};

// True if device memory is mapped at `address`. For a process about to die: false if somebody holds
// the emulator's mutex.
bool IsDeviceAddress(uint64_t address);

struct State {
  // What is refused or reported although a device may let it pass, and how work runs.
  struct Options {
    bool concurrent_entry = false;  // Aborts if two threads are inside one graph or exec.
    bool captured_event = false;    // Refuses an event of a capture that has ended.
    int devices = 1;
    DeviceLimits limits;
    bool compiled_kernels = false;  // Of images that have host code too, runs the PTX.
    bool cubins = true;             // Loads them, and launches none of their kernels.
    Checks::Options checks;
    Processor::Options processor;
    Scheduler::Options scheduler;
  };

  State(const Options& its_options,
        const CaptureLegality& capture_legality,
        std::unique_ptr<Memory> device_memory)
      : options(its_options),
        legality(capture_legality),
        fault_handlers(&IsDeviceAddress),
        devices(static_cast<size_t>(options.devices)),
        memory(std::move(device_memory)),
        checks(options.checks, memory.get()),
        processor(options.processor, memory.get(), &checks, &mutex),
        scheduler(options.scheduler, &processor, &checks, &events, &mutex) {}

  // Everything as at the beginning, but for options and what was reported. Requires: the mutex is
  // held.
  void Restart();

  // The capture with this id, or null once it has ended.
  Capture* FindCapture(uint64_t id) const;

  // The calling thread's context, which admission has found to be alive, and its device.
  CuContext Context() const;
  int Device() const;

  bool IsDevice(CuDevice device) const { return device >= 0 && device < options.devices; }

  // The stream of a handle, which may be the legacy one or the thread's own; null: there is none
  // in the calling thread's context.
  StreamState* FindStream(CuStream stream);

  CuContext MakeContext(ContextState context);
  // Ends a context: what was made in it is no more.
  void EndContext(CuContext context);

  const Options options;
  const CaptureLegality legality;
  std::mutex mutex;
  FaultHandlers fault_handlers;
  std::vector<DeviceState> devices;
  std::unique_ptr<Memory> memory;
  HandleTable<CuEvent, EventState> events;
  Checks checks;
  Processor processor;
  Scheduler scheduler;

  bool initialized = false;
  HandleTable<CuContext, ContextState> contexts;

  HandleTable<CuGraph, GraphState> graphs;
  HandleTable<CuGraphNode, NodeState> nodes;
  HandleTable<CuGraphExec, ExecState> execs;
  HandleTable<CuLibrary, LibraryState> libraries;
  HandleTable<CuKernel, KernelState> kernels;
  std::vector<std::unique_ptr<Capture>> captures;  // Not ended.
};

// The one emulator of the process, or null.
State* FindState();

// The same. Requires: it exists.
State& TheState();

// Makes `state` the one, and returns which was.
State* ExchangeState(State* state);

// From here on a child that is forked while there is an emulator has none, so that nothing it does
// reaches the parent's device memory, which it shares. What the state owns stays as it is there.
void WatchForks();

// Whether this process is such a child.
bool IsForked();

}  // namespace coppice::emulator
