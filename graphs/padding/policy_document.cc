// Documents of policies: field by field, each error with its place.

#include "coppice/padding/policy_document.h"

#include <limits>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "base/json_document.h"
#include "base/json_fields.h"
#include "graphs/padding/document_fields.h"

namespace coppice {

using internal::AmountOf;
using internal::At;
using internal::CheckPolicyVersion;

namespace {

constexpr int kDepthMax = 8;

absl::StatusOr<std::vector<int64_t>> ListOf(Json list, int64_t min) {
  COPPICE_RETURN_IF_ERROR(CheckList(list, 1, PaddingPolicy::kExtentMax));
  std::vector<int64_t> values;
  for (const Json value : list) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t one, IntegerOf(value, min, PaddingPolicy::kExtentMax));
    values.push_back(one);
  }
  return values;
}

absl::StatusOr<PaddingPolicy> PolicyOfBuckets(Json list, std::optional<int64_t> maximum) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> buckets, ListOf(list, 1));
  for (size_t i = 1; i < buckets.size(); ++i) {
    if (buckets[i] <= buckets[i - 1])
      return list.Error("{} comes after {}; sort the buckets, and write each only once", buckets[i],
                        buckets[i - 1]);
  }
  if (maximum && buckets.back() > *maximum)
    return list.Error("bucket {} is above the maximum, {}", buckets.back(), *maximum);
  return PaddingPolicy::List(buckets, maximum.value_or(buckets.back()));
}

absl::StatusOr<PaddingPolicy> LadderOf(Json root, int64_t maximum) {
  std::optional<int64_t> limit;
  if (maximum != 0) limit = maximum;
  if (const Json own = root["maximum"]; own.present()) {
    COPPICE_ASSIGN_OR_RETURN(limit, IntegerOf(own, 1, PaddingPolicy::kExtentMax));
    if (maximum != 0 && *limit != maximum)
      return own.Error("{}, but {} is required; leave this field out", *limit, maximum);
  }
  const Json ladder = root["ladder"];
  const Json buckets = root["buckets"];
  if (ladder.present() == buckets.present())
    return root.Error("give either \"ladder\" or \"buckets\"");
  if (buckets.present()) return PolicyOfBuckets(buckets, limit);
  COPPICE_ASSIGN_OR_RETURN(const std::string text, TextOf(ladder));
  if (!limit)
    return root.Error("has no field \"maximum\"; add it, for example {{\"maximum\": 64}}");
  return At(ladder, PaddingPolicy::Parse(text, *limit));
}

absl::StatusOr<PaddingPolicy> GuardedBy(Json guard, const PaddingPolicy& policy) {
  if (!guard.present()) return policy;
  COPPICE_RETURN_IF_ERROR(CheckFields(guard, {"max_ratio?", "min_replay_size?", "lower_bounds?"}));
  PaddingGuard read;
  COPPICE_ASSIGN_OR_RETURN(read.max_ratio, FractionOr(guard["max_ratio"], 0));
  COPPICE_ASSIGN_OR_RETURN(read.min_replay_size,
                           IntegerOr(guard["min_replay_size"], 0, 0, PaddingPolicy::kExtentMax));
  if (const Json bounds = guard["lower_bounds"]; bounds.present()) {
    COPPICE_ASSIGN_OR_RETURN(read.lower_bounds, ListOf(bounds, 0));
  }
  return At(guard, policy.WithGuard(read));
}

absl::StatusOr<std::optional<LearnedFrom>> LearnedOf(Json learned) {
  if (!learned.present()) return std::nullopt;
  COPPICE_RETURN_IF_ERROR(CheckFields(learned, {"waste_pct", "mass", "limit"}));
  LearnedFrom read;
  COPPICE_ASSIGN_OR_RETURN(read.waste_pct, AmountOf(learned["waste_pct"]));
  COPPICE_ASSIGN_OR_RETURN(read.mass, AmountOf(learned["mass"]));
  COPPICE_ASSIGN_OR_RETURN(read.limit, IntegerOf(learned["limit"], 1, PaddingPolicy::kExtentMax));
  return read;
}

// Whether the name is a list of buckets.
bool IsList(const PaddingPolicy& policy) {
  return policy.name().find_first_not_of("0123456789,") == std::string::npos;
}

}  // namespace

absl::StatusOr<PolicyDocument> ReadPolicyDocument(std::string_view text,
                                                  const std::string& where,
                                                  int64_t maximum) {
  COPPICE_ASSIGN_OR_RETURN(
      JsonDocument document,
      JsonDocument::Parse(text, where, {.canonical = false, .depth_max = kDepthMax}));
  const Json root = document.root();
  COPPICE_RETURN_IF_ERROR(CheckPolicyVersion(root));
  COPPICE_RETURN_IF_ERROR(
      CheckFields(root, {"version", "ladder?", "buckets?", "maximum?", "guard?", "learned?"}));
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy ladder, LadderOf(root, maximum));
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy, GuardedBy(root["guard"], ladder));
  COPPICE_ASSIGN_OR_RETURN(const std::optional<LearnedFrom> learned, LearnedOf(root["learned"]));
  return PolicyDocument{.policy = std::move(policy), .learned = learned};
}

std::string WritePolicyDocument(const PolicyDocument& document) {
  const PaddingPolicy& policy = document.policy;
  nlohmann::ordered_json json = {{"version", kPolicyDocumentVersion}};
  if (IsList(policy)) {
    json["buckets"] = policy.buckets();
  } else {
    json["ladder"] = policy.name();
    json["maximum"] = policy.maximum();
  }
  const PaddingGuard& guard = policy.guard();
  if (guard != PaddingGuard()) {
    nlohmann::ordered_json& fields = json["guard"];
    if (guard.max_ratio != 0) fields["max_ratio"] = fmt::format("{}", guard.max_ratio);
    if (guard.min_replay_size != 0) fields["min_replay_size"] = guard.min_replay_size;
    if (!guard.lower_bounds.empty()) fields["lower_bounds"] = guard.lower_bounds;
  }
  if (document.learned) {
    json["learned"] = {{"waste_pct", fmt::format("{}", document.learned->waste_pct)},
                       {"mass", fmt::format("{}", document.learned->mass)},
                       {"limit", document.learned->limit}};
  }
  return json.dump();
}

}  // namespace coppice
