// Which sizes a call gets, and setting an executable to them.

#include "graphs/call/exact.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "coppice/base/status.h"

#include "graphs/call/eager.h"
#include "graphs/call/holder.h"
#include "graphs/call/replay.h"
#include "graphs/record/captured.h"
#include "graphs/record/sized_run.h"

namespace coppice::internal {
namespace {

absl::StatusOr<Lease> ReplayAsSet(const SessionParts& parts,
                                  const Request& request,
                                  Lane& lane,
                                  Node& node,
                                  const Outcome& outcome) {
  return lane.recorder() != nullptr ? ReplayWithEntry(parts, request, lane, node, outcome)
                                    : Replay(parts, request, lane, node, outcome);
}

// Sizes at which a program may run: its symbols name them.
BucketKey SizesOf(const Program& program, const ExtentArray& extents) {
  BucketKey sizes;
  sizes.word_count = static_cast<int>(program.spec.symbols.size());
  std::copy_n(extents.begin(), sizes.word_count, sizes.words.begin());
  return sizes;
}

// Whether each input has room in its place, and lies as the program reads it if that is no staged
// one.
bool InputsFit(const Request& request, const ExtentArray& extents, const InputLayout& layout) {
  const Program& program = *request.call.program;
  for (const int index : program.layout.copies) {
    const InputSpec& input = program.spec.inputs[static_cast<size_t>(index)];
    const Tensor exact = PlacedTensor(0, input, extents);
    const Tensor place = PlacedTensor(0, input, request.shape.padded);
    if (RoundedBytes(exact) > RoundedBytes(place)) return false;
    if (!layout.Stages(index) && !StridesMatch(exact, place)) return false;
  }
  return true;
}

// One call's look at an executable.
class Setting {
 public:
  Setting(const SessionParts& parts, const Request& request, Lane& lane, Node& node)
      : parts_(parts),
        request_(request),
        lane_(lane),
        node_(node),
        exact_(*node.exact()),
        program_(*request.call.program) {}

  // Sets it to the call's sizes or those of the bucket. Returns whether it was set to others.
  absl::StatusOr<bool> Choose() {
    const ExtentArray& real = request_.shape.real;
    const BucketKey sizes = SizesOf(program_, real);
    // A size that comes once is not worth a setting that the bucket's may stand for.
    if (exact_.Repeats(sizes) || program_.spec.exact == ExactReplay::kAlways) {
      COPPICE_ASSIGN_OR_RETURN(const SizedSteps* const steps, StepsAt(sizes, real));
      if (steps != nullptr) return Set(sizes, real, *steps);
    }
    const ExtentArray& padded = request_.shape.padded;
    if (exact_.IsSetTo(padded)) return false;
    const BucketKey bucket = SizesOf(program_, padded);
    COPPICE_ASSIGN_OR_RETURN(const SizedSteps* const steps, StepsAt(bucket, padded));
    COPPICE_CHECK(steps != nullptr,
                  "an executable cannot be set to the sizes that it was made for");
    return Set(bucket, padded, *steps);
  }

 private:
  // What is to be set for these sizes; null: they are not of the family, or do not fit the plan.
  // Looks once at each.
  absl::StatusOr<const SizedSteps*> StepsAt(const BucketKey& sizes, const ExtentArray& extents) {
    if (const std::optional<const SizedSteps*> found = exact_.Find(sizes)) return *found;
    if (!InputsFit(request_, extents, node_.layout())) return exact_.Keep(sizes, nullptr);
    exact_.ForgetSet();  // The layout is of other sizes now.
    SetExtents(program_, extents, node_.layout());
    const VariantChoice variants =
        program_.steps->variants().At(request_.shape.padded, request_.call.scalars);
    const RunRequest run = RunRequestOf(parts_, request_.call, extents, node_.layout(),
                                        lane_.order().own_stream().handle());
    absl::StatusOr<SizedSteps> steps = StepsOf({.driver = parts_.driver,
                                                .memory = lane_.memory(),
                                                .run = run,
                                                .variants = variants,
                                                .planned = exact_.planned()},
                                               exact_.family());
    if (BlamesTheDevice(steps.status())) return steps.status();
    return exact_.Keep(
        sizes, steps.ok() ? std::make_unique<const SizedSteps>(*std::move(steps)) : nullptr);
  }

  absl::StatusOr<bool> Set(const BucketKey& sizes,
                           const ExtentArray& extents,
                           const SizedSteps& steps) {
    exact_.ForgetSet();
    SetExtents(program_, extents, node_.layout());
    COPPICE_ASSIGN_OR_RETURN(const int64_t set, exact_.family().Set(parts_.driver, steps.setting));
    exact_.replaced_outputs() = node_.outputs().tensors;
    node_.SetOutputs(steps.outputs);
    exact_.NoteSet(sizes);
    lane_.books().Count(&SessionStats::patched_nodes, set);
    return true;
  }

  const SessionParts& parts_;
  const Request& request_;
  Lane& lane_;
  Node& node_;
  ExactSizes& exact_;
  const Program& program_;
};

// Apart, so that a call whose sizes are set needs no frame to find that.
[[gnu::noinline]] absl::StatusOr<Lease> SetAndReplay(const SessionParts& parts,
                                                     const Request& request,
                                                     Lane& lane,
                                                     Node& node,
                                                     const Outcome& outcome) {
  ExactSizes& exact = *node.exact();
  COPPICE_ASSIGN_OR_RETURN(const bool set, Setting(parts, request, lane, node).Choose());
  const int64_t replays = node.info().replays;
  absl::StatusOr<Lease> lease = ReplayAsSet(parts, request, lane, node, outcome);
  if (node.info().replays > replays && !exact.IsSetTo(request.shape.real)) exact.NotePadded();
  if (!lease.ok() && set) {
    // Nothing may have been launched: then a lease still shows what was there.
    node.SetOutputs(exact.replaced_outputs());
    exact.ForgetSet();
  }
  return lease;
}

}  // namespace

absl::StatusOr<Lease> ReplayNode(const SessionParts& parts,
                                 const Request& request,
                                 Lane& lane,
                                 Node& node,
                                 const Outcome& outcome) {
  const ExactSizes* const exact = node.exact();
  if (exact == nullptr || exact->IsSetTo(request.shape.real)) [[likely]]
    return ReplayAsSet(parts, request, lane, node, outcome);
  return SetAndReplay(parts, request, lane, node, outcome);
}

}  // namespace coppice::internal
