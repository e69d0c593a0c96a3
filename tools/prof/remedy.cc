// One sentence per reason.

#include "tools/prof/remedy.h"

namespace coppice {

const char* RemedyOf(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
    case Reason::kNewBucket:
      return "the first two calls of a bucket; record it ahead with Session::warming().Warm or a "
             "profile, or have fewer buckets (coppice prof policy)";
    case Reason::kStaticInputMoved:
      return "a static input was at another address; bind it once, or have it copied "
             "(InputRole::kCopy)";
    case Reason::kOtherLiveRegions:
      return "other outputs were leased than at the recording; drop leases in the same order, or "
             "warm the whole chain (Session::warming().Warm of steps)";
    case Reason::kEvicted:
      return "its graph was dropped to make room; raise graphs_per_program_max or the budget, or "
             "have fewer buckets (coppice prof drop)";
    case Reason::kOverLargestBucket:
      return "the call is larger than every bucket; raise the limit of the policy, or split such "
             "calls";
    case Reason::kUnpaddedExtent:
      return "a computed size is smaller at the bucket than at the call; choose buckets at which "
             "it is not";
    case Reason::kGraphLimit:
      return "the program has as many graphs as the limit allows; raise graphs_per_program_max, or "
             "have fewer buckets (coppice prof drop)";
    case Reason::kByteLimit:
      return "there was no room for its plan; raise the budget or the window, or drop buckets that "
             "cost much and serve few calls (coppice prof drop)";
    case Reason::kCaptureInvalidated:
      return "a call of another thread broke the recording; do not make such calls during a "
             "recording, or record in the background";
    case Reason::kNotCapturable:
      return "the program does something that CUDA forbids during a capture; see its failure, and "
             "put that into CallContext::Break";
    case Reason::kGateSaysEager:
      return "measured to be faster without a graph; nothing to do";
    case Reason::kUserDisabled:
      return "the stance, the program or the ranks' vote forbids graphs; if you did not intend "
             "that, allow them";
    case Reason::kPaddedTooMuch:
      return "it would be padded by more than the guard allows; add a bucket near these sizes "
             "(coppice prof policy)";
  }
  return "?";
}

}  // namespace coppice
