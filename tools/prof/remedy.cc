// One sentence per reason.

#include "tools/prof/remedy.h"

namespace coppice {

const char* RemedyOf(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
    case Reason::kNewBucket:
      return "the call is one of the first two of its bucket; record the bucket ahead with "
             "Session::warming().Warm or a profile, or use fewer buckets (coppice prof policy)";
    case Reason::kStaticInputMoved:
      return "a static input was at another address; bind it once, or have it copied "
             "(InputRole::kCopy)";
    case Reason::kOtherLiveRegions:
      return "the leased outputs differ from those at the recording; drop leases in the same "
             "order, or warm the whole chain (Session::warming().Warm with steps)";
    case Reason::kEvicted:
      return "its graph was dropped to make room; raise graphs_per_program_max or the budget, or "
             "use fewer buckets (coppice prof drop)";
    case Reason::kOverLargestBucket:
      return "the call is larger than every bucket; raise the limit of the policy, or split such "
             "calls";
    case Reason::kUnpaddedExtent:
      return "padding to the bucket makes a computed size smaller; choose buckets that do not make "
             "it smaller";
    case Reason::kGraphLimit:
      return "the program has reached its limit of graphs; raise graphs_per_program_max, or use "
             "fewer buckets (coppice prof drop)";
    case Reason::kByteLimit:
      return "there was no room for the memory plan of the bucket; raise the budget or the window, "
             "or drop buckets that take much memory and serve few calls (coppice prof drop)";
    case Reason::kCaptureInvalidated:
      return "a CUDA call in another thread broke the recording; do not make such calls during a "
             "recording, or record in the background";
    case Reason::kNotCapturable:
      return "the program does something that CUDA forbids during a capture; see the failure, and "
             "move the forbidden part into CallContext::Break";
    case Reason::kGateSaysEager:
      return "the gate measured that this bucket is faster without a graph; nothing to do";
    case Reason::kUserDisabled:
      return "the stance, the program or the ranks' vote forbids graphs; if you did not intend "
             "that, allow graphs";
    case Reason::kPaddedTooMuch:
      return "the call would be padded by more than the guard allows; add a bucket near these "
             "sizes (coppice prof policy)";
  }
  return "?";
}

}  // namespace coppice
