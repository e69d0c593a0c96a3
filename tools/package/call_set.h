// What one call of a package's program gets: arrays for its copied inputs, values for its scalars.
//
//   --input x=@x.npy --input mask=random:3 --extent n=5,33     two sets: n = 5, and n = 33
//
// Sizes come from scalars, from the axes of arrays that are read from files, from --extent, and
// else from the package's hints; arrays that are drawn get the shape that follows from them. Copied
// inputs that nothing gives are drawn if they are floats; integers and bools, which may be indices
// and lengths, are the fill that the package declares: the one value that each program stands.
//
// Units: elements. Threads: pure functions, apart from the file system.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/manifest.h"

#include "tools/package/host_array.h"

namespace coppice {

// As the command line has it.
struct CallSetTexts {
  std::vector<std::string> inputs;   // As tools/package/given_value.h has them.
  std::vector<std::string> extents;  // Of which only numbers.
  std::vector<std::string> folders;  // One per set: NAME.npy for what `inputs` does not give.
};

struct CallSet {
  std::vector<int64_t> extents;   // Per symbol.
  std::vector<int64_t> scalars;   // All of them, in the program's order.
  std::vector<HostArray> inputs;  // The copied ones, in the program's order.
};

// One set, or as many as there are folders, or numbers for one name. Errors: kInvalidArgument a
// name that the program has not, a scalar or a size that nothing gives, sizes that contradict each
// other, a file that does not fit.
absl::StatusOr<std::vector<CallSet>> MakeCallSets(const package::Program& program,
                                                  const CallSetTexts& texts);

// The arrays of the static inputs, in the program's order; `texts` as `inputs` above. One that is
// not given is zeros if the program mutates it, as a cache begins, and otherwise an error.
absl::StatusOr<std::vector<HostArray>> MakeStatics(const package::Program& program,
                                                   const std::vector<std::string>& texts);

// What expressions of a program read: extents, then scalars, 0 for those that are no part of the
// key.
std::vector<int64_t> ValuesOf(const package::Program& program,
                              std::span<const int64_t> extents,
                              std::span<const int64_t> scalars);

// Sizes at these values. Errors: kInvalidArgument one that has no value, or a negative one.
absl::StatusOr<std::vector<int64_t>> SizesAt(const std::vector<package::Amount>& amounts,
                                             std::span<const int64_t> values,
                                             const std::string& buffer);

// The symbol that a size is the bare name of, or -1.
int BareSymbol(const package::Program& program, const package::Amount& amount);

}  // namespace coppice
