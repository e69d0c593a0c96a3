// Names of runs and reasons, as counters and logs print them.

#include "coppice/graphs/reason.h"

namespace coppice {

const char* NameOf(RunKind kind) {
  switch (kind) {
    case RunKind::kReplay:
      return "replay";
    case RunKind::kRecord:
      return "record";
    case RunKind::kWarmUp:
      return "warm_up";
    case RunKind::kEager:
      return "eager";
    case RunKind::kInclude:
      return "include";
  }
  return "?";
}

const char* NameOf(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "none";
    case Reason::kNewBucket:
      return "new_bucket";
    case Reason::kStaticInputMoved:
      return "static_input_moved";
    case Reason::kOtherLiveRegions:
      return "other_live_regions";
    case Reason::kEvicted:
      return "evicted";
    case Reason::kOverLargestBucket:
      return "over_largest_bucket";
    case Reason::kUnpaddedExtent:
      return "unpadded_extent";
    case Reason::kGraphLimit:
      return "graph_limit";
    case Reason::kByteLimit:
      return "byte_limit";
    case Reason::kCaptureInvalidated:
      return "capture_invalidated";
    case Reason::kNotCapturable:
      return "not_capturable";
    case Reason::kGateSaysEager:
      return "gate_says_eager";
    case Reason::kUserDisabled:
      return "user_disabled";
    case Reason::kPaddedTooMuch:
      return "padded_too_much";
  }
  return "?";
}

}  // namespace coppice
