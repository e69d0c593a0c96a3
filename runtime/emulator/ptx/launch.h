// The execution of one launch.
//
// Blocks and warps run in an order drawn from a seed, a quantum of instructions at a time, so that
// kernels that wait for other blocks end; lanes of a warp that part run the deepest call and lowest
// instruction first, and join where they meet.
//
// Units: bytes. Threads: one thread runs a launch; several launches may run at once.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "runtime/emulator/ptx/code.h"
#include "runtime/emulator/ptx/program.h"

namespace coppice::ptx {

struct Taint;

// Device memory that kernels may touch: [begin, end), of one allocation or mapping.
struct MemoryRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool writable = true;
};

// Those of them that an argument of a launch stands for.
struct ArgumentRange {
  int argument = -1;  // -1: variables of the kernel's module.
  std::string name;   // What people call it.
  MemoryRange range;
};

struct Checks {
  // Inside a block, and between blocks: of accesses that are not lanes of one warp executing one
  // instruction together. Of those that store to one place, which of them wins is left open.
  bool races = true;
  // Reports also races between warps of a block in global memory, of which one side reads, if the
  // launch writes the same bits in whatever order warps run. To see that, it is run up to ten times
  // more: with the first warp first, with the last, and with warps that take turns.
  bool harmless_races = false;
  // Reads of memory that nobody wrote: shared, and global if Environment::written is there.
  bool uninitialized = false;
  bool record = true;  // Notes what is touched: Outcome::touched.

  static Checks All(bool on) { return {on, on, on, on}; }
};

// What a launch needs of its surroundings.
struct Environment {
  std::span<const MemoryRange> memory;  // Ascending, disjoint.
  // The kernel may touch no other part of `memory`; where they overlap, it may write what one of
  // them may. Empty: all of it.
  std::span<const ArgumentRange> arguments;
  // The host has the whole word of 32 bits where a range begins or ends inside one.
  bool whole_words = false;
  uint64_t seed = 1;
  Checks checks;
  uint64_t clock_ns = 0;                        // %globaltimer when it starts.
  std::function<void(std::string_view)> print;  // Of vprintf; null: to nowhere.
  Taint* taint = nullptr;  // Which bytes padding has reached; null: nobody asks.
  // Whether all of these bytes of global memory were written before the launch.
  std::function<bool(uint64_t begin, uint64_t end)> written;
};

struct Launch {
  const Kernel* kernel = nullptr;
  std::array<unsigned, 3> grid = {1, 1, 1};
  std::array<unsigned, 3> block = {1, 1, 1};
  // In blocks; `grid` has multiples of it. Zeros: what the kernel requires, or one block.
  std::array<unsigned, 3> cluster = {0, 0, 0};
  int64_t dynamic_shared_bytes = 0;
  std::span<const std::byte> parameters;  // Laid out as the kernel's.
  bool cooperative = false;
};

// The blocks of a cluster of it, one at least.
std::array<unsigned, 3> ClusterOf(const Launch& launch);

// One thing that is wrong with a kernel: who did it, and where.
struct Finding {
  enum class Kind : uint8_t {
    kIllegalAddress,  // 700
    kMisaligned,      // 716
    kAssert,          // 710
    kTrap,            // 719, as for what else ends a launch
    kIllegalInstruction,
    kDeadlock,
    kRace,
    kReplicas,  // A race of copies of one value that differ in their last bits alone.
    kUninitialized,
  };
  Kind kind = Kind::kTrap;
  std::string kernel;
  std::array<unsigned, 3> block = {};
  std::array<unsigned, 3> thread = {};
  int line = 0;          // Of the PTX.
  std::string source;    // "file.py:12", if the PTX says so.
  std::string message;   // What happened: "reads 4 bytes at 0x..., 8 bytes past the end ..."
  uint64_t address = 0;  // Of the bytes in device or shared memory; 0: it is about none.

  std::string Describe() const;  // All of it, in one line.
};

// "illegal address", "race", ...
const char* NameOf(Finding::Kind kind);

struct Counts {
  int64_t instructions = 0;       // Of warps ...
  int64_t lane_instructions = 0;  // ... and of their lanes.
  int64_t loads = 0;              // Of lanes.
  int64_t stores = 0;
};

struct TouchedRange {
  uint64_t begin = 0;
  uint64_t end = 0;
  bool writes = false;
};

struct Outcome {
  std::optional<Finding> fault;   // What ended the launch early.
  std::vector<Finding> findings;  // What else was found; each place once.
  Counts counts;
  std::vector<TouchedRange> touched;  // Global memory, ascending; reads and writes apart.
};

Outcome Run(const Launch& launch, const Environment& environment);

}  // namespace coppice::ptx
