// A case: the calls that the flight recorder kept, as a file that `coppice replay` runs.
//
//   absl::StatusOr<Case> read = ReadCase("fault.coppice-case");
//   read->calls.back().inputs[0].tensor          "calls/7/inputs/x", a name in read->tensors
//
// The file is a canonical zip, like a package: manifest.json, tensors.safetensors, and perhaps
// package.zip. graphs/case/CASE.md describes the format. A case that was read is consistent: each
// index exists, each tensor exists and has the sizes in its call, and numbers that must not be
// negative are not. Only a reader with the package can check whether the calls fit their program.
//
// Units: elements, bytes where a name says so. Threads: plain values; the functions are pure apart
// from the file system.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/padding_claim.h"
#include "coppice/base/tensor.h"
#include "coppice/graphs/call.h"
#include "coppice/graphs/flight_recorder.h"
#include "coppice/graphs/reason.h"

namespace coppice {

// A tensor of a case, row-major and without gaps. Sizes are in elements.
struct CaseTensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  std::string bytes;

  friend bool operator==(const CaseTensor&, const CaseTensor&) = default;
};

struct CaseSymbol {
  std::string name;
  std::string policy;                 // Its policy at the time, as people write it.
  std::optional<PaddingClaim> claim;  // None: it is never padded.

  friend bool operator==(const CaseSymbol&, const CaseSymbol&) = default;
};

struct CaseProgram {
  std::string name;
  std::string variant;
  std::string package_program;  // Its name in the package; empty: a callable.
  std::string package_sha256;   // Of the package's manifest.
  std::string package_path;     // Where the package was.
  std::vector<CaseSymbol> symbols;
  std::vector<std::string> scalars;
  std::vector<std::string> inputs;   // Copied inputs.
  std::vector<std::string> statics;  // Static inputs.
  std::vector<std::string> outputs;

  friend bool operator==(const CaseProgram&, const CaseProgram&) = default;
};

// The values of a static input.
struct CaseStatic {
  std::string tensor;     // In Case::tensors; empty: the case does not have it.
  bool dangling = false;  // The driver knew no memory at its address.

  friend bool operator==(const CaseStatic&, const CaseStatic&) = default;
};

// Static inputs of one binding, with their values when the case was saved.
struct CaseBinding {
  int program = 0;
  std::vector<CaseStatic> statics;

  friend bool operator==(const CaseBinding&, const CaseBinding&) = default;
};

// One copied input of a call.
struct CaseInput {
  std::string tensor;  // In Case::tensors; empty: the case does not have its values.
  // If `output` >= 0, the input was read in place: in that output of call `call`, from its byte
  // `at` on.
  uint64_t call = 0;
  int output = -1;
  int64_t at = 0;
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  std::vector<int64_t> strides;  // Only for an input that was read in place; otherwise empty.

  friend bool operator==(const CaseInput&, const CaseInput&) = default;
};

struct CaseCall {
  uint64_t number = 0;  // Ascending.
  int program = 0;
  int binding = -1;  // -1: the program binds nothing.
  RunKind kind = RunKind::kReplay;
  Reason reason = Reason::kNone;
  Poison poison = Poison::kOff;
  OutputMode mode = OutputMode::kBorrow;
  bool ran = false;              // All of its work was submitted.
  bool arrived = false;          // Its inputs reached the ring before the device stopped.
  std::vector<int64_t> extents;  // Per symbol.
  std::vector<int64_t> bucket;   // The extents that it ran with.
  std::vector<int64_t> scalars;
  std::optional<std::pair<uint64_t, int64_t>> random;  // Seed and offset of its generator.
  std::vector<CaseInput> inputs;
  std::vector<CaseStatic> statics;   // Their values before the call; empty if none are recorded.
  std::vector<std::string> outputs;  // Names in `tensors`; no elements if none are recorded.
  std::vector<uint64_t> donated;     // Calls whose leases were donated to it.

  friend bool operator==(const CaseCall&, const CaseCall&) = default;
};

struct Case {
  std::string why;
  std::string error;    // The sticky error of the device; empty: none.
  std::string version;  // Of coppice.
  std::string device;
  std::string driver;  // "cuda" or "emulator".
  int64_t driver_version = 0;
  int lane = 0;
  CaseValues values = CaseValues::kKeep;
  int64_t calls_dropped = 0;  // Older calls, for which the ring had no more room.
  int64_t calls_refused = 0;  // Calls for which the ring had no room when they ran.
  int64_t calls_skipped = 0;  // Calls that were not kept because of RecorderOptions::copy_ns_max.
  std::vector<CaseProgram> programs;
  std::vector<CaseBinding> bindings;
  std::vector<CaseCall> calls;
  std::map<std::string, CaseTensor> tensors;
  std::string package;  // The bytes of the package's zip; empty: the case does not have it.

  friend bool operator==(const Case&, const Case&) = default;
};

// The bytes of a case. Errors: kInvalidArgument more than 4 GiB.
absl::StatusOr<std::string> FormatCase(const Case& value);
// Writes a case to `path`, and replaces an existing file. Errors: those of FormatCase; the code for
// the errno.
absl::Status WriteCase(const Case& value, const std::string& path);

// Errors of both: kInvalidArgument with the file, the JSON pointer or the offset, what is wrong and
// what would be right; kUnimplemented another major version; the code for the errno.
absl::StatusOr<Case> ParseCase(std::span<const std::byte> bytes, const std::string& name);
absl::StatusOr<Case> ReadCase(const std::string& path);

}  // namespace coppice
