// The manifest that has everything, and what is wrong with changed copies of it.
//
// fixtures/manifest.json uses every field and every kind of argument. fixtures/cases.json has JSON
// patches of it: good ones, and bad ones with the pointer and the words of their error, and whether
// a schema finds them. Python reads both too, for kernel_package.schema.json.
//
// Threads: stateless.

#pragma once

#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "tests/package/package_builder.h"

namespace coppice::package {

// The manifest as in the file, and the cases: {"good": [...], "bad": [...]}.
nlohmann::json FullManifest();
nlohmann::json ManifestCases();

// A package of FullManifest, with the files that it names.
PackageBuilder FullPackage();

}  // namespace coppice::package
