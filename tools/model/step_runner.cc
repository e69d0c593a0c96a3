// Uploads a step's inputs, runs it, downloads its outputs.

#include "tools/model/step_runner.h"

#include <algorithm>
#include <array>
#include <chrono>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"

namespace coppice {
namespace {

constexpr int kInputArrays = 3;

// Elements of one input array: the longest prompt or the largest batch, and aligned.
int64_t InputCapacity(const DecoderConfig& config) {
  return AlignUp(std::max(config.max_context, config.slots), kBufferAlignment);
}

// Queues a copy of all of `target` from the device.
template <typename T>
absl::Status Download(const Driver& driver,
                      CuStream stream,
                      DeviceAddress source,
                      std::span<T> target) {
  return driver.Call<&DriverTable::MemcpyDtoHAsync>(static_cast<void*>(target.data()), source,
                                                    target.size_bytes(), stream);
}

}  // namespace

StepRunner::StepRunner(const Context& context,
                       const Decoder& decoder,
                       const Options& options,
                       Stream stream,
                       std::pair<KvCache, DeviceMemory> memory)
    : context_(context),
      decoder_(decoder),
      prefill_policy_(options.prefill_policy),
      decode_policy_(options.decode_policy),
      stream_(std::move(stream)),
      cache_(std::move(memory.first)),
      inputs_(std::move(memory.second)),
      input_capacity_(InputCapacity(decoder.config())) {}

absl::StatusOr<std::unique_ptr<StepRunner>> StepRunner::Create(const Context& context,
                                                               const Decoder& decoder,
                                                               const Options& options) {
  const Driver& driver = context.driver();
  const int64_t bytes =
      kInputArrays * InputCapacity(decoder.config()) * static_cast<int64_t>(sizeof(int32_t));
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(KvCache cache, KvCache::Create(driver, decoder.config()));
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory inputs, DeviceMemory::Create(driver, bytes));
  std::unique_ptr<StepRunner> runner(new StepRunner(context, decoder, options, std::move(stream),
                                                    {std::move(cache), std::move(inputs)}));
  COPPICE_ASSIGN_OR_RETURN(runner->session_, Session::Create(context, options.session));
  COPPICE_RETURN_IF_ERROR(runner->Register());
  return runner;
}

absl::Status StepRunner::Register() {
  const auto add = [this](Registered& to, ProgramSpec spec, Callable callable) -> absl::Status {
    to.claimed = EqualityOf(spec);
    COPPICE_ASSIGN_OR_RETURN(to.program, session_->Register(std::move(spec), std::move(callable)));
    return absl::OkStatus();
  };
  COPPICE_RETURN_IF_ERROR(
      add(prefill_, decoder_.PrefillSpec(prefill_policy_), decoder_.PrefillCallable()));
  COPPICE_RETURN_IF_ERROR(
      add(decode_, decoder_.DecodeSpec(decode_policy_), decoder_.DecodeCallable()));
  const std::vector<Tensor> statics = decoder_.StaticInputs(cache_);
  COPPICE_ASSIGN_OR_RETURN(prefill_.binding, session_->Bind(*prefill_.program, statics));
  COPPICE_ASSIGN_OR_RETURN(decode_.binding, session_->Bind(*decode_.program, statics));
  return absl::OkStatus();
}

absl::StatusOr<Tensor> StepRunner::Upload(int place, std::span<const int32_t> values) {
  COPPICE_CHECK(static_cast<int64_t>(values.size()) <= input_capacity_,
                "a step is larger than the model's maximum");
  const DeviceAddress address =
      inputs_.address() + static_cast<DeviceAddress>(place * input_capacity_) * sizeof(int32_t);
  COPPICE_RETURN_IF_ERROR(context_.driver().Call<&DriverTable::MemcpyHtoDAsync>(
      address, static_cast<const void*>(values.data()), values.size_bytes(), stream_.handle()));
  const std::array<int64_t, 1> dims = {static_cast<int64_t>(values.size())};
  return Tensor::Dense(address, DType::kInt32, dims);
}

absl::Status StepRunner::Run(const StepInputs& inputs,
                             Poison poison,
                             bool want_logits,
                             StepResult& result) {
  absl::InlinedVector<Tensor, kInputArrays> tensors;
  const std::array<std::span<const int32_t>, kInputArrays> arrays = {
      inputs.tokens, inputs.positions, inputs.slots};
  for (int i = 0; i < kInputArrays; ++i) {
    if (inputs.prefill && i == 1) continue;  // Positions of a prompt start at 0.
    COPPICE_ASSIGN_OR_RETURN(Tensor tensor, Upload(i, arrays[static_cast<size_t>(i)]));
    tensors.push_back(tensor);
  }
  const Call call{.program = registered(inputs.prefill).program,
                  .binding = registered(inputs.prefill).binding,
                  .inputs = tensors,
                  .scalars = {},
                  .stream = stream_.handle(),
                  .poison = poison};
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Lease> lease = session_->Run(call);
  const auto end = std::chrono::steady_clock::now();
  if (!lease.ok()) {
    // The uploads still read the caller's arrays; the first error is the one to tell.
    (void)stream_.Synchronize().ok();
    return lease.status();
  }

  result.path = lease->kind();
  result.host_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  result.next_tokens.resize(inputs.slots.size());
  return Read(*lease, want_logits, result);
}

absl::Status StepRunner::Read(const Lease& lease, bool want_logits, StepResult& result) {
  const Driver& driver = context_.driver();
  const size_t vocab = static_cast<size_t>(decoder_.config().vocab);
  result.logits.resize(want_logits ? result.next_tokens.size() * vocab : 0);
  COPPICE_ASSIGN_OR_RETURN(ReadScope scope, lease.Read(stream_.handle()));
  if (want_logits) {
    COPPICE_RETURN_IF_ERROR(
        Download(driver, stream_.handle(), scope.output(0).data, std::span(result.logits)));
  }
  COPPICE_RETURN_IF_ERROR(
      Download(driver, stream_.handle(), scope.output(1).data, std::span(result.next_tokens)));
  return stream_.Synchronize();
}

absl::Status StepRunner::Warm(bool prefill, int64_t bucket, const StepRunner& scratch) {
  const Registered& target = registered(prefill);
  COPPICE_ASSIGN_OR_RETURN(const Binding* spare,
                           session_->Bind(*target.program, decoder_.StaticInputs(scratch.cache_)));
  const std::vector<std::vector<int64_t>> buckets = {{bucket}};
  WarmOptions options;
  options.scratch = spare;
  return session_->Warm(*target.program, target.binding, buckets, /*scalars=*/{}, options);
}

absl::Status StepRunner::ReadCache(bool keys,
                                   int64_t slot,
                                   int64_t length,
                                   std::vector<float>& rows) const {
  const DecoderConfig& config = decoder_.config();
  const Tensor& tensor = keys ? cache_.keys() : cache_.values();
  const size_t layer_floats = static_cast<size_t>(length * config.kv_row());
  rows.resize(static_cast<size_t>(config.layers) * layer_floats);
  for (int64_t layer = 0; layer < config.layers; ++layer) {
    const DeviceAddress source =
        tensor.data + static_cast<DeviceAddress>(cache_.RowOffset(layer, slot, 0)) * sizeof(float);
    COPPICE_RETURN_IF_ERROR(
        Download(context_.driver(), stream_.handle(), source,
                 std::span(rows).subspan(static_cast<size_t>(layer) * layer_floats, layer_floats)));
  }
  return stream_.Synchronize();
}

}  // namespace coppice
