// What the world of simulated traffic keeps beside the session: the caller's memory with what it
// must hold, the leases with what they must show, and the reads that are under way.
//
// All of it goes to the emulator directly, so that faults hit the session alone. Memory that more
// than one call uses is ordered here, as a caller has to: each use waits for the one before.
//
// Units: elements unless a name says bytes. Threads: one.

#pragma once

#include "coppice/graphs/session.h"
#include "coppice/runtime/stream.h"

#include "tests/sim/traffic_programs.h"
#include "tests/support/test_device.h"

namespace coppice {

inline constexpr int64_t kExtentMax = kLargestExtent + 16;  // Of any call.
inline constexpr int64_t kSkipMax = 8;  // Elements before the first of an input.

// Memory of the caller, or a constant.
struct CallerBuffer {
  DeviceMemory memory;
  DeviceAddress start = 0;  // Of its first byte: there, or in a constant of the session.
  Bytes values;             // What it holds once all queued work has run.
  CuStream last = nullptr;  // Of its last use.
};

// One set of static tensors of a program.
struct StaticSet {
  std::unique_ptr<CallerBuffer> input;
  std::unique_ptr<CallerBuffer> output;  // Null if the program has no static output.
  const Binding* binding = nullptr;
  bool bound = false;

  std::vector<Tensor> Tensors(const TrafficProgram& program) const;
};

// An output that a call has made.
struct MadeOutput {
  Tensor tensor;
  int64_t rows = 1;
  int64_t n = 0;
  int64_t known = 0;               // Elements of each row that mean something.
  bool gone = false;               // Its part of the lease was dropped.
  Bytes own;                       // What it holds, unless it lies in the caller's memory:
  CallerBuffer* shared = nullptr;  // a target or a static output, which later calls write as well.

  // Dense; of a shared one, at least as long as the output.
  const Bytes& values() const { return shared == nullptr ? own : shared->values; }
  // Makes them those of the next call.
  void Put(Bytes values) {
    if (shared == nullptr)
      own = std::move(values);
    else
      std::ranges::copy(values, shared->values.begin());
  }
  int64_t row_bytes() const { return n * SizeOf(tensor.dtype); }
};

// A call that has run, and its lease.
struct Made {
  Lease lease;
  bool held = true;      // The lease was not dropped.
  bool sure = true;      // Nothing may have written over the outputs.
  bool window = false;   // They are borrowed from a graph.
  bool in_path = false;  // A child leaves them alone.
  bool unknown = false;  // A fault may have changed them.
  bool counted = false;  // Output 1 counts output 0: it stays while either does.
  OutputMode mode = OutputMode::kBorrow;
  int lane = 0;
  std::vector<MadeOutput> outputs;
  std::optional<ReadScope> scope;
  CuStream scope_stream = nullptr;

  // Whether an output may be read as an input.
  bool keeps(size_t output) const { return held && !outputs[output].gone; }

  // A lease keeps bytes of the session's windows, or may: outputs without elements lie nowhere, or
  // anywhere.
  bool keeps_bytes(int64_t elements_min = 0) const {
    return held && mode != OutputMode::kWriteInto &&
           std::ranges::any_of(outputs, [elements_min](const MadeOutput& output) {
             return !output.gone && output.shared == nullptr && output.n >= elements_min;
           });
  }
};

// An input of a call.
struct CallInput {
  Tensor tensor;
  Bytes values;
  Made* made = nullptr;            // If it is an output.
  CallerBuffer* buffer = nullptr;  // If it lies in memory of the caller that calls write to.
  int64_t offset_bytes = 0;        // Of its first element there, or in the output.

  int64_t extent() const { return tensor.sizes[static_cast<size_t>(tensor.rank) - 1]; }
};

// A dense tensor of rows of `n` elements; that of output `index`, and the elements of its rows.
Tensor DenseTensorOf(const TrafficProgram& program, DType dtype, DeviceAddress data, int64_t n);
Tensor DenseOf(const TrafficProgram& program,
               int index,
               DeviceAddress data,
               const TrafficExtents& extents);
int64_t LengthOf(const TrafficProgram& program, int index, const TrafficExtents& extents);

// What a tensor of one row or of several shows of `values`, from `offset_bytes` on.
Bytes ReadBy(const Tensor& tensor, int64_t rows, const Bytes& values, int64_t offset_bytes);

class TrafficHost {
 public:
  explicit TrafficHost(TestDevice& device);

  const Driver& driver() const { return device_.emulator().driver(); }
  CuStream stream(int64_t index) const;

  // The caller's buffers, by any number.
  CallerBuffer& input(int64_t index) { return *At(inputs_, index); }
  CallerBuffer& mutable_input(int64_t index) { return *At(mutable_inputs_, index); }
  // A count of the caller's, and what it says; beyond any capacity, or below 0, as well.
  Tensor count(int64_t index) const;
  int64_t count_value(int64_t index) const { return (index * 7) % (kExtentMax + 6) - 3; }
  CallerBuffer& target(int64_t index) { return *At(targets_, index); }
  StaticSet MakeStatics(const TrafficProgram& program, int64_t set);

  // Orders the next use of a buffer, on `stream`, behind its last.
  void Order(CallerBuffer& buffer, CuStream stream);

  // Waits for all work.
  void Synchronize();

  // Takes over what a buffer holds, after Synchronize. False if that is neither what it held nor
  // `values` from `offset_bytes` on.
  bool Adopt(CallerBuffer& buffer, const Bytes& values, int64_t offset_bytes) const;

  // Ends the process if the emulator refuses the world: the session has broken the context.
  void Demand(CuResult result) const;

  // Waits for the work on a stream.
  void SynchronizeStream(CuStream stream) const {
    Demand(driver().table().StreamSynchronize(stream));
  }

  // Destroys a graph of the caller's once all work is done.
  void Launched(CuGraphExec exec) { launched_.push_back(exec); }

  // Fills memory with a byte, on `stream`.
  void Fill(DeviceAddress address, uint8_t byte, int64_t bytes, CuStream stream) const;

  // Queues a copy of an output to the host, or of memory that must hold `expected`.
  void QueueRead(const MadeOutput& output, CuStream stream, std::string what);
  void QueueRead(DeviceAddress address, Bytes expected, CuStream stream, std::string what);
  // Compares what was queued, after Synchronize; says what the first difference is, or nothing.
  std::string CheckReads();

 private:
  struct QueuedRead {
    std::string what;
    Bytes expected;
    Bytes read;
  };

  static CallerBuffer* At(const std::vector<std::unique_ptr<CallerBuffer>>& buffers,
                          int64_t index) {
    return buffers[static_cast<size_t>(index) % buffers.size()].get();
  }
  std::unique_ptr<CallerBuffer> Make(int64_t bytes, int64_t skew_bytes = 0);
  Bytes Download(const CallerBuffer& buffer) const;

  TestDevice& device_;
  std::vector<Stream> streams_;
  Event order_;
  uint64_t next_value_ = 1;
  std::vector<std::unique_ptr<CallerBuffer>> inputs_;
  std::vector<std::unique_ptr<CallerBuffer>> mutable_inputs_;
  std::vector<std::unique_ptr<CallerBuffer>> targets_;
  std::vector<DeviceMemory> counts_;
  std::vector<std::unique_ptr<QueuedRead>> reads_;
  std::vector<CuGraphExec> launched_;
};

}  // namespace coppice
