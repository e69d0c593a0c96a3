// Holds the targets of a package's kernels to their images and to what their devices allow.
//
// Threads: one at a time. Cost: reads every image.

#pragma once

#include "coppice/runtime/manifest.h"
#include "coppice/runtime/package_lint.h"

#include "runtime/package/lint/report.h"

namespace coppice::package {

void LintImages(const Manifest& manifest, const FileReader& read, Report& report);

}  // namespace coppice::package
