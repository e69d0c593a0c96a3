// What strictness finds: accesses that nothing orders, and host memory that changes under a copy.
//
// Threads: guarded by the emulator's mutex.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runtime/emulator/access_order.h"
#include "runtime/emulator/memory.h"
#include "runtime/emulator/snapshot.h"
#include "runtime/emulator/work.h"

namespace coppice::emulator {

class Checks {
 public:
  struct Options {
    bool orders_accesses = false;  // Looks for accesses that nothing orders.
    bool watches_sources = false;  // Looks for host memory that changes under a queued copy.
    bool watches_loading = false;  // Looks for kernels that are captured before they were launched.
  };

  Checks(const Options& options, const Memory* memory) : options_(options), memory_(*memory) {}

  bool orders_accesses() const { return options_.orders_accesses; }
  bool watches_sources() const { return options_.watches_sources; }
  bool watches_loading() const { return options_.watches_loading; }

  // Looks at the operation of `stream` at `position`, whose predecessors `clock` knows.
  void Submit(uint64_t stream,
              uint64_t position,
              const VectorClock& clock,
              std::span<const TouchedBytes> touched);

  // Looks at the nodes of a graph among themselves, unless that was done and memory is as it was.
  void Launch(Snapshot& snapshot);

  // The host has learnt that everything `clock` knows of is complete.
  void HostWaited(const VectorClock& clock) { host_clock_.Join(clock); }

  // Forgets all accesses, since none can meet what comes. `known` is all that the host knows.
  void Forget(VectorClock known) {
    history_.Clear();
    host_clock_ = std::move(known);
  }

  // True if the host knows that everything `clock` knows of is complete.
  bool HostKnows(const VectorClock& clock) const { return host_clock_.Covers(clock); }

  void Report(std::string text);
  const std::vector<std::string>& reports() const { return reports_; }

 private:
  template <typename Visit>
  void ForEachPiece(const TouchedBytes& touched, Visit visit) const;
  // `address` is where the bytes begin that the later access names.
  void ReportConflict(const Conflict& conflict, const std::string& where, uint64_t address);

  const Options options_;
  const Memory& memory_;
  VectorClock host_clock_;
  AccessHistory history_;
  std::vector<std::string> reports_;
};

}  // namespace coppice::emulator
