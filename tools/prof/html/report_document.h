// The report as one JSON document, which the page shows and does not compute again.
//
// Its figures are those of `prof summary`, `buckets`, `map` and `why`. What a screen could not show
// is thinned here: series to their peaks, calls to an even share, plans to their largest buffers;
// `limits` says what was kept of how much. Equal traces give equal documents.
//
//   session   programs   summary   findings   memory   buckets   map   why   paths   timeline
//   kernels   times   requests   and what_if, if it was asked for (whatif_view.h)
//
// Units: bytes, nanoseconds, elements, steps. Threads: pure functions.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "tools/prof/html/report_facts.h"

namespace coppice {

inline constexpr const char* kReportSchema = "coppice.report/1";

struct ReportLimits {
  size_t calls = 250'000;          // Of the timeline.
  size_t instants = 1'500;         // Stretches of time of the memory series; each has its peak.
  size_t moments = 2'000;          // Marks, records and evictions over memory.
  size_t buckets = 4'000;          // Rows of the table, and of the map.
  size_t buffers = 100'000;        // Of all plans of the map.
  size_t listed = 500;             // Calls that did not replay, one by one.
  size_t chain_graphs = 2'000;     // Graphs of the tree of paths.
  size_t launches = 100'000;       // Kernels of all graphs that differ.
  size_t requests = 1'000;         // One by one.
  size_t what_if_calls = 250'000;  // More are not made again; see whatif_view.h.
  size_t what_if_policies = 6;     // Sizes whose padding has a ladder there.
};

nlohmann::ordered_json BuildReport(const ReportFacts& facts, const ReportLimits& limits = {});

// Its parts, each of which may add to `limits` what it left out: {"shown": n, "of": m}.
nlohmann::ordered_json FindingsOf(const ReportFacts& facts);
nlohmann::ordered_json MemoryOf(const ReportFacts& facts,
                                const ReportLimits& limits,
                                nlohmann::ordered_json& left_out);
nlohmann::ordered_json BucketsOf(const ReportFacts& facts,
                                 const ReportLimits& limits,
                                 nlohmann::ordered_json& left_out);
nlohmann::ordered_json MapOf(const ReportFacts& facts,
                             const ReportLimits& limits,
                             nlohmann::ordered_json& left_out);
nlohmann::ordered_json WhyOf(const ReportFacts& facts,
                             const ReportLimits& limits,
                             nlohmann::ordered_json& left_out);
nlohmann::ordered_json PathsOf(const ReportFacts& facts,
                               const ReportLimits& limits,
                               nlohmann::ordered_json& left_out);
nlohmann::ordered_json TimelineOf(const ReportFacts& facts,
                                  const ReportLimits& limits,
                                  nlohmann::ordered_json& left_out);
// What graphs launch: {"names": [...], "lists": [[[name, blocks, threads, shared bytes], ...],
// ...], "nodes": [[node, list], ...]}. Graphs that launch the same have one list.
nlohmann::ordered_json KernelsOf(const ReportFacts& facts,
                                 const ReportLimits& limits,
                                 nlohmann::ordered_json& left_out);
// How long the host was busy with calls, by path; how long requests took.
nlohmann::ordered_json TimesOf(const ReportFacts& facts);
nlohmann::ordered_json RequestsOf(const ReportFacts& facts,
                                  const ReportLimits& limits,
                                  nlohmann::ordered_json& left_out);

// Percentiles of `values`, which need not be in order, and how many lie in each bin: bin i holds
// values of [2^(i/4), 2^((i+1)/4)) ns, the first of them is `first_bin`. Requires: none is
// negative.
nlohmann::ordered_json DurationsOf(std::vector<int64_t> values);

// A sentence that says what to do about calls that do not replay for this reason.
std::string AdviceFor(Reason reason);

// When the last call ran; behind it a session is torn down. 0 without any.
int64_t ServiceEndOf(const ReportFacts& facts);

// `count` places out of [0, total), evenly spread; all if there are no more.
std::vector<size_t> SpreadOver(size_t total, size_t count);

}  // namespace coppice
