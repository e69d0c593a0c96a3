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
  CuGraph graph = nullptr;  // Null once invalidated.
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
  std::vector<CuKernel> kernels;
  std::unique_ptr<ptx::Program> program;  // Null: host code.
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
    DeviceLimits limits;
    bool compiled_kernels = false;  // Of images that have host code too, runs the PTX.
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
        memory(std::move(device_memory)),
        checks(options.checks, memory.get()),
        processor(options.processor, memory.get(), &checks, &mutex),
        scheduler(options.scheduler, &processor, &checks, &events, &mutex) {}

  // Everything as at the beginning, but for options and what was reported. Requires: the mutex is
  // held.
  void Restart();

  // The capture with this id, or null once it has ended.
  Capture* FindCapture(uint64_t id) const;

  const Options options;
  const CaptureLegality legality;
  std::mutex mutex;
  FaultHandlers fault_handlers;
  std::unique_ptr<Memory> memory;
  HandleTable<CuEvent, EventState> events;
  Checks checks;
  Processor processor;
  Scheduler scheduler;

  bool initialized = false;
  CuContext context = nullptr;  // The primary context, while it is retained.
  int64_t context_retains = 0;

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
