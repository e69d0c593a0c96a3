// Graphs go before the versions that they name.

#include "graphs/parts/retire.h"

#include <list>
#include <mutex>

#include "absl/cleanup/cleanup.h"

#include "coppice/base/status.h"

namespace coppice::internal {
namespace {

// Takes the lane's lock when no recording of it is under way.
std::unique_lock<LaneMutex> LockIdleLane(const SessionParts& parts, Lane& lane) {
  while (true) {
    std::unique_lock lock(lane.mutex);
    if (!lane.recording()) return lock;
    lock.unlock();
    parts.background->Wait();
  }
}

}  // namespace

absl::Status ForgetProgram(const SessionParts& parts, const Program& program) {
  for (const auto& lane : parts.lanes) {
    const std::unique_lock lock = LockIdleLane(parts, *lane);
    lane->nodes().Retire(program);
  }
  return DropRetired(parts);
}

absl::Status DropRetired(const SessionParts& parts) {
  std::list<Catalogue::Retired> retired = parts.catalogue->TakeRetired();
  // Those that are of no use to anybody are gone by then.
  const absl::Cleanup give_back = [&] { parts.catalogue->ReturnRetired(retired); };
  // A call that saw a version has its lane's lock, or has left a recording behind.
  for (const auto& lane : parts.lanes)
    const std::lock_guard passed(lane->mutex);
  if (parts.background != nullptr) parts.background->Wait();
  for (const auto& lane : parts.lanes) {
    const std::lock_guard lock(lane->mutex);
    COPPICE_RETURN_IF_ERROR(lane->order().Wait());
    lane->slots().Sweep();
    for (auto& [program, version, used] : retired) {
      if (lane->index == 0) used = false;
      lane->nodes().EvictIdle({.program = program, .version = version.get()});
      used |= lane->nodes().HasVersion(*program, *version);
    }
    lane->nodes().EvictRetired();
  }
  retired.remove_if([](const Catalogue::Retired& each) { return !each.used; });
  return absl::OkStatus();
}

absl::Status DropRetired(const SessionParts& parts, Lane& lane) {
  const int64_t retirements = parts.catalogue->retirements();
  if (lane.retirements_seen() == retirements && !lane.nodes().has_retired())
    return absl::OkStatus();
  COPPICE_ASSIGN_OR_RETURN(const uint64_t completed, lane.order().FindCompletedCall());
  lane.slots().Sweep();
  lane.nodes().EvictRetired(completed);
  bool all = true;
  for (const auto& [program, version] : parts.catalogue->retired()) {
    lane.nodes().EvictIdle({.program = program, .version = version, .completed = completed});
    all &= !lane.nodes().HasVersion(*program, *version);
  }
  if (all) lane.SeeRetirements(retirements);
  return absl::OkStatus();
}

}  // namespace coppice::internal
