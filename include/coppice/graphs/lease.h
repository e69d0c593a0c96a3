// A lease: the right to read the outputs of one call.
//
// Outputs of a graph lie in the lane's window, where the next call on that lane writes again. A
// lease knows the epoch in which its outputs were made: reading it later than that is an error, not
// somebody else's data. Reading happens inside a scope, and no call may reuse the bytes under an
// open one:
//
//   COPPICE_ASSIGN_OR_RETURN(Lease lease, session->Run(call));
//   {
//     COPPICE_ASSIGN_OR_RETURN(ReadScope scope, lease.Read(stream));
//     ... enqueue work on `stream` that reads scope.output(0) ...
//   }
//
// Outputs of warm-up and eager runs have bytes of their own, which live until the lease goes.
//
// Units: elements. Threads: a lease or scope belongs to one thread at a time.
// Lifetime: leases of warm-up and eager runs must go before their session (checked by the session);
// one of a graph may outlive it, but not be read any more. A lease with an open scope may be moved,
// neither released nor assigned to.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/reason.h"

namespace coppice {

namespace internal {
struct Lane;
struct OutputTable;
struct OutputTableDeleter {
  void operator()(OutputTable* table) const;
};
}  // namespace internal

class ReadScope;

class [[nodiscard]] Lease {
 public:
  Lease() = default;  // Of no call: no outputs.
  Lease(Lease&& other) noexcept
      : lane_(std::exchange(other.lane_, nullptr)),
        outputs_(std::exchange(other.outputs_, nullptr)),
        owned_(std::move(other.owned_)),
        epoch_(other.epoch_),
        extents_(other.extents_),
        path_(other.path_),
        reason_(other.reason_) {}
  Lease& operator=(Lease&& other) noexcept;
  ~Lease() {
    if (owned_ != nullptr) [[unlikely]]
      Release();
  }

  // How the call ran.
  Path path() const { return path_; }
  Reason reason() const { return reason_; }
  int output_count() const;

  // Opens a scope for reading on `stream`. Work queued on `stream` afterwards sees the outputs; if
  // the call ran on another stream, that costs one event record and one wait.
  //
  // Requires: the session lives, its context is current, and `stream` lives until the scope ends.
  // Errors: kFailedPrecondition  a later call on the lane reused the bytes, or the lease is empty;
  //         kInvalidArgument     the legacy stream.
  absl::StatusOr<ReadScope> Read(CuStream stream) const;

  // Gives the outputs up early. The lease is empty afterwards.
  void Release();

 private:
  friend class Session;
  friend class ReadScope;

  internal::Lane* lane_ = nullptr;
  const internal::OutputTable* outputs_ = nullptr;  // The node's, or owned_.
  std::unique_ptr<internal::OutputTable, internal::OutputTableDeleter> owned_;  // Eager outputs.
  uint64_t epoch_ = 0;
  std::array<int64_t, kSymbolsMax> extents_{};  // Real ones, for the views.
  Path path_ = Path::kReplay;
  Reason reason_ = Reason::kNone;
};

// While it lives, the outputs keep their bytes: a call that would reuse them is refused with
// kFailedPrecondition, which is every replay or recording on the lane if the outputs are a graph's.
// Ending the scope orders the lane's next use after the work queued on its stream so far. Requires:
// ends before its lease and its session.
class [[nodiscard]] ReadScope {
 public:
  ReadScope(ReadScope&& other) noexcept;
  ReadScope& operator=(ReadScope&&) = delete;
  ~ReadScope();

  // Output `index` at the call's real extents; strides are those of the padded tensor.
  // Requires: 0 <= index < output_count (checked).
  Tensor output(int index) const;

 private:
  friend class Lease;
  ReadScope(const Lease& lease, CuStream stream);

  internal::Lane* lane_;  // Null once moved from.
  const internal::OutputTable* outputs_;
  std::array<int64_t, kSymbolsMax> extents_;
  CuStream stream_;
  bool holds_window_;  // The outputs are a graph's, which the lane's next graph would overwrite.
};

}  // namespace coppice
