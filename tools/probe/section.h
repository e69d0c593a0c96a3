// The sections of the probe: each measures one thing and fills one table, and none needs another.
//
// Units: as the columns say. Threads: one section at a time per process.

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
  int64_t copies = 20;      // Graph execs that the memory section makes of each kind.
  int64_t repetitions = 5;  // Of a timing, whose median is reported.
};

// What a section works with.
struct SectionRun {
  Subject& subject;
  const ProbeOptions& options;
  Table& table;
  Progress& progress;
};

struct Section {
  const char* name;       // As on the command line.
  const char* file_stem;  // Of its table: "legality" fills capture_legality.<version>.tsv.
  bool per_version;       // Whether the name of its file holds the driver's version.
  const char* summary;
  absl::Status (*fill)(const SectionRun& run);  // Errors: what the driver refused midway.
};

// All sections, in the order in which they run: vmm, whose last line may leave the device in an
// error that no later call survives, comes last.
std::span<const Section> Sections();

// Runs `section`: the comment lines that all tables have, then its own. An error also ends the
// table, as a comment.
absl::Status RunSection(const Section& section, const SectionRun& run);

// The file that `section` fills by default: "vmm.tsv", "capture_legality.13000.tsv" for version
// 13000 of a CUDA driver, "capture_legality.emulator.tsv".
std::string FileNameOf(const Section& section, DriverKind kind, int driver_version);

absl::Status FillGraphs(const SectionRun& run);
absl::Status FillMemory(const SectionRun& run);
absl::Status FillLegality(const SectionRun& run);
absl::Status FillOrders(const SectionRun& run);
absl::Status FillVmm(const SectionRun& run);

}  // namespace coppice
