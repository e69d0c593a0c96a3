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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/graphs/session.h"
#include "coppice/graphs/staging.h"

#include "tools/bench/allocation_counter.h"
#include "tools/bench/bench.h"
#include "tools/bench/instant_driver.h"
#include "tools/bench/instruction_counter.h"
#include "tools/support/console.h"
#include "tools/support/scratch_folder.h"
#include "tools/support/statistics.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr int kScalars = 4;
constexpr int kOutputs = 4;
constexpr int64_t kRowsMax = 64;
constexpr int64_t kRows = 48;  // Padded to kRowsMax where an input is staged.
constexpr int64_t kBatch = 1000;
constexpr int64_t kCountedCalls = 1000;
// Of a flight recorder: an instant driver copies nothing, so no call that stages goes for another.
constexpr int64_t kRingBytes = 256 * kMiB;

struct DispatchCase {
  const char* name;
  int inputs;
  int staged;    // Of the inputs; the others are static.
  int siblings;  // Graphs of the bucket, each for other addresses of one static input; calls go
                 // round them.
  int rank = 1;  // Of all inputs and outputs: rows of kRowsMax, then axes of 2.
  bool turned = false;    // Inputs have their axes in memory the other way round.
  bool observed = false;  // The rows of calls are counted.
  bool traced = false;    // The session writes a trace, an event for each call.
  bool recorded = false;  // The session has a flight recorder.
};
constexpr std::array<DispatchCase, 8> kCases = {
    {{.name = "all_static", .inputs = 8, .staged = 0, .siblings = 1},
     {.name = "two_staged", .inputs = 8, .staged = 2, .siblings = 1},
     {.name = "siblings_1000", .inputs = 8, .staged = 0, .siblings = 1000},
     {.name = "static_200", .inputs = 200, .staged = 0, .siblings = 1},
     {.name = "two_observed", .inputs = 8, .staged = 2, .siblings = 1, .observed = true},
     {.name = "traced", .inputs = 8, .staged = 0, .siblings = 1, .traced = true},
     {.name = "static_recorded", .inputs = 8, .staged = 0, .siblings = 1, .recorded = true},
     {.name = "staged_recorded", .inputs = 8, .staged = 2, .siblings = 1, .recorded = true}}};

constexpr size_t kTraced = 5;  // Of kCases.

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

// A program of one case in a session on one driver, recorded and ready to replay.
class DispatchJob {
 public:
  static absl::StatusOr<std::unique_ptr<DispatchJob>> Create(const Driver& driver,
                                                             const DispatchCase& dispatch_case);

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
      if (case_.recorded && !copies_.empty() && result == CuResult::kSuccess)
        result = table.MemcpyDtoHAsync(nullptr, memory_.address(), 1, stream_.handle());
      if (result == CuResult::kSuccess)
        result = table.GraphLaunch(/*exec=*/nullptr, stream_.handle());
      if (result != CuResult::kSuccess) return context_.driver().ErrorOf(result, "cuGraphLaunch");
    }
    return absl::OkStatus();
  }

  absl::Status Synchronize() const { return stream_.Synchronize(); }

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
  absl::Status Prepare();
  absl::StatusOr<ProgramSpec> MakeSpec() const;
  Tensor InputTensor(int index, int64_t rows) const;

  const Context context_;
  const Stream stream_;
  const DispatchCase case_;
  const DeviceMemory memory_;  // The bytes of an input for each of them, and for each sibling.
  std::optional<ScratchFolder> trace_;
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
    spec.claim = PaddingContents::kRowIndependent;
  }
  const auto dims = [this](Dim first) {
    Dims of(static_cast<size_t>(case_.rank), Dim::Fixed(2));
    of[0] = first;
    return of;
  };
  for (int i = 0; i < case_.inputs; ++i) {
    const bool staged = i < case_.staged;
    // One that the program writes is never copied instead, however often it moves.
    spec.inputs.push_back({.name = fmt::format("x{}", i),
                           .dims = dims(staged ? rows : Dim::Fixed(kRowsMax)),
                           .role = staged ? InputRole::kCopy : InputRole::kStatic,
                           .mutated = case_.siblings > 1 && i + 1 == case_.inputs});
  }
  for (int i = 0; i < kOutputs; ++i)
    spec.outputs.push_back({.name = fmt::format("y{}", i), .dims = dims(rows)});
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

absl::StatusOr<std::unique_ptr<DispatchJob>> DispatchJob::Create(
    const Driver& driver, const DispatchCase& dispatch_case) {
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(
      DeviceMemory memory,
      DeviceMemory::Create(driver, (dispatch_case.inputs + dispatch_case.siblings) *
                                       ElementsOf(dispatch_case) *
                                       static_cast<int64_t>(sizeof(float))));
  std::unique_ptr<DispatchJob> job(
      new DispatchJob(std::move(context), std::move(stream), dispatch_case, std::move(memory)));
  COPPICE_RETURN_IF_ERROR(job->Prepare());
  return job;
}

absl::Status DispatchJob::Prepare() {
  SessionOptions options{.limits = {.rerecords_per_bucket_max = case_.siblings},
                         .recorder = {.ring_bytes = case_.recorded ? kRingBytes : 0}};
  if (case_.traced) {
    COPPICE_ASSIGN_OR_RETURN(ScratchFolder folder, ScratchFolder::Create());
    trace_.emplace(std::move(folder));
    options.trace = {.path = trace_->path() + "/trace", .events_per_lane = int64_t{1} << 20};
  }
  COPPICE_ASSIGN_OR_RETURN(session_, Session::Create(context_, options));
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

absl::StatusOr<Measured> Measure(const BenchOptions& options,
                                 const Device& device,
                                 const DispatchCase& dispatch_case) {
  Measured measured;
  {
    InstantDriver instant(device.driver());
    COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DispatchJob> job,
                             DispatchJob::Create(instant.driver(), dispatch_case));
    instant.Switch(true);
    COPPICE_RETURN_IF_ERROR(MeasureTime(*job, options.repetitions, measured));
    COPPICE_RETURN_IF_ERROR(MeasureCounts(*job, measured));
    instant.Switch(false);
  }
  // The thread that writes a trace would be counted, too.
  if (!measured.instructions && !options.time_only && !options.program.empty() &&
      !dispatch_case.traced)
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
                                 {"recorded", dispatch_case.recorded},
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

void AddRow(const DispatchCase& dispatch_case, const Measured& measured, TextTable& table) {
  const auto tenths = [](double value) { return fmt::format("{:.1f}", value); };
  table.Add({dispatch_case.name, fmt::format("{}", dispatch_case.staged),
             tenths(Median(measured.overhead_ns)), FormatSpread(measured.overhead_ns, 1),
             tenths(Median(measured.run_ns)), tenths(Median(measured.raw_ns)),
             measured.instructions ? fmt::format("{:.0f}", *measured.instructions) : "unknown",
             fmt::format("{}", measured.heap_allocs),
             fmt::format("{:.2f}", measured.driver_calls)});
}

std::vector<DispatchCase> AllCases() {
  std::vector<DispatchCase> all(kCases.begin(), kCases.end());
  all.insert(all.end(), kWideCases.begin(), kWideCases.end());
  return all;
}

// What valgrind counts. Errors: kInvalidArgument if the probe is malformed.
absl::Status Probe(const std::string& probe, const Device& device) {
  const size_t first = std::min(probe.find(':'), probe.size());
  const size_t second = std::min(probe.find(':', first + 1), probe.size());
  int64_t count = 0;
  if (second < probe.size())
    std::from_chars(probe.data() + second + 1, probe.data() + probe.size(), count);
  const std::string_view kind = std::string_view(probe).substr(0, second).substr(first);
  for (const DispatchCase& dispatch_case : AllCases()) {
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
  return InvalidArgument("'{}' is not a probe; give CASE:run:COUNT or CASE:raw:COUNT", probe);
}

}  // namespace

absl::StatusOr<BenchReport> BenchDispatch(const BenchOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<Device> device,
                           Device::Open({.choice = DeviceChoice::kHost, .seed = 1, .ledger = {}}));
  BenchReport report;
  if (!options.probe.empty()) {
    COPPICE_RETURN_IF_ERROR(Probe(options.probe, *device));
    return report;
  }
  report.json = {{"cases", nlohmann::ordered_json::array()}, {"iterations", options.repetitions}};
  TextTable table("lrrrrrrrr", {"case", "staged", "overhead ns", "p10..p90", "Run ns", "raw ns",
                                "instructions", "heap allocs", "driver calls"});
  const std::vector<DispatchCase> all = AllCases();
  for (size_t i = 0; i < all.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(const Measured measured, Measure(options, *device, all[i]));
    auto& to = i < kCases.size() ? report.json["cases"] : report.json["wide"]["cases"];
    to.push_back(ToJson(all[i], measured));
    AddRow(all[i], measured, table);
    if (console.stopped()) break;
  }
  report.text = table.Format();
  if (console.stopped()) return report;
  const auto overhead = [](const nlohmann::ordered_json& cases, size_t i) {
    return cases[i]["overhead_ns_p50"].get<double>();
  };
  const nlohmann::ordered_json& cases = report.json["cases"];
  const double event_ns = overhead(cases, kTraced) - overhead(cases, 0);
  report.json["trace_event_ns"] = event_ns;
  report.text += fmt::format("each event of a trace: {:.1f} ns\n", event_ns);
  nlohmann::ordered_json& wide = report.json["wide"];
  const double further_ns = (overhead(wide["cases"], 1) - overhead(wide["cases"], 0)) /
                            (kWideCases[1].staged - kWideCases[0].staged);
  wide["further_staged_input_ns"] = further_ns;
  report.text += fmt::format("each further staged input of rank 2: {:.1f} ns\n", further_ns);
  return report;
}

}  // namespace coppice
