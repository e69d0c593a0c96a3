// The memory of a session: its size by kind, and how it is mapped, released and lent.
//
// A lane has five windows of addresses that never move; physical memory under them is mapped and
// unmapped. A budget limits the bytes of all kinds together. A suspended session keeps its graphs
// but has no memory. A loan gives the idle memory of a lane to other code.
//
// Units: bytes. Threads: any method from any thread. Methods that wait for the lanes' work hold the
// locks of those lanes meanwhile.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/session_options.h"
#include "coppice/runtime/driver.h"

namespace coppice {

namespace internal {
class Lane;
class LaneMutex;
struct SessionParts;
}  // namespace internal

// Writes a constant's contents into `bytes`, which are host memory. Called under the locks of
// lanes, so it must not call the session.
using ConstantSource = std::function<absl::Status(std::span<std::byte> bytes)>;

// What happens to constants while a session is suspended.
enum class SuspendedConstants : uint8_t {
  kKeep,    // They stay on the device.
  kSave,    // They are copied to the host, and back by Resume.
  kReload,  // They are dropped; Resume fills them again from their sources.
};

struct SuspendOptions {
  SuspendedConstants constants = SuspendedConstants::kSave;
  bool refuse_leases = false;  // Fail if outputs are leased, instead of saving them on the host.
  bool drop_graphs = false;    // Also drop graphs without leased outputs; their buckets stay warm.
};

// One window of addresses.
struct WindowInfo {
  int lane = 0;
  MemoryKind kind = MemoryKind::kPlan;
  DeviceAddress base = 0;
  int64_t window_bytes = 0;  // Virtual size.
  int64_t mapped_bytes = 0;  // From the window's start; a multiple of `granularity`.
  int64_t granularity = 0;
};

// The idle memory of one lane, lent to the holder of this object. Calls on the lane are refused
// meanwhile. It must end before its session.
class [[nodiscard]] Loan {
 public:
  Loan(Loan&& other) noexcept
      : lane_(std::exchange(other.lane_, nullptr)), data_(other.data_), bytes_(other.bytes_) {}
  Loan& operator=(Loan&&) = delete;
  // Requires: the device has finished all work that uses the memory.
  ~Loan();

  // Ends the loan; the lane's next call waits, on the device, for the work queued on `stream` so
  // far. Errors: the driver's; even then the loan has ended, and the host has waited.
  absl::Status Return(CuStream stream);

  DeviceAddress data() const { return data_; }  // Contents undefined.
  int64_t bytes() const { return bytes_; }

 private:
  friend class SessionMemory;
  Loan(internal::Lane* lane, DeviceAddress data, int64_t bytes)
      : lane_(lane), data_(data), bytes_(bytes) {}

  internal::Lane* lane_;  // Null once the loan has ended or was moved from.
  DeviceAddress data_;
  int64_t bytes_;
};

class SessionMemory {
 public:
  ~SessionMemory();
  SessionMemory(const SessionMemory&) = delete;
  SessionMemory& operator=(const SessionMemory&) = delete;

  // Bytes by kind; the outputs of leases that were dropped do not count. Cost: takes each lane's
  // lock.
  MemoryUsage usage() const;
  // The same, but outputs of dropped leases may still count. For frequent use: a call never waits
  // long for its locks.
  MemoryUsage books() const;

  // A window of a lane. Requires: a lane of the session, kPlan to kWorkspace (both checked).
  WindowInfo window(int lane, MemoryKind kind) const;
  // The window that holds `address`; nullopt outside the lanes' windows.
  std::optional<WindowInfo> Locate(DeviceAddress address) const;

  // Places a constant with these sizes in the session's memory, as long as the session lives, and
  // fills it from `source`, which is kept for Suspend. Programs may bind it as a static input.
  // Waits for the device. Errors: kInvalidArgument sizes are negative, too many or give no bytes,
  // or there is no source; kFailedPrecondition while suspended; kResourceExhausted; the source's;
  // the driver's.
  absl::StatusOr<Tensor> AddConstant(DType dtype,
                                     std::span<const int64_t> sizes,
                                     ConstantSource source);

  // Reports to the budget how many bytes the application itself holds on the device. Call it before
  // you allocate. Graphs may be dropped to make room. Errors: kInvalidArgument if negative;
  // kResourceExhausted if the budget lacks room; the earlier number then stays.
  absl::Status SetExternalBytes(int64_t bytes);

  // Releases physical memory that nothing uses: in the eager windows, in the plan windows above the
  // highest graph, and spare handles. Leased outputs stay. Waits for the lanes' work.
  absl::Status Trim();

  // Gives the physical memory of all windows back to the device, until Resume. Waits for recordings
  // and for the lanes' work. Leased outputs keep their leases and contents, but cannot be read
  // until then; every call fails. Graphs, and their estimated bytes, stay unless
  // SuspendOptions::drop_graphs is set.
  //
  // Errors: kFailedPrecondition  suspended already, a read scope open, a lane lent, or, with
  //                              refuse_leases, outputs leased: nothing was done;
  //         otherwise the driver's: the session is as before, or suspended if its memory cannot be
  //         mapped again.
  absl::Status Suspend(const SuspendOptions& options);
  // Maps the memory again at the same addresses, and restores what Suspend saved or dropped. Then
  // every graph replays as before. Waits for the device. Errors: kFailedPrecondition if not
  // suspended; kResourceExhausted if there is no room (no graph is dropped to make room); those of
  // sources or of the driver. After an error the session is still suspended.
  absl::Status Resume();

  // Lends the mapped memory of a lane's plan window. Nothing of the lane may be in flight, and no
  // outputs there may be leased. Errors: kFailedPrecondition if there is such work or such an
  // output, or the lane is lent or suspended; kInvalidArgument there is no such lane; the driver's.
  absl::StatusOr<Loan> Lend(int lane = 0);

  // Zeroes all memory of a lane's windows, so that the next caller cannot read data of the last
  // one. The work is ordered in `stream` and with the lane's calls. Errors: kFailedPrecondition if
  // outputs there are leased, the lane is lent or suspended, or the stream captures;
  // kInvalidArgument there is no such lane; the driver's.
  absl::Status Scrub(CuStream stream, int lane = 0);

 private:
  friend class Session;
  struct Constant {
    DeviceAddress address = 0;
    int64_t bytes = 0;
    ConstantSource source;
  };
  struct SavedBytes {
    DeviceAddress address = 0;
    std::vector<std::byte> bytes;
  };
  enum class Direction : uint8_t { kToHost, kToDevice };
  using LaneLocks = std::vector<std::unique_lock<internal::LaneMutex>>;

  explicit SessionMemory(internal::SessionParts& parts);

  // Frees bytes of the budget for `lane`, whose lock is held: first idle memory, then graphs if the
  // options allow that. OK if it freed some. Errors: kResourceExhausted, or the driver's.
  absl::Status MakeRoom(internal::Lane& lane, int64_t bytes, MemoryKind need);
  // Takes idle physical memory from the lane's windows; from its plan window only if `plans`. Waits
  // for the lane's work.
  absl::Status FreeIdle(internal::Lane& lane, bool plans) const;
  absl::StatusOr<internal::Lane*> FindLane(const char* where, int lane) const;
  // Locks all lanes when no recording is under way.
  LaneLocks LockIdle() const;
  absl::Status CheckSuspendable(const SuspendOptions& suspend) const;
  // Copies what must survive a suspension to the host, and back. Under all lanes' locks.
  absl::Status Save(const SuspendOptions& suspend);
  absl::Status Restore();
  absl::Status Fill(const Constant& constant);
  // Copies between the host and the device, one at a time, on the first lane's own stream. After a
  // failure the copy may still be running, so its host memory has to stay.
  absl::Status Transfer(Direction direction, SavedBytes& copy);
  absl::Status ReleaseAll();
  // Transfer for bytes that only `copy` holds: after a failure it keeps them in stranded_.
  absl::Status TransferOrStrand(Direction direction, SavedBytes& copy);

  internal::SessionParts& parts_;
  // Under the first lane's lock, which a suspension holds with all others.
  std::vector<Constant> constants_;
  int64_t external_bytes_ = 0;
  std::vector<SavedBytes> saved_;
  SuspendedConstants suspended_constants_ = SuspendedConstants::kSave;
  std::vector<std::vector<std::byte>> stranded_;  // Host memory that a copy may still use.
};

}  // namespace coppice
