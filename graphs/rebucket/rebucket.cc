// Learn, record, swap: in this order, so that whatever fails leaves the old ladder serving.

#include "graphs/rebucket/rebucket.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/plural.h"
#include "coppice/base/status.h"

#include "graphs/call/check.h"
#include "graphs/call/decide.h"
#include "graphs/call/record.h"
#include "graphs/call/warm.h"
#include "graphs/parts/retire.h"
#include "graphs/rebucket/bucket_bytes.h"
#include "graphs/rebucket/swap_policy.h"

namespace coppice::internal {
namespace {

constexpr char kRebucket[] = "Session::Rebucket";
constexpr int64_t kMinuteNs = 60'000'000'000;

// A root graph that a new ladder needs.
struct Successor {
  int lane = 0;
  BucketKey key;
};

int64_t SteadyNow() {
  return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Why a graph that was recorded in the background is not there.
absl::Status NotRecorded(const Request& request, Lane& lane) {
  const Bucket* const bucket = FindBucket(request, lane);
  const std::string why = bucket == nullptr ? "" : bucket->failure();
  return MakeError(
      why.empty() ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kFailedPrecondition,
      "{}: a bucket of program '{}' was not recorded: {}", kRebucket,
      request.call.program->spec.name, why.empty() ? "there was no room" : why);
}

class Rebucketing {
 public:
  Rebucketing(SessionParts& parts,
              const Program& program,
              int symbol,
              const RebucketOptions& options)
      : parts_(parts),
        program_(program),
        symbol_(static_cast<size_t>(symbol)),
        options_(options),
        ladder_(program.ladder(symbol_)) {}

  absl::StatusOr<RebucketReport> Run();

 private:
  // Whether the session can record for this program, on every lane. Errors: as
  // SessionPolicies::Rebucket.
  absl::Status Check() const;
  // Sets what a swap would do.
  absl::Status Learn(const SizeHistogram& histogram);
  RelearnOptions RelearnBy(const SizeHistogram& histogram) const;
  int64_t Allowance();  // Of graphs, at this time.
  std::vector<Successor> SuccessorsIn(const std::vector<int64_t>& buckets) const;
  absl::StatusOr<PaddingPolicy> PolicyOf(const std::vector<int64_t>& buckets) const;

  // Records the successors, each under its lane's lock. Errors: why one of them is not there.
  absl::Status RecordAll();
  absl::Status RecordOne(const Successor& successor);
  // Waits for what that left behind on a lane, and gives its memory back.
  absl::Status Finish(int lane);
  absl::StatusOr<CallShape> ShapeOf(const BucketKey& key, std::vector<int64_t>& scalars) const;

  // Under all lanes' locks: whether what was recorded is there still.
  absl::Status CheckKept() const;
  void DropRecorded();

  SessionParts& parts_;
  const Program& program_;
  const size_t symbol_;
  const RebucketOptions& options_;
  Ladder& ladder_;
  BucketBytes bytes_{{}};  // Empty as well if bytes are free.
  std::vector<Successor> successors_;
  std::vector<std::pair<int, NodeKey>> recorded_;  // By lane.
  RebucketReport report_;
};

absl::Status Rebucketing::Check() const {
  for (const std::unique_ptr<Lane>& lane : parts_.lanes) {
    const std::lock_guard lock(lane->mutex);
    COPPICE_RETURN_IF_ERROR(lane->memory().CheckPresent(kRebucket));
    if (lane->index > 0 || options_.dry_run) continue;
    const WarmOptions warm{.scratch = options_.scratch};
    const std::vector<int64_t> scalars(program_.spec.scalars.size());
    COPPICE_RETURN_IF_ERROR(CheckWarmed(
        parts_,
        {.program = program_, .binding = options_.binding, .scalars = scalars, .options = warm}));
  }
  return absl::OkStatus();
}

int64_t Rebucketing::Allowance() {
  const int64_t now = options_.now_ns ? options_.now_ns() : SteadyNow();
  std::deque<int64_t>& times = ladder_.recorded_ns;
  while (!times.empty() && now - times.front() >= kMinuteNs)
    times.pop_front();
  const int64_t left = options_.graphs_per_minute - static_cast<int64_t>(times.size());
  return std::clamp<int64_t>(left, 0, options_.graphs_max);
}

// Of the root graphs that are there, each in the buckets that take over from its own.
std::vector<Successor> Rebucketing::SuccessorsIn(const std::vector<int64_t>& buckets) const {
  const std::vector<int64_t> before = ladder_.policy.buckets();
  std::vector<Successor> successors;
  for (const std::unique_ptr<Lane>& lane : parts_.lanes) {
    const std::lock_guard lock(lane->mutex);
    std::unordered_set<BucketKey, KeyHash> roots;
    lane->nodes().Of(program_).ForEachNode([&roots](const Node& node) {
      if (node.key().surroundings == nullptr && !node.retired()) roots.insert(node.key().bucket);
    });
    std::unordered_set<BucketKey, KeyHash> needed;
    for (const BucketKey& root : roots) {
      const int64_t own = root.words[symbol_];
      const auto at = std::ranges::lower_bound(before, own);
      if (at == before.end() || *at != own || !program_.Pads(symbol_, own, Observe::kNo)) continue;
      const int64_t least = at == before.begin() ? 1 : *std::prev(at) + 1;
      // Those from the bucket of its least size to that of its largest.
      for (auto to = std::ranges::lower_bound(buckets, least); to != buckets.end(); ++to) {
        BucketKey key = root;
        key.words[symbol_] = *to;
        if (!roots.contains(key)) needed.insert(key);
        if (*to >= own) break;
      }
    }
    for (const BucketKey& key : needed)
      successors.push_back({.lane = lane->index, .key = key});
  }
  // The largest first, so that the pool grows once; in one order on every machine.
  std::ranges::sort(successors, [](const Successor& a, const Successor& b) {
    if (a.lane != b.lane) return a.lane < b.lane;
    const auto words = [](const BucketKey& key) {
      return std::span(key.words).first(static_cast<size_t>(key.word_count));
    };
    return std::ranges::lexicographical_compare(words(b.key), words(a.key));
  });
  return successors;
}

// Its price_of reads bytes_.
RelearnOptions Rebucketing::RelearnBy(const SizeHistogram& histogram) const {
  const SymbolSpec& symbol = program_.spec.symbols[symbol_];
  if (options_.cost_per_byte == 0)
    return options_.relearn ? *options_.relearn : RelearnFor(ladder_.policy, symbol.multiple_of);
  RelearnOptions relearn = options_.relearn
                               ? *options_.relearn
                               : RelearnFor(ladder_.policy, symbol.multiple_of,
                                            static_cast<int64_t>(symbol.policy.buckets().size()));
  LearnOptions& learn = relearn.learn;
  double calls = 0;
  for (const SizeCount& each : histogram.counts())
    if (each.size <= learn.limit) calls += each.count;
  learn.price_of = [this, rate = options_.cost_per_byte * calls, price = learn.price,
                    price_of = std::move(learn.price_of)](int64_t bucket) {
    return (price_of ? price_of(bucket) : price) + rate * bytes_.Of(bucket);
  };
  return relearn;
}

absl::Status Rebucketing::Learn(const SizeHistogram& histogram) {
  const std::vector<int64_t> before = ladder_.policy.buckets();
  report_.outcome = Rebucketed::kKept;
  report_.learned.buckets = before;
  if (options_.cost_per_byte > 0) bytes_ = BucketBytes::Measure(parts_, program_, symbol_);
  if (histogram.empty() || (options_.cost_per_byte > 0 && bytes_.empty())) return absl::OkStatus();
  RelearnOptions relearn = RelearnBy(histogram);
  const int64_t allowed = Allowance();
  COPPICE_ASSIGN_OR_RETURN(const Relearned wanted, Relearn(histogram, before, relearn));
  report_.learned = wanted;
  if (!wanted.swap) return absl::OkStatus();
  report_.outcome = Rebucketed::kLimited;
  for (Relearned learned = wanted;;) {
    std::vector<Successor> successors = SuccessorsIn(learned.buckets);
    if (static_cast<int64_t>(successors.size()) <= allowed) {
      report_.outcome = Rebucketed::kWouldSwap;
      report_.learned = std::move(learned);
      report_.graphs = static_cast<int64_t>(successors.size());
      successors_ = std::move(successors);
      return absl::OkStatus();
    }
    if (learned.added.empty()) break;
    relearn.added_max = static_cast<int64_t>(learned.added.size()) - 1;
    COPPICE_ASSIGN_OR_RETURN(learned, Relearn(histogram, before, relearn));
    if (!learned.swap) break;
  }
  report_.why =
      MakeError(absl::StatusCode::kResourceExhausted,
                "{}: the limit for new graphs is {} at this time, but the new buckets of symbol "
                "'{}' of program '{}' need more; raise graphs_max or graphs_per_minute, or wait",
                kRebucket, allowed, program_.spec.symbols[symbol_].name, program_.spec.name);
  return absl::OkStatus();
}

absl::StatusOr<PaddingPolicy> Rebucketing::PolicyOf(const std::vector<int64_t>& buckets) const {
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy,
                           PaddingPolicy::List(buckets, ladder_.policy.maximum()));
  PaddingGuard guard = ladder_.policy.guard();
  if (guard == PaddingGuard()) return policy;
  if (guard.lower_bounds.empty()) return policy.WithGuard(guard);
  // Buckets that stay keep theirs.
  const std::vector<int64_t> before = ladder_.policy.buckets();
  std::vector<int64_t> bounds;
  for (const int64_t bucket : policy.buckets()) {
    const auto at = std::ranges::lower_bound(before, bucket);
    bounds.push_back(*at == bucket ? guard.lower_bounds[static_cast<size_t>(at - before.begin())]
                                   : 0);
  }
  guard.lower_bounds = std::move(bounds);
  return policy.WithGuard(guard);
}

absl::StatusOr<CallShape> Rebucketing::ShapeOf(const BucketKey& key,
                                               std::vector<int64_t>& scalars) const {
  const size_t symbols = program_.spec.symbols.size();
  scalars.assign(program_.spec.scalars.size(), 0);
  for (size_t i = 0; i < program_.layout.key_scalars.size(); ++i)
    scalars[static_cast<size_t>(program_.layout.key_scalars[i])] = key.words[symbols + i];
  const auto extents = std::span(key.words).first(symbols);
  return ShapeAt(kRebucket, fmt::format("bucket [{}]", fmt::join(extents, ", ")), program_, extents,
                 scalars);
}

absl::Status Rebucketing::RecordOne(const Successor& successor) {
  Lane& lane = parts_.lane(successor.lane);
  std::unique_lock lock(lane.mutex);
  COPPICE_RETURN_IF_ERROR(lane.memory().CheckPresent(kRebucket));
  std::vector<int64_t> scalars;
  COPPICE_ASSIGN_OR_RETURN(const CallShape shape, ShapeOf(successor.key, scalars));
  const WarmOptions warm{.scratch = options_.scratch, .lane = lane.index};
  COPPICE_RETURN_IF_ERROR(CheckWarmed(
      parts_,
      {.program = program_, .binding = options_.binding, .scalars = scalars, .options = warm}));
  const Call call{.program = &program_,
                  .binding = options_.binding,
                  .inputs = {},
                  .scalars = scalars,
                  .stream = lane.order().own_stream().handle(),
                  .lane = lane.index};
  Call on_scratch = call;
  if (options_.scratch != nullptr) on_scratch.binding = options_.scratch;
  Request warmed(call, shape);
  Request scratch(on_scratch, shape);
  COPPICE_RETURN_IF_ERROR(TakeStatics(warmed));
  COPPICE_RETURN_IF_ERROR(TakeStatics(scratch));
  if (FindNode(warmed, lane) != nullptr) return absl::OkStatus();
  // No graph that serves goes for one that is to serve.
  const int64_t graphs = lane.nodes().Of(program_).CountGraphs();
  if (graphs >= parts_.options.limits.graphs_per_program_max)
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "{}: program '{}' has {} on lane {}; raise graphs_per_program_max", kRebucket,
                     program_.spec.name, Plural(graphs, "graph"), lane.index);
  lane.slots().Sweep();
  NodeKey key;
  key.statics = warmed.statics;
  key.bucket = successor.key;
  recorded_.reserve(recorded_.size() + 1);
  if (!RecordsInBackground(parts_, program_)) {
    COPPICE_RETURN_IF_ERROR(WarmOne(parts_, warmed, scratch, lane));
  } else {
    COPPICE_RETURN_IF_ERROR(WarmOneInBackground(parts_, warmed, scratch, lane));
    lock.unlock();
    parts_.background->Wait();
    lock.lock();
    if (FindNode(warmed, lane) == nullptr) return NotRecorded(warmed, lane);
  }
  recorded_.emplace_back(lane.index, key);
  return absl::OkStatus();
}

absl::Status Rebucketing::RecordAll() {
  absl::Status status;
  for (size_t i = 0; i < successors_.size() && status.ok(); ++i) {
    status = parts_.sticky.Note(RecordOne(successors_[i]));
    const int lane = successors_[i].lane;
    const bool last = i + 1 == successors_.size() || successors_[i + 1].lane != lane;
    // Nothing orders the lanes' runs on the same scratch.
    if (!status.ok() || last) status.Update(parts_.sticky.Note(Finish(lane)));
  }
  const int64_t now = options_.now_ns ? options_.now_ns() : SteadyNow();
  ladder_.recorded_ns.insert(ladder_.recorded_ns.end(), recorded_.size(), now);
  report_.graphs = static_cast<int64_t>(recorded_.size());
  return status;
}

absl::Status Rebucketing::Finish(int lane) {
  const std::lock_guard lock(parts_.lane(lane).mutex);
  COPPICE_RETURN_IF_ERROR(parts_.lane(lane).memory().CheckPresent(kRebucket));
  return FinishWarming(parts_, parts_.lane(lane));
}

absl::Status Rebucketing::CheckKept() const {
  for (const auto& [lane, key] : recorded_) {
    if (parts_.lane(lane).nodes().Of(program_).Find(key) != nullptr) continue;
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "{}: a new graph of program '{}' evicted another new graph; raise the budget",
                     kRebucket, program_.spec.name);
  }
  return CheckRegistered(kRebucket, program_);
}

// Takes back what nobody would find.
void Rebucketing::DropRecorded() {
  for (const std::unique_ptr<Lane>& lane : parts_.lanes) {
    lane->nodes().RetireBuckets(program_, [&](const BucketKey& key) {
      return std::ranges::any_of(recorded_, [&](const auto& each) {
        return each.first == lane->index && each.second.bucket == key &&
               !program_.IsBucket(symbol_, key.words[symbol_]);
      });
    });
  }
}

absl::StatusOr<RebucketReport> Rebucketing::Run() {
  COPPICE_RETURN_IF_ERROR(Check());
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(DropVanished(parts_)));
  const SizeHistogram histogram = ladder_.observer->Fold();
  report_.calls = ladder_.observer->calls();
  if (report_.calls - ladder_.learned_at < options_.period) return report_;
  COPPICE_RETURN_IF_ERROR(Learn(histogram));
  report_.bytes_before = bytes_.Of(ladder_.policy.buckets());
  report_.bytes_after = bytes_.Of(report_.learned.buckets);
  if (report_.outcome != Rebucketed::kWouldSwap) {
    if (!options_.dry_run) ladder_.learned_at = report_.calls;
    return report_;
  }
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy, PolicyOf(report_.learned.buckets));
  COPPICE_RETURN_IF_ERROR(CheckPolicy(kRebucket, program_, static_cast<int>(symbol_), policy));
  if (options_.dry_run) return report_;
  ladder_.learned_at = report_.calls;
  report_.why = RecordAll();
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Get());
  {
    const auto locks = parts_.LockIdleLanes();
    if (report_.why.ok()) report_.why = CheckKept();
    report_.outcome = report_.why.ok() ? Rebucketed::kSwapped : Rebucketed::kNotRecorded;
    if (report_.why.ok())
      SwapPolicy(parts_, program_, static_cast<int>(symbol_), std::move(policy));
    else
      DropRecorded();
  }
  // What does not go now goes later.
  (void)parts_.sticky.Note(DropVanished(parts_));
  return report_;
}

}  // namespace

absl::StatusOr<RebucketReport> Rebucket(SessionParts& parts,
                                        const Program& program,
                                        int symbol,
                                        const RebucketOptions& options) {
  COPPICE_ASSIGN_OR_RETURN(const Ladder* ladder, FindLadder(kRebucket, parts, program, symbol));
  if (ladder->observer == nullptr) return NotObserved(kRebucket, program, symbol);
  if (!MayPad(program.spec, symbol))
    return InvalidArgument("{}: symbol '{}' of program '{}' is never padded", kRebucket,
                           program.spec.symbols[static_cast<size_t>(symbol)].name,
                           program.spec.name);
  if (options.period < 0 || options.graphs_max < 0 || options.graphs_per_minute < 0)
    return InvalidArgument(
        "{}: period is {}, graphs_max is {} and graphs_per_minute is {}; give 0 or more for each",
        kRebucket, options.period, options.graphs_max, options.graphs_per_minute);
  if (!(options.cost_per_byte >= 0 && std::isfinite(options.cost_per_byte)))
    return InvalidArgument("{}: the cost per byte is {}; give a finite number of 0 or more",
                           kRebucket, options.cost_per_byte);
  if (parts.options.ranks.vote && !options.dry_run)
    return FailedPrecondition(
        "{}: the ranks of program '{}' vote, so they must swap buckets at the same call; learn "
        "in a dry run on one rank, and pass its buckets to SetPolicy on each rank",
        kRebucket, program.spec.name);
  return Rebucketing(parts, program, symbol, options).Run();
}

}  // namespace coppice::internal
