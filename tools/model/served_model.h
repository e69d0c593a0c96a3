// A decoder as a server with continuous batching sees it: prefill and decode over a cache.
//
//   prefill   the tokens of a prompt, its slot         -> logits, next token
//   decode    a token, its position and slot per row   -> logits, next tokens
//
// Who serves (tools/run) makes steps of requests; the model says which programs run them, and which
// tensors these take. ServedDecoder is the model of this folder, PackageDecoder one that comes in a
// kernel package.
//
// Units: tokens, elements. Threads: immutable, so any; a slot of a cache belongs to one call at a
// time.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/padding_claim.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/session.h"
#include "coppice/padding/padding_policy.h"

#include "tools/model/decoder.h"

namespace coppice {

// One step. A prefill has one slot and no positions.
struct StepInputs {
  bool prefill = false;
  std::vector<int32_t> tokens;
  std::vector<int32_t> positions;
  std::vector<int32_t> slots;
};

// A dense tensor of int32 on the host.
struct StepArray {
  std::vector<int64_t> dims;
  std::vector<int32_t> values;
};

struct ModelSizes {
  int64_t slots = 1;           // Requests that run at once.
  int64_t max_context = 1;     // Tokens that a slot holds.
  int64_t vocab = 1;           // Logits of a row.
  int64_t array_elements = 1;  // The most that one StepArray has.
};

// A program of the model in a session.
struct ServedProgram {
  const Program* program = nullptr;
  int symbol = 0;  // The one that is padded: the length of a prompt, or the batch.
  std::string symbol_name;
  Equality claimed;  // How equal its live outputs are in a bucket.
};

class ServedModel {
 public:
  ServedModel() = default;
  virtual ~ServedModel() = default;
  ServedModel(const ServedModel&) = delete;
  ServedModel& operator=(const ServedModel&) = delete;

  virtual ModelSizes sizes() const = 0;
  // How many kernels run from which code, of a model that comes with several: {"sm_80 ptx": 49}.
  virtual std::map<std::string, int64_t> targets() const { return {}; }
  // What a caching allocator reserves for the graphs recorded so far, in one pool that they share,
  // in bytes; none where a model cannot tell.
  virtual std::optional<int64_t> caching_allocator_bytes() const { return std::nullopt; }
  // Of a program, if nobody says another; as PaddingPolicy::Parse reads it.
  virtual std::string default_policy(bool prefill) const = 0;

  // Registers prefill or decode, whose prompts or batches are padded by `policy` and, unless the
  // half-life is 0, observed (SymbolSpec::observe_half_life). The model must outlive the session.
  // Requires: the policy's maximum <= max_context, or slots. Errors: as Session::Register.
  virtual absl::StatusOr<ServedProgram> Register(Session& session,
                                                 bool prefill,
                                                 const PaddingPolicy& policy,
                                                 double observe_half_life) const = 0;

  // Zeros, for one session. Errors: as KvCache::Create.
  virtual absl::StatusOr<KvCache> CreateCache() const = 0;
  // What Session::Bind takes for either program.
  virtual std::vector<Tensor> StaticInputs(const KvCache& cache) const = 0;

  // What a call copies, in the order of the program's inputs. Rows, or tokens, that the program
  // needs beyond those of the step come behind them. Requires: as many tokens and rows as sizes().
  virtual std::vector<StepArray> ArraysOf(const StepInputs& inputs) const = 0;

  // The padded extent of each symbol, where prompts or batches are padded to `extent`.
  virtual std::vector<int64_t> BucketOf(bool prefill, int64_t extent) const = 0;
};

}  // namespace coppice
