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

constexpr const char* kSummary =
    "Calibrates the emulator against a driver: what it forbids, what it costs, what it answers.\n"
    "Each survey prints a table: comments that begin with #, column names, rows; tabs between.";

constexpr const char* kExamples =
    "Without --output the tables go to standard output. With it each is a file of its own in DIR:\n"
    "graphs.tsv, memory.tsv, orders.tsv, vmm.tsv, and capture_legality.VERSION.tsv, where VERSION\n"
    "is what the driver reports (13000 is CUDA 13.0), or `emulator`. A failure of one survey "
    "does\n"
    "not end the others; an error from which a process cannot recover does, so that a survey may\n"
    "be worth a process of its own. Run on a device that nobody else uses.\n"
    "\n"
    "Examples:\n"
    "  coppice-probe                                 all surveys, on CUDA where it is\n"
    "  coppice-probe --device=cuda --output=tables   all of them into files\n"
    "  coppice-probe --device=host legality orders   two surveys, on the emulator\n"
    "  coppice-probe memory --copies=100             more execs for a finer average\n";

struct Selection {
  DeviceChoice device = DeviceChoice::kAuto;
  std::string output;
  std::vector<std::string> surveys;
  ProbeOptions options;
};

ExitCode Report(const Survey& survey,
                const absl::Status& status,
                ExitCode code,
                const Console& console) {
  Print(console.err, "coppice-probe {}: {}\n", survey.name, MessageOf(status));
  return code;
}

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
  return InvalidArgument("OpenTable: cannot write {}: {}; give --output a folder to write to", path,
                         error ? error.message() : std::generic_category().message(errno));
}

ExitCode ProbeSurvey(const Survey& survey, const Selection& selection, const Console& console) {
  const absl::StatusOr<ChosenDriver> chosen = ChosenDriver::Open(selection.device, /*seed=*/1);
  if (!chosen.ok()) return Report(survey, chosen.status(), kExitDevice, console);
  absl::StatusOr<Subject> subject = Subject::Create(chosen->driver());
  if (!subject.ok()) return Report(survey, subject.status(), kExitDevice, console);

  File file;
  if (!selection.output.empty()) {
    const absl::StatusOr<int> version = subject->DriverVersion();
    if (!version.ok()) return Report(survey, version.status(), kExitDevice, console);
    absl::StatusOr<File> opened =
        OpenTable(selection.output, FileNameOf(survey, chosen->driver().kind(), *version));
    if (!opened.ok()) return Report(survey, opened.status(), kExitOutput, console);
    file = *std::move(opened);
  }
  std::FILE* const out = file != nullptr ? file.get() : console.out;
  Table table(out);
  Progress progress(console.err, /*enabled=*/true, survey.name);
  const absl::Status status = RunSurvey(
      survey,
      {.subject = *subject, .options = selection.options, .table = table, .progress = progress});
  if (std::fflush(out) != 0 || std::ferror(out) != 0)
    return Report(
        survey,
        FailedPrecondition("RunSurvey: the table cannot be written to its end: {}; free space",
                           std::generic_category().message(errno)),
        kExitOutput, console);
  return status.ok() ? kExitOk : Report(survey, status, kExitDevice, console);
}

ExitCode RunParsed(int argument_count, const char* const* arguments, const Console& console) {
  Selection selection;
  Command command("coppice-probe", kSummary, "coppice-probe " COPPICE_VERSION);
  std::string names;
  std::vector<std::string> known;
  for (const Survey& survey : Surveys()) {
    known.emplace_back(survey.name);
    names += fmt::format("  {:<10}{}\n", survey.name, survey.summary);
  }
  command.SetFooter(fmt::format("Surveys:\n{}\n{}\n{}", names, kExamples, kExitCodes));
  command.AddChoices("survey", selection.surveys, known, "SURVEY", "Surveys to run, default all");
  command.AddParsed("--device", &ParseDeviceChoice, selection.device,
                    "auto (the default: cuda where there is a device), host or cuda");
  command.AddText("--output", selection.output, "DIR",
                  "Folder for the tables; made if it is absent");
  command.AddCount(
      "--copies", selection.options.copies, 10'000,
      "Graph execs per kind and number of nodes that the survey memory makes, default\n"
      "20; of 10 nodes or fewer 20 times as many");
  command.AddCount("--repetitions", selection.options.repetitions, 10'000,
                   "Measurements of a timing, of which the median is printed, default 5");
  if (const std::optional<ExitCode> end = command.Parse(argument_count, arguments, console))
    return *end;

  ExitCode code = kExitOk;
  for (const Survey& survey : Surveys()) {
    const std::vector<std::string>& wanted = selection.surveys;
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), survey.name) != wanted.end())
      code = std::max(code, ProbeSurvey(survey, selection, console));
  }
  return code;
}

}  // namespace

ExitCode RunProbe(int argument_count, const char* const* arguments, const Console& console) {
  return RunTool("coppice-probe", console,
                 [&] { return RunParsed(argument_count, arguments, console); });
}

}  // namespace coppice
