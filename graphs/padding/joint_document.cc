// Documents of joint policies: field by field, each error with its place.

#include "coppice/padding/joint_document.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/padding/policy_document.h"

#include "base/json_document.h"
#include "base/json_fields.h"
#include "graphs/padding/document_fields.h"

namespace coppice {

using internal::AmountOf;
using internal::At;
using internal::CheckPolicyVersion;

namespace {

constexpr JsonLimits kJointLimits = {.canonical = false, .depth_max = 8};

absl::StatusOr<JointSize> JointSizeOf(Json pair) {
  COPPICE_RETURN_IF_ERROR(CheckList(pair, 2, 2));
  JointSize size;
  int64_t JointSize::*extent = &JointSize::a;
  for (const Json value : pair) {
    COPPICE_ASSIGN_OR_RETURN(size.*extent, IntegerOf(value, 1, PaddingPolicy::kExtentMax));
    extent = &JointSize::b;
  }
  return size;
}

absl::StatusOr<JointPolicy> JointListOf(Json root, std::optional<JointSize> limit, int64_t budget) {
  const Json list = root["buckets"];
  COPPICE_RETURN_IF_ERROR(CheckList(list, 1, JointPolicy::kListMax));
  std::vector<JointSize> buckets;
  JointSize largest;
  for (const Json pair : list) {
    COPPICE_ASSIGN_OR_RETURN(const JointSize bucket, JointSizeOf(pair));
    buckets.push_back(bucket);
    largest = {std::max(largest.a, bucket.a), std::max(largest.b, bucket.b)};
  }
  COPPICE_ASSIGN_OR_RETURN(const bool ordered, BoolOr(root["ordered"], false));
  if (ordered) return At(list, JointPolicy::Ordered(buckets, limit.value_or(largest), budget));
  return At(list, JointPolicy::List(buckets, limit.value_or(largest), budget));
}

absl::StatusOr<JointPolicy> JointGridOf(Json root, std::optional<JointSize> limit, int64_t budget) {
  const Json grid = root["grid"];
  COPPICE_ASSIGN_OR_RETURN(const std::string text, TextOf(grid));
  if (root["ordered"].present())
    return root["ordered"].Error("only a list can be ordered; leave this field out");
  if (!limit)
    return root.Error("has no field \"limit\"; add it, for example {{\"limit\": [16, 8192]}}");
  const size_t slash = text.find('/');
  if (slash == std::string::npos)
    return grid.Error("{}; write two ladders, such as \"pow2/linear:128\"", grid.Show());
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy a,
                           At(grid, PaddingPolicy::Parse(text.substr(0, slash), limit->a)));
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy b,
                           At(grid, PaddingPolicy::Parse(text.substr(slash + 1), limit->b)));
  return At(grid, JointPolicy::Grid(std::move(a), std::move(b), budget));
}

absl::StatusOr<JointPolicy> JointPolicyOf(Json root) {
  if (root["buckets"].present() == root["grid"].present())
    return root.Error("give either \"buckets\", a list of pairs, or \"grid\"");
  std::optional<JointSize> limit;
  if (root["limit"].present()) {
    COPPICE_ASSIGN_OR_RETURN(limit, JointSizeOf(root["limit"]));
  }
  COPPICE_ASSIGN_OR_RETURN(const int64_t budget,
                           IntegerOr(root["budget"], 0, 1, std::numeric_limits<int64_t>::max()));
  COPPICE_ASSIGN_OR_RETURN(JointPolicy policy, root["grid"].present()
                                                   ? JointGridOf(root, limit, budget)
                                                   : JointListOf(root, limit, budget));
  const Json guard = root["guard"];
  if (!guard.present()) return policy;
  COPPICE_RETURN_IF_ERROR(CheckFields(guard, {"max_ratio", "min_replay_elements?"}));
  JointGuard read;
  COPPICE_ASSIGN_OR_RETURN(read.max_ratio, FractionOf(guard["max_ratio"]));
  COPPICE_ASSIGN_OR_RETURN(
      read.min_replay_elements,
      IntegerOr(guard["min_replay_elements"], 0, 0, std::numeric_limits<int64_t>::max()));
  return At(guard, policy.WithGuard(read));
}

absl::StatusOr<std::optional<JointLearnedFrom>> JointLearnedOf(Json learned) {
  if (!learned.present()) return std::nullopt;
  COPPICE_RETURN_IF_ERROR(CheckFields(learned, {"waste_pct", "mass"}));
  JointLearnedFrom read;
  COPPICE_ASSIGN_OR_RETURN(read.waste_pct, AmountOf(learned["waste_pct"]));
  COPPICE_ASSIGN_OR_RETURN(read.mass, AmountOf(learned["mass"]));
  return read;
}

}  // namespace

bool IsJointDocument(std::string_view text) {
  const absl::StatusOr<JsonDocument> document = JsonDocument::Parse(text, "policy", kJointLimits);
  if (!document.ok() || !document->root().is(JsonKind::kObject)) return false;
  if (document->root()["grid"].present()) return true;
  const Json buckets = document->root()["buckets"];
  return buckets.is(JsonKind::kList) && buckets.size() > 0 &&
         (*buckets.begin()).is(JsonKind::kList);
}

absl::StatusOr<JointDocument> ReadJointDocument(std::string_view text, const std::string& where) {
  COPPICE_ASSIGN_OR_RETURN(JsonDocument document, JsonDocument::Parse(text, where, kJointLimits));
  const Json root = document.root();
  COPPICE_RETURN_IF_ERROR(CheckPolicyVersion(root));
  COPPICE_RETURN_IF_ERROR(CheckFields(root, {"version", "buckets?", "grid?", "limit?", "budget?",
                                             "ordered?", "guard?", "learned?"}));
  COPPICE_ASSIGN_OR_RETURN(JointPolicy policy, JointPolicyOf(root));
  COPPICE_ASSIGN_OR_RETURN(const std::optional<JointLearnedFrom> learned,
                           JointLearnedOf(root["learned"]));
  return JointDocument{.policy = std::move(policy), .learned = learned};
}

// Nothing in it needs escapes.
std::string WriteJointDocument(const JointDocument& document) {
  const JointPolicy& policy = document.policy;
  std::string text = fmt::format(R"({{"version": {}, )", kPolicyDocumentVersion);
  if (policy.is_grid()) {
    text += fmt::format(R"("grid": "{}/{}")", policy.axes()[0].name(), policy.axes()[1].name());
  } else {
    std::vector<std::string> pairs;
    for (const JointSize& bucket : policy.buckets())
      pairs.push_back(fmt::format("[{}, {}]", bucket.a, bucket.b));
    text += fmt::format(R"("buckets": [{}])", fmt::join(pairs, ", "));
  }
  text += fmt::format(R"(, "limit": [{}, {}])", policy.limit().a, policy.limit().b);
  if (policy.budget() > 0) text += fmt::format(R"(, "budget": {})", policy.budget());
  if (policy.is_ordered()) text += R"(, "ordered": true)";
  if (policy.guard() != JointGuard())
    text += fmt::format(R"(, "guard": {{"max_ratio": "{}", "min_replay_elements": {}}})",
                        policy.guard().max_ratio, policy.guard().min_replay_elements);
  if (document.learned)
    text += fmt::format(R"(, "learned": {{"waste_pct": "{}", "mass": "{}"}})",
                        document.learned->waste_pct, document.learned->mass);
  return text + "}";
}

}  // namespace coppice
