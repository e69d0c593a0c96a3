// A decoder on the test device, and a context that runs its callables without a session.
//
// The context poisons every temporary and output, and unmaps a temporary as soon as it is freed, so
// that a kernel which reads what it must not is found out.
//
// Units: sizes count elements. Threads: one at a time.

#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "coppice/base/status.h"
#include "coppice/graphs/program.h"
#include "coppice/padding/padding_policy.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/tools/reference_decoder.h"
#include "tools/model/decoder.h"

namespace coppice {

inline constexpr uint32_t kNanPattern = 0x7FC00000;
inline constexpr uint32_t kBytePattern = 0x5A5A5A5A;

// Runs a program directly on a stream. Every allocation is filled with `garbage`; a freed one is
// unmapped, so that a kernel which still uses it faults.
class EagerContext : public CallContext {
 public:
  EagerContext(const TestDevice& device, const ProgramSpec& spec, uint32_t garbage)
      : device_(device), spec_(spec), garbage_(garbage) {
    driver_ = &device.driver();
    stream_ = device.stream();
    outputs_.resize(spec.outputs.size());
  }

  // Sets the one symbol and the copied inputs, whose padding is garbage too; then the static ones.
  absl::Status Prepare(int64_t padded,
                       const std::vector<std::vector<int32_t>>& copied,
                       const std::vector<Tensor>& statics) {
    extents_ = {padded};
    COPPICE_ASSIGN_OR_RETURN(
        DeviceMemory words, device_.Upload<int64_t>({static_cast<int64_t>(copied.front().size())}));
    parameters_ = words.address();
    memory_.emplace(words.address(), std::move(words));
    for (size_t i = 0; i < copied.size(); ++i) {
      std::vector<int32_t> values = copied[i];
      const Dim dim = spec_.inputs[i].dims.front();
      if (!dim.is_fixed())
        values.resize(static_cast<size_t>(padded), std::bit_cast<int32_t>(garbage_));
      COPPICE_ASSIGN_OR_RETURN(DeviceMemory staged, device_.Upload(values));
      const int64_t sizes[] = {static_cast<int64_t>(values.size())};
      inputs_.push_back(Tensor::Dense(staged.address(), DType::kInt32, sizes));
      memory_.emplace(staged.address(), std::move(staged));
    }
    inputs_.insert(inputs_.end(), statics.begin(), statics.end());
    return absl::OkStatus();
  }

  using CallContext::Allocate;
  absl::StatusOr<DeviceAddress> Allocate(int64_t bytes, std::string_view) override {
    COPPICE_ASSIGN_OR_RETURN(const DeviceAddress address, AllocateGarbage(bytes));
    ++live_temporaries_;
    return address;
  }

  absl::Status Free(DeviceAddress address) override {
    if (memory_.erase(address) == 0) return InvalidArgument("EagerContext::Free: not live.");
    --live_temporaries_;
    return absl::OkStatus();
  }

  absl::Status AliasOutput(int index, DeviceAddress) override {
    return absl::UnimplementedError(
        fmt::format("the decoder aliases no output, not {} either", index));
  }

  absl::Status Break(EagerStep) override {
    return absl::UnimplementedError("the decoder has no breaks");
  }

  absl::StatusOr<Tensor> AllocateOutput(int index) override {
    const OutputSpec& output = spec_.outputs[static_cast<size_t>(index)];
    std::vector<int64_t> sizes;
    for (const Dim& dim : output.dims)
      sizes.push_back(dim.is_fixed() ? dim.size : extents_.front());
    Tensor tensor = Tensor::Dense(0, output.dtype, sizes);
    COPPICE_ASSIGN_OR_RETURN(tensor.data,
                             AllocateGarbage(tensor.element_count() * SizeOf(output.dtype)));
    outputs_[static_cast<size_t>(index)] = tensor;
    return tensor;
  }

  const Tensor& output(int index) const { return outputs_[static_cast<size_t>(index)]; }
  int64_t live_temporaries() const { return live_temporaries_; }

 private:
  absl::StatusOr<DeviceAddress> AllocateGarbage(int64_t bytes) {
    COPPICE_ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Create(device_.driver(), bytes));
    const DeviceAddress address = memory.address();
    COPPICE_RETURN_IF_ERROR(device_.driver().Call<&DriverTable::MemsetD32Async>(
        address, garbage_, static_cast<size_t>(bytes) / sizeof(uint32_t), device_.stream()));
    memory_.emplace(address, std::move(memory));
    return address;
  }

  const TestDevice& device_;
  const ProgramSpec& spec_;
  const uint32_t garbage_;
  std::map<DeviceAddress, DeviceMemory> memory_;
  std::vector<Tensor> outputs_;
  int64_t live_temporaries_ = 0;
};

// What a run returned, padding included.
struct Prediction {
  std::vector<float> logits;
  std::vector<int32_t> tokens;

  // Row `row` of the logits.
  std::vector<float> row(size_t row) const {
    const size_t width = logits.size() / tokens.size();
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(row * width);
    return {first, first + static_cast<std::ptrdiff_t>(width)};
  }
};

// Both halves of a cache.
struct CacheContents {
  std::vector<float> keys;
  std::vector<float> values;
};

// One row of a decode call.
struct DecodeStep {
  int32_t token;
  int32_t position;
  int32_t slot;
};

// A decoder, its specs and a cache on a device.
class Model {
 public:
  explicit Model(const DecoderConfig& config, uint64_t seed = 1)
      : decoder_(*Decoder::Create(device_.driver(), config, {.seed = seed})),
        cache_(*KvCache::Create(device_.driver(), config)),
        prefill_(decoder_->PrefillSpec(*PaddingPolicy::Exact(config.max_context))),
        decode_(decoder_->DecodeSpec(*PaddingPolicy::Exact(config.slots))) {}

  absl::StatusOr<Prediction> TryRun(const ProgramSpec& spec,
                                    Callable callable,
                                    const std::vector<std::vector<int32_t>>& copied,
                                    int64_t padded) {
    EagerContext context(device_, spec, garbage_);
    COPPICE_RETURN_IF_ERROR(context.Prepare(padded, copied, decoder_->StaticInputs(cache_)));
    COPPICE_RETURN_IF_ERROR(callable(context));
    EXPECT_EQ(context.live_temporaries(), 0);
    const Tensor& logits = context.output(0);
    const Tensor& tokens = context.output(1);
    return Prediction{device_.Download<float>(logits.data, logits.element_count()),
                      device_.Download<int32_t>(tokens.data, tokens.element_count())};
  }

  // Padded to `padded` rows, or not at all.
  Prediction Prefill(const std::vector<int32_t>& tokens, int32_t slot, int64_t padded = 0) {
    const int64_t rows = std::max(padded, static_cast<int64_t>(tokens.size()));
    auto result = TryRun(prefill_, decoder_->PrefillCallable(), {tokens, {slot}}, rows);
    EXPECT_OK(result);
    return result.ok() ? *std::move(result) : Prediction();
  }

  Prediction Decode(const std::vector<DecodeStep>& steps, int64_t padded = 0) {
    std::vector<std::vector<int32_t>> copied(3);
    for (const DecodeStep& step : steps) {
      copied[0].push_back(step.token);
      copied[1].push_back(step.position);
      copied[2].push_back(step.slot);
    }
    const int64_t rows = std::max(padded, static_cast<int64_t>(steps.size()));
    auto result = TryRun(decode_, decoder_->DecodeCallable(), copied, rows);
    EXPECT_OK(result);
    return result.ok() ? *std::move(result) : Prediction();
  }

  CacheContents ReadCache() const {
    const int64_t count = cache_.keys().element_count();
    return {device_.Download<float>(cache_.keys().data, count),
            device_.Download<float>(cache_.values().data, count)};
  }

  void WriteCache(const CacheContents& contents) {
    EXPECT_OK(device_.Write(cache_.keys().data, contents.keys));
    EXPECT_OK(device_.Write(cache_.values().data, contents.values));
  }

  ReferenceWeights ReadWeights() const {
    ReferenceWeights weights;
    const std::vector<Tensor> tensors = decoder_->StaticInputs(cache_);
    const size_t copied = decode_.inputs.size() - tensors.size();
    for (size_t i = 0; i + 2 < tensors.size(); ++i) {
      const Tensor& tensor = tensors[i];
      weights[decode_.inputs[copied + i].name] = {
          device_.Download<float>(tensor.data, tensor.element_count()),
          tensor.rank == 2 ? tensor.sizes[1] : 0};
    }
    return weights;
  }

  std::vector<int32_t> RandomTokens(int64_t count, uint32_t seed) const {
    std::mt19937 random(seed);
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < count; ++i)
      tokens.push_back(static_cast<int32_t>(random() % static_cast<uint32_t>(config().vocab)));
    return tokens;
  }

  const DecoderConfig& config() const { return decoder_->config(); }
  const Decoder& decoder() const { return *decoder_; }
  const KvCache& cache() const { return cache_; }
  const TestDevice& device() const { return device_; }
  const ProgramSpec& prefill() const { return prefill_; }
  const ProgramSpec& decode() const { return decode_; }
  void set_garbage(uint32_t pattern) { garbage_ = pattern; }

 private:
  TestDevice device_;
  std::unique_ptr<Decoder> decoder_;
  KvCache cache_;
  ProgramSpec prefill_;
  ProgramSpec decode_;
  uint32_t garbage_ = kNanPattern;
};

}  // namespace coppice
