// The decoder of this folder as a served model.
//
// Threads: as ServedModel.

#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tools/model/served_model.h"

namespace coppice {

class ServedDecoder : public ServedModel {
 public:
  // `driver` is the decoder's; it outlives this.
  ServedDecoder(const Driver& driver, std::unique_ptr<const Decoder> decoder)
      : driver_(driver), decoder_(std::move(decoder)) {}

  const Decoder& decoder() const { return *decoder_; }

  ModelSizes sizes() const override;
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
  const Driver& driver_;
  const std::unique_ptr<const Decoder> decoder_;
};

}  // namespace coppice
