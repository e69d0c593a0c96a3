// The decoder of this folder as a served model.
//
// Threads: as ServedModel.

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tools/model/caching_allocator.h"
#include "tools/model/served_model.h"

namespace coppice {

class ServedDecoder : public ServedModel {
 public:
  // `driver` is the decoder's; it outlives this.
  ServedDecoder(const Driver& driver, std::unique_ptr<const Decoder> decoder)
      : driver_(driver), decoder_(std::move(decoder)) {}

  const Decoder& decoder() const { return *decoder_; }

  ModelSizes sizes() const override;
  std::optional<int64_t> caching_allocator_bytes() const override;
  std::string default_policy(bool prefill) const override;
  absl::StatusOr<ServedProgram> Register(Session& session,
                                         bool prefill,
                                         const PaddingPolicy& policy,
                                         double observe_half_life) const override;
  absl::StatusOr<KvCache> CreateCache() const override;
  std::vector<Tensor> StaticInputs(const KvCache& cache) const override;
  std::vector<StepArray> ArraysOf(const StepInputs& inputs) const override;
  std::vector<int64_t> BucketOf(bool prefill, int64_t extent) const override;

 private:
  // Runs `callable`. What it asks for while it is recorded, `caching_` is asked for too.
  absl::Status RunNoted(Callable& callable, CallContext& context) const;

  const Driver& driver_;
  const std::unique_ptr<const Decoder> decoder_;
  mutable std::mutex mutex_;
  mutable CachingAllocator caching_;  // Under mutex_.
};

}  // namespace coppice
