// What another allocator was asked for, as lifetimes of buffers: a step per event.
//
// Units: bytes, steps. Threads: one at a time per collector.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "coppice/allocator/plan.h"

namespace coppice {

// More allocations of one device than this take a planner minutes.
inline constexpr int64_t kForeignAllocationsMax = 1'000'000;

// Nor do more pairs of allocations that are there at the same time: planning looks at each.
inline constexpr int64_t kForeignPairsMax = 4'000'000'000;

// Of a file in all: so many entries are walked.
inline constexpr int64_t kForeignEntriesMax = 16'000'000;

// No allocation has more.
inline constexpr int64_t kForeignBytesMax = int64_t{1} << 50;

// Of one device.
struct ForeignLifetimes {
  int64_t device = 0;
  std::vector<Buffer> buffers;  // Well formed; their sum does not overflow.
  int64_t steps = 0;            // Events.
  int64_t reserved_peak = -1;   // What the allocator had of the device at most; -1: not known.
  int64_t live_before = 0;      // Allocations from before the first event ...
  int64_t live_after = 0;       // ... and those that no event frees.
  int64_t refused = 0;          // Requests that the allocator could not serve.
  int64_t empty = 0;            // Allocations of no bytes, which are left out.
};

// Pairs of buffers that are there at the same time, by the first interval of each.
// Cost: O(n log n).
int64_t CountPairs(const std::vector<Buffer>& buffers);

class LifetimeCollector {
 public:
  // Begins the next step. What happens before the first was there at the beginning.
  void NextStep() { ++lifetimes_.steps; }

  // `bytes` at `address` are in use from this step on. If the address was in use, that ends.
  // Requires: 0 <= bytes <= kForeignBytesMax. False: there are too many allocations.
  bool Alloc(int64_t address, int64_t bytes);

  bool InUse(int64_t address) const { return open_.contains(address); }

  // The address is in use no more. If it was not, `bytes` of it were from the beginning up to here;
  // -1: it is not known how many, so that nothing was. False: as above.
  bool Free(int64_t address, int64_t bytes);

  ForeignLifetimes& lifetimes() { return lifetimes_; }

  // Ends what is in use.
  ForeignLifetimes Finish();

 private:
  struct Open {
    int64_t bytes = 0;
    int64_t since = 0;
  };

  bool Close(const Open& open, int64_t end);

  ForeignLifetimes lifetimes_;
  absl::flat_hash_map<int64_t, Open> open_;  // By address.
};

// A memory snapshot, as a pickle or as JSON, one per device that has events or blocks. A file is a
// pickle if it begins with the opcode PROTO.
//
// Errors: kInvalidArgument  as ReadPickle; a part of the snapshot is missing or no such thing, or
//                           there is more of it than is planned: `name: where: what; what to do`.
absl::StatusOr<std::vector<ForeignLifetimes>> ReadSnapshotLifetimes(const std::string& bytes,
                                                                    const std::string& name);

// A log of RMM.
//
// Errors: kInvalidArgument, `name:line: what; what to do`: another header, a row of another form,
//         an allocation where one is, too many of them.
absl::StatusOr<ForeignLifetimes> ReadRmmLifetimes(const std::string& text, const std::string& name);

}  // namespace coppice
