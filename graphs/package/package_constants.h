// The constants of packages in a session's memory. Private to graphs/.
//
// Programs of one package share them: each is uploaded once, when the first program that reads it
// is registered, and stays as long as the session, which a package need not.
//
// Threads: any.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"
#include "coppice/graphs/package_program.h"
#include "coppice/runtime/loaded_package.h"

namespace coppice::internal {

// Writes row-major elements to where the strides of `layout` say, and zeros between them. Requires:
// `target` has the bytes of its span.
void Spread(const Tensor& layout, std::span<const std::byte> elements, std::span<std::byte> target);

class PackageConstants {
 public:
  // Places `layout`, which has elements and no address, in the session's memory. `bytes` are its
  // elements, row-major, and stay where they are.
  using Upload = absl::FunctionRef<absl::StatusOr<Tensor>(const Tensor& layout,
                                                          std::span<const std::byte> bytes)>;

  // Those that `program` and its children read, by index of the manifest; others are empty.
  //
  // Errors: kInvalidArgument  one that has no data and was not given, or was given in another
  //                           dtype, shape or layout: which;
  //         otherwise the upload's.
  absl::StatusOr<std::vector<Tensor>> Place(const package::LoadedPackage& package,
                                            int program,
                                            const PackageProgramOptions& options,
                                            Upload upload);

 private:
  std::mutex mutex_;
  std::map<std::pair<uint64_t, int>, Tensor> placed_;  // By the package's number.
};

}  // namespace coppice::internal
