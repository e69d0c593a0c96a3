// Finds errors in a kernel package before anything of it is loaded.
//
//   for (const package::Finding& finding : package::Lint(package, {})) puts(ToText(finding))
//
// The reader of a manifest checks its form. The linter checks whether the package can work. Images
// are read without a driver: parameters, threads, registers, shared memory and clusters are
// compared with the notes in the cubin, or with the PTX. Programs are followed step by step at many
// sizes: every bucket, the corners of the ranges of the symbols, and sizes between them that the
// guards allow. A finding about sizes names sizes at which it happens. Other sizes may fail even if
// there is no finding.
//
// Units: bytes, blocks, threads, as each finding says. Threads: any, on a const package. Cost:
// reads every file; O(steps) at each of up to LintOptions::points_max sizes per program.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/manifest.h"

namespace coppice::package {

class Package;

enum class Severity : uint8_t {
  kError,    // It fails, or computes something wrong, at the named sizes.
  kWarning,  // It may fail.
  kNote,     // It does no harm: for example, nothing uses it.
};

// A name for people: "error", "warning", "note".
const char* NameOf(Severity severity);

struct Finding {
  Severity severity = Severity::kError;
  std::string rule;     // The kind of fault, such as "grid-limit".
  std::string file;     // File of the package: "manifest.json", or an image.
  std::string pointer;  // JSON pointer into manifest.json: "/programs/main/steps/3/grid/1".
  std::string value;    // The value there, or what it evaluates to.
  std::string what;     // What is wrong with it, and at which sizes.
  std::string advice;   // What to do.
};

// "manifest.json /programs/main/steps/3/grid/1: error grid-limit: 70000: ...; ..."
std::string ToText(const Finding& finding);

struct LintOptions {
  int64_t points_max = 2000;  // Sizes that are tried per program; fewer for programs with many
                              // steps.
  // Functions that `call` steps may name besides "gemm"; not checked if empty.
  std::vector<std::string> functions{};
};

// All findings, errors first, then by pointer.
std::vector<Finding> Lint(const Package& package, const LintOptions& options);

// Returns the bytes of a file of the manifest, which must stay valid, or an error.
using FileReader = std::function<absl::StatusOr<std::span<const std::byte>>(const std::string&)>;

// The same for a manifest whose files are elsewhere. Requires: the manifest is like one that was
// read; see manifest.h.
std::vector<Finding> LintManifest(const Manifest& manifest,
                                  const FileReader& read,
                                  const LintOptions& options);

}  // namespace coppice::package
