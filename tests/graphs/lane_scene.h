// What the tests of a lane's parts share: a pool of two lanes on an emulator, the first of the
// lanes, and nodes that nobody recorded: they only say where they would write.
//
// Threads: one test at a time.

#pragma once

#include "coppice/allocator/budget.h"
#include "coppice/allocator/pool.h"
#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/program.h"

#include "graphs/lane/lane.h"
#include "graphs/lane/window_map.h"
#include "graphs/node/node.h"
#include "graphs/program/program.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice::internal {

constexpr int64_t kGranule = 2 * kMiB;  // What the emulator maps at once.
constexpr int64_t kUnit = kBufferAlignment;

inline Callable NoCallable() {
  return [](CallContext&) { return absl::OkStatus(); };
}

// One symbol n, whose buckets are powers of two up to 64; an input and an output of n elements.
inline ProgramSpec RowsSpec(std::string name = "rows") {
  ProgramSpec spec{.name = std::move(name), .claim = PaddingContents::kRowIndependent};
  const int n = spec.AddSymbol("n", *PaddingPolicy::Pow2(64));
  spec.inputs = {{.name = "x", .dims = {Dim::Symbol(n)}}};
  spec.outputs = {{.name = "y", .dims = {Dim::Symbol(n)}}};
  return spec;
}

inline Program ProgramOf(const ProgramSpec& spec, int number = 0) {
  return {spec, *CompileGuards(spec), {.callable = NoCallable()}, {.number = number}};
}

inline BucketKey KeyOf(int64_t extent) {
  BucketKey key;
  key.word_count = 1;
  key.words[0] = extent;
  return key;
}

// A lane's budget, pool and windows.
class PoolScene {
 public:
  explicit PoolScene(int64_t limit = 0, int64_t window_bytes = 8 * kMiB)
      : device(DriverLedger::Options()),
        budget({.accounts = kMemoryKindCount, .limit = limit}),
        pool(*Pool::Create(device.driver(),
                           device.context().device(),
                           budget,
                           {.accounts = WindowMap::Accounts(2),
                            .spare_account = static_cast<int>(MemoryKind::kSpare),
                            .window_bytes = window_bytes})),
        windows(*pool, 2) {}

  int64_t Booked(MemoryKind kind) const { return budget.bytes(static_cast<int>(kind)); }

  TestDevice device;
  Budget budget;
  std::unique_ptr<Pool> pool;
  WindowMap windows;
};

// What a test wants of a node.
struct SketchedNode {
  int64_t n = 64;              // Its bucket.
  std::vector<Region> writes;  // Its footprint.
  Region output{};             // Where y lies in the plan window; no bytes: nowhere.
  const StaticVersion* statics = nullptr;
  Reason made_for = Reason::kNewBucket;
  int64_t record_ns = 1;
  int64_t exec_bytes = 0;  // Charged to the budget.
  int64_t plan_height = 0;
};

class LaneScene : public PoolScene {
 public:
  explicit LaneScene(int64_t ring_bytes = 0)
      : lane(device.driver(),
             *pool,
             windows,
             series,
             *StreamOrder::Create(device.driver(), 0),
             ring_bytes,
             /*lane_index=*/0,
             /*lane_tracer=*/nullptr) {}

  // Of a program in the bucket, without graphs.
  std::unique_ptr<Node> MakeNode(const Program& of, const SketchedNode& sketch) {
    NodeDraft draft{.made_for = sketch.made_for};
    draft.key.statics = sketch.statics;
    draft.key.bucket = KeyOf(sketch.n);
    draft.bucket = &lane.nodes().Of(of).BucketFor(draft.key.bucket);
    draft.info.record_ns = sketch.record_ns;
    draft.info.plan_height = sketch.plan_height;
    NodeRecording recording{.charge = Charge(sketch.exec_bytes)};
    recording.footprint = sketch.writes;
    Tensor y = Tensor::Dense(0, DType::kFloat32, std::vector<int64_t>{sketch.output.bytes / 4});
    if (sketch.output.bytes > 0) {
      y.data =
          lane.memory().base(MemoryKind::kPlan) + static_cast<DeviceAddress>(sketch.output.offset);
      recording.output_regions = {sketch.output};
    }
    recording.outputs = {.spec = &of.spec, .tensors = {y}};
    return std::make_unique<Node>(std::move(draft), std::move(recording));
  }
  // The same, in its table.
  Node& AddNode(const Program& of, const SketchedNode& sketch) {
    return lane.nodes().Publish(of, MakeNode(of, sketch));
  }

  // Whose outputs the next call's are, which this begins.
  SlotTable::Owner BeginCall() {
    return {.program = &program, .call = lane.order().BeginCall(), .extents = &extent};
  }

  Program program = ProgramOf(RowsSpec());
  int64_t extent = 3;
  ReplaySeries series;
  Lane lane;

 private:
  BudgetCharge Charge(int64_t bytes) {
    const int account = static_cast<int>(MemoryKind::kGraphs);
    EXPECT_TRUE(budget.Charge(account, bytes).admitted());
    return {budget, account, bytes};
  }
};

}  // namespace coppice::internal
