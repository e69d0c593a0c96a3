// What a node knows that runs at the exact sizes of each call. Private to graphs/.
//
// Its plan is that of its bucket: a buffer of an exact size has the offset that the plan gives the
// bucket's, and no more bytes. Its executable is that of a family, which other nodes of the program
// on the lane have, too, and is set before a launch to what the call asks for.
//
// Units: bytes. Threads: under the lock of its lane.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "coppice/allocator/plan.h"
#include "coppice/base/tensor.h"
#include "coppice/base/units.h"

#include "graphs/node/allocation_script.h"
#include "graphs/node/node_key.h"
#include "graphs/program/program.h"
#include "graphs/steps/family.h"

namespace coppice::internal {

// What is planned of a bucket, for runs at sizes that fit into it.
struct BucketPlan {
  AllocationScript script;
  Plan plan;
  DeviceAddress base = 0;
};

// What a recording may take from another node: an executable, and a plan that fits it. Stays, also
// if that node goes for want of room.
struct ExactPeer {
  FamilyUse family;
  BucketPlan planned;
};

// A run at some sizes: what the executable is set to for it, and its outputs.
struct SizedSteps {
  FamilySetting setting;
  std::vector<Tensor> outputs;
};

class ExactSizes {
 public:
  // Of a program of so many symbols.
  ExactSizes(size_t symbols, FamilyUse family, BucketPlan planned)
      : family_(std::move(family)), planned_(std::move(planned)), symbols_(symbols) {
    set_to_.words[0] = Family::kNoSize;
  }
  ExactSizes(const ExactSizes&) = delete;
  ExactSizes& operator=(const ExactSizes&) = delete;
  ~ExactSizes() {
    if (family_.get()->set_to() == set_to_.words.data()) ForgetSet();
  }

  Family& family() const { return *family_.get(); }
  const BucketPlan& planned() const { return planned_; }

  // Whether the family's executable is set to these sizes of this node, one per symbol. Each replay
  // asks.
  bool IsSetTo(const ExtentArray& sizes) const {
    if (set_to_.words[0] != sizes[0]) return false;
    for (size_t i = 1; i < symbols_; ++i) {
      if (set_to_.words[i] != sizes[i]) return false;
    }
    return true;
  }
  void NoteSet(const BucketKey& sizes) {
    family_.get()->NoteSetTo(set_to_.words.data());
    set_to_ = sizes;
  }
  // It may hold anything.
  void ForgetSet() { family_.get()->NoteSetTo(nullptr); }

  // Of the node's replays, those at the bucket's sizes for a call of others. They are counted
  // because the others do not have to be: what is as it was costs a comparison.
  void NotePadded() { ++padded_replays_; }
  int64_t padded_replays() const { return padded_replays_; }

  // What was found out about sizes: nothing; null, they are not of the family or do not fit the
  // plan; or their steps, which stay until Keep. Cost: a hash.
  std::optional<const SizedSteps*> Find(const BucketKey& sizes) const {
    const auto found = known_.find(sizes);
    return found == known_.end() ? std::nullopt : std::optional(found->second.get());
  }
  // Keeps that, and forgets all others once they take too much.
  const SizedSteps* Keep(const BucketKey& sizes, std::unique_ptr<const SizedSteps> steps) {
    constexpr size_t kKnownMax = 4096;
    constexpr int64_t kBytesMax = kMiB;  // Of the host: some hundred sizes of 64 launches.
    if (known_.size() == kKnownMax || known_bytes_ > kBytesMax) {
      known_.clear();
      known_bytes_ = 0;
    }
    if (steps != nullptr) known_bytes_ += steps->setting.bytes();
    return (known_[sizes] = std::move(steps)).get();
  }

  // A call asks for these sizes. Returns whether the one before it asked for them, too.
  bool Repeats(const BucketKey& sizes) { return std::exchange(last_, sizes) == sizes; }

  // Where outputs are kept while a call that may fail shows others.
  std::vector<Tensor>& replaced_outputs() { return replaced_outputs_; }

 private:
  FamilyUse family_;
  const BucketPlan planned_;
  const size_t symbols_;  // At least one.
  BucketKey set_to_;      // The first is kNoSize: others set the executable, or nobody.
  int64_t padded_replays_ = 0;
  std::optional<BucketKey> last_;
  std::vector<Tensor> replaced_outputs_;
  std::unordered_map<BucketKey, std::unique_ptr<const SizedSteps>, KeyHash> known_;
  int64_t known_bytes_ = 0;
};

}  // namespace coppice::internal
