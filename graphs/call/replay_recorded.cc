// The hot path of a lane with a flight recorder.

#include "graphs/call/flight.h"
#include "graphs/call/replay.h"
#include "graphs/call/replay_body.h"

namespace coppice::internal {
namespace {

class RecordFlight {
 public:
  RecordFlight(const SessionParts& parts,
               const Request& request,
               Lane& lane,
               const Node& node,
               const Outcome& outcome)
      : parts_(parts), request_(request), lane_(lane), node_(node) {
    const ExactSizes* const exact = node_.exact();
    const bool is_exact = exact != nullptr && exact->IsSetTo(request.shape.real);
    entry_ = BeginFlight(parts, request, lane,
                         {.layout = node_.layout(),
                          .extents = is_exact ? request.shape.real : request.shape.padded,
                          .outcome = outcome});
  }
  void End() const { EndFlight(parts_, request_, lane_, node_.outputs().tensors, entry_); }

 private:
  const SessionParts& parts_;
  const Request& request_;
  Lane& lane_;
  const Node& node_;
  FlightEntry* entry_ = nullptr;
};

}  // namespace

absl::StatusOr<Lease> ReplayRecorded(const SessionParts& parts,
                                     const Request& request,
                                     Lane& lane,
                                     Node& node,
                                     const Outcome& outcome) {
  return ReplayAnd<RecordFlight>(parts, request, lane, node, outcome);
}

}  // namespace coppice::internal
