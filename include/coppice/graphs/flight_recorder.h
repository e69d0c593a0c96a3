// The flight recorder of a session: it keeps the inputs of the last calls of each lane, and writes
// them to a file when something went wrong.
//
//   call ─► stage ─► one copy to the host ─► graph        ring of a lane
//                          └──────────────────────────►   | 5 | 6 | 7 | . . . | 3 | 4 |
//                                                            oldest first, bounded
//
//   if (!session->Run(call).ok()) session->recorder().Save("fault.coppice-case", "fault", {});
//
// The file is a *case*. `coppice replay` runs its calls on the emulator, which names the kernel and
// the line that is wrong. An entry of the ring has the number of its call, the sizes, scalars and
// random numbers, and how the call ran. It has the bytes of all staged inputs: one copy in the
// order of the stream brings them to the host. If a call read an output of an earlier call in
// place, that input is not copied; the entry names the output. The ring is memory of the driver
// (cuMemHostAlloc), so it can be read after a fault of the device.
//
// Two limits bound what recording takes: bytes of the ring, and time of copies per call.
//
// Units: bytes where a name says so. Threads: any method from any thread.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace coppice {

namespace internal {
struct SessionParts;
}  // namespace internal

// What the flight recorder keeps.
struct RecorderOptions {
  // Host memory that the ring of each lane has; 0: nothing is recorded. A call that is larger than
  // the ring is not kept. A call is also not kept if the ring is full of calls whose copies have
  // not arrived yet, because the device is behind. 0 to 2^40.
  int64_t ring_bytes = 0;
  int64_t calls_max = 65'536;  // Maximum number of calls in a ring. >= 1.
  // Whether outputs are copied to the ring, too, so that a replay can compare them. Takes one more
  // driver call per output, and one per call.
  bool outputs = false;
  // Static inputs up to this size are copied to the ring with each call; 0: none are. Takes one
  // more driver call per static input. >= 0.
  int64_t static_bytes_max = 0;
  // Mean time per call that copies to the ring may take, in nanoseconds; 0: no limit. A call is not
  // kept if its copies would exceed it; a call without copies is always kept. Start measures once
  // what copies cost, and the limit holds by that. 0 to 10^9.
  int64_t copy_ns_max = 0;
};

// What happens to values in a case.
enum class CaseValues : uint8_t {
  kKeep,  // They stay.
  // Floats become noise of either sign, from 0.5 up to 1; other numbers become noise between the
  // least and the largest value of their tensor.
  kNoise,
  kSpecial,  // The same, but zeros, infinities and NaNs stay where they are.
};
// "keep", "noise", "special".
const char* NameOf(CaseValues values);

struct SaveCaseOptions {
  int lane = 0;  // Whose calls are saved.
  CaseValues values = CaseValues::kKeep;
  // A package is put into the case if its file has at most this many bytes. >= 0.
  int64_t package_bytes_max = int64_t{64} << 20;
  // Static inputs of at most this many bytes that no call has copied are read from the device, with
  // their present values. After a fault, none are read. >= 0.
  int64_t static_bytes_max = int64_t{1} << 20;
};

// The flight recorder of a session.
class SessionRecorder {
 public:
  // Begins to record with empty rings, even if it records already. Waits for the lanes' work and
  // for recordings in the background. With copy_ns_max it also times some 100 copies of up to
  // 1 MiB. After an error it continues as before. Errors: kInvalidArgument an option is out of
  // range, or ring_bytes is 0; kResourceExhausted the host or the device lacks the memory;
  // otherwise the driver's.
  absl::Status Start(const RecorderOptions& options);
  // Ends recording and frees the rings. Waits for the lanes' work.
  void Stop();
  bool running() const;

  // Writes the calls of a lane as a case to `path`, and replaces an existing file. `why` is a text
  // for people: the reason for the case. Save works even after a sticky error of the device;
  // otherwise it waits for the lane's work. Errors: kFailedPrecondition nothing is recorded;
  // kInvalidArgument there is no such lane, or an option is out of range; the code for the errno if
  // the file cannot be written; otherwise the driver's. Cost: calls of the lane wait while the
  // rings are read.
  absl::Status Save(const std::string& path,
                    std::string_view why,
                    const SaveCaseOptions& options) const;

 private:
  friend class Session;
  explicit SessionRecorder(internal::SessionParts& parts) : parts_(parts) {}

  internal::SessionParts& parts_;
};

}  // namespace coppice
