// What `coppice fit` found, as text, JSON and a picture.
//
// Units: bytes. Threads: pure functions.

#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include "tools/fit/bucket_choice.h"
#include "tools/fit/fit.h"
#include "tools/fit/fit_traffic.h"
#include "tools/fit/recorded_package.h"

namespace coppice {

// A choice and what a session has with it.
struct FitPoint {
  BucketChoice choice;
  RecordedMemory memory;
  double padding_pct = 0;  // That kernels compute: at exact sizes none.
  int64_t left_bytes = 0;  // Of the card, for the cache; below 0: so many are missing.
};

struct FitReport {
  std::vector<ProgramTraffic> programs;
  std::vector<FitPoint> points;     // Those learned, then the ladders to compare with.
  std::optional<size_t> best;       // Of those learned; nothing: none leaves what is asked for.
  std::string why_none;             // If there is none.
  std::vector<std::string> unfit;   // Ladders that do not fit the package, and why.
  std::vector<std::string> fixed;   // Symbols without traffic: "prefill.batch is 1".
  std::vector<std::string> others;  // Programs without traffic, which are not counted.
  int64_t given_constants_bytes = 0;
  int64_t static_bytes = 0;
  bool has_calls = false;  // Steps of functions, whose kernels and workspaces are not known.
};

void PrintFit(const FitOptions& options, const FitReport& report, std::FILE* out);
void PrintFitJson(const FitOptions& options, const FitReport& report, std::FILE* out);
// Padding over bytes, a mark for each choice.
std::string DrawFit(const FitReport& report);

}  // namespace coppice
