// Reads policy documents, and cuts policies to what a program can take.

#include "tools/support/policy_file.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "coppice/base/status.h"
#include "coppice/padding/policy_document.h"

#include "tools/support/text_file.h"

namespace coppice {

bool IsPolicyFile(const std::string& text) {
  return text.ends_with(".json");
}

absl::StatusOr<PaddingPolicy> ReadPolicyFile(const std::string& path, int64_t maximum) {
  COPPICE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, "a policy"));
  COPPICE_ASSIGN_OR_RETURN(PolicyDocument document, ReadPolicyDocument(text, path, maximum));
  return std::move(document.policy);
}

absl::StatusOr<PaddingPolicy> FitPolicy(const PaddingPolicy& policy, int64_t maximum) {
  if (policy.maximum() == maximum) return policy;
  if (policy.is_exact()) return PaddingPolicy::Exact(maximum);
  if (!policy.guard().lower_bounds.empty())
    return InvalidArgument(
        "its guard has a bound for each bucket up to {}, and {} is wanted; give "
        "a policy of that maximum",
        policy.maximum(), maximum);
  std::vector<int64_t> buckets = policy.buckets();
  std::erase_if(buckets, [maximum](int64_t bucket) { return bucket > maximum; });
  buckets.push_back(maximum);
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy fitted, PaddingPolicy::List(buckets, maximum));
  return fitted.WithGuard(policy.guard());
}

}  // namespace coppice
