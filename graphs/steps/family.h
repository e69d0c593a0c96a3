// An executable that several sizes of a program share, and what its nodes hold. Private to graphs/.
//
//   steps at a size ─► of the family? ─ yes ─► set what differs ─► launch
//                                     └ no ──► the bucket's own sizes, or another family
//
// Sizes are of one family if their steps are the same nodes: the same kernels in blocks of one
// size, with the same attributes, the same copies and fills, in one order; and if no two steps
// touch the same bytes that the graph's edges leave without an order. What else a launch has, its
// grid, its arguments and its dynamic shared memory, is set in the executable. A host copy says
// what that holds, so that only what differs is set. The driver lets launches in flight keep what
// they had.
//
// Units: bytes; steps by number, from 0. Threads: under the lock of its lane, but for Fits, which
// reads only what never changes.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/graph.h"
#include "coppice/runtime/launch.h"

#include "graphs/node/budget_charge.h"
#include "graphs/program/step_source.h"
#include "graphs/steps/touch_order.h"

namespace coppice::internal {

// What an executable lets set of its launches, in the order of its steps.
struct FamilySetting {
  struct Launch {
    Dim3 grid;
    unsigned shared_bytes = 0;
    friend bool operator==(const Launch&, const Launch&) = default;
  };

  std::vector<Launch> launches;
  std::vector<std::byte> arguments;  // KernelLaunch::bytes, one behind the other.

  void Add(const KernelLaunch& launch);
  int64_t bytes() const {  // Of the host.
    return static_cast<int64_t>(launches.size() * sizeof(Launch) + arguments.size());
  }
};

// What it does not let set of a launch.
struct LaunchForm {
  Kernel kernel;
  LaunchShape shape;
  std::vector<size_t> offsets;  // Of each argument among its bytes,
  size_t bytes = 0;             // of which there are these.
};

// Work of a library, which nobody looks into.
struct LibraryForm {};

using StepForm = std::variant<LaunchForm, MemoryFill, MemoryCopy, LibraryForm>;

struct FamilySteps {
  std::vector<StepForm> forms;
  FamilySetting setting;

  // Whether all is known that an executable would have to be set to.
  bool known() const {
    return std::ranges::none_of(
        forms, [](const StepForm& form) { return std::holds_alternative<LibraryForm>(form); });
  }
};

class Family {
 public:
  static constexpr int64_t kNoSize = -1;

  // Of the steps that `graph` was made of, one per node of `topology`; `exec` is its executable.
  // `charge` is for what that takes. Requires: steps.known().
  Family(Graph graph,
         Graph::Topology topology,
         FamilySteps steps,
         GraphExec exec,
         BudgetCharge charge);

  const GraphExec& exec() const { return exec_; }
  size_t size() const { return forms_.size(); }
  int64_t bytes() const { return charge_.bytes(); }  // Of the device, an estimate.
  // What dropping one of those that use it counts as giving back, though the last does.
  int64_t bytes_per_use() const { return bytes() / std::max(uses_, 1); }

  // Whether step `index` may become this one by setting what an executable lets set.
  bool Fits(size_t index, const KernelLaunch& launch) const;
  bool Fits(size_t index, const MemoryFill& fill) const;
  bool Fits(size_t index, const MemoryCopy& copy) const;
  // Whether `later` runs behind `earlier`, perhaps through others.
  bool Orders(int earlier, int later) const;

  // The first of the sizes that the executable is set to, where who set it keeps them; null: it may
  // hold anything. That word is overwritten once the executable is set to others.
  const int64_t* set_to() const { return set_to_; }
  void NoteSetTo(int64_t* first) {
    if (set_to_ != nullptr) *set_to_ = kNoSize;
    set_to_ = first;
  }

  // Has later launches of the executable do this. Returns the number of nodes that differed.
  // Requires: a setting of the family's steps. Errors: the driver's, behind which the executable
  // holds some of both. Cost: a comparison per launch, a driver call per one that differs; no
  // allocation.
  absl::StatusOr<int64_t> Set(const Driver& driver, const FamilySetting& setting);

 private:
  friend class FamilyUse;

  Graph graph_;  // Its nodes name those of the executable.
  std::vector<CuGraphNode> nodes_;
  const std::vector<StepForm> forms_;
  FamilySetting held_;               // What the executable does.
  std::vector<void*> pointers_;      // To the arguments of the launch at hand.
  std::vector<uint64_t> ancestors_;  // Per step, a bit for each one that it runs behind.
  GraphExec exec_;
  BudgetCharge charge_;
  int64_t* set_to_ = nullptr;
  int uses_ = 0;
};

// One of those that use a family, which goes with the last of them.
class FamilyUse {
 public:
  FamilyUse() = default;
  explicit FamilyUse(std::unique_ptr<Family> family) : family_(family.release()) {
    ++family_->uses_;
  }
  FamilyUse(FamilyUse&& other) noexcept : family_(std::exchange(other.family_, nullptr)) {}
  FamilyUse& operator=(FamilyUse&& other) noexcept {
    std::swap(family_, other.family_);
    return *this;
  }
  ~FamilyUse() {
    if (family_ != nullptr && --family_->uses_ == 0) const std::unique_ptr<Family> last(family_);
  }

  static FamilyUse Another(Family& family) {
    FamilyUse use;
    use.family_ = &family;
    ++family.uses_;
    return use;
  }

  Family* get() const { return family_; }

 private:
  Family* family_ = nullptr;
};

// Copies steps, as a family will hold them.
class HeldSteps final : public StepSink {
 public:
  explicit HeldSteps(StepSink& sink) : sink_(sink) {}

  absl::Status Launch(const KernelLaunch& launch, std::span<const Touch> touched) override;
  absl::Status Fill(const MemoryFill& fill, std::span<const Touch> touched) override;
  absl::Status Copy(const MemoryCopy& copy, std::span<const Touch> touched) override;
  absl::Status Work(LibraryWork work, std::span<const Touch> touched) override;

  FamilySteps Take() { return std::move(steps_); }

 private:
  StepSink& sink_;  // To which they go, too.
  FamilySteps steps_;
};

// Finds out whether steps are of a family, and what it is to be set to for them. Sets nothing.
class FamilyCheck final : public StepSink {
 public:
  explicit FamilyCheck(const Family& family) : family_(family) {}

  // Each is kOutOfRange if they are not.
  absl::Status Launch(const KernelLaunch& launch, std::span<const Touch> touched) override;
  absl::Status Fill(const MemoryFill& fill, std::span<const Touch> touched) override;
  absl::Status Copy(const MemoryCopy& copy, std::span<const Touch> touched) override;
  absl::Status Work(LibraryWork work, std::span<const Touch> touched) override;
  // What the steps were, if these were all. Errors: as above.
  absl::StatusOr<FamilySetting> Finish();

 private:
  absl::Status Next(bool fits, std::span<const Touch> touched);

  const Family& family_;
  TouchOrder order_;
  size_t index_ = 0;
  FamilySetting setting_;
};

}  // namespace coppice::internal
