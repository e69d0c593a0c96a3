// Opens a driver and a file per survey.

#include "tools/probe/command_line.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/probe/survey.h"
#include "tools/support/command.h"
#include "tools/support/device.h"
#include "tools/support/progress.h"

namespace coppice {
namespace {

struct Survey {
  const char* name;
  const char* file;  // Of its table.
  const char* summary;
  absl::Status (*fill)(const SurveyRun& run);
};

constexpr Survey kSurveys[] = {
    {"legality", "capture_legality.tsv", "which calls a stream capture forbids", &FillLegality},
    {"memory", "graph_memory.tsv", "device bytes of graph execs, by kind of node", &FillMemory}};

constexpr const char* kSummary =
    "Measures a device for the emulator's tables: what a capture forbids, and how much memory a\n"
    "graph takes. Each survey prints a table: comments that begin with #, column names and\n"
    "rows, separated by tabs.";

constexpr const char* kNotes =
    "Without --output, the tables go to standard output. With it, they go to the files\n"
    "capture_legality.tsv and graph_memory.tsv in DIR. Run on a device that nobody else uses.\n"
    "\n"
    "Examples:\n"
    "  coppice-probe --device=cuda --output=tables   both surveys, into files\n"
    "  coppice-probe --device=host legality          one survey, on the emulator\n";

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, FileCloser>;

absl::StatusOr<File> OpenTable(const std::string& folder, const std::string& name) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const std::string path = (std::filesystem::path(folder) / name).string();
  File file(error ? nullptr : std::fopen(path.c_str(), "w"));
  if (file != nullptr) return file;
  return InvalidArgument("OpenTable: cannot write {}: {}; give a writable folder with --output",
                         path, error ? error.message() : std::generic_category().message(errno));
}

// The lines that all tables have, then the survey's own. An error also ends the table.
absl::Status Fill(const Survey& survey, const SurveyRun& run) {
  run.Comment(fmt::format("coppice-probe {}: {}", survey.name, survey.summary));
  run.Comment(fmt::format("device: {}", run.subject.context().DeviceName()));
  COPPICE_ASSIGN_OR_RETURN(const int version, run.subject.DriverVersion());
  run.Comment(fmt::format("driver: {}, version {}",
                          run.subject.driver().kind() == DriverKind::kCuda ? "cuda" : "emulator",
                          version));
  absl::Status status = survey.fill(run);
  if (!status.ok()) run.Comment(fmt::format("incomplete: {}", MessageOf(status)));
  return status;
}

absl::Status Measure(const Survey& survey, const Driver& driver, std::FILE* out, std::FILE* err) {
  COPPICE_ASSIGN_OR_RETURN(Subject subject, Subject::Create(driver));
  Progress progress(err, /*enabled=*/true, survey.name);
  return Fill(survey, {.subject = subject, .out = out, .progress = progress});
}

// On a driver of its own, so that the failure of one survey ends no other.
ExitCode Run(const Survey& survey,
             DeviceChoice device,
             const std::string& output,
             const Console& console) {
  const auto fail = [&](const absl::Status& status, ExitCode code) {
    Print(console.err, "coppice-probe {}: {}\n", survey.name, MessageOf(status));
    return code;
  };
  const absl::StatusOr<ChosenDriver> chosen = ChosenDriver::Open(device, /*seed=*/1);
  if (!chosen.ok()) return fail(chosen.status(), kExitDevice);
  File file;
  if (!output.empty()) {
    absl::StatusOr<File> opened = OpenTable(output, survey.file);
    if (!opened.ok()) return fail(opened.status(), kExitOutput);
    file = *std::move(opened);
  }
  std::FILE* const out = file != nullptr ? file.get() : console.out;
  const absl::Status status = Measure(survey, chosen->driver(), out, console.err);
  if (std::fflush(out) != 0 || std::ferror(out) != 0)
    return fail(
        FailedPrecondition("the table cannot be written completely: {}; free some disk space",
                           std::generic_category().message(errno)),
        kExitOutput);
  return status.ok() ? kExitOk : fail(status, kExitDevice);
}

ExitCode RunParsed(int argument_count, const char* const* arguments, const Console& console) {
  DeviceChoice device = DeviceChoice::kAuto;
  std::string output;
  std::vector<std::string> wanted;
  Command command("coppice-probe", kSummary, "coppice-probe " COPPICE_VERSION);
  std::string names;
  std::vector<std::string> known;
  for (const Survey& survey : kSurveys) {
    known.emplace_back(survey.name);
    names += fmt::format("  {:<10}{}\n", survey.name, survey.summary);
  }
  command.SetFooter(fmt::format("Surveys:\n{}\n{}\n{}", names, kNotes, kExitCodes));
  command.AddChoices("survey", wanted, known, "SURVEY", "Surveys to run, default all");
  command.AddParsed("--device", &ParseDeviceChoice, device,
                    "auto (the default: cuda if there is a device), host or cuda");
  command.AddText("--output", output, "DIR", "Folder for the tables; made if it is absent");
  if (const std::optional<ExitCode> end = command.Parse(argument_count, arguments, console))
    return *end;
  ExitCode code = kExitOk;
  for (const Survey& survey : kSurveys) {
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), survey.name) != wanted.end())
      code = std::max(code, Run(survey, device, output, console));
  }
  return code;
}

}  // namespace

ExitCode RunProbe(int argument_count, const char* const* arguments, const Console& console) {
  return RunTool("coppice-probe", console,
                 [&] { return RunParsed(argument_count, arguments, console); });
}

}  // namespace coppice
