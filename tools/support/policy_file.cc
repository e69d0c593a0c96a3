// Reads policy documents, and cuts policies to what a program can take.

#include "tools/support/policy_file.h"

#include <algorithm>
#include <charconv>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/padding/policy_document.h"

#include "tools/support/text_file.h"

namespace coppice {
namespace {

// The list without buckets above `maximum`; what is no number stays, for Parse to name.
std::string FitList(const std::string& text, int64_t maximum) {
  std::vector<std::string> kept;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find(',', start), text.size());
    const std::string part = text.substr(start, end - start);
    int64_t bucket = 0;
    const auto [rest, error] = std::from_chars(part.data(), part.data() + part.size(), bucket);
    const bool above = error == std::errc() && *rest == '\0' && bucket > maximum;
    if (!above) kept.push_back(part);
    start = end + 1;
  }
  return kept.empty() ? fmt::format("{}", maximum) : fmt::format("{}", fmt::join(kept, ","));
}

}  // namespace

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
        "its guard has bounds for buckets up to {}, but the maximum must be {}; give a policy with "
        "that maximum",
        policy.maximum(), maximum);
  std::vector<int64_t> buckets = policy.buckets();
  std::erase_if(buckets, [maximum](int64_t bucket) { return bucket > maximum; });
  buckets.push_back(maximum);
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy fitted, PaddingPolicy::List(buckets, maximum));
  return fitted.WithGuard(policy.guard());
}

absl::StatusOr<PaddingPolicy> ParseFittingPolicy(const std::string& text, int64_t maximum) {
  if (!IsPolicyFile(text)) return PaddingPolicy::Parse(FitList(text, maximum), maximum);
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy policy, ReadPolicyFile(text));
  absl::StatusOr<PaddingPolicy> fitted = FitPolicy(policy, maximum);
  if (fitted.ok()) return fitted;
  return InvalidArgument("{}: {}", text, MessageOf(fitted.status()));
}

}  // namespace coppice
