// The caller's memory, and reads of outputs.

#include "tests/sim/traffic_model.h"

#include <algorithm>

#include "fmt/format.h"

#include "coppice/base/check.h"

#include "tests/sim/traffic_kernels.h"
#include "tests/sim/traffic_script.h"

namespace coppice {
Tensor DenseTensorOf(const TrafficProgram& program, DeviceAddress data, int64_t n) {
  const int64_t dims[] = {1, 1, 1, 1, 1, 1, program.rows, n};
  const size_t rank = std::max<size_t>(static_cast<size_t>(program.rank), program.rows > 1 ? 2 : 1);
  return Tensor::Dense(data, program.dtype, std::span(dims).last(rank));
}

int64_t LengthOf(const TrafficProgram& program, int index, const TrafficExtents& extents) {
  if (program.static_output(index)) return kStaticElements;
  return LengthOf(index == 0 ? TrafficProgram::Length::kN : program.output_1, extents);
}

Tensor DenseOf(const TrafficProgram& program,
               int index,
               DeviceAddress data,
               const TrafficExtents& extents) {
  const int64_t n = LengthOf(program, index, extents);
  if (!program.static_output(index)) return DenseTensorOf(program, data, n);
  return Tensor::Dense(data, program.dtype, {&n, 1});
}

Words ReadBy(const Tensor& tensor, int64_t rows, const Words& values, int64_t skip) {
  const auto last = static_cast<size_t>(tensor.rank) - 1;
  Words read;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < tensor.sizes[last]; ++i) {
      const int64_t along_rows = rows > 1 ? row * tensor.strides[last - 1] : 0;
      read.push_back(values[static_cast<size_t>(skip + along_rows + i * tensor.strides[last])]);
    }
  }
  return read;
}

std::vector<Tensor> StaticSet::Tensors(const TrafficProgram& program) const {
  const int64_t dims[] = {kStaticElements};
  std::vector<Tensor> tensors = {Tensor::Dense(input->address(), program.dtype, dims)};
  if (output != nullptr) tensors.push_back(Tensor::Dense(output->address(), program.dtype, dims));
  return tensors;
}

void TrafficHost::Demand(CuResult result) const {
  if (result == CuResult::kSuccess) return;
  fmt::print(stderr, "{}: {}\n", NameOf(result), device_.emulator().fault());
  COPPICE_CHECK(false, "the emulator refused what the world asked for");
}

TrafficHost::TrafficHost(TestDevice& device)
    : device_(device), order_(*Event::Create(device.emulator().driver())) {
  for (int64_t i = 0; i < kTrafficStreams; ++i)
    streams_.push_back(*Stream::Create(driver()));
  constexpr int64_t kRowsMax = 2;
  for (int64_t i = 0; i < kTrafficBuffers; ++i) {
    // An input may take every second element.
    inputs_.push_back(Make(kSkipMax + 2 * kRowsMax * kExtentMax));
    mutable_inputs_.push_back(Make(kSkipMax + kExtentMax));
  }
  for (int64_t i = 0; i < 2 * kTrafficBuffers; ++i)
    targets_.push_back(Make(kRowsMax * kExtentMax));
}

CuStream TrafficHost::stream(int64_t index) const {
  return streams_[static_cast<size_t>(index % kTrafficStreams)].handle();
}

StaticSet TrafficHost::MakeStatics(const TrafficProgram& program, int64_t set) {
  // A misaligned input has to be copied, which one that is mutated cannot be.
  const bool mutated = program.statics == TrafficProgram::Static::kMutated;
  StaticSet made;
  made.input = Make(kStaticElements, set == kTrafficStatics - 1 && !mutated ? kWordBytes : 0);
  if (program.statics == TrafficProgram::Static::kOutput) made.output = Make(kStaticElements);
  return made;
}

std::unique_ptr<CallerBuffer> TrafficHost::Make(int64_t elements, int64_t skew_bytes) {
  Words values(static_cast<size_t>(elements + skew_bytes / kWordBytes));
  for (uint32_t& value : values)
    value = MixWord(next_value_++, 0, 0);
  auto buffer = std::make_unique<CallerBuffer>(CallerBuffer{.memory = *device_.Upload(values)});
  buffer->start = buffer->memory.address() + static_cast<DeviceAddress>(skew_bytes);
  buffer->values.assign(values.begin() + skew_bytes / kWordBytes, values.end());
  return buffer;
}

void TrafficHost::Order(CallerBuffer& buffer, CuStream stream) {
  const CuStream last = std::exchange(buffer.last, stream);
  if (last == nullptr || last == stream) return;
  COPPICE_CHECK(order_.Record(last).ok() && order_.MakeWait(stream).ok(), "no order");
}

void TrafficHost::Synchronize() {
  Demand(driver().table().CtxSynchronize());
  for (const CuGraphExec exec : std::exchange(launched_, {}))
    Demand(driver().table().GraphExecDestroy(exec));
}

Words TrafficHost::Download(const CallerBuffer& buffer) const {
  Words values(buffer.values.size());
  Demand(driver().table().MemcpyDtoHAsync(values.data(), buffer.address(),
                                          values.size() * sizeof(uint32_t), stream(0)));
  SynchronizeStream(stream(0));
  return values;
}

bool TrafficHost::Adopt(CallerBuffer& buffer, const Words& values, int64_t offset) const {
  Words done = buffer.values;
  std::ranges::copy(values, done.begin() + offset);
  Words found = Download(buffer);
  const bool known = found == done || found == buffer.values;
  buffer.values = std::move(found);
  return known;
}

void TrafficHost::Fill(DeviceAddress address,
                       uint8_t byte,
                       int64_t elements,
                       CuStream stream) const {
  if (elements == 0) return;
  Demand(driver().table().MemsetD8Async(address, byte,
                                        static_cast<size_t>(elements) * sizeof(uint32_t), stream));
}

void TrafficHost::QueueRead(DeviceAddress address,
                            Words expected,
                            CuStream stream,
                            std::string what) {
  const auto n = static_cast<int64_t>(expected.size());
  const Tensor tensor = Tensor::Dense(address, DType::kInt32, {&n, 1});
  QueueRead({.tensor = tensor, .n = n, .own = std::move(expected)}, stream, std::move(what));
}

void TrafficHost::QueueRead(const MadeOutput& output, CuStream stream, std::string what) {
  auto queued = std::make_unique<QueuedRead>();
  queued->what = std::move(what);
  const auto first = output.values().begin();
  queued->expected.assign(first, first + output.rows * output.n);
  queued->read.resize(queued->expected.size());
  const size_t row_words = static_cast<size_t>(output.n);
  for (int64_t row = 0; output.n > 0 && row < output.rows; ++row) {
    const auto rank = static_cast<size_t>(output.tensor.rank);
    const int64_t skip = rank > 1 ? row * output.tensor.strides[rank - 2] * kWordBytes : 0;
    Demand(
        driver().table().MemcpyDtoHAsync(queued->read.data() + static_cast<size_t>(row) * row_words,
                                         output.tensor.data + static_cast<DeviceAddress>(skip),
                                         row_words * sizeof(uint32_t), stream));
  }
  reads_.push_back(std::move(queued));
}

std::string TrafficHost::CheckReads() {
  std::string wrong;
  for (const std::unique_ptr<QueuedRead>& queued : reads_) {
    const auto [expected, read] = std::ranges::mismatch(queued->expected, queued->read);
    if (!wrong.empty() || expected == queued->expected.end()) continue;
    wrong =
        fmt::format("{}: element {} of {} is {:#010x}, not {:#010x}", queued->what,
                    expected - queued->expected.begin(), queued->expected.size(), *read, *expected);
  }
  reads_.clear();
  return wrong;
}

}  // namespace coppice
