// Differences between two looks at the same sums.

#include "tools/prof/watch/watch_state.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace coppice {
namespace {

constexpr size_t kMarksKept = 5;
constexpr size_t kBucketsKept = 20;

WatchedTimes TimesOf(const DurationHistogram& histogram) {
  return {.count = histogram.count(),
          .p50_ns = histogram.Percentile(50),
          .p90_ns = histogram.Percentile(90),
          .p99_ns = histogram.Percentile(99),
          .most_ns = histogram.most()};
}

}  // namespace

const char* NameOf(WatchedState state) {
  static constexpr std::array kNames = {"empty", "running", "suspended", "ended", "gone"};
  return kNames[static_cast<size_t>(state)];
}

void WatchState::Add(const PoolTrace& trace, const TracedEvent& event) {
  tally_.Add(event);
  std::visit(
      Cases{[&](const CallEvent& call) {
              if (call.host_ns >= 0) host_[static_cast<size_t>(call.path)].Add(call.host_ns);
              if (call.bucket < 0) return;
              const auto bucket = static_cast<size_t>(call.bucket);
              if (bucket >= bucket_last_ns_.size()) bucket_last_ns_.resize(trace.buckets.size());
              bucket_last_ns_[bucket] = std::max(bucket_last_ns_[bucket], event.time_ns);
            },
            [&](const SuspendEvent& /*empty*/) { suspended_ = true; },
            [&](const ResumeEvent& /*empty*/) { suspended_ = false; },
            [&](const RequestEvent& request) {
              first_token_.Add(request.first_token_ns);
              const int64_t further_ns = request.last_token_ns - request.first_token_ns;
              if (request.output_tokens > 1 && further_ns >= 0)
                further_token_.Add(further_ns / (request.output_tokens - 1));
            },
            [&](const MarkEvent& mark) {
              marks_.push_front({trace.marks[static_cast<size_t>(mark.mark)], event.time_ns});
              if (marks_.size() > kMarksKept) marks_.pop_back();
            },
            [](const auto& /*other*/) {}},
      event.what);
}

void WatchState::CountLately(const PoolTrace& trace, WatchedSession& session) {
  Counted counted;
  counted.events = trace.events;
  counted.paths = session.sums.calls.paths;
  counted.real = session.sums.calls.real_elements;
  counted.padded = session.sums.calls.padded_elements;
  for (const auto& [key, calls] : session.sums.reasons)
    counted.reasons[key.second] += calls;

  session.events_lately = counted.events - before_.events;
  for (size_t path = 0; path < counted.paths.size(); ++path)
    session.paths_lately[path] = counted.paths[path] - before_.paths[path];
  session.real_lately = counted.real - before_.real;
  session.padded_lately = counted.padded - before_.padded;
  for (const auto& [reason, calls] : counted.reasons)
    session.reasons.push_back({reason, calls, calls - before_.reasons[reason]});
  std::ranges::stable_sort(session.reasons, [](const WatchedReason& a, const WatchedReason& b) {
    return std::tie(a.calls, a.lately) > std::tie(b.calls, b.lately);
  });
  before_ = std::move(counted);
}

void WatchState::ListBuckets(const PoolTrace& trace, WatchedSession& session) {
  struct Row {
    size_t bucket = 0;
    int64_t calls = 0;
    int64_t lately = 0;
    int64_t last_ns = 0;
  };
  bucket_calls_before_.resize(session.sums.buckets.size());
  bucket_last_ns_.resize(session.sums.buckets.size());
  std::vector<Row> rows;
  for (size_t i = 0; i < session.sums.buckets.size(); ++i) {
    const int64_t calls = session.sums.buckets[i].calls();
    const int64_t lately = calls - std::exchange(bucket_calls_before_[i], calls);
    if (calls > 0) rows.push_back({i, calls, lately, bucket_last_ns_[i]});
  }
  const auto last = rows.begin() + static_cast<ptrdiff_t>(std::min(rows.size(), kBucketsKept));
  std::partial_sort(rows.begin(), last, rows.end(), [](const Row& a, const Row& b) {
    return std::tuple(-a.lately, -a.last_ns, a.bucket) <
           std::tuple(-b.lately, -b.last_ns, b.bucket);
  });
  rows.erase(last, rows.end());
  for (const Row& row : rows) {
    session.buckets.push_back({.name = NameOfBucket(trace, static_cast<int>(row.bucket)),
                               .lane = trace.buckets[row.bucket].lane,
                               .calls = row.calls,
                               .lately = row.lately,
                               .last_ns = row.last_ns});
  }
}

WatchedSession WatchState::Look(const PoolTrace& trace, std::optional<double> seconds) {
  WatchedSession session;
  session.state = trace.ended        ? WatchedState::kEnded
                  : trace.lanes == 0 ? WatchedState::kEmpty
                  : suspended_       ? WatchedState::kSuspended
                                     : WatchedState::kRunning;
  session.device = trace.device;
  session.lanes = trace.lanes;
  session.budget = trace.budget;
  session.events = trace.events;
  session.dropped = trace.dropped;
  session.last_ns = trace.last_ns;
  session.sums = tally_.Sums(trace);
  session.bucket_count = std::ssize(trace.buckets);
  session.seconds = seconds;
  CountLately(trace, session);
  ListBuckets(trace, session);
  session.sums.buckets.clear();
  session.marks.assign(marks_.begin(), marks_.end());
  session.first_token = TimesOf(first_token_);
  session.further_token = TimesOf(further_token_);
  for (size_t path = 0; path < host_.size(); ++path)
    session.host[path] = TimesOf(host_[path]);
  return session;
}

}  // namespace coppice
