// A scheduler, a stream of arrivals, and the loop that advances the clock.

#include "tools/tune/step_simulator.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <random>

#include "coppice/base/check.h"

namespace coppice {
namespace {

constexpr int64_t kStepsPerDecodeStepMax = 10;

// Uniform in [0, 1), the same on every standard library.
double Uniform(std::mt19937_64& random) {
  return static_cast<double>(random() >> 11) * 0x1p-53;
}

double Exponential(std::mt19937_64& random) {
  return -std::log1p(-Uniform(random));
}

struct Sequence {
  int64_t computed = 0;  // Tokens in the KV cache.
  int64_t known = 0;     // Prompt and what has been generated.
  int64_t left = 0;      // Tokens to generate.
};

class Scheduler {
 public:
  Scheduler(const SimulatorOptions& options, SimulatedSteps& result)
      : options_(options), result_(result) {}

  void Admit(const TimedRequest& request) {
    waiting_.push_back(
        {.computed = 0, .known = request.input_tokens, .left = request.output_tokens});
  }

  bool idle() const { return running_.empty() && waiting_.empty(); }

  // Runs one step, sets its size and kind, and returns its seconds. Requires: not idle.
  double Step(SimulatedStep& step) {
    work_ = {};
    const bool preempted = ScheduleRunning();
    if (!preempted) ScheduleWaiting();
    step.decode = work_.tokens == work_.sequences;
    step.size = work_.tokens;
    Finish();
    const StepModel& model = options_.model;
    return model.overhead_s +
           std::max(model.weights_s, static_cast<double>(work_.tokens) * model.token_s) +
           work_.context * model.kv_s + work_.pairs * model.pair_s;
  }

 private:
  struct Work {
    int64_t tokens = 0;
    int64_t sequences = 0;
    double context = 0;
    double pairs = 0;
  };

  // Gives the i-th sequence `tokens` of this step.
  void Schedule(size_t i, int64_t tokens) {
    Sequence& sequence = running_[i];
    work_.tokens += tokens;
    ++work_.sequences;
    work_.context += static_cast<double>(sequence.computed + tokens);
    if (tokens > 1)
      work_.pairs += static_cast<double>(tokens) *
                     (static_cast<double>(sequence.computed) + static_cast<double>(tokens) / 2);
    sequence.computed += tokens;
    used_ += tokens;
  }

  bool Fits(int64_t tokens) const { return used_ + tokens <= options_.kv_tokens; }

  bool ScheduleRunning() {
    bool preempted = false;
    for (size_t i = 0; i < running_.size() && work_.tokens < options_.budget_tokens; ++i) {
      const int64_t tokens =
          std::min(running_[i].known - running_[i].computed, options_.budget_tokens - work_.tokens);
      while (!Fits(tokens) && i + 1 < running_.size()) {
        Preempt();
        preempted = true;
      }
      if (!Fits(tokens) && i > 0) {
        Preempt();
        return true;
      }
      Schedule(i, tokens);
    }
    return preempted;
  }

  // The sequence that began last waits again; it has not been given tokens of this step.
  void Preempt() {
    Sequence last = running_.back();
    running_.pop_back();
    used_ -= last.computed;
    last.computed = 0;
    waiting_.push_front(last);
    ++result_.preemptions;
  }

  void ScheduleWaiting() {
    int64_t reserved = 0;  // For prompts that have begun.
    for (const Sequence& sequence : running_)
      reserved += sequence.known - sequence.computed;
    while (!waiting_.empty() && work_.tokens < options_.budget_tokens &&
           static_cast<int64_t>(running_.size()) < options_.sequences_max) {
      // Room for all of the prompt, or it would be given up for its own next chunk.
      const int64_t known = waiting_.front().known;
      if (!Fits(known + reserved) && !running_.empty()) return;
      const int64_t tokens = std::min(known, options_.budget_tokens - work_.tokens);
      reserved += known - tokens;
      running_.push_back(waiting_.front());
      waiting_.pop_front();
      Schedule(running_.size() - 1, tokens);
    }
  }

  // Each sequence that has computed all that is known of it generates a token.
  void Finish() {
    for (Sequence& sequence : running_) {
      if (sequence.computed < sequence.known) continue;
      ++sequence.known;
      if (--sequence.left == 0) used_ -= sequence.computed;
    }
    result_.finished += static_cast<int64_t>(
        std::erase_if(running_, [](const Sequence& sequence) { return sequence.left == 0; }));
  }

  const SimulatorOptions& options_;
  SimulatedSteps& result_;
  std::vector<Sequence> running_;  // In the order in which they began.
  std::deque<Sequence> waiting_;
  int64_t used_ = 0;  // Tokens in the KV cache.
  Work work_;         // Of the step that is being scheduled.
};

// Arrivals of the trace, over and over, in units of its own, which a load stretches.
class Arrivals {
 public:
  Arrivals(const std::vector<TimedRequest>& requests, uint64_t seed)
      : requests_(requests), random_(seed) {
    const double first = requests.front().arrival_seconds;
    double clock = 0;
    const bool poisson = requests.back().arrival_seconds <= first;
    for (const TimedRequest& request : requests) {
      clock = poisson ? clock + Exponential(random_) : request.arrival_seconds - first;
      times_.push_back(clock);
    }
    const auto count = static_cast<double>(requests.size());
    mean_gap_ = times_.back() > 0 ? times_.back() / std::max(count - 1, 1.0) : 1;
    span_ = times_.back() + mean_gap_;
    pass_ = times_;
    order_.resize(requests.size());
    for (size_t i = 0; i < order_.size(); ++i)
      order_[i] = i;
  }

  double span() const { return span_; }
  double gap() const { return pass_[order_[next_]] - last_; }  // Up to the next arrival.

  const TimedRequest& Take() {
    const size_t request = order_[next_];
    last_ = pass_[request];
    if (++next_ == order_.size()) BeginAgain();
    return requests_[request];
  }

 private:
  void BeginAgain() {
    next_ = 0;
    last_ -= span_;
    for (size_t i = 0; i < pass_.size(); ++i)
      pass_[i] = times_[i] + mean_gap_ * Uniform(random_);
    std::sort(order_.begin(), order_.end(), [this](size_t a, size_t b) {
      return pass_[a] != pass_[b] ? pass_[a] < pass_[b] : a < b;
    });
    // A jittered first arrival may lie before the last of the pass before.
    last_ = std::min(last_, pass_[order_.front()]);
  }

  const std::vector<TimedRequest>& requests_;
  std::mt19937_64 random_;
  std::vector<double> times_;  // Of the trace; the first is near 0.
  double span_ = 0;            // Of a pass.
  double mean_gap_ = 0;
  std::vector<double> pass_;   // Times of this pass.
  std::vector<size_t> order_;  // Requests by these times.
  size_t next_ = 0;            // Into the order.
  double last_ = 0;            // Time of the last arrival, of this pass.
};

// Seconds that all requests take if they are there at once.
double OfflineSeconds(const std::vector<TimedRequest>& requests, const SimulatorOptions& options) {
  SimulatedSteps ignored;
  Scheduler scheduler(options, ignored);
  for (const TimedRequest& request : requests)
    scheduler.Admit(request);
  double seconds = 0;
  SimulatedStep step;
  while (!scheduler.idle())
    seconds += scheduler.Step(step);
  return seconds;
}

// Whether the clock goes on with each pass of arrivals, and stays a number to the last step.
bool CanStretch(double offline, double span, const SimulatorOptions& options) {
  constexpr double kSecondsMin = 1e-200;
  constexpr double kSecondsMax = 1e200;
  const auto fits = [](double value) { return value >= kSecondsMin && value <= kSecondsMax; };
  return fits(offline) && fits(span) &&
         std::all_of(options.loads.begin(), options.loads.end(), [&](double load) {
           return fits(load) && fits(offline / load) && fits(offline / load / span);
         });
}

}  // namespace

SimulatedSteps SimulateSteps(const std::vector<TimedRequest>& requests,
                             const SimulatorOptions& options,
                             const std::function<bool(int64_t done, int64_t total)>& progress) {
  COPPICE_CHECK(!requests.empty() && !options.loads.empty(),
                "a simulation needs requests and loads");
  COPPICE_CHECK(options.budget_tokens >= 1 && options.sequences_max >= 1 &&
                    options.kv_tokens >= 1 && options.decode_steps >= 1,
                "a simulated server needs a budget, sequences, a KV cache and steps");
  SimulatedSteps result;
  const double offline = OfflineSeconds(requests, options);
  result.capacity = offline > 0 ? static_cast<double>(requests.size()) / offline
                                : std::numeric_limits<double>::infinity();
  const int64_t total = options.decode_steps * static_cast<int64_t>(options.loads.size());

  Scheduler scheduler(options, result);
  Arrivals arrivals(requests, options.seed);
  if (!CanStretch(offline, arrivals.span(), options)) return result;
  double clock = 0;
  double last_arrival = 0;
  int64_t decode_steps = 0;
  for (size_t load = 0; load < options.loads.size(); ++load) {
    const double stretch = offline / (options.loads[load] * arrivals.span());
    const int64_t end = decode_steps + options.decode_steps;
    int64_t steps_left = kStepsPerDecodeStepMax * options.decode_steps;
    for (; decode_steps < end && steps_left > 0; --steps_left) {
      while (scheduler.idle() || last_arrival + arrivals.gap() * stretch <= clock) {
        last_arrival += arrivals.gap() * stretch;
        clock = std::max(clock, last_arrival);
        scheduler.Admit(arrivals.Take());
      }
      SimulatedStep step = {.load = static_cast<int32_t>(load), .start_s = clock};
      clock += scheduler.Step(step);
      if (step.decode) ++decode_steps;
      result.steps.push_back(step);
      if (result.steps.size() % 1024 == 0 && !progress(decode_steps, total)) return result;
    }
  }
  return result;
}

}  // namespace coppice
