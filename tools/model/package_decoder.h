// A decoder that comes in a kernel package, as samples/torch_decoder.py exports one.
//
// The package has two programs, whose sizes `batch` and `length` are symbols:
//
//   prefill   tokens[batch, length], lengths[batch], slots[batch], keys, values
//   decode    tokens[batch], positions[batch], slots[batch], keys, values
//
// both with the outputs logits[batch, vocabulary] and next_tokens[batch]. `keys` and `values` are
// static, mutated and of one shape, [layers, slots, positions, ...]; rows of padding go to a slot
// of theirs, the fill of `slots`, and no request owns that or one behind it. Constants that the
// package has no data of are drawn (random_constant.h).
//
// Threads: as ServedModel.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/loaded_package.h"
#include "coppice/runtime/stream.h"

#include "tools/model/served_model.h"

namespace coppice {

class PackageDecoder : public ServedModel {
 public:
  // Opens the package at `path`, checks all of it, loads it and draws its constants; waits for the
  // device. The context's driver outlives the model. On a GPU no PTX is compiled.
  //
  // Errors: kInvalidArgument  a package that is none, or that has no such programs: which place
  //                           differs how; otherwise as Package::Open, LoadedPackage::Load and
  //                           DrawConstant, and the driver's.
  // Its programs replay at exact sizes as `exact` says.
  static absl::StatusOr<std::unique_ptr<PackageDecoder>> Create(
      const Context& context, const std::string& path, ExactReplay exact = ExactReplay::kNever);

  ModelSizes sizes() const override;
  std::map<std::string, int64_t> targets() const override;
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
  // What of a program is its own.
  struct Role {
    int program = -1;
    int batch = -1;              // A symbol, as the next.
    int length = -1;             // -1 in decode.
    std::vector<int32_t> fills;  // Of its copied inputs.
  };

  PackageDecoder(const Driver& driver, ExactReplay exact) : driver_(driver), exact_(exact) {}

  absl::Status FindPrograms(const package::Package& package);
  absl::Status DrawConstants();

  const Role& role(bool prefill) const { return prefill ? prefill_ : decode_; }
  const package::Program& program(bool prefill) const {
    return loaded_->manifest().programs[static_cast<size_t>(role(prefill).program)];
  }
  const package::Symbol& symbol(bool prefill, int index) const {
    return program(prefill).symbols[static_cast<size_t>(index)];
  }
  // The symbol that a policy pads.
  const package::Symbol& padded(bool prefill) const {
    return symbol(prefill, prefill ? prefill_.length : decode_.batch);
  }

  const Driver& driver_;
  const ExactReplay exact_;
  std::unique_ptr<const package::LoadedPackage> loaded_;
  std::vector<DeviceMemory> memory_;  // Of constants.
  std::map<std::string, Tensor> constants_;
  Role prefill_;
  Role decode_;
  std::vector<int64_t> cache_sizes_;
  ModelSizes sizes_;
};

}  // namespace coppice
