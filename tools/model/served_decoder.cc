// Each program has one symbol, and takes a step's arrays as they are.

#include "tools/model/served_decoder.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>

#include "coppice/base/status.h"

namespace coppice {
namespace {

StepArray RowOf(const std::vector<int32_t>& values) {
  return {.dims = {static_cast<int64_t>(values.size())}, .values = values};
}

// A run that asks a caching allocator for whatever it asks its session for. What the run does not
// free, such as outputs, the allocator gets back at the end.
class NotedContext final : public CallContext {
 public:
  NotedContext(CallContext& session, CachingAllocator& caching)
      : CallContext(session), session_(session), caching_(caching) {}
  ~NotedContext() override {
    for (const auto& [address, block] : blocks_)
      caching_.Free(block);
  }

  absl::StatusOr<DeviceAddress> Allocate(int64_t bytes, std::string_view label) override {
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address, session_.Allocate(bytes, label));
    blocks_[address] = caching_.Allocate(bytes);
    return address;
  }

  absl::Status Free(DeviceAddress address) override {
    if (const auto block = blocks_.find(address); block != blocks_.end()) {
      caching_.Free(block->second);
      blocks_.erase(block);
    }
    return session_.Free(address);
  }

  absl::StatusOr<Tensor> AllocateOutput(int index) override {
    COPPICE_ASSIGN_OR_RETURN(const Tensor output, session_.AllocateOutput(index));
    blocks_[output.data] =
        caching_.Allocate(std::max<int64_t>(output.span() * SizeOf(output.dtype), 1));
    return output;
  }

  absl::Status AliasOutput(int index, DeviceAddress address) override {
    return session_.AliasOutput(index, address);
  }

  absl::Status Break(EagerStep step) override { return session_.Break(std::move(step)); }

 private:
  CallContext& session_;
  CachingAllocator& caching_;
  std::map<DeviceAddress, int64_t> blocks_;  // Of what is live.
};

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
  COPPICE_ASSIGN_OR_RETURN(
      served.program,
      session.Register(
          std::move(spec),
          [this, callable = prefill ? decoder_->PrefillCallable() : decoder_->DecodeCallable()](
              CallContext& context) mutable { return RunNoted(callable, context); }));
  return served;
}

absl::Status ServedDecoder::RunNoted(Callable& callable, CallContext& context) const {
  if (context.phase() != Phase::kRecord) return callable(context);
  const std::lock_guard lock(mutex_);
  NotedContext noted(context, caching_);
  return callable(noted);
}

std::optional<int64_t> ServedDecoder::caching_allocator_bytes() const {
  const std::lock_guard lock(mutex_);
  return caching_.reserved_bytes();
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
