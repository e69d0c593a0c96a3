// Draws batches of calls, runs them, checks them, and reads the books between them.

#include "tools/soak/soak.h"

#include <algorithm>
#include <array>
#include <fstream>
#include <malloc.h>
#include <memory>
#include <random>
#include <unistd.h>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"
#include "coppice/graphs/session.h"
#include "coppice/runtime/graph.h"
#include "coppice/runtime/kernel_library.h"

#include "tools/soak/soak_kernels.h"

namespace coppice {
namespace {

// Few enough that graphs come out of flight between batches and can be dropped.
constexpr int64_t kBatchCalls = 64;
constexpr int64_t kBucketWords = 16;  // From one bucket of the first program to the next.
constexpr int64_t kWarmRounds = 4;    // Over all buckets; from the second on, the churn evicts.
// Parts of the work, with a point of memory after each: traffic, churn, and traffic again.
constexpr int64_t kPartsBefore = 9;
constexpr int64_t kPartsChurn = 9;
constexpr int64_t kPartsAfter = 2;
constexpr int64_t kIdleBatchesMax = 100;  // Of the churn, one after the other, without a recording.
constexpr size_t kFindingsMax = 10;
constexpr int64_t kKeptRounds = 1100;  // More than a session keeps of what ended.
constexpr int64_t kWeightsBytes = 16;  // Of a binding, and from one to the next.
constexpr int64_t kWeightsPlaces = 4096;

// Words from a seed, different for every seed (SplitMix64's finaliser).
uint32_t InputWord(uint64_t seed, int64_t index) {
  uint64_t bits = seed + 0x9E3779B97F4A7C15U * static_cast<uint64_t>(index + 1);
  bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9U;
  bits = (bits ^ bits >> 27) * 0x94D049BB133111EBU;
  return static_cast<uint32_t>(bits >> 32);
}

int64_t WordBytes(int64_t words) {
  return words * static_cast<int64_t>(sizeof(uint32_t));
}

absl::StatusOr<ProgramSpec> MakeSpec(const char* name, int64_t step, int64_t largest) {
  ProgramSpec spec{.name = name, .claim = PaddingContents::kAny};
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy, PaddingPolicy::Linear(step, largest));
  const Dims dims = {Dim::Symbol(spec.AddSymbol("n", std::move(policy)))};
  spec.inputs = {{.name = "x", .dtype = DType::kInt32, .dims = dims}};
  spec.outputs = {{.name = "y", .dtype = DType::kInt32, .dims = dims}};
  spec.scalars = {{.name = "salt", .device_resident = true}};
  spec.one_stream = true;
  return spec;
}

// Launches the chain; frees each value as soon as no later step reads it.
absl::Status LaunchChain(CallContext& context, Kernel kernel, int extent_word, int salt_word) {
  const int64_t capacity = context.extent(0);
  const auto blocks = static_cast<unsigned>(CeilDivide(capacity, kSoakThreads));
  std::array<DeviceAddress, kSoakSteps + 1> values{context.input(0).data};
  for (int step = 0; step < kSoakSteps; ++step) {
    DeviceAddress& target = values[static_cast<size_t>(step) + 1];
    if (step + 1 < kSoakSteps) {
      COPPICE_ASSIGN_OR_RETURN(target, context.Allocate(WordBytes(capacity)));
    } else {
      COPPICE_ASSIGN_OR_RETURN(const Tensor output, context.AllocateOutput(0));
      target = output.data;
    }
    const int older = SoakOlder(step);
    // NOLINTBEGIN(performance-no-int-to-ptr): the driver's addresses are integers.
    const SoakStepParams params = {
        .newer = reinterpret_cast<const uint32_t*>(values[static_cast<size_t>(step)]),
        .older = reinterpret_cast<const uint32_t*>(values[static_cast<size_t>(older)]),
        .target = reinterpret_cast<uint32_t*>(target),
        .parameters = reinterpret_cast<const int64_t*>(context.parameters()),
        .capacity = capacity,
        .extent_word = extent_word,
        .salt_word = salt_word,
        .constant = SoakConstant(step)};
    // NOLINTEND(performance-no-int-to-ptr)
    COPPICE_RETURN_IF_ERROR(Launch(context.driver(), kernel, context.stream(), params, blocks));
    if (older > 0) COPPICE_RETURN_IF_ERROR(context.Free(values[static_cast<size_t>(older)]));
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  int64_t all_pages = 0;
  int64_t resident_pages = 0;
  if (file >> all_pages >> resident_pages) return resident_pages * sysconf(_SC_PAGESIZE);
  return MakeError(absl::StatusCode::kInternal,
                   "coppice soak: /proc/self/statm cannot be read; mount /proc");
}

int64_t HeapBytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

// A program and how it is called.
struct Subject {
  Session* session = nullptr;
  const Program* program = nullptr;
  const char* name = "";
  int64_t step = 0;     // From one bucket to the next, in words.
  int64_t buckets = 0;  // The largest has step x buckets words.
  bool comes = false;   // And goes: of the rounds.
  bool included = false;
  const Binding* binding = nullptr;
  int64_t round = -1;  // Key scalar of a call with a binding.
};

// What a program has beside what all of them have.
struct Features {
  bool guest = false;   // A static input and a key scalar.
  bool breaks = false;  // It is no single graph.
};

class Soak {
 public:
  static absl::StatusOr<std::unique_ptr<Soak>> Create(const Context& context,
                                                      const SoakOptions& options);

  absl::StatusOr<SoakReport> Run(const SoakProgress& progress);

 private:
  struct Drawn {
    int64_t extent = 0;
    uint32_t salt = 0;
  };

  // What a soak has on the device beside its session.
  struct Parts {
    KernelLibrary library;
    Kernel kernel;
    Stream stream;
    DeviceMemory inputs;  // Of a batch: kBatchCalls times the largest extent.
    DeviceMemory outputs;
    DeviceMemory weights;
  };

  Soak(const Context& context, const SoakOptions& options, Parts parts)
      : context_(context),
        driver_(context.driver()),
        options_(options),
        parts_(std::move(parts)),
        random_(options.seed) {}

  absl::StatusOr<Subject> Register(Session& session,
                                   const char* name,
                                   int64_t step,
                                   const Features& features = {});
  // Everything after the warm phase. Errors: kCancelled if `progress` ended it.
  absl::Status Work(const SoakProgress& progress);
  absl::Status Report(const SoakProgress& progress) const;
  absl::Status Warm(const Subject& subject);
  absl::Status Traffic(int64_t calls_goal, const SoakProgress& progress);
  absl::Status Churn(int64_t records_goal, const SoakProgress& progress);
  // Rounds of what comes and goes, as many more as there are warm ones.
  absl::Status WarmRounds();
  absl::Status ComeAndGo(int64_t rounds_goal, const SoakProgress& progress);
  absl::Status Round();
  absl::Status IncludeInAnotherSession(int64_t inclusions);
  absl::Status RunDrawn(const Subject& subject, int64_t calls, const SoakProgress& progress);
  absl::Status RunBatch(const Subject& subject, std::span<const int64_t> buckets);
  absl::Status RunCall(const Subject& subject, const Drawn& drawn, int64_t place);
  absl::StatusOr<Lease> Start(const Subject& subject, const Call& call);
  void Count(const Subject& subject, const Drawn& drawn, const Lease& lease);
  void Check(const Subject& subject, const Drawn& drawn, int64_t place);
  absl::Status NoteMemory();
  void Find(std::string line);

  int64_t Done() const { return traffic_calls_ + report_.records + report_.rounds; }
  int64_t Goal() const { return options_.replays + options_.records + options_.rounds; }
  int64_t largest() const { return kBucketWords * options_.buckets; }
  // Of the words of a batch, those of the call at `place`.
  std::span<uint32_t> WordsOf(std::vector<uint32_t>& words, int64_t place, int64_t extent) const {
    return std::span(words).subspan(static_cast<size_t>(place * largest()),
                                    static_cast<size_t>(extent));
  }

  const Context& context_;
  const Driver& driver_;
  const SoakOptions options_;
  const Parts parts_;
  std::mt19937_64 random_;
  std::vector<uint32_t> input_words_;
  std::vector<uint32_t> output_words_;
  std::unique_ptr<Session> session_;
  Subject steady_;
  Subject churning_;
  Subject guest_;
  Subject broken_;                   // Included, it fails.
  std::vector<GraphExec> launched_;  // In this batch.
  bool warm_ = false;
  int64_t round_ = 0;
  int64_t traffic_calls_ = 0;
  SoakReport report_;
};

absl::StatusOr<std::unique_ptr<Soak>> Soak::Create(const Context& context,
                                                   const SoakOptions& options) {
  const Driver& driver = context.driver();
  const int64_t words = kBatchCalls * kBucketWords * options.buckets;
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary library, KernelLibrary::Load(driver, soak_kernels_image));
  COPPICE_ASSIGN_OR_RETURN(const Kernel kernel, library.Get("SoakStep"));
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory inputs, DeviceMemory::Create(driver, WordBytes(words)));
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory outputs, DeviceMemory::Create(driver, WordBytes(words)));
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory weights,
                           DeviceMemory::Create(driver, kWeightsBytes * kWeightsPlaces));
  std::unique_ptr<Soak> soak(new Soak(context, options,
                                      {.library = std::move(library),
                                       .kernel = kernel,
                                       .stream = std::move(stream),
                                       .inputs = std::move(inputs),
                                       .outputs = std::move(outputs),
                                       .weights = std::move(weights)}));
  soak->input_words_.resize(static_cast<size_t>(words));
  soak->output_words_.resize(static_cast<size_t>(words));
  SessionOptions session;
  session.limits.graphs_per_program_max = static_cast<int>(options.buckets);
  session.limits.on_limit = OnLimit::kEvict;
  COPPICE_ASSIGN_OR_RETURN(soak->session_, Session::Create(context, session));
  Session& own = *soak->session_;
  COPPICE_ASSIGN_OR_RETURN(soak->steady_, soak->Register(own, "traffic", kBucketWords));
  COPPICE_ASSIGN_OR_RETURN(soak->churning_, soak->Register(own, "churn", kBucketWords / 2));
  COPPICE_ASSIGN_OR_RETURN(soak->guest_,
                           soak->Register(own, "guest", soak->largest(), {.guest = true}));
  COPPICE_ASSIGN_OR_RETURN(soak->broken_,
                           soak->Register(own, "broken", soak->largest(), {.breaks = true}));
  return soak;
}

absl::StatusOr<Subject> Soak::Register(Session& session,
                                       const char* name,
                                       int64_t step,
                                       const Features& features) {
  COPPICE_ASSIGN_OR_RETURN(ProgramSpec spec, MakeSpec(name, step, largest()));
  if (features.guest) {
    const int64_t words = kWeightsBytes / WordBytes(1);
    spec.inputs.push_back({.name = "w",
                           .dtype = DType::kInt32,
                           .dims = {Dim::Fixed(words)},
                           .role = InputRole::kStatic});
    spec.scalars.push_back({.name = "round"});
  }
  Subject subject = {.session = &session, .name = name, .step = step, .buckets = largest() / step};
  COPPICE_ASSIGN_OR_RETURN(
      subject.program,
      session.Register(
          spec,
          [kernel = parts_.kernel, breaks = features.breaks, extent_word = ExtentWord(spec, 0),
           salt_word = ScalarWord(spec, 0)](CallContext& call) -> absl::Status {
            if (breaks)
              COPPICE_RETURN_IF_ERROR(call.Break([](CuStream) { return absl::OkStatus(); }));
            return LaunchChain(call, kernel, extent_word, salt_word);
          }));
  return subject;
}

absl::StatusOr<SoakReport> Soak::Run(const SoakProgress& progress) {
  COPPICE_RETURN_IF_ERROR(Warm(steady_));
  COPPICE_RETURN_IF_ERROR(Warm(churning_));
  if (options_.rounds > 0) COPPICE_RETURN_IF_ERROR(WarmRounds());
  warm_ = true;
  const int64_t evictions_before = session_->stats().evictions;
  COPPICE_RETURN_IF_ERROR(NoteMemory());
  const absl::Status worked = Work(progress);
  report_.stopped = absl::IsCancelled(worked);
  COPPICE_RETURN_IF_ERROR(report_.stopped ? NoteMemory() : worked);
  report_.evictions = session_->stats().evictions - evictions_before;
  return report_;
}

absl::Status Soak::Work(const SoakProgress& progress) {
  const int64_t before = options_.replays * kPartsBefore / (kPartsBefore + kPartsAfter);
  for (int64_t part = 1; part <= kPartsBefore; ++part) {
    COPPICE_RETURN_IF_ERROR(Traffic(before * part / kPartsBefore, progress));
    COPPICE_RETURN_IF_ERROR(NoteMemory());
  }
  for (int64_t part = 1; part <= kPartsChurn; ++part) {
    COPPICE_RETURN_IF_ERROR(Churn(options_.records * part / kPartsChurn, progress));
    COPPICE_RETURN_IF_ERROR(ComeAndGo(options_.rounds * part / kPartsChurn, progress));
    COPPICE_RETURN_IF_ERROR(NoteMemory());
  }
  for (int64_t part = 1; part <= kPartsAfter; ++part) {
    const int64_t after = options_.replays - before;
    COPPICE_RETURN_IF_ERROR(Traffic(before + after * part / kPartsAfter, progress));
    COPPICE_RETURN_IF_ERROR(NoteMemory());
  }
  return absl::OkStatus();
}

absl::Status Soak::Report(const SoakProgress& progress) const {
  const bool goes_on = !progress || progress(Done(), Goal());
  return goes_on ? absl::OkStatus() : absl::CancelledError("the progress callback ended the soak");
}

// Two calls per bucket and round: one warms up or records, one replays.
absl::Status Soak::Warm(const Subject& subject) {
  for (int64_t round = 0; round < kWarmRounds; ++round) {
    for (int64_t bucket = 0; bucket < subject.buckets; ++bucket) {
      const std::array<int64_t, 2> twice = {bucket, bucket};
      COPPICE_RETURN_IF_ERROR(RunBatch(subject, twice));
    }
  }
  return absl::OkStatus();
}

absl::Status Soak::Traffic(int64_t calls_goal, const SoakProgress& progress) {
  while (traffic_calls_ < calls_goal) {
    const int64_t calls = std::min(calls_goal - traffic_calls_, kBatchCalls);
    COPPICE_RETURN_IF_ERROR(RunDrawn(steady_, calls, progress));
  }
  return absl::OkStatus();
}

absl::Status Soak::Churn(int64_t records_goal, const SoakProgress& progress) {
  for (int64_t idle = 0; report_.records < records_goal;) {
    const int64_t before = report_.records;
    const int64_t calls = std::min(records_goal - before, kBatchCalls);
    COPPICE_RETURN_IF_ERROR(RunDrawn(churning_, calls, progress));
    idle = report_.records == before ? idle + 1 : 0;
    if (idle == kIdleBatchesMax) {
      return MakeError(absl::StatusCode::kInternal,
                       "coppice soak: {} batches of the churn recorded nothing, after {} of {} "
                       "recordings; look for reasons with coppice prof",
                       idle, before, options_.records);
    }
  }
  return absl::OkStatus();
}

absl::Status Soak::WarmRounds() {
  const std::array<int64_t, 1> once = {0};
  Subject broken = broken_;
  broken.comes = true;
  COPPICE_RETURN_IF_ERROR(RunBatch(broken, once));
  for (int64_t round = 0; round < kKeptRounds; ++round)
    COPPICE_RETURN_IF_ERROR(Round());
  return IncludeInAnotherSession(1);
}

absl::Status Soak::ComeAndGo(int64_t rounds_goal, const SoakProgress& progress) {
  const int64_t before = report_.rounds;
  for (; report_.rounds < rounds_goal; ++report_.rounds) {
    COPPICE_RETURN_IF_ERROR(Round());
    COPPICE_RETURN_IF_ERROR(Report(progress));
  }
  return report_.rounds == before ? absl::OkStatus()
                                  : IncludeInAnotherSession(report_.rounds - before);
}

absl::Status Soak::Round() {
  const int64_t words = kWeightsBytes / WordBytes(1);
  const auto place = static_cast<DeviceAddress>(kWeightsBytes * (round_ % kWeightsPlaces));
  const Tensor weights =
      Tensor::Dense(parts_.weights.address() + place, DType::kInt32, {&words, 1});
  Subject guest = guest_;
  guest.comes = true;
  guest.round = round_++;
  COPPICE_ASSIGN_OR_RETURN(guest.binding, session_->Bind(*guest.program, {&weights, 1}));
  const std::array<int64_t, 2> twice = {0, 0};
  COPPICE_RETURN_IF_ERROR(RunBatch(guest, twice));
  COPPICE_RETURN_IF_ERROR(session_->Unbind(*guest.binding));
  const int64_t extent = broken_.step;
  const Tensor input = Tensor::Dense(parts_.inputs.address(), DType::kInt32, {&extent, 1});
  const int64_t salt = 0;
  Subject broken = broken_;
  broken.included = true;
  const absl::StatusOr<Lease> refused = Start(broken, {.program = broken.program,
                                                       .inputs = {&input, 1},
                                                       .scalars = {&salt, 1},
                                                       .stream = parts_.stream.handle()});
  if (refused.status().code() == absl::StatusCode::kFailedPrecondition) return absl::OkStatus();
  if (!refused.ok()) return refused.status();
  ++report_.mismatches;
  Find(fmt::format("round {}: a program with breaks was included as one graph", round_));
  return absl::OkStatus();
}

// What is included stays until its session ends, so one comes and goes as well.
absl::Status Soak::IncludeInAnotherSession(int64_t inclusions) {
  SessionOptions options;
  options.memory.window_bytes = kMiB;
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<Session> session,
                           Session::Create(context_, options));
  COPPICE_ASSIGN_OR_RETURN(Subject subject, Register(*session, "included", largest()));
  subject.comes = true;
  const std::array<int64_t, kBatchCalls> buckets{};
  COPPICE_RETURN_IF_ERROR(RunBatch(subject, std::span(buckets).first(1)));
  subject.included = true;
  for (int64_t left = inclusions; left > 0; left -= kBatchCalls) {
    const auto calls = static_cast<size_t>(std::min(left, kBatchCalls));
    COPPICE_RETURN_IF_ERROR(RunBatch(subject, std::span(buckets).first(calls)));
  }
  return absl::OkStatus();
}

// A batch of calls in buckets that are drawn.
absl::Status Soak::RunDrawn(const Subject& subject, int64_t calls, const SoakProgress& progress) {
  std::array<int64_t, kBatchCalls> buckets{};
  for (int64_t& bucket : buckets)
    bucket = static_cast<int64_t>(random_() % static_cast<uint64_t>(subject.buckets));
  COPPICE_RETURN_IF_ERROR(RunBatch(subject, std::span(buckets).first(static_cast<size_t>(calls))));
  return Report(progress);
}

absl::Status Soak::RunBatch(const Subject& subject, std::span<const int64_t> buckets) {
  std::array<Drawn, kBatchCalls> batch;
  const auto calls = static_cast<int64_t>(buckets.size());
  for (int64_t place = 0; place < calls; ++place) {
    Drawn& drawn = batch[static_cast<size_t>(place)];
    const auto less = static_cast<int64_t>(random_() % static_cast<uint64_t>(subject.step));
    drawn.extent = subject.step * (buckets[static_cast<size_t>(place)] + 1) - less;
    drawn.salt = static_cast<uint32_t>(random_());
    const uint64_t seed = random_();
    const std::span<uint32_t> words = WordsOf(input_words_, place, drawn.extent);
    for (size_t i = 0; i < words.size(); ++i)
      words[i] = InputWord(seed, static_cast<int64_t>(i));
  }
  const auto bytes = static_cast<size_t>(WordBytes(calls * largest()));
  COPPICE_RETURN_IF_ERROR(driver_.Call<&DriverTable::MemcpyHtoDAsync>(
      parts_.inputs.address(), static_cast<const void*>(input_words_.data()), bytes,
      parts_.stream.handle()));
  for (int64_t place = 0; place < calls; ++place)
    COPPICE_RETURN_IF_ERROR(RunCall(subject, batch[static_cast<size_t>(place)], place));
  COPPICE_RETURN_IF_ERROR(driver_.Call<&DriverTable::MemcpyDtoHAsync>(
      static_cast<void*>(output_words_.data()), parts_.outputs.address(), bytes,
      parts_.stream.handle()));
  COPPICE_RETURN_IF_ERROR(parts_.stream.Synchronize());
  launched_.clear();
  for (int64_t place = 0; place < calls; ++place)
    Check(subject, batch[static_cast<size_t>(place)], place);
  return absl::OkStatus();
}

absl::Status Soak::RunCall(const Subject& subject, const Drawn& drawn, int64_t place) {
  const auto offset = static_cast<DeviceAddress>(WordBytes(place * largest()));
  const Tensor input =
      Tensor::Dense(parts_.inputs.address() + offset, DType::kInt32, {&drawn.extent, 1});
  const std::array<int64_t, 2> scalars = {drawn.salt, subject.round};
  COPPICE_ASSIGN_OR_RETURN(
      const Lease lease,
      Start(subject, {.program = subject.program,
                      .binding = subject.binding,
                      .inputs = {&input, 1},
                      .scalars = std::span(scalars).first(subject.binding == nullptr ? 1 : 2),
                      .stream = parts_.stream.handle()}));
  Count(subject, drawn, lease);
  COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, lease.Read(parts_.stream.handle()));
  return driver_.Call<&DriverTable::MemcpyDtoDAsync>(
      parts_.outputs.address() + offset, scope.output(0).data,
      static_cast<size_t>(WordBytes(drawn.extent)), parts_.stream.handle());
}

// Runs the call, or launches a graph of the caller's that includes it.
absl::StatusOr<Lease> Soak::Start(const Subject& subject, const Call& call) {
  if (!subject.included) return subject.session->Run(call);
  COPPICE_ASSIGN_OR_RETURN(Capture capture, Capture::Begin(driver_, call.stream));
  absl::StatusOr<Lease> lease = subject.session->Include(call);
  COPPICE_ASSIGN_OR_RETURN(const Graph graph, capture.End());
  if (!lease.ok()) return lease;
  COPPICE_ASSIGN_OR_RETURN(GraphExec exec, GraphExec::Instantiate(driver_, graph));
  launched_.push_back(std::move(exec));
  COPPICE_RETURN_IF_ERROR(
      driver_.Call<&DriverTable::GraphLaunch>(launched_.back().handle(), call.stream));
  return lease;
}

void Soak::Count(const Subject& subject, const Drawn& drawn, const Lease& lease) {
  if (!warm_ || subject.comes) return;
  report_.replays += lease.kind() == RunKind::kReplay ? 1 : 0;
  report_.records += lease.kind() == RunKind::kRecord ? 1 : 0;
  if (&subject == &steady_) {
    ++traffic_calls_;
    if (lease.kind() == RunKind::kReplay) return;
    ++report_.strays;
    Find(fmt::format(
        "call {} of the traffic, {} words, took the path {} ({}), although its graph exists",
        traffic_calls_, drawn.extent, NameOf(lease.kind()), NameOf(lease.reason())));
  } else if (lease.kind() == RunKind::kEager) {
    ++report_.without_graph;
  }
}

void Soak::Check(const Subject& subject, const Drawn& drawn, int64_t place) {
  report_.checked += subject.comes ? 0 : 1;
  const std::vector<uint32_t> expected =
      SoakAnswer(WordsOf(input_words_, place, drawn.extent), drawn.salt);
  const std::span<const uint32_t> actual = WordsOf(output_words_, place, drawn.extent);
  const auto [right, wrong] = std::mismatch(expected.begin(), expected.end(), actual.begin());
  if (right == expected.end()) return;
  ++report_.mismatches;
  Find(fmt::format("call {}, program {}, {} words: word {} is {:#010x} instead of {:#010x}",
                   report_.checked, subject.name, drawn.extent, right - expected.begin(), *wrong,
                   *right));
}

absl::Status Soak::NoteMemory() {
  SoakMemory point = {
      .replays = report_.replays, .records = report_.records, .rounds = report_.rounds};
  size_t free = 0;
  size_t total = 0;
  COPPICE_RETURN_IF_ERROR(driver_.Call<&DriverTable::MemGetInfo>(&free, &total));
  point.own_bytes = session_->memory().usage().total;
  point.driver_free_bytes = static_cast<int64_t>(free);
  COPPICE_ASSIGN_OR_RETURN(point.host_rss_bytes, ResidentBytes());
  point.host_heap_bytes = HeapBytes();
  report_.memory.push_back(point);
  return absl::OkStatus();
}

void Soak::Find(std::string line) {
  if (report_.findings.size() < kFindingsMax) report_.findings.push_back(std::move(line));
}

}  // namespace

std::vector<uint32_t> SoakAnswer(std::span<const uint32_t> input, uint32_t salt) {
  const size_t extent = input.size();
  std::array<std::vector<uint32_t>, kSoakSteps + 1> values;
  values[0].assign(input.begin(), input.end());
  for (int step = 0; step < kSoakSteps; ++step) {
    const std::vector<uint32_t>& newer = values[static_cast<size_t>(step)];
    const std::vector<uint32_t>& older = values[static_cast<size_t>(SoakOlder(step))];
    std::vector<uint32_t>& target = values[static_cast<size_t>(step) + 1];
    target.resize(extent);
    for (size_t i = 0; i < extent; ++i)
      target[i] = SoakMix(newer[i], older[extent - 1 - i], salt + SoakConstant(step));
  }
  return std::move(values.back());
}

std::vector<std::string> FindGrowth(std::span<const SoakMemory> points, bool cuda) {
  COPPICE_CHECK(!points.empty(), "growth is between points");
  struct Figure {
    const char* name;
    int64_t (*held)(const SoakMemory& point);
    int64_t slack_bytes;
  };
  const std::array<Figure, 4> figures = {
      {{"the session's own", [](const SoakMemory& point) { return point.own_bytes; }, 0},
       {"the device's", [](const SoakMemory& point) { return -point.driver_free_bytes; },
        cuda ? 2 * kMiB : 0},
       {"the process's", [](const SoakMemory& point) { return point.host_rss_bytes; }, 8 * kMiB},
       {"the heap's", [](const SoakMemory& point) { return point.host_heap_bytes; },
        cuda ? 8 * kMiB : 64 * kKiB}}};
  const size_t quarter = std::max<size_t>(points.size() / 4, 1);
  const auto most = [](const Figure& figure, std::span<const SoakMemory> some) {
    int64_t bytes = figure.held(some.front());
    for (const SoakMemory& point : some)
      bytes = std::max(bytes, figure.held(point));
    return bytes;
  };
  std::vector<std::string> lines;
  for (const Figure& figure : figures) {
    const int64_t growth = most(figure, points.last(quarter)) - most(figure, points.first(quarter));
    if (growth <= figure.slack_bytes) continue;
    lines.push_back(fmt::format("{} memory grew by {} bytes; at most {} are allowed", figure.name,
                                growth, figure.slack_bytes));
  }
  return lines;
}

absl::StatusOr<SoakReport> RunSoak(const Context& context,
                                   const SoakOptions& options,
                                   const SoakProgress& progress) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<Soak> soak, Soak::Create(context, options));
  return soak->Run(progress);
}

}  // namespace coppice
