// The ledger: a wrapper table that counts and traces every call on its way to a driver, and on
// request makes calls fail.
//
// It keeps three books: calls per entry and, when asked, their host time, measured or modelled; the
// memory that is created, mapped and allocated; and, when asked, a trace of the calls in the order
// in which they returned. Whoever needs to know "how many driver calls was that" or "how many bytes
// lie in this window" asks the ledger; nothing in coppice infers such a figure.
//
// One ledger may exist per process at a time, because a driver entry is a plain function.
//
// Units: bytes, nanoseconds. Threads: every method and every wrapped entry from any thread.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/units.h"
#include "coppice/runtime/driver.h"

#include "tools/ledger/latency_model.h"

namespace coppice {

class DriverLedger {
 public:
  struct Options {
    bool time_calls = false;  // Also sum the host time spent inside the wrapped driver.
    bool trace = false;       // Also keep the sequence of entries called.
    const LatencyModel* latency = nullptr;  // Also sum what it gives; outlives the ledger.
  };

  struct Books;  // Private to the implementation, which reaches it from plain functions.

  struct TracedCall {
    int entry = 0;  // Index for DriverEntryAt().
    CuResult result = CuResult::kSuccess;
  };

  // A call that fails. Calls are counted from the injection on.
  struct Fault {
    int entry = -1;   // The entry whose calls count, from IndexOf; -1: every entry's.
    int64_t nth = 1;  // Which of them fails. >= 1.
    CuResult result = CuResult::kUnknown;  // What it returns. Not kSuccess.
    bool forever = false;                  // Whether all later ones fail as well.
  };

  // Wraps `inner`, which must outlive the ledger. Errors: kFailedPrecondition if a ledger exists.
  static absl::StatusOr<std::unique_ptr<DriverLedger>> Create(const Driver& inner,
                                                              const Options& options);
  // Requires: no thread is inside a wrapped entry. The wrapped driver dies with the ledger.
  ~DriverLedger();
  DriverLedger(const DriverLedger&) = delete;
  DriverLedger& operator=(const DriverLedger&) = delete;

  // The wrapped driver: same kind, same results.
  const Driver& driver() const { return driver_; }

  // Calls of one entry since creation, e.g. calls(&DriverTable::GraphLaunch); of all entries.
  template <typename Function>
  int64_t calls(Function DriverTable::*entry) const {
    return CallsAt(IndexOf(entry));
  }
  int64_t calls() const;

  // Host nanoseconds spent inside the inner driver; 0 unless `time_calls`.
  int64_t driver_ns() const;

  // Host microseconds that the calls so far would have taken by the latency model; 0 without one.
  //
  // It sums the calls that pass, kNotReady among them. Bytes are those that a call names. Nodes are
  // those of the graph that an exec was instantiated from, a child graph being one. An exec's first
  // launch costs an upload as well, unless it was uploaded. A call that a capture records costs
  // what it costs elsewhere. Cost to a launch: a lock and a look-up; no allocation.
  //
  // With a model, cuEventElapsedTime gives what this sum grew by between the two cuEventRecord
  // calls, the second one's own cost included, instead of what the driver measured, so that a
  // decision on times can be tested. When it fails is the driver's affair as ever.
  double modelled_us() const;

  // Bytes of [address, address + bytes) that have physical memory mapped.
  // Cost: O(log mappings + mappings in the range).
  int64_t MappedBytes(DeviceAddress address, int64_t bytes) const;

  // Bytes created by cuMemCreate and not released, and bytes of cuMemAlloc not freed.
  int64_t created_bytes() const;
  int64_t allocated_bytes() const;

  // Returns the traced calls since the last TakeTrace; empty unless `trace`.
  std::vector<TracedCall> TakeTrace();

  // Adds a fault; if several make one call fail, the first injected names the result. The books
  // keep a call that fails like any other. Requires: a fault as described there (checked).
  //
  // A call that fails does not reach the driver, so it leaves nothing behind. A call that gives
  // something back (a free, release, unmap, destroy or unload) or ends a capture does reach it and
  // reports the fault afterwards, as a driver does that tells of an earlier asynchronous error; the
  // graph of such a capture is destroyed, as that of an invalidated one is.
  //
  // Cost: one relaxed load per call while no fault is set.
  void Inject(const Fault& fault);
  void ClearFaults();

  // Calls since creation that a fault made fail, on whatever thread.
  int64_t faulted() const;

  // Index of an entry for Fault::entry and DriverEntryAt(), e.g. IndexOf(&DriverTable::MemMap).
  template <typename Function>
  static int IndexOf(Function DriverTable::*entry) {
    static const DriverTable table;
    return DriverEntryIndex(static_cast<size_t>(reinterpret_cast<const char*>(&(table.*entry)) -
                                                reinterpret_cast<const char*>(&table)));
  }

 private:
  DriverLedger(const Driver& wrapped, std::unique_ptr<Books> books);

  int64_t CallsAt(int index) const;

  Driver driver_;
  std::unique_ptr<Books> books_;
};

}  // namespace coppice
