// A script of simulated traffic: the options of a session and what is done with it, as plain values
// that are drawn from a seed, printed, read back and taken apart.
//
//   options lanes=2 poison_expired=1
//   call id=1 program=rows extent=5
//   chain
//   call id=2 program=temps source=1 statics=1
//   read id=1 stream=2
//
// Calls have ids, and what refers to one names its id: an operation whose call is not there, or has
// made nothing of the dtype and the rows that are wanted, does nothing, or takes an input of its
// own, so that any part of a script is a script. Fields at their default are not printed.
//
// Units: elements. Threads: plain values.

#pragma once

#include "coppice/graphs/program.h"

#include "tests/support/test.h"

namespace coppice {

struct TrafficOptions {
  int64_t order = 1;           // Seed of the emulator's order of work.
  int64_t eager_permille = 0;  // Of the emulator.
  int64_t lanes = 1;
  int64_t warmup_runs = 1;
  int64_t graphs_max = 1024;
  int64_t rerecords_max = 128;
  int64_t on_limit = 0;  // Of enum OnLimit.
  int64_t copy_out_bytes = 0;
  int64_t background = 0;  // Records on another thread: not the same again.
  int64_t gate = 0;
  int64_t audit_keys = 0;
  int64_t check_addresses = 0;
  int64_t poison_expired = 0;
  int64_t symbol_kind = static_cast<int64_t>(SymbolKind::kDynamic);
  int64_t exclude_01 = 0;
  int64_t dtype = 0;        // Of enum DType: of all tensors ...
  int64_t other_dtype = 0;  // ... but second inputs and outputs, and static ones.
  int64_t outlive = 0;      // Leases are dropped after the session.
  int64_t constants = 0;    // Static inputs that programs only read lie in the session's memory.
  int64_t budget_kib = 0;   // Beside what the session takes at its beginning; 0: no budget.
  int64_t on_budget = 0;    // Of enum OnLimit.
  int64_t packages = 0;     // Programs that fit a package are of one, and replay at exact sizes as
                            // this of enum ExactReplay says, from 1; 0: all are callables.

  friend bool operator==(const TrafficOptions&, const TrafficOptions&) = default;
};

struct TrafficOperation {
  enum class Kind : uint8_t {
    kCall,     // Runs `program`; the rest of the fields says how.
    kInclude,  // Puts `program` into a capture on `stream` and launches that `nth` times.
    kRead,     // Queues a copy of the outputs of `id` on `stream`, under a scope.
    kHold,     // Opens a scope on the outputs of `id`, read when it ends.
    kLoose,    // Ends that scope.
    kDrop,     // Drops the lease of `id`.
    kRelease,  // Reads the outputs of `id` on `stream` by their addresses, then releases it there.
    kSplit,    // Splits the lease of `id` and drops the part of `output`, if it is not the last.
    kChain,    // Opens a chain on `lane`.
    kUnchain,  // Ends it.
    kSync,     // Waits for everything and compares what was read.
    kBind,     // Binds set `statics` of `program`.
    kUnbind,
    kEvict,  // The graphs of `program`, of all if `everything`.
    kReset,  // `program`; if `everything`, it is unregistered and registered anew.
    kWarm,   // The bucket of `extent`.
    kTrim,
    kSuspend,  // With `value` of enum SuspendedConstants; drops graphs too, if `everything`.
    kResume,
    kLend,       // The memory of `lane`, which the borrower fills on `stream`.
    kReturn,     // Ends that loan: behind `stream`, or after waiting for it, if `everything`.
    kScrub,      // `lane`, on `stream`.
    kExternal,   // Tells the budget of `value` KiB.
    kStance,     // To `value`.
    kSeed,       // To `value`.
    kBreakdown,  // The `nth` step of programs from here fails.
    kFault,      // The `nth` driver call from here fails with `value`.
    kRebucket,   // `program` learns its buckets anew, at most `value` of them, with `nth` graphs.
    kPolicy,     // Its buckets are `extent`, `m` and the largest.
  };

  Kind kind = Kind::kCall;
  int64_t id = 0;       // Of a call, its own.
  int64_t program = 0;  // Index in TrafficPrograms().
  int64_t extent = 1;   // Of inputs that are not outputs.
  int64_t m = 0;        // Of the second symbol.
  int64_t data = 0;     // Which of the caller's buffers is the input.
  int64_t source = 0;   // The first input is output `output` of this call; 0: a caller's buffer.
  int64_t output = 0;
  int64_t skip = 0;     // The input begins so many elements later.
  int64_t layout = 0;   // Of a caller's buffer: 0 dense, 1 every second element, 2 one element or
                        // row for all, 3 with gaps between rows.
  int64_t shorter = 0;  // By so many elements at its end.
  int64_t other = 0;    // The second input is output 0 of this call; 0: a caller's buffer.
  int64_t scoped = 0;   // The input is under a scope on the call's stream meanwhile.
  int64_t unnamed = 0;  // The input does not say which call made it, if it is sure to be there.
  int64_t donate = 0;   // The first input's lease is given away.
  int64_t count = 0;    // How much of it there is says the caller's count of this number, from 1;
                        // -1: the count that the source made; 0: the host.
  int64_t scalar = 0;
  int64_t statics = 0;  // Which set of static tensors.
  int64_t lane = 0;
  int64_t stream = 0;
  int64_t mode = 0;     // Of enum OutputMode.
  int64_t target = 0;   // Which of the caller's targets, for OutputMode::kWriteInto.
  int64_t padding = 0;  // Of enum Poison.
  int64_t explain = 0;  // Explain is asked first, and must be right.
  int64_t everything = 0;
  int64_t refuses = 0;  // Nothing is suspended while outputs are leased.
  int64_t nth = 1;
  int64_t value = 0;

  friend bool operator==(const TrafficOperation&, const TrafficOperation&) = default;
};

struct TrafficScript {
  TrafficOptions options;
  std::vector<TrafficOperation> operations;

  friend bool operator==(const TrafficScript&, const TrafficScript&) = default;
};

inline constexpr int64_t kTrafficStreams = 3;
inline constexpr int64_t kTrafficLanes = 2;
inline constexpr int64_t kTrafficGranule = 2 * kMiB;  // Of what is mapped.
inline constexpr int64_t kTrafficBuffers = 8;  // Of the caller: inputs, mutable inputs, targets.
inline constexpr int64_t kTrafficCounts = 32;  // Of the caller.
inline constexpr int64_t kTrafficStatics =
    6;  // Sets per program; the last is misaligned, if it may.

// The script of a seed: the same on every machine.
TrafficScript DrawScript(uint64_t seed, int64_t calls);

std::string TextOf(const TrafficScript& script);
std::string TextOf(const TrafficOperation& operation);
// Errors: kInvalidArgument naming the line and what is wrong with it.
absl::StatusOr<TrafficScript> ParseScript(const std::string& text);

// The fields that a shrinker may simplify, with their defaults in a value made by {}.
std::span<int64_t TrafficOptions::*const> OptionFields();
std::span<int64_t TrafficOperation::*const> OperationFields();

}  // namespace coppice
