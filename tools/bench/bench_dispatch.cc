// Times Run against raw table calls in interleaved batches; counts instructions, allocations and
// driver calls in passes of their own, so that counting does not disturb the clock.

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/graphs/guards.h"
#include "coppice/graphs/session.h"
#include "coppice/graphs/staging.h"

#include "tools/bench/allocation_counter.h"
#include "tools/bench/bench.h"
#include "tools/bench/callgrind.h"
#include "tools/bench/instant_driver.h"
#include "tools/bench/instruction_counter.h"
#include "tools/support/console.h"
#include "tools/support/statistics.h"

namespace coppice {
namespace {

constexpr int kScalars = 4;
constexpr int kOutputs = 4;
constexpr int64_t kRowsMax = 64;
constexpr int64_t kRows = 48;  // Padded to kRowsMax where an input is staged.
constexpr int64_t kBatch = 1000;
constexpr int64_t kCountedCalls = 1000;

struct DispatchCase {
  const char* name;
  int inputs;
  int staged;    // Of the inputs; the others are static.
  int siblings;  // Graphs of the bucket, each for other addresses of one static input; calls go
                 // round them.
  int rank = 1;  // Of all inputs and outputs: rows of kRowsMax, then axes of 2.
  bool turned = false;    // Inputs have their axes in memory the other way round.
  bool observed = false;  // The rows of calls are counted.
};
constexpr std::array<DispatchCase, 5> kCases = {
    {{.name = "all_static", .inputs = 8, .staged = 0, .siblings = 1},
     {.name = "two_staged", .inputs = 8, .staged = 2, .siblings = 1},
     {.name = "siblings_1000", .inputs = 8, .staged = 0, .siblings = 1000},
     {.name = "static_200", .inputs = 200, .staged = 0, .siblings = 1},
     {.name = "two_observed", .inputs = 8, .staged = 2, .siblings = 1, .observed = true}}};

// Signatures of real programs. What a further staged input costs is the first two's difference.
constexpr std::array<DispatchCase, 3> kWideCases = {
    {{.name = "staged_1", .inputs = 1, .staged = 1, .siblings = 1, .rank = 2},
     {.name = "staged_200", .inputs = 200, .staged = 200, .siblings = 1, .rank = 2},
     {.name = "rank8_strided",
      .inputs = 8,
      .staged = 8,
      .siblings = 1,
      .rank = kRankMax,
      .turned = true}}};

// What a front end typically asks of a call's shape.
constexpr std::array<const char*, 6> kGuards = {"rows >= 1",          "rows <= 512",
                                                "cols % 8 == 0",      "rows * cols <= 1048576",
                                                "cols == heads * 64", "rows < cols or heads > 1"};
const std::array<std::string, 3> guard_names = {"rows", "cols", "heads"};
constexpr std::array<int64_t, 3> kGuardValues = {48, 512, 8};

// A program of one case in a session on one driver, recorded and ready to replay.
class DispatchJob {
 public:
  static absl::StatusOr<std::unique_ptr<DispatchJob>> Create(const Driver& driver,
                                                             const DispatchCase& dispatch_case,
                                                             TraceOptions trace = {});

  absl::Status Run(int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      call_.binding = bindings_[sibling_];
      if (++sibling_ == bindings_.size()) sibling_ = 0;
      COPPICE_RETURN_IF_ERROR(session_->Run(call_).status());
    }
    return absl::OkStatus();
  }

  // The driver calls of Run and nothing else. Requires: an instant driver, because the handles are
  // null.
  absl::Status RunRaw(int64_t count) {
    const DriverTable& table = context_.driver().table();
    void* parameters[] = {const_cast<int64_t*>(staging_.words())};
    for (int64_t i = 0; i < count; ++i) {
      CuResult result = CuResult::kSuccess;
      if (!copies_.empty()) {
        result = table.LaunchKernel(/*function=*/nullptr, 1, 1, 1, 256, 1, 1, 0, stream_.handle(),
                                    static_cast<void**>(parameters), nullptr);
      }
      if (result == CuResult::kSuccess)
        result = table.GraphLaunch(/*exec=*/nullptr, stream_.handle());
      if (result != CuResult::kSuccess) return context_.driver().ErrorOf(result, "cuGraphLaunch");
    }
    return absl::OkStatus();
  }

  absl::Status Synchronize() const { return stream_.Synchronize(); }
  absl::Status FlushTrace() const { return session_->FlushTrace(); }

 private:
  DispatchJob(Context context,
              Stream stream,
              const DispatchCase& dispatch_case,
              DeviceMemory memory)
      : context_(std::move(context)),
        stream_(std::move(stream)),
        case_(dispatch_case),
        memory_(std::move(memory)) {}

  static int64_t ElementsOf(const DispatchCase& dispatch_case) {
    return kRowsMax << (dispatch_case.rank - 1);
  }
  absl::Status Prepare(TraceOptions trace);
  absl::StatusOr<ProgramSpec> MakeSpec() const;
  Tensor InputTensor(int index, int64_t rows) const;

  const Context context_;
  const Stream stream_;
  const DispatchCase case_;
  const DeviceMemory memory_;  // The bytes of an input for each of them, and for each sibling.
  std::unique_ptr<Session> session_;
  std::vector<const Binding*> bindings_;
  size_t sibling_ = 0;
  std::vector<Tensor> copies_;
  std::array<int64_t, kScalars> scalars_ = {1, 2, 3, 4};
  const StagingArguments staging_;
  Call call_;
};

absl::StatusOr<ProgramSpec> DispatchJob::MakeSpec() const {
  ProgramSpec spec;
  spec.name = case_.name;
  Dim rows = Dim::Fixed(kRowsMax);
  if (case_.staged > 0) {
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy, PaddingPolicy::Pow2(kRowsMax));
    rows = Dim::Symbol(spec.AddSymbol("rows", policy));
    if (case_.observed) spec.symbols[0].observe_half_life = 4000;
    spec.claim = Claim::kRowIndependent;
  }
  const auto dims = [this](Dim first) {
    Dims of(static_cast<size_t>(case_.rank), Dim::Fixed(2));
    of[0] = first;
    return of;
  };
  for (int i = 0; i < case_.inputs; ++i) {
    const bool staged = i < case_.staged;
    InputSpec input;
    input.name = fmt::format("x{}", i);
    input.dims = dims(staged ? rows : Dim::Fixed(kRowsMax));
    input.role = staged ? InputRole::kCopy : InputRole::kStatic;
    // One that the program writes is never copied instead, however often it moves.
    input.mutated = case_.siblings > 1 && i + 1 == case_.inputs;
    spec.inputs.push_back(input);
  }
  for (int i = 0; i < kOutputs; ++i) {
    OutputSpec output;
    output.name = fmt::format("y{}", i);
    output.dims = dims(rows);
    spec.outputs.push_back(output);
  }
  for (int i = 0; i < kScalars; ++i)
    spec.scalars.push_back({.name = fmt::format("s{}", i), .device_resident = false});
  return spec;
}

// Clears the outputs: the least that a program can do.
absl::Status ClearOutputs(CallContext& context) {
  for (int i = 0; i < kOutputs; ++i) {
    COPPICE_ASSIGN_OR_RETURN(const Tensor output, context.AllocateOutput(i));
    COPPICE_RETURN_IF_ERROR(context.driver().Call<&DriverTable::MemsetD32Async>(
        output.data, 0U, static_cast<size_t>(output.element_count()), context.stream()));
  }
  return absl::OkStatus();
}

Tensor DispatchJob::InputTensor(int index, int64_t rows) const {
  std::vector<int64_t> dims(static_cast<size_t>(case_.rank), 2);
  dims[0] = rows;
  const auto offset = static_cast<DeviceAddress>(index * ElementsOf(case_)) * sizeof(float);
  Tensor tensor = Tensor::Dense(memory_.address() + offset, DType::kFloat32, dims);
  for (int64_t axis = 0, stride = 1; case_.turned && axis < tensor.rank; ++axis) {
    tensor.strides[static_cast<size_t>(axis)] = stride;
    stride *= tensor.sizes[static_cast<size_t>(axis)];
  }
  return tensor;
}

absl::StatusOr<std::unique_ptr<DispatchJob>> DispatchJob::Create(const Driver& driver,
                                                                 const DispatchCase& dispatch_case,
                                                                 TraceOptions trace) {
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(
      DeviceMemory memory,
      DeviceMemory::Create(driver, (dispatch_case.inputs + dispatch_case.siblings) *
                                       ElementsOf(dispatch_case) *
                                       static_cast<int64_t>(sizeof(float))));
  std::unique_ptr<DispatchJob> job(
      new DispatchJob(std::move(context), std::move(stream), dispatch_case, std::move(memory)));
  COPPICE_RETURN_IF_ERROR(job->Prepare(std::move(trace)));
  return job;
}

absl::Status DispatchJob::Prepare(TraceOptions trace) {
  COPPICE_ASSIGN_OR_RETURN(
      session_, Session::Create(context_, {.limits = {.rerecords_per_bucket_max = case_.siblings},
                                           .trace = std::move(trace)}));
  COPPICE_ASSIGN_OR_RETURN(ProgramSpec spec, MakeSpec());
  COPPICE_ASSIGN_OR_RETURN(call_.program, session_->Register(std::move(spec), ClearOutputs));
  std::vector<Tensor> statics;
  for (int i = 0; i < case_.inputs; ++i) {
    if (i < case_.staged) {
      copies_.push_back(InputTensor(i, kRows));
    } else {
      statics.push_back(InputTensor(i, kRowsMax));
    }
  }
  for (int sibling = 0; sibling < case_.siblings && !statics.empty(); ++sibling) {
    statics.back() = InputTensor(case_.inputs - 1 + sibling, kRowsMax);
    COPPICE_ASSIGN_OR_RETURN(const Binding* binding, session_->Bind(*call_.program, statics));
    bindings_.push_back(binding);
  }
  if (bindings_.empty()) bindings_.push_back(nullptr);
  call_.inputs = copies_;
  call_.scalars = scalars_;
  call_.stream = stream_.handle();
  COPPICE_RETURN_IF_ERROR(Run(1));  // Warm-up.
  sibling_ = 0;
  COPPICE_RETURN_IF_ERROR(Run(case_.siblings));  // Recordings.
  return Synchronize();
}

struct Measured {
  std::vector<double> overhead_ns;  // Per call, one value per batch.
  std::vector<double> run_ns;
  std::vector<double> raw_ns;
  std::optional<double> instructions;  // Run minus raw, per call.
  int64_t heap_allocs = 0;             // In kCountedCalls calls.
  double driver_calls = 0;             // Per call.
};

// Runs `work` and returns its host time per call.
template <typename Work>
absl::StatusOr<double> Time(int64_t count, Work work) {
  const auto start = std::chrono::steady_clock::now();
  COPPICE_RETURN_IF_ERROR(work(count));
  const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
  return taken.count() / static_cast<double>(count);
}

absl::Status MeasureTime(DispatchJob& job, int64_t iterations, Measured& measured) {
  for (int64_t left = iterations; left > 0; left -= kBatch) {
    const int64_t count = std::min(left, kBatch);
    COPPICE_ASSIGN_OR_RETURN(const double run,
                             Time(count, [&](int64_t calls) { return job.Run(calls); }));
    COPPICE_ASSIGN_OR_RETURN(const double raw,
                             Time(count, [&](int64_t calls) { return job.RunRaw(calls); }));
    measured.run_ns.push_back(run);
    measured.raw_ns.push_back(raw);
    measured.overhead_ns.push_back(run - raw);
  }
  return absl::OkStatus();
}

absl::Status MeasureCounts(DispatchJob& job, Measured& measured) {
  const int64_t allocations = AllocationCount();
  COPPICE_RETURN_IF_ERROR(job.Run(kCountedCalls));
  measured.heap_allocs = AllocationCount() - allocations;

  const std::optional<InstructionCounter> counter = InstructionCounter::Open();
  if (!counter) return absl::OkStatus();
  const int64_t start = counter->Read();
  COPPICE_RETURN_IF_ERROR(job.Run(kCountedCalls));
  const int64_t middle = counter->Read();
  COPPICE_RETURN_IF_ERROR(job.RunRaw(kCountedCalls));
  const int64_t run = middle - start;
  const int64_t raw = counter->Read() - middle;
  measured.instructions = static_cast<double>(run - raw) / kCountedCalls;
  return absl::OkStatus();
}

// Two counts of each kind, so that everything but the calls cancels out.
std::optional<double> InstructionsByValgrind(const std::string& program, const char* name) {
  constexpr int64_t kFew = 1000;
  constexpr int64_t kMany = 3000;
  const auto count_of = [&](const char* kind, int64_t calls) {
    return CountUnderCallgrind(
        fmt::format("'{}' bench dispatch --probe {}:{}:{}", program, name, kind, calls));
  };
  std::array<double, 2> per_call{};
  const std::array<const char*, 2> kinds = {"run", "raw"};
  for (size_t i = 0; i < kinds.size(); ++i) {
    const std::optional<int64_t> few = count_of(kinds[i], kFew);
    if (!few) return std::nullopt;
    const std::optional<int64_t> many = count_of(kinds[i], kMany);
    if (!many) return std::nullopt;
    per_call[i] = static_cast<double>(*many - *few) / static_cast<double>(kMany - kFew);
  }
  return per_call[0] - per_call[1];
}

absl::StatusOr<Measured> Measure(const BenchDispatchOptions& options,
                                 const Device& device,
                                 const DispatchCase& dispatch_case) {
  Measured measured;
  {
    InstantDriver instant(device.driver());
    COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DispatchJob> job,
                             DispatchJob::Create(instant.driver(), dispatch_case));
    instant.Switch(true);
    COPPICE_RETURN_IF_ERROR(MeasureTime(*job, options.iterations, measured));
    COPPICE_RETURN_IF_ERROR(MeasureCounts(*job, measured));
    instant.Switch(false);
  }
  if (!measured.instructions && !options.program.empty())
    measured.instructions = InstructionsByValgrind(options.program, dispatch_case.name);

  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DispatchJob> job,
                           DispatchJob::Create(device.driver(), dispatch_case));
  const int64_t calls = device.ledger().calls();
  COPPICE_RETURN_IF_ERROR(job->Run(kCountedCalls));
  measured.driver_calls = static_cast<double>(device.ledger().calls() - calls) / kCountedCalls;
  COPPICE_RETURN_IF_ERROR(job->Synchronize());
  return measured;
}

nlohmann::ordered_json ToJson(const DispatchCase& dispatch_case, const Measured& measured) {
  nlohmann::ordered_json json = {{"name", dispatch_case.name},
                                 {"inputs", dispatch_case.inputs},
                                 {"staged", dispatch_case.staged},
                                 {"rank", dispatch_case.rank},
                                 {"siblings", dispatch_case.siblings},
                                 {"scalars", kScalars},
                                 {"outputs", kOutputs},
                                 {"overhead_ns_p50", Quantile(measured.overhead_ns, 0.5)},
                                 {"instructions", nullptr},
                                 {"heap_allocs", measured.heap_allocs},
                                 {"driver_calls", measured.driver_calls},
                                 {"overhead_ns_p10", Quantile(measured.overhead_ns, 0.1)},
                                 {"overhead_ns_p90", Quantile(measured.overhead_ns, 0.9)},
                                 {"run_ns_p50", Quantile(measured.run_ns, 0.5)},
                                 {"raw_ns_p50", Quantile(measured.raw_ns, 0.5)}};
  if (measured.instructions) json["instructions"] = *measured.instructions;
  return json;
}

// What checking guards costs a call, on its own.
struct MeasuredGuards {
  int operations = 0;
  std::vector<double> ns;  // Per call, one value per batch.
};

absl::StatusOr<MeasuredGuards> MeasureGuards(int64_t iterations) {
  std::vector<GuardSpec> specs;
  for (const char* text : kGuards)
    specs.push_back({.text = text});
  COPPICE_ASSIGN_OR_RETURN(const GuardProgram guards, GuardProgram::Compile(specs, guard_names));
  MeasuredGuards measured{.operations = guards.op_count()};
  std::array<int64_t, 3> values = kGuardValues;
  for (int64_t left = iterations; left > 0; left -= kBatch) {
    const auto check = [&](int64_t calls) -> absl::Status {
      for (int64_t i = 0; i < calls; ++i) {
        values[0] = 1 + (i & 63);  // So that no compiler takes the loop for one check.
        COPPICE_CHECK(!guards.FirstFailing(values), "the guards of the bench hold");
      }
      return absl::OkStatus();
    };
    COPPICE_ASSIGN_OR_RETURN(const double ns, Time(std::min(left, kBatch), check));
    measured.ns.push_back(ns);
  }
  return measured;
}

// What an event of a trace costs, on its own.
struct MeasuredTrace {
  std::vector<double> on_ns;   // Per event, one value per batch.
  std::vector<double> off_ns;  // Per event point of a session without a trace.
};

// Without a trace, an event point loads a pointer and tests it. Times that, less the loop.
double TimeEventPoints(int64_t count) {
  static const void* volatile tracer = nullptr;
  int64_t events = 0;
  volatile int64_t turn = 0;
  const auto loop = [&](bool points) {
    const auto start = std::chrono::steady_clock::now();
    for (int64_t i = 0; i < count; ++i) {
      turn = i;
      if (points && tracer != nullptr) [[unlikely]]
        ++events;
    }
    const std::chrono::duration<double, std::nano> taken = std::chrono::steady_clock::now() - start;
    return taken.count() / static_cast<double>(count);
  };
  const double with_points = loop(true);
  COPPICE_CHECK(events == 0, "there is no tracer");
  return with_points - loop(false);
}

// A traced session against one that is not, call by call the same: a call is one event. The file
// takes the events between the batches, so that their cost is the call's own.
absl::StatusOr<MeasuredTrace> MeasureTrace(const Device& device, int64_t iterations) {
  MeasuredTrace measured;
  InstantDriver instant(device.driver());
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DispatchJob> off,
                           DispatchJob::Create(instant.driver(), kCases[0]));
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DispatchJob> on,
                           DispatchJob::Create(instant.driver(), kCases[0], {.path = "/dev/null"}));
  instant.Switch(true);
  for (int64_t left = iterations; left > 0; left -= kBatch) {
    const int64_t count = std::min(left, kBatch);
    COPPICE_ASSIGN_OR_RETURN(const double plain,
                             Time(count, [&](int64_t calls) { return off->Run(calls); }));
    COPPICE_ASSIGN_OR_RETURN(const double traced,
                             Time(count, [&](int64_t calls) { return on->Run(calls); }));
    COPPICE_RETURN_IF_ERROR(on->FlushTrace());
    measured.on_ns.push_back(traced - plain);
    measured.off_ns.push_back(TimeEventPoints(count));
  }
  instant.Switch(false);
  return measured;
}

void PrintRow(const DispatchCase& dispatch_case, const Measured& measured, std::FILE* out) {
  Print(out, "{:<14}{:>7}{:>13.1f}{:>15}{:>11.1f}{:>11.1f}{:>14}{:>13}{:>14.2f}\n",
        dispatch_case.name, dispatch_case.staged, Quantile(measured.overhead_ns, 0.5),
        fmt::format("{:.1f}..{:.1f}", Quantile(measured.overhead_ns, 0.1),
                    Quantile(measured.overhead_ns, 0.9)),
        Quantile(measured.run_ns, 0.5), Quantile(measured.raw_ns, 0.5),
        measured.instructions ? fmt::format("{:.0f}", *measured.instructions) : "unknown",
        measured.heap_allocs, measured.driver_calls);
}

// What valgrind counts. Errors: kInvalidArgument if the probe is malformed.
absl::Status Probe(const std::string& probe, const Device& device) {
  const size_t first = std::min(probe.find(':'), probe.size());
  const size_t second = std::min(probe.find(':', first + 1), probe.size());
  int64_t count = 0;
  if (second < probe.size())
    std::from_chars(probe.data() + second + 1, probe.data() + probe.size(), count);
  const std::string_view kind = std::string_view(probe).substr(0, second).substr(first);
  std::vector<DispatchCase> all(kCases.begin(), kCases.end());
  all.insert(all.end(), kWideCases.begin(), kWideCases.end());
  for (const DispatchCase& dispatch_case : all) {
    const bool named = probe.compare(0, first, dispatch_case.name) == 0;
    if (!named || count < 1 || (kind != ":run" && kind != ":raw")) continue;
    InstantDriver instant(device.driver());
    COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DispatchJob> job,
                             DispatchJob::Create(instant.driver(), dispatch_case));
    instant.Switch(true);
    absl::Status status = kind == ":run" ? job->Run(count) : job->RunRaw(count);
    instant.Switch(false);
    return status;
  }
  return InvalidArgument("'{}' is no probe; give CASE:run:COUNT or CASE:raw:COUNT", probe);
}

}  // namespace

ExitCode BenchDispatch(const BenchDispatchOptions& options, const Console& console) {
  const auto fail = [&](const absl::Status& status, ExitCode code) {
    Print(console.err, "coppice bench dispatch: {}\n", MessageOf(status));
    return code;
  };
  const absl::StatusOr<std::unique_ptr<Device>> device =
      Device::Open({.choice = DeviceChoice::kHost, .seed = 1, .ledger = {}});
  if (!device.ok()) return fail(device.status(), kExitDevice);
  if (!options.probe.empty()) {
    const absl::Status status = Probe(options.probe, **device);
    return status.ok() ? kExitOk : fail(status, kExitUsage);
  }
  if (!options.json) {
    Print(console.out, "{:<14}{:>7}{:>13}{:>15}{:>11}{:>11}{:>14}{:>13}{:>14}\n", "case", "staged",
          "overhead ns", "p10..p90", "Run ns", "raw ns", "instructions", "heap allocs",
          "driver calls");
  }
  nlohmann::ordered_json cases = nlohmann::ordered_json::array();
  nlohmann::ordered_json wide = nlohmann::ordered_json::array();
  std::vector<double> wide_ns;
  const auto measure = [&](const DispatchCase& dispatch_case,
                           nlohmann::ordered_json& to) -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Measured measured, Measure(options, **device, dispatch_case));
    to.push_back(ToJson(dispatch_case, measured));
    wide_ns.push_back(Quantile(measured.overhead_ns, 0.5));
    if (!options.json) PrintRow(dispatch_case, measured, console.out);
    return absl::OkStatus();
  };
  std::vector<std::pair<DispatchCase, nlohmann::ordered_json*>> all;
  for (const DispatchCase& dispatch_case : kCases)
    all.emplace_back(dispatch_case, &cases);
  for (const DispatchCase& dispatch_case : kWideCases)
    all.emplace_back(dispatch_case, &wide);
  for (const auto& [dispatch_case, to] : all) {
    if (to == &wide && wide.empty()) wide_ns.clear();
    const absl::Status status = measure(dispatch_case, *to);
    if (!status.ok()) return fail(status, kExitDevice);
    if (!console.stopped()) continue;
    const nlohmann::ordered_json json = {
        {"cases", cases}, {"iterations", options.iterations}, {"stopped", true}};
    if (options.json) Print(console.out, "{}\n", json.dump(2));
    return kExitStopped;
  }
  const double further_ns =
      (wide_ns[1] - wide_ns[0]) / (kWideCases[1].staged - kWideCases[0].staged);
  const absl::StatusOr<MeasuredGuards> guards = MeasureGuards(options.iterations);
  if (!guards.ok()) return fail(guards.status(), kExitDevice);
  const double guard_ns = Quantile(guards->ns, 0.5);
  const absl::StatusOr<MeasuredTrace> trace = MeasureTrace(**device, options.iterations);
  if (!trace.ok()) return fail(trace.status(), kExitDevice);
  const double on_ns = Quantile(trace->on_ns, 0.5);
  const double off_ns = Quantile(trace->off_ns, 0.5);
  if (options.json) {
    const nlohmann::ordered_json json = {
        {"cases", cases},
        {"wide", {{"cases", wide}, {"further_staged_input_ns", further_ns}}},
        {"guards",
         {{"count", kGuards.size()}, {"operations", guards->operations}, {"ns_p50", guard_ns}}},
        {"trace", {{"event_ns_p50", on_ns}, {"event_off_ns_p50", off_ns}}},
        {"iterations", options.iterations}};
    Print(console.out, "{}\n", json.dump(2));
  } else {
    Print(console.out, "a further staged input of rank 2: {:.1f} ns\n", further_ns);
    Print(console.out, "{} guards of {} operations, checked before such a call: {:.1f} ns\n",
          kGuards.size(), guards->operations, guard_ns);
    Print(console.out, "an event of a trace: {:.1f} ns; without a trace {:.1f} ns\n", on_ns,
          off_ns);
  }
  return kExitOk;
}

}  // namespace coppice
