// Walks segments and traces of a snapshot, device by device.

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/prof/import/foreign_lifetimes.h"
#include "tools/prof/import/foreign_value.h"
#include "tools/prof/import/pickle_reader.h"

namespace coppice {
namespace {

constexpr int64_t kForeignDevicesMax = 4096;
constexpr int64_t kReservedMax = int64_t{1} << 60;

constexpr const char* kSnapshotRemedy = "give a file of torch.cuda.memory._dump_snapshot";

// A block of a segment that is in use at the end.
struct LiveBlock {
  int64_t address = 0;
  int64_t bytes = 0;
};

struct DeviceState {
  int64_t reserved = 0;  // At the end.
  std::vector<LiveBlock> blocks;
};

class SnapshotReader {
 public:
  SnapshotReader(const ForeignTree& tree, const std::string& name) : tree_(tree), name_(name) {}

  absl::StatusOr<std::vector<ForeignLifetimes>> Read(ForeignValue snapshot) {
    const ForeignValue segments = tree_.Find(snapshot, ForeignWord::kSegments);
    const ForeignValue traces = tree_.Find(snapshot, ForeignWord::kDeviceTraces);
    if (segments.kind != ForeignKind::kList || traces.kind != ForeignKind::kList)
      return Error("the file", "it is no dict with lists 'segments' and 'device_traces'");
    if (tree_.Items(traces).size() > kForeignDevicesMax)
      return Error("device_traces", "it has more than 4096 devices");
    COPPICE_RETURN_IF_ERROR(ReadSegments(tree_.Items(segments)));
    const size_t count = tree_.Items(traces).size();
    states_.resize(std::max(count, states_.size()));
    std::vector<ForeignLifetimes> devices;
    for (size_t i = 0; i < states_.size(); ++i) {
      const ForeignValue trace = i < count ? tree_.Items(traces)[i] : ForeignValue{};
      if (i < count && trace.kind != ForeignKind::kList)
        return Error(fmt::format("device_traces[{}]", i), "it is no list");
      COPPICE_ASSIGN_OR_RETURN(ForeignLifetimes lifetimes,
                               ReadDevice(static_cast<int64_t>(i), trace));
      if (lifetimes.steps > 0 || !lifetimes.buffers.empty() || lifetimes.reserved_peak > 0)
        devices.push_back(std::move(lifetimes));
    }
    return devices;
  }

 private:
  absl::Status Error(const std::string& where, const std::string& what) const {
    return InvalidArgument("{}: {}: {}; {}", name_, where, what, kSnapshotRemedy);
  }

  // Counts what is walked, which may be more than the file has.
  absl::Status Walk() {
    if (++walked_ <= kForeignEntriesMax) return absl::OkStatus();
    return InvalidArgument(
        "{}: there are more than {} events and blocks; record less, by "
        "max_entries of _record_memory_history",
        name_, kForeignEntriesMax);
  }

  std::optional<int64_t> Bytes(ForeignValue dict, ForeignWord key) const {
    const ForeignValue value = tree_.Find(dict, key);
    if (value.kind != ForeignKind::kNumber || value.number < 0 || value.number > kForeignBytesMax)
      return std::nullopt;
    return value.number;
  }

  // Any number of 64 bits: it is only compared.
  std::optional<int64_t> Address(ForeignValue dict, ForeignWord key) const {
    const ForeignValue value = tree_.Find(dict, key);
    if (value.kind != ForeignKind::kNumber && value.kind != ForeignKind::kHuge) return std::nullopt;
    return value.number;
  }

  absl::Status ReadSegments(std::span<const ForeignValue> segments) {
    for (size_t i = 0; i < segments.size(); ++i) {
      COPPICE_RETURN_IF_ERROR(Walk());
      const std::string where = fmt::format("segments[{}]", i);
      const std::optional<int64_t> device = Bytes(segments[i], ForeignWord::kDevice);
      const std::optional<int64_t> address = Address(segments[i], ForeignWord::kAddress);
      const std::optional<int64_t> bytes = Bytes(segments[i], ForeignWord::kTotalSize);
      const ForeignValue blocks = tree_.Find(segments[i], ForeignWord::kBlocks);
      if (!device || *device >= kForeignDevicesMax || !address || !bytes ||
          blocks.kind != ForeignKind::kList) {
        return Error(where,
                     "it has no device, address, total_size and blocks, or they are no such thing");
      }
      if (static_cast<size_t>(*device) >= states_.size())
        states_.resize(static_cast<size_t>(*device) + 1);
      DeviceState& state = states_[static_cast<size_t>(*device)];
      if ((state.reserved += *bytes) > kForeignBytesMax)
        return Error(where, "the segments up to here have more than 2^50 bytes");
      COPPICE_RETURN_IF_ERROR(ReadBlocks(where, *address, tree_.Items(blocks), state));
    }
    return absl::OkStatus();
  }

  // Blocks say their sizes; they lie one behind the other.
  absl::Status ReadBlocks(const std::string& segment,
                          int64_t address,
                          std::span<const ForeignValue> blocks,
                          DeviceState& state) {
    auto at = static_cast<uint64_t>(address);
    for (size_t i = 0; i < blocks.size(); ++i) {
      COPPICE_RETURN_IF_ERROR(Walk());
      const std::optional<int64_t> bytes = Bytes(blocks[i], ForeignWord::kSize);
      const ForeignValue word = tree_.Find(blocks[i], ForeignWord::kState);
      if (!bytes || (word.kind != ForeignKind::kWord && word.kind != ForeignKind::kOther))
        return Error(fmt::format("{}.blocks[{}]", segment, i), "it has no size and state");
      const auto known = static_cast<ForeignWord>(word.number);
      const bool active =
          word.kind == ForeignKind::kWord &&
          (known == ForeignWord::kActiveAllocated || known == ForeignWord::kActivePendingFree ||
           known == ForeignWord::kActiveAwaitingFree);
      if (active) state.blocks.push_back({static_cast<int64_t>(at), *bytes});
      at += static_cast<uint64_t>(*bytes);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<ForeignLifetimes> ReadDevice(int64_t device, ForeignValue trace) {
    LifetimeCollector collector;
    collector.lifetimes().device = device;
    const DeviceState& state = states_[static_cast<size_t>(device)];
    seen_.clear();
    reserved_ = reserved_max_ = 0;
    reserves_ = false;
    if (trace.kind == ForeignKind::kList) {
      const std::span<const ForeignValue> entries = tree_.Items(trace);
      for (size_t i = 0; i < entries.size(); ++i) {
        COPPICE_RETURN_IF_ERROR(Walk());
        COPPICE_RETURN_IF_ERROR(
            ReadEntry(fmt::format("device_traces[{}][{}]", device, i), entries[i], collector));
      }
    }
    // What no event tells was there all along.
    std::vector<LiveBlock> before;
    for (const LiveBlock& block : state.blocks)
      if (!seen_.contains(block.address)) before.push_back(block);
    ForeignLifetimes lifetimes = collector.Finish();
    for (const LiveBlock& block : before) {
      if (block.bytes == 0) continue;
      if (static_cast<int64_t>(lifetimes.buffers.size()) >= kForeignAllocationsMax)
        return TooMany(fmt::format("device {}", device));
      Buffer& buffer = lifetimes.buffers.emplace_back();
      buffer.lifetime.push_back({0, lifetimes.steps + 1});
      buffer.bytes = block.bytes;
      ++lifetimes.live_before;
      ++lifetimes.live_after;
    }
    if (!reserves_ && state.reserved == 0) return lifetimes;
    lifetimes.reserved_peak = std::max<int64_t>(state.reserved - reserved_, 0) + reserved_max_;
    return lifetimes;
  }

  absl::Status TooMany(const std::string& where) const {
    return InvalidArgument(
        "{}: {}: there are more than {} allocations; record less, by "
        "max_entries of _record_memory_history",
        name_, where, kForeignAllocationsMax);
  }

  absl::Status ReadEntry(const std::string& where,
                         ForeignValue entry,
                         LifetimeCollector& collector) {
    const ForeignValue action = tree_.Find(entry, ForeignWord::kAction);
    if (action.kind == ForeignKind::kNone) return Error(where, "it has no action");
    collector.NextStep();
    if (action.kind != ForeignKind::kWord) return absl::OkStatus();
    const auto word = static_cast<ForeignWord>(action.number);
    if (word == ForeignWord::kOom) {
      ++collector.lifetimes().refused;
      return absl::OkStatus();
    }
    if (word > ForeignWord::kSegmentUnmap || word == ForeignWord::kFreeRequested)
      return absl::OkStatus();
    const std::optional<int64_t> address = Address(entry, ForeignWord::kAddr);
    const std::optional<int64_t> bytes = Bytes(entry, ForeignWord::kSize);
    if (!address || !bytes) return Error(where, "it has no addr and size from 0 to 2^50");
    switch (word) {
      case ForeignWord::kAlloc:
        seen_.insert(*address);
        return collector.Alloc(*address, *bytes) ? absl::OkStatus() : TooMany(where);
      case ForeignWord::kFree:
      case ForeignWord::kFreeCompleted:
        seen_.insert(*address);
        return collector.Free(*address, *bytes) ? absl::OkStatus() : TooMany(where);
      case ForeignWord::kSegmentAlloc:
      case ForeignWord::kSegmentMap:
        reserved_ = std::min(reserved_ + *bytes, kReservedMax);
        reserved_max_ = std::max(reserved_max_, reserved_);
        reserves_ = true;
        return absl::OkStatus();
      default:
        reserved_ = std::max(reserved_ - *bytes, -kReservedMax);
        reserves_ = true;
        return absl::OkStatus();
    }
  }

  const ForeignTree& tree_;
  const std::string& name_;
  std::vector<DeviceState> states_;    // By device.
  absl::flat_hash_set<int64_t> seen_;  // Addresses that events tell of.
  int64_t reserved_ = 0;               // Beyond what was there before the events ...
  int64_t reserved_max_ = 0;           // ... and at most.
  bool reserves_ = false;              // An event tells of what is reserved.
  int64_t walked_ = 0;
};

}  // namespace

absl::StatusOr<std::vector<ForeignLifetimes>> ReadSnapshotLifetimes(const std::string& bytes,
                                                                    const std::string& name) {
  ForeignTree tree;
  const bool pickle = std::string_view(bytes).starts_with('\x80');
  COPPICE_ASSIGN_OR_RETURN(const ForeignValue snapshot, pickle
                                                            ? ReadPickle(bytes, name, tree)
                                                            : ReadForeignJson(bytes, name, tree));
  return SnapshotReader(tree, name).Read(snapshot);
}

}  // namespace coppice
