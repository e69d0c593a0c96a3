// What a program allocates at any size, out of the plans that a trace has of it.
//
// A plan's buffers, with the steps between which each lives, are the allocations of one run in
// their order: a script, which a callable can make again. Of a bucket that was never recorded the
// sizes are fitted (size_fit.h), if all recorded ones have one script but for sizes.
//
// Units: bytes, elements, nanoseconds. Threads: one at a time, as scripts are kept once made.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/expression.h"
#include "coppice/graphs/program.h"

#include "tools/prof/pool_trace.h"
#include "tools/prof/whatif/size_fit.h"

namespace coppice {

// One request of a run.
struct RunRequestStep {
  enum class Kind : uint8_t { kAllocate, kOutput, kFree, kFreeInput, kNothing };
  Kind kind = Kind::kNothing;
  int buffer = 0;   // Of the script.
  int output = -1;  // Of kOutput.
  int input = -1;   // Of kFreeInput: of the spec.

  friend bool operator==(const RunRequestStep&, const RunRequestStep&) = default;
};

// A copied input that a run frees, so that a call which gives it away has room.
struct FreedInput {
  int copy = 0;      // Of Call::inputs.
  int64_t step = 0;  // Of the run.
};
using FreedInputs = std::map<const TracedNode*, std::vector<FreedInput>>;  // Where known.

struct RunScript {
  std::vector<RunRequestStep> steps;
  std::vector<int64_t> bytes;  // Per buffer; of outputs the spec says it.
  int64_t kernels = 0;         // Of its graph.
  int64_t record_ns = 0;
  bool recorded = true;  // As a plan of the trace has it.
  bool exact = true;     // False: some size is an estimate.
  int points = 0;        // Buckets that its sizes were computed from, if it was not recorded.
};

// How much of what a repetition asked for was recorded.
struct ScriptUse {
  int64_t recorded = 0;      // Buckets or sizes whose own plan said it,
  int64_t interpolated = 0;  // whose sizes were computed, exactly,
  int64_t estimated = 0;     // and those which could only be guessed.
  int fewest_points = 0;     // Buckets that held a computed size, at least; 0: none was computed.
};

class RunScripts {
 public:
  // Of a program of the trace, whose spec outlives this.
  static absl::StatusOr<std::unique_ptr<RunScripts>> Create(const PoolTrace& trace,
                                                            const FreedInputs& freed,
                                                            int program,
                                                            const ProgramSpec& spec);

  // What a run at these extents of the symbols and these values of the key's scalars does. Valid
  // as long as this.
  const RunScript& At(std::span<const int64_t> extents, std::span<const int64_t> scalars);

  // Counts what is asked for anew.
  void BeginUse();
  // Whether the trace has a plan of the program.
  bool known() const { return !shapes_.empty(); }
  // Why sizes had to be guessed; empty if none was.
  std::string WhyEstimated() const;
  ScriptUse use() const { return use_; }

  // Outputs that are copied inputs, by output: the input of the spec, or -1. Those that no request
  // asks for and which are no input lie outside of the session.
  const std::vector<int>& inputs_of_outputs() const { return inputs_of_outputs_; }

 private:
  using Sizes = std::vector<int64_t>;  // Extents of symbols, values of expressions, key scalars.

  // Buckets of one script, but for sizes.
  struct Shape {
    std::vector<RunRequestStep> steps;
    std::vector<SizePoint> points;          // Of which `bytes` is not used.
    std::vector<const RunScript*> scripts;  // One per point.
    // Made once they are needed: buffers whose bytes are the same in every bucket share a fit.
    std::vector<std::unique_ptr<SizeFit>> fits{};
    std::vector<size_t> fit_of{};  // Per buffer; of the number of kernels, behind them.
  };

  RunScripts(const ProgramSpec& spec, std::vector<Expression> extents)
      : spec_(spec), expressions_(std::move(extents)) {}

  void FindInputsOfOutputs(const PoolTrace& trace, int program);
  void AddNode(const TracedNode& node,
               const TracedBucket& bucket,
               std::span<const FreedInput> freed);
  std::vector<RunRequestStep> StepsOf(const TracedNode& node,
                                      std::span<const FreedInput> freed) const;
  Sizes SizesOf(std::span<const int64_t> extents, std::span<const int64_t> scalars) const;
  Shape& ShapeFor(const Sizes& sizes);
  void Fit(Shape& shape) const;
  RunScript Compute(const Sizes& sizes);

  const ProgramSpec& spec_;
  const std::vector<Expression> expressions_;
  std::vector<int> inputs_of_outputs_;
  std::vector<Shape> shapes_;
  std::map<Sizes, std::unique_ptr<RunScript>> scripts_;  // Recorded or computed.
  std::set<Sizes> asked_;
  ScriptUse use_;
};

}  // namespace coppice
