// One line, then raw floats.

#include "tools/run/step_log.h"

#include <bit>
#include <vector>

#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

namespace coppice {

static_assert(std::endian::native == std::endian::little, "logits are written as they lie");

StepLog::StepLog(const std::string& folder)
    : folder_(folder),
      steps_(folder + "/steps.jsonl", std::ios::binary | std::ios::trunc),
      logits_(folder + "/logits.f32", std::ios::binary | std::ios::trunc) {}

absl::StatusOr<std::unique_ptr<StepLog>> StepLog::Create(const std::string& folder) {
  std::unique_ptr<StepLog> log(new StepLog(folder));
  if (log->steps_ && log->logits_) return log;
  return FailedPrecondition(
      "{}: steps.jsonl and logits.f32 cannot be written in this folder; give a writable folder",
      folder);
}

void StepLog::Add(const Step& step, const StepInputs& inputs, const StepResult& result) {
  std::vector<int64_t> requests;
  for (const StepRow& row : step.rows)
    requests.push_back(row.request);
  const nlohmann::ordered_json line = {
      {"prefill", inputs.prefill}, {"requests", requests},
      {"tokens", inputs.tokens},   {"positions", inputs.positions},
      {"slots", inputs.slots},     {"next_tokens", result.next_tokens}};
  steps_ << line.dump() << '\n';
  logits_.write(reinterpret_cast<const char*>(result.logits.data()),
                static_cast<std::streamsize>(result.logits.size() * sizeof(float)));
}

absl::Status StepLog::Finish() {
  steps_.flush();
  logits_.flush();
  if (steps_ && logits_) return absl::OkStatus();
  return FailedPrecondition(
      "{}: the log of steps could not be written completely; free some disk space", folder_);
}

}  // namespace coppice
