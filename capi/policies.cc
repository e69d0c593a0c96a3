// Ladders in words and in JSON.

#include "capi/policies.h"

#include <cstdint>
#include <string>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/padding/padding_presets.h"
#include "coppice/padding/policy_document.h"

#include "capi/structs.h"

namespace coppice::capi {

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
  const PaddingPreset* preset = FindPaddingPreset(text);
  if (preset == nullptr || preset->limit == 0)
    return InvalidArgument("policy {}: give its maximum", text);
  return PaddingPolicy::Parse(text, preset->limit);
}

absl::StatusOr<std::optional<PaddingClaim>> ClaimOf(const coppice_claim& claim) {
  COPPICE_ASSIGN_OR_RETURN(const int padding, EnumOf<int>(claim.padding, 4, "claim: padding"));
  if (padding == COPPICE_PADDING_NO_CLAIM) return std::nullopt;
  constexpr PaddingContents kContents[] = {PaddingContents::kAny, PaddingContents::kFinite,
                                           PaddingContents::kFill};
  const bool bits = claim.absolute == 0 && claim.relative == 0;
  return PaddingClaim{
      .padding = kContents[padding - 1],
      .equal = {.bits = bits, .absolute = claim.absolute, .relative = claim.relative}};
}

}  // namespace coppice::capi
