// The library's Pack, with its errors told apart by code.

#include "tools/package/package_pack.h"

#include "absl/status/status.h"

#include "coppice/base/status.h"
#include "coppice/runtime/package.h"

namespace coppice {

ExitCode PackagePack(const PackagePackOptions& options, const Console& console) {
  const absl::Status status = package::Pack(options.folder, options.output);
  if (!status.ok()) {
    Print(console.err, "coppice package pack: {}\n", MessageOf(status));
    const bool unreadable = status.code() == absl::StatusCode::kInvalidArgument ||
                            MessageOf(status).starts_with(options.folder);
    return unreadable ? kExitUsage : kExitOutput;
  }
  Print(console.out, "{}: packed\n", options.output);
  return kExitOk;
}

}  // namespace coppice
