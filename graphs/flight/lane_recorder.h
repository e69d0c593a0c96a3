// What a lane records into: a ring in host memory of the driver. Private to graphs/.
//
// Threads: the lane's lock.

#pragma once

#include <memory>
#include <optional>

#include "absl/status/statusor.h"

#include "coppice/graphs/flight_recorder.h"
#include "coppice/runtime/stream.h"

#include "graphs/flight/copy_budget.h"
#include "graphs/flight/flight_ring.h"

namespace coppice::internal {

class LaneRecorder {
 public:
  // Errors: kResourceExhausted the host has no such memory; the driver's.
  static absl::StatusOr<std::unique_ptr<LaneRecorder>> Create(const Driver& driver,
                                                              const RecorderOptions& options,
                                                              const CopyBudget& budget);

  FlightRing& ring() { return ring_; }
  const RecorderOptions& options() const { return options_; }
  CopyBudget& budget() { return budget_; }
  // Whether calls copy nothing but their staged inputs, without a limit.
  bool is_plain() const { return is_plain_; }
  // Eight bytes of the device that are not 0; 0 unless outputs are recorded.
  DeviceAddress mark() const { return mark_ ? mark_->address() : 0; }

 private:
  LaneRecorder(const RecorderOptions& options,
               HostMemory memory,
               std::optional<DeviceMemory> mark,
               const CopyBudget& budget);

  const RecorderOptions options_;
  const bool is_plain_;
  const HostMemory memory_;
  const std::optional<DeviceMemory> mark_;
  FlightRing ring_;
  CopyBudget budget_;
};

}  // namespace coppice::internal
