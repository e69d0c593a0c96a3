// Ladders in words and in JSON.

#include "capi/policies.h"

#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "capi/structs.h"

namespace coppice::capi {
namespace {

using Json = nlohmann::json;

// An integer member, or nothing if there is none. Errors: another kind of value.
absl::StatusOr<std::optional<int64_t>> IntegerIn(const Json& object, const char* name) {
  const auto found = object.find(name);
  if (found == object.end()) return std::nullopt;
  if (!found->is_number_integer())
    return InvalidArgument("policy: {} is no integer; write {{\"{}\": 64}}", name, name);
  return found->get<int64_t>();
}

absl::StatusOr<PaddingPolicy> ListIn(const Json& buckets, std::optional<int64_t> maximum) {
  std::vector<int64_t> list;
  for (const Json& bucket : buckets) {
    if (!bucket.is_number_integer())
      return InvalidArgument("policy: a bucket is no integer; write [1, 2, 4]");
    list.push_back(bucket.get<int64_t>());
  }
  if (!buckets.is_array() || list.empty())
    return InvalidArgument("policy: buckets must be a list of sizes, as in [1, 2, 4]");
  return PaddingPolicy::List(list, maximum.value_or(list.back()));
}

absl::StatusOr<PaddingPolicy> PolicyOfJson(const std::string& text, int64_t maximum) {
  const Json document = Json::parse(text, nullptr, false);
  if (!document.is_object()) return InvalidArgument("policy: no JSON object: {}", text);
  COPPICE_ASSIGN_OR_RETURN(const std::optional<int64_t> version, IntegerIn(document, "version"));
  if (version != 1)
    return MakeError(absl::StatusCode::kUnimplemented,
                     "policy: version {}; this library reads version 1",
                     version ? fmt::format("{}", *version) : "is not given");
  for (const auto& [name, value] : document.items()) {
    if (name != "version" && name != "maximum" && name != "ladder" && name != "buckets" &&
        !name.starts_with("x-"))
      return InvalidArgument(
          "policy: no member is called {}; version, maximum, and ladder or "
          "buckets are",
          name);
  }
  COPPICE_ASSIGN_OR_RETURN(std::optional<int64_t> limit, IntegerIn(document, "maximum"));
  if (limit && maximum != 0 && *limit != maximum)
    return InvalidArgument("policy: its maximum is {}, the struct's {}; leave one out", *limit,
                           maximum);
  if (!limit && maximum != 0) limit = maximum;
  const auto ladder = document.find("ladder");
  const auto buckets = document.find("buckets");
  if ((ladder == document.end()) == (buckets == document.end()))
    return InvalidArgument("policy: give either ladder or buckets");
  if (buckets != document.end()) return ListIn(*buckets, limit);
  if (!ladder->is_string() || !limit)
    return InvalidArgument(
        "policy: a ladder is a text, and has a maximum: "
        R"({{"version": 1, "ladder": "pow2", "maximum": 64}})");
  return PaddingPolicy::Parse(ladder->get<std::string>(), *limit);
}

}  // namespace

absl::StatusOr<PaddingPolicy> PolicyOf(const coppice_policy& policy) {
  const std::string text = TextOf(policy.text);
  if (text.starts_with('{')) return PolicyOfJson(text, policy.maximum);
  const int64_t maximum = policy.maximum == 0 ? PaddingPolicy::kExtentMax : policy.maximum;
  if (text.empty()) return PaddingPolicy::Exact(maximum);
  if (policy.maximum == 0 && text != "exact")
    return InvalidArgument("policy {}: give its maximum", text);
  return PaddingPolicy::Parse(text, maximum);
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
