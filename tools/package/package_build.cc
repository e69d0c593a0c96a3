// nvcc into a folder, which is packed.

#include "tools/package/package_build.h"

#include <algorithm>
#include <cctype>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <spawn.h>
#include <string_view>
#include <unistd.h>
#include <utility>

#include "fmt/format.h"
#include "nlohmann/json.hpp"
#include <sys/wait.h>

#include "coppice/base/status.h"
#include "coppice/runtime/package.h"
#include "coppice/runtime/package_lint.h"

#include "runtime/emulator/ptx/program.h"
#include "tools/package/package_device.h"
#include "tools/package/package_rewrite.h"
#include "tools/ptx/ptx.h"
#include "tools/support/scratch_folder.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

using BuildJson = nlohmann::json;

constexpr int kCubinFrom = 90;  // Architectures whose cubins are taken if nothing is said.

// Runs a program and waits; what it prints goes to the file at `log`. Errors: kInvalidArgument the
// program cannot be started, or fails: the first line that has an error in it, or just the first.
absl::Status RunProgram(const std::vector<std::string>& arguments, const std::string& log) {
  std::vector<char*> pointers;
  for (const std::string& argument : arguments)
    pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t process = 0;
  const int error =
      posix_spawnp(&process, pointers[0], &actions, nullptr, pointers.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return InvalidArgument("{} cannot be started: {}; give --nvcc PATH", arguments[0],
                           std::generic_category().message(error));
  int status = 0;
  while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return absl::OkStatus();
  const absl::StatusOr<std::string> text = ReadTextFile(log, "what nvcc printed");
  std::string first;
  for (std::string_view rest = text.ok() ? std::string_view(*text) : ""; !rest.empty();) {
    const std::string_view line = TakeLine(rest);
    if (first.empty() || line.find("error") != std::string_view::npos) first = line;
    if (line.find("error") != std::string_view::npos) break;
  }
  return InvalidArgument("{} failed: {}", arguments[0], first);
}

class Builder {
 public:
  Builder(const PackageBuildOptions& options, ScratchFolder scratch)
      : options_(options), scratch_(std::move(scratch)) {}

  absl::Status Build() {
    COPPICE_RETURN_IF_ERROR(ReadManifest());
    std::error_code error;
    std::filesystem::create_directories(Folder() + "/bin", error);
    if (error) return InvalidArgument("{}: cannot be made: {}", Folder(), error.message());
    for (const BuildArchitecture& architecture : options_.architectures)
      COPPICE_RETURN_IF_ERROR(AddModule(architecture));
    COPPICE_RETURN_IF_ERROR(FillKernels());
    FillRest();
    COPPICE_RETURN_IF_ERROR(WriteTextFile(Folder() + "/manifest.json", manifest_.dump()));
    const absl::Status status = package::Pack(Folder(), options_.output);
    if (status.ok() || absl::IsInvalidArgument(status)) return status;
    return MakeError(absl::StatusCode::kDataLoss, "{}", MessageOf(status));
  }

 private:
  std::string Folder() const { return scratch_.path() + "/package"; }

  absl::Status ReadManifest() {
    COPPICE_ASSIGN_OR_RETURN(const std::string text,
                             ReadTextFile(options_.manifest, "the manifest of a package"));
    manifest_ = BuildJson::parse(text, nullptr, /*allow_exceptions=*/false);
    if (manifest_.is_object() && manifest_["kernels"].is_object()) return absl::OkStatus();
    return InvalidArgument(
        "{}: this is not a JSON object with kernels; a package manifest must be one",
        options_.manifest);
  }

  // Compiles the source into `file`.
  absl::Status Compile(const BuildArchitecture& architecture, const std::string& file) const {
    std::vector<std::string> arguments = {options_.nvcc, "-std=c++20", "-O3"};
    arguments.insert(arguments.end(), options_.flags.begin(), options_.flags.end());
    arguments.push_back((architecture.cubin ? "-arch=sm_" : "-arch=compute_") + architecture.name);
    arguments.emplace_back(architecture.cubin ? "-cubin" : "-ptx");
    arguments.insert(arguments.end(), {options_.source, "-o", file});
    const absl::Status status = RunProgram(arguments, scratch_.path() + "/log");
    if (status.ok()) return status;
    return InvalidArgument("{}: sm_{}: {}", options_.source, architecture.name, MessageOf(status));
  }

  absl::Status AddModule(const BuildArchitecture& architecture) {
    const char* const format = architecture.cubin ? "cubin" : "ptx";
    const std::string name = fmt::format("sm_{}_{}", architecture.name, format);
    const std::string file = fmt::format("bin/{}.{}", name, format);
    COPPICE_RETURN_IF_ERROR(Compile(architecture, Folder() + "/" + file));
    manifest_["modules"][name] = {
        {"file", file}, {"format", format}, {"arch", "sm_" + architecture.name}};
    modules_.push_back(name);
    return absl::OkStatus();
  }

  // The kernels of the source, by the PTX of the first architecture.
  absl::Status Survey() {
    const std::string file = scratch_.path() + "/survey.ptx";
    COPPICE_RETURN_IF_ERROR(Compile({options_.architectures[0].name, false}, file));
    COPPICE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(file, "what nvcc wrote"));
    COPPICE_ASSIGN_OR_RETURN(const std::vector<ptx::KernelSurvey> kernels,
                             ptx::Program::Survey(std::move(text)));
    for (const ptx::KernelSurvey& kernel : kernels) {
      BuildJson bytes = BuildJson::array();
      for (const ptx::Place& parameter : kernel.parameters)
        bytes.push_back(parameter.bytes);
      parameters_[kernel.name] = std::move(bytes);
    }
    return absl::OkStatus();
  }

  absl::Status FillKernels() {
    COPPICE_RETURN_IF_ERROR(Survey());
    for (auto& [name, kernel] : manifest_["kernels"].items()) {
      const std::string where = fmt::format("{}: /kernels/{}/targets", options_.manifest, name);
      if (!kernel.is_object() || !kernel.contains("targets") || !kernel["targets"].is_array())
        return InvalidArgument(
            "{}: this is not a list; write [{{\"symbol\": ..., \"block\": [...]}}]", where);
      BuildJson targets = BuildJson::array();
      for (BuildJson target : kernel["targets"]) {
        if (!target.is_object() || target.contains("module"))
          return InvalidArgument(
              "{}: a target must be an object without `module`, which the build adds", where);
        if (!target.contains("symbol")) target["symbol"] = name;
        const auto known = target["symbol"].is_string()
                               ? parameters_.find(target["symbol"].get<std::string>())
                               : parameters_.end();
        if (known == parameters_.end())
          return InvalidArgument(
              "{}: {} is not a kernel of {}, which has {}; declare kernels extern "
              "\"C\"",
              where, target["symbol"].dump(), options_.source, KernelNames());
        if (!kernel.contains("parameters")) kernel["parameters"] = known->second;
        for (const std::string& module : modules_) {
          target["module"] = module;
          targets.push_back(target);
        }
      }
      kernel["targets"] = std::move(targets);
    }
    return absl::OkStatus();
  }

  std::string KernelNames() const {
    std::string names;
    for (const auto& [name, bytes] : parameters_)
      names += (names.empty() ? "" : ", ") + name;
    return names.empty() ? "none" : names;
  }

  void FillRest() {
    const auto fill = [&](const char* name, BuildJson value) {
      if (!manifest_.contains(name)) manifest_[name] = std::move(value);
    };
    fill("schema", "coppice.kernel_package");
    fill("schema_version", {1, 0});
    fill("producer", {{"name", "coppice package build"}, {"version", "1"}});
    fill("constants", BuildJson::object());
    if (manifest_["programs"].is_object() && manifest_["programs"].size() == 1)
      fill("entry", manifest_["programs"].begin().key());
  }

  const PackageBuildOptions& options_;
  const ScratchFolder scratch_;
  BuildJson manifest_;
  std::vector<std::string> modules_;
  std::map<std::string, BuildJson> parameters_;  // By symbol.
};

void PrintBuilt(const PackageBuildOptions& options,
                const package::Package& package,
                const std::vector<package::Finding>& findings,
                std::FILE* out) {
  nlohmann::ordered_json json = {{"package", options.output},
                                 {"sha256", package.manifest().sha256},
                                 {"modules", nlohmann::ordered_json::array()},
                                 {"findings", nlohmann::ordered_json::array()}};
  std::string text = fmt::format("wrote {}\n", options.output);
  for (const package::Module& module : package.manifest().modules) {
    const package::File& file = package.manifest().files[static_cast<size_t>(module.file)];
    json["modules"].push_back(
        {{"name", module.name}, {"arch", module.arch}, {"bytes", file.bytes}});
    text += fmt::format("  {}: {}, {} bytes\n", module.name, module.arch, file.bytes);
  }
  for (const package::Finding& finding : findings) {
    json["findings"].push_back(package::ToText(finding));
    text += package::ToText(finding) + "\n";
  }
  Print(out, "{}", options.json ? FormatJson(json) : text);
}

}  // namespace

absl::StatusOr<std::vector<BuildArchitecture>> ParseArchitectures(const std::string& text) {
  std::vector<BuildArchitecture> architectures;
  const std::string ended = text + ",";  // So that a last comma has a name behind it, an empty one.
  for (std::string_view rest = ended; !rest.empty();) {
    std::string_view item = rest.substr(0, rest.find(','));
    rest.remove_prefix(item.size() + 1);
    const std::string_view name = item.substr(0, item.find(':'));
    item.remove_prefix(std::min(name.size() + 1, item.size()));
    const size_t digits = std::min(name.find_first_not_of("0123456789"), name.size());
    const std::string_view suffix = name.substr(digits);
    if (digits < 2 || digits > 3 || (suffix != "" && suffix != "a" && suffix != "f") ||
        (item != "" && item != "cubin" && item != "ptx"))
      return InvalidArgument(
          "{} is not a list of architectures; give a list such as 80,90a,86:cubin", Quote(text));
    const int capability = std::stoi(std::string(name.substr(0, digits)));
    architectures.push_back(
        {std::string(name), item.empty() ? capability >= kCubinFrom : item == "cubin"});
  }
  return architectures;
}

ExitCode PackageBuild(const PackageBuildOptions& options, const Console& console) {
  const auto built = [&]() -> absl::StatusOr<package::Package> {
    const std::string inputs[] = {options.source, options.manifest};
    const std::string outputs[] = {options.output};
    COPPICE_RETURN_IF_ERROR(CheckOutputs(inputs, outputs));
    COPPICE_ASSIGN_OR_RETURN(ScratchFolder scratch, ScratchFolder::Create());
    COPPICE_RETURN_IF_ERROR(Builder(options, std::move(scratch)).Build());
    return package::Package::Open(options.output, {});
  }();
  if (!built.ok()) {
    Print(console.err, "coppice package build: {}\n", MessageOf(built.status()));
    return ExitCodeOf(built.status());
  }
  const std::vector<package::Finding> findings = package::Lint(*built, {});
  PrintBuilt(options, *built, findings, console.out);
  const bool wrong = std::ranges::any_of(findings, [](const package::Finding& finding) {
    return finding.severity == package::Severity::kError;
  });
  return wrong ? kExitMismatch : kExitOk;
}

}  // namespace coppice
