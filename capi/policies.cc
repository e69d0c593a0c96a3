// Policies in words and in JSON.

#include "capi/policies.h"

#include <cstdint>
#include <string>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/padding/joint_document.h"
#include "coppice/padding/padding_presets.h"
#include "coppice/padding/policy_document.h"

#include "capi/structs.h"

namespace coppice::capi {
namespace {

// Where a preset ends; 0: the text is none, or one that goes on.
int64_t PresetLimit(const std::string& text) {
  const PaddingPreset* const preset = FindPaddingPreset(text);
  return preset == nullptr ? 0 : preset->limit;
}

// The limit of a joint policy in words. Errors: kInvalidArgument neither caller nor preset says it.
absl::StatusOr<JointSize> LimitOf(const std::string& text, JointSize limit) {
  const size_t slash = text.find('/');
  if (slash != std::string::npos) {
    if (limit.a == 0) limit.a = PresetLimit(text.substr(0, slash));
    if (limit.b == 0) limit.b = PresetLimit(text.substr(slash + 1, text.find('/', slash + 1)));
  }
  if (limit.a != 0 && limit.b != 0) return limit;
  return InvalidArgument("joint policy {}: give the maxima of both sizes", text);
}

}  // namespace

absl::StatusOr<PaddingPolicy> PolicyOf(const coppice_policy& policy) {
  const std::string text = TextOf(policy.text);
  if (text.starts_with('{')) {
    COPPICE_ASSIGN_OR_RETURN(PolicyDocument document,
                             ReadPolicyDocument(text, "policy", policy.maximum));
    return std::move(document.policy);
  }
  if (policy.maximum != 0)
    return PaddingPolicy::Parse(text.empty() ? "exact" : text, policy.maximum);
  if (text.empty() || text == "exact") return PaddingPolicy::Exact(PaddingPolicy::kExtentMax);
  const int64_t limit = PresetLimit(text);
  if (limit == 0) return InvalidArgument("policy {}: give its maximum", text);
  return PaddingPolicy::Parse(text, limit);
}

absl::StatusOr<JointPolicy> PolicyOf(const coppice_joint_policy& policy) {
  const std::string text = TextOf(policy.text);
  const JointSize given{.a = policy.a_maximum, .b = policy.b_maximum};
  if (!text.starts_with('{')) {
    COPPICE_ASSIGN_OR_RETURN(const JointSize limit, LimitOf(text, given));
    return JointPolicy::Parse(text, limit);
  }
  COPPICE_ASSIGN_OR_RETURN(JointDocument document, ReadJointDocument(text, "joint policy"));
  const JointSize limit = document.policy.limit();
  if ((given.a != 0 && given.a != limit.a) || (given.b != 0 && given.b != limit.b))
    return InvalidArgument("joint policy: its limit is {}x{}, but the given maxima are {}x{}",
                           limit.a, limit.b, given.a, given.b);
  return std::move(document.policy);
}

absl::StatusOr<std::pair<std::string, std::string>> SymbolsOf(const coppice_joint_policy& policy) {
  std::pair<std::string, std::string> names;
  COPPICE_ASSIGN_OR_RETURN(names.first, NameIn(policy.a, "joint policy: a"));
  COPPICE_ASSIGN_OR_RETURN(names.second, NameIn(policy.b, "joint policy: b"));
  return names;
}

absl::StatusOr<std::optional<PaddingClaim>> ClaimOf(const coppice_claim& claim) {
  constexpr PaddingContents kContents[] = {PaddingContents::kAny, PaddingContents::kFinite,
                                           PaddingContents::kFill,
                                           PaddingContents::kRowIndependent};
  constexpr int kCount = std::size(kContents) + 1;
  COPPICE_ASSIGN_OR_RETURN(const int padding, EnumOf<int>(claim.padding, kCount, "claim: padding"));
  if (padding == COPPICE_PADDING_NO_CLAIM) return std::nullopt;
  const bool bits = claim.absolute == 0 && claim.relative == 0;
  return PaddingClaim{
      .padding = kContents[padding - 1],
      .equal = {.bits = bits, .absolute = claim.absolute, .relative = claim.relative}};
}

}  // namespace coppice::capi
