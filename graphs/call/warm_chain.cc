// The walk over the places that the calls of a chain can stand at.

#include "graphs/call/warm_chain.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/call/check.h"
#include "graphs/call/decide.h"
#include "graphs/call/extents.h"
#include "graphs/call/place.h"
#include "graphs/call/warm.h"
#include "graphs/node/region.h"
#include "graphs/node/surroundings.h"

namespace coppice::internal {
namespace {

using Feed = WarmStep::Feed;

// Whether `is` says so of a feed of the step, be it of an input or of a count.
template <typename Is>
bool AnyFeed(const WarmStep& step, const Is& is) {
  return std::ranges::any_of(step.feeds, is) || std::ranges::any_of(step.counts, is);
}

bool FeedsItself(std::span<const WarmStep> chain, size_t step) {
  return AnyFeed(chain[step], [step](const Feed& feed) { return feed.step == step; });
}

// The steps whose output the feed can be: its own step's, and the one before, if it feeds itself.
std::vector<size_t> SourcesOf(const Feed& feed, size_t step) {
  if (feed.step != step) return {feed.step};
  return {step - 1, step};
}

// Requires: equal ranks.
bool Covers(const Tensor& made, const Tensor& read) {
  return std::equal(made.sizes.begin(), made.sizes.begin() + made.rank, read.sizes.begin(),
                    [](int64_t has, int64_t needs) { return has >= needs; });
}

// Whether a feed among those of inputs or of counts, as `what` calls one of `there`, is of one that
// there is, from a step that can have run and has that output.
absl::Status CheckSource(std::span<const WarmStep> chain,
                         size_t step,
                         std::span<const Feed> feeds,
                         const Feed& feed,
                         const char* what,
                         size_t there) {
  const std::string& name = chain[step].program->spec.name;
  if (feed.input >= there || feed.step > step || (feed.step == step && step == 0)) {
    return InvalidArgument(
        "Session::Warm: step {} feeds {} {} from step {}, but program '{}' has only {} of these, "
        "or the source step is not earlier; a step can read from an earlier step or, unless it is "
        "the first, from itself",
        step, what, feed.input, feed.step, name, there);
  }
  if (std::ranges::count(feeds, feed.input, &Feed::input) > 1)
    return InvalidArgument("Session::Warm: step {} feeds {} {} of program '{}' twice", step, what,
                           feed.input, name);
  for (const size_t source : SourcesOf(feed, step)) {
    const ProgramSpec& producer = chain[source].program->spec;
    if (feed.output >= producer.outputs.size())
      return InvalidArgument(
          "Session::Warm: step {} reads output {} of program '{}', whose number of outputs is {}",
          step, feed.output, producer.name, producer.outputs.size());
  }
  return absl::OkStatus();
}

absl::Status CheckFeed(std::span<const WarmStep> chain,
                       std::span<const CallShape> shapes,
                       size_t step,
                       const Feed& feed) {
  const Program& program = *chain[step].program;
  COPPICE_RETURN_IF_ERROR(
      CheckSource(chain, step, chain[step].feeds, feed, "input", program.layout.copies.size()));
  const InputSpec& input = program.copied_input(feed.input);
  for (const size_t source : SourcesOf(feed, step)) {
    const ProgramSpec& producer = chain[source].program->spec;
    const OutputSpec& output = producer.outputs[feed.output];
    const Tensor made = PlacedTensor(0, output, shapes[source].padded);
    const Tensor read = PlacedTensor(0, input.dtype, program.CallersDims(feed.input), input.strides,
                                     shapes[step].padded);
    const bool same = made.dtype == read.dtype && made.rank == read.rank;
    if (output.role == OutputRole::kStatic || !same || !Covers(made, read))
      return InvalidArgument(
          "Session::Warm: output '{}' of program '{}' cannot be input '{}' of program '{}': it is "
          "static, has another dtype or rank, or is too small",
          output.name, producer.name, input.name, program.spec.name);
  }
  return absl::OkStatus();
}

absl::Status CheckCount(std::span<const WarmStep> chain, size_t step, const Feed& feed) {
  const Program& program = *chain[step].program;
  COPPICE_RETURN_IF_ERROR(
      CheckSource(chain, step, chain[step].counts, feed, "count", program.layout.counted.size()));
  for (const size_t source : SourcesOf(feed, step)) {
    const ProgramSpec& producer = chain[source].program->spec;
    const OutputSpec& output = producer.outputs[feed.output];
    if (output.role == OutputRole::kStatic || !Count::Takes(output.dtype))
      return InvalidArgument(
          "Session::Warm: output '{}' of program '{}' cannot be {} of program '{}': it is static, "
          "or not i32 or i64",
          output.name, producer.name, NameOfCount(program, feed.input), program.spec.name);
  }
  return absl::OkStatus();
}

// Whether a call at the bucket but for an extent just below `above`, which is in it, is so, too.
bool IsIn(const Program& program, const CallShape& bucket, size_t symbol, int64_t above) {
  if (above <= 1) return false;
  if (!program.IsJoint(symbol)) return !program.IsBucket(symbol, above - 1);
  ExtentArray below = bucket.padded;
  below[symbol] = above - 1;
  return program.PadsJointly(below, bucket.padded);
}

// The least extent from 1 on of which that holds.
int64_t LeastIn(const Program& program, const CallShape& bucket, size_t symbol) {
  int64_t extent = bucket.padded[symbol];
  while (IsIn(program, bucket, symbol, extent))
    --extent;
  return extent;
}

// A step whose lease is held, on the path: where its outputs lie.
struct Held {
  size_t step = 0;
  std::vector<Region> regions;
  std::vector<Tensor> outputs;

  friend bool operator==(const Held& a, const Held& b) {
    return a.step == b.step && a.regions == b.regions &&
           std::ranges::equal(a.outputs, b.outputs, {}, &Tensor::data, &Tensor::data);
  }
};

// What comes next, and what is held by then.
struct Stand {
  size_t step = 0;
  std::vector<Held> path;

  const Held* Find(size_t held) const {
    const auto found = std::ranges::find(path, held, &Held::step);
    return found == path.end() ? nullptr : &*found;
  }
  friend bool operator==(const Stand&, const Stand&) = default;
};

// A graph that the chain needs, by what it is found with.
struct Needed {
  size_t step = 0;
  CallShape shape;
  Surroundings around;

  // Below its bucket a call needs the same graph.
  friend bool operator==(const Needed& a, const Needed& b) {
    return a.step == b.step && a.around == b.around;
  }
};

class Walk {
 public:
  Walk(const SessionParts& parts,
       std::span<const WarmStep> chain,
       std::span<const CallShape> shapes,
       const WarmOptions& options,
       Lane& lane)
      : parts_(parts), chain_(chain), shapes_(shapes), options_(options), lane_(lane) {}

  absl::Status Run() {
    stands_.push_back({});
    size_t reported = 0;
    // Grows while it is walked. A stand is copied: so does the list's memory.
    for (size_t at = 0; at < stands_.size(); ++at) {
      const Stand stand = stands_[at];
      for (const Variant& variant : VariantsOf(stand.step))
        COPPICE_RETURN_IF_ERROR(Pass(stand, variant));
      if (options_.progress && stand.step >= reported) {
        reported = stand.step + 1;
        options_.progress(static_cast<int64_t>(reported), std::ssize(chain_));
      }
    }
    COPPICE_RETURN_IF_ERROR(FinishWarming(parts_, lane_));
    return CheckKept();
  }

 private:
  Call CallOf(size_t step, const Binding* binding) const {
    return {.program = chain_[step].program,
            .binding = binding,
            .inputs = {},
            .scalars = chain_[step].scalars,
            .stream = lane_.order().own_stream().handle(),
            .lane = lane_.index};
  }

  // Symbols for which being below the bucket decides whether an output can be read where it lies.
  std::set<size_t> DecidingSymbols(size_t step) const {
    const Program& program = *chain_[step].program;
    std::set<size_t> symbols;
    for (const Feed& feed : chain_[step].feeds) {
      for (const Dim& dim : program.copied_input(feed.input).dims) {
        if (dim.is_fixed()) continue;
        const uint32_t read = program.SymbolsOf(uint32_t{1} << ExtentOf(dim));
        for (size_t symbol = 0; symbol < program.spec.symbols.size(); ++symbol)
          if ((read >> symbol & 1) != 0) symbols.insert(symbol);
      }
    }
    return symbols;
  }

  // A call of the step, and which symbols the device decides, a bit each.
  struct Variant {
    CallShape shape;
    uint32_t counted = 0;
  };

  // The shape as it is, and in each set of those symbols below the bucket: by one, and as far as it
  // goes, as an expression need not differ by one. What the device may decide is below any bucket.
  std::vector<Variant> VariantsOf(size_t step) const {
    const Program& program = *chain_[step].program;
    std::vector<Variant> variants = {{shapes_[step]}};
    for (const size_t symbol : DecidingSymbols(step)) {
      if (program.spec.symbols[symbol].counted) {
        for (size_t i = 0, end = variants.size(); i < end; ++i)
          variants.emplace_back(Variant(variants[i])).counted |= uint32_t{1} << symbol;
        continue;
      }
      const int64_t below = shapes_[step].padded[symbol] - 1;
      if (!IsIn(program, shapes_[step], symbol, below + 1)) continue;
      std::vector<int64_t> extents = {below};
      const int64_t least = LeastIn(program, shapes_[step], symbol);
      if (!program.extents.empty() && least < below) extents.push_back(least);
      for (size_t i = 0, end = variants.size(); i < end; ++i) {
        for (const int64_t extent : extents)
          variants.emplace_back(Variant(variants[i])).shape.real[symbol] = extent;
      }
    }
    // Two that are below it need not be in the bucket because each is.
    std::erase_if(variants, [&](const Variant& variant) {
      return !program.PadsJointly(variant.shape.real, variant.shape.padded);
    });
    if (program.extents.empty()) return variants;
    // Some of them are no calls, or none of this bucket.
    const std::span<const int64_t> scalars = chain_[step].scalars;
    std::erase_if(variants, [&](Variant& variant) {
      CallShape& shape = variant.shape;
      return !ComputeExtents(program, scalars, "Session::Warm", shape.real).ok() ||
             !PadExpressions(program, scalars, shape);
    });
    return variants;
  }

  // Finds what the call is planned around.
  void Place(const Stand& stand, uint32_t counted, Surroundings& around, Request& request) {
    const Program& program = *request.call.program;
    around.in_place.assign(program.layout.copies.size(), -1);
    around.live.clear();
    around.donated.clear();
    bool child = false;
    for (const Feed& feed : chain_[stand.step].feeds) {
      const Held* held = stand.Find(feed.step);
      if (held == nullptr && feed.step == stand.step) held = stand.Find(feed.step - 1);
      if (held == nullptr) continue;  // It was written over: the caller has copied it.
      const InputSpec& spec = program.copied_input(feed.input);
      const Tensor& output = held->outputs[feed.output];
      Tensor tensor = AtExtents(output, program.CallersDims(feed.input), request.shape.real);
      const Fit fit = FitOf(program, spec, tensor, output, request.shape.padded,
                            counted | program.layout.ragged_totals);
      child |= spec.mutated || fit != Fit::kNoFit;
      if (fit == Fit::kInPlace)
        around.in_place[feed.input] =
            static_cast<int64_t>(tensor.data - lane_.memory().base(MemoryKind::kPlan));
    }
    if (!child) return;
    for (const Held& held : stand.path)
      around.live.insert(around.live.end(), held.regions.begin(), held.regions.end());
    FindSurroundings(around, request, lane_);
  }

  // Whether a step from `next` on reads what `held` made, if `next` is yet to run for the first
  // time or has run.
  bool IsRead(size_t held, size_t next, bool first) const {
    for (size_t step = next; step < chain_.size(); ++step) {
      const auto reads = [&](const Feed& feed) {
        if (feed.step == held && (held != step || step == next)) return true;
        return feed.step == step && step == held + 1 && (step > next || first);
      };
      if (AnyFeed(chain_[step], reads)) return true;
    }
    return false;
  }

  void GoOn(std::vector<Held> path, size_t next, bool first) {
    if (next == chain_.size()) return;
    std::erase_if(path, [&](const Held& held) { return !IsRead(held.step, next, first); });
    Stand stand{.step = next, .path = std::move(path)};
    if (std::ranges::find(stands_, stand) == stands_.end()) stands_.push_back(std::move(stand));
  }

  // Sees to it that the call has its graph where it stands, and goes on from there.
  absl::Status Pass(const Stand& stand, const Variant& variant) {
    const CallShape& shape = variant.shape;
    const WarmStep& step = chain_[stand.step];
    const Call call = CallOf(stand.step, step.binding);
    const Call on_scratch =
        CallOf(stand.step, step.scratch != nullptr ? step.scratch : step.binding);
    Request request(call, shape);
    Request scratch(on_scratch, shape);
    COPPICE_RETURN_IF_ERROR(TakeStatics(request));
    COPPICE_RETURN_IF_ERROR(TakeStatics(scratch));
    Needed needed{.step = stand.step, .shape = shape, .around = {}};
    Place(stand, variant.counted, needed.around, request);
    const bool child = request.child();
    if (std::ranges::find(needed_, needed) == needed_.end()) needed_.push_back(needed);
    if (std::ssize(needed_) > GraphsMax()) return CheckKept();
    COPPICE_RETURN_IF_ERROR(WarmOne(parts_, request, scratch, lane_));
    const Node* node = Find(request, needed);
    if (node == nullptr) return CheckKept();
    std::vector<Held> path = child ? stand.path : std::vector<Held>();
    std::erase_if(path, [&](const Held& held) { return held.step == stand.step; });
    path.push_back({.step = stand.step,
                    .regions = node->output_regions(),
                    .outputs = node->outputs().tensors});
    if (FeedsItself(chain_, stand.step)) GoOn(path, stand.step, /*first=*/false);
    GoOn(std::move(path), stand.step + 1, /*first=*/true);
    return absl::OkStatus();
  }

  const Node* Find(Request& request, Needed& needed) {
    FindSurroundings(needed.around, request, lane_);
    return FindNode(request, lane_);
  }

  // The most that can be there at once, so that a walk ends which drops what it has recorded.
  int64_t GraphsMax() const {
    return parts_.options.limits.graphs_per_program_max * std::ssize(chain_);
  }

  // Later graphs may have taken the room of earlier ones.
  absl::Status CheckKept() {
    size_t kept = 0;
    for (Needed& needed : needed_) {
      const Call call = CallOf(needed.step, chain_[needed.step].binding);
      Request request(call, needed.shape);
      COPPICE_RETURN_IF_ERROR(TakeStatics(request));
      kept += Find(request, needed) != nullptr ? 1 : 0;
    }
    if (kept == needed_.size()) return absl::OkStatus();
    return NotKept(*chain_[needed_.back().step].program, needed_.size(), kept);
  }

  const SessionParts& parts_;
  const std::span<const WarmStep> chain_;
  const std::span<const CallShape> shapes_;
  const WarmOptions& options_;
  Lane& lane_;
  std::vector<Stand> stands_;
  std::vector<Needed> needed_;
};

}  // namespace

absl::StatusOr<std::vector<CallShape>> CheckChain(const SessionParts& parts,
                                                  std::span<const WarmStep> chain,
                                                  const WarmOptions& options) {
  std::vector<CallShape> shapes;
  for (const WarmStep& step : chain) {
    if (step.program == nullptr)
      return InvalidArgument("Session::Warm: step {} has no program", shapes.size());
    WarmOptions own{.scratch = step.scratch, .lane = options.lane};
    const WarmRequest request{
        .program = *step.program, .binding = step.binding, .scalars = step.scalars, .options = own};
    COPPICE_ASSIGN_OR_RETURN(const std::vector<CallShape> shape,
                             CheckWarm(parts, request, {&step.bucket, 1}));
    shapes.push_back(shape.front());
  }
  for (size_t i = 0; i < chain.size(); ++i) {
    for (const Feed& feed : chain[i].feeds)
      COPPICE_RETURN_IF_ERROR(CheckFeed(chain, shapes, i, feed));
    for (const Feed& count : chain[i].counts)
      COPPICE_RETURN_IF_ERROR(CheckCount(chain, i, count));
  }
  return shapes;
}

absl::Status WarmChain(const SessionParts& parts,
                       std::span<const WarmStep> chain,
                       std::span<const CallShape> shapes,
                       const WarmOptions& options,
                       Lane& lane) {
  COPPICE_RETURN_IF_ERROR(lane.memory().CheckPresent("Session::Warm"));
  if (lane.chain().open())
    return FailedPrecondition("Session::Warm: lane {} has an open chain; end it first", lane.index);
  lane.slots().Sweep();
  return Walk(parts, chain, shapes, options, lane).Run();
}

}  // namespace coppice::internal
