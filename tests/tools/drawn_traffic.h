// Sessions of programs that are drawn, with traffic that is drawn: calls of many sizes, paths whose
// calls read each other's outputs, leases that are kept for a while.
//
// Temporaries and outputs have sizes that are linear or quadratic in the sizes of a call. What a
// program computes is of no interest; each buffer is written to.
//
// Threads: one at a time per process, as the emulator.

#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"

#include "tests/support/test_device.h"
#include "tests/support/test_kernels.h"

namespace coppice {

struct DrawnBuffer {
  int64_t fixed = 0;     // Bytes,
  int64_t per_row = 0;   // for each row,
  int64_t per_pair = 0;  // for each two rows, or row and column if the program has columns.
};

struct DrawnStep {
  enum class Kind : uint8_t { kAllocate, kFree, kOutput };
  Kind kind = Kind::kAllocate;
  size_t index = 0;  // Of the buffer or output.
};

struct DrawnProgram {
  std::string name;
  PaddingPolicy rows;
  std::optional<PaddingPolicy> columns;
  bool scalar = false;
  bool weights = false;
  bool one_stream = false;
  std::vector<DrawnBuffer> buffers;
  std::vector<DrawnStep> steps;
  int outputs = 1;
};

struct DrawnCall {
  size_t program = 0;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t scalar = 0;
  bool reads = false;  // The first output of the call before it.
};

// Calls that build on each other, and for how many paths more the last one's lease is kept.
struct DrawnPath {
  std::vector<DrawnCall> calls;
  int kept = 0;
};

struct DrawnTraffic {
  std::vector<DrawnProgram> programs;
  std::vector<DrawnPath> paths;
  int lanes = 1;
  int warmup_runs = 1;
  OnLimit on_budget = OnLimit::kEvict;
};

// Another session of the same traffic.
struct TrafficChange {
  std::map<size_t, PaddingPolicy> policies;  // Of rows, by program.
  int64_t budget_bytes = 0;
  int lanes = 0;
  bool suspend = false;  // Before every call but the first.
  bool copy_outputs = false;
  int64_t copy_out_bytes = 0;
};

inline constexpr int64_t kDrawnWidth = 16;  // Elements of a row of inputs and outputs.

inline DrawnProgram DrawProgram(std::mt19937_64& random, size_t index) {
  const auto draw = [&random](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  const char* const ladders[] = {"pow2", "linear:48", "ramp:16:64", "geometric:1.4:16"};
  DrawnProgram program{.name = fmt::format("p{}", index),
                       .rows = *PaddingPolicy::Parse(ladders[draw(0, 3)], draw(300, 512))};
  if (draw(0, 3) == 0) program.columns = *PaddingPolicy::Parse("8,24,64", 64);
  program.scalar = draw(0, 3) == 0;
  // Of calls beyond all buckets a trace does not say the scalars.
  if (program.scalar) program.rows = *PaddingPolicy::Parse("ramp:16:64", 600);
  program.weights = draw(0, 1) == 0;
  program.one_stream = draw(0, 1) == 0;
  program.outputs = static_cast<int>(draw(1, 2));
  const int64_t count = draw(2, 7);
  // Of rows of any bytes it is not always known what they are rounded to.
  const int64_t unit = draw(0, 9) == 0 ? 4 : 256;
  for (int64_t i = 0; i < count; ++i) {
    DrawnBuffer buffer{.fixed = draw(0, 3) == 0 ? draw(1, 600'000) : 0};
    if (buffer.fixed == 0 || draw(0, 3) == 0) buffer.per_row = unit * draw(1, 12'288 / unit);
    if (buffer.fixed == 0 && program.columns && draw(0, 2) == 0)
      buffer = {.per_pair = unit * draw(1, 512 / unit)};
    program.buffers.push_back(buffer);
  }
  std::vector<size_t> live;
  int outputs = 0;
  for (size_t next = 0; next < program.buffers.size() || outputs < program.outputs;) {
    const int64_t what = draw(0, 3);
    if (what == 0 && !live.empty()) {
      const auto which = live.begin() + draw(0, std::ssize(live) - 1);
      program.steps.push_back({DrawnStep::Kind::kFree, *which});
      live.erase(which);
    } else if (what == 1 && outputs < program.outputs) {
      program.steps.push_back({DrawnStep::Kind::kOutput, static_cast<size_t>(outputs++)});
    } else if (next < program.buffers.size()) {
      program.steps.push_back({DrawnStep::Kind::kAllocate, next});
      live.push_back(next++);
    }
  }
  return program;
}

inline DrawnTraffic DrawTraffic(uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto draw = [&random](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  DrawnTraffic traffic;
  traffic.programs.push_back(DrawProgram(random, 0));
  traffic.programs.push_back(DrawProgram(random, 1));
  traffic.lanes = static_cast<int>(draw(1, 2));
  traffic.warmup_runs = static_cast<int>(draw(1, 2));
  traffic.on_budget = draw(0, 1) == 0 ? OnLimit::kEvict : OnLimit::kEager;
  for (int path = 0; path < 90; ++path) {
    DrawnPath& drawn = traffic.paths.emplace_back();
    const int64_t length = draw(0, 3) == 0 ? draw(2, 6) : 1;
    // Some are over the largest bucket.
    const int64_t rows = draw(0, 19) == 0 ? draw(513, 600) : draw(1, 512);
    const int64_t columns = draw(1, 64);
    const int64_t scalar = draw(0, 1);
    for (int64_t i = 0; i < length; ++i)
      drawn.calls.push_back({.program = static_cast<size_t>(draw(0, 1)),
                             .rows = rows,
                             .columns = columns,
                             .scalar = scalar,
                             .reads = i > 0});
    drawn.kept = draw(0, 5) == 0 ? static_cast<int>(draw(1, 4)) : 0;
  }
  return traffic;
}

// A session of the traffic, on an emulator.
class TrafficRun {
 public:
  TrafficRun(const DrawnTraffic& traffic, const TrafficChange& change)
      : traffic_(traffic), change_(change) {}

  absl::Status Run(const std::string& trace) {
    SessionOptions options;
    options.lanes = lanes();
    options.warmup_runs = traffic_.warmup_runs;
    options.memory.budget_bytes = change_.budget_bytes;
    options.memory.on_budget = traffic_.on_budget;
    options.memory.copy_out_bytes = change_.copy_out_bytes;
    options.trace = {.path = trace, .wait_when_full = true};
    options.now_ns = [this] { return now_ns_; };
    COPPICE_ASSIGN_OR_RETURN(session_, Session::Create(device_.context(), options));
    COPPICE_ASSIGN_OR_RETURN(KernelLibrary library,
                             KernelLibrary::Load(device_.driver(), test_kernels_image));
    library_.emplace(std::move(library));
    COPPICE_ASSIGN_OR_RETURN(fill_, library_->Get("Fill"));
    COPPICE_ASSIGN_OR_RETURN(
        DeviceMemory memory,
        device_.Upload(std::vector<float>(static_cast<size_t>(600 * kDrawnWidth))));
    input_.emplace(std::move(memory));
    for (size_t i = 0; i < traffic_.programs.size(); ++i)
      COPPICE_RETURN_IF_ERROR(Register(i));
    for (size_t i = 0; i < traffic_.paths.size(); ++i)
      COPPICE_RETURN_IF_ERROR(RunPath(i));
    kept_.clear();
    session_.reset();
    return absl::OkStatus();
  }

 private:
  struct Registered {
    const Program* program = nullptr;
    const Binding* binding = nullptr;
  };
  struct Kept {
    Lease lease;
    size_t until = 0;  // Path.
  };

  int lanes() const { return change_.lanes > 0 ? change_.lanes : traffic_.lanes; }

  absl::Status Register(size_t index) {
    const DrawnProgram& drawn = traffic_.programs[index];
    const auto changed = change_.policies.find(index);
    ProgramSpec spec{.name = drawn.name, .claim = PaddingContents::kRowIndependent};
    spec.one_stream = drawn.one_stream;
    const Dim rows = Dim::Symbol(
        spec.AddSymbol("rows", changed == change_.policies.end() ? drawn.rows : changed->second));
    if (drawn.columns) {
      spec.AddSymbol("columns", *drawn.columns);
      spec.symbols.back().given = true;
    }
    spec.inputs = {
        {.name = "x", .dims = {rows, Dim::Fixed(kDrawnWidth)}, .fill = Fill::Undefined()}};
    if (drawn.weights)
      spec.inputs.push_back(
          {.name = "w", .dims = {Dim::Fixed(kDrawnWidth)}, .role = InputRole::kStatic});
    for (int i = 0; i < drawn.outputs; ++i)
      spec.outputs.push_back(
          {.name = fmt::format("y{}", i), .dims = {rows, Dim::Fixed(kDrawnWidth * (i + 1))}});
    if (drawn.scalar) spec.scalars = {{.name = "factor"}};
    Registered& to = programs_.emplace_back();
    COPPICE_ASSIGN_OR_RETURN(to.program,
                             session_->Register(spec, [this, &drawn](CallContext& context) {
                               return RunSteps(drawn, context);
                             }));
    if (!drawn.weights) return absl::OkStatus();
    const int64_t dims[] = {kDrawnWidth};
    const Tensor weights[] = {Tensor::Dense(input_->address(), DType::kFloat32, dims)};
    COPPICE_ASSIGN_OR_RETURN(to.binding, session_->Bind(*to.program, weights));
    return absl::OkStatus();
  }

  absl::Status Write(CallContext& context, DeviceAddress address, int64_t bytes) {
    return Launch(context.driver(), fill_, context.stream(),
                  FillParams{.target = PointerAt<float>(address),
                             .count = std::min<int64_t>(bytes / 4, kTestThreads),
                             .value = 1},
                  1);
  }

  absl::Status RunSteps(const DrawnProgram& drawn, CallContext& context) {
    const int64_t rows = context.extent(0);
    const int64_t columns = drawn.columns ? context.extent(1) : rows;
    // Sizes follow from the key, and a scalar is part of it.
    const int64_t factor = drawn.scalar ? context.scalar(0) + 1 : 1;
    std::vector<DeviceAddress> addresses(drawn.buffers.size());
    for (const DrawnStep& step : drawn.steps) {
      const size_t index = step.index;
      if (step.kind == DrawnStep::Kind::kFree) {
        COPPICE_RETURN_IF_ERROR(context.Free(addresses[index]));
        continue;
      }
      if (step.kind == DrawnStep::Kind::kOutput) {
        COPPICE_ASSIGN_OR_RETURN(const Tensor output,
                                 context.AllocateOutput(static_cast<int>(index)));
        COPPICE_RETURN_IF_ERROR(Write(context, output.data, 4));
        continue;
      }
      const DrawnBuffer& buffer = drawn.buffers[index];
      const int64_t bytes =
          buffer.fixed + buffer.per_row * rows * factor + buffer.per_pair * rows * columns;
      COPPICE_ASSIGN_OR_RETURN(addresses[index], context.Allocate(bytes));
      COPPICE_RETURN_IF_ERROR(Write(context, addresses[index], bytes));
    }
    if (context.phase() == Phase::kRecord) now_ns_ += 1'000'000;
    return absl::OkStatus();
  }

  absl::Status RunPath(size_t path) {
    const DrawnPath& drawn = traffic_.paths[path];
    std::erase_if(kept_, [path](const Kept& kept) { return kept.until <= path; });
    const int lane = static_cast<int>(path) % lanes();
    Lease last;
    for (const DrawnCall& call : drawn.calls) {
      absl::StatusOr<Lease> lease = MakeCall(call, lane, last);
      // Under a budget not every call has room, and a copy none for more than its ring.
      if (!lease.ok() && lease.status().code() != absl::StatusCode::kResourceExhausted)
        return lease.status();
      if (!lease.ok()) return absl::OkStatus();
      last = *std::move(lease);
    }
    if (drawn.kept > 0)
      kept_.push_back({std::move(last), path + static_cast<size_t>(drawn.kept) + 1});
    return absl::OkStatus();
  }

  absl::StatusOr<Lease> MakeCall(const DrawnCall& drawn, int lane, const Lease& last) {
    if (change_.suspend && std::exchange(begun_, true)) {
      COPPICE_RETURN_IF_ERROR(session_->memory().Suspend({}));
      COPPICE_RETURN_IF_ERROR(session_->memory().Resume());
    }
    const DrawnProgram& program = traffic_.programs[drawn.program];
    const int64_t dims[] = {drawn.rows, kDrawnWidth};
    Tensor x = Tensor::Dense(input_->address(), DType::kFloat32, dims);
    if (drawn.reads) {
      COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, last.Read(device_.stream()));
      x = scope.output(0);
    }
    const Registered& registered = programs_[drawn.program];
    Call call{.program = registered.program,
              .binding = registered.binding,
              .inputs = {&x, 1},
              .scalars = {&drawn.scalar, program.scalar ? 1U : 0U},
              .extents = {&drawn.columns, program.columns ? 1U : 0U},
              .stream = device_.stream(),
              .lane = lane};
    if (change_.copy_outputs) call.output_mode = OutputMode::kCopyOut;
    absl::StatusOr<Lease> lease = session_->Run(call);
    COPPICE_RETURN_IF_ERROR(device_.Synchronize());
    return lease;
  }

  const DrawnTraffic& traffic_;
  const TrafficChange& change_;
  TestDevice device_;
  std::optional<KernelLibrary> library_;
  Kernel fill_;
  std::optional<DeviceMemory> input_;
  int64_t now_ns_ = 0;
  bool begun_ = false;
  std::unique_ptr<Session> session_;
  std::vector<Registered> programs_;
  std::vector<Kept> kept_;
};

inline absl::Status RunTraffic(const DrawnTraffic& traffic,
                               const TrafficChange& change,
                               const std::string& trace) {
  TrafficRun run(traffic, change);
  return run.Run(trace);
}

}  // namespace coppice
