// A memory snapshot as PyTorch's viewers take them: what is there, and how it came to be so.
//
// Three ways lead to one. `history` is what the session had mapped and what its calls held. `plan`
// has a pretended device per bucket, on which the highest plan of the bucket runs: time is its
// steps. `path` is one chain of calls, each built on outputs of the one before it, with the plans
// of all in a row.
//
// A segment is a stretch of addresses, cut into blocks without holes. Blocks that share addresses
// cannot be told, so a buffer that begins in place of another ends it.
//
// Units: bytes; times are microseconds, of plans and paths steps. Threads: plain values.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"

#include "tools/prof/export/traced_session.h"

namespace coppice {

enum class VizAction : uint8_t { kAlloc, kFree, kSegmentAlloc, kSegmentFree };

// A viewer draws nothing at all of a file whose events have categories but none of them `unknown`,
// so segments have that.
enum class VizCategory : uint8_t { kUnknown, kOutput, kTemporary, kAround, kDonated, kMapped };
inline constexpr int kVizCategoryCount = 6;

// "unknown", "output", "temporary", "around", "donated", "mapped".
const char* NameOf(VizCategory category);

// Numbers that an allocation has for its reader; -1: it has none.
enum class VizNumber : uint8_t { kCall, kLane, kOutput, kFirstStep, kLastStep };
inline constexpr int kVizNumberCount = 5;

// "call", "lane", "output", "first_step", "last_step".
const char* NameOf(VizNumber number);

struct VizEvent {
  VizAction action = VizAction::kAlloc;
  VizCategory category = VizCategory::kUnknown;  // Of kAlloc.
  int stream = 0;                                // The lane.
  int frame = -1;                                // Place in VizSnapshot::frames; of kAlloc.
  int label = -1;                                // Place in VizSnapshot::labels; of kAlloc.
  int64_t address = 0;
  int64_t bytes = 0;
  int64_t time_us = 0;
  std::array<int64_t, kVizNumberCount> numbers{-1, -1, -1, -1, -1};  // By VizNumber; of kAlloc.
};

// What made an allocation: a node of a bucket, or a kind of memory. A buffer with a name has a
// frame above that, of the same place.
struct VizFrame {
  std::string buffer;  // Empty: no such frame.
  std::string name;
  std::string file;
  int64_t line = 0;  // The node.
};

struct VizBlock {
  int64_t bytes = 0;
  bool active = false;
  int frame = -1;
};

struct VizSegment {
  int device = 0;
  int pool = 1;  // From 1: 0 is the allocator without pools.
  int64_t address = 0;
  std::vector<VizBlock> blocks;  // From the address on.

  int64_t bytes() const;
  int64_t active_bytes() const;
};

struct VizMark {
  std::string name;
  int64_t time_us = 0;
};

struct VizSnapshot {
  std::vector<VizFrame> frames;
  std::vector<std::string> labels;  // Of buffers.
  std::vector<VizSegment> segments;
  std::vector<std::vector<VizEvent>> devices;
  std::vector<VizMark> marks;      // On device 0.
  nlohmann::ordered_json coppice;  // What only coppice knows; readers pass it over.
};

enum class VizMode : uint8_t { kHistory, kPlan, kPath };
inline constexpr int kVizModeCount = 3;

// "history", "plan", "path".
const char* NameOf(VizMode mode);
absl::StatusOr<VizMode> ParseVizMode(const std::string& text);

// The call at the end of a path; without one the longest path is taken, of these the earliest.
struct VizLeaf {
  int lane = 0;
  std::optional<int64_t> call;
};

// A path keeps so many of its last events; more a viewer cannot take.
inline constexpr int64_t kVizPathEventsMax = 250'000;

VizSnapshot HistorySnapshot(const TracedSession& session);
VizSnapshot PlanSnapshot(const TracedSession& session);

// Errors: kInvalidArgument  no such call, or no call that has a graph.
absl::StatusOr<VizSnapshot> PathSnapshot(const TracedSession& session, const VizLeaf& leaf);

// The file: a pickle of protocol 2, of opcodes that the viewers read and that run nothing.
std::string PickleOf(const VizSnapshot& snapshot);

// The same as JSON, which newer viewers read too.
std::string JsonTextOf(const VizSnapshot& snapshot);

}  // namespace coppice
