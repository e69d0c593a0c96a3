// A registered program and its bindings: the spec laid out for the replay path. Private to graphs/.
//
// Both are handed out as const. What a call needs of a spec is in the program's layout, which is
// made once; what changes about a program (extents seen, reasons logged, its ladders) is in its
// state, atomic or guarded by locks of lanes, and behind methods.
//
// Units: bytes and elements. Threads: any, but for Invoke, which runs the callable.

#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"

#include "coppice/base/expression.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/guards.h"
#include "coppice/graphs/program.h"
#include "coppice/graphs/reason.h"

#include "graphs/program/ladder.h"
#include "graphs/program/ragged.h"
#include "graphs/program/step_source.h"

namespace coppice {
namespace internal {

class Catalogue;

// The static inputs and outputs that a node's key names: those addresses that are not copied.
// Bindings that agree on them share one.
struct StaticVersion {
  std::vector<DeviceAddress> addresses;  // In spec order among the statics; 0 for a copied one.
  std::vector<int> copied;               // Which of them every call copies.
  // No binding has it any more.
  mutable std::atomic<bool> retired{false};
};

// Extents of a program: those of its symbols from 0 on, those of its expressions from kSymbolsMax
// on.
using ExtentArray = std::array<int64_t, kSymbolsMax + kExtentsMax>;

// Where it has a dim's; -1 if that is fixed. Requires: no ragged one.
constexpr int ExtentOf(const Dim& dim) {
  if (dim.is_fixed()) return -1;
  return dim.kind == Dim::Kind::kExtent ? kSymbolsMax + dim.index : dim.index;
}
// The dim of an extent that it has.
inline Dim DimOf(int extent) {
  return extent < kSymbolsMax ? Dim::Symbol(extent) : Dim::Extent(extent - kSymbolsMax);
}

// What a copied input must look like: its spec without what only messages need.
struct CopyShape {
  struct Axis {
    int64_t size = 0;  // Of a fixed one.
    int extent = -1;   // As ExtentOf.
  };

  DType dtype = DType::kFloat32;
  int8_t rank = 0;
  DeviceAddress misalignment = 0;  // Bits that no address of such an element has.
  std::array<Axis, kRankMax> axes;
};

// Whether scalar `index` of the spec is part of the key as it is.
bool IsKeyScalar(const ProgramSpec& spec, int index);

// Whether an `auto` symbol is seen to vary by its extent in a call, or was before.
enum class Observe : bool { kNo, kYes };

// What follows from a spec alone.
struct ProgramLayout {
  std::vector<CopyShape> copy_shapes;  // Of the copied inputs.
  std::vector<int> copies;             // Spec indices of the copied inputs.
  std::vector<int> statics;            // Spec indices of the static inputs.
  std::vector<int> static_outputs;     // Spec indices of the static outputs.
  std::vector<int> key_scalars;        // Spec indices of the scalars in the key.
  std::vector<int> device_scalars;     // Spec indices of those in the parameter block.
  size_t extent_count = 0;             // Of an ExtentArray, what this program uses.
  uint32_t axis_extents = 0;           // Bit per extent that an axis of a copied input has.
  int given_count = 0;                 // Symbols whose extents come with the call.
  bool scalars_in_key = false;         // All of them.
  bool axes_say_all = false;           // Axes give each extent, and no guard checks them.
  bool mutates_statics = false;
  bool mutates_copies = false;
  bool symbolic_strides = false;  // Whether some keep elements apart depends on extents.
  bool pads_plainly = false;      // Every symbol pads always, by its own policy, and nothing else
                                  // reads the bucket.
  uint32_t joint_symbols = 0;     // A bit per symbol in a joint policy.
  std::vector<int> counted;       // Symbols whose extents the device may decide.
  uint32_t ragged_totals = 0;     // A bit per symbol that is the rows of ragged sequences.
  bool inspected = false;         // Mutates copies, or has symbolic strides, or counted symbols.
  int random_word = -1;           // Of the parameter block; -1: no random state.
  bool plain_words = false;       // Those of the block are the symbols and scalars of the call.
  uint32_t any_bits = 0;          // Bit per extent in whose padding any bits of any dtype may lie.
  bool any_bits_everywhere = false;
  std::array<bool, kSymbolsMax> pads_always{};  // Whatever the extent.
  std::array<bool, kSymbolsMax> claimed{};      // A claim lets it pad.
  std::vector<uint32_t> symbols_of_extents;     // Of each extent, the symbols that it reads.
};

// Requires: a valid spec without ragged dims, what those were, and its expressions.
ProgramLayout LayOut(const ProgramSpec& spec,
                     const RaggedTensors& ragged,
                     const std::vector<Expression>& extents,
                     bool has_guards);

}  // namespace internal

class Program {
 public:
  // What the session that registers it knows.
  struct Place {
    const internal::Catalogue* owner = nullptr;
    int number = 0;             // In order of registration.
    int32_t trace_number = -1;  // What the trace calls it, if there is one.
    bool gated = false;         // Its nodes have gates.
    bool plain = false;         // Nothing but a node decides how its calls run,
    bool exact = false;         // or that and their sizes.
  };

  // What its runs do.
  struct Work {
    Callable callable;
    Callable dry_run = nullptr;  // Makes its requests; null: they are known by running it.
    // What the callable hands to the context's stream; null: known by running it.
    std::unique_ptr<const internal::StepSource> steps = nullptr;
  };

  // Requires: a valid spec, whose guards these are.
  Program(ProgramSpec valid_spec, GuardProgram spec_guards, Work work, const Place& place);

  const internal::RaggedTensors ragged;
  const ProgramSpec spec;  // Without ragged dims: see ragged.h.
  const GuardProgram guards;
  const std::vector<Expression> extents;
  const std::unique_ptr<const internal::StepSource> steps;  // Null: known by running it.
  const bool requests_known;                                // Without running it.
  const Place place;
  const internal::ProgramLayout layout;

  bool binds() const { return !layout.statics.empty() || !layout.static_outputs.empty(); }
  bool IsKeyScalar(int index) const { return internal::IsKeyScalar(spec, index); }
  // Which of the copied inputs an input is that is one.
  size_t CopyOf(int input) const {
    return static_cast<size_t>(std::ranges::lower_bound(layout.copies, input) -
                               layout.copies.begin());
  }
  const InputSpec& copied_input(size_t copy) const {
    return spec.inputs[static_cast<size_t>(layout.copies[copy])];
  }
  // The dims of a copied input as callers see it.
  Dims CallersDims(size_t copy) const;
  // The sequences that an input or output of the spec has in a rectangle; else null.
  const RaggedSpec* RectangleOfInput(int index) const { return Rectangle(ragged.OfInput(index)); }
  const RaggedSpec* RectangleOfOutput(int index) const { return Rectangle(ragged.OfOutput(index)); }
  const SymbolSpec& counted_symbol(size_t count) const {
    return spec.symbols[static_cast<size_t>(layout.counted[count])];
  }
  const InputSpec& static_input(size_t bound) const {
    return spec.inputs[static_cast<size_t>(layout.statics[bound])];
  }

  // The catalogue that it is registered with; null once it is unregistered. Whoever holds a lane's
  // lock and finds it registered may run it there until he gives that back.
  const internal::Catalogue* registered_with() const {
    return state_.registered_with.load(std::memory_order_relaxed);
  }

  // Runs the callable, whose own state is its own business.
  absl::Status Invoke(CallContext& context) const { return state_.callable(context); }
  // Requires: no steps, and requests_known.
  absl::Status InvokeDry(CallContext& context) const { return state_.dry_run(context); }

  // What a symbol is padded to; see ladder.h for who may read and change it.
  const std::vector<internal::Ladder>& ladders() const { return state_.ladders; }
  internal::Ladder& ladder(size_t symbol) const { return state_.ladders[symbol]; }
  const PaddingPolicy& policy(size_t symbol) const { return state_.ladders[symbol].policy; }

  // Whether symbol `index` pads at this extent: what is static, or not seen to vary, does not.
  bool Pads(size_t index, int64_t extent, internal::Observe observe) const {
    return layout.pads_always[index] || PadsAt(index, extent, observe);
  }
  bool IsJoint(size_t symbol) const { return (layout.joint_symbols >> symbol & 1) != 0; }
  // The symbols that these extents are or read, a bit each, as are the extents.
  uint32_t SymbolsOf(uint32_t extents_read) const;
  // What the padding of an input may hold whose axes of these extents are padded.
  PaddingContents ContentsOf(const InputSpec& input, uint32_t padded_extents) const;
  // Whether `extent` is a bucket of this symbol; of one in a joint policy, any up to the limit may
  // be. Here and below under a lane's lock.
  bool IsBucket(size_t symbol, int64_t extent) const;
  // Whether these, one per symbol, are the padded extents of a bucket, so that it may be recorded.
  bool IsBucket(std::span<const int64_t> extents) const;
  // Whether joint policies pad the first to the second.
  bool PadsJointly(const internal::ExtentArray& real, const internal::ExtentArray& padded) const;

  // True the first time that it is asked about this reason.
  bool IsNews(Reason reason) const {
    const uint32_t bit = uint32_t{1} << static_cast<int>(reason);
    return (state_.reasons_logged.fetch_or(bit) & bit) == 0;
  }
  // The same of a recording that captured no work.
  bool IsFirstEmpty() const {
    constexpr uint32_t kBit = uint32_t{1} << kReasonCount;
    return (state_.reasons_logged.fetch_or(kBit) & kBit) == 0;
  }

  // Has seen no extent of an `auto` symbol, and logged no reason, from here on.
  void Forget() const;

 private:
  friend class internal::Catalogue;

  // An `auto` symbol has seen no extent yet, or two that differ; else its first extent.
  static constexpr int64_t kUnseen = -1;
  static constexpr int64_t kPromoted = -2;

  const RaggedSpec* Rectangle(int sequences) const;
  bool PadsAt(size_t index, int64_t extent, internal::Observe observe) const;

  struct State {
    std::atomic<const internal::Catalogue*> registered_with;
    Callable callable;  // Null once it is unregistered and nobody runs it.
    Callable dry_run;   // The same.
    std::vector<internal::Ladder> ladders{};
    std::array<std::atomic<int64_t>, kSymbolsMax> first_extents{};
    static_assert(kReasonCount < 32);
    std::atomic<uint32_t> reasons_logged = 0;  // Bit per Reason; the next: an empty recording.
  };
  mutable State state_;
};

namespace internal {

// The error of whoever comes with a program that was unregistered.
absl::Status Unregistered(const char* where, const Program& program);

}  // namespace internal

// One set of static inputs and outputs. Bindings with equal addresses are one object.
class Binding {
 public:
  Binding(const Program& of,
          uint64_t its_number,
          std::vector<Tensor> bound,
          std::vector<uint64_t> ids)
      : program(&of), number(its_number), tensors(std::move(bound)), allocations(std::move(ids)) {}

  const Program* const program;
  const uint64_t number;                    // From 1; no other binding of the session ever has it.
  const std::vector<Tensor> tensors;        // In spec order: static inputs, then static outputs.
  const std::vector<uint64_t> allocations;  // Driver's ids; only if addresses are checked.

  // Null: not bound.
  const internal::StaticVersion* version() const {
    return version_.load(std::memory_order_acquire);
  }

 private:
  friend class internal::Catalogue;
  std::atomic<const internal::StaticVersion*> version_{nullptr};
  uint64_t end_ = 0;  // Number of the last time that it ended.
};

}  // namespace coppice
