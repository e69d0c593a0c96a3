// The hot path, which is compiled three times: for lanes without a flight recorder, and for entries
// of words alone and of anything.
// Private to graphs/call/.
//
// Each source that includes it has functions of its own: the compiler inlines what is called once.

#pragma once

#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "graphs/call/deliver.h"
#include "graphs/call/held.h"
#include "graphs/call/place.h"
#include "graphs/call/stage.h"
#include "graphs/lane/nvtx.h"

namespace coppice::internal {
namespace {

const NvtxName replay_name{"replay"};  // Made once: every replay opens the range.

// Apart, so that the usual call needs no frame to find that nothing is there.
[[gnu::noinline]] void OverwriteOthers(const Request& request, Lane& lane, const Node& node) {
  if (lane.tracer != nullptr) TraceUses(request, lane);
  if (!request.call.donated.empty()) {
    ReleaseDonated(request.call);
    lane.slots().SweepWindow();
  }
  lane.slots().Expire(node.footprint(), lane.order().calls(), *request.call.program);
  if (!request.child()) lane.slots().EndPath();
}

// What the node writes is gone, whether the rest of the call succeeds or not. With `again`, the
// window holds nothing but that slot, which nobody leases.
void Overwrite(const Request& request, Lane& lane, const Node& node, const Slot* again) {
  lane.order().BeginCall();
  if (again != nullptr) [[likely]]
    return;
  OverwriteOthers(request, lane, node);
}

// Fills what a node is about to write: whatever was borrowed there, and its own temporaries.
absl::Status FillFootprint(const Driver& driver, CuStream stream, Lane& lane, const Node& node) {
  constexpr unsigned char kExpired = 0xCB;
  const Surroundings* const around = node.key().surroundings;
  static const std::vector<Region> nothing;
  // What is given away is yet to be read.
  for (const Region& region :
       Subtract(node.footprint(), around == nullptr ? nothing : around->donated)) {
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemsetD8Async>(
        lane.memory().base(MemoryKind::kPlan) + static_cast<DeviceAddress>(region.offset), kExpired,
        static_cast<size_t>(region.bytes), stream));
  }
  return absl::OkStatus();
}

[[gnu::always_inline]] inline absl::Status Launch(
    const SessionParts& parts, const Request& request, Lane& lane, Node& node, const Slot* again) {
  if (parts.options.checks.fill_expired) [[unlikely]] {
    Overwrite(request, lane, node, again);
    COPPICE_RETURN_IF_ERROR(FillFootprint(parts.driver, request.call.stream, lane, node));
  }
  // The first launch is the point of no return, unless a fill came before it.
  bool overwrites = !parts.options.checks.fill_expired;
  for (Segment& segment : node.segments()) {
    if (segment.exec.has_value()) [[likely]] {
      COPPICE_RETURN_IF_ERROR(parts.driver.Call<&DriverTable::GraphLaunch>(segment.exec->handle(),
                                                                           request.call.stream));
    }
    if (std::exchange(overwrites, false)) [[likely]]
      Overwrite(request, lane, node, again);
    if (segment.step) [[unlikely]]
      COPPICE_RETURN_IF_ERROR(segment.step(request.call.stream));
  }
  return absl::OkStatus();
}

// Of a call whose host time is taken; apart, because most are not.
[[gnu::noinline]] void CountReplayTime(const SessionParts& parts,
                                       const Request& request,
                                       Lane& lane) {
  lane.books().CountReplayTime(parts.tick_rate.Between(request.began, parts.clock.Now()));
}

// `Record` is told of the call when its inputs are staged, and when its work is submitted or fails.
template <typename Record>
[[gnu::always_inline]] inline absl::StatusOr<Lease> ReplayAnd(const SessionParts& parts,
                                                              const Request& request,
                                                              Lane& lane,
                                                              Node& node,
                                                              const Outcome& outcome) {
  const NvtxRange range(replay_name);
  const Call& call = request.call;
  SlotTable& slots = lane.slots();
  const bool borrows = call.output_mode == OutputMode::kBorrow;
  // The usual call finds the window as the node left it, and nobody looking.
  Slot* const again = borrows ? slots.FindDropped(node) : nullptr;
  Region copy_out;
  if (again == nullptr) {
    slots.SweepWindow();
    slots.Reserve();
    COPPICE_RETURN_IF_ERROR(CheckHeld(request, lane, node));
    slots.ReserveExpire(node.footprint());
    if (NeedsCopyOutBytes(call.output_mode)) [[unlikely]] {
      COPPICE_ASSIGN_OR_RETURN(copy_out, ReserveCopyOut(request, lane));
    }
  }
  COPPICE_RETURN_IF_ERROR(lane.order().Enter(call.stream));
  InputLayout& layout = node.layout();
  if (layout.stages) {
    COPPICE_RETURN_IF_ERROR(Stage(parts, request, lane, layout));
    lane.books().CountStaged(layout);
    lane.books().Count(&SessionStats::inputs_filled, request.filled);
  }
  Record record(parts, request, lane, node, outcome);
  if (absl::Status launched = Launch(parts, request, lane, node, again); !launched.ok())
      [[unlikely]] {
    record.Fail(parts, request, lane, node, outcome);
    return launched;
  }
  record.End(parts, request, lane, node, outcome);
  lane.books().Count(&SessionStats::inputs_in_place, layout.in_place);
  node.NoteLaunch(lane.order().calls());
  Book(parts, request, lane, outcome);
  if (request.began != 0 && outcome.kind == RunKind::kReplay) [[unlikely]]
    CountReplayTime(parts, request, lane);
  if (lane.tracer != nullptr) [[unlikely]] {
    if (again != nullptr) slots.TraceRelease(*again);
    TraceCall(request, lane, outcome, layout, &node);
  }
  Slot* slot = nullptr;
  if (!borrows || !layout.copy_backs.empty()) [[unlikely]] {
    COPPICE_ASSIGN_OR_RETURN(slot, CopyBehindRun(parts, request, lane,
                                                 {.mode = call.output_mode,
                                                  .outputs = node.outputs(),
                                                  .layout = layout,
                                                  .copy_out = copy_out}));
  }
  if (again != nullptr) [[likely]] {
    slots.Reuse(*again, OwnerOf(request, lane));
    slot = again;
  } else if (borrows) {
    slot = &slots.TakeWindow(OwnerOf(request, lane), node);
  }
  return Lease(slot, outcome.kind, outcome.reason);
}

}  // namespace
}  // namespace coppice::internal
