// The programs of the simulated traffic: tables of steps, which a session's callable launches and a
// model without sessions or graphs computes on host vectors.
//
// Every step is a kernel that mixes one or two buffers into a third or reduces the rows of one, or
// something that happens between kernels: an alias, the end of a temporary, a fork, a join, a
// break. Programs differ in what a session has to get right: padding and its filling, temporaries,
// mutated inputs, state, aliases, forks. Any of them runs on elements of any dtype, and on two of
// them at once. The model knows no padding: it reduces what is real.
//
// Units: elements unless a name says bytes. Threads: tables are constant; a TrafficDevice belongs
// to one thread.

#pragma once

#include "coppice/graphs/program.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "tests/support/test.h"

namespace coppice {

using Bytes = std::vector<uint8_t>;

inline constexpr int64_t kStaticElements = 16;  // Of every static input and output.
inline constexpr int64_t kLargestExtent = 64;   // Of all buckets.
inline constexpr int64_t kElementBytesMax = 8;  // Of all dtypes.
inline constexpr int64_t kRandomNumbersPerCall = 7;
inline constexpr int64_t kRandomNumbersUsed = 8;  // Of rounds of four.

// What a step reads and writes. Values name buffers, not addresses.
enum class TrafficBuffer : int8_t {
  kNone,
  kIn0,
  kIn1,
  kStatic,
  kOut0,
  kOut1,
  kTemp0,
  kTemp1,
  kTemp2
};

struct TrafficStep {
  enum class Kind : uint8_t {
    kMix,  // z = mix(x, y), on the context's stream.
    kSum,  // z = the reduction of each row of x, as long as x.
    kMaximum,
    kSoftmax,
    kChanges,
    kSide,  // The same on a forked stream: between kFork and kJoin.
    kHost,  // The same, launched by the eager step of a break.
    kFork,
    kJoin,
    kCount,  // z, one integer, is how many of the real elements of x the program counts.
    kFree,   // The temporary or the input x.
    kAlias,  // Output z is x.
  };

  Kind kind = Kind::kMix;
  TrafficBuffer z = TrafficBuffer::kNone;
  TrafficBuffer x = TrafficBuffer::kNone;
  TrafficBuffer y = TrafficBuffer::kNone;
};

// What a program has, beside its steps.
struct TrafficProgram {
  enum class Scalar : uint8_t { kNone, kKey, kResident };
  enum class Static : uint8_t { kNone, kRead, kMutated, kOutput };
  // Where a second symbol, m, has its extent from.
  enum class Second : uint8_t { kNone, kGiven, kScalar };
  // Of a row: n; 2*n; n + m; max(n - m, 0), which padding may make smaller; ceildiv(n, 2).
  enum class Length : uint8_t { kN, kTwice, kSum, kRest, kHalf };

  const char* name = "";
  std::optional<PaddingContents> claim = PaddingContents::kRowIndependent;
  const char* policy = "pow2";
  double max_ratio = 0;  // Of its guard; 0: none.
  std::span<const TrafficStep> steps;
  int inputs = 1;  // Copied ones.
  int outputs = 1;
  int64_t rows = 1;  // Each tensor is [rows, n], or [n] if 1 ...
  int rank = 1;      // ... behind as many axes of 1 as make it of this rank, at least.
  int64_t row_stride =
      0;        // What the program sees of rows, if not 0: elements from one to the next.
  Fill fill{};  // Of the copied inputs ...
  bool needs_fill = false;  // ... without which the outputs are others.
  Scalar scalar = Scalar::kNone;
  Static statics = Static::kNone;  // kOutput: static input 0 is read, and output 1 is static.
  bool mutates_input = false;
  bool random = false;
  bool one_stream = true;
  OverMaximum over_maximum = OverMaximum::kEager;
  Second second = Second::kNone;
  Length other = Length::kN;          // Of the second input ...
  Length output_1 = Length::kN;       // ... and of output 1. All else has n.
  bool counted = false;               // Calls may leave it to the device how much of n there is.
  bool counts = false;                // Output 1 counts output 0 ...
  DType count_dtype = DType::kInt64;  // ... in one of these.
  // As the simulation chooses.
  DType dtype = DType::kFloat32;        // Of all tensors ...
  DType other_dtype = DType::kFloat32;  // ... but the second input, an output 1 that is no alias,
                                        // and static ones.

  int scalars() const {
    return (scalar == Scalar::kNone ? 0 : 1) + (second == Second::kScalar ? 1 : 0);
  }
  // Elements from the first to behind the last of `rows` of `n`, as the program sees them.
  int64_t Span(int64_t n) const {
    return row_stride == 0 || n == 0 ? rows * n : (rows - 1) * row_stride + n;
  }
  bool binds() const { return statics != Static::kNone; }
  // Elements of an output that has no row of the call's.
  bool fixed_output(int output) const { return static_output(output) || is_count(output); }
  bool is_count(int output) const { return counts && output == 1; }
  size_t count_rank() const { return count_dtype == DType::kInt64 ? 0 : 1; }
  bool static_output(int output) const { return statics == Static::kOutput && output == 1; }
  DType DTypeOf(TrafficBuffer buffer) const;
  DType DTypeOfInput(int input) const {
    return DTypeOf(input == 0 ? TrafficBuffer::kIn0 : TrafficBuffer::kIn1);
  }
  DType DTypeOfOutput(int output) const {
    return DTypeOf(output == 0 ? TrafficBuffer::kOut0 : TrafficBuffer::kOut1);
  }
};

std::span<const TrafficProgram> TrafficPrograms();

// What the symbols of a call are; m is 0 if there is none.
struct TrafficExtents {
  int64_t n = 0;
  int64_t m = 0;
};
int64_t LengthOf(TrafficProgram::Length length, const TrafficExtents& extents);

// The element that a fill writes, if it writes the same everywhere.
uint64_t FilledWith(const Fill& fill, DType dtype);

// The policy of all of its symbols.
PaddingPolicy PolicyOf(const TrafficProgram& program);

// What all programs of one simulation have in common.
struct TrafficSymbol {
  SymbolKind kind = SymbolKind::kDynamic;
  bool exclude_01 = false;
};
ProgramSpec SpecOf(const TrafficProgram& program, const TrafficSymbol& symbol);

// What callables need of the device. Its driver makes no faults of its own.
struct TrafficDevice {
  explicit TrafficDevice(const Driver& driver);

  KernelLibrary library;
  Kernel mix;
  Kernel reduce;
  Kernel count;
  Stream side;
  Event fork;
  Event join;
  std::atomic<int64_t> fails_in = 0;  // The step from here on that fails; 0: none.
  std::atomic<bool> failed = false;   // It did, and
  std::atomic<bool> broke = false;    // it did at some time.
};

// `device` must outlive the session. A callable that fails leaves no work of a fork behind.
Callable CallableOf(const TrafficProgram& program, TrafficDevice& device);

// One call as the model runs it; inputs and static are updated where the program mutates them.
struct ModelCall {
  Bytes* inputs[2] = {nullptr, nullptr};
  Bytes* bound = nullptr;  // The static input.
  int64_t scalar = 0;
  int64_t m = 0;
  uint64_t seed = 0;  // Of the random state.
  int64_t offset = 0;
};
// The outputs, dense.
std::vector<Bytes> RunModel(const TrafficProgram& program, const ModelCall& call);

}  // namespace coppice
