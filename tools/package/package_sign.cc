// Signs what was opened.

#include "tools/package/package_sign.h"

#include "coppice/base/status.h"

#include "tools/package/key_file.h"
#include "tools/package/package_device.h"
#include "tools/package/package_rewrite.h"

namespace coppice {

ExitCode PackageSign(const PackageSignOptions& options, const Console& console) {
  const auto fail = [&](const absl::Status& status, ExitCode code) {
    Print(console.err, "coppice package sign: {}\n", MessageOf(status));
    return code;
  };
  const absl::StatusOr<package::Package> opened = PackageDevice::OpenPackage(options.package, {});
  if (!opened.ok()) return fail(opened.status(), kExitUsage);
  const absl::StatusOr<std::string> signature = SignWith(options.key, opened->manifest_text());
  if (!signature.ok()) return fail(signature.status(), kExitUsage);
  const absl::Status written = WriteSignature(*opened, *signature);
  if (!written.ok()) return fail(written, kExitOutput);
  Print(console.out, "{}: signed, manifest {}\n", options.package, opened->manifest().sha256);
  return kExitOk;
}

}  // namespace coppice
