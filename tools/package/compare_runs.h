// Runs of one call, compared as the program's claims say.
//
// Units: elements. Threads: pure functions.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "coppice/base/padding_claim.h"
#include "coppice/graphs/poison.h"

#include "tools/package/program_runner.h"

namespace coppice {

struct Difference {
  std::string buffer;
  int64_t element = -1;  // The first; -1: the sizes differ.
  std::string text;      // "y[3] is 2.5, but 1 in an unpadded run without graphs"
};

// What all symbols of the program that may be padded leave equal: tolerances add up. `claims` are
// in place of the package's.
Equality EqualityOfProgram(const package::Program& program,
                           const std::map<std::string, std::optional<PaddingClaim>>& claims);

// The outputs and mutated inputs in which `actual` does not agree with `expected`.
std::vector<Difference> CompareRuns(const package::Program& program,
                                    const Equality& equal,
                                    const RunOutcome& expected,
                                    const RunOutcome& actual);

// The same of one array. Empty: they agree.
std::vector<Difference> CompareArrays(const std::string& buffer,
                                      const Equality& equal,
                                      const HostArray& expected,
                                      const HostArray& actual);

// "nan", "pattern", "noise"; "" for kOff.
const char* NameOf(Poison poison);

// The name as one of a file: '/' and '%' become %2F and %25, and a '.' in front %2E.
std::string FileNameOf(const std::string& name);

}  // namespace coppice
