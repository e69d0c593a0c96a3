// The emulator's state, and what its source files share.
//
//   emulator.cc          life cycle, admission of calls, device and context entries
//   emulator_memory.cc   device memory
//   emulator_stream.cc   streams, events, and the scheduler that runs what they queue
//   emulator_work.cc     what one operation does: kernels, copies, fills, host functions
//   emulator_capture.cc  captures, and what they forbid
//   emulator_graph.cc    graphs and their executable snapshots
//   emulator_update.cc   changes to an executable snapshot
//   emulator_checks.cc   what strictness finds: unordered accesses, changed sources
//
// A driver entry `cuX` is the function `X` here. Admission has taken the mutex and checked
// initialisation, sticky errors and the context before it runs.
//
// Threads: everything is guarded by State::mutex, which is free while device work runs. One thread
// at a time runs device work; the state it uses meanwhile is not freed by others.

#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/container/flat_hash_map.h"

#include "coppice/runtime/cuda_abi.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/emulator.h"
#include "coppice/runtime/kernel_image.h"

#include "access_order.h"
#include "capture_legality.h"
#include "emulator_checks.h"
#include "emulator_fault.h"
#include "emulator_handles.h"
#include "emulator_memory.h"

namespace coppice::emulator {

#define X(member, version, parameters) CuResult member parameters;
#include "coppice/runtime/driver_entries.inc"
#undef X

enum class EntryId : uint8_t {
#define X(member, version, parameters) k##member,
#include "coppice/runtime/driver_entries.inc"
#undef X
};

// Work: what one stream operation or graph node does.

struct KernelWork {
  const HostKernel* kernel = nullptr;
  CuFunction function = nullptr;  // As it was launched.
  CuLibrary library = nullptr;
  std::array<unsigned, 3> grid = {1, 1, 1};
  std::vector<std::byte> parameters;
};

struct CopyWork {
  void* target = nullptr;
  const void* source = nullptr;
  size_t bytes = 0;
  bool to_host = false;
  bool from_host = false;
};

struct FillWork {
  void* target = nullptr;
  unsigned value = 0;
  unsigned element_size = 1;  // 1, 2 or 4.
  size_t count = 0;           // Elements.
};

struct HostWork {
  CuHostFunction function = nullptr;
  void* user_data = nullptr;
};

struct EmptyWork {};

struct GraphNode;

// A child graph: a copy of the nodes it had when it was added.
struct ChildWork {
  std::vector<GraphNode> nodes;
};

using Work = std::variant<KernelWork, CopyWork, FillWork, HostWork, EmptyWork, ChildWork>;

// A node depends on earlier nodes of its graph only, so that graphs have no cycles.
struct GraphNode {
  Work work;
  std::vector<int> dependencies;  // Indices, in the order given.
};

// Runs `work`, which is no ChildWork. `draw`, a random number, picks the block that goes first.
// Returns a description of the fault if the work touched memory that it may not.
std::optional<std::string> Execute(const Work& work, uint64_t draw);
std::string DescribeFault(const char* what, uint64_t address);

// Graphs.

struct Capture;

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
  void* parameters = nullptr;  // The array of one that cuGraphKernelNodeGetParams gives out.
};

// A point in the queue of a stream: complete once that many operations of the stream have run. A
// stream that is gone has run them all, and so has the null stream.
struct Mark {
  CuStream stream = nullptr;
  uint64_t position = 0;
  VectorClock clock;  // What lies before it; kept only if somebody checks.
};

// Work that will run, and what it touches.
struct Task {
  explicit Task(Work its_work);

  Work work;
  std::vector<TouchedBytes> touched;
};

// What launches run: child graphs flattened, dependencies turned into successors.
struct Snapshot {
  struct Node {
    Task task;
    std::vector<int> successors;
    int dependency_count = 0;
  };

  std::vector<Node> nodes;             // Every node after its dependencies.
  std::vector<int> roots;              // Nodes without dependencies.
  bool is_chain = false;               // Each node depends on the one before, and on no other.
  std::vector<CuLibrary> libraries;    // Whose kernels it runs, each once.
  std::vector<int> host_source_nodes;  // Copies from host memory, ascending.
  bool has_host_work = false;
  uint64_t checked_generation = 0;  // Of memory, when its nodes were last checked for order.
  int queued_launches = 0;

  void AddLibrary(CuLibrary library);
};

struct ExecState {
  std::unique_ptr<Snapshot> snapshot;            // An update replaces it if launches are queued.
  absl::flat_hash_map<CuGraphNode, int> places;  // Of the graph's own nodes, children left out.
  Mark last_launch;                              // The launch that the next one has to wait for.
};

// Streams and events.

struct GraphRun {
  Snapshot* snapshot = nullptr;
  size_t done = 0;               // Nodes that have run.
  std::vector<int> ready;        // Nodes that may run next; unused in a chain.
  std::vector<int> unsatisfied;  // Dependencies still to run, by node; unused in a chain.
};

using Body = std::variant<Task, GraphRun>;

struct Operation {
  Mark after;          // Runs only once this is complete.
  uint64_t order = 0;  // Position among all operations of all streams.
  Body body;
  std::vector<uint64_t> source_sums;  // Of the host memory that its copies read, at submission.
  VectorClock before;                 // What a host function in it may rely on.
  std::vector<CuEvent> timed_events;  // Those that keep the time at which it has run.
};

struct StreamState {
  CuStream handle = nullptr;
  std::deque<Operation> queue;
  uint64_t submitted = 0;  // Operations ever queued.
  uint64_t completed = 0;  // Operations that have run.
  VectorClock clock;       // What lies before its next operation, and that of itself.

  Capture* capture = nullptr;              // The capture that the stream takes part in, if any.
  std::vector<CuGraphNode> tail;           // What the next captured node depends on.
  std::vector<CuGraphEdgeData> tail_data;  // Zeros, as many as `tail`.

  Mark end() const { return {handle, submitted, clock}; }
};

struct CapturedMark {
  uint64_t capture_id = 0;
  std::vector<CuGraphNode> nodes;
};

struct EventState {
  bool keeps_time = false;
  Mark mark;                             // Of the last record, if that was not captured.
  std::optional<CapturedMark> captured;  // Of the last record, if that was.
  int64_t mark_us = 0;                   // When the mark was complete, if the event keeps time.
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
  const HostKernel* kernel = nullptr;
};

struct LibraryState {
  std::vector<CuKernel> kernels;
};

// Runs queued operations, inside calls that wait or query, on the thread that calls.
class Scheduler {
 public:
  Scheduler(const Emulator::Options& options,
            Memory* memory,
            HandleTable<CuEvent, EventState>* events,
            std::mutex* mutex)
      : options_(options),
        memory_(*memory),
        events_(*events),
        mutex_(*mutex),
        checks_(options.strictness, memory),
        random_(options.seed) {}

  // Streams.
  CuStream Add();
  StreamState* Find(CuStream stream) const { return streams_.Find(stream); }
  void Retire(CuStream stream);  // Forgets the handle; what is queued still runs.
  const HandleTable<CuStream, StreamState>& streams() const { return streams_; }

  // Queues an operation of `stream`. The result is the sticky error, if there is one.
  CuResult Enqueue(StreamState& stream, Mark after, Body body) {
    Push(stream, std::move(after), std::move(body));
    return RunQueued();
  }

  // The same in two steps: the second may run work, during which others may destroy anything.
  void Push(StreamState& stream, Mark after, Body body);
  CuResult RunQueued();

  // Forgets a snapshot; launches of it that are queued still run.
  void Retire(std::unique_ptr<Snapshot> snapshot);

  bool IsComplete(const Mark& mark) const;

  // Puts the end of `stream` into `event`, which `handle` stands for.
  void Record(CuEvent handle, EventState& event, StreamState& stream);

  // Runs operations until `mark`, or everything queued at the call, is complete. By value, since
  // meanwhile others may change the event that the mark came from.
  CuResult WaitFor(Mark mark);
  CuResult WaitForAll();

  // Runs a few operations and answers kSuccess or kNotReady for `mark`.
  CuResult Query(Mark mark);

  // Drops what is queued, once no operation is running, and every stream.
  void Abandon();

  CuResult sticky() const { return sticky_; }
  const std::string& fault() const { return fault_; }
  int64_t nodes_executed() const { return nodes_executed_; }
  Checks& checks() { return checks_; }

 private:
  class ShownMemory;

  template <typename Done>
  CuResult RunUntil(Done done);
  void HostWaited(const VectorClock& clock);
  void ForgetAccesses();
  void CheckAccesses(const StreamState& stream, const Body& body);
  std::optional<std::string> FindForeignAccess(const Task& task) const;
  void CheckSource(const CopyWork& copy, uint64_t sum);
  void RunSome(uint64_t steps);
  void Step();
  StreamState* PickReady();
  bool Run(const Task& task, std::optional<uint64_t> source_sum);
  bool RunNode(Operation& operation);
  bool RunNodeAt(const Operation& operation, int index);
  void Finish(StreamState& stream);
  void DropQueues();
  uint64_t Draw();

  const Emulator::Options options_;
  Memory& memory_;
  HandleTable<CuEvent, EventState>& events_;
  std::mutex& mutex_;
  std::condition_variable_any step_done_;
  bool executing_ = false;  // A thread is inside Step, perhaps without the mutex.
  int waiting_threads_ = 0;
  int shown_count_ = 0;  // Threads that need device memory to be shown.

  HandleTable<CuStream, StreamState> streams_;
  absl::flat_hash_map<CuStream, std::unique_ptr<StreamState>> retired_streams_;  // Still busy.
  absl::flat_hash_map<Snapshot*, std::unique_ptr<Snapshot>> retired_snapshots_;  // Still queued.
  VectorClock retired_clock_;       // Of the streams that are gone.
  std::vector<StreamState*> busy_;  // Streams with a queue that is not empty.
  int64_t queued_ = 0;              // Operations in all queues.
  uint64_t enqueued_ = 0;           // Operations ever queued.

  Checks checks_;
  uint64_t random_;
  CuResult sticky_ = CuResult::kSuccess;
  std::string fault_;
  int64_t nodes_executed_ = 0;
  int64_t now_us_ = 0;  // The virtual clock: one for each operation or node that has run.
};

// What the emulator remembers of one thread.
struct ThreadState {
  uint64_t id = 0;        // Unique among threads, ever.
  uint64_t emulator = 0;  // Whose the other fields are; the next emulator finds the defaults.
  CuContext context = nullptr;
  CuCaptureMode mode = CuCaptureMode::kGlobal;
  bool in_host_function = false;
};

// True if device memory is mapped at `address`. For a process about to die: false if somebody holds
// the emulator's mutex.
bool IsDeviceAddress(uint64_t address);

struct State {
  State(const Emulator::Options& emulator_options,
        const CaptureLegality& capture_legality,
        std::unique_ptr<Memory> device_memory)
      : strictness(emulator_options.strictness),
        legality(capture_legality),
        fault_handlers(&IsDeviceAddress),
        memory(std::move(device_memory)),
        scheduler(emulator_options, memory.get(), &events, &mutex) {}

  // The capture with this id, or null once it has ended.
  Capture* FindCapture(uint64_t id) const;

  const Emulator::Strictness strictness;
  const CaptureLegality legality;
  std::mutex mutex;
  FaultHandlers fault_handlers;
  std::unique_ptr<Memory> memory;
  HandleTable<CuEvent, EventState> events;
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

// The one emulator of the process. Requires: it exists.
State& TheState();

// The calling thread, as TheState() knows it.
ThreadState& ThisThread();

// emulator_work.cc. The makers check arguments that become a node or an operation, and copy what
// CUDA copies at the call; they leave `work` alone unless they succeed.
CuResult MakeKernelWork(State& state, const CuKernelNodeParams& params, Work* work);
CuResult MakeCopyWork(State& state, const CuMemcpyParams& params, Work* work);
CuResult MakeFillWork(State& state, const CuMemsetNodeParams& params, Work* work);
CuResult MakeHostWork(const CuHostNodeParams& params, Work* work);

// emulator_capture.cc.
void Invalidate(State& state, Capture& capture);
// kSuccess, 901 if the stream's capture is invalidated, or 900, which invalidates it.
CuResult RefuseCapturing(State& state, const StreamState& stream);
// Refuses a call that is unsafe in capture where the modes forbid it.
CuResult CheckCaptureAllows(State& state, EntryId entry);
// True if the entry looks at its own stream or event before the modes count.
bool LooksAtHandleFirst(EntryId entry);
CuResult CaptureWork(State& state, StreamState& stream, Work work);
CuResult CaptureRecord(State& state, const StreamState& stream, EventState& event);
CuResult CaptureWait(State& state, StreamState& stream, const EventState& event);
// The event of a handle, or null. Forgets a record in a capture that has ended, if nobody is
// strict.
EventState* FindEvent(State& state, CuEvent event);
CuResult UseCapturedEvent(State& state, const EventState& event);

// emulator_graph.cc.
CuGraph NewGraph(State& state, Capture* capture);
CuGraphNode AddNode(State& state, GraphState& graph, GraphNode node);
void RemoveGraph(State& state, CuGraph graph);
// Turns dependency handles into indices. They have to be nodes of `graph`, each once.
CuResult FindDependencies(const State& state,
                          const GraphState& graph,
                          const CuGraphNode* dependencies,
                          size_t count,
                          std::vector<int>* indices);
std::unique_ptr<Snapshot> TakeSnapshot(const GraphState& graph,
                                       absl::flat_hash_map<CuGraphNode, int>* places);

}  // namespace coppice::emulator
