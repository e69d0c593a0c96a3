// What a session's calls tell its trace.

#include "absl/status/status.h"

#include "graphs/session_state.h"

namespace coppice {

using internal::Bucket;
using internal::InputLayout;
using internal::Lane;
using internal::Node;
using internal::Slot;

// A call that launched no node.
void Session::State::TraceCall(const Request& request,
                               Lane& lane,
                               const Decision& decision,
                               const InputLayout& layout) const {
  if (request.shape.in_pool) lane.TraceUses(lane.calls);
  const Bucket* bucket = FindBucket(request, lane);
  lane.tracer->Call(lane.index, {.call = lane.calls,
                                 .bucket = bucket == nullptr ? -1 : bucket->trace_number,
                                 .path = decision.path,
                                 .reason = decision.reason,
                                 .real_elements = layout.real_elements,
                                 .padded_elements = layout.padded_elements});
}

// `again` is the slot that the call is going to use over.
void Session::State::TraceReplay(const Request& request,
                                 Lane& lane,
                                 const Node& node,
                                 Slot* again) const {
  if (again != nullptr && again->traced) {
    lane.tracer->Release(lane.index, again->call);
    again->traced = false;
  }
  if (request.shape.in_pool) lane.TraceUses(lane.calls);
  lane.tracer->Call(lane.index, {.call = lane.calls,
                                 .bucket = node.bucket->trace_number,
                                 .node = node.trace_number,
                                 .path = request.path,
                                 .reason = request.reason,
                                 .real_elements = node.layout.real_elements,
                                 .padded_elements = node.layout.padded_elements});
}

absl::Status Session::FlushTrace() const {
  return state_->tracer == nullptr ? absl::OkStatus() : state_->tracer->Flush();
}

}  // namespace coppice
