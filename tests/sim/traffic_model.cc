// The caller's memory, and reads of outputs.

#include "tests/sim/traffic_model.h"

#include "coppice/base/check.h"

#include "tests/sim/traffic_kernels.h"
#include "tests/sim/traffic_script.h"

namespace coppice {
Tensor DenseTensorOf(const TrafficProgram& program, DType dtype, DeviceAddress data, int64_t n) {
  const int64_t dims[] = {1, 1, 1, 1, 1, 1, program.rows, n};
  const size_t rank = std::max<size_t>(static_cast<size_t>(program.rank), program.rows > 1 ? 2 : 1);
  return Tensor::Dense(data, dtype, std::span(dims).last(rank));
}

int64_t LengthOf(const TrafficProgram& program, int index, const TrafficExtents& extents) {
  if (program.static_output(index)) return kStaticElements;
  if (program.is_count(index)) return 1;
  return LengthOf(index == 0 ? TrafficProgram::Length::kN : program.output_1, extents);
}

Tensor DenseOf(const TrafficProgram& program,
               int index,
               DeviceAddress data,
               const TrafficExtents& extents) {
  const int64_t n = LengthOf(program, index, extents);
  const DType dtype = program.DTypeOfOutput(index);
  if (!program.fixed_output(index)) return DenseTensorOf(program, dtype, data, n);
  return Tensor::Dense(data, dtype, {&n, program.is_count(index) ? program.count_rank() : 1});
}

Bytes ReadBy(const Tensor& tensor, int64_t rows, const Bytes& values, int64_t offset_bytes) {
  const auto last = static_cast<size_t>(tensor.rank) - 1;
  const int64_t bytes = SizeOf(tensor.dtype);
  Bytes read;
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < tensor.sizes[last]; ++i) {
      const int64_t along_rows = rows > 1 ? row * tensor.strides[last - 1] : 0;
      const int64_t element = along_rows + i * tensor.strides[last];
      const auto begin = values.begin() + offset_bytes + element * bytes;
      read.insert(read.end(), begin, begin + bytes);
    }
  }
  return read;
}

std::vector<Tensor> StaticSet::Tensors(const TrafficProgram& program) const {
  const int64_t dims[] = {kStaticElements};
  const DType dtype = program.DTypeOf(TrafficBuffer::kStatic);
  std::vector<Tensor> tensors = {Tensor::Dense(input->start, dtype, dims)};
  if (output != nullptr) tensors.push_back(Tensor::Dense(output->start, dtype, dims));
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
    inputs_.push_back(Make((kSkipMax + 2 * kRowsMax * kExtentMax) * kElementBytesMax));
    mutable_inputs_.push_back(Make((kSkipMax + kExtentMax) * kElementBytesMax));
  }
  for (int64_t i = 0; i < 2 * kTrafficBuffers; ++i)
    targets_.push_back(Make(kRowsMax * kExtentMax * kElementBytesMax));
  for (int64_t i = 0; i < kTrafficCounts; ++i) {
    const int64_t value = count_value(i);
    counts_.push_back(i % 2 == 0
                          ? *device_.Upload(std::vector<int64_t>{value})
                          : *device_.Upload(std::vector<int32_t>{static_cast<int32_t>(value)}));
  }
}

Tensor TrafficHost::count(int64_t index) const {
  return {.data = counts_[static_cast<size_t>(index)].address(),
          .dtype = index % 2 == 0 ? DType::kInt64 : DType::kInt32};
}

CuStream TrafficHost::stream(int64_t index) const {
  return streams_[static_cast<size_t>(index % kTrafficStreams)].handle();
}

StaticSet TrafficHost::MakeStatics(const TrafficProgram& program, int64_t set) {
  // A misaligned input has to be copied, which one that is mutated cannot be.
  const bool mutated = program.statics == TrafficProgram::Static::kMutated;
  const int64_t bytes = SizeOf(program.DTypeOf(TrafficBuffer::kStatic));
  StaticSet made;
  made.input = Make(kStaticElements * bytes, set == kTrafficStatics - 1 && !mutated ? bytes : 0);
  if (program.statics == TrafficProgram::Static::kOutput)
    made.output = Make(kStaticElements * bytes);
  return made;
}

std::unique_ptr<CallerBuffer> TrafficHost::Make(int64_t bytes, int64_t skew_bytes) {
  Bytes values(static_cast<size_t>(skew_bytes + bytes));
  for (uint8_t& value : values)
    value = static_cast<uint8_t>(MixWord(next_value_++, 0, 0));
  auto buffer = std::make_unique<CallerBuffer>(CallerBuffer{.memory = *device_.Upload(values)});
  buffer->start = buffer->memory.address() + static_cast<DeviceAddress>(skew_bytes);
  buffer->values.assign(values.begin() + skew_bytes, values.end());
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

Bytes TrafficHost::Download(const CallerBuffer& buffer) const {
  Bytes values(buffer.values.size());
  Demand(driver().table().MemcpyDtoHAsync(values.data(), buffer.start, values.size(), stream(0)));
  SynchronizeStream(stream(0));
  return values;
}

bool TrafficHost::Adopt(CallerBuffer& buffer, const Bytes& values, int64_t offset_bytes) const {
  Bytes done = buffer.values;
  std::ranges::copy(values, done.begin() + offset_bytes);
  Bytes found = Download(buffer);
  const bool known = found == done || found == buffer.values;
  buffer.values = std::move(found);
  return known;
}

void TrafficHost::Fill(DeviceAddress address, uint8_t byte, int64_t bytes, CuStream stream) const {
  if (bytes == 0) return;
  Demand(driver().table().MemsetD8Async(address, byte, static_cast<size_t>(bytes), stream));
}

void TrafficHost::QueueRead(DeviceAddress address,
                            Bytes expected,
                            CuStream stream,
                            std::string what) {
  const auto n = static_cast<int64_t>(expected.size());
  const Tensor tensor = Tensor::Dense(address, DType::kUInt8, {&n, 1});
  QueueRead({.tensor = tensor, .n = n, .known = n, .own = std::move(expected)}, stream,
            std::move(what));
}

void TrafficHost::QueueRead(const MadeOutput& output, CuStream stream, std::string what) {
  auto queued = std::make_unique<QueuedRead>();
  queued->what = std::move(what);
  const auto first = output.values().begin();
  const int64_t row_bytes = output.row_bytes();
  const int64_t known_bytes = output.known * SizeOf(output.tensor.dtype);
  for (int64_t row = 0; row < output.rows; ++row) {
    const auto begin = first + row * row_bytes;
    queued->expected.insert(queued->expected.end(), begin, begin + known_bytes);
  }
  queued->read.resize(queued->expected.size());
  for (int64_t row = 0; output.known > 0 && row < output.rows; ++row) {
    const auto rank = static_cast<size_t>(output.tensor.rank);
    const int64_t skip = rank > 1 ? row * output.tensor.strides[rank - 2] : 0;
    const int64_t skip_bytes = skip * SizeOf(output.tensor.dtype);
    Demand(driver().table().MemcpyDtoHAsync(
        queued->read.data() + row * known_bytes,
        output.tensor.data + static_cast<DeviceAddress>(skip_bytes),
        static_cast<size_t>(known_bytes), stream));
  }
  reads_.push_back(std::move(queued));
}

std::string TrafficHost::CheckReads() {
  std::string wrong;
  for (const std::unique_ptr<QueuedRead>& queued : reads_) {
    const auto [expected, read] = std::ranges::mismatch(queued->expected, queued->read);
    if (!wrong.empty() || expected == queued->expected.end()) continue;
    wrong =
        fmt::format("{}: byte {} of {} is {:#04x}, not {:#04x}", queued->what,
                    expected - queued->expected.begin(), queued->expected.size(), *read, *expected);
  }
  reads_.clear();
  return wrong;
}

}  // namespace coppice
