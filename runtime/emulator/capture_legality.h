// Which calls a stream capture forbids: a table, because CUDA does not say and drivers differ.
//
// runtime/tables/capture_legality.<driver>.tsv is written by coppice-probe on a device and built
// into the emulator. It is about calls whose own objects take no part in the capture; calls about
// the capturing stream or a captured event follow the rules of capture.h.
//
// Threads: immutable once made.

#pragma once

#include <array>
#include <string_view>

#include "absl/status/statusor.h"

#include "coppice/runtime/cuda_abi.h"
#include "coppice/runtime/driver.h"

namespace coppice::emulator {

class CaptureLegality {
 public:
  // What a capture makes of one call.
  struct Verdict {
    CuResult result = CuResult::kSuccess;  // What the call returns; kSuccess: it is allowed.
    bool invalidates = false;              // Whether the capture is invalidated.
  };

  // Reads a table (tsv.h) of the columns call, mode, thread, result, capture and evidence.
  // Calls with a note in parentheses are passed over; a call without rows is allowed.
  // Errors: kInvalidArgument with the line.
  static absl::StatusOr<CaptureLegality> Parse(std::string_view table);

  // The table that is built in.
  static std::string_view BuiltIn();

  // About a call of `entry` (in table order) by the thread that began a capture in `mode`, or by
  // another thread.
  const Verdict& Find(int entry, CuCaptureMode mode, bool same_thread) const {
    return verdicts_[entry][static_cast<int>(mode)][same_thread ? 1 : 0];
  }

 private:
  static constexpr int kModes = 3;

  std::array<std::array<std::array<Verdict, 2>, kModes>, kDriverEntryCount> verdicts_ = {};
};

}  // namespace coppice::emulator
