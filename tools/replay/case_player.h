// Plays the calls of a case on an emulator, in one way.
//
// Each play has an emulator and a session of its own, so nothing of one is left for the next. Calls
// run in their order, each is waited for, and a play ends with the first call in which something is
// found. An input that a call read in place is what the call before has computed here. Values that
// the case has not are drawn: floats from [-1, 1), all others are 0.
//
// Units: elements. Threads: one at a time.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/graphs/case_file.h"
#include "coppice/graphs/poison.h"
#include "coppice/runtime/emulator.h"

#include "tools/package/program_runner.h"

namespace coppice {

// How calls run.
struct Way {
  bool padded = true;  // As graphs, in the buckets of the case; else without graphs, at own sizes.
  Poison poison = Poison::kOff;
  uint64_t seed = 1;           // Of the order of blocks, warps and streams.
  bool uninitialized = false;  // Looks for reads of memory that nobody wrote.

  friend bool operator==(const Way&, const Way&) = default;
};
// "padded, padding of nan, seed 3"
std::string TextOf(const Way& way);

struct PlaySource {
  std::string package;    // A zip file, or a folder.
  std::string constants;  // As PackageDevice::TakeConstants.
};

// What lies at an address.
struct Hit {
  std::string buffer;  // A buffer, or "the plan window"; empty: nothing is known to lie there.
  std::string program;

  friend bool operator==(const Hit&, const Hit&) = default;
};

// What the emulator found in a call.
struct Trouble {
  size_t call = 0;                       // Index into Case::calls.
  std::optional<KernelFinding> finding;  // Of a kernel; nothing: of anything else.
  std::string text;
  Hit hit;
};

struct Played {
  // Per call of the case: what came of it; nothing: it was not run.
  std::vector<std::optional<RunOutcome>> outcomes;
  std::vector<std::string> notes;  // Why calls were not run, and what was drawn.
  std::optional<Trouble> trouble;  // The play ended there.
};

// Errors: kInvalidArgument a package, constants or calls that do not fit each other; as
// PackageDevice and Session, but for faults of the device.
absl::StatusOr<Played> PlayCase(const Case& value, const PlaySource& source, const Way& way);

// What `value` claims about the symbols of program `index`, in place of the package's.
std::map<std::string, std::optional<PaddingClaim>> ClaimsOf(const Case& value, int index);

// The static inputs of a binding, as the first of its calls found them. Adds what was drawn to
// `notes`. Errors: kInvalidArgument the case has others than the program.
absl::StatusOr<std::vector<HostArray>> StaticsOf(const Case& value,
                                                 int binding,
                                                 const package::Program& program,
                                                 std::vector<std::string>& notes);

// The index of a program of the case in the package. Errors: kInvalidArgument it has none.
absl::StatusOr<int> ProgramIn(const package::Manifest& manifest, const CaseProgram& program);

HostArray ArrayOf(const CaseTensor& tensor);

}  // namespace coppice
