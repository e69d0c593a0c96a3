// A small Llama-style decoder as two callable programs, prefill and decode.
//
// The model knows nothing of graphs: each program launches kernels on the stream of its CallContext
// and takes temporaries from it. Keys and values live in a cache that both programs mutate.
//
//   prefill   tokens[length], slot[1]                     -> logits[vocab], next_token[1]
//   decode    tokens[batch], positions[batch], slots[batch] -> logits[batch, vocab],
//                                                              next_tokens[batch]
//
//   token -> embedding -> layers x ( norm, QKV, rotary + cache write, attention, output projection,
//                                    norm, gate and up projection, SiLU-gate, down projection )
//         -> norm -> vocabulary projection -> arg-max
//
// Every kernel reads the real extent from the parameter block and skips the padding, so the live
// results of a row depend neither on the padding nor on the other rows, bit for bit on the host.
//
// Units: sizes count elements, positions count tokens from 0. Threads: immutable once created, so
// its callables may run on several lanes at once; a KvCache slot belongs to one call at a time.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/base/units.h"
#include "coppice/graphs/program.h"
#include "coppice/padding/padding_policy.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

namespace coppice {

struct DecoderConfig {
  int64_t layers = 2;         // In [1, 256].
  int64_t d_model = 64;       // Width of the residual stream; in [1, 65536].
  int64_t heads = 4;          // Query heads; in [1, 256], a multiple of kv_heads.
  int64_t kv_heads = 2;       // In [1, heads].
  int64_t head_dim = 16;      // A multiple of 4, in [4, 256].
  int64_t ffn = 176;          // Width of the gated layer; in [1, 262144].
  int64_t vocab = 512;        // In [2, 1048576].
  double rope_theta = 10000;  // > 0, finite.
  double rms_eps = 1e-5;      // > 0, finite.
  int64_t slots = 16;         // Requests that the KV cache holds; in [1, 4096].
  int64_t max_context = 512;  // Tokens per slot; in [1, 1048576].

  // Elements of one token's keys (or values) in one layer.
  int64_t kv_row() const { return kv_heads * head_dim; }
};

// Errors: kInvalidArgument naming the field, its value and its range.
absl::Status ValidateConfig(const DecoderConfig& config);

// The keys and values of every slot: two float tensors [layers, slots, max_context, kv_row].
// Contents start as zeros.
class KvCache {
 public:
  // Waits for the device. Errors: as ValidateConfig; kResourceExhausted.
  static absl::StatusOr<KvCache> Create(const Driver& driver, const DecoderConfig& config);
  // The same with these sizes of each tensor, whose first three mean the same. Requires: rank >= 3,
  // sizes >= 1 (checked).
  static absl::StatusOr<KvCache> Create(const Driver& driver, std::span<const int64_t> sizes);

  const Tensor& keys() const { return keys_; }
  const Tensor& values() const { return values_; }

  // Elements from the start of keys() or values() to the row of a token; the rows of a slot's
  // later tokens in that layer follow it without gaps. Requires: in range (checked).
  int64_t RowOffset(int64_t layer, int64_t slot, int64_t position) const;

 private:
  KvCache(DeviceMemory memory, const Tensor& keys, const Tensor& values)
      : memory_(std::move(memory)), keys_(keys), values_(values) {}

  DeviceMemory memory_;
  Tensor keys_;
  Tensor values_;
};

class Decoder {
 public:
  struct Options {
    uint64_t seed = 1;  // Draws the weights; equal seeds draw equal weights.
  };

  // Loads the kernels, draws the weights and copies them to the device; waits for the copy.
  // `driver` must outlive the decoder, its context be current on this thread.
  //
  // Errors: kInvalidArgument  as ValidateConfig;
  //         kUnavailable      as KernelLibrary::Load;
  //         kResourceExhausted  the weights do not fit.
  static absl::StatusOr<std::unique_ptr<Decoder>> Create(const Driver& driver,
                                                         const DecoderConfig& config,
                                                         const Options& options);
  ~Decoder();
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // The two programs. Inputs are the copied ones in the order of the picture above (int32), then
  // the static ones in the order of StaticInputs: weights, then "keys" and "values" of the cache,
  // which are marked mutated. Symbol 0 is the one dynamic size. Requires: the prefill policy's
  // maximum <= max_context, the decode policy's <= slots (checked).
  ProgramSpec PrefillSpec(PaddingPolicy policy) const;
  ProgramSpec DecodeSpec(PaddingPolicy policy) const;

  // Writes the keys and values of tokens [0, length) to the slot, then predicts the token after the
  // last. What the slot held beyond them stays.
  // Requires: length >= 1, tokens in [0, vocab), slot in [0, slots): not checked, they are on the
  // device. Errors: kOutOfRange if the padded length exceeds max_context; the context's and the
  // driver's. The callable borrows this decoder.
  Callable PrefillCallable() const;

  // For each row, writes the keys and values of the token at its position to its slot, then
  // predicts the token after it from positions [0, position].
  // Requires: as above, positions in [0, max_context), slots of live rows distinct. Errors: as
  // above, for a padded batch over `slots`.
  Callable DecodeCallable() const;

  // What Session::Bind takes for either program. Borrows the decoder and the cache.
  std::vector<Tensor> StaticInputs(const KvCache& cache) const;

  const DecoderConfig& config() const { return config_; }

 private:
  // Drawn weights on the device, in the order of StaticInputs.
  struct Weights {
    DeviceMemory memory;
    std::vector<std::string> names;
    std::vector<Tensor> tensors;
  };
  struct Kernels {
    Kernel embed, norm, project, rotate, attend, gate, sample;
  };
  class ForwardPass;

  Decoder(const Driver& driver, const DecoderConfig& config, KernelLibrary library, Weights weights)
      : driver_(&driver),
        config_(config),
        library_(std::move(library)),
        weights_(std::move(weights)) {}

  static absl::StatusOr<Weights> CreateWeights(const Driver& driver,
                                               const DecoderConfig& config,
                                               uint64_t seed);
  absl::Status GetKernels();
  void AppendStaticInputs(ProgramSpec& spec) const;

  const Driver* driver_;
  DecoderConfig config_;
  KernelLibrary library_;
  Kernels kernels_;
  Weights weights_;
};

}  // namespace coppice
