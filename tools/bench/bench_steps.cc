// Three sessions run the same step: one reads its input where it lies, one stages it, one has no
// graphs. Two more ways make the launches of the first two again, from a tape.

#include <algorithm>
#include <array>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/kernel_library.h"

#include "tools/bench/bench.h"
#include "tools/bench/increment_chain.h"
#include "tools/bench/launch_tape.h"
#include "tools/bench/sampler.h"
#include "tools/support/console.h"
#include "tools/support/statistics.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

constexpr int64_t kElements = 4096;
constexpr int64_t kStagedElements = 3000;  // Padded to kElements.

enum class StepKind : uint8_t { kStatic, kStaged, kEager };

struct StepWay {
  const char* name;
  StepKind kind;
  bool taped;  // The launches of the session's call, without the session.
};
constexpr std::array<StepWay, 5> kWays = {
    {{.name = "launch", .kind = StepKind::kStatic, .taped = true},
     {.name = "run", .kind = StepKind::kStatic, .taped = false},
     {.name = "run_staged", .kind = StepKind::kStaged, .taped = false},
     {.name = "run_staged_calls", .kind = StepKind::kStaged, .taped = true},
     {.name = "eager", .kind = StepKind::kEager, .taped = false}}};
// What a session adds to its launches: the second less the first.
constexpr std::array<std::pair<const char*, const char*>, 2> kOverheads = {
    {{"launch", "run"}, {"run_staged_calls", "run_staged"}}};

// What all steps share; the kernel's library and the context live as long.
struct StepBench {
  const Context& context;
  LaunchTape& tape;
  const Stream& stream;
  const DeviceMemory& x;  // kElements floats.
  Kernel kernel;
};

// A step in a session of its own, recorded if it is of a kind that is.
class Step {
 public:
  static absl::StatusOr<std::unique_ptr<Step>> Create(const StepBench& bench,
                                                      StepKind kind,
                                                      int64_t kernels);

  absl::Status Call(bool taped) const {
    return taped ? Repeat(bench_.context.driver(), launches_) : session_->Run(call_).status();
  }

  // Calls and returns y.
  absl::StatusOr<std::vector<float>> CallForResult(bool taped) const;

  int64_t nodes() const { return nodes_; }  // Of the graph; 0 without one.
  int64_t launches() const { return static_cast<int64_t>(launches_.size()); }

 private:
  explicit Step(const StepBench& bench) : bench_(bench) {}

  absl::Status Prepare(StepKind kind, int64_t kernels);
  absl::Status Register(StepKind kind, int64_t kernels);
  absl::Status TapeReplay(size_t launches);
  absl::StatusOr<std::vector<float>> Download(const Tensor& y) const;

  const StepBench& bench_;
  std::unique_ptr<Session> session_;
  std::array<Tensor, 1> x_;
  coppice::Call call_;
  std::vector<TapedLaunch> launches_;  // Of one replay.
  Tensor y_;                           // Of every replay: its graph is a root.
  int64_t nodes_ = 0;
};

absl::Status Step::Register(StepKind kind, int64_t kernels) {
  ProgramSpec spec{.name = "step", .claim = PaddingContents::kRowIndependent};
  Dim length = Dim::Fixed(kElements);
  if (kind == StepKind::kStaged) {
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy, PaddingPolicy::Pow2(kElements));
    length = Dim::Symbol(spec.AddSymbol("length", std::move(policy)));
  }
  const InputRole role = kind == StepKind::kStaged ? InputRole::kCopy : InputRole::kStatic;
  spec.inputs = {{.name = "x", .dims = {length}, .role = role}};
  spec.outputs = {{.name = "y", .dims = {length}}};
  COPPICE_ASSIGN_OR_RETURN(
      call_.program, session_->Register(std::move(spec), IncrementChain(bench_.kernel, kernels)));
  const std::array<int64_t, 1> dims = {kind == StepKind::kStaged ? kStagedElements : kElements};
  x_ = {Tensor::Dense(bench_.x.address(), DType::kFloat32, dims)};
  if (kind == StepKind::kStaged) {
    call_.inputs = x_;
  } else {
    COPPICE_ASSIGN_OR_RETURN(call_.binding, session_->Bind(*call_.program, x_));
  }
  call_.stream = bench_.stream.handle();
  return absl::OkStatus();
}

absl::Status Step::TapeReplay(size_t launches) {
  Lease lease;
  COPPICE_ASSIGN_OR_RETURN(launches_, bench_.tape.Note([&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(lease, session_->Run(call_));
    return absl::OkStatus();
  }));
  if (lease.kind() != RunKind::kReplay || launches_.size() != launches) {
    return MakeError(absl::StatusCode::kInternal,
                     "Session::Run: the third call took the path {} (reason {}) with {} launches "
                     "instead of a replay with {}",
                     NameOf(lease.kind()), NameOf(lease.reason()), launches_.size(), launches);
  }
  COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, lease.Read(call_.stream));
  y_ = scope.output(0);
  return absl::OkStatus();
}

absl::Status Step::Prepare(StepKind kind, int64_t kernels) {
  SessionOptions options;
  if (kind == StepKind::kEager) options.stance = Stance::kEager;
  COPPICE_ASSIGN_OR_RETURN(session_, Session::Create(bench_.context, options));
  COPPICE_RETURN_IF_ERROR(Register(kind, kernels));
  for (int i = 0; i < 2; ++i)  // Warm-up and recording.
    COPPICE_RETURN_IF_ERROR(Call(/*taped=*/false));
  if (kind != StepKind::kEager)
    COPPICE_RETURN_IF_ERROR(TapeReplay(kind == StepKind::kStaged ? 2 : 1));
  for (const NodeInfo& node : session_->nodes())
    nodes_ += node.graph_nodes;
  return bench_.stream.Synchronize();
}

absl::StatusOr<std::unique_ptr<Step>> Step::Create(const StepBench& bench,
                                                   StepKind kind,
                                                   int64_t kernels) {
  std::unique_ptr<Step> step(new Step(bench));
  COPPICE_RETURN_IF_ERROR(step->Prepare(kind, kernels));
  return step;
}

absl::StatusOr<std::vector<float>> Step::Download(const Tensor& y) const {
  std::vector<float> values(static_cast<size_t>(y.element_count()));
  COPPICE_RETURN_IF_ERROR(bench_.context.driver().Call<&DriverTable::MemcpyDtoHAsync>(
      static_cast<void*>(values.data()), y.data, values.size() * sizeof(float), call_.stream));
  COPPICE_RETURN_IF_ERROR(bench_.stream.Synchronize());
  return values;
}

absl::StatusOr<std::vector<float>> Step::CallForResult(bool taped) const {
  if (taped) {
    COPPICE_RETURN_IF_ERROR(Call(taped));
    return Download(y_);
  }
  COPPICE_ASSIGN_OR_RETURN(const Lease lease, session_->Run(call_));
  COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, lease.Read(call_.stream));
  return Download(scope.output(0));
}

// The steps of one number of kernels, and what came of each way.
struct StepsCase {
  int64_t kernels = 0;
  std::vector<std::pair<std::string, std::array<int64_t, 2>>> graphs;  // Nodes, launches; by way.
  std::vector<WaySamples> samples;
  std::vector<std::pair<std::string, std::string>> skipped;  // Way, and why.
  std::set<std::string> wrong;                               // Of them, those that are not right.

  const WaySamples* Find(const std::string& name) const {
    const auto found = std::find_if(samples.begin(), samples.end(),
                                    [&](const WaySamples& way) { return way.name == name; });
    return found == samples.end() ? nullptr : &*found;
  }
};

absl::Status FillX(const StepBench& bench, float first) {
  std::vector<float> values(kElements);
  std::iota(values.begin(), values.end(), first);
  COPPICE_RETURN_IF_ERROR(bench.context.driver().Call<&DriverTable::MemcpyHtoDAsync>(
      bench.x.address(), static_cast<const void*>(values.data()), values.size() * sizeof(float),
      bench.stream.handle()));
  return bench.stream.Synchronize();
}

// What is wrong with y of one more call, whose x is no other call's; empty: nothing.
absl::StatusOr<std::string> Check(
    const StepBench& bench, const Step& step, bool taped, float first, int64_t kernels) {
  COPPICE_RETURN_IF_ERROR(FillX(bench, first));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<float> y, step.CallForResult(taped));
  // Whole numbers below 2^24, so that the sums are exact.
  for (size_t i = 0; i < y.size(); ++i) {
    const float expected = first + static_cast<float>(i) + static_cast<float>(kernels);
    if (y[i] != expected) return fmt::format("y[{}] is {}, not {}", i, y[i], expected);
  }
  return std::string();
}

// Samples every way that there is a step for, then checks each.
StepsCase Measure(const StepBench& bench,
                  int64_t kernels,
                  int64_t samples,
                  const Console& console) {
  StepsCase measured;
  measured.kernels = kernels;
  const std::array steps = {Step::Create(bench, StepKind::kStatic, kernels),
                            Step::Create(bench, StepKind::kStaged, kernels),
                            Step::Create(bench, StepKind::kEager, kernels)};  // By StepKind.
  std::vector<Way> ways;
  for (const StepWay& way : kWays) {
    const auto& step = steps[static_cast<size_t>(way.kind)];
    if (!step.ok()) {
      measured.skipped.emplace_back(way.name, MessageOf(step.status()));
      continue;
    }
    const Step& ready = **step;
    if (way.kind != StepKind::kEager)
      measured.graphs.push_back({way.name, {ready.nodes(), ready.launches()}});
    ways.push_back({.name = way.name,
                    .call = [&ready, taped = way.taped] { return ready.Call(taped); },
                    .calls_per_sample =
                        way.kind == StepKind::kEager ? CallsPerSample(kernels) : kCallsPerSample});
  }
  auto sampled = SampleWays(bench.context.driver(), bench.stream, ways,
                            {.samples = samples, .stop = console.stop});
  float first = 0;
  for (const StepWay& way : kWays) {
    const auto taken = std::find_if(ways.begin(), ways.end(),
                                    [&](const Way& one) { return one.name == way.name; });
    if (taken == ways.end()) continue;
    first += 1000;
    const absl::StatusOr<std::string> wrong =
        sampled.ok()
            ? Check(bench, **steps[static_cast<size_t>(way.kind)], way.taped, first, kernels)
            : sampled.status();
    if (!wrong.ok()) {
      measured.skipped.emplace_back(way.name, MessageOf(wrong.status()));
    } else if (!wrong->empty()) {
      measured.skipped.emplace_back(way.name, *wrong);
      measured.wrong.insert(way.name);
    } else {
      measured.samples.push_back(std::move((*sampled)[static_cast<size_t>(taken - ways.begin())]));
    }
  }
  return measured;
}

nlohmann::ordered_json ToJson(const StepsCase& measured) {
  nlohmann::ordered_json nodes = nlohmann::ordered_json::object();
  nlohmann::ordered_json launches = nlohmann::ordered_json::object();
  for (const auto& [way, counts] : measured.graphs) {
    nodes[way] = counts[0];
    launches[way] = counts[1];
  }
  nlohmann::ordered_json ways = ToJson(measured.samples);
  for (const auto& [way, why] : measured.skipped)
    ways.push_back({{"name", way}, {"skipped", why}});
  return {{"kernels", measured.kernels}, {"nodes", nodes}, {"launches", launches}, {"ways", ways}};
}

std::string Format(const StepsCase& measured) {
  TextTable table("lrrrrrrrrr", {"way", "calls", "nodes", "launches", "host us", "p10..p90",
                                 "of eager", "device us", "p10..p90", "of eager"});
  const WaySamples* const eager = measured.Find("eager");
  const auto share = [&](double median, const std::vector<double> WaySamples::*values) {
    return eager == nullptr ? "-" : fmt::format("{:.3f}", median / Median(eager->*values));
  };
  for (const WaySamples& way : measured.samples) {
    const auto graph = std::find_if(measured.graphs.begin(), measured.graphs.end(),
                                    [&](const auto& one) { return one.first == way.name; });
    const auto count = [&](size_t i) {
      return graph == measured.graphs.end() ? "-" : fmt::format("{}", graph->second[i]);
    };
    const double host_us = Median(way.host_us);
    const double device_us = Median(way.device_us);
    table.Add({way.name, fmt::format("{}", way.calls), count(0), count(1),
               fmt::format("{:.2f}", host_us), FormatSpread(way.host_us, 2),
               share(host_us, &WaySamples::host_us), fmt::format("{:.2f}", device_us),
               FormatSpread(way.device_us, 2), share(device_us, &WaySamples::device_us)});
  }
  std::string text = fmt::format("\n{} kernels\n{}", measured.kernels, table.Format());
  for (const auto& [bare, whole] : kOverheads) {
    const WaySamples* const less = measured.Find(bare);
    const WaySamples* const more = measured.Find(whole);
    if (less == nullptr || more == nullptr) continue;
    std::vector<double> ns;  // Of each round, whose samples follow each other.
    for (size_t i = 0; i < less->host_us.size(); ++i)
      ns.push_back(1e3 * (more->host_us[i] - less->host_us[i]));
    text += fmt::format("  {} - {}: {:.0f} ns of host time per call, {}\n", whole, bare, Median(ns),
                        FormatSpread(ns, 0));
  }
  return text;
}

}  // namespace

absl::StatusOr<BenchReport> BenchSteps(const BenchOptions& options, const Console& console) {
  COPPICE_ASSIGN_OR_RETURN(const ChosenDriver chosen,
                           ChosenDriver::Open(options.device, /*seed=*/1));
  LaunchTape tape(chosen.driver());
  const Driver& driver = tape.driver();
  COPPICE_ASSIGN_OR_RETURN(const Context context, Context::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(const KernelLibrary library, KernelLibrary::Load(driver, bench_image));
  COPPICE_ASSIGN_OR_RETURN(const Kernel kernel, library.Get("Increment"));
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(
      const DeviceMemory x,
      DeviceMemory::Create(driver, kElements * static_cast<int64_t>(sizeof(float))));
  const StepBench bench = {context, tape, stream, x, kernel};
  COPPICE_RETURN_IF_ERROR(FillX(bench, 0));
  BenchReport report;
  report.json = {{"section", "steps"},
                 {"device", chosen.kind()},
                 {"device_name", context.DeviceName()},
                 {"cases", nlohmann::ordered_json::array()}};
  report.text = fmt::format(
      "{}, {} samples of each way\n{}", context.DeviceName(), options.repetitions,
      chosen.is_cuda() ? ""
                       : "These times are from the emulator; they say nothing about a device.\n");
  for (const int64_t kernels : options.sizes) {
    if (console.stopped()) break;
    const StepsCase measured = Measure(bench, kernels, options.repetitions, console);
    report.json["cases"].push_back(ToJson(measured));
    report.text += Format(measured);
    for (const auto& [way, why] : measured.skipped)
      (measured.wrong.contains(way) ? report.wrong : report.failed)
          .push_back(fmt::format("{} of {} kernels: {}", way, kernels, why));
  }
  for (const std::string& line : chosen.reports())
    report.wrong.push_back(line);
  return report;
}

}  // namespace coppice
