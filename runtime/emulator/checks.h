// What strictness finds: accesses that nothing orders, and host memory that changes under a copy.
//
// What most work touches is known when it is submitted, and checked there. A compiled kernel that
// declares nothing is checked when it has run, by what it was ordered behind when it was submitted:
// what is found does not depend on when it ran.
//
// Threads: guarded by the emulator's mutex.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "coppice/runtime/kernel_finding.h"

#include "runtime/emulator/access_order.h"
#include "runtime/emulator/memory.h"
#include "runtime/emulator/snapshot.h"
#include "runtime/emulator/work.h"

namespace coppice::emulator {

class Checks {
 public:
  struct Options {
    bool orders_accesses = false;    // Looks for accesses that nothing orders.
    bool holds_to_declared = false;  // Looks for accesses that a kernel does not declare.
    bool watches_sources = false;    // Looks for host memory that changes under a queued copy.
    bool watches_loading = false;  // Looks for kernels that are captured before they were launched.
  };

  Checks(const Options& options, const Memory* memory) : options_(options), memory_(*memory) {}

  bool orders_accesses() const { return options_.orders_accesses; }
  bool holds_to_declared() const { return options_.holds_to_declared; }
  bool watches_sources() const { return options_.watches_sources; }
  bool watches_loading() const { return options_.watches_loading; }

  // Looks at the declared accesses of an operation that is submitted, or of a node of it: `clock`
  // knows its predecessors.
  void Submit(OperationId operation,
              int node,
              const VectorClock& clock,
              std::span<const TouchedBytes> touched);
  // Looks at the nodes of a graph among themselves, unless that was done and memory is as it was.
  void Launch(Snapshot& snapshot);

  // An operation is submitted that waits for what `joined` knows. To be called before Expect.
  void Join(OperationId operation, const VectorClock& joined);
  // Some accesses of an operation that is submitted are known once it has run.
  void Expect(OperationId operation, const VectorClock& clock);
  // It, or node `node` of the graph that it launches, has run, and touched this.
  void Observe(OperationId operation,
               const Snapshot* graph,
               int node,
               std::span<const TouchedBytes> touched);
  // An operation has run, or never will.
  void Finish(OperationId operation);

  // Looks for what a kernel that has run touched and had not declared; reports the first that it
  // reads, and that it writes.
  void HoldToDeclared(const Task& task, std::span<const TouchedBytes> touched);

  // The host has learnt that everything `clock` knows of is complete.
  void HostWaited(const VectorClock& clock) { host_clock_.Join(clock); }

  // Forgets all accesses, since none can meet what comes. `known` is all that the host knows.
  void Forget(VectorClock known) {
    history_.Clear();
    host_clock_ = std::move(known);
  }

  // True if the host knows that everything `clock` knows of is complete.
  bool HostKnows(const VectorClock& clock) const { return host_clock_.Covers(clock); }

  void Report(std::string text, std::optional<KernelFinding> kernel = std::nullopt);
  // Counts what is found and told of elsewhere, as a fault is, among the reports; its number.
  int64_t Count() { return ++count_; }
  // How many there were, equal ones each.
  int64_t count() const { return count_; }
  // The texts of those behind the first `since`, each once.
  std::vector<std::string> ReportsSince(int64_t since) const;
  // Those that compiled kernels gave rise to.
  std::vector<KernelFinding> KernelFindings() const;

 private:
  template <typename Visit>
  void ForEachPiece(const TouchedBytes& touched, Visit visit) const;
  // Adds an access to a history, and reports what it meets there.
  template <typename OrderOf>
  void Note(AccessHistory& history,
            const TouchedBytes& touched,
            OperationId operation,
            int node,
            OrderOf order_of);
  // `address` is that of the first of the bytes.
  void ReportConflict(Conflict conflict, uint64_t address);

  // From one position of a stream on, what another stream did up to `known` is before it.
  struct Joined {
    uint64_t position = 0;
    uint64_t known = 0;
  };

  bool IsAfter(OperationId operation, OperationId earlier) const;

  struct Told {
    std::string text;
    int64_t last = 0;  // The number of the last report of this text.
    std::optional<KernelFinding> kernel = {};
  };

  const Options options_;
  const Memory& memory_;
  VectorClock host_clock_;
  // What is queued and will be observed, each with what it knew when it was submitted.
  std::map<OperationId, VectorClock> expected_;
  // By a stream and another, since something has been expected; both ascend.
  std::map<std::pair<uint64_t, uint64_t>, std::vector<Joined>> joined_;
  // Of kernels that read, or write, such bytes what was reported first.
  std::map<std::pair<std::string, bool>, std::string> undeclared_;
  AccessHistory history_;
  std::vector<Told> told_;  // Each text once, in the order in which they came first.
  int64_t count_ = 0;       // Reports so far.
};

}  // namespace coppice::emulator
