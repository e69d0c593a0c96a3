// Memory that comes and goes under traffic: what is refused, what stays, and that the books are
// right.

#include "coppice/base/check.h"

#include "tests/sim/traffic_simulation.h"

namespace coppice {

using absl::StatusCode;

namespace {

// Of memory that somebody else gets: what a lane's calls have used of a window, and more.
constexpr int64_t kLookedAtBytes = 16 * kKiB;

constexpr uint8_t kBorrowed = 0x5A;  // What borrowers write.

int64_t PhysicalBytes(const MemoryUsage& usage) {
  int64_t bytes = 0;
  for (int kind = 0; kind <= static_cast<int>(MemoryKind::kSpare); ++kind)
    bytes += usage.bytes[static_cast<size_t>(kind)];
  return bytes;
}

}  // namespace

TrafficSimulation::Verdict TrafficSimulation::JudgeLeases(int lane, bool window_only) const {
  Verdict verdict;
  for (const auto& [id, made] : made_) {
    if (!made.keeps_bytes() || made.lane != lane || (window_only && !made.window)) continue;
    const bool sure = made.sure && made.keeps_bytes(/*elements_min=*/1);
    (sure ? verdict.must : verdict.may).push_back(StatusCode::kFailedPrecondition);
  }
  return verdict;
}

void TrafficSimulation::CheckRefused(const char* what,
                                     const absl::Status& status,
                                     const Verdict& verdict) {
  if (status.ok()) {
    if (!verdict.must.empty()) Fail(what, "what had to be refused was done");
    return;
  }
  ++report_.memory_refused;
  for (const auto* codes : {&verdict.must, &verdict.may}) {
    if (std::ranges::find(*codes, status.code()) != codes->end()) return;
  }
  Fail(what, status.ToString());
}

// Moves a static input to a constant of the same contents.
void TrafficSimulation::PlaceConstant(DType dtype, CallerBuffer& buffer) {
  const absl::StatusOr<Tensor> constant = session_->memory().AddConstant(
      dtype, {&kStaticElements, 1}, [values = buffer.values](std::span<std::byte> bytes) {
        std::ranges::copy(std::as_bytes(std::span(values)), bytes.begin());
        return absl::OkStatus();
      });
  COPPICE_CHECK(constant.ok(), "no room for a constant");
  buffer.start = constant->data;
}

void TrafficSimulation::Suspend(const TrafficOperation& operation) {
  const SuspendOptions options{.constants = static_cast<SuspendedConstants>(operation.value % 3),
                               .refuse_leases = operation.refuses != 0,
                               .drop_graphs = operation.everything != 0};
  Verdict verdict;
  for (int lane = 0; lane < options_.lanes; ++lane) {
    const Verdict leases = JudgeLeases(lane, /*window_only=*/false);
    const bool must = (options.refuse_leases && !leases.must.empty()) || AnyScope(lane);
    if (must || Absent(lane)) verdict.must.push_back(StatusCode::kFailedPrecondition);
    if (options.refuse_leases && !leases.may.empty()) verdict.may = leases.may;
  }
  session_->WaitForRecordings();
  const MemoryUsage before = memory_.books();
  const absl::Status status = session_->memory().Suspend(options);
  if (TookFault() && !status.ok()) {
    // The session is as before, or suspended.
    if (suspended_) return;
    const absl::Status resumed = session_->memory().Resume();
    if (!resumed.ok() && resumed.code() != StatusCode::kFailedPrecondition)
      Fail("resume", resumed.ToString());
    return;
  }
  CheckRefused("suspend", status, verdict);
  if (!status.ok()) return;
  ++report_.suspensions;
  suspended_ = true;
  const int64_t constants = before.of(MemoryKind::kConstants);
  const int64_t kept = options.constants == SuspendedConstants::kKeep ? constants : 0;
  released_ = PhysicalBytes(before) - before.of(MemoryKind::kSpare) - kept;
  if (!faulted_ && device_.ledger().created_bytes() != kept) Fail("suspend", "it kept memory");
}

void TrafficSimulation::Resume() {
  Verdict verdict;
  if (!suspended_) verdict.must.push_back(StatusCode::kFailedPrecondition);
  const MemoryUsage before = memory_.books();
  const bool lacks = suspended_ && before.budget > 0 && before.total + released_ > before.budget;
  if (lacks) verdict.may.push_back(StatusCode::kResourceExhausted);
  const absl::Status status = session_->memory().Resume();
  if (!TookFault() || status.ok()) CheckRefused("resume", status, verdict);
  if (status.ok()) suspended_ = false;
}

void TrafficSimulation::Lend(const TrafficOperation& operation) {
  const int lane = LaneOf(operation);
  const auto index = static_cast<size_t>(lane);
  Verdict verdict = JudgeLeases(lane, /*window_only=*/true);
  if (Absent(lane)) verdict.must.push_back(StatusCode::kFailedPrecondition);
  if (!waited_) verdict.may.push_back(StatusCode::kFailedPrecondition);
  absl::StatusOr<Loan> loan = session_->memory().Lend(lane);
  if (TookFault() && !loan.ok()) return;
  CheckRefused("lend", loan.status(), verdict);
  if (!loan.ok()) return;
  ++report_.loans;
  if (loan->data() != memory_.window(lane, MemoryKind::kPlan).base ||
      loan->bytes() != memory_.window(lane, MemoryKind::kPlan).mapped_bytes)
    return Fail("lend", "not what is mapped of the plan window");
  borrowers_[index] = host_.stream(operation.stream);
  host_.Fill(loan->data(), kBorrowed, std::min(kLookedAtBytes, loan->bytes()), borrowers_[index]);
  loans_[index].emplace(*std::move(loan));
}

void TrafficSimulation::Return(const TrafficOperation& operation) {
  const auto index = static_cast<size_t>(LaneOf(operation));
  if (!loans_[index]) return;
  const CuStream stream = borrowers_[index];
  Loan& loan = *loans_[index];
  const auto bytes = static_cast<size_t>(std::min(kLookedAtBytes, loan.bytes()));
  host_.QueueRead(loan.data(), Bytes(bytes, kBorrowed), stream, TextOf(operation));
  if (operation.everything != 0) {
    host_.SynchronizeStream(stream);
  } else {
    Expect("return", loan.Return(stream));
  }
  loans_[index].reset();
}

void TrafficSimulation::Scrub(const TrafficOperation& operation) {
  const int lane = LaneOf(operation);
  const CuStream stream = host_.stream(operation.stream);
  Verdict verdict = JudgeLeases(lane, /*window_only=*/false);
  if (Absent(lane)) verdict.must.push_back(StatusCode::kFailedPrecondition);
  // A recording may map what was never scrubbed.
  session_->WaitForRecordings();
  const absl::Status status = session_->memory().Scrub(stream, lane);
  if (TookFault() && !status.ok()) return;
  CheckRefused("scrub", status, verdict);
  if (!status.ok()) return;
  ++report_.scrubs;
  for (const MemoryKind kind : kCallWindows) {
    const WindowInfo window = memory_.window(lane, kind);
    const auto bytes = static_cast<size_t>(std::min(kLookedAtBytes, window.mapped_bytes));
    host_.QueueRead(window.base, Bytes(bytes), stream, TextOf(operation));
  }
  // The next call does not know of these reads.
  host_.SynchronizeStream(stream);
}

void TrafficSimulation::TellExternal(const TrafficOperation& operation) {
  const int64_t bytes = operation.value * kKiB;
  Verdict verdict;
  if (bytes < 0) verdict.must.push_back(StatusCode::kInvalidArgument);
  const absl::Status status = session_->memory().SetExternalBytes(bytes);
  if (TookFault() && !status.ok()) return;
  if (MayLack(0, {}, bytes - external_)) verdict.may.push_back(StatusCode::kResourceExhausted);
  CheckRefused("external", status, verdict);
  if (!status.ok()) return;
  ++report_.external_changes;
  external_ = bytes;
}

void TrafficSimulation::Trim() {
  const absl::Status status = session_->memory().Trim();
  if (TookFault() && !status.ok()) return;
  if (!status.ok()) return Fail("trim failed", status.ToString());
  if (options_.background != 0) return;
  if (memory_.books().of(MemoryKind::kSpare) != 0) Fail("trim", "it kept spare memory");
  for (int lane = 0; lane < options_.lanes; ++lane) {
    const bool leased = std::ranges::any_of(made_, [lane](const auto& entry) {
      const Made& made = entry.second;
      return made.keeps_bytes() && made.lane == lane && !made.window;
    });
    if (!leased && !Absent(lane) && memory_.window(lane, MemoryKind::kEager).mapped_bytes != 0)
      Fail("trim", "it kept memory of warm-up and eager runs that nobody leases");
  }
}

bool TrafficSimulation::Stays(int lane, MemoryKind kind) const {
  if (memory_.window(lane, kind).mapped_bytes == 0) return false;
  if (kind != MemoryKind::kPlan && kind != MemoryKind::kEager) return true;
  return Absent(lane) || std::ranges::any_of(made_, [&](const auto& entry) {
           const Made& made = entry.second;
           const bool here = made.held && made.lane == lane && made.mode == OutputMode::kBorrow;
           return here && made.window == (kind == MemoryKind::kPlan);
         });
}

bool TrafficSimulation::MayLack(int lane,
                                std::span<const MemoryKind> windows,
                                int64_t bytes) const {
  if (options_.budget_kib == 0) return false;
  // What a recording holds cannot be known.
  if (options_.background != 0) return true;
  const MemoryUsage usage = memory_.books();
  const int64_t graphs = usage.of(MemoryKind::kGraphs);
  int64_t stuck = usage.total - usage.of(MemoryKind::kSpare);
  for (int other = 0; other < options_.lanes; ++other) {
    for (const MemoryKind kind : {MemoryKind::kPlan, MemoryKind::kEager})
      stuck -= Stays(other, kind) ? 0 : memory_.window(other, kind).mapped_bytes;
  }
  if (options_.on_budget == static_cast<int64_t>(OnLimit::kEvict)) {
    const int64_t leased = std::ranges::count_if(
        made_, [](const auto& entry) { return entry.second.held && entry.second.window; });
    stuck -= graphs - std::min(graphs, leased * kGraphBytesMax);
  }
  for (const MemoryKind kind : windows)
    stuck += Stays(lane, kind) ? 0 : kTrafficGranule;
  return stuck + bytes > usage.budget;
}

// The books are those of the driver, as long as nothing changes them meanwhile.
void TrafficSimulation::CheckMemory() {
  const MemoryUsage usage = memory_.books();
  if (usage.budget > 0 && usage.total_peak > usage.budget)
    Fail("budget", fmt::format("{} bytes of {}", usage.total_peak, usage.budget));
  if (usage.of(MemoryKind::kExternal) != external_)
    Fail("books", "the application's own bytes are not what it told");
  for (const std::optional<Loan>& loan : loans_) {
    if (loan && device_.ledger().MappedBytes(loan->data(), loan->bytes()) != loan->bytes())
      Fail("loan", "its memory went away");
  }
  if (options_.background != 0) return;
  // What a driver said of an unmapping that failed is not known to be true.
  if (!faulted_ && PhysicalBytes(usage) != device_.ledger().created_bytes()) {
    Fail("books", fmt::format("{} bytes in windows, {} by the ledger", PhysicalBytes(usage),
                              device_.ledger().created_bytes()));
  }
  if (now_ == nullptr || now_->kind != TrafficOperation::Kind::kSync) return;
  int64_t graphs = 0;
  std::map<std::pair<std::string, int>, int64_t> recorded;  // By program and lane.
  for (const NodeInfo& node : session_->nodes()) {
    graphs += node.exec_bytes;
    COPPICE_CHECK(node.exec_bytes <= kGraphBytesMax, "a larger graph than the model has room for");
    if (!node.recorded || node.retired) continue;
    if (++recorded[{node.program, node.lane}] > options_.graphs_max)
      Fail("limit", fmt::format("more graphs of {} than {}", node.program, options_.graphs_max));
  }
  if (graphs != usage.of(MemoryKind::kGraphs)) Fail("books", "graphs are not those that there are");
}

}  // namespace coppice
