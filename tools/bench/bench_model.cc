// Opens a device, puts a decoder on it, and keeps the inputs of every batch size ready.

#include "tools/bench/bench_model.h"

#include <algorithm>
#include <array>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/units.h"

namespace coppice {
namespace {

constexpr int kRowArrays = 3;  // Tokens, positions, slots.
constexpr int64_t kBatchMax = 512;
constexpr int64_t kBatchStep = 8;
constexpr int64_t kPosition = 64;
constexpr int64_t kTokenStride = 7919;  // A prime, so that neighbours differ.

constexpr DecoderConfig kSmallConfig{.layers = 8,
                                     .d_model = 1024,
                                     .heads = 16,
                                     .kv_heads = 8,
                                     .head_dim = 64,
                                     .ffn = 2816,
                                     .vocab = 32000,
                                     .slots = kBatchMax,
                                     .max_context = 256};

constexpr DecoderConfig kRunConfig{.slots = kBatchMax};

constexpr DecoderConfig kTinyConfig{.layers = 1,
                                    .d_model = 8,
                                    .heads = 2,
                                    .kv_heads = 1,
                                    .head_dim = 4,
                                    .ffn = 16,
                                    .vocab = 32,
                                    .slots = kBatchMax,
                                    .max_context = 4};

}  // namespace

nlohmann::ordered_json ToJson(const DecoderConfig& config) {
  return {{"layers", config.layers},
          {"d_model", config.d_model},
          {"heads", config.heads},
          {"kv_heads", config.kv_heads},
          {"head_dim", config.head_dim},
          {"ffn", config.ffn},
          {"vocab", config.vocab},
          {"slots", config.slots},
          {"max_context", config.max_context},
          {"rope_theta", config.rope_theta},
          {"rms_eps", config.rms_eps}};
}

absl::StatusOr<std::unique_ptr<BenchModel>> BenchModel::Open(ModelSize on_device,
                                                             DeviceChoice device) {
  COPPICE_ASSIGN_OR_RETURN(ChosenDriver chosen, ChosenDriver::Open(device, /*seed=*/1));
  COPPICE_ASSIGN_OR_RETURN(PaddingPolicy batches, PaddingPolicy::Ramp(1, kBatchStep, kBatchMax));
  std::unique_ptr<BenchModel> model(new BenchModel(std::move(chosen), std::move(batches)));
  COPPICE_RETURN_IF_ERROR(model->Build(on_device));
  return model;
}

absl::Status BenchModel::Build(ModelSize on_device) {
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(driver()));
  context_.emplace(std::move(context));
  COPPICE_ASSIGN_OR_RETURN(Stream stream, Stream::Create(driver()));
  stream_.emplace(std::move(stream));
  const DecoderConfig config = !chosen_.is_cuda()               ? kTinyConfig
                               : on_device == ModelSize::kSmall ? kSmallConfig
                                                                : kRunConfig;
  COPPICE_ASSIGN_OR_RETURN(decoder_, Decoder::Create(driver(), config, {.seed = 1}));
  COPPICE_ASSIGN_OR_RETURN(KvCache cache, KvCache::Create(driver(), config));
  cache_.emplace(std::move(cache));
  return UploadRows();
}

absl::Status BenchModel::UploadRows() {
  const int64_t slots = config().slots;
  const int64_t pitch = AlignUp(slots, kBufferAlignment);
  std::vector<int32_t> rows(static_cast<size_t>(kRowArrays * pitch));
  for (int64_t row = 0; row < slots; ++row) {
    const auto i = static_cast<size_t>(row);
    rows[i] = static_cast<int32_t>((row * kTokenStride + 1) % config().vocab);
    rows[i + static_cast<size_t>(pitch)] = position();
    rows[i + static_cast<size_t>(2 * pitch)] = static_cast<int32_t>(row);
  }
  const auto bytes = rows.size() * sizeof(int32_t);
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory memory,
                           DeviceMemory::Create(driver(), static_cast<int64_t>(bytes)));
  COPPICE_RETURN_IF_ERROR(driver().Call<&DriverTable::MemcpyHtoDAsync>(
      memory.address(), static_cast<const void*>(rows.data()), bytes, stream_->handle()));
  COPPICE_RETURN_IF_ERROR(stream_->Synchronize());
  for (int64_t batch = 1; batch <= slots; ++batch) {
    for (int64_t array = 0; array < kRowArrays; ++array) {
      const auto offset = static_cast<DeviceAddress>(array * pitch) * sizeof(int32_t);
      inputs_.push_back(Tensor::Dense(memory.address() + offset, DType::kInt32, {&batch, 1}));
    }
  }
  rows_.emplace(std::move(memory));
  return absl::OkStatus();
}

std::string BenchModel::DeviceName() const {
  std::string name = context_->DeviceName();
  return name.empty() ? kind() : name;
}

std::string BenchModel::Title() const {
  const DecoderConfig& sizes = config();
  return fmt::format(
      "  device  {}: {}\n"
      "  model   layers {}, width {}, heads {} x {} ({} for keys), feed-forward {}, "
      "vocabulary {}\n",
      kind(), DeviceName(), sizes.layers, sizes.d_model, sizes.heads, sizes.head_dim,
      sizes.kv_heads, sizes.ffn, sizes.vocab);
}

int32_t BenchModel::position() const {
  return static_cast<int32_t>(std::min(kPosition, config().max_context / 2));
}

std::span<const Tensor> BenchModel::Inputs(int64_t batch) const {
  COPPICE_CHECK(batch >= 1 && batch <= config().slots, "no such batch size");
  return std::span(inputs_).subspan(static_cast<size_t>((batch - 1) * kRowArrays), kRowArrays);
}

absl::StatusOr<int64_t> BenchModel::FreeBytes() const {
  size_t free = 0;
  size_t total = 0;
  COPPICE_RETURN_IF_ERROR(driver().Call<&DriverTable::MemGetInfo>(&free, &total));
  return static_cast<int64_t>(free);
}

absl::StatusOr<std::unique_ptr<DecodeSession>> DecodeSession::Create(
    const BenchModel& model, const SessionOptions& options) {
  std::unique_ptr<DecodeSession> decode(new DecodeSession(model));
  COPPICE_ASSIGN_OR_RETURN(decode->session_, Session::Create(model.context(), options));
  COPPICE_ASSIGN_OR_RETURN(decode->program_,
                           decode->session_->Register(model.decoder().DecodeSpec(model.batches()),
                                                      model.decoder().DecodeCallable()));
  COPPICE_ASSIGN_OR_RETURN(
      decode->binding_,
      decode->session_->Bind(*decode->program_, model.decoder().StaticInputs(model.cache())));
  return decode;
}

Call DecodeSession::CallOf(int64_t batch, OutputMode output_mode) const {
  Call call;
  call.program = program_;
  call.binding = binding_;
  call.inputs = model_.Inputs(batch);
  call.stream = model_.stream().handle();
  call.output_mode = output_mode;
  return call;
}

absl::StatusOr<Lease> DecodeSession::RunExpecting(RunKind path,
                                                  int64_t batch,
                                                  OutputMode output_mode) const {
  COPPICE_ASSIGN_OR_RETURN(Lease lease, Run(batch, output_mode));
  if (lease.kind() == path) return lease;
  return MakeError(absl::StatusCode::kInternal,
                   "DecodeSession: a step of batch {} took the path {} (reason: {}) instead of the "
                   "path {}; its figures would mislead",
                   batch, NameOf(lease.kind()), NameOf(lease.reason()), NameOf(path));
}

absl::Status DecodeSession::Warm(std::span<const int64_t> batches, const KvCache& scratch) const {
  WarmOptions options;
  COPPICE_ASSIGN_OR_RETURN(options.scratch,
                           session_->Bind(*program_, model_.decoder().StaticInputs(scratch)));
  std::vector<std::vector<int64_t>> buckets;
  for (const int64_t batch : batches)
    buckets.push_back({batch});
  return session_->warming().Warm(*program_, binding_, buckets, /*scalars=*/{}, options);
}

absl::StatusOr<std::vector<int32_t>> DecodeSession::ReadTokens(const Lease& lease) const {
  const CuStream stream = model_.stream().handle();
  COPPICE_ASSIGN_OR_RETURN(const ReadScope scope, lease.Read(stream));
  const Tensor next = scope.output(1);
  std::vector<int32_t> tokens(static_cast<size_t>(next.element_count()));
  COPPICE_RETURN_IF_ERROR(model_.driver().Call<&DriverTable::MemcpyDtoHAsync>(
      static_cast<void*>(tokens.data()), next.data, tokens.size() * sizeof(int32_t), stream));
  COPPICE_RETURN_IF_ERROR(model_.stream().Synchronize());
  return tokens;
}

absl::StatusOr<std::map<int64_t, std::vector<int32_t>>> EagerTokens(
    const BenchModel& model, std::span<const int64_t> batches) {
  COPPICE_ASSIGN_OR_RETURN(const std::unique_ptr<DecodeSession> decode,
                           DecodeSession::Create(model, {.stance = Stance::kEager}));
  std::map<int64_t, std::vector<int32_t>> tokens;
  for (const int64_t batch : batches) {
    COPPICE_ASSIGN_OR_RETURN(const Lease lease, decode->RunExpecting(RunKind::kEager, batch));
    COPPICE_ASSIGN_OR_RETURN(tokens[batch], decode->ReadTokens(lease));
  }
  return tokens;
}

}  // namespace coppice
