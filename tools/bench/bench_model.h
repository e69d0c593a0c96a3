// The decoder that the benches of a model run, and sessions in which its decode step is registered.
//
// A step of batch n has n rows. Row i is the token at position `position` of slot i, and always the
// same one, so that a step may be run any number of times, in any session, and predicts the same
// tokens. Batch sizes are padded to the 67 buckets 1, 2, 4, 8, 16, 24, ... 512.
//
// All sessions share the weights and the cache, which lie outside their pools. There is no ledger
// between them and the driver, so that what is timed is what a program would see.
//
// Units: rows, bytes. Threads: one at a time; the context is current on the thread that opened the
// model.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json_fwd.hpp"

#include "coppice/graphs/session.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/stream.h"

#include "tools/model/decoder.h"
#include "tools/support/device.h"

namespace coppice {

// The decoder on a device; on the emulator it is always the least that there is.
enum class ModelSize : uint8_t {
  kRun,    // That of `coppice run`.
  kSmall,  // As wide as a small language model's, so that figures of bytes mean something.
};

// Its fields by name.
nlohmann::ordered_json ToJson(const DecoderConfig& config);

class BenchModel {
 public:
  // Opens the device, makes the decoder and its cache, and uploads the rows; waits for the device.
  // Errors: as ChosenDriver::Open, Context::Create and Decoder::Create.
  static absl::StatusOr<std::unique_ptr<BenchModel>> Open(ModelSize on_device, DeviceChoice device);

  const Context& context() const { return *context_; }
  const Driver& driver() const { return chosen_.driver(); }
  const Stream& stream() const { return *stream_; }
  const Decoder& decoder() const { return *decoder_; }
  const KvCache& cache() const { return *cache_; }
  const DecoderConfig& config() const { return decoder_->config(); }
  const PaddingPolicy& batches() const { return batches_; }
  const char* kind() const { return chosen_.kind(); }
  std::string DeviceName() const;  // As the driver calls it, or the kind.
  std::string Title() const;       // Device and model for people, a line each.
  int32_t position() const;        // Of every row in its slot.
  std::vector<std::string> reports() const { return chosen_.reports(); }  // As ChosenDriver's.

  // The copied inputs of a step. Requires: 1 <= batch <= config().slots (checked). Cost: O(1).
  std::span<const Tensor> Inputs(int64_t batch) const;

  // Device memory that nobody has, as the driver says.
  absl::StatusOr<int64_t> FreeBytes() const;

 private:
  BenchModel(ChosenDriver chosen, PaddingPolicy batches)
      : chosen_(std::move(chosen)), batches_(std::move(batches)) {}

  absl::Status Build(ModelSize on_device);
  absl::Status UploadRows();

  ChosenDriver chosen_;
  const PaddingPolicy batches_;
  std::optional<Context> context_;
  std::optional<Stream> stream_;
  std::unique_ptr<Decoder> decoder_;
  std::optional<KvCache> cache_;
  std::optional<DeviceMemory> rows_;
  std::vector<Tensor> inputs_;  // Those of batch 1, then of batch 2, ...
};

// A session with the decode program and nothing else.
class DecodeSession {
 public:
  // `model` must outlive the session. Errors: as Session::Create.
  static absl::StatusOr<std::unique_ptr<DecodeSession>> Create(const BenchModel& model,
                                                               const SessionOptions& options);

  Session& session() const { return *session_; }

  // The call of one step on the model's stream; valid while the model lives.
  Call CallOf(int64_t batch, OutputMode output_mode = OutputMode::kBorrow) const;

  // Runs a step without waiting for it. Errors: as Session::Run.
  absl::StatusOr<Lease> Run(int64_t batch, OutputMode output_mode = OutputMode::kBorrow) const {
    return session_->Run(CallOf(batch, output_mode));
  }

  // The same, for a step that is expected to take `path`. Errors: kInternal if it took another one.
  absl::StatusOr<Lease> RunExpecting(RunKind path,
                                     int64_t batch,
                                     OutputMode output_mode = OutputMode::kBorrow) const;

  // Records the buckets of these batch sizes, largest first, without running any that has run
  // before; the others are warmed up on the cache `scratch`, which must outlive the session and
  // not be the model's. Waits for the device. Errors: as SessionWarming::Warm.
  absl::Status Warm(std::span<const int64_t> batches, const KvCache& scratch) const;

  // Brings the next tokens of a step to the host; waits for the stream. Errors: as Lease::Read.
  absl::StatusOr<std::vector<int32_t>> ReadTokens(const Lease& lease) const;

 private:
  explicit DecodeSession(const BenchModel& model) : model_(model) {}

  const BenchModel& model_;
  std::unique_ptr<Session> session_;
  const Program* program_ = nullptr;
  const Binding* binding_ = nullptr;
};

// What steps of these batch sizes predict without graphs, by batch size. Its session is gone when
// it returns. Errors: as Session::Run.
absl::StatusOr<std::map<int64_t, std::vector<int32_t>>> EagerTokens(
    const BenchModel& model, std::span<const int64_t> batches);

}  // namespace coppice
