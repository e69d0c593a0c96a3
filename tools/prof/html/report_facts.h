// What a report is made of: the definitions of a trace, and its events in the order of time.
//
// Of events only what some view shows is kept, some 70 bytes a call.
//
// Units: bytes, nanoseconds, elements. Threads: plain values.

#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"

#include "coppice/padding/size_histogram.h"

#include "tools/prof/address_use.h"
#include "tools/prof/bucket_figures.h"
#include "tools/prof/latest_policies.h"
#include "tools/prof/pool_trace.h"

namespace coppice {

struct ReportCall {
  int64_t time_ns = 0;
  int64_t call = 0;  // Counts per lane.
  int64_t real_elements = 0;
  int64_t padded_elements = 0;
  int program = -1;      // Place in PoolTrace::programs; -1: a trace of old does not say it.
  int bucket = -1;       // Place in PoolTrace::buckets.
  int node = -1;         // Place in PoolTrace::nodes.
  int64_t host_ns = -1;  // -1: nobody looked.
  int lane = 0;
  RunKind path = RunKind::kReplay;
  Reason reason = Reason::kNone;
};

// What a server said of one request.
struct ReportRequest {
  int64_t time_ns = 0;
  int64_t id = 0;
  int64_t first_token_ns = 0;  // From its arrival ...
  int64_t last_token_ns = 0;   // ... as this.
  int64_t input_tokens = 0;
  int64_t output_tokens = 0;
};

struct ReportBytes {
  int64_t time_ns = 0;
  int64_t bytes = 0;  // Of the kind from here on.
  int64_t total = 0;  // Of all kinds.
  MemoryKind kind = MemoryKind::kPlan;
};

// What lies under static tensors of all programs from here on.
struct ReportStatics {
  int64_t time_ns = 0;
  int64_t bytes = 0;
};

// A call of a lane read what another had made.
struct ReportUse {
  int lane = 0;
  int64_t call = 0;
  int64_t maker = 0;
};

// Somebody kept what a call had made.
struct ReportLease {
  int64_t from_ns = 0;
  int64_t until_ns = -1;  // -1: as long as the trace goes.
  int64_t call = 0;
  int lane = 0;
  int node = -1;
};

struct ReportFacts {
  PoolTrace trace;
  std::vector<BucketFigures> buckets;  // In the order of the trace.
  BucketFigures unbucketed;
  std::vector<AddressUse> uses;    // By bucket.
  std::vector<int> highest;        // By bucket: its node with the highest plan, or -1.
  std::vector<ReportCall> calls;   // All of these in the order of time, equal times in that of
  std::vector<ReportBytes> bytes;  // the file.
  std::vector<ReportStatics> statics;
  std::vector<TracedEvent> moments;  // Beside calls: record, evict, fail, suspend, resume, mark and
                                     // dropped.
  std::vector<ReportRequest> requests;
  std::vector<ReportLease> leases;
  std::vector<ReportUse> reads;  // In the order of the file.
  LatestPolicies policies;
  // What calls brought, by program and symbol; sizes from 1 on.
  std::map<std::pair<int, int>, SizeHistogram> sizes;

  // The program of a bucket.
  int ProgramOf(int bucket) const { return trace.buckets[static_cast<size_t>(bucket)].program; }
  // "decode 8"; "-" for none.
  std::string NameOf(int bucket) const { return bucket < 0 ? "-" : NameOfBucket(trace, bucket); }
};

// Errors: as ReadPoolTrace. Cost: O(events log events).
absl::StatusOr<ReportFacts> ReadReportFacts(const std::string& path);

}  // namespace coppice
