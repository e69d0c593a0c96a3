// A symbol's ladder replaced while calls run. Private to graphs/.
//
// Threads: as each says.

#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/padding/padding_policy.h"

#include "graphs/node/node_key.h"
#include "graphs/parts/session_parts.h"
#include "graphs/program/ladder.h"

namespace coppice::internal {

// The ladder of a symbol that may be padded. `where` begins messages. Under a lane's lock, or that
// of the ladders. Errors: kInvalidArgument another session's program, no such symbol, or one in a
// joint policy; kFailedPrecondition the program was unregistered.
absl::StatusOr<Ladder*> FindLadder(const char* where,
                                   const SessionParts& parts,
                                   const Program& program,
                                   int symbol);

// Whether `policy` may replace that of a symbol. Errors: kInvalidArgument  the symbol is never
// padded, or the policy never pads; another maximum; buckets that the program does not take.
absl::Status CheckPolicy(const char* where,
                         const Program& program,
                         int symbol,
                         const PaddingPolicy& policy);

// Replaces the policy of a symbol: no call finds the graphs of buckets that are gone. Requires: all
// lanes' locks, no recording under way; what CheckPolicy checks.
void SwapPolicy(const SessionParts& parts,
                const Program& program,
                int symbol,
                PaddingPolicy policy);

// Drops what lanes have retired and what neither runs nor is leased, without waiting for the
// device. Without any lane's lock. Errors: the driver's.
absl::Status DropVanished(const SessionParts& parts);

// As the session's methods of these names.
absl::Status SetPolicy(const SessionParts& parts,
                       const Program& program,
                       int symbol,
                       PaddingPolicy policy);
absl::StatusOr<std::string> GetObserved(SessionParts& parts, const Program& program, int symbol);
absl::Status SetObserved(SessionParts& parts,
                         const Program& program,
                         int symbol,
                         std::string_view text);

// The error of a symbol that nobody counts.
absl::Status NotObserved(const char* where, const Program& program, int symbol);

}  // namespace coppice::internal
