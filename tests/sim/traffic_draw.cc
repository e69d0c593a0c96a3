// Scripts from seeds: what kinds of traffic there are, and how often.

#include "tests/sim/traffic_programs.h"
#include "tests/sim/traffic_script.h"

namespace coppice {
namespace {

using Kind = TrafficOperation::Kind;

constexpr int64_t kDTypes = static_cast<int64_t>(DType::kUInt64) + 1;
constexpr int64_t kGranuleKib = kTrafficGranule / kKiB;

class Drawing {
 public:
  Drawing(uint64_t seed, int64_t calls)
      : random_(seed), ladders_(~seed), packages_(~seed * 3), calls_(calls) {}

  TrafficScript Draw() {
    DrawOptions();
    // Each seed has its own mix: a few programs, a few extents, and how often what happens.
    for (int i = 0; i < 4; ++i) {
      programs_.push_back(Below(static_cast<int64_t>(TrafficPrograms().size())));
      // Buckets of all policies, so that outputs are often read where they lie.
      extents_.push_back(OneIn(2) ? 16 << (2 * Below(2)) : Below(kLargestExtent) + 1);
    }
    chains_ = Below(30);
    faults_ = OneIn(2) ? 0 : Below(10);
    chances_ = Below(25);
    keeps_ = 1 + Below(6);
    sources_ = Below(95);
    follows_ = Below(100);
    swaps_ = Below(20);
    hops_ = OneIn(2) ? 0 : Below(30);
    memory_ = OneIn(2) ? 0 : Below(15);
    learns_ = LadderBelow(2) == 0 ? 0 : LadderBelow(12);
    while (next_id_ <= calls_) {
      Before();
      AddCall();
      After();
    }
    return std::move(script_);
  }

 private:
  // Of another generator, as packages are, so that scripts are the same but for these.
  int64_t LadderBelow(int64_t bound) {
    return static_cast<int64_t>(ladders_() % static_cast<uint64_t>(bound));
  }
  // The same on every machine, unlike the distributions of the standard library.
  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }
  bool OneIn(int64_t chance) { return Below(chance) == 0; }
  bool Percent(int64_t chance) { return Below(100) < chance; }

  void DrawOptions() {
    TrafficOptions& options = script_.options;
    options.order = Below(1000) + 1;
    options.eager_permille = OneIn(2) ? 0 : Below(1001);
    options.lanes = OneIn(3) ? 2 : 1;
    options.warmup_runs = OneIn(3) ? 1 + Below(3) : 1;
    if (OneIn(5)) {
      options.graphs_max = Below(10);
      options.on_limit = OneIn(4) ? Below(3) : 2 * Below(2);
    }
    if (OneIn(4)) options.rerecords_max = Below(4);
    if (OneIn(2)) options.copy_out_bytes = 256 * (1 + Below(20));
    options.background = OneIn(10) ? 1 : 0;
    options.gate = OneIn(6) ? 1 : 0;
    options.audit_keys = OneIn(6) ? 1 : 0;
    options.check_addresses = OneIn(4) ? 1 : 0;
    options.poison_expired = OneIn(3) ? 1 : 0;
    constexpr SymbolKind kKinds[] = {SymbolKind::kDynamic, SymbolKind::kMaybeDynamic,
                                     SymbolKind::kStatic, SymbolKind::kAuto};
    if (OneIn(3)) options.symbol_kind = static_cast<int64_t>(kKinds[Below(4)]);
    options.exclude_01 = OneIn(4) ? 1 : 0;
    options.dtype = Below(kDTypes);
    options.other_dtype = OneIn(3) ? Below(kDTypes) : options.dtype;
    options.outlive = OneIn(2) ? 1 : 0;
    lanes_ = options.lanes;
    options.packages = packages_() % 2 == 0 ? 0 : 1 + static_cast<int64_t>(packages_() % 3);
    options.constants = OneIn(3) ? 1 : 0;
    if (!OneIn(3)) return;
    // A lane takes three windows of 2 MiB, and a few hundred KiB of graphs.
    options.budget_kib = kGranuleKib * (1 + lanes_ + Below(2 * lanes_ + 1)) + Below(1024);
    options.on_budget = Below(3);
  }

  TrafficOperation& Add(Kind kind) {
    script_.operations.push_back({.kind = kind});
    return script_.operations.back();
  }

  int64_t DrawProgram() {
    if (Percent(15)) return Below(static_cast<int64_t>(TrafficPrograms().size()));
    return programs_[static_cast<size_t>(Below(static_cast<int64_t>(programs_.size())))];
  }

  int64_t DrawExtent() {
    if (Percent(4)) return Below(2);
    if (Percent(4)) return kLargestExtent + 1 + Below(16);
    if (Percent(15)) return Below(kLargestExtent + 1);
    return extents_[static_cast<size_t>(Below(static_cast<int64_t>(extents_.size())))];
  }

  int64_t DrawStatics() { return Percent(swaps_) ? Below(kTrafficStatics) : 0; }
  int64_t DrawStream() { return Percent(hops_) ? Below(kTrafficStreams) : 0; }

  // Some call before, the last ones most often; 0 if there is none.
  int64_t DrawEarlier() {
    const int64_t back = OneIn(20) ? Below(40) : Below(keeps_ + 1);
    return std::max<int64_t>(0, next_id_ - 1 - back);
  }

  // What may happen before a call.
  void Before() {
    if (Percent(chains_)) Add(OneIn(2) ? Kind::kChain : Kind::kUnchain).lane = Below(lanes_);
    if (Percent(faults_)) {
      TrafficOperation& fault = Add(Kind::kFault);
      fault.nth = 1 + Below(OneIn(4) ? 40 : 8);
      fault.value = Below(3);
    }
    if (Percent(faults_) && OneIn(3)) Add(Kind::kBreakdown).nth = 1 + Below(8);
    AddDue();
    if (LadderBelow(100) < learns_) AddLadder();
    if (Percent(memory_)) AddMemory();
    if (!Percent(chances_)) return;
    switch (Below(10)) {
      case 0: {
        TrafficOperation unbind{
            .kind = Kind::kUnbind, .program = DrawProgram(), .statics = DrawStatics()};
        script_.operations.push_back(unbind);
        if (OneIn(12)) return;
        unbind.kind = Kind::kBind;
        script_.operations.push_back(unbind);
        return;
      }
      case 1:
        script_.operations.push_back(
            {.kind = Kind::kBind, .program = DrawProgram(), .statics = Below(kTrafficStatics)});
        return;
      case 2: {
        TrafficOperation& evict = Add(OneIn(3) ? Kind::kReset : Kind::kEvict);
        evict.program = DrawProgram();
        evict.everything = OneIn(evict.kind == Kind::kReset ? 2 : 8) ? 1 : 0;
        return;
      }
      case 3:
      case 4: {
        TrafficOperation& warm = Add(Kind::kWarm);
        warm.program = DrawProgram();
        warm.extent = DrawExtent();
        warm.m = DrawExtent();
        warm.statics = DrawStatics();
        warm.lane = Below(lanes_);
        return;
      }
      case 5:
        Add(Kind::kTrim);
        return;
      case 6:
        // Back to recording before long.
        Add(Kind::kStance).value = OneIn(2) ? Below(4) : 0;
        stance_for_ = Below(8);
        return;
      case 7:
        Add(Kind::kSeed).value = Below(100);
        return;
      case 8:
        Add(Kind::kSync);
        return;
      case 9: {
        // A recording in the background may meet the capture that the caller begins for it.
        if (script_.options.background != 0) return;
        TrafficOperation& include = Add(Kind::kInclude);
        DrawInput(include);
        include.id = -next_id_;  // Of no call.
        include.nth = 1 + Below(3);
        return;
      }
    }
  }

  // Buckets that are others from here on.
  void AddLadder() {
    TrafficOperation& ladder = Add(LadderBelow(3) > 0 ? Kind::kRebucket : Kind::kPolicy);
    ladder.program = programs_[static_cast<size_t>(LadderBelow(4))];
    ladder.extent = 1 + LadderBelow(kLargestExtent);
    ladder.m = 1 + LadderBelow(kLargestExtent);
    ladder.statics = LadderBelow(4) == 0 ? LadderBelow(kTrafficStatics) : 0;
    ladder.value = 1 + LadderBelow(6);
    ladder.nth = LadderBelow(4) == 0 ? LadderBelow(3) : 16;
  }

  // What becomes of memory.
  void AddMemory() {
    switch (Below(4)) {
      case 0: {
        TrafficOperation suspend{.kind = Kind::kSuspend, .value = Below(3)};
        suspend.everything = OneIn(5) ? 1 : 0;
        suspend.refuses = OneIn(5) ? 1 : 0;
        if (suspend.refuses != 0) DropSome();
        script_.operations.push_back(suspend);
        return AddLater({.kind = Kind::kResume});
      }
      case 1: {
        DropSome();
        // Nothing may be in flight.
        if (!OneIn(4)) Add(Kind::kSync);
        TrafficOperation lend{
            .kind = Kind::kLend, .lane = Below(lanes_), .stream = Below(kTrafficStreams)};
        script_.operations.push_back(lend);
        lend.kind = Kind::kReturn;
        lend.stream = Below(kTrafficStreams);
        lend.everything = OneIn(3) ? 1 : 0;
        return AddLater(lend);
      }
      case 2: {
        DropSome();
        TrafficOperation& scrub = Add(Kind::kScrub);
        scrub.lane = Below(lanes_);
        scrub.stream = DrawStream();
        return;
      }
      case 3:
        DropSome();
        Add(Kind::kExternal).value = OneIn(3) ? 0 : Below(5 * lanes_ * kGranuleKib) - 1;
        return;
    }
  }

  // Before one of the next calls; operations of memory may fail, and what ends them may too.
  void AddLater(const TrafficOperation& operation) {
    later_.emplace_back(next_id_ + Below(4), operation);
    if (OneIn(4)) later_.emplace_back(next_id_ + 4 + Below(4), operation);
  }
  void AddDue() {
    std::erase_if(later_, [this](const auto& entry) {
      if (entry.first > next_id_) return false;
      script_.operations.push_back(entry.second);
      return true;
    });
  }

  // What leases would keep from going.
  void DropSome() {
    if (OneIn(3)) return;
    AddFor(Kind::kLoose, std::exchange(loose_id_, 0));
    for (int64_t id = next_id_ - 1; id >= 1 && id >= next_id_ - 2 * keeps_; --id)
      AddFor(Kind::kDrop, id);
  }

  void AddCall() {
    if (stance_for_-- == 0) Add(Kind::kStance);
    TrafficOperation& call = Add(Kind::kCall);
    call.id = next_id_;
    DrawInput(call);
    if (Percent(sources_)) {
      call.source = Percent(follows_) ? next_id_ - 1 : DrawEarlier();
      if (call.source > 0 && !OneIn(20)) call.lane = lane_of_[static_cast<size_t>(call.source)];
      call.output = OneIn(3) ? 1 : 0;
      call.shorter = OneIn(8) ? Below(6) : 0;
      call.scoped = OneIn(8) ? 1 : 0;
      call.unnamed = OneIn(8) ? 1 : 0;
      call.donate = OneIn(4) ? 1 : 0;
    }
    if (Percent(sources_)) call.other = DrawEarlier();
    lane_of_.push_back(call.lane);
    call.mode = OneIn(5) ? Below(3) : 0;
    call.target = Below(kTrafficBuffers);
    call.padding = OneIn(6) ? Below(3) : 0;
    call.explain = OneIn(6) ? 1 : 0;
    ++next_id_;
  }

  // What a call without outputs of others takes, and where it runs.
  void DrawInput(TrafficOperation& operation) {
    operation.program = DrawProgram();
    operation.extent = DrawExtent();
    operation.m = DrawExtent();
    operation.data = Below(kTrafficBuffers);
    operation.skip = OneIn(10) ? Below(5) : 0;
    operation.layout = OneIn(8) ? Below(4) : 0;
    if (!OneIn(3)) operation.count = OneIn(2) ? -1 : 1 + Below(kTrafficCounts);
    operation.scalar = OneIn(8) ? Below(3) : 0;
    operation.statics = DrawStatics();
    operation.lane = Below(lanes_);
    operation.stream = DrawStream();
  }

  // What becomes of this lease and of earlier ones.
  void After() {
    if (OneIn(2)) AddFor(Kind::kRead, next_id_ - 1);
    if (OneIn(4)) AddFor(Kind::kRead, DrawEarlier());
    // A scope lasts a few calls, which may be refused because of it.
    if (loose_id_ == 0 && OneIn(20)) {
      loose_id_ = DrawEarlier();
      loose_at_ = next_id_ + 1 + Below(3);
      AddFor(Kind::kHold, loose_id_);
    } else if (loose_id_ != 0 && next_id_ >= loose_at_) {
      AddFor(Kind::kLoose, std::exchange(loose_id_, 0));
    }
    if (OneIn(8)) {
      AddFor(Kind::kSplit, DrawEarlier());
      script_.operations.back().output = Below(2);
    }
    if (OneIn(10)) AddFor(Kind::kRelease, DrawEarlier());
    if (OneIn(4)) AddFor(Kind::kDrop, DrawEarlier());
    // The rest goes in order of age, but some stay.
    if (next_id_ > keeps_ && !OneIn(20)) AddFor(Kind::kDrop, next_id_ - keeps_);
    if (OneIn(20)) Add(Kind::kSync);
  }

  void AddFor(Kind kind, int64_t id) {
    if (id < 1) return;
    TrafficOperation& operation = Add(kind);
    operation.id = id;
    operation.stream = DrawStream();
  }

  std::mt19937_64 random_;
  std::mt19937_64 ladders_;
  std::mt19937_64 packages_;
  const int64_t calls_;
  TrafficScript script_;
  std::vector<int64_t> programs_;
  std::vector<int64_t> extents_;
  std::vector<int64_t> lane_of_ = {0};                       // By id.
  std::vector<std::pair<int64_t, TrafficOperation>> later_;  // By the id of the call before which.
  int64_t next_id_ = 1;
  int64_t lanes_ = 1;
  int64_t stance_for_ = -1;
  int64_t loose_id_ = 0;
  int64_t loose_at_ = 0;
  // In percent, but for `keeps_`: how many calls a lease is usually held.
  int64_t chains_ = 0;
  int64_t faults_ = 0;
  int64_t chances_ = 0;
  int64_t keeps_ = 1;
  int64_t sources_ = 0;
  int64_t follows_ = 0;
  int64_t swaps_ = 0;
  int64_t hops_ = 0;
  int64_t memory_ = 0;
  int64_t learns_ = 0;
};

}  // namespace

TrafficScript DrawScript(uint64_t seed, int64_t calls) {
  return Drawing(seed, calls).Draw();
}

}  // namespace coppice
