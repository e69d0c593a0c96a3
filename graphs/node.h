// What a session keeps per program: its spec made ready for the replay path, its bindings, and one
// node per key. Private to graphs/.
//
// Units: bytes and elements. Threads: a node belongs to its lane and is touched under that lane's
// lock; Program and Binding are immutable once made, but for the node tables.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coppice/allocator/plan.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/reason.h"
#include "coppice/graphs/session.h"
#include "coppice/graphs/staging.h"
#include "coppice/runtime/graph.h"

namespace coppice {

// One set of static inputs. Its address is its version: bindings with equal addresses are one
// object.
class Binding {
 public:
  const Program* program = nullptr;
  std::vector<Tensor> inputs;  // In spec order among the static inputs.
};

namespace internal {

// Everything a graph of one program depends on, per lane; compared in full.
struct NodeKey {
  NodeKey() {}  // NOLINT(modernize-use-equals-default): leaves the words unset, for speed.

  const Binding* binding = nullptr;
  int word_count = 0;
  // Padded extent of each symbol, then each key scalar; those from word_count on are not set.
  std::array<int64_t, kSymbolsMax + kScalarsMax> words;

  friend bool operator==(const NodeKey& a, const NodeKey& b) {
    return a.binding == b.binding && a.word_count == b.word_count &&
           std::memcmp(a.words.data(), b.words.data(),
                       sizeof(int64_t) * static_cast<size_t>(a.word_count)) == 0;
  }
};

struct NodeKeyHash {
  size_t operator()(const NodeKey& key) const {
    uint64_t hash = reinterpret_cast<uintptr_t>(key.binding) >> 4;
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

// Outputs of a node at its padded extents, or of one eager run.
struct OutputTable {
  const ProgramSpec* spec = nullptr;
  std::vector<Tensor> tensors;  // Dense, at the padded extents.
  Lane* lane = nullptr;         // Whose eager window the tensors are live in; null for a node's.
};
using OwnedOutputs = std::unique_ptr<OutputTable, OutputTableDeleter>;

// An empty table for an eager run's outputs. It frees them when it goes, without the lane's lock.
OwnedOutputs MakeOwnedOutputs(Lane& lane);

// One step of a program's allocation trace.
struct TraceEvent {
  enum class Kind : uint8_t { kAllocate, kOutput, kFree };
  Kind kind = Kind::kAllocate;
  int buffer = 0;     // Index in order of allocation.
  int output = -1;    // For kOutput.
  int64_t bytes = 0;  // Rounded up to kBufferAlignment; 0 for kFree.
};

struct Trace {
  std::vector<TraceEvent> events;
  int buffer_count = 0;
};

struct Node {
  enum class State : uint8_t { kWarm, kRecorded, kNotCapturable };

  NodeKey key;
  State state = State::kWarm;
  Reason made_for =
      Reason::kNewBucket;       // Why the key was not found: kNewBucket or kStaticInputMoved.
  StagingParams staging{};      // Targets and fills; sources are set by each call.
  int64_t padded_elements = 0;  // Of all staged inputs.
  Trace trace;
  std::optional<GraphExec> exec;  // Set once recorded.
  OutputTable outputs;
  int recordings_broken = 0;  // From outside; the second one is final.
  NodeInfo info;
};

// Nodes of one program on one lane, by key; `order` is the order of creation.
struct NodeTable {
  std::unordered_map<NodeKey, std::unique_ptr<Node>, NodeKeyHash> by_key;
  std::vector<const Node*> order;

  // Adds a node under its key, which has none.
  Node& Add(std::unique_ptr<Node> node);
};

}  // namespace internal

class Program {
 public:
  ProgramSpec spec;
  mutable Callable callable;  // Called under a lane's lock; its own state is its own business.
  std::vector<internal::CopyShape> copy_shapes;  // Of the copied inputs.
  std::vector<int> copies;                       // Spec indices of the copied inputs.
  std::vector<int> statics;                      // Spec indices of the static inputs.
  std::vector<int> key_scalars;                  // Spec indices of the scalars in the key.
  std::vector<int> device_scalars;               // Spec indices of those in the parameter block.
  bool mutates_statics = false;
  const void* session = nullptr;                    // Which session made it.
  mutable std::vector<internal::NodeTable> lanes;   // Each under its lane's lock.
  mutable std::atomic<uint32_t> reasons_logged{0};  // Bit per Reason.
};

}  // namespace coppice
