// Buckets of all lanes added up, and what profiles brought.

#include "graphs/profile/save.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "coppice/base/status.h"

#include "graphs/profile/program_digest.h"

namespace coppice::internal {
namespace {

using Buckets = std::map<ProfileKey, BucketFigures>;

ProfileKey KeyOf(const Program& program, const BucketKey& key) {
  const auto* const words = key.words.data();
  const size_t symbols = program.spec.symbols.size();
  return {std::vector<int64_t>(words, words + symbols),
          std::vector<int64_t>(words + symbols, words + key.word_count)};
}

int64_t Sum(int64_t launches, int64_t more) {
  return std::min(launches + more, kLaunchesMax);
}

// What the graphs of a bucket are like, by a root where there is one: what is recorded ahead.
BucketFigures FiguresOf(const Bucket& bucket) {
  BucketFigures figures = bucket.dropped();
  for (const Node* node : bucket.nodes()) {
    const NodeInfo& info = node->info();
    figures.launches = Sum(figures.launches, info.replays);
    if (node->key().surroundings != nullptr && figures.graph_nodes > 0) continue;
    figures.SetSizes(info);
  }
  return figures;
}

void AddLane(const Program& program, Lane& lane, Buckets& buckets) {
  const std::lock_guard lock(lane.mutex);
  for (const Bucket* bucket : lane.nodes().Of(program).buckets()) {
    const BucketFigures figures = FiguresOf(*bucket);
    if (figures.launches == 0 && figures.graph_nodes == 0) continue;
    BucketFigures& sum = buckets[KeyOf(program, bucket->key)];
    const int64_t launches = Sum(sum.launches, figures.launches);
    if (figures.graph_nodes > 0) sum = figures;
    sum.launches = launches;
  }
}

ProfileProgram ProgramOf(const SessionParts& parts, const Program& program) {
  Buckets buckets;
  for (const std::unique_ptr<Lane>& lane : parts.lanes)
    AddLane(program, *lane, buckets);
  for (const auto& [key, carried] : parts.carried.Of(program)) {
    BucketFigures& sum = buckets[key];
    const int64_t launches = Sum(sum.launches, carried.launches);
    if (sum.graph_nodes == 0) sum = carried;
    sum.launches = launches;
  }
  ProfileProgram saved{
      .name = program.spec.name, .variant = program.spec.variant, .digest = DigestOf(program)};
  {
    const std::lock_guard lock(parts.lane(0).mutex);
    saved.policies = PoliciesOf(program);
  }
  for (auto& [key, figures] : buckets) {
    if (program.steps != nullptr) {
      const VariantChoices& variants = program.steps->variants();
      const std::vector<int64_t> scalars = ScalarsOf(program, key);
      // What a profile said that was loaded stays until the bucket is recorded here.
      if (figures.variants.empty() || variants.Has(key.first, scalars))
        figures.variants = variants.NamesAt(key.first, scalars);
    }
    saved.buckets.emplace_back(key, std::move(figures));
  }
  return saved;
}

}  // namespace

absl::StatusOr<ProfileDevice> DeviceOf(const SessionParts& parts) {
  int major = 0;
  int minor = 0;
  const RelaxedCaptureScope relaxed(parts.driver);
  COPPICE_RETURN_IF_ERROR(parts.driver.Call<&DriverTable::DeviceGetAttribute>(
      &major, CuDeviceAttribute::kComputeCapabilityMajor, parts.context.device()));
  COPPICE_RETURN_IF_ERROR(parts.driver.Call<&DriverTable::DeviceGetAttribute>(
      &minor, CuDeviceAttribute::kComputeCapabilityMinor, parts.context.device()));
  return ProfileDevice{
      .name = parts.context.DeviceName(),
      .capability_major = major,
      .capability_minor = minor,
      .driver = parts.driver.kind() == DriverKind::kEmulator ? "emulator" : "cuda"};
}

std::vector<ProfilePolicy> PoliciesOf(const Program& program) {
  std::vector<ProfilePolicy> policies;
  for (size_t i = 0; i < program.spec.symbols.size(); ++i) {
    const JointSpec* const joint = program.spec.JointOf(static_cast<int>(i));
    policies.push_back(
        {.symbol = program.spec.symbols[i].name,
         .buckets = joint == nullptr ? program.policy(i).name() : joint->policy.name(),
         .maximum = program.policy(i).maximum()});
  }
  return policies;
}

std::vector<int64_t> ScalarsOf(const Program& program, const ProfileKey& key) {
  std::vector<int64_t> scalars(program.spec.scalars.size());
  for (size_t i = 0; i < key.second.size(); ++i)
    scalars[static_cast<size_t>(program.layout.key_scalars[i])] = key.second[i];
  return scalars;
}

absl::StatusOr<Profile> ProfileOf(const SessionParts& parts) {
  Profile profile{.library = COPPICE_VERSION};
  COPPICE_ASSIGN_OR_RETURN(profile.device, DeviceOf(parts));
  for (const Program* program : parts.catalogue->programs())
    profile.programs.push_back(ProgramOf(parts, *program));
  std::ranges::sort(profile.programs, {}, [](const ProfileProgram& program) {
    return std::pair(program.name, program.variant);
  });
  return profile;
}

}  // namespace coppice::internal
