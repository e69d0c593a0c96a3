// Continuous batching on a virtual clock: turns requests into the steps that a server would run.
//
// A step is either the prefill of one request or one decode step of the whole running batch.
// Requests are served in order of arrival; one that has arrived is prefilled as soon as a slot is
// free, before the batch decodes on. A prefill predicts the first token of an answer, each decode
// step one more for every row, and a request leaves with the step that predicts its last.
//
//   clock ──[prefill 0]──[decode 0]──[prefill 1]──[decode 0 1]──[decode 0 1]──[decode 1]──►
//
// Each step advances the clock by a + b x rows, so that batches do not depend on the machine.
//
// Units: seconds of the virtual clock, tokens. Threads: one at a time.

#pragma once

#include <cstdint>
#include <vector>

#include "tools/run/request_trace.h"

namespace coppice {

// What a step takes: a + b x rows, where rows are prompt tokens or running requests.
struct StepCost {
  double step_seconds = 0;  // a; > 0, or the clock would stand still.
  double row_seconds = 0;   // b; >= 0.
};

// One request's part in a step.
struct StepRow {
  int64_t request = 0;   // Index into the trace.
  int64_t slot = 0;      // Its place in the KV cache, from prefill to its last step.
  int64_t position = 0;  // Of the first token fed in this step; a prefill starts at 0.
  int64_t tokens = 1;    // Fed in this step: the prompt, or one.
  bool last = false;     // This step predicts the last token of the answer.
  friend bool operator==(const StepRow&, const StepRow&) = default;
};

struct Step {
  bool prefill = false;
  double start_seconds = 0;
  std::vector<StepRow> rows;  // In order of arrival; exactly one if prefill.
};

// What is padded of it: the tokens of a prompt, or the rows of a batch.
inline int64_t ExtentOf(const Step& step) {
  return step.prefill ? step.rows.front().tokens : static_cast<int64_t>(step.rows.size());
}

class Batcher {
 public:
  struct Options {
    int64_t slots = 32;  // Most requests that run at once. >= 1.
    StepCost cost;
  };

  // Takes requests in order of arrival. Requires: options in range (checked).
  Batcher(std::vector<Request> requests, const Options& options);

  // Writes the next step to `step`, or returns false once every request has left.
  bool Next(Step& step);

  double clock_seconds() const { return clock_; }  // End of the last step.

 private:
  struct Running {
    int64_t request = 0;
    int64_t slot = 0;
    int64_t position = 0;  // Of the token to be fed next.
    int64_t left = 0;      // Tokens of the answer not predicted yet; >= 1.
  };

  void Prefill(Step& step);
  void Decode(Step& step);

  const std::vector<Request> requests_;
  const Options options_;
  std::vector<int64_t> free_slots_;  // Descending, so that the lowest is taken first.
  std::vector<Running> running_;     // In order of arrival.
  int64_t next_ = 0;                 // The first request not prefilled.
  double clock_ = 0;
};

}  // namespace coppice
