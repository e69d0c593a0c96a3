// The same as lines show, and all of it.

#include "nlohmann/json.hpp"

#include "tools/prof/remedy.h"
#include "tools/prof/watch/watch_report.h"

namespace coppice {
namespace {

using OrderedJson = nlohmann::ordered_json;

OrderedJson RateOf(const WatchedSession& session, int64_t lately) {
  if (!session.seconds.has_value() || *session.seconds <= 0) return nullptr;
  return static_cast<double>(lately) / *session.seconds;
}

OrderedJson PathsJson(const WatchedSession& session) {
  OrderedJson paths = OrderedJson::object();
  for (size_t i = 0; i < session.paths_lately.size(); ++i)
    paths[NameOf(static_cast<RunKind>(i))] = {
        {"calls", session.sums.calls.paths[i]},
        {"calls_per_second", RateOf(session, session.paths_lately[i])}};
  return paths;
}

OrderedJson BytesJson(const WatchedSession& session) {
  OrderedJson kinds = OrderedJson::object();
  for (int i = 0; i < kMemoryKindCount; ++i) {
    const BytesOverTime& bytes = session.sums.kinds[static_cast<size_t>(i)];
    kinds[NameOf(static_cast<MemoryKind>(i))] = {{"bytes", session.BytesOf(bytes)},
                                                 {"peak_bytes", bytes.peak}};
  }
  return kinds;
}

OrderedJson ReasonsJson(const WatchedSession& session) {
  OrderedJson reasons = OrderedJson::array();
  for (const WatchedReason& reason : session.reasons)
    reasons.push_back({{"reason", NameOf(reason.reason)},
                       {"calls", reason.calls},
                       {"calls_per_second", RateOf(session, reason.lately)},
                       {"remedy", RemedyOf(reason.reason)}});
  return reasons;
}

OrderedJson BucketsJson(const WatchedSession& session) {
  OrderedJson buckets = OrderedJson::array();
  for (const WatchedBucket& bucket : session.buckets)
    buckets.push_back({{"bucket", bucket.name},
                       {"lane", bucket.lane},
                       {"calls", bucket.calls},
                       {"calls_per_second", RateOf(session, bucket.lately)},
                       {"last_ns", bucket.last_ns}});
  return buckets;
}

OrderedJson TimesJson(const WatchedTimes& times) {
  if (times.count == 0) return nullptr;
  return {{"count", times.count},
          {"p50_ns", times.p50_ns},
          {"p90_ns", times.p90_ns},
          {"p99_ns", times.p99_ns},
          {"most_ns", times.most_ns}};
}

}  // namespace

OrderedJson JsonOfWatch(const WatchedSession& session, const std::string& name) {
  OrderedJson marks = OrderedJson::array();
  for (const WatchedMark& mark : session.marks)
    marks.push_back({{"name", mark.name}, {"time_ns", mark.time_ns}});
  OrderedJson host = OrderedJson::object();
  for (size_t path = 0; path < session.host.size(); ++path)
    host[NameOf(static_cast<RunKind>(path))] = TimesJson(session.host[path]);
  const BucketFigures& calls = session.sums.calls;
  OrderedJson seconds = nullptr;
  if (session.seconds.has_value()) seconds = *session.seconds;
  OrderedJson look = {{"trace", name},
                      {"state", NameOf(session.state)},
                      {"seconds_since_last", seconds},
                      {"device", session.device},
                      {"lanes", session.lanes},
                      {"last_ns", session.last_ns},
                      {"events", session.events},
                      {"dropped_events", session.dropped},
                      {"calls", calls.calls()},
                      {"paths", PathsJson(session)},
                      {"real_elements", calls.real_elements},
                      {"padded_elements", calls.padded_elements},
                      {"padded_share_pct", calls.padded_share_pct()},
                      {"budget_bytes", session.budget},
                      {"total_bytes", session.BytesOf(session.sums.total)},
                      {"total_peak_bytes", session.sums.total.peak},
                      {"bytes", BytesJson(session)},
                      {"reasons", ReasonsJson(session)},
                      {"buckets", session.bucket_count},
                      {"buckets_of_late", BucketsJson(session)},
                      {"graphs_recorded", calls.recorded},
                      {"graphs_evicted", calls.evicted},
                      {"exec_bytes_estimate", calls.exec_bytes},
                      {"suspends", session.sums.suspends},
                      {"first_token", TimesJson(session.first_token)},
                      {"further_token", TimesJson(session.further_token)},
                      {"host", host},
                      {"marks", marks}};
  if (session.sums.statics.peak > 0) {
    look["statics_bytes"] = session.BytesOf(session.sums.statics);
    look["statics_peak_bytes"] = session.sums.statics.peak;
  }
  return look;
}

}  // namespace coppice
