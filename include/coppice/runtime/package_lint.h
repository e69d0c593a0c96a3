// Finds what is wrong with a kernel package before anything of it is loaded.
//
//   for (const package::Finding& finding : package::Lint(package, {})) puts(ToText(finding))
//
// A reader checks what a manifest says; this checks whether it can be true. Images are read without
// a driver: parameters, threads, registers, shared memory and clusters are held to the cubin's own
// notes, or to the PTX. Programs are followed step by step at many sizes: every bucket, the corners
// of what the symbols allow, and sizes between them that the guards let through. So a finding about
// sizes names sizes at which it happens; that there is none proves nothing about sizes not tried.
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
  kError,    // It fails, or computes what nobody meant, at the sizes that are named.
  kWarning,  // It may.
  kNote,     // It does no harm: something that nothing uses.
};

// What people read: "error", "warning", "note".
const char* NameOf(Severity severity);

struct Finding {
  Severity severity = Severity::kError;
  std::string rule;     // "grid-limit": one word for one kind of fault.
  std::string file;     // Of the package: "manifest.json", or an image.
  std::string pointer;  // JSON pointer into manifest.json: "/programs/main/steps/3/grid/1".
  std::string value;    // What stands there, or what it becomes.
  std::string what;     // What is wrong with it, with the sizes at which it is.
  std::string advice;   // What to do.
};

// "manifest.json /programs/main/steps/3/grid/1: error grid-limit: 70000: ...; ..."
std::string ToText(const Finding& finding);

struct LintOptions {
  int64_t points_max = 2000;  // Sizes per program that are tried; fewer of programs of many steps.
  // What `call` steps may name beside "gemm"; not asked if empty.
  std::vector<std::string> functions{};
};

// All findings, errors first, then by pointer.
std::vector<Finding> Lint(const Package& package, const LintOptions& options);

// What `read` returns for a file of the manifest: its bytes, which live on, or why not.
using FileReader = std::function<absl::StatusOr<std::span<const std::byte>>(const std::string&)>;

// The same of a manifest whose files are elsewhere. Requires: what manifest.h says of one that was
// read.
std::vector<Finding> LintManifest(const Manifest& manifest,
                                  const FileReader& read,
                                  const LintOptions& options);

}  // namespace coppice::package
