// Room in the budget: who makes it when the budget refuses. Private to graphs/.
//
// Units: bytes. Threads: one at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "absl/status/status.h"

#include "coppice/base/status.h"
#include "coppice/graphs/memory_usage.h"

namespace coppice::internal {

class Room {
 public:
  // Frees bytes of the budget for a need of this kind; OK if it has found some, else what to do.
  using Maker = std::function<absl::Status(int64_t bytes, MemoryKind need)>;

  Room() = default;  // Nobody makes any.
  explicit Room(Maker maker) : maker_(std::move(maker)) {}
  void SetMaker(Maker maker) { maker_ = std::move(maker); }

  // Asks the maker. Errors: his; kResourceExhausted if there is none.
  absl::Status Make(int64_t bytes, MemoryKind need) const {
    if (maker_) return maker_(bytes, need);
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "evict graphs, drop leases or raise the budget");
  }

  // Calls `ask`, which returns the bytes that the budget lacks or an error, until nothing is
  // lacking or nobody makes room: kResourceExhausted then.
  template <typename Ask>
  absl::Status Find(MemoryKind need, const Ask& ask);
  // Whether the last Find ended so.
  bool refused() const { return refused_; }

 private:
  // Others may take the room that was made before it is asked for again.
  static constexpr int kAttempts = 4;

  Maker maker_;
  bool refused_ = false;
};

template <typename Ask>
absl::Status Room::Find(MemoryKind need, const Ask& ask) {
  refused_ = false;
  for (int attempt = 1;; ++attempt) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t missing, ask());
    if (missing == 0) return absl::OkStatus();
    const absl::Status made = attempt < kAttempts ? Make(missing, need) : absl::OkStatus();
    if (attempt < kAttempts && made.ok()) continue;
    refused_ = true;
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "Session: the budget lacks {} bytes of memory of kind {}; {}", missing,
                     NameOf(need),
                     made.ok() ? "other calls take the memory that is freed: raise the budget"
                               : MessageOf(made));
  }
}

}  // namespace coppice::internal
