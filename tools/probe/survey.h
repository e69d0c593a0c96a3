// The surveys of the probe: each measures one thing and fills one table, and none needs another.
//
// Units: as the columns say. Threads: one survey at a time per process.

#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "absl/status/status.h"

#include "tools/probe/subject.h"
#include "tools/probe/table.h"
#include "tools/support/progress.h"

namespace coppice {

struct ProbeOptions {
  int64_t copies = 20;      // Execs of 100 nodes or more that the memory survey makes of each kind;
                            // 20 times as many of fewer nodes.
  int64_t repetitions = 5;  // Of a timing, whose median is reported.
};

// What a survey works with.
struct SurveyRun {
  Subject& subject;
  const ProbeOptions& options;
  Table& table;
  Progress& progress;
};

struct Survey {
  const char* name;       // As on the command line.
  const char* file_stem;  // Of its table: "legality" fills capture_legality.<version>.tsv.
  bool per_version;       // Whether the name of its file holds the driver's version.
  const char* summary;
  absl::Status (*fill)(const SurveyRun& run);  // Errors: what the driver refused midway.
};

// All surveys, in the order in which they run: vmm, whose last line may leave the device in an
// error that no later call survives, comes last.
std::span<const Survey> Surveys();

// Runs `survey`: the comment lines that all tables have, then its own. An error also ends the
// table, as a comment.
absl::Status RunSurvey(const Survey& survey, const SurveyRun& run);

// The file that `survey` fills by default: "vmm.tsv", "capture_legality.13000.tsv" for version
// 13000 of a CUDA driver, "capture_legality.emulator.tsv".
std::string FileNameOf(const Survey& survey, DriverKind kind, int driver_version);

absl::Status FillGraphs(const SurveyRun& run);
absl::Status FillMemory(const SurveyRun& run);
absl::Status FillLegality(const SurveyRun& run);
absl::Status FillOrders(const SurveyRun& run);
absl::Status FillVmm(const SurveyRun& run);

}  // namespace coppice
