// What a session keeps per program: its spec made ready for the replay path, its bindings, what
// each bucket's warm-up taught, and one node per key. Private to graphs/.
//
// Units: bytes and elements. Threads: buckets and nodes belong to their lane and are touched under
// that lane's lock; Program and Binding are immutable once made, but for what says otherwise.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coppice/allocator/plan.h"
#include "coppice/allocator/planner.h"
#include "coppice/allocator/pool.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/guards.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/reason.h"
#include "coppice/graphs/session.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/graph.h"

#include "graphs/audit.h"
#include "graphs/gate.h"
#include "graphs/surroundings.h"

namespace coppice {
namespace internal {

// The static inputs and outputs that a node's key names: those addresses that are not copied.
// Bindings that agree on them share one.
struct StaticVersion {
  std::vector<DeviceAddress> addresses;  // In spec order among the statics; 0 for a copied one.
  std::vector<int> copied;               // Which of them every call copies.
};

}  // namespace internal

// One set of static inputs and outputs. Bindings with equal addresses are one object.
class Binding {
 public:
  const Program* program = nullptr;
  std::vector<Tensor> tensors;        // In spec order: static inputs, then static outputs.
  std::vector<uint64_t> allocations;  // Driver's ids; only if addresses are checked.
  mutable std::atomic<const internal::StaticVersion*> version{nullptr};  // Null: not bound.
};

namespace internal {

// Padded extent of each symbol, then each key scalar; compared in full.
struct BucketKey {
  BucketKey() {}  // NOLINT(modernize-use-equals-default): leaves the words unset, for speed.

  int word_count = 0;
  std::array<int64_t, kSymbolsMax + kScalarsMax> words;  // Those from word_count on are not set.

  friend bool operator==(const BucketKey& a, const BucketKey& b) {
    return a.word_count == b.word_count &&
           std::memcmp(a.words.data(), b.words.data(),
                       sizeof(int64_t) * static_cast<size_t>(a.word_count)) == 0;
  }
};

// Everything a graph of one program depends on, per lane; compared in full.
struct NodeKey {
  const StaticVersion* statics = nullptr;
  const Surroundings* surroundings = nullptr;  // Null for a root.
  BucketKey bucket;

  friend bool operator==(const NodeKey& a, const NodeKey& b) = default;
};

struct KeyHash {
  size_t operator()(const BucketKey& key) const { return Mix(key, 0); }
  size_t operator()(const NodeKey& key) const {
    return Mix(key.bucket, (reinterpret_cast<uintptr_t>(key.statics) >> 4) ^
                               reinterpret_cast<uintptr_t>(key.surroundings));
  }

 private:
  static size_t Mix(const BucketKey& key, uint64_t hash) {
    for (int i = 0; i < key.word_count; ++i) {
      hash = (hash ^ static_cast<uint64_t>(key.words[static_cast<size_t>(i)])) * 0x9e3779b97f4a7c15;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

// What a copied input must look like: its spec without what only messages need.
struct CopyShape {
  DType dtype = DType::kFloat32;
  int8_t rank = 0;
  std::array<Dim, kRankMax> dims;
};

// Outputs of a node at its padded extents, or of one run without a graph.
struct OutputTable {
  const ProgramSpec* spec = nullptr;
  std::vector<Tensor> tensors;  // Dense, at the padded extents.
};

// Where a run finds its inputs, and what staging has to do for that.
struct InputLayout {
  // One staged copy: which tensor of the call or of the binding it comes from.
  struct Source {
    bool bound = false;  // Of the binding's tensors, else of the call's inputs.
    int index = 0;
    int input = 0;  // Of the spec.
  };

  StagingParams staging{};             // Targets and fills; sources are set by each call.
  std::vector<Source> sources;         // One per staged copy.
  std::vector<Tensor> inputs;          // Of the spec, dense at the extents of the run.
  std::vector<Tensor> static_outputs;  // One per output of the spec; address 0 for a pool output.
  std::vector<std::pair<int, int>> copy_backs;  // (spec input, call input) to copy back.
  int64_t bytes = 0;                            // Of the staging window.
  int64_t real_elements = 0;                    // Of all staged inputs of the call ...
  int64_t padded_elements = 0;                  // ... and of their places.
  bool stages = false;                          // There is a word or a copy.
  int in_place = 0;                             // Copied inputs read where they lie.
};

// One step of a program's trace.
struct TraceEvent {
  enum class Kind : uint8_t { kAllocate, kOutput, kFree, kBreak };
  Kind kind = Kind::kAllocate;
  int buffer = 0;     // Index in order of allocation; unused for kBreak.
  int output = -1;    // For kOutput.
  int64_t bytes = 0;  // Rounded up to kBufferAlignment; 0 for kFree and kBreak.
};

struct Trace {
  std::vector<TraceEvent> events;
  int buffer_count = 0;
};

struct Node;

// What is known of one bucket of a program on one lane, whatever its graphs are planned around.
struct Bucket {
  enum class State : uint8_t { kOpen, kRecording, kNotCapturable };

  BucketKey key;
  State state = State::kOpen;
  int warmups = 0;
  Trace trace;                // Of the last warm-up.
  int recordings_broken = 0;  // From outside; the second one is final.
  int rerecords = 0;          // Because a static input moved.
  bool evicted = false;       // A graph of it was dropped.
  absl::Status refusal;       // The audit's, if it found the program wrong.
  std::vector<Node*> nodes;   // In order of creation.
  NodeInfo info;              // While there is no node.
  int32_t trace_number = -1;  // What the session's trace calls it, if there is one.
};

// Bytes that executable graphs are charged with, given back when they go.
class GraphCharge {
 public:
  GraphCharge() = default;
  GraphCharge(Pool& pool, int64_t bytes) : pool_(&pool), bytes_(bytes) {}
  GraphCharge(GraphCharge&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  GraphCharge& operator=(GraphCharge&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~GraphCharge() {
    if (pool_ != nullptr) pool_->Discharge(MemoryKind::kGraphs, bytes_);
  }

  int64_t bytes() const { return bytes_; }

 private:
  Pool* pool_ = nullptr;
  int64_t bytes_ = 0;
};

// One CUDA graph of a node, and what runs behind it.
struct Segment {
  std::optional<GraphExec> exec;  // Empty if nothing was captured.
  EagerStep step;                 // Null behind the last one.
};

// What an audit compares a later capture with.
struct Audited {
  KernelNodes kernels;
  PlannerResult planned;
};

struct Node {
  NodeKey key;
  int64_t top = 0;  // End of its footprint: what must be mapped when it runs.
  Bucket* bucket = nullptr;
  Reason made_for = Reason::kNewBucket;
  InputLayout layout;
  GraphCharge charge;  // For the segments' graphs, which go first.
  std::vector<Segment> segments;
  OutputTable outputs;
  std::vector<Region> footprint;       // Window bytes it writes, sorted and disjoint.
  std::vector<Region> output_regions;  // Of the window, sorted and disjoint.
  std::unique_ptr<Audited> audited;    // Until the first replay audits it again.
  std::unique_ptr<Gate> gate;          // Null unless it is gated.
  uint64_t last_call = 0;              // Number of the lane's call that launched it last.
  int leases = 0;                      // Slots that show its outputs.
  int32_t trace_number = -1;           // What the session's trace calls it, if there is one.
  NodeInfo info;
};

// Buckets and nodes of one program on one lane; `order` is the order of creation of buckets.
struct NodeTable {
  std::unordered_map<NodeKey, std::unique_ptr<Node>, KeyHash> nodes;
  std::unordered_map<BucketKey, std::unique_ptr<Bucket>, KeyHash> buckets;
  std::vector<Bucket*> order;
  mutable Node* last = nullptr;  // That Find found.

  // The node of this key, or null. Steady traffic asks for one node many times, so the last one is
  // compared before anything is hashed.
  Node* Find(const NodeKey& key) const {
    if (last != nullptr && last->key == key) [[likely]]
      return last;
    const auto found = nodes.find(key);
    if (found == nodes.end()) return nullptr;
    return last = found->second.get();
  }
  // The bucket of this key, made if there is none.
  Bucket& BucketFor(const BucketKey& key);
  // Adds a complete node under its key, which has none.
  Node& Add(std::unique_ptr<Node> node);
  // Takes a node out, and with it its graphs. Requires: not in flight, no slot shows it.
  void Remove(Node& node);
};

}  // namespace internal

class Program {
 public:
  Program() {
    for (std::atomic<int64_t>& extent : first_extents)
      extent.store(kUnseen);
  }

  ProgramSpec spec;
  mutable Callable callable;  // Its own state is its own business.
  GuardProgram guards;
  std::vector<internal::CopyShape> copy_shapes;  // Of the copied inputs.
  std::vector<int> copies;                       // Spec indices of the copied inputs.
  std::vector<int> statics;                      // Spec indices of the static inputs.
  std::vector<int> static_outputs;               // Spec indices of the static outputs.
  std::vector<int> key_scalars;                  // Spec indices of the scalars in the key.
  std::vector<int> device_scalars;               // Spec indices of those in the parameter block.
  bool binds() const { return !statics.empty() || !static_outputs.empty(); }

  bool guarded = false;
  bool plain = false;  // Nothing but a node decides how its calls run.
  bool mutates_statics = false;
  bool mutates_copies = false;
  int random_word = -1;                             // Of the parameter block; -1: no random state.
  const Session* session = nullptr;                 // Which session made it.
  int32_t trace_number = -1;                        // What its trace calls it, if there is one.
  mutable std::vector<internal::NodeTable> lanes;   // Each under its lane's lock.
  mutable std::atomic<uint32_t> reasons_logged{0};  // Bit per Reason.
  mutable std::atomic<int64_t> random_offset{0};

  std::array<bool, kSymbolsMax> pads_always{};  // Whatever the extent.
  // The first extent of each `auto` symbol, or kUnseen, or kPromoted.
  static constexpr int64_t kUnseen = -1;
  static constexpr int64_t kPromoted = -2;
  mutable std::array<std::atomic<int64_t>, kSymbolsMax> first_extents;

  // Under the session's lock: what static inputs make of their addresses.
  mutable std::vector<std::unique_ptr<internal::StaticVersion>> versions;
  mutable std::vector<int> moves;     // Re-records in which each static moved.
  mutable std::vector<bool> demoted;  // Copied because of that.
};

}  // namespace coppice
