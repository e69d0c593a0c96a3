// One sentence per reason.

#include "tools/prof/remedy.h"

namespace coppice {

const char* RemedyOf(Reason reason) {
  switch (reason) {
    case Reason::kNone:
      return "";
    case Reason::kNewBucket:
      return "the first two calls of a bucket; record it ahead with Session::Warm or a profile, or "
             "have fewer buckets (coppice prof policy)";
    case Reason::kStaticInputMoved:
      return "a static input came at another address; bind it once, or let it be copied "
             "(InputRole::kCopy)";
    case Reason::kOtherLiveRegions:
      return "other outputs were leased than when it was recorded; let leases go in the same "
             "order, "
             "or warm the whole chain (Session::Warm of steps)";
    case Reason::kEvicted:
      return "its graph had gone to make room; raise graphs_per_program_max or the budget, or have "
             "fewer buckets (coppice prof drop)";
    case Reason::kOverLargestBucket:
      return "no bucket is as large; raise the limit of the policy, or cut such calls";
    case Reason::kUnpaddedExtent:
      return "an expression has no place in the bucket; give its symbols buckets in which it has "
             "one";
    case Reason::kGraphLimit:
      return "the program has as many graphs as it may; raise graphs_per_program_max, or have "
             "fewer "
             "buckets (coppice prof drop)";
    case Reason::kByteLimit:
      return "its plan found no room; raise the budget or the window, or drop buckets that cost "
             "much and serve little (coppice prof drop)";
    case Reason::kCaptureInvalidated:
      return "somebody broke the capture from outside; keep other threads from calls that do so "
             "while it records, or record in the background";
    case Reason::kNotCapturable:
      return "the program does what no capture allows; see its failure, and put that into "
             "CallContext::Break";
    case Reason::kGateSaysEager:
      return "measured to be faster without a graph; nothing to do";
    case Reason::kUserDisabled:
      return "the stance, the program or the ranks' vote forbids graphs; allow them if that was "
             "not "
             "meant";
    case Reason::kPaddedTooMuch:
      return "a guard refuses so much padding; add a bucket near these sizes (coppice prof policy)";
  }
  return "?";
}

}  // namespace coppice
