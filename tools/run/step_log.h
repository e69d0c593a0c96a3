// Every step of a run, in two files of a folder, so that another implementation can repeat it.
//
//   steps.jsonl   {"prefill", "requests", "tokens", "positions", "slots", "next_tokens"} per step:
//                 what the model took, and what it predicted; a prefill has no positions
//   logits.f32    the logits of each row, step by step, little-endian, without a header
//
// Threads: one at a time.

#pragma once

#include <cstdint>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "tools/model/served_model.h"
#include "tools/model/step_runner.h"
#include "tools/run/batcher.h"

namespace coppice {

class StepLog {
 public:
  // Makes both files in `folder`, which is there, over what was there before. Errors:
  // kFailedPrecondition one that cannot be opened.
  static absl::StatusOr<std::unique_ptr<StepLog>> Create(const std::string& folder);

  // Writes a step with its logits. What fails, Finish says.
  void Add(const Step& step, const StepInputs& inputs, const StepResult& result);

  // Errors: kFailedPrecondition something could not be written.
  absl::Status Finish();

 private:
  explicit StepLog(const std::string& folder);

  const std::string folder_;
  std::ofstream steps_;
  std::ofstream logits_;
};

}  // namespace coppice
