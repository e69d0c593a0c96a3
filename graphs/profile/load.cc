// A list of what can be recorded, by worth, and its recording under limits.

#include "graphs/profile/load.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/plural.h"
#include "coppice/base/status.h"

#include "graphs/call/check.h"
#include "graphs/call/decide.h"
#include "graphs/call/warm.h"
#include "graphs/profile/program_digest.h"
#include "graphs/profile/save.h"

namespace coppice::internal {
namespace {

constexpr char kLoadProfile[] = "Session::LoadProfile";

// A bucket to record, for one binding.
struct Item {
  const Program* program = nullptr;
  ProfileBinding bound;
  ProfileKey key;
  BucketFigures figures;
  CallShape shape;
  std::vector<int64_t> scalars;  // All of them, in spec order.

  double worth() const {
    return static_cast<double>(figures.launches) * static_cast<double>(figures.graph_nodes);
  }
};

// Where the policies of a program's symbols differ from those of the profile; empty if nowhere.
std::string DifferenceOf(const Program& program, const ProfileProgram& profiled) {
  const std::vector<ProfilePolicy> policies = PoliciesOf(program);
  for (size_t i = 0; i < std::min(policies.size(), profiled.policies.size()); ++i) {
    const ProfilePolicy& here = policies[i];
    const ProfilePolicy& there = profiled.policies[i];
    if (here == there) continue;
    return fmt::format(
        "; symbol '{}' has the policy {} up to {} here, but {} up to {} in the profile",
        here.symbol, here.buckets, here.maximum, there.buckets, there.maximum);
  }
  return {};
}

// One loading: what is to be recorded, what was, and what it took.
class ProfileLoad {
 public:
  ProfileLoad(SessionParts& parts, const LoadProfileOptions& options)
      : parts_(parts), options_(options), lane_(parts.lane(options.lane)) {}

  // Lists what of the profile can be recorded, by worth.
  absl::Status List(const Profile& profile);
  // Records it.
  absl::Status RecordAll();
  LoadedProfile Take() { return std::move(loaded_); }

 private:
  const Program* Find(const ProfileProgram& profiled) const;
  void ListProgram(const ProfileProgram& profiled);
  void ListBucket(const Program& program,
                  const ProfileProgram& profiled,
                  const std::pair<ProfileKey, BucketFigures>& bucket,
                  std::span<const ProfileBinding> bindings);
  std::vector<ProfileBinding> BindingsOf(const Program& program) const;

  absl::Status RecordOne(const Item& item);
  // Whether a limit has no room for it, under the lane's lock.
  absl::Status CheckLimits(const Item& item);
  int64_t BytesHeld() const;
  // Counts those that are there still, and ends the warming.
  absl::Status Finish();

  void SkipAll(ProfileSkip reason, const ProfileProgram& profiled, absl::Status why) {
    loaded_.skipped.push_back({.reason = reason,
                               .program = profiled.name,
                               .variant = profiled.variant,
                               .why = std::move(why)});
  }
  void Skip(ProfileSkip reason, const Program& program, const ProfileKey& key, absl::Status why) {
    loaded_.skipped.push_back({.reason = reason,
                               .program = program.spec.name,
                               .variant = program.spec.variant,
                               .bucket = key.first,
                               .scalars = key.second,
                               .why = std::move(why)});
  }

  SessionParts& parts_;
  const LoadProfileOptions& options_;
  Lane& lane_;
  std::vector<Item> items_;
  std::vector<const Item*> recorded_;
  int64_t bytes_before_ = 0;
  int64_t evictions_before_ = 0;
  bool ahead_ = false;  // The profile is of no device.
  bool tried_ = false;  // Something may have run, or been mapped.
  LoadedProfile loaded_;
};

absl::Status ProfileLoad::List(const Profile& profile) {
  COPPICE_ASSIGN_OR_RETURN(const ProfileDevice device, DeviceOf(parts_));
  if (profile.device && device != *profile.device) {
    const auto describe = [](const ProfileDevice& which) {
      return fmt::format("{} {} of capability {}.{}", which.driver, which.name,
                         which.capability_major, which.capability_minor);
    };
    SkipAll(ProfileSkip::kDevice, {},
            FailedPrecondition(
                "{}: the profile is from {}, but this device is {}; save a profile on this device",
                kLoadProfile, describe(*profile.device), describe(device)));
    return absl::OkStatus();
  }
  ahead_ = !profile.device;
  for (const ProfileProgram& profiled : profile.programs)
    ListProgram(profiled);
  std::ranges::stable_sort(items_, std::ranges::greater(), &Item::worth);
  return absl::OkStatus();
}

std::vector<ProfileBinding> ProfileLoad::BindingsOf(const Program& program) const {
  std::vector<ProfileBinding> bindings;
  for (const ProfileBinding& each : options_.bindings)
    if (each.binding->program == &program) bindings.push_back(each);
  if (bindings.empty() && !program.binds()) bindings.emplace_back();
  return bindings;
}

// What was made ahead knows no variants: it is for the program of that name and digest.
const Program* ProfileLoad::Find(const ProfileProgram& profiled) const {
  if (const Program* found = parts_.catalogue->Find(profiled.name, profiled.variant)) return found;
  if (!ahead_) return nullptr;
  for (const Program* program : parts_.catalogue->programs())
    if (program->spec.name == profiled.name && DigestOf(*program) == profiled.digest)
      return program;
  return nullptr;
}

void ProfileLoad::ListProgram(const ProfileProgram& profiled) {
  const Program* const program = Find(profiled);
  if (program == nullptr) {
    SkipAll(ProfileSkip::kProgram, profiled,
            MakeError(absl::StatusCode::kNotFound,
                      "{}: no program '{}'{} is registered; register it first", kLoadProfile,
                      profiled.name,
                      profiled.variant.empty() ? "" : " of variant '" + profiled.variant + "'"));
    return;
  }
  if (const std::string digest = DigestOf(*program); digest != profiled.digest) {
    SkipAll(ProfileSkip::kDigest, profiled,
            FailedPrecondition("{}: program '{}' has the digest {}, but the profile was saved with "
                               "{}; save a profile of this program",
                               kLoadProfile, profiled.name, digest, profiled.digest));
    return;
  }
  const std::vector<ProfileBinding> bindings = BindingsOf(*program);
  if (bindings.empty() && !profiled.buckets.empty())
    SkipAll(ProfileSkip::kBinding, profiled,
            FailedPrecondition("{}: program '{}' has static inputs or outputs; give one of its "
                               "bindings in LoadProfileOptions::bindings",
                               kLoadProfile, profiled.name));
  for (const std::pair<ProfileKey, BucketFigures>& bucket : profiled.buckets)
    ListBucket(*program, profiled, bucket, bindings);
}

void ProfileLoad::ListBucket(const Program& program,
                             const ProfileProgram& profiled,
                             const std::pair<ProfileKey, BucketFigures>& bucket,
                             std::span<const ProfileBinding> bindings) {
  const auto& [key, figures] = bucket;
  if (key.second.size() != program.layout.key_scalars.size()) {
    Skip(ProfileSkip::kBucket, program, key,
         InvalidArgument("{}: the number of key scalars of bucket [{}] of program '{}' is {}, but "
                         "must be {}; save the profile again",
                         kLoadProfile, fmt::join(key.first, ", "), program.spec.name,
                         key.second.size(), program.layout.key_scalars.size()));
    return;
  }
  const std::vector<int64_t> scalars = ScalarsOf(program, key);
  const std::lock_guard lock(lane_.mutex);  // The policies stay meanwhile.
  const absl::StatusOr<std::vector<CallShape>> shapes =
      ShapesOf(kLoadProfile, program, {&key.first, 1}, scalars);
  if (!shapes.ok()) {
    Skip(ProfileSkip::kBucket, program, key,
         MakeError(shapes.status().code(), "{}{}", MessageOf(shapes.status()),
                   DifferenceOf(program, profiled)));
    return;
  }
  parts_.carried.Keep(program, key, figures);
  for (const ProfileBinding& bound : bindings)
    items_.push_back({.program = &program,
                      .bound = bound,
                      .key = key,
                      .figures = figures,
                      .shape = shapes->front(),
                      .scalars = scalars});
}

int64_t ProfileLoad::BytesHeld() const {
  int64_t bytes = 0;
  for (const MemoryKind kind : {MemoryKind::kPlan, MemoryKind::kStaging, MemoryKind::kGraphs})
    bytes += parts_.budget->bytes(static_cast<int>(kind));
  return bytes;
}

absl::Status ProfileLoad::CheckLimits(const Item& item) {
  const auto refuse = [&](const std::string& what) {
    return MakeError(absl::StatusCode::kResourceExhausted,
                     "{}: bucket [{}] of program '{}' is left out: {}", kLoadProfile,
                     fmt::join(item.key.first, ", "), item.program->spec.name, what);
  };
  const auto recorded = static_cast<int64_t>(recorded_.size());
  if (options_.graphs_max > 0 && recorded >= options_.graphs_max)
    return refuse(
        fmt::format("the limit of {} for new graphs is reached; raise graphs_max", recorded));
  const int64_t graphs = lane_.nodes().Of(*item.program).CountGraphs();
  if (graphs >= parts_.options.limits.graphs_per_program_max)
    return refuse(
        fmt::format("the program has {}; raise graphs_per_program_max", Plural(graphs, "graph")));
  if (lane_.nodes().evictions() != evictions_before_)
    return refuse("the last recording evicted another graph; raise the session's budget");
  // All plans of the lane share one window, which grows by whole granules.
  const int64_t granularity = parts_.pool->granularity();
  const int64_t present = lane_.memory().mapped_bytes(MemoryKind::kPlan);
  const int64_t height = (item.figures.plan_height + granularity - 1) / granularity * granularity;
  const int64_t bytes = std::max<int64_t>(height - present, 0) + item.figures.graph_bytes;
  const int64_t held = BytesHeld() - bytes_before_;
  if (options_.bytes_max > 0 && held + bytes > options_.bytes_max)
    return refuse(fmt::format("it needs {} bytes, after {} for earlier graphs; raise bytes_max",
                              bytes, held));
  if (parts_.budget->limit() == 0) return absl::OkStatus();
  const int64_t idle = lane_.memory().IdleBytes(MemoryKind::kEager, lane_.memory().eager().top()) +
                       parts_.budget->bytes(static_cast<int>(MemoryKind::kSpare));
  const int64_t room = parts_.budget->limit() - parts_.budget->total() + idle;
  if (bytes <= room) return absl::OkStatus();
  return refuse(
      fmt::format("it needs {} bytes, but the session's budget has only {} left; raise the budget",
                  bytes, room));
}

absl::Status ProfileLoad::RecordOne(const Item& item) {
  const std::lock_guard lock(lane_.mutex);
  COPPICE_RETURN_IF_ERROR(lane_.memory().CheckPresent(kLoadProfile));
  const WarmOptions options{.scratch = item.bound.scratch, .lane = options_.lane};
  const absl::Status fits = CheckWarmed(parts_, {.program = *item.program,
                                                 .binding = item.bound.binding,
                                                 .scalars = item.scalars,
                                                 .options = options});
  if (!fits.ok()) {
    Skip(ProfileSkip::kFailed, *item.program, item.key, fits);
    return absl::OkStatus();
  }
  const Call call{.program = item.program,
                  .binding = item.bound.binding,
                  .inputs = {},
                  .scalars = item.scalars,
                  .stream = lane_.order().own_stream().handle(),
                  .lane = lane_.index};
  Call on_scratch = call;
  if (item.bound.scratch != nullptr) on_scratch.binding = item.bound.scratch;
  Request warmed(call, item.shape);
  Request scratch(on_scratch, item.shape);
  absl::Status bound = TakeStatics(warmed);
  if (bound.ok()) bound = TakeStatics(scratch);
  if (!bound.ok()) {
    Skip(ProfileSkip::kBinding, *item.program, item.key, bound);
    return absl::OkStatus();
  }
  if (FindNode(warmed, lane_) != nullptr) {
    ++loaded_.present;
    return absl::OkStatus();
  }
  if (absl::Status limited = CheckLimits(item); !limited.ok()) {
    Skip(ProfileSkip::kLimit, *item.program, item.key, std::move(limited));
    return absl::OkStatus();
  }
  tried_ = true;
  lane_.slots().Sweep();
  // Those that this package has not are timed, as without a profile.
  if (item.program->steps != nullptr)
    (void)item.program->steps->variants().SetByName(item.shape.padded, item.scalars,
                                                    item.figures.variants);
  absl::Status warm = parts_.sticky.Note(WarmOne(parts_, warmed, scratch, lane_));
  if (warm.ok())
    recorded_.push_back(&item);
  else if (!parts_.sticky.present())
    Skip(ProfileSkip::kFailed, *item.program, item.key, std::move(warm));
  return parts_.sticky.Get();
}

absl::Status ProfileLoad::Finish() {
  if (!tried_) return absl::OkStatus();
  const std::lock_guard lock(lane_.mutex);
  COPPICE_RETURN_IF_ERROR(parts_.sticky.Note(FinishWarming(parts_, lane_)));
  for (const Item* const item : recorded_) {
    const Call call{.program = item->program,
                    .binding = item->bound.binding,
                    .inputs = {},
                    .scalars = item->scalars,
                    .lane = lane_.index};
    Request request(call, item->shape);
    if (TakeStatics(request).ok() && FindNode(request, lane_) != nullptr) {
      ++loaded_.recorded;
      continue;
    }
    Skip(ProfileSkip::kLimit, *item->program, item->key,
         MakeError(absl::StatusCode::kResourceExhausted,
                   "{}: the graph of bucket [{}] of program '{}' was dropped for a later graph; "
                   "raise the session's budget",
                   kLoadProfile, fmt::join(item->key.first, ", "), item->program->spec.name));
  }
  return absl::OkStatus();
}

absl::Status ProfileLoad::RecordAll() {
  {
    const std::lock_guard lock(lane_.mutex);
    bytes_before_ = BytesHeld();
    evictions_before_ = lane_.nodes().evictions();
  }
  const auto total = static_cast<int64_t>(items_.size());
  for (int64_t done = 0; done < total; ++done) {
    COPPICE_RETURN_IF_ERROR(RecordOne(items_[static_cast<size_t>(done)]));
    if (options_.progress) options_.progress(done + 1, total);
  }
  return Finish();
}

}  // namespace

absl::Status CheckLoad(const SessionParts& parts, const LoadProfileOptions& options) {
  if (options.lane < 0 || options.lane >= static_cast<int>(parts.lanes.size()))
    return InvalidArgument(
        "{}: lane {} does not exist: the number of lanes is {}, and the first is lane 0",
        kLoadProfile, options.lane, parts.lanes.size());
  if (options.graphs_max < 0 || options.bytes_max < 0)
    return InvalidArgument("{}: graphs_max is {} and bytes_max is {}; give 0 or more for each",
                           kLoadProfile, options.graphs_max, options.bytes_max);
  for (const ProfileBinding& bound : options.bindings) {
    const bool own = bound.binding != nullptr &&
                     bound.binding->program->place.owner == parts.catalogue.get() &&
                     (bound.scratch == nullptr || bound.scratch->program == bound.binding->program);
    if (!own)
      return InvalidArgument(
          "{}: a binding is null, belongs to another session, or has the scratch of another "
          "program; give bindings that Bind returned",
          kLoadProfile);
  }
  Lane& lane = parts.lane(options.lane);
  const std::lock_guard lock(lane.mutex);
  return lane.memory().CheckPresent(kLoadProfile);
}

absl::StatusOr<LoadedProfile> LoadProfile(SessionParts& parts,
                                          const Profile& profile,
                                          const LoadProfileOptions& options) {
  ProfileLoad load(parts, options);
  COPPICE_RETURN_IF_ERROR(load.List(profile));
  COPPICE_RETURN_IF_ERROR(load.RecordAll());
  return load.Take();
}

}  // namespace coppice::internal

namespace coppice {

const char* NameOf(ProfileSkip reason) {
  constexpr const char* kNames[] = {"device", "program", "digest", "binding",
                                    "bucket", "limit",   "failed"};
  return kNames[static_cast<size_t>(reason)];
}

}  // namespace coppice
