// The decoder's host side: configuration, specs and the launches of a forward pass.

#include "tools/model/decoder.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>

#include "coppice/base/check.h"
#include "coppice/base/status.h"

#include "tools/model/decoder_params.h"
#include "tools/model/decoder_weights.h"

namespace coppice {

extern const KernelImage decoder_image;

namespace {

absl::Status CheckRange(const char* field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidArgument("DecoderConfig: {} is {}; it must be in [{}, {}]", field, value, low,
                         high);
}

absl::Status CheckPositive(const char* field, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return InvalidArgument("DecoderConfig: {} is {}; it must be positive and finite", field, value);
}

// Of the keys, or of the values, of a cache.
std::array<int64_t, 4> CacheSizes(const DecoderConfig& config) {
  return {config.layers, config.slots, config.max_context, config.kv_row()};
}

InputSpec CopiedInput(const char* name, Dim dim) {
  return {.name = name, .dtype = DType::kInt32, .dims = {dim}, .fill = Fill::Sentinel()};
}

template <typename T>
T* PointerTo(DeviceAddress address) {
  return std::bit_cast<T*>(address);
}

unsigned GridOf(int64_t items, int64_t per_block = 1) {
  return static_cast<unsigned>(CeilDivide(items, per_block));
}

}  // namespace

absl::Status ValidateConfig(const DecoderConfig& config) {
  COPPICE_RETURN_IF_ERROR(CheckRange("layers", config.layers, 1, 256));
  COPPICE_RETURN_IF_ERROR(CheckRange("d_model", config.d_model, 1, 65536));
  COPPICE_RETURN_IF_ERROR(CheckRange("heads", config.heads, 1, 256));
  COPPICE_RETURN_IF_ERROR(CheckRange("kv_heads", config.kv_heads, 1, config.heads));
  COPPICE_RETURN_IF_ERROR(CheckRange("head_dim", config.head_dim, kQuad, kHeadDimMax));
  COPPICE_RETURN_IF_ERROR(CheckRange("ffn", config.ffn, 1, 262144));
  COPPICE_RETURN_IF_ERROR(CheckRange("vocab", config.vocab, 2, 1048576));
  COPPICE_RETURN_IF_ERROR(CheckRange("slots", config.slots, 1, 4096));
  COPPICE_RETURN_IF_ERROR(CheckRange("max_context", config.max_context, 1, 1048576));
  COPPICE_RETURN_IF_ERROR(CheckPositive("rope_theta", config.rope_theta));
  COPPICE_RETURN_IF_ERROR(CheckPositive("rms_eps", config.rms_eps));
  if (config.heads % config.kv_heads != 0) {
    return InvalidArgument(
        "DecoderConfig: heads is {} and kv_heads is {}; heads must be a multiple of kv_heads",
        config.heads, config.kv_heads);
  }
  if (config.head_dim % kQuad != 0) {
    return InvalidArgument("DecoderConfig: head_dim is {}; it must be a multiple of {}",
                           config.head_dim, kQuad);
  }
  return absl::OkStatus();
}

absl::StatusOr<KvCache> KvCache::Create(const Driver& driver, const DecoderConfig& config) {
  COPPICE_RETURN_IF_ERROR(ValidateConfig(config));
  return Create(driver, CacheSizes(config));
}

absl::StatusOr<KvCache> KvCache::Create(const Driver& driver, std::span<const int64_t> sizes) {
  COPPICE_CHECK(sizes.size() >= 3, "a cache must have layers, slots and positions");
  Tensor keys = Tensor::Dense(0, DType::kFloat32, sizes);
  COPPICE_CHECK(keys.element_count() > 0, "a cache must not be empty");
  const int64_t half = AlignUp(keys.element_count() * SizeOf(DType::kFloat32), kBufferAlignment);
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Create(driver, 2 * half));
  keys.data = memory.address();
  Tensor values = keys;
  values.data += static_cast<DeviceAddress>(half);
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver));
  COPPICE_RETURN_IF_ERROR(
      driver.Call<&DriverTable::MemsetD8Async>(memory.address(), static_cast<unsigned char>(0),
                                               static_cast<size_t>(2 * half), stream.handle()));
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return KvCache(std::move(memory), keys, values);
}

int64_t KvCache::RowOffset(int64_t layer, int64_t slot, int64_t position) const {
  COPPICE_CHECK(layer >= 0 && layer < keys_.sizes[0], "no such layer in the cache");
  COPPICE_CHECK(slot >= 0 && slot < keys_.sizes[1], "no such slot in the cache");
  COPPICE_CHECK(position >= 0 && position < keys_.sizes[2], "position beyond the context");
  return layer * keys_.strides[0] + slot * keys_.strides[1] + position * keys_.strides[2];
}

absl::StatusOr<std::unique_ptr<Decoder>> Decoder::Create(const Driver& driver,
                                                         const DecoderConfig& config,
                                                         const Options& options) {
  COPPICE_RETURN_IF_ERROR(ValidateConfig(config));
  COPPICE_ASSIGN_OR_RETURN(KernelLibrary library, KernelLibrary::Load(driver, decoder_image));
  COPPICE_ASSIGN_OR_RETURN(Weights weights, CreateWeights(driver, config, options.seed));
  std::unique_ptr<Decoder> decoder(
      new Decoder(driver, config, std::move(library), std::move(weights)));
  COPPICE_RETURN_IF_ERROR(decoder->GetKernels());
  return decoder;
}

Decoder::~Decoder() = default;

absl::StatusOr<Decoder::Weights> Decoder::CreateWeights(const Driver& driver,
                                                        const DecoderConfig& config,
                                                        uint64_t seed) {
  const std::vector<Weight> drawn = DrawWeights(config, seed);
  std::vector<std::string> names;
  std::vector<Tensor> tensors;
  int64_t bytes = 0;
  for (const Weight& weight : drawn) {
    names.push_back(weight.name);
    tensors.push_back(
        Tensor::Dense(static_cast<DeviceAddress>(bytes), DType::kFloat32, weight.sizes));
    bytes += AlignUp(tensors.back().element_count() * SizeOf(DType::kFloat32), kBufferAlignment);
  }
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Create(driver, bytes));
  COPPICE_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(driver));
  for (size_t i = 0; i < drawn.size(); ++i) {
    tensors[i].data += memory.address();
    COPPICE_RETURN_IF_ERROR(driver.Call<&DriverTable::MemcpyHtoDAsync>(
        tensors[i].data, static_cast<const void*>(drawn[i].values.data()),
        drawn[i].values.size() * sizeof(float), stream.handle()));
  }
  COPPICE_RETURN_IF_ERROR(stream.Synchronize());
  return Weights{std::move(memory), std::move(names), std::move(tensors)};
}

absl::Status Decoder::GetKernels() {
  const struct {
    Kernel* kernel;
    const char* name;
  } wanted[] = {
      {&kernels_.embed, "Embed"},   {&kernels_.norm, "Norm"},     {&kernels_.project, "Project"},
      {&kernels_.rotate, "Rotate"}, {&kernels_.attend, "Attend"}, {&kernels_.gate, "Gate"},
      {&kernels_.sample, "Sample"},
  };
  for (const auto& [kernel, name] : wanted) {
    COPPICE_ASSIGN_OR_RETURN(*kernel, library_.Get(name));
  }
  return absl::OkStatus();
}

void Decoder::AppendStaticInputs(ProgramSpec& spec) const {
  const auto append = [&spec](const std::string& name, const Tensor& tensor, bool mutated) {
    Dims dims;
    for (int axis = 0; axis < tensor.rank; ++axis)
      dims.push_back(Dim::Fixed(tensor.sizes[static_cast<size_t>(axis)]));
    spec.inputs.push_back(
        {.name = name, .dims = dims, .role = InputRole::kStatic, .mutated = mutated});
  };
  for (size_t i = 0; i < weights_.tensors.size(); ++i)
    append(weights_.names[i], weights_.tensors[i], false);
  const Tensor cache = Tensor::Dense(0, DType::kFloat32, CacheSizes(config_));
  append("keys", cache, true);
  append("values", cache, true);
}

ProgramSpec Decoder::PrefillSpec(PaddingPolicy policy) const {
  COPPICE_CHECK(policy.maximum() <= config_.max_context, "a bucket is longer than the context");
  ProgramSpec spec{.name = "prefill", .claim = PaddingContents::kAny, .one_stream = true};
  const Dim length = Dim::Symbol(spec.AddSymbol("length", std::move(policy)));
  spec.inputs = {CopiedInput("tokens", length), CopiedInput("slot", Dim::Fixed(1))};
  spec.outputs = {{.name = "logits", .dims = {Dim::Fixed(config_.vocab)}},
                  {.name = "next_token", .dtype = DType::kInt32, .dims = {Dim::Fixed(1)}}};
  AppendStaticInputs(spec);
  return spec;
}

ProgramSpec Decoder::DecodeSpec(PaddingPolicy policy) const {
  COPPICE_CHECK(policy.maximum() <= config_.slots, "a bucket is larger than the number of slots");
  ProgramSpec spec{.name = "decode", .claim = PaddingContents::kAny, .one_stream = true};
  const Dim batch = Dim::Symbol(spec.AddSymbol("batch", std::move(policy)));
  spec.inputs = {CopiedInput("tokens", batch), CopiedInput("positions", batch),
                 CopiedInput("slots", batch)};
  spec.outputs = {{.name = "logits", .dims = {batch, Dim::Fixed(config_.vocab)}},
                  {.name = "next_tokens", .dtype = DType::kInt32, .dims = {batch}}};
  AppendStaticInputs(spec);
  return spec;
}

std::vector<Tensor> Decoder::StaticInputs(const KvCache& cache) const {
  std::vector<Tensor> inputs = weights_.tensors;
  inputs.push_back(cache.keys());
  inputs.push_back(cache.values());
  return inputs;
}

// One run of a program: the launches of a forward pass and the temporaries between them, each freed
// as soon as its last reader is launched.
class Decoder::ForwardPass {
 public:
  // The copied inputs that tell the two programs apart.
  struct Rows {
    DeviceAddress positions;  // 0: the rows are one sequence, and only its last row predicts.
    DeviceAddress slots;
    int first_static;  // Index of the first static input.
  };

  ForwardPass(const Decoder& decoder, CallContext& context, const Rows& rows)
      : decoder_(decoder),
        config_(decoder.config_),
        context_(context),
        rows_(rows),
        row_count_(context.extent(0)),
        // Symbol 0 is the first word of the parameter block.
        live_rows_(PointerTo<const int64_t>(context.parameters())) {}

  absl::Status Run() {
    COPPICE_ASSIGN_OR_RETURN(float* x, Allocate("hidden", config_.d_model));
    COPPICE_RETURN_IF_ERROR(Embed(x));
    for (int64_t layer = 0; layer < config_.layers; ++layer) {
      COPPICE_RETURN_IF_ERROR(AddAttention(layer, x));
      COPPICE_RETURN_IF_ERROR(AddFeedForward(layer, x));
    }
    return Predict(x);
  }

 private:
  // A row-major temporary with one row per padded row.
  absl::StatusOr<float*> Allocate(const char* label, int64_t width) {
    return AllocateRows(label, row_count_, width);
  }

  absl::StatusOr<float*> AllocateRows(const char* label, int64_t count, int64_t width) {
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address,
                             context_.Allocate(count * width * SizeOf(DType::kFloat32), label));
    return PointerTo<float>(address);
  }

  absl::Status Free(const float* temporary) {
    return context_.Free(std::bit_cast<DeviceAddress>(temporary));
  }

  const Tensor& static_input(int index) const { return context_.input(rows_.first_static + index); }

  const float* weight(int index) const { return PointerTo<const float>(static_input(index).data); }

  const float* weight(ModelWeight name) const { return weight(WeightIndex(name)); }

  const float* weight(int64_t layer, LayerWeight name) const {
    return weight(WeightIndex(layer, name));
  }

  template <typename Parameters>
  absl::Status Launch(const Kernel& kernel,
                      const Parameters& parameters,
                      unsigned grid_x,
                      unsigned grid_y = 1) {
    return coppice::Launch(context_.driver(), kernel, context_.stream(), parameters,
                           {.grid = {grid_x, grid_y}});
  }

  absl::Status Embed(float* x) {
    const EmbedParams params{.table = weight(ModelWeight::kEmbedding),
                             .tokens = PointerTo<const int32_t>(context_.input(0).data),
                             .x = x,
                             .live_rows = live_rows_,
                             .vocab = config_.vocab,
                             .width = config_.d_model};
    return Launch(decoder_.kernels_.embed, params, GridOf(row_count_));
  }

  absl::Status Norm(const float* x, const float* weight, float* y, bool last_row_only) {
    const NormParams params{.x = x,
                            .weight = weight,
                            .y = y,
                            .live_rows = live_rows_,
                            .row_count = row_count_,
                            .width = config_.d_model,
                            .epsilon = static_cast<float>(config_.rms_eps),
                            .last_row_only = last_row_only ? 1 : 0};
    return Launch(decoder_.kernels_.norm, params, GridOf(last_row_only ? 1 : row_count_));
  }

  // y = x * weight for the first `count` rows, or y += with `accumulate`.
  struct Projection {
    const float* x = nullptr;
    int weight = 0;
    float* y = nullptr;
    int64_t count = 0;
    int64_t width = 0;
    bool accumulate = false;
  };

  absl::Status Project(const Projection& projection) {
    const Tensor& matrix = static_input(projection.weight);
    const ProjectParams params{.x = projection.x,
                               .weight = weight(projection.weight),
                               .y = projection.y,
                               .live_rows = live_rows_,
                               .row_count = projection.count,
                               .depth = matrix.sizes[0],
                               .width = projection.width,
                               .weight_stride = matrix.sizes[1],
                               .accumulate = projection.accumulate ? 1 : 0};
    return Launch(decoder_.kernels_.project, params, GridOf(projection.count, kProjectionRows),
                  GridOf(matrix.sizes[1], kProjectionColumns));
  }

  // A temporary [rows, width] = norm(x) * matrix: how attention and feed-forward both begin.
  absl::StatusOr<float*> NormAndProject(
      const char* label, const float* x, const float* norm, int matrix, int64_t width) {
    COPPICE_ASSIGN_OR_RETURN(float* normed, Allocate("normed", config_.d_model));
    COPPICE_RETURN_IF_ERROR(Norm(x, norm, normed, false));
    COPPICE_ASSIGN_OR_RETURN(float* y, Allocate(label, width));
    COPPICE_RETURN_IF_ERROR(
        Project({.x = normed, .weight = matrix, .y = y, .count = row_count_, .width = width}));
    COPPICE_RETURN_IF_ERROR(Free(normed));
    return y;
  }

  // x += source * matrix: how both end.
  absl::Status AddProjection(const float* source, int matrix, float* x) {
    return Project({.x = source,
                    .weight = matrix,
                    .y = x,
                    .count = row_count_,
                    .width = config_.d_model,
                    .accumulate = true});
  }

  AttentionParams AttentionOf(int64_t layer, float* qkv) const {
    const int cache = static_cast<int>(decoder_.weights_.tensors.size());
    const Tensor& keys = static_input(cache);
    const Tensor& values = static_input(cache + 1);
    return {.qkv = qkv,
            .keys = PointerTo<float>(keys.data) + layer * keys.strides[0],
            .values = PointerTo<float>(values.data) + layer * values.strides[0],
            .positions = PointerTo<const int32_t>(rows_.positions),
            .slots = PointerTo<const int32_t>(rows_.slots),
            .live_rows = live_rows_,
            .slot_count = config_.slots,
            .heads = config_.heads,
            .kv_heads = config_.kv_heads,
            .head_dim = config_.head_dim,
            .max_context = config_.max_context};
  }

  absl::Status AddAttention(int64_t layer, float* x) {
    const int64_t width = config_.heads * config_.head_dim;
    COPPICE_ASSIGN_OR_RETURN(
        float* qkv,
        NormAndProject("qkv", x, weight(layer, LayerWeight::kAttentionNorm),
                       WeightIndex(layer, LayerWeight::kQkv), width + 2 * config_.kv_row()));
    const AttentionParams attention = AttentionOf(layer, qkv);
    const RotateParams rotate{.attention = attention,
                              .cosines = weight(ModelWeight::kCosines),
                              .sines = weight(ModelWeight::kSines)};
    COPPICE_RETURN_IF_ERROR(Launch(decoder_.kernels_.rotate, rotate, GridOf(row_count_)));

    COPPICE_ASSIGN_OR_RETURN(float* attended, Allocate("attended", width));
    const double scale = 1 / std::sqrt(static_cast<double>(config_.head_dim));
    const AttendParams attend{
        .attention = attention, .y = attended, .scale = static_cast<float>(scale)};
    COPPICE_RETURN_IF_ERROR(
        Launch(decoder_.kernels_.attend, attend, GridOf(row_count_), GridOf(config_.heads)));
    COPPICE_RETURN_IF_ERROR(Free(qkv));

    COPPICE_RETURN_IF_ERROR(
        AddProjection(attended, WeightIndex(layer, LayerWeight::kAttentionOut), x));
    return Free(attended);
  }

  absl::Status AddFeedForward(int64_t layer, float* x) {
    COPPICE_ASSIGN_OR_RETURN(
        float* gate_up, NormAndProject("gate_up", x, weight(layer, LayerWeight::kFfnNorm),
                                       WeightIndex(layer, LayerWeight::kGateUp), 2 * config_.ffn));
    COPPICE_ASSIGN_OR_RETURN(float* gated, Allocate("gated", config_.ffn));
    const GateParams gate{
        .gate_up = gate_up, .y = gated, .live_rows = live_rows_, .width = config_.ffn};
    COPPICE_RETURN_IF_ERROR(Launch(decoder_.kernels_.gate, gate, GridOf(row_count_)));
    COPPICE_RETURN_IF_ERROR(Free(gate_up));

    COPPICE_RETURN_IF_ERROR(AddProjection(gated, WeightIndex(layer, LayerWeight::kDown), x));
    return Free(gated);
  }

  // Logits and next tokens of every row, or of the last one. Frees x.
  absl::Status Predict(float* x) {
    const bool last_row_only = rows_.positions == 0;
    const int64_t count = last_row_only ? 1 : row_count_;
    COPPICE_ASSIGN_OR_RETURN(float* normed, AllocateRows("last rows", count, config_.d_model));
    COPPICE_RETURN_IF_ERROR(Norm(x, weight(ModelWeight::kFinalNorm), normed, last_row_only));
    COPPICE_RETURN_IF_ERROR(Free(x));

    COPPICE_ASSIGN_OR_RETURN(const Tensor logits, context_.AllocateOutput(0));
    COPPICE_RETURN_IF_ERROR(Project({.x = normed,
                                     .weight = WeightIndex(ModelWeight::kVocabulary),
                                     .y = PointerTo<float>(logits.data),
                                     .count = count,
                                     .width = config_.vocab}));
    COPPICE_RETURN_IF_ERROR(Free(normed));

    COPPICE_ASSIGN_OR_RETURN(const Tensor tokens, context_.AllocateOutput(1));
    const SampleParams sample{.logits = PointerTo<const float>(logits.data),
                              .tokens = PointerTo<int32_t>(tokens.data),
                              .live_rows = live_rows_,
                              .width = config_.vocab};
    return Launch(decoder_.kernels_.sample, sample, GridOf(count));
  }

  const Decoder& decoder_;
  const DecoderConfig& config_;
  CallContext& context_;
  const Rows rows_;
  const int64_t row_count_;  // Padded.
  const int64_t* live_rows_;
};

Callable Decoder::PrefillCallable() const {
  return [this](CallContext& context) -> absl::Status {
    if (context.extent(0) > config_.max_context) {
      return MakeError(absl::StatusCode::kOutOfRange,
                       "Decoder::Prefill: {} tokens, but a slot holds {}; raise max_context",
                       context.extent(0), config_.max_context);
    }
    return ForwardPass(*this, context,
                       {.positions = 0, .slots = context.input(1).data, .first_static = 2})
        .Run();
  };
}

Callable Decoder::DecodeCallable() const {
  return [this](CallContext& context) -> absl::Status {
    if (context.extent(0) > config_.slots) {
      return MakeError(absl::StatusCode::kOutOfRange,
                       "Decoder::Decode: {} rows, but the cache has {} slots; raise slots",
                       context.extent(0), config_.slots);
    }
    return ForwardPass(*this, context,
                       {.positions = context.input(1).data,
                        .slots = context.input(2).data,
                        .first_static = 3})
        .Run();
  };
}

}  // namespace coppice
