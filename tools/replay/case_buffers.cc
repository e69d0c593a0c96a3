// Temporaries become outputs, which a play has.

#include "tools/replay/case_buffers.h"

#include <set>
#include <string>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "tools/package/first_step.h"
#include "tools/package/package_device.h"
#include "tools/package/package_rewrite.h"
#include "tools/support/scratch_folder.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

// The programs of packages that the calls run.
std::set<std::string> ProgramsOf(const Case& value) {
  std::set<std::string> programs;
  for (const CaseCall& call : value.calls)
    programs.insert(value.programs[static_cast<size_t>(call.program)].package_program);
  programs.erase("");
  return programs;
}

// The package, packed anew with the temporaries of these programs as outputs.
absl::StatusOr<package::Package> OpenShown(const std::string& path,
                                           const std::set<std::string>& programs,
                                           const std::string& shown) {
  COPPICE_ASSIGN_OR_RETURN(const package::Package package, PackageDevice::OpenPackage(path, {}));
  nlohmann::json manifest = ManifestOf(package);
  for (const std::string& program : programs)
    ShowTemporaries(program, manifest);
  COPPICE_RETURN_IF_ERROR(PackWith(package, manifest, shown));
  absl::StatusOr<package::Package> opened = package::Package::Open(shown, {});
  if (!opened.ok())
    return MakeError(absl::StatusCode::kUnimplemented,
                     "cannot open the package with the temporaries of its programs as outputs "
                     "(one cause: a program that is part of another program): {}",
                     MessageOf(opened.status()));
  return opened;
}

}  // namespace

absl::Status WriteBuffers(const Case& value, const PlaySource& source, const std::string& folder) {
  COPPICE_ASSIGN_OR_RETURN(const ScratchFolder scratch, ScratchFolder::Create());
  const std::string shown = scratch.path() + "/shown.zip";
  COPPICE_ASSIGN_OR_RETURN(const package::Package package,
                           OpenShown(source.package, ProgramsOf(value), shown));
  COPPICE_ASSIGN_OR_RETURN(
      const Played played,
      PlayCase(value, {.package = shown, .constants = source.constants}, {.padded = false}));
  for (size_t i = 0; i < value.calls.size(); ++i) {
    if (!played.outcomes[i]) continue;
    const CaseCall& call = value.calls[i];
    COPPICE_ASSIGN_OR_RETURN(
        const int index,
        ProgramIn(package.manifest(), value.programs[static_cast<size_t>(call.program)]));
    const package::Program& program = package.manifest().programs[static_cast<size_t>(index)];
    const std::string of_call = fmt::format("{}/{}", folder, call.number);
    COPPICE_RETURN_IF_ERROR(MakeFolder(of_call));
    for (size_t output = 0; output < program.outputs.size(); ++output) {
      const auto buffer = static_cast<size_t>(program.outputs[output]);
      COPPICE_RETURN_IF_ERROR(
          WriteArray(fmt::format("{}/{}.npy", of_call, program.buffers[buffer].name),
                     played.outcomes[i]->outputs[output]));
    }
  }
  return absl::OkStatus();
}

}  // namespace coppice
