// Each program has one symbol, and takes a step's arrays as they are.

#include "tools/model/served_decoder.h"

#include <algorithm>
#include <cstdint>

#include "coppice/base/status.h"

namespace coppice {
namespace {

StepArray RowOf(const std::vector<int32_t>& values) {
  return {.dims = {static_cast<int64_t>(values.size())}, .values = values};
}

}  // namespace

ModelSizes ServedDecoder::sizes() const {
  const DecoderConfig& config = decoder_->config();
  return {.slots = config.slots,
          .max_context = config.max_context,
          .vocab = config.vocab,
          .array_elements = std::max(config.max_context, config.slots)};
}

std::string ServedDecoder::default_policy(bool prefill) const {
  return prefill ? "geometric:1.25:16" : "ramp:1:4";
}

absl::StatusOr<ServedProgram> ServedDecoder::Register(Session& session,
                                                      bool prefill,
                                                      const PaddingPolicy& policy,
                                                      double observe_half_life) const {
  ProgramSpec spec = prefill ? decoder_->PrefillSpec(policy) : decoder_->DecodeSpec(policy);
  spec.symbols[0].observe_half_life = observe_half_life;
  ServedProgram served{.symbol_name = spec.symbols[0].name, .claimed = EqualityOf(spec)};
  COPPICE_ASSIGN_OR_RETURN(served.program,
                           session.Register(std::move(spec), prefill ? decoder_->PrefillCallable()
                                                                     : decoder_->DecodeCallable()));
  return served;
}

absl::StatusOr<KvCache> ServedDecoder::CreateCache() const {
  return KvCache::Create(driver_, decoder_->config());
}

std::vector<Tensor> ServedDecoder::StaticInputs(const KvCache& cache) const {
  return decoder_->StaticInputs(cache);
}

std::vector<StepArray> ServedDecoder::ArraysOf(const StepInputs& inputs) const {
  // Positions of a prompt start at 0.
  if (inputs.prefill) return {RowOf(inputs.tokens), RowOf(inputs.slots)};
  return {RowOf(inputs.tokens), RowOf(inputs.positions), RowOf(inputs.slots)};
}

std::vector<int64_t> ServedDecoder::BucketOf(bool /*prefill*/, int64_t extent) const {
  return {extent};
}

}  // namespace coppice
