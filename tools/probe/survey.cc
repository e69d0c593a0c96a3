// The list of surveys, and what their tables have in common.

#include "tools/probe/survey.h"

#include "fmt/format.h"

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr Survey kSurveys[] = {
    {"graphs", "graphs", false, "what graphs of 1 to 4000 kernel nodes cost the host", &FillGraphs},
    {"memory", "memory", false, "device bytes of graph execs, by kind of node", &FillMemory},
    {"legality", "capture_legality", true, "which calls a stream capture forbids", &FillLegality},
    {"orders", "orders", false, "results of captures that end in odd ways", &FillOrders},
    {"vmm", "vmm", false, "what virtual memory costs and which uses it refuses", &FillVmm},
};

}  // namespace

std::span<const Survey> Surveys() {
  return kSurveys;
}

absl::Status RunSurvey(const Survey& survey, const SurveyRun& run) {
  run.table.Comment(fmt::format("coppice-probe {}: {}", survey.name, survey.summary));
  run.table.Comment(fmt::format("device: {}", run.subject.context().DeviceName()));
  COPPICE_ASSIGN_OR_RETURN(const int version, run.subject.DriverVersion());
  run.table.Comment(
      fmt::format("driver: {}, version {}",
                  run.subject.driver().kind() == DriverKind::kCuda ? "cuda" : "emulator", version));
  absl::Status status = survey.fill(run);
  if (!status.ok()) run.table.Comment(fmt::format("incomplete: {}", MessageOf(status)));
  return status;
}

std::string FileNameOf(const Survey& survey, DriverKind kind, int driver_version) {
  if (!survey.per_version) return fmt::format("{}.tsv", survey.file_stem);
  if (kind == DriverKind::kEmulator) return fmt::format("{}.emulator.tsv", survey.file_stem);
  return fmt::format("{}.{}.tsv", survey.file_stem, driver_version);
}

}  // namespace coppice
