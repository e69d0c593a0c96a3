// Names of paths and reasons, as counters and logs print them.

#include "coppice/graphs/reason.h"

namespace coppice {

const char* NameOf(Path path) {
  switch (path) {
    case Path::kReplay:
      return "replay";
    case Path::kRecord:
      return "record";
    case Path::kWarmUp:
      return "warm_up";
    case Path::kEager:
      return "eager";
    case Path::kInclude:
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
    case Reason::kPoisoned:
      return "poisoned";
  }
  return "?";
}

}  // namespace coppice
