// From options to an exit code: load the requests, open the device, replay, report.

#include "tools/run/run.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/base/units.h"

#include "tools/ledger/latency_model.h"
#include "tools/model/package_decoder.h"
#include "tools/model/served_decoder.h"
#include "tools/run/batcher.h"
#include "tools/run/graph_files.h"
#include "tools/run/replayer.h"
#include "tools/run/request_clock.h"
#include "tools/run/step_log.h"
#include "tools/support/byte_text.h"
#include "tools/support/console.h"
#include "tools/support/policy_file.h"
#include "tools/support/progress.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr int64_t kHostShrink = 8;
constexpr int64_t kCudaShrink = 1;
constexpr int64_t kContextTokens = 8192;  // Of the trace; the model's context is this / shrink.
constexpr int64_t kSlots = 32;

// One step stands for `shrink` steps of the unshrunk trace. The two constants load the generated
// traces so that batches of every size up to the slots occur.
constexpr StepCost kStepCost = {.step_seconds = 0.006, .row_seconds = 0.0000125};

// Projections by other instructions, in another order, round differently.
constexpr double kCudaBound = 1e-3;

struct Job {
  std::vector<Request> requests;
  std::string trace;
  int64_t requests_cut = 0;
  int64_t shrink = 1;
  int64_t slots = kSlots;
  int64_t max_context = kContextTokens;
  StepCost cost;
  std::vector<bool> followed;
};

constexpr int64_t kRequests = 2000;
constexpr int64_t kPackageRequests = 20;  // PTX takes seconds per request on the emulator.

std::string NameOf(const VerifyScope& scope) {
  if (scope.kind == VerifyScope::Kind::kSample) return fmt::format("sample:{}", scope.sample);
  return scope.kind == VerifyScope::Kind::kAll ? "all" : "none";
}

absl::Status LoadRequests(const RunOptions& options, Job& job) {
  if (options.trace.empty()) {
    const int64_t all = options.package.empty() ? kRequests : kPackageRequests;
    job.requests = GenerateRequests(options.generate, options.requests > 0 ? options.requests : all,
                                    options.seed);
    job.trace = fmt::format("generated, {}", NameOf(options.generate));
  } else {
    COPPICE_ASSIGN_OR_RETURN(job.requests, ReadRequestTrace(options.trace, options.seed));
    job.trace = options.trace;
  }
  if (options.limit > 0 && options.limit < static_cast<int64_t>(job.requests.size()))
    job.requests.resize(static_cast<size_t>(options.limit));
  return absl::OkStatus();
}

// Which requests the reference follows; a sample is spread evenly.
std::vector<bool> Follow(const VerifyScope& scope, size_t requests) {
  if (scope.kind != VerifyScope::Kind::kSample)
    return std::vector<bool>(requests, scope.kind == VerifyScope::Kind::kAll);
  std::vector<bool> followed(requests, false);
  const size_t count = std::min(static_cast<size_t>(scope.sample), requests);
  for (size_t i = 0; i < count; ++i)
    followed[i * requests / count] = true;
  return followed;
}

// A package has the sizes that it has; what does not fit is for its caller to change.
absl::Status CheckFit(const RunOptions& options, const ModelSizes& sizes, const Job& job) {
  if (job.slots > sizes.slots)
    return InvalidArgument(
        "--slots {}: {} serves up to {} requests at once; give that number or less", job.slots,
        options.package, sizes.slots);
  for (size_t i = 0; i < job.requests.size(); ++i) {
    const Request& request = job.requests[i];
    const int64_t tokens = request.input_tokens + request.output_tokens - 1;
    if (tokens > sizes.max_context)
      return InvalidArgument(
          "--shrink {}: request {} takes {} tokens in its slot, but the context of {} holds {}; "
          "give --shrink {}",
          job.shrink, i, tokens, options.package, sizes.max_context,
          CeilDivide(kContextTokens, sizes.max_context));
  }
  return absl::OkStatus();
}

// Fits the requests to the model that suits the device, or to that of a package.
absl::Status SizeJob(const RunOptions& options, bool cuda, const ServedModel* model, Job& job) {
  job.shrink = options.shrink > 0 ? options.shrink
               : model != nullptr ? CeilDivide(kContextTokens, model->sizes().max_context)
               : cuda             ? kCudaShrink
                                  : kHostShrink;
  job.slots = options.slots > 0 ? options.slots : model != nullptr ? model->sizes().slots : kSlots;
  job.max_context = CeilDivide(kContextTokens, job.shrink);
  job.requests_cut = FitRequests(job.shrink, job.max_context, job.requests);
  if (model != nullptr) {
    COPPICE_RETURN_IF_ERROR(CheckFit(options, model->sizes(), job));
    job.max_context = std::min(job.max_context, model->sizes().max_context);
  }
  const double shrink = static_cast<double>(job.shrink);
  job.cost = {.step_seconds = kStepCost.step_seconds * shrink,
              .row_seconds = kStepCost.row_seconds * shrink};
  job.followed = Follow(options.verify, job.requests.size());
  return absl::OkStatus();
}

absl::StatusOr<PaddingPolicy> ChoosePolicy(const RunOptions& options,
                                           bool prefill,
                                           const ServedModel& model,
                                           const Job& job) {
  const int64_t maximum = prefill ? job.max_context : job.slots;
  const std::string& own = prefill ? options.prefill_policy : options.decode_policy;
  if (!own.empty())
    return IsPolicyFile(own) ? ParseFittingPolicy(own, maximum)
                             : PaddingPolicy::Parse(own, maximum);
  return ParseFittingPolicy(options.policy.empty() ? model.default_policy(prefill) : options.policy,
                            maximum);
}

absl::Status ReplayTrace(const RunOptions& options,
                         const Console& console,
                         const Job& job,
                         Replayer& replayer,
                         RunReport& report) {
  if (options.order) {
    Progress progress(console.err, !options.quiet, "recording");
    COPPICE_RETURN_IF_ERROR(replayer.Warm(
        *options.order, [&](int64_t done, int64_t total) { progress.Update(done, total); }));
  }
  Progress progress(console.err, !options.quiet, "replaying");
  Batcher batcher(job.requests, {.slots = job.slots, .cost = job.cost});
  RequestClock clock(job.requests);
  int64_t served = 0;
  for (Step step; batcher.Next(step);) {
    COPPICE_RETURN_IF_ERROR(replayer.Replay(step));
    for (const RequestTimes& times : clock.Add(step, batcher.clock_seconds()))
      COPPICE_RETURN_IF_ERROR(replayer.NoteRequest(times));
    ++(step.prefill ? report.prefill_steps : report.decode_steps);
    served += std::count_if(step.rows.begin(), step.rows.end(),
                            [](const StepRow& row) { return row.last; });
    progress.Update(served, static_cast<int64_t>(job.requests.size()));
  }
  report.virtual_seconds = batcher.clock_seconds();
  return absl::OkStatus();
}

void DescribeJob(const RunOptions& options,
                 const Device& device,
                 const Job& job,
                 RunReport& report) {
  report.trace = job.trace;
  report.device = device.kind();
  report.device_name = device.Name();
  // What a package has for the emulator is PTX.
  const bool ptx = options.kernels == KernelChoice::kPtx || !options.package.empty();
  report.kernels = device.is_cuda() ? "cuda" : ptx ? "ptx" : "host";
  report.package = options.package;
  report.shrink = job.shrink;
  report.slots = job.slots;
  report.max_context = job.max_context;
  report.order = options.order ? NameOf(*options.order) : "";
  report.seed = options.seed;
  report.poison = options.poison;
  report.requests = static_cast<int64_t>(job.requests.size());
  report.requests_cut = job.requests_cut;
  report.cost = job.cost;
  report.verify = NameOf(options.verify);
  report.verified_requests = std::count(job.followed.begin(), job.followed.end(), true);
}

void DescribeOutcome(const Device& device, const Replayer& replayer, RunReport& report) {
  const Session& session = replayer.session();
  report.stats = session.stats();
  report.nodes = session.nodes();
  report.pool = session.memory().usage();
  const WindowInfo window = session.memory().window(0, MemoryKind::kPlan);
  report.pool_mapped_bytes = device.ledger().MappedBytes(window.base, window.window_bytes);
  report.prefill_buckets = replayer.replayed_buckets(/*prefill=*/true);
  report.decode_buckets = replayer.replayed_buckets(/*prefill=*/false);
  report.replay_host_ns = replayer.replay_host_ns();
  report.replay_driver_ns = replayer.replay_driver_ns();
  report.prefill_padding = replayer.padding(/*prefill=*/true);
  report.decode_padding = replayer.padding(/*prefill=*/false);
  report.driver_calls = device.ledger().calls();
  report.modelled_driver_us = device.ledger().modelled_us();
  report.latency_table = LatencyModel::Documented().name();
  report.bound = replayer.verifier().bound();
  report.prefill_claimed = replayer.claimed(/*prefill=*/true);
  report.decode_claimed = replayer.claimed(/*prefill=*/false);
  report.verified_steps = replayer.verified_steps();
  report.comparisons = replayer.verifier().comparisons();
  report.mismatches = replayer.verifier().mismatches();
  report.mismatch_lines = replayer.verifier().descriptions();
  report.emulator_reports = device.reports();
  if (replayer.relearning() != nullptr) report.relearned = replayer.relearning()->Report();
}

// What is served, and how it is padded.
struct Served {
  std::unique_ptr<ServedModel> model;
  std::optional<PaddingPolicy> prefill;
  std::optional<PaddingPolicy> decode;
};

// Makes the model, and fits the job to it or it to the job.
absl::StatusOr<Served> ChooseModel(const RunOptions& options, const Device& device, Job& job) {
  Served served;
  if (!options.package.empty()) {
    COPPICE_ASSIGN_OR_RETURN(
        served.model, PackageDecoder::Create(device.context(), options.package, options.exact));
  }
  COPPICE_RETURN_IF_ERROR(SizeJob(options, device.is_cuda(), served.model.get(), job));
  if (served.model == nullptr) {
    DecoderConfig config;
    config.slots = job.slots;
    config.max_context = job.max_context;
    COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Decoder> decoder,
                             Decoder::Create(device.driver(), config, {.seed = options.seed}));
    served.model = std::make_unique<ServedDecoder>(device.driver(), std::move(decoder));
  }
  for (const bool prefill : {true, false}) {
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy,
                             ChoosePolicy(options, prefill, *served.model, job));
    (prefill ? served.prefill : served.decode) = std::move(policy);
  }
  if (options.relearn_period > 0 && served.prefill->is_exact() && served.decode->is_exact())
    return InvalidArgument(
        "--relearn: prompts and batches have the policy exact, which pads nothing; use --policy to "
        "give a policy with buckets");
  return served;
}

// What can only fail because of the device.
absl::StatusOr<RunReport> RunJob(const RunOptions& options,
                                 const Console& console,
                                 const Device& device,
                                 const Job& job,
                                 const Served& served) {
  const auto start = std::chrono::steady_clock::now();
  std::unique_ptr<StepLog> log;
  if (!options.dump_steps.empty()) {
    COPPICE_ASSIGN_OR_RETURN(log, StepLog::Create(options.dump_steps));
  }
  COPPICE_ASSIGN_OR_RETURN(
      std::unique_ptr<Replayer> replayer,
      Replayer::Create(device.context(), *served.model,
                       {.prefill_policy = *served.prefill,
                        .decode_policy = *served.decode,
                        .followed = job.followed,
                        .poison = options.poison,
                        .seed = options.seed,
                        .bound = device.is_cuda() ? kCudaBound : 0,
                        .session = {.memory = {.budget_bytes = options.budget_bytes},
                                    .trace = {.path = options.trace_out, .wait_when_full = true},
                                    .keep_drawings = !options.dump_graphs.empty()},
                        .log = log.get(),
                        .relearn_period = options.relearn_period,
                        .ledger = &device.ledger()}));
  RunReport report;
  DescribeJob(options, device, job, report);
  report.targets = served.model->targets();
  report.prefill_policy = served.prefill->name();
  report.decode_policy = served.decode->name();
  COPPICE_RETURN_IF_ERROR(ReplayTrace(options, console, job, *replayer, report));
  DescribeOutcome(device, *replayer, report);
  report.caching_allocator_bytes = served.model->caching_allocator_bytes();
  report.trace_status = replayer->session().trace().Flush();
  if (!options.dump_graphs.empty()) {
    report.dump_status = WriteGraphFiles(replayer->session(), options.dump_graphs, options.trace);
  }
  if (log != nullptr) report.steps_status = log->Finish();
  const std::chrono::duration<double> wall = std::chrono::steady_clock::now() - start;
  report.wall_seconds = wall.count();
  return report;
}

// Whether the file was not there before. Before the work, because one that cannot be made is no
// fault of the device.
absl::StatusOr<bool> MakeFile(const std::string& path) {
  if (path.empty()) return false;
  std::error_code code;
  const bool before = std::filesystem::exists(path, code);
  if (std::ofstream(path, std::ios::app)) return !before;
  return InvalidArgument("'{}' cannot be written; choose a file in a writable folder", path);
}

// The same of a folder, with those that it lies in.
absl::StatusOr<bool> MakeFolderIfNew(const std::string& path) {
  if (path.empty()) return false;
  std::error_code code;
  const bool made = std::filesystem::create_directories(path, code);
  if (!code && std::filesystem::is_directory(path, code)) return made;
  return InvalidArgument("{}: the folder cannot be made: {}; give another folder", path,
                         code ? code.message() : "it is a file");
}

// Whose fault it is that there is no model.
ExitCode CodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kNotFound:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnimplemented:
      return kExitUsage;
    default:
      return kExitDevice;
  }
}

ExitCode Fail(const Console& console, const absl::Status& status, ExitCode code) {
  Print(console.err, "coppice run: {}\n", MessageOf(status));
  return code;
}

}  // namespace

absl::StatusOr<VerifyScope> ParseVerifyScope(const std::string& text) {
  if (text == "all") return VerifyScope{.kind = VerifyScope::Kind::kAll};
  if (text == "none") return VerifyScope{.kind = VerifyScope::Kind::kNone};
  constexpr std::string_view kSample = "sample:";
  if (text.starts_with(kSample)) {
    VerifyScope scope;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data() + kSample.size(), last, scope.sample);
    if (error == std::errc() && end == last && scope.sample >= 1) return scope;
  }
  return InvalidArgument("'{}' is not a scope; give all, none or sample:N with N >= 1", text);
}

absl::StatusOr<ExactReplay> ParseExactReplay(const std::string& text) {
  for (const ExactReplay exact : {ExactReplay::kNever, ExactReplay::kAuto, ExactReplay::kAlways}) {
    if (text == NameOf(exact)) return exact;
  }
  return InvalidArgument("'{}' is not a choice; give never, auto or always", text);
}

ExitCode RunCommand(const RunOptions& options, const Console& console) {
  Job job;
  if (const absl::Status status = LoadRequests(options, job); !status.ok())
    return Fail(console, status, kExitUsage);
  std::vector<std::string> inputs = {options.trace, options.package};
  for (const std::string& policy : {options.policy, options.prefill_policy, options.decode_policy})
    if (IsPolicyFile(policy)) inputs.push_back(policy);
  std::vector<std::string> outputs = {options.trace_out};
  if (!options.dump_steps.empty()) {
    for (const char* name : {"/steps.jsonl", "/logits.f32"})
      outputs.push_back(options.dump_steps + name);
  }
  if (const absl::Status status = CheckOutputs(inputs, outputs); !status.ok())
    return Fail(console, status, kExitUsage);
  const absl::StatusOr<std::unique_ptr<Device>> device =
      Device::Open({.choice = options.device,
                    .seed = options.seed,
                    .kernels = options.kernels,
                    .ledger = {.time_calls = true, .latency = &LatencyModel::Documented()}});
  if (!device.ok()) return Fail(console, device.status(), kExitDevice);
  if (options.kernels == KernelChoice::kPtx && (*device)->is_cuda())
    return Fail(
        console,
        InvalidArgument(
            "--kernels ptx: only the emulator can execute these kernels as PTX; add --device host"),
        kExitUsage);

  const absl::StatusOr<Served> served = ChooseModel(options, **device, job);
  if (!served.ok()) return Fail(console, served.status(), CodeOf(served.status()));

  // As late as this, because a refused run leaves no file.
  const absl::StatusOr<bool> made = MakeFile(options.trace_out);
  if (!made.ok()) return Fail(console, made.status(), kExitOutput);
  std::vector<std::string> made_folders;
  absl::Cleanup drop = [&] {
    std::error_code code;
    if (*made) std::filesystem::remove(std::filesystem::canonical(options.trace_out, code), code);
    for (const std::string& folder : made_folders)
      std::filesystem::remove_all(folder, code);
  };
  for (const std::string& path : {options.dump_graphs, options.dump_steps}) {
    const absl::StatusOr<bool> folder = MakeFolderIfNew(path);
    if (!folder.ok()) return Fail(console, folder.status(), kExitOutput);
    if (*folder) made_folders.push_back(path);
  }
  if (!options.quiet && !(*device)->cuda_absence().empty())
    Print(console.err, "coppice run: running on the host, because {}\n", (*device)->cuda_absence());
  const absl::StatusOr<RunReport> report = RunJob(options, console, **device, job, *served);
  if (!report.ok()) {
    const bool budget =
        options.budget_bytes > 0 && report.status().code() == absl::StatusCode::kResourceExhausted;
    if (!budget) return Fail(console, report.status(), kExitDevice);
    return Fail(console,
                InvalidArgument("--budget {} is too small for a single step; give more ({})",
                                FormatBytes(options.budget_bytes), MessageOf(report.status())),
                kExitUsage);
  }
  std::move(drop).Cancel();
  Print(console.out, "{}", options.json ? FormatJson(*report) : FormatTable(*report));
  for (const absl::Status& status :
       {report->trace_status, report->dump_status, report->steps_status}) {
    if (!status.ok()) return Fail(console, status, kExitOutput);
  }
  const bool in_order = report->mismatches == 0 && report->emulator_reports.empty();
  return in_order ? kExitOk : kExitMismatch;
}

}  // namespace coppice
