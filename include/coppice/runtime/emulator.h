// The emulator: the driver table made of host code, so that everything runs without a GPU.
//
// Rule: of driver calls and memory, it may reject what a GPU tolerates; it never accepts what a GPU
// rejects. Inside a kernel it is host code: see what it does not model.
//
// Models
//   * Virtual memory: one sparse memfd stands for device memory; reserve, create, map, set access,
//     unmap and release move real pages in 2 MiB granules; a range that is reserved but not mapped
//     or not accessible is PROT_NONE.
//   * Plain allocations (cuMemAlloc), 512-byte aligned, each in pages of its own that end at a
//     guard page. The host bounds their number: about 32,000 where vm.max_map_count is 65,530.
//   * Every allocation has an id that no other ever has (cuPointerGetAttribute); mapped memory has
//     that of its cuMemCreate handle.
//   * Fresh memory is filled: 0xCB in every fresh physical byte, and in a block's shared memory.
//   * Streams and events with CUDA's ordering. Work is queued, and executes only inside calls that
//     wait or query, or when more than `Options::queue_limit` operations are queued, on the calling
//     thread, one operation at a time, in an order drawn from `Options::seed` among the operations
//     that are ready: streams overtake each other, so do unordered nodes of a graph and the blocks
//     of a kernel. With `Options::eager_permille` some operations also run at enqueue, so that "too
//     early" is met as well as "too late". A query runs a few operations before it answers, so that
//     polling comes to an end.
//   * A virtual clock, which events with timing read when the work before them has run: each
//     operation or graph node that runs takes 1 us, whichever stream it is on and whatever it does.
//     cuEventElapsedTime runs nothing: who polls has to query.
//   * A kernel's parameters are copied at the call; the host memory of a copy is used when the copy
//     executes.
//   * cuMemFree waits for all work, as CUDA's does for plain allocations. MemUnmap and MemRelease
//     wait for nothing: work that runs later faults.
//   * Capture: modes, the per-thread exchange mode, a table of what each mode forbids, fork and
//     join through events, the result codes 401 and 900 to 908 (but 906, which needs the legacy
//     stream), cross-thread invalidation, changes to what a stream's next node depends on. An
//     invalidated capture destroys its graph at once.
//   * Graphs of kernel, memcpy, memset, host, child and empty nodes; instantiate takes a snapshot,
//     and an update of it leaves queued launches alone; one exec never overlaps itself; launch or
//     upload into a capturing stream is 900. A node depends on nodes that exist, so no graph has a
//     cycle.
//   * Libraries: images of the build (kernel_image.h), whose kernels run as host code, or, with
//     `Options::compiled_kernels`, as the PTX that nvcc made of them; and compiled kernels of any
//     front end: the text of PTX, or a fatbin with PTX that is not compressed, for at most
//     `Options::compute_capability`. Text that is no PTX, or is for a newer device, is refused with
//     218, a kernel that needs what is not executed with 801, any other image with 209; the error
//     log of cuLibraryLoadData says why. Variables of a module lie in device memory of its own.
//   * Compiled kernels, instruction by instruction, warp by warp: divergence, barriers, atomics,
//     shared memory, matrix instructions, asynchronous copies. Each access is checked: one outside
//     of what is mapped, or of what the launch is bound to (access_bounds.h), as those of kernel
//     packages are, ends the context with 700, a misaligned one with 716, a failed assertion
//     with 710, an operand that no device takes with 715, a trap with 719, threads that wait for
//     what never happens with 702; fault() names kernel, block, thread and line. What else
//     `Strictness` looks for is reported in the same way. vprintf writes to standard output when
//     the kernel runs.
//   * Launches over grids of three dimensions, with as much dynamic shared memory as the function
//     has leave for (48 KiB less what is static, or up to the device's limit); cooperative ones of
//     at most 132 blocks, which an H200 holds whatever registers a kernel takes, beyond that 720;
//     on a device of 9.0, clusters of up to 8 blocks, beyond that 912; programmatic ones, whose
//     edges a capture notes. A graph node keeps what its launch said.
//   * Faults: an operation that touches memory which is not mapped or not accessible, or a kernel
//     that declares to touch host memory, ends the context with 700. What is queued is dropped, and
//     every later call returns the fault's error, those that release something after doing so,
//     except those about the driver, the device or which context is current.
//   * Context rules: 3 before cuInit, 201 on a thread without a current context. The last release
//     of the context makes every handle of it invalid; what nobody destroyed stays in live().
//   * Host functions, and kernels that run as host code, during which every entry returns 800 on
//     their thread: what they wait for would never come, as they are part of it.
//
// Refuses, although a GPU may allow it (beside what Strictness lists)
//   * Any use of the legacy or the per-thread stream (0, 1, 2): kInvalidHandle, or 900 to begin a
//     capture. coppice never uses them.
//   * Loading libraries and virtual memory calls on a thread without a current context: 201.
//   * A memcpy or memset that is not one-dimensional, whose device range is not mapped when it is
//     submitted, that names device memory as host memory, or of no bytes in a capture:
//     kInvalidValue.
//   * Data given for the edges of a capture: kInvalidValue.
//   * Blocks of another size than the own of a kernel that runs as host code, parameters through
//     `extra`, loader options but the error log, flags of cuGraphInstantiate: kInvalidValue.
//   * Other launch attributes, clusters of more than 8 blocks where a function has leave for them,
//     and clusters of a cooperative launch: kNotSupported.
//   * Other attributes of functions and kernel nodes: kInvalidValue. The registers of a kernel are
//     not known: 0.
//   * PTX with instructions for textures and surfaces, or of sm_90 alone (bulk copies, wgmma); a
//     cubin, and PTX that is compressed.
//   * Attributes of a pointer other than its allocation's id: kInvalidValue.
//   * Physical memory that other processes may share; access rights for part of a mapping;
//     unmapping several mappings at once.
//   * While a stream captures: to destroy it, to destroy or instantiate the graph it writes to, to
//     make it wait for an event that was never recorded (905).
//   * A destroyed handle: kInvalidHandle, and kInvalidValue for memory. Handles are never reused.
//   * To launch or instantiate what has a kernel whose library was unloaded: kInvalidHandle. To
//     unload a library of compiled kernels waits for all work.
//
// Does not model
//   * How long work takes, caches, peers, ECC, several devices, inter-process sharing.
//   * Concurrency inside a kernel that runs as host code: the threads of a block run in turn, and
//     blocks one after another, so that no block may wait for one that is to follow. Misaligned
//     accesses (716) of such a kernel, the size of its static shared memory, and host memory that
//     it touches without declaring it.
//   * Weak memory: in a compiled kernel every thread sees writes at once, so that a missing fence
//     never shows as a wrong value. Approximate instructions are more accurate than a GPU's, and
//     the order of sums inside a matrix instruction is the emulator's own.
//   * Programmatic launches that start early: they run in the order of their stream, and whether a
//     kernel waits before it touches memory is not seen.
//   * Progress of work while the host neither waits nor queries.
//   * Stream-ordered pools, memory nodes, conditional nodes, user objects; updates that change more
//     of an exec than the work of its nodes.
//
// A child that is forked while there is an emulator cannot use it, as of CUDA: every entry returns
// 3, and Create fails. What the child destroys leaves the parent's memory as it is. Host code that
// reads or writes device memory by its address is not seen.
//
// One emulator may exist per process at a time, as there is one libcuda. It installs SIGSEGV and
// SIGBUS handlers that chain to the earlier ones, and removes them when it goes.
//
// Units: bytes. Threads: the driver entries may be called from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"

namespace coppice {

class Emulator {
 public:
  // What the emulator refuses or reports although a GPU may let it pass: each is a mistake that a
  // GPU punishes at another time, in another way, or not at all.
  struct Strictness {
    // Reports two accesses to the same bytes, at least one a write, that neither a stream, an
    // event, a graph edge nor the host's waiting orders. Host code tells what it touches
    // (COPPICE_ACCESSES), and what it does not declare is not seen; a compiled kernel that declares
    // nothing is watched. Reports a launch that nothing orders behind the upload of its graph in
    // the same way. Found when work is submitted, or, of what is watched, when it has run; what is
    // found does not depend on the seed.
    bool unordered_access = true;
    // Reports host memory that changes between the submission of a copy from it and the copy.
    bool changed_source = true;
    // Ends the process when host code touches device memory while no work runs, or in a host
    // function. Off: it reads and writes it.
    bool host_access = true;
    // Hands out no address of freed memory or of a freed reservation again before 16 TiB of others
    // were freed, or the host has no other, so that a stale pointer faults.
    bool quarantine = true;
    // Aborts the process if two threads are inside one graph or graph exec at the same time.
    bool concurrent_entry = true;
    // Refuses (907) an event that was recorded in a capture, once that has ended, until it is
    // recorded again. Off: it counts as never recorded.
    bool captured_event = true;
    // Reports a kernel that a capture has before it was ever launched outside one, where a driver
    // that loads lazily would load it. Off by default: code that captures a kernel of its own need
    // not care where its driver does not.
    bool captured_loading = false;
    // Reports compiled kernels that touch what their host code does not declare.
    bool undeclared_access = true;
    // Reports races inside compiled kernels: two accesses of threads to the same bytes, at least
    // one a write that changes them, which neither a barrier nor an atomic operation orders. Lanes
    // of one warp that store by one instruction do not race with each other: one of them wins.
    bool kernel_race = true;
    // Reports compiled kernels that read shared memory which no thread of the block wrote, or
    // device memory which no copy, fill or kernel wrote since it was fresh. Of host code, what it
    // declares to write counts. Off by default: code that masks what it has read does so.
    bool uninitialized_read = false;

    static Strictness All(bool on) { return {on, on, on, on, on, on, on, on, on, on}; }
  };

  struct Options {
    int64_t memory_bytes = int64_t{4} << 30;  // Device memory. Multiple of 2 MiB, >= 2 MiB.
    uint64_t seed = 1;                        // Draws the execution order.
    int eager_permille = 0;                   // Chance in 1000 to run an operation at enqueue.
    int queue_limit = 1 << 16;                // Queued operations that force execution. >= 1.
    bool sequential = false;                  // Runs work in enqueue order: faster, hides races.
    // The device's: 80, 86, 89 or 90, for 8.0 to 9.0; it takes PTX for at most that. Without
    // clusters below 90.
    int compute_capability = 90;
    // Kernels of a KernelImage run as the PTX of its fatbin, and not as host code, which then only
    // declares what they touch. An image without such PTX is refused.
    bool compiled_kernels = false;
    Strictness strictness;
    // What captures forbid, as runtime/tables/capture_legality.<driver>.tsv; empty: the built-in
    // table.
    std::string capture_legality;
  };

  // What exists at this moment; everything but `nodes_executed` is zero after a clean shutdown.
  struct Live {
    int64_t physical_bytes = 0;  // MemCreate handles (or their mappings); allocations, in 4 KiB.
    int64_t mapped_bytes = 0;    // Virtual bytes of MemMap.
    int64_t reserved_bytes = 0;  // Virtual bytes of MemAddressReserve.
    int64_t handles = 0;         // MemCreate handles not released.
    int64_t allocations = 0;     // cuMemAlloc not freed.
    int64_t streams = 0;
    int64_t events = 0;
    int64_t graphs = 0;
    int64_t execs = 0;
    int64_t libraries = 0;
    int64_t captures = 0;        // Captures not ended.
    int64_t contexts = 0;        // Primary-context retains not released.
    int64_t nodes_executed = 0;  // Graph nodes run so far; of a child graph, the nodes inside.

    friend bool operator==(const Live&, const Live&) = default;
  };

  // Errors: kInvalidArgument   an option out of range, or a table of captures that cannot be read;
  //         kFailedPrecondition  another emulator exists in this process, or in the one that it was
  //                              forked from;
  //         kResourceExhausted   the host refuses the backing memory.
  static absl::StatusOr<std::unique_ptr<Emulator>> Create(const Options& options);
  static absl::StatusOr<std::unique_ptr<Emulator>> Create() { return Create(Options()); }

  // Frees everything, live or not; queued work is dropped. Requires: no thread is inside an entry.
  ~Emulator();
  Emulator(const Emulator&) = delete;
  Emulator& operator=(const Emulator&) = delete;

  // The driver; valid while the emulator lives.
  const Driver& driver() const { return driver_; }

  // Counts of what is alive. Cost: O(1).
  Live live() const;

  // True if every byte of [address, address + bytes) is mapped and readable by kernels, so that a
  // test may look at device memory from the host. Cost: O(log mappings).
  bool Readable(DeviceAddress address, int64_t bytes) const;

  // What `Strictness` says to report, each text once, in the order in which they came first; of
  // more than 100 texts those that came last. A run that is in order leaves it empty.
  std::vector<std::string> reports() const;

  // Where and in which kernel the sticky fault happened; empty if there was none.
  std::string fault() const;

  // How often something was reported so far, equal texts each time, and whether there was a fault:
  // asked before a call, it tells which findings are the call's.
  int64_t finding_count() const;
  // What was found behind the first `since`, each text once: reports, then the fault. Of one that
  // comes again and again, it is there if it came once more.
  std::vector<std::string> FindingsSince(int64_t since) const;

  // Adds to the reports what somebody else found.
  void Report(std::string text);

  // Makes it as new, after a fault: nothing is left but what was reported, every thread is without
  // a context, and what was made before is unknown: handles and, with Strictness::quarantine,
  // addresses never come again. Requires: no thread is inside an entry.
  void Restart();

  // Whether the calling thread runs a host function, or a kernel that is host code, as work of the
  // emulator.
  static bool RunsThisThread();

 private:
  explicit Emulator(const Driver& driver) : driver_(driver) {}

  Driver driver_;
};

}  // namespace coppice
