// A change per symbol; without one, what its program was registered with.

#include "tools/prof/latest_policies.h"

#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/padding/policy_document.h"

namespace coppice {

void LatestPolicies::Add(const TracedEvent& event) {
  const auto* const policy = event.As<PolicyEvent>();
  if (policy == nullptr) return;
  const Change change{.time_ns = event.time_ns, .policy = policy->policy};
  const auto [known, is_new] = changes_.try_emplace({policy->program, policy->symbol}, change);
  if (!is_new && change.time_ns >= known->second.time_ns) known->second = change;
}

const std::string* LatestPolicies::FindDocument(const PoolTrace& trace,
                                                int program,
                                                int symbol) const {
  const auto change = changes_.find({program, symbol});
  if (change != changes_.end()) return &trace.policies[static_cast<size_t>(change->second.policy)];
  const std::vector<std::string>& registered =
      trace.programs[static_cast<size_t>(program)].policies;
  return static_cast<size_t>(symbol) < registered.size() ? &registered[static_cast<size_t>(symbol)]
                                                         : nullptr;
}

std::optional<PaddingPolicy> LatestPolicies::Find(const PoolTrace& trace,
                                                  int program,
                                                  int symbol) const {
  const std::string* const document = FindDocument(trace, program, symbol);
  if (document == nullptr) return std::nullopt;
  absl::StatusOr<PolicyDocument> read = ReadPolicyDocument(*document, "the policy");
  return read.ok() ? std::optional(std::move(read->policy)) : std::nullopt;
}

}  // namespace coppice
