// Fields of a profile, written and read.

#include "graphs/profile/profile_document.h"

#include <set>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "base/json_document.h"
#include "base/json_fields.h"

namespace coppice::internal {
namespace {

constexpr char kSchema[] = "coppice-profile";
constexpr int64_t kMajor = 1;
constexpr int64_t kMinor = 0;
constexpr int kDepthMax = 16;

// Any number of them, as far as values go.
constexpr int64_t kAnyCount = int64_t{1} << 32;

nlohmann::json JsonOf(const ProfileProgram& program) {
  nlohmann::json policies = nlohmann::json::array();
  for (const ProfilePolicy& policy : program.policies)
    policies.push_back(
        {{"symbol", policy.symbol}, {"buckets", policy.buckets}, {"max", policy.maximum}});
  nlohmann::json buckets = nlohmann::json::array();
  for (const auto& [key, figures] : program.buckets) {
    nlohmann::json bucket = {{"extents", key.first},
                             {"scalars", key.second},
                             {"launches", figures.launches},
                             {"graph_nodes", figures.graph_nodes},
                             {"plan_height", figures.plan_height},
                             {"live_bytes", figures.live_bytes},
                             {"graph_bytes", figures.graph_bytes}};
    if (!figures.variants.empty()) bucket["variants"] = figures.variants;
    buckets.push_back(std::move(bucket));
  }
  return {{"name", program.name},
          {"variant", program.variant},
          {"digest", program.digest},
          {"policies", std::move(policies)},
          {"buckets", std::move(buckets)}};
}

absl::StatusOr<std::vector<int64_t>> ReadWords(Json list, int count_max, int64_t min) {
  COPPICE_RETURN_IF_ERROR(CheckList(list, 0, count_max));
  std::vector<int64_t> words;
  for (const Json value : list) {
    COPPICE_ASSIGN_OR_RETURN(const int64_t word, IntegerOf(value, min, INT64_MAX));
    words.push_back(word);
  }
  return words;
}

absl::Status ReadVariants(Json object, BucketFigures& figures) {
  if (!object.present()) return absl::OkStatus();
  COPPICE_RETURN_IF_ERROR(CheckKind(object, JsonKind::kObject));
  for (const Json value : object) {
    COPPICE_ASSIGN_OR_RETURN(figures.variants[std::string(value.key())], TextOf(value));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::pair<ProfileKey, BucketFigures>> ReadBucket(Json value) {
  COPPICE_RETURN_IF_ERROR(
      CheckFields(value, {"extents", "graph_bytes", "graph_nodes", "launches", "live_bytes",
                          "plan_height", "scalars", "variants?"}));
  std::pair<ProfileKey, BucketFigures> bucket;
  COPPICE_ASSIGN_OR_RETURN(bucket.first.first, ReadWords(value["extents"], kSymbolsMax, 0));
  COPPICE_ASSIGN_OR_RETURN(bucket.first.second,
                           ReadWords(value["scalars"], kScalarsMax, INT64_MIN));
  BucketFigures& figures = bucket.second;
  COPPICE_ASSIGN_OR_RETURN(figures.launches, IntegerOf(value["launches"], 0, kLaunchesMax));
  COPPICE_ASSIGN_OR_RETURN(figures.graph_nodes, IntegerOf(value["graph_nodes"], 0, kLaunchesMax));
  COPPICE_ASSIGN_OR_RETURN(figures.plan_height, IntegerOf(value["plan_height"], 0, kLaunchesMax));
  COPPICE_ASSIGN_OR_RETURN(figures.live_bytes, IntegerOf(value["live_bytes"], 0, kLaunchesMax));
  COPPICE_ASSIGN_OR_RETURN(figures.graph_bytes, IntegerOf(value["graph_bytes"], 0, kLaunchesMax));
  COPPICE_RETURN_IF_ERROR(ReadVariants(value["variants"], figures));
  return bucket;
}

absl::StatusOr<ProfileProgram> ReadProgram(Json value) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"buckets", "digest", "name", "policies", "variant"}));
  ProfileProgram program;
  COPPICE_ASSIGN_OR_RETURN(program.name, TextOf(value["name"]));
  COPPICE_ASSIGN_OR_RETURN(program.variant, TextOf(value["variant"]));
  COPPICE_ASSIGN_OR_RETURN(program.digest, TextOf(value["digest"]));
  COPPICE_RETURN_IF_ERROR(CheckList(value["policies"], 0, kSymbolsMax));
  for (const Json each : value["policies"]) {
    COPPICE_RETURN_IF_ERROR(CheckFields(each, {"buckets", "max", "symbol"}));
    ProfilePolicy policy;
    COPPICE_ASSIGN_OR_RETURN(policy.symbol, TextOf(each["symbol"]));
    COPPICE_ASSIGN_OR_RETURN(policy.buckets, TextOf(each["buckets"]));
    COPPICE_ASSIGN_OR_RETURN(policy.maximum, IntegerOf(each["max"], 1, INT64_MAX));
    program.policies.push_back(std::move(policy));
  }
  COPPICE_RETURN_IF_ERROR(CheckList(value["buckets"], 0, kAnyCount));
  std::set<ProfileKey> keys;
  for (const Json each : value["buckets"]) {
    COPPICE_ASSIGN_OR_RETURN(auto bucket, ReadBucket(each));
    if (!keys.insert(bucket.first).second)
      return each.Error(
          "a bucket with these extents and scalars occurs earlier; remove one of them");
    program.buckets.push_back(std::move(bucket));
  }
  return program;
}

absl::Status CheckSchema(Json root) {
  COPPICE_RETURN_IF_ERROR(CheckKind(root, JsonKind::kObject));
  if (!root["schema"].is(JsonKind::kText) || root["schema"].text() != kSchema)
    return root.Error(
        "is not a profile: its schema is not \"{}\"; give a file that SaveProfile wrote", kSchema);
  const Json version = root["schema_version"];
  if (!version.present()) return root.Error("has no field \"schema_version\"; add it");
  COPPICE_RETURN_IF_ERROR(CheckList(version, 2, 2));
  for (const Json part : version)
    COPPICE_RETURN_IF_ERROR(IntegerOf(part, 0, INT64_MAX).status());
  const int64_t major = (*version.begin()).integer();
  if (major == kMajor) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnimplemented,
                   "{}: {}: the profile has version {}, but this library reads {}; save it again "
                   "from a session of this library",
                   root.document().name(), version.Pointer(), major, kMajor);
}

absl::StatusOr<ProfileDevice> ReadDevice(Json value) {
  COPPICE_RETURN_IF_ERROR(CheckFields(value, {"capability", "driver", "name"}));
  ProfileDevice device;
  COPPICE_ASSIGN_OR_RETURN(device.name, TextOf(value["name"]));
  COPPICE_ASSIGN_OR_RETURN(device.driver, TextOf(value["driver"]));
  COPPICE_RETURN_IF_ERROR(CheckList(value["capability"], 2, 2));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<int64_t> capability,
                           ReadWords(value["capability"], 2, 0));
  device.capability_major = capability[0];
  device.capability_minor = capability[1];
  return device;
}

}  // namespace

std::string TextOf(const Profile& profile) {
  nlohmann::json programs = nlohmann::json::array();
  for (const ProfileProgram& program : profile.programs)
    programs.push_back(JsonOf(program));
  nlohmann::json root = {{"schema", kSchema},
                         {"schema_version", {kMajor, kMinor}},
                         {"library", profile.library},
                         {"programs", std::move(programs)}};
  if (profile.device) {
    const ProfileDevice& device = *profile.device;
    root["device"] = {{"name", device.name},
                      {"capability", {device.capability_major, device.capability_minor}},
                      {"driver", device.driver}};
  }
  return root.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

absl::StatusOr<Profile> ParseProfile(std::string_view text, const std::string& name) {
  COPPICE_ASSIGN_OR_RETURN(
      JsonDocument document,
      JsonDocument::Parse(text, name, {.canonical = false, .depth_max = kDepthMax}));
  const Json root = document.root();
  COPPICE_RETURN_IF_ERROR(CheckSchema(root));
  Json::Iterator minor = root["schema_version"].begin();
  if ((*++minor).integer() > kMinor) document.IgnoreUnknown();
  COPPICE_RETURN_IF_ERROR(
      CheckFields(root, {"device?", "library", "programs", "schema", "schema_version"}));
  Profile profile;
  COPPICE_ASSIGN_OR_RETURN(profile.library, TextOf(root["library"]));
  if (root["device"].present()) {
    COPPICE_ASSIGN_OR_RETURN(profile.device, ReadDevice(root["device"]));
  }
  COPPICE_RETURN_IF_ERROR(CheckList(root["programs"], 0, kAnyCount));
  std::set<std::pair<std::string, std::string>> names;
  for (const Json each : root["programs"]) {
    COPPICE_ASSIGN_OR_RETURN(ProfileProgram program, ReadProgram(each));
    if (!names.emplace(program.name, program.variant).second)
      return each.Error("a program with this name and variant occurs earlier; remove one of them");
    profile.programs.push_back(std::move(program));
  }
  return profile;
}

}  // namespace coppice::internal
