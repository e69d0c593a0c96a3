// Schedules requests first come, first served.

#include "tools/run/batcher.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "coppice/base/check.h"

namespace coppice {

Batcher::Batcher(std::vector<Request> requests, const Options& options)
    : requests_(std::move(requests)), options_(options) {
  COPPICE_CHECK(options.slots >= 1, "a batcher needs a slot");
  COPPICE_CHECK(options.cost.step_seconds > 0 && options.cost.row_seconds >= 0,
                "a step takes time");
  for (int64_t slot = options.slots - 1; slot >= 0; --slot)
    free_slots_.push_back(slot);
}

bool Batcher::Next(Step& step) {
  step.rows.clear();
  const bool waiting = next_ < static_cast<int64_t>(requests_.size());
  if (!waiting && running_.empty()) return false;

  if (running_.empty())
    clock_ = std::max(clock_, requests_[static_cast<size_t>(next_)].arrival_seconds);
  step.start_seconds = clock_;
  step.prefill = waiting && !free_slots_.empty() &&
                 requests_[static_cast<size_t>(next_)].arrival_seconds <= clock_;
  step.prefill ? Prefill(step) : Decode(step);
  int64_t rows = 0;
  for (const StepRow& row : step.rows)
    rows += row.tokens;
  clock_ += options_.cost.step_seconds + options_.cost.row_seconds * static_cast<double>(rows);
  return true;
}

void Batcher::Prefill(Step& step) {
  const Request& request = requests_[static_cast<size_t>(next_)];
  const StepRow row = {.request = next_++,
                       .slot = free_slots_.back(),
                       .position = 0,
                       .tokens = request.input_tokens,
                       .last = request.output_tokens == 1};
  step.rows.push_back(row);
  if (row.last) return;
  free_slots_.pop_back();
  running_.push_back({.request = row.request,
                      .slot = row.slot,
                      .position = request.input_tokens,
                      .left = request.output_tokens - 1});
}

void Batcher::Decode(Step& step) {
  for (Running& running : running_) {
    step.rows.push_back({.request = running.request,
                         .slot = running.slot,
                         .position = running.position++,
                         .tokens = 1,
                         .last = --running.left == 0});
    if (running.left > 0) continue;
    const auto place =
        std::lower_bound(free_slots_.begin(), free_slots_.end(), running.slot, std::greater<>());
    free_slots_.insert(place, running.slot);
  }
  std::erase_if(running_, [](const Running& running) { return running.left == 0; });
}

}  // namespace coppice
