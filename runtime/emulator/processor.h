// The processor: runs one piece of work at a time, in an order that it draws.
//
// It has the virtual clock, and the sticky fault that ends the context.
//
// Threads: guarded by the emulator's mutex, which is free while device work runs. One thread at a
// time runs device work; the state it uses meanwhile is not freed by others.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "coppice/runtime/cuda_abi.h"

#include "runtime/emulator/checks.h"
#include "runtime/emulator/memory.h"
#include "runtime/emulator/outcome.h"
#include "runtime/emulator/ptx/launch.h"
#include "runtime/emulator/ptx/taint.h"
#include "runtime/emulator/stream.h"
#include "runtime/emulator/work.h"
#include "runtime/emulator/written_bytes.h"

namespace coppice::emulator {

class Processor {
 public:
  struct Options {
    uint64_t seed = 1;
    bool sequential = false;    // Work runs in the order given, and draws nothing.
    bool hides_memory = false;  // Device memory is shown to device work only.
    // Of compiled kernels.
    bool races = false;           // Looks for races inside them ...
    bool harmless_races = false;  // ... even for those that change nothing.
    bool uninitialized = false;   // Looks for reads of what nobody wrote.
  };

  class ShownMemory;

  Processor(const Options& options, Memory* memory, Checks* checks, std::mutex* mutex)
      : options_(options),
        memory_(*memory),
        checks_(*checks),
        mutex_(*mutex),
        random_(options.seed) {}

  // Runs an operation that is one task. False if it faulted, which is the end of the context.
  bool RunTask(const Operation& operation);

  // Runs the next node of a graph, if it has any. The same result.
  bool RunNode(Operation& operation);

  // Forgets the fault, the clock and what was written. Requires: nothing runs, or is queued.
  void Restart();

  // Device memory was written that no operation wrote.
  void NoteWritten(DeviceAddress address, int64_t bytes);

  // Follows padding from now on, and forgets what it followed before.
  void FollowTaint() { taint_ = std::make_unique<ptx::Taint>(); }
  ptx::Taint* taint() const { return taint_.get(); }  // Null: padding is not followed.

  // The next random number.
  uint64_t Draw();

  bool sequential() const { return options_.sequential; }
  CuResult sticky() const { return sticky_; }
  const std::string& fault() const { return fault_; }
  const std::optional<KernelFinding>& kernel_fault() const { return kernel_fault_; }
  int64_t fault_number() const { return fault_number_; }  // Among the reports.
  int64_t nodes_executed() const { return nodes_executed_; }
  int64_t now_us() const { return now_us_; }

 private:
  // `source_sum` is that of the host memory that a copy read when it was submitted, if somebody
  // watches.
  bool Run(const Task& task,
           const Operation& operation,
           int node,
           std::optional<uint64_t> source_sum);
  bool RunNodeAt(const Operation& operation, int index);
  std::optional<Fault> FindForeignAccess(const Task& task, int device) const;
  Surroundings SurroundingsOf(const Task& task, int device);
  void LookAt(const Outcome& outcome, const Task& task, const Operation& operation, int node);
  // What work that is no compiled kernel does with taint.
  void Taint(const Task& task);
  bool TaintCopies(std::span<const TouchedBytes> touched);
  void CheckSource(const CopyWork& copy, uint64_t sum);
  bool IsWritten(uint64_t begin, uint64_t end) const;
  void NoteWritten(std::span<const TouchedBytes> touched);

  const Options options_;
  Memory& memory_;
  Checks& checks_;
  std::mutex& mutex_;
  int shown_count_ = 0;  // Threads that need device memory to be shown.
  uint64_t random_;
  CuResult sticky_ = CuResult::kSuccess;
  std::string fault_;
  std::optional<KernelFinding> kernel_fault_;  // The same, if it is one of a kernel's PTX.
  int64_t fault_number_ = 0;
  int64_t nodes_executed_ = 0;
  int64_t now_us_ = 0;  // The virtual clock: one for each operation or node that has run.

  std::vector<ptx::MemoryRange> ranges_;  // Of device memory, each ...
  std::vector<uint64_t> offsets_;         // ... with the physical offset of its first byte, ...
  uint64_t ranges_revision_ = 0;          // ... as of this revision of memory ...
  int ranges_device_ = -1;                // ... and for this device.
  WrittenBytes written_;                  // Kept if reads of others are looked for.
  std::unique_ptr<ptx::Taint> taint_;
};

// Lets device work reach device memory while it lives, and nobody else, if memory is hidden.
class Processor::ShownMemory {
 public:
  explicit ShownMemory(Processor& processor) : processor_(processor) {
    if (hides() && processor_.shown_count_++ == 0) processor_.memory_.Show(true);
  }
  ~ShownMemory() {
    if (hides() && --processor_.shown_count_ == 0) processor_.memory_.Show(false);
  }
  ShownMemory(const ShownMemory&) = delete;
  ShownMemory& operator=(const ShownMemory&) = delete;

 private:
  bool hides() const { return processor_.options_.hides_memory; }

  Processor& processor_;
};

}  // namespace coppice::emulator
