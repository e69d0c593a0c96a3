// The emulator: an implementation of the driver table as host code, so that everything runs without
// a GPU.
//
// Rule for driver calls and memory: the emulator may reject what a GPU accepts, but it never
// accepts what a GPU rejects. Kernels that run as host code are checked less; see "Does not model".
//
// Models
//   * Virtual memory: one sparse memfd is the device memory. Reserve, create, map, set access,
//     unmap and release move real pages in units of 2 MiB. A range that is reserved but not mapped,
//     or not accessible, is PROT_NONE.
//   * Plain allocations (cuMemAlloc), 512-byte aligned. Each has its own pages, followed by a guard
//     page. The host limits their number: about 32,000 if vm.max_map_count is 65,530.
//   * Up to 16 devices, each with its own memory. A context belongs to one device, and so do its
//     streams, events and graph execs. Streams, events and execs of another device are refused
//     (400), and so are copies from or to its memory (1); a kernel that touches that memory ends
//     the context with 700.
//   * Every allocation has a unique id (cuPointerGetAttribute), which is never reused; mapped
//     memory has the id of its cuMemCreate handle.
//   * Fresh memory is filled with 0xCB: every fresh physical byte, and a block's shared memory.
//   * Streams and events with CUDA's ordering. Work is queued. It executes only inside calls that
//     wait or query, or when more than `Options::queue_limit` operations are queued, on the calling
//     thread and one operation at a time. The order among operations that are ready is drawn from
//     `Options::seed`: streams overtake each other, and so do unordered nodes of a graph and the
//     blocks of a kernel. With `Options::eager_permille` some operations also run at enqueue, so
//     that tests find work that runs too early as well as work that runs too late. A query runs a
//     few operations before it answers, so that polling ends.
//   * The legacy stream (0 and 1) of each context, which waits for the blocking streams and makes
//     them wait, and the per-thread stream of each thread (2).
//   * A virtual clock, which events with timing read when the work before them has run. Each
//     operation or graph node takes 1 us, on any stream. cuEventElapsedTime runs nothing, so a loop
//     that polls must query.
//   * A kernel's parameters are copied at the call; host memory in a copy is read or written when
//     the copy executes.
//   * cuMemFree waits for all work, as CUDA's does for plain allocations. MemUnmap and MemRelease
//     do not wait: work that uses the memory later faults.
//   * Capture: modes, the per-thread exchange mode, a table of what each mode forbids, fork and
//     join through events, the result codes 401 and 900 to 908, cross-thread invalidation, updates
//     of capture dependencies. An invalidated capture destroys its graph at once.
//   * Graphs of kernel, memcpy, memset, host, child and empty nodes; instantiate takes a snapshot;
//     an update of the exec does not change queued launches; one exec never overlaps itself; launch
//     or upload into a capturing stream is 900. A node can only depend on existing nodes, so no
//     graph has a cycle.
//   * Libraries: images of the build (kernel_image.h), whose kernels run as host code, or, with
//     `Options::compiled_kernels`, as the PTX that nvcc made from them. Also compiled kernels of
//     any front end: the text of PTX, or a fatbin with PTX that is not compressed, for at most
//     `Options::compute_capability`. Text that is not PTX, or is for a newer device, is refused
//     with 218; a kernel with instructions that the emulator does not execute with 801; any other
//     image with 209. The error log of cuLibraryLoadData says why. Kernels of a cubin for the
//     device are found, but cannot be launched. Variables of a module have their own device memory.
//   * Compiled kernels, instruction by instruction, warp by warp: divergence, barriers, atomics,
//     shared memory, matrix instructions, asynchronous copies. Each access is checked. An access
//     outside mapped memory, or outside the bounds of the launch (access_bounds.h; kernel packages
//     set them), ends the context with 700, a misaligned access with 716, a failed assertion with
//     710, an operand that no device accepts with 715, a trap with 719, and threads that wait
//     forever with 702; fault() names kernel, block, thread and line. What `Strictness` looks for
//     is reported with the same details. vprintf writes to standard output when the kernel runs.
//   * Launches over grids of three dimensions. Their dynamic shared memory is at most 48 KiB less
//     the function's static shared memory, or more if its attribute allows that, up to the device's
//     limit. Cooperative launches of at most 132 blocks, the number that an H200 always holds; more
//     is 720. On a device of 9.0, clusters of up to 8 blocks; more is 912. Programmatic launches,
//     whose edges a capture keeps. A graph node keeps the attributes of its launch.
//   * Faults: an operation that touches memory which is not mapped or not accessible, or a kernel
//     that declares an access to host memory, ends the context with 700. Queued work is dropped,
//     and every later call returns the fault's error, except calls about the driver, the device or
//     the current context. Calls that release something do so before they return the error.
//   * Context rules: 3 before cuInit, 201 on a thread without a current context. When a context
//     ends, its streams and events become invalid. When the last context ends, every handle becomes
//     invalid. Objects that were not destroyed stay in live(). Graphs and libraries belong to the
//     process.
//   * Host functions, and kernels that run as host code. While one runs, every entry returns 800 on
//     its thread, because a wait for work would never end there.
//
// Refuses, although a GPU may allow it (besides what Strictness lists)
//   * Work on a stream of a context that is not current: kInvalidHandle. Kernels of a module with
//     variables, on a device other than the one on which it was loaded: kNotSupported.
//   * Loading libraries and virtual memory calls on a thread without a current context: 201.
//   * A memcpy or memset that is not one-dimensional, whose device range is not mapped when it is
//     submitted, that gives a device address as host memory, or that has 0 bytes in a capture:
//     kInvalidValue.
//   * Edge data for a capture: kInvalidValue.
//   * For a kernel that runs as host code, a block size other than its own; parameters through
//     `extra`; loader options other than the error log: kInvalidValue. Graphs that a device
//     launches: kNotSupported.
//   * Other launch attributes, clusters of more than 8 blocks even if the function allows them, and
//     clusters of a cooperative launch: kNotSupported.
//   * Other attributes of functions and kernel nodes: kInvalidValue. The number of registers of a
//     kernel is unknown: 0.
//   * PTX with instructions for textures and surfaces, or that only sm_100 has, and compressed PTX.
//     Launches of kernels of a cubin: kNotSupported.
//   * Attributes of a pointer other than its allocation's id: kInvalidValue.
//   * Physical memory that other processes can share; access rights for part of a mapping;
//     unmapping several mappings at once.
//   * While a stream captures: destroying it, destroying or instantiating the graph that it
//     captures into, making it wait for an event that was never recorded (905).
//   * Use of a destroyed handle: kInvalidHandle, and kInvalidValue for memory. Handles are never
//     reused.
//   * Launching or instantiating a graph with a kernel whose library was unloaded: kInvalidHandle.
//     Unloading a library of compiled kernels waits for all work.
//
// Does not model
//   * Time, caches, peer access, ECC, sharing between processes.
//   * Concurrency inside a kernel that runs as host code: the threads of a block run one after
//     another, and so do blocks, so no block may wait for a later one. For such a kernel,
//     misaligned accesses (716), the size of its static shared memory, and host memory that it
//     touches without declaring it, are not checked.
//   * Weak memory: in a compiled kernel every thread sees writes at once, so a missing fence never
//     causes a wrong value. Approximate instructions are more accurate than on a GPU, and sums
//     inside a matrix instruction are in another order.
//   * Programmatic launches that start early: they run in the order of their stream, and the
//     emulator does not check that a kernel waits before it touches memory.
//   * Progress of work while the host neither waits nor queries: nothing runs then.
//   * Memory nodes, conditional nodes, user objects; updates of an exec that change more than the
//     work of its nodes.
//
// A child process that is forked while there is an emulator cannot use it, as with CUDA: every
// entry returns 3, and Create fails. What the child destroys does not change the parent's memory.
// In a child, host code that reads or writes device memory by its address is not noticed.
//
// Only one emulator may exist in a process at a time, because there is only one libcuda. It
// installs SIGSEGV and SIGBUS handlers that chain to the earlier ones, and removes them when it is
// destroyed.
//
// Units: bytes. Threads: the driver entries may be called from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_finding.h"
#include "coppice/runtime/padding_reach.h"

namespace coppice {

class Emulator {
 public:
  // What the emulator refuses or reports although a GPU may allow it. Each is a mistake that a GPU
  // shows at another time, in another way, or never.
  struct Strictness {
    // Reports two accesses to the same bytes, at least one of them a write, that no stream, event,
    // graph edge or wait of the host orders. Only accesses that host code declares
    // (COPPICE_ACCESSES) are seen. A compiled kernel that declares nothing is observed while it
    // runs. A launch that is not ordered after the upload of its graph is reported, too. Races are
    // found when work is submitted, or, for observed kernels, when it has run. The findings do not
    // depend on the seed.
    bool unordered_access = true;
    // Reports host memory that changes after a copy from it is submitted and before it runs.
    bool changed_source = true;
    // Ends the process when host code touches device memory while no work runs, or in a host
    // function. Off: the access is allowed.
    bool host_access = true;
    // Keeps addresses of freed memory, or of a freed reservation, out of use until another 16 TiB
    // were freed or the host has no other addresses, so that a stale pointer faults.
    bool quarantine = true;
    // Aborts the process if two threads are inside one graph or graph exec at the same time.
    bool concurrent_entry = true;
    // Refuses (907) an event that was recorded in a capture that has ended, until it is recorded
    // again. Off: the event counts as never recorded.
    bool captured_event = true;
    // Reports a kernel that is captured before it was ever launched outside a capture, because a
    // driver that loads lazily would then load it during the capture. Off by default, because not
    // every driver loads lazily.
    bool captured_loading = false;
    // Reports compiled kernels that touch bytes that their host code does not declare.
    bool undeclared_access = true;
    // Reports races inside compiled kernels: two threads access the same bytes, at least one access
    // is a write that changes them, and neither a barrier nor an atomic operation orders the two.
    // Lanes of one warp that store by one instruction do not race with each other: one of them
    // wins. In global memory, accesses that the lanes of a warp execute together are ordered before
    // their later accesses. After a branch has separated the lanes, this does not hold until they
    // synchronise.
    bool kernel_race = true;
    // Also reports harmless races. In them, one warp of a block reads global memory that another
    // warp writes, but the kernel writes the same bits in whatever order the warps run. Triton's
    // kernels have such races if several warps hold one value, and one of them stores it. Off by
    // default; then a kernel that may have a harmless race is run up to ten more times, to see
    // whether the race is harmless.
    bool harmless_race = false;
    // Reports compiled kernels that read shared memory that no thread of the block wrote, or device
    // memory that no copy, fill or kernel has written since it was allocated. Writes that host code
    // declares count as written. Off by default, because code that masks values after reading them
    // is correct.
    bool uninitialized_read = false;

    static Strictness All(bool on) { return {on, on, on, on, on, on, on, on, on, on, on}; }
  };

  struct Options {
    int devices = 1;                          // 1 to 16. They do not reach each other's memory.
    int64_t memory_bytes = int64_t{4} << 30;  // Memory of each device. Multiple of 2 MiB, >= 2 MiB.
    uint64_t seed = 1;                        // Seed of the execution order.
    int eager_permille = 0;                   // Chance in 1000 to run an operation at enqueue.
    int queue_limit = 1 << 16;                // Queued operations that force execution. >= 1.
    bool sequential = false;                  // Runs work in enqueue order: faster, hides races.
    // Of each device: 80, 86, 89 or 90, for 8.0 to 9.0. PTX for a greater capability is refused.
    // Below 90 there are no clusters.
    int compute_capability = 90;
    // Kernels of a KernelImage run as the PTX of its fatbin. Their host code then only declares
    // their accesses. An image without such PTX is refused.
    bool compiled_kernels = false;
    // Loads cubins; their kernels are found, but refused when they are launched. Off: a cubin is
    // refused when it is loaded, as a driver does with CUDA_FORCE_PTX_JIT=1.
    bool cubins = true;
    Strictness strictness;
    // The table of what captures forbid, in the form of
    // runtime/tables/capture_legality.<driver>.tsv; empty: the built-in table.
    std::string capture_legality;
  };

  // Counts of what exists now. After a clean shutdown, all except `nodes_executed` are 0.
  struct Live {
    int64_t physical_bytes = 0;  // MemCreate handles (or their mappings), and allocations, rounded
                                 // up to 4 KiB.
    int64_t mapped_bytes = 0;    // Virtual bytes of MemMap.
    int64_t reserved_bytes = 0;  // Virtual bytes of MemAddressReserve.
    int64_t handles = 0;         // MemCreate handles that are not released.
    int64_t allocations = 0;     // Allocations of cuMemAlloc that are not freed.
    int64_t streams = 0;
    int64_t events = 0;
    int64_t graphs = 0;
    int64_t execs = 0;
    int64_t libraries = 0;
    int64_t captures = 0;        // Captures that have not ended.
    int64_t contexts = 0;        // Retains of primary contexts that are not released.
    int64_t nodes_executed = 0;  // Graph nodes that have run so far. For a child graph, its nodes
                                 // are counted.

    friend bool operator==(const Live&, const Live&) = default;
  };

  // Errors: kInvalidArgument   an option is out of range, or capture_legality cannot be read;
  //         kFailedPrecondition  another emulator exists in this process, or in the one that it was
  //                              forked from;
  //         kResourceExhausted   the host refuses the backing memory.
  static absl::StatusOr<std::unique_ptr<Emulator>> Create(const Options& options);
  static absl::StatusOr<std::unique_ptr<Emulator>> Create() { return Create(Options()); }

  // Frees everything; queued work is dropped. Requires: no thread is inside an entry.
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // The driver; valid while the emulator lives.
  const Driver& driver() const { return driver_; }

  // Counts of what exists. Cost: O(1).
  Live live() const;

  // True if every byte of [address, address + bytes) is mapped and readable by kernels, so that a
  // test may look at device memory from the host. Cost: O(log mappings).
  bool Readable(DeviceAddress address, int64_t bytes) const;

  // The reports of the checks in `Strictness`, each text once, in the order of its first
  // occurrence. Only the last 100 texts are kept. Empty if nothing was found.
  std::vector<std::string> reports() const;

  // Where and in which kernel the sticky fault happened; empty if there was none.
  std::string fault() const;

  // The number of findings so far: all reports, also those with equal texts, and the fault if there
  // was one. Read it before a call to find out which findings are the call's.
  int64_t finding_count() const;
  // The findings after the first `since`, each text once: reports, then the fault. A text from
  // before is included if it was found again.
  std::vector<std::string> FindingsSince(int64_t since) const;

  // What compiled kernels did wrong: the findings of reports(), in their order, then that of
  // fault().
  std::vector<KernelFinding> kernel_findings() const;

  // From now on, follows padding through compiled kernels, copies and fills; forgets what it
  // followed before. Kernels take several times as long. padding_reach.h says what padding reaches.
  // A Restart ends it. Requires of all four: no work runs meanwhile.
  void FollowPadding();
  // Marks device memory as padding of input `input`, or as its live elements. Without FollowPadding
  // it does nothing. Requires: input >= 0.
  void MarkInput(DeviceAddress address, int64_t bytes, int input, bool padding);
  // Whether padding has reached one of these bytes, and how; nothing: no, or it is not followed.
  std::optional<PaddingReach> FindPadding(DeviceAddress address, int64_t bytes) const;
  // What has run since FollowPadding through which padding cannot be followed: opcodes, stores
  // whose place or existence depends on padding, clocks behind such branches, host functions,
  // copies of padding to the host, and kernels that run as host code and touch padding, unless they
  // only copy it. If there is any, FindPadding may miss something.
  std::vector<std::string> PaddingGaps() const;

  // Adds a report that other code made.
  void Report(std::string text);

  // Brings the emulator back to its first state, for use after a fault. Only the reports stay. No
  // thread has a context, and older handles are unknown; handles, and with Strictness::quarantine
  // addresses, are never reused. Requires: no thread is inside an entry.
  void Restart();

  // Whether the calling thread currently runs a host function or a kernel as host code for the
  // emulator.
  static bool RunsThisThread();

 private:
  explicit Emulator(const Driver& driver) : driver_(driver) {}

  Driver driver_;
};

}  // namespace coppice
