// What strictness finds: accesses that nothing orders, and host memory that changes under a copy.
//
// Threads: guarded by the emulator's mutex.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coppice/runtime/emulator.h"

#include "access_order.h"
#include "emulator_memory.h"

namespace coppice::emulator {

struct Snapshot;

// Bytes that a piece of work reads or writes.
struct TouchedBytes {
  ByteRange bytes;        // Addresses.
  const char* name = "";  // Of the kernel, or "memcpy" or "memset".
  bool writes = false;
  bool host = false;  // Host memory.
};

class Checks {
 public:
  Checks(const Emulator::Strictness& strictness, const Memory* memory)
      : strictness_(strictness), memory_(*memory) {}

  bool orders_accesses() const { return strictness_.unordered_access; }
  bool watches_sources() const { return strictness_.changed_source; }

  // Looks at the operation of `stream` at `position`, whose predecessors `clock` knows.
  void Submit(uint64_t stream,
              uint64_t position,
              const VectorClock& clock,
              std::span<const TouchedBytes> touched);

  // Looks at the nodes of a graph among themselves.
  void Launch(const Snapshot& snapshot);

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

  const Emulator::Strictness strictness_;
  const Memory& memory_;
  VectorClock host_clock_;
  AccessHistory history_;
  std::vector<std::string> reports_;
};

}  // namespace coppice::emulator
