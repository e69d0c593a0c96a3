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

constexpr int kStepArraysMax = 3;

// Elements of the place of one array, aligned.
int64_t InputCapacity(const ServedModel& model) {
  return AlignUp(model.sizes().array_elements, kBufferAlignment);
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
                       const ServedModel& model,
                       const Options& options,
                       Stream stream,
                       std::pair<KvCache, DeviceMemory> memory)
    : context_(context),
      model_(model),
      ledger_(options.ledger),
      sizes_(model.sizes()),
      prefill_policy_(options.prefill_policy),
      decode_policy_(options.decode_policy),
      stream_(std::move(stream)),
      cache_(std::move(memory.first)),
      inputs_(std::move(memory.second)),
      input_capacity_(InputCapacity(model)) {}

absl::StatusOr<std::unique_ptr<StepRunner>> StepRunner::Create(const Context& context,
                                                               const ServedModel& model,
                                                               const Options& options) {
  const Driver& driver = context.driver();
  const int64_t bytes =
      kStepArraysMax * InputCapacity(model) * static_cast<int64_t>(sizeof(int32_t));
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver));
  COPPICE_ASSIGN_OR_RETURN(KvCache cache, model.CreateCache());
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory inputs, DeviceMemory::Create(driver, bytes));
  std::unique_ptr<StepRunner> runner(new StepRunner(context, model, options, std::move(stream),
                                                    {std::move(cache), std::move(inputs)}));
  COPPICE_ASSIGN_OR_RETURN(runner->session_, Session::Create(context, options.session));
  if (options.observe_half_life > 0) {
    COPPICE_ASSIGN_OR_RETURN(KvCache spare, model.CreateCache());
    runner->spare_cache_.emplace(std::move(spare));
  }
  COPPICE_RETURN_IF_ERROR(runner->Register(options.observe_half_life));
  return runner;
}

absl::Status StepRunner::Register(double observe_half_life) {
  const std::vector<Tensor> statics = model_.StaticInputs(cache_);
  for (const bool prefill : {true, false}) {
    Registered& to = prefill ? prefill_ : decode_;
    const double half_life = policy(prefill).is_exact() ? 0 : observe_half_life;
    COPPICE_ASSIGN_OR_RETURN(to.served,
                             model_.Register(*session_, prefill, policy(prefill), half_life));
    COPPICE_ASSIGN_OR_RETURN(to.binding, session_->Bind(*to.served.program, statics));
    if (!spare_cache_) continue;
    COPPICE_ASSIGN_OR_RETURN(
        to.spare, session_->Bind(*to.served.program, model_.StaticInputs(*spare_cache_)));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> StepRunner::Upload(int place, const StepArray& array) {
  COPPICE_CHECK(static_cast<int64_t>(array.values.size()) <= input_capacity_,
                "a step is larger than the model's maximum");
  const DeviceAddress address =
      inputs_.address() + static_cast<DeviceAddress>(place * input_capacity_) * sizeof(int32_t);
  const std::span<const int32_t> values = array.values;
  COPPICE_RETURN_IF_ERROR(context_.driver().Call<&DriverTable::MemcpyHtoDAsync>(
      address, static_cast<const void*>(values.data()), values.size_bytes(), stream_.handle()));
  return Tensor::Dense(address, DType::kInt32, array.dims);
}

absl::Status StepRunner::Run(const StepInputs& inputs,
                             Poison poison,
                             bool want_logits,
                             StepResult& result) {
  const std::vector<StepArray> arrays = model_.ArraysOf(inputs);
  COPPICE_CHECK(arrays.size() <= kStepArraysMax, "the model has too many inputs");
  absl::InlinedVector<Tensor, kStepArraysMax> tensors;
  for (const StepArray& array : arrays) {
    COPPICE_ASSIGN_OR_RETURN(Tensor tensor, Upload(static_cast<int>(tensors.size()), array));
    tensors.push_back(tensor);
  }
  const Call call{.program = registered(inputs.prefill).served.program,
                  .binding = registered(inputs.prefill).binding,
                  .inputs = tensors,
                  .scalars = {},
                  .stream = stream_.handle(),
                  .poison = poison};
  const int64_t driver_ns_before = driver_ns();
  const auto start = std::chrono::steady_clock::now();
  absl::StatusOr<Lease> lease = session_->Run(call);
  const auto end = std::chrono::steady_clock::now();
  if (!lease.ok()) {
    // The uploads still read the arrays; the first error is the one to tell.
    (void)stream_.Synchronize().ok();
    return lease.status();
  }

  result.path = lease->kind();
  result.host_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count();
  result.driver_ns = driver_ns() - driver_ns_before;
  result.next_tokens.resize(inputs.slots.size());
  return Read(*lease, want_logits, result);
}

absl::Status StepRunner::Read(const Lease& lease, bool want_logits, StepResult& result) {
  const Driver& driver = context_.driver();
  const size_t vocab = static_cast<size_t>(sizes_.vocab);
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
  COPPICE_ASSIGN_OR_RETURN(
      const Binding* spare,
      session_->Bind(*target.served.program, model_.StaticInputs(scratch.cache_)));
  const std::vector<std::vector<int64_t>> buckets = {model_.BucketOf(prefill, bucket)};
  WarmOptions options;
  options.scratch = spare;
  return session_->warming().Warm(*target.served.program, target.binding, buckets, /*scalars=*/{},
                                  options);
}

absl::StatusOr<RebucketReport> StepRunner::Rebucket(bool prefill, int64_t now_ns) {
  const Registered& target = registered(prefill);
  PaddingPolicy& policy = prefill ? prefill_policy_ : decode_policy_;
  COPPICE_CHECK(target.spare != nullptr && !policy.is_exact(),
                "only padded programs with a spare binding can be rebucketed");
  // Whoever calls counts steps, and has decided that it is time.
  COPPICE_ASSIGN_OR_RETURN(RebucketReport report, session_->policies().Rebucket(
                                                      *target.served.program, target.served.symbol,
                                                      {.period = 0,
                                                       .now_ns = [now_ns] { return now_ns; },
                                                       .binding = target.binding,
                                                       .scratch = target.spare}));
  if (report.outcome == Rebucketed::kSwapped) {
    COPPICE_ASSIGN_OR_RETURN(
        policy, session_->policies().GetPolicy(*target.served.program, target.served.symbol));
  }
  return report;
}

size_t StepRunner::LayerFloats(int64_t length) const {
  return static_cast<size_t>(length * cache_.keys().strides[2]);
}

DeviceAddress StepRunner::CacheRows(bool keys, int64_t layer, int64_t slot) const {
  const Tensor& tensor = keys ? cache_.keys() : cache_.values();
  return tensor.data + static_cast<DeviceAddress>(cache_.RowOffset(layer, slot, 0)) * sizeof(float);
}

absl::Status StepRunner::ReadCache(bool keys,
                                   int64_t slot,
                                   int64_t length,
                                   std::vector<float>& rows) const {
  const size_t floats = LayerFloats(length);
  const int64_t layers = cache_.keys().sizes[0];
  rows.resize(static_cast<size_t>(layers) * floats);
  for (int64_t layer = 0; layer < layers; ++layer) {
    COPPICE_RETURN_IF_ERROR(
        Download(context_.driver(), stream_.handle(), CacheRows(keys, layer, slot),
                 std::span(rows).subspan(static_cast<size_t>(layer) * floats, floats)));
  }
  return stream_.Synchronize();
}

absl::Status StepRunner::WriteCache(bool keys,
                                    int64_t slot,
                                    int64_t length,
                                    std::span<const float> rows) {
  const size_t floats = LayerFloats(length);
  const int64_t layers = cache_.keys().sizes[0];
  COPPICE_CHECK(rows.size() == static_cast<size_t>(layers) * floats, "rows of another length");
  for (int64_t layer = 0; layer < layers; ++layer) {
    const std::span<const float> source = rows.subspan(static_cast<size_t>(layer) * floats, floats);
    COPPICE_RETURN_IF_ERROR(context_.driver().Call<&DriverTable::MemcpyHtoDAsync>(
        CacheRows(keys, layer, slot), static_cast<const void*>(source.data()), source.size_bytes(),
        stream_.handle()));
  }
  return stream_.Synchronize();
}

}  // namespace coppice
