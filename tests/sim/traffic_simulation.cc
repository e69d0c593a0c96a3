// The world: set-up, leases, bindings, what is done ahead of calls, and the end.

#include "tests/sim/traffic_simulation.h"

#include "coppice/base/check.h"

namespace coppice {

using absl::StatusCode;
using Kind = TrafficOperation::Kind;

namespace {

Emulator::Options EmulatorOptionsOf(const TrafficOptions& options) {
  Emulator::Options emulator;
  emulator.memory_bytes = 64 * kMiB;
  emulator.seed = static_cast<uint64_t>(options.order);
  emulator.eager_permille = static_cast<int>(options.eager_permille);
  // Nothing here looks at device memory from the host, and guarding it takes most of the time.
  emulator.strictness.host_access = false;
  return emulator;
}

// What the session takes at its beginning.
int64_t FirstBytes(const TrafficOptions& options) {
  return options.lanes * AlignUp(options.copy_out_bytes, kTrafficGranule) +
         (options.constants != 0 ? kTrafficGranule : 0);
}

SessionOptions SessionOptionsOf(const TrafficOptions& options) {
  const int64_t budget = options.budget_kib * kKiB;
  return {.lanes = static_cast<int>(options.lanes),
          .warmup_runs = static_cast<int>(options.warmup_runs),
          .record_in_background = options.background != 0,
          .gate = options.gate != 0,
          .limits = {.graphs_per_program_max = static_cast<int>(options.graphs_max),
                     .rerecords_per_bucket_max = static_cast<int>(options.rerecords_max),
                     .static_moves_max = 1,
                     .on_limit = static_cast<OnLimit>(options.on_limit)},
          .memory = {.copy_out_bytes = options.copy_out_bytes,
                     .budget_bytes = budget > 0 ? FirstBytes(options) + budget : 0,
                     .on_budget = static_cast<OnLimit>(options.on_budget)},
          .checks = {.audit_keys = options.audit_keys != 0,
                     .addresses = options.check_addresses != 0,
                     .fill_expired = options.poison_expired != 0}};
}

}  // namespace

TrafficSimulation::TrafficSimulation(const TrafficOptions& options, PlantedDefect planted)
    : options_(options),
      planted_(planted),
      device_(EmulatorOptionsOf(options), DriverLedger::Options()),
      host_(device_),
      traffic_(host_.driver()),
      session_(*Session::Create(device_.context(), SessionOptionsOf(options))),
      memory_(session_->memory()) {
  COPPICE_CHECK(memory_.window(0, MemoryKind::kPlan).granularity == kTrafficGranule,
                "another granule");
  const TrafficSymbol symbol{.kind = static_cast<SymbolKind>(options.symbol_kind),
                             .exclude_01 = options.exclude_01 != 0};
  std::vector<TrafficProgram> programs(TrafficPrograms().begin(), TrafficPrograms().end());
  for (TrafficProgram& program : programs) {
    program.dtype = static_cast<DType>(options.dtype);
    program.other_dtype = static_cast<DType>(options.other_dtype);
  }
  if (options.packages != 0) package_.emplace(device_.context(), programs, symbol);
  for (TrafficProgram& program : programs) {
    Registered& added =
        programs_.emplace_back(Registered{.spec = program,
                                          .symbol = symbol,
                                          .packaged = package_ && FitsPackage(program),
                                          .sets = {}});
    if (added.packaged) {
      // Which a package does not say.
      added.spec.over_maximum = OverMaximum::kEager;
      added.symbol.kind = SymbolKind::kDynamic;
    }
    added.registered = Register(added);
    const bool mutated = program.statics == TrafficProgram::Static::kMutated;
    for (int64_t set = 0; program.binds() && set <= kTrafficStatics; ++set) {
      StaticSet& made = added.sets.emplace_back(host_.MakeStatics(program, set));
      if (options.constants != 0 && !mutated && set % 2 == 0)
        PlaceConstant(program.DTypeOf(TrafficBuffer::kStatic), *made.input);
    }
  }
}

const Program* TrafficSimulation::Register(const Registered& program) {
  const auto exact = static_cast<ExactReplay>((options_.packages - 1) % 3);
  return program.packaged ? *package_->Register(*session_, program.spec, exact)
                          : *session_->Register(SpecOf(program.spec, program.symbol),
                                                CallableOf(program.spec, traffic_));
}

TrafficReport TrafficSimulation::Run(const std::vector<TrafficOperation>& operations) {
  for (const TrafficOperation& operation : operations) {
    now_ = &operation;
    Do(operation);
    waited_ = operation.kind == Kind::kSync;
    CheckMemory();
    if (!report_.failure.empty()) break;
  }
  Close();
  return report_;
}

void TrafficSimulation::Do(const TrafficOperation& operation) {
  switch (operation.kind) {
    case Kind::kCall:
      return RunCall(operation);
    case Kind::kInclude:
      return Include(operation);
    case Kind::kRead:
      return Read(operation);
    case Kind::kHold:
      return Hold(operation);
    case Kind::kLoose:
      return Loose(FindMade(operation.id));
    case Kind::kDrop:
      return Drop(operation);
    case Kind::kRelease:
      return Release(operation);
    case Kind::kSplit:
      return Split(operation);
    case Kind::kChain:
      return OpenChain(LaneOf(operation));
    case Kind::kUnchain:
      return chains_[static_cast<size_t>(LaneOf(operation))].reset();
    case Kind::kSync:
      return Synchronize();
    case Kind::kBind:
      (void)BindingOf(ProgramOf(operation), operation.statics, /*again=*/true);
      return;
    case Kind::kUnbind:
      return Unbind(operation);
    case Kind::kEvict: {
      const bool all = operation.everything != 0;
      return Expect("evict",
                    session_->Evict(all ? nullptr : ProgramOf(operation).registered).status());
    }
    case Kind::kReset:
      return Reset(operation);
    case Kind::kWarm:
      return Warm(operation);
    case Kind::kTrim:
      return Trim();
    case Kind::kSuspend:
      return Suspend(operation);
    case Kind::kResume:
      return Resume();
    case Kind::kLend:
      return Lend(operation);
    case Kind::kReturn:
      return Return(operation);
    case Kind::kScrub:
      return Scrub(operation);
    case Kind::kExternal:
      return TellExternal(operation);
    case Kind::kStance:
      stance_ = static_cast<Stance>(operation.value);
      return session_->SetStance(stance_);
    case Kind::kSeed:
      return SetSeed(static_cast<uint64_t>(operation.value));
    case Kind::kFault:
      return Inject(operation);
    case Kind::kRebucket:
      return Rebucket(operation);
    case Kind::kPolicy:
      return SetPolicy(operation);
    case Kind::kBreakdown:
      traffic_.fails_in = std::max<int64_t>(operation.nth, 1);
      return;
  }
}

void TrafficSimulation::Fail(const std::string& kind, const std::string& text) {
  if (!report_.failure.empty()) return;
  report_.failure =
      fmt::format("{}: {}\n  at: {}", kind, text, now_ != nullptr ? TextOf(*now_) : "the end");
}

void TrafficSimulation::Expect(const char* what, const absl::Status& status) {
  if (TookFault() || status.ok()) return;
  Fail(fmt::format("{} failed", what), status.ToString());
}

Made* TrafficSimulation::FindMade(int64_t id) {
  const auto found = made_.find(id);
  return found == made_.end() ? nullptr : &found->second;
}

void TrafficSimulation::Inject(const TrafficOperation& operation) {
  // Not kInvalidValue, which ends an enumeration of parameters.
  constexpr CuResult kResults[] = {CuResult::kOutOfMemory, CuResult::kInvalidHandle,
                                   CuResult::kNotSupported};
  const int64_t nth = std::max<int64_t>(operation.nth, 1);
  device_.ledger().ClearFaults();
  device_.ledger().Inject(
      {.nth = nth, .result = kResults[static_cast<size_t>(operation.value) % 3]});
}

bool TrafficSimulation::TookFault() {
  const bool broke = traffic_.failed.exchange(false);
  const int64_t faulted = device_.ledger().faulted();
  if (std::exchange(faults_seen_, faulted) == faulted) return broke;
  return faulted_ = true;
}

// Whether reading a lease went as it may.
bool TrafficSimulation::CheckRead(const Made& made, const absl::Status& status) {
  const bool fault = TookFault();
  const bool absent = Absent(made.lane);
  if (absent && status.ok()) {
    Fail("read", "outputs whose memory is away were readable");
    return false;
  }
  if (fault || status.ok()) return true;
  if (status.code() != StatusCode::kFailedPrecondition || (made.sure && !absent)) {
    Fail("lost", status.ToString());
    return false;
  }
  ++report_.reads_refused;
  return true;
}

void TrafficSimulation::QueueReads(Made& made, CuStream stream) {
  for (size_t i = 0; !made.unknown && i < made.outputs.size(); ++i) {
    if (made.outputs[i].gone) continue;
    if (made.outputs[i].shared != nullptr) host_.Order(*made.outputs[i].shared, stream);
    const std::string reader = now_ != nullptr ? TextOf(*now_) : "the end";
    host_.QueueRead(made.outputs[i], stream, fmt::format("{}, output {}", reader, i));
    ++report_.outputs_compared;
  }
}

void TrafficSimulation::Read(const TrafficOperation& operation) {
  Made* made = FindMade(operation.id);
  if (made == nullptr || !made->held) return;
  const CuStream stream = host_.stream(operation.stream);
  const absl::StatusOr<ReadScope> scope = made->lease.Read(stream);
  if (CheckRead(*made, scope.status()) && scope.ok()) QueueReads(*made, stream);
}

void TrafficSimulation::Hold(const TrafficOperation& operation) {
  Made* made = FindMade(operation.id);
  if (made == nullptr || !made->held || made->scope) return;
  made->scope_stream = host_.stream(operation.stream);
  absl::StatusOr<ReadScope> scope = made->lease.Read(made->scope_stream);
  if (CheckRead(*made, scope.status()) && scope.ok()) made->scope.emplace(*std::move(scope));
}

void TrafficSimulation::Loose(Made* made) {
  if (made == nullptr || !made->scope) return;
  QueueReads(*made, made->scope_stream);
  made->scope.reset();
  (void)TookFault();
}

void TrafficSimulation::Drop(const TrafficOperation& operation) {
  Made* made = FindMade(operation.id);
  if (made == nullptr || !made->held || made->scope) return;
  made->lease.Release();
  made->held = false;
}

void TrafficSimulation::Release(const TrafficOperation& operation) {
  Made* made = FindMade(operation.id);
  if (made == nullptr || !made->held || made->scope) return;
  const CuStream stream = host_.stream(operation.stream);
  bool readable = false;
  {
    const absl::StatusOr<ReadScope> scope = made->lease.Read(stream);
    if (!CheckRead(*made, scope.status())) return;
    readable = scope.ok();
  }
  if (readable) QueueReads(*made, stream);
  made->held = false;
  Expect("release", made->lease.Release(stream));
}

// What is left is the part of another output, or of the only one.
void TrafficSimulation::Split(const TrafficOperation& operation) {
  Made* made = FindMade(operation.id);
  if (made == nullptr || !made->held || made->scope || made->lease.part() >= 0) return;
  absl::StatusOr<std::vector<Lease>> parts = made->lease.Split();
  if (!parts.ok()) return Fail("split", parts.status().ToString());
  if (parts->size() != made->outputs.size()) return Fail("split", "not a part per output");
  const size_t dropped = static_cast<size_t>(operation.output) % parts->size();
  const size_t kept = (dropped + 1) % parts->size();
  made->lease = std::move((*parts)[kept]);
  for (size_t i = 0; i < parts->size(); ++i)
    made->outputs[i].gone = i != kept;
}

void TrafficSimulation::OpenChain(int lane) {
  std::optional<ChainScope>& chain = chains_[static_cast<size_t>(lane)];
  absl::StatusOr<ChainScope> opened = session_->Chain(lane);
  if (opened.ok() == chain.has_value())
    return Fail("chain", "a lane has one chain at a time, and can have one");
  if (!opened.ok()) return;
  chain.emplace(*std::move(opened));
  for (auto& [id, made] : made_) {
    if (made.lane == lane) made.in_path = false;
  }
}

// The binding of a set; null after a fault or a failure. Binds it if it never was, or `again`.
const Binding* TrafficSimulation::BindingOf(Registered& program, int64_t index, bool again) {
  if (!program.spec.binds()) return nullptr;
  StaticSet& set = program.sets[static_cast<size_t>(index) % program.sets.size()];
  if (set.binding != nullptr && !again) return set.binding;
  const std::vector<Tensor> tensors = set.Tensors(program.spec);
  const absl::StatusOr<const Binding*> binding = session_->Bind(*program.registered, tensors);
  if (TookFault() && !binding.ok()) return nullptr;
  if (!binding.ok()) {
    Fail("bind failed", binding.status().ToString());
    return nullptr;
  }
  if (set.binding != nullptr && set.binding != *binding)
    Fail("bind", "equal addresses gave another binding");
  set.binding = *binding;
  set.bound = true;
  return *binding;
}

void TrafficSimulation::Unbind(const TrafficOperation& operation) {
  Registered& program = ProgramOf(operation);
  if (!program.spec.binds()) return;
  StaticSet& set = program.sets[static_cast<size_t>(operation.statics % kTrafficStatics)];
  if (set.binding == nullptr) return;
  set.bound = false;
  Expect("unbind", session_->Unbind(*set.binding));
}

void TrafficSimulation::Reset(const TrafficOperation& operation) {
  Registered& program = ProgramOf(operation);
  if (operation.everything == 0) return Expect("reset", session_->Reset(*program.registered));
  const Program& gone = *program.registered;
  // Whatever fails, it is unregistered from then on.
  Expect("unregister", session_->Unregister(gone));
  if (session_->Unregister(gone).code() != StatusCode::kFailedPrecondition)
    Fail("unregister", "it was done twice");
  program.registered = Register(program);
  for (StaticSet& set : program.sets) {
    set.binding = nullptr;
    set.bound = false;
  }
}

bool TrafficSimulation::AtGraphLimit(const TrafficProgram& program, int lane) const {
  const std::vector<NodeInfo> nodes = session_->nodes();
  return std::count_if(nodes.begin(), nodes.end(), [&](const NodeInfo& node) {
           return node.recorded && node.program == program.name && node.lane == lane;
         }) >= options_.graphs_max;
}

void TrafficSimulation::Warm(const TrafficOperation& operation) {
  Registered& program = ProgramOf(operation);
  const TrafficProgram& spec = program.spec;
  const std::optional<int64_t> bucket = BucketOf(program, 0, operation.extent);
  if (!bucket) return;
  const Binding* binding = BindingOf(program, operation.statics, /*again=*/false);
  const Binding* scratch = BindingOf(program, kTrafficStatics, /*again=*/false);
  if (spec.binds() && (binding == nullptr || scratch == nullptr)) return;
  const bool bound =
      !spec.binds() || program.sets[static_cast<size_t>(operation.statics % kTrafficStatics)].bound;
  std::vector<int64_t> buckets[] = {{*bucket}};
  if (spec.second != TrafficProgram::Second::kNone) {
    const std::optional<int64_t> second = BucketOf(program, 1, SecondOf(spec, operation));
    if (!second) return;
    buckets[0].push_back(*second);
  }
  const std::array<int64_t, 2> scalars = ScalarsOf(spec, operation);
  session_->WaitForRecordings();
  const absl::Status status =
      session_->warming().Warm(*program.registered, binding, buckets,
                               std::span(scalars).first(static_cast<size_t>(spec.scalars())),
                               {.scratch = scratch, .lane = LaneOf(operation)});
  if (TookFault()) return;
  // What broke down in an earlier recording stays without a graph.
  if (status.code() == StatusCode::kFailedPrecondition && traffic_.broke) return;
  const int lane = LaneOf(operation);
  if (status.code() == StatusCode::kResourceExhausted &&
      (MayLack(lane, kCallWindows, kGraphBytesMax) || AtGraphLimit(spec, lane))) {
    return;
  }
  const StatusCode wanted = stance_ != Stance::kRecord ? StatusCode::kFailedPrecondition
                            : !bound                   ? StatusCode::kInvalidArgument
                            : Absent(lane)             ? StatusCode::kFailedPrecondition
                                                       : StatusCode::kOk;
  if (status.code() != wanted) Fail("warm", status.ToString());
}

void TrafficSimulation::Rebucket(const TrafficOperation& operation) {
  Registered& program = ProgramOf(operation);
  const TrafficProgram& spec = program.spec;
  const Binding* binding = BindingOf(program, operation.statics, /*again=*/false);
  const Binding* scratch = BindingOf(program, kTrafficStatics, /*again=*/false);
  if (spec.binds() && (binding == nullptr || scratch == nullptr)) return;
  const bool bound =
      !spec.binds() || program.sets[static_cast<size_t>(operation.statics % kTrafficStatics)].bound;
  session_->WaitForRecordings();
  const std::vector<int64_t> before =
      session_->policies().GetPolicy(*program.registered, 0)->buckets();
  const RebucketOptions options{
      .relearn = RelearnOptions{.learn = {.limit = kLargestExtent,
                                          .count = std::max<int64_t>(operation.value, 1)}},
      .period = 0,
      .graphs_max = static_cast<int>(operation.nth),
      .graphs_per_minute = 1000,
      .now_ns = [] { return 0; },
      .binding = binding,
      .scratch = scratch};
  const absl::StatusOr<RebucketReport> report =
      session_->policies().Rebucket(*program.registered, 0, options);
  const bool swapped = report.ok() && report->outcome == Rebucketed::kSwapped;
  if (session_->policies().GetPolicy(*program.registered, 0)->buckets() !=
      (swapped ? report->learned.buckets : before))
    return Fail("rebucket", "the ladder is neither the old one nor what was reported");
  report_.swaps += swapped ? 1 : 0;
  if (TookFault()) return;
  bool absent = false;
  for (int lane = 0; lane < options_.lanes; ++lane)
    absent |= Absent(lane);
  const StatusCode wanted = !MayPad(SpecOf(spec, program.symbol), 0) ? StatusCode::kInvalidArgument
                            : absent || stance_ != Stance::kRecord ? StatusCode::kFailedPrecondition
                            : !bound                               ? StatusCode::kInvalidArgument
                                                                   : StatusCode::kOk;
  if (report.status().code() != wanted) return Fail("rebucket", report.status().ToString());
  if (!report.ok() || report->outcome != Rebucketed::kNotRecorded) return;
  // Several graphs at once may lack room where one does not.
  if (options_.budget_kib > 0 || options_.graphs_max < 1024) return;
  if (!traffic_.broke) Fail("rebucket", report->why.ToString());
}

void TrafficSimulation::SetPolicy(const TrafficOperation& operation) {
  Registered& program = ProgramOf(operation);
  const int64_t buckets[] = {operation.extent, operation.m};
  const absl::Status status = session_->policies().SetPolicy(
      *program.registered, 0, *PaddingPolicy::List(buckets, kLargestExtent));
  if (TookFault()) return;
  report_.swaps += status.ok() ? 1 : 0;
  const StatusCode wanted = MayPad(SpecOf(program.spec, program.symbol), 0)
                                ? StatusCode::kOk
                                : StatusCode::kInvalidArgument;
  if (status.code() != wanted) Fail("policy", status.ToString());
}

// A call that failed behind its last launch has used its numbers up, any other has not.
void TrafficSimulation::SettleRandomNumbers() {
  const int64_t offset = session_->generator().GetState().offset;
  if (offset != offset_ && offset != offset_ + kRandomNumbersUsed)
    Fail("random", fmt::format("offset {} after {}", offset, offset_));
  offset_ = offset;
}

void TrafficSimulation::SetSeed(uint64_t seed) {
  seed_ = seed;
  offset_ = 0;
  session_->SetSeed(seed);
}

void TrafficSimulation::Synchronize() {
  session_->WaitForRecordings();
  host_.Synchronize();
  const std::string wrong = host_.CheckReads();
  if (!wrong.empty()) Fail("wrong bytes", wrong);
  const std::vector<std::string> reports = device_.emulator().reports();
  if (!reports.empty()) Fail("reported", reports[0]);
}

void TrafficSimulation::Close() {
  device_.ledger().ClearFaults();
  for (auto& [id, made] : made_)
    Loose(&made);
  for (std::optional<ChainScope>& chain : chains_)
    chain.reset();
  Synchronize();
  now_ = nullptr;
  for (std::optional<Loan>& loan : loans_)
    loan.reset();
  CheckStats();
  if (options_.outlive == 0) made_.clear();
  session_.reset();
  for (const auto& [id, made] : made_) {
    if (made.lease.Read(host_.stream(0)).status().code() != StatusCode::kFailedPrecondition)
      Fail("read", "a lease was read after its session was gone");
  }
  made_.clear();
}

void TrafficSimulation::CheckStats() {
  report_.stats = session_->stats();
  int64_t calls = 0;
  for (const int64_t count : report_.stats.runs)
    calls += count;
  int64_t without = report_.stats.runs[static_cast<size_t>(RunKind::kReplay)] +
                    report_.stats.runs[static_cast<size_t>(RunKind::kInclude)];
  for (const int64_t count : report_.stats.reasons)
    without += count;
  if (calls != report_.stats.calls || without != calls)
    Fail("stats", "paths and reasons do not add up to the calls");
}

}  // namespace coppice
