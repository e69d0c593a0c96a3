// Launches in any shape, and what is said of those that fail.

#include "coppice/runtime/launch.h"

#include <algorithm>
#include <string>

#include "coppice/base/status.h"

namespace coppice {
namespace {

std::string TextOf(const Dim3& size) {
  return fmt::format("{} x {} x {}", size.x, size.y, size.z);
}

Dim3 BlockSizeOf(const Kernel& kernel, const LaunchShape& shape) {
  Dim3 size = shape.block;
  if (size.x == 0) size.x = kernel.block_threads;
  return size;
}

// What the caller can do about `result`.
std::string AdviceFor(const Driver& driver,
                      const Kernel& kernel,
                      const LaunchShape& shape,
                      CuResult result) {
  switch (result) {
    case CuResult::kInvalidValue:
      if (BlockSizeOf(kernel, shape).x == 0)
        return "; give a block size: the kernel does not define one";
      return "; a grid must have 1 to 2147483647 blocks on x, and 1 to 65535 on y and on z; a "
             "block must have the number of threads that the kernel was compiled for, at most "
             "1024; to use more than 48 KiB of shared memory, request it from KernelLibrary::Get";
    case CuResult::kCooperativeLaunchTooLarge:
      return "; launch no more blocks than the device can run at the same time";
    case CuResult::kInvalidClusterSize:
      return "; use clusters of at most 8 blocks, or request large_clusters from "
             "KernelLibrary::Get";
    case CuResult::kNotSupported:
      if (driver.kind() == DriverKind::kEmulator)
        return "; the emulator does not support this launch (see coppice/runtime/emulator.h): run "
               "it on a GPU";
      return "; the device does not support such launches";
    default:
      return "";
  }
}

// The attributes of `shape` that are not what every launch has.
class AttributeList {
 public:
  explicit AttributeList(const LaunchShape& shape) {
    if (shape.cooperative) Add(CuLaunchAttributeId::kCooperative).cooperative = 1;
    if (shape.programmatic)
      Add(CuLaunchAttributeId::kProgrammaticStreamSerialization).programmatic = 1;
    if (shape.cluster != Dim3())
      Add(CuLaunchAttributeId::kClusterDimension).cluster = {shape.cluster.x, shape.cluster.y,
                                                             shape.cluster.z};
  }

  CuLaunchAttribute* data() { return attributes_.data(); }
  unsigned count() const { return count_; }

 private:
  CuLaunchAttributeValue& Add(CuLaunchAttributeId id) {
    attributes_[count_].id = id;
    return attributes_[count_++].value;
  }

  std::array<CuLaunchAttribute, 3> attributes_;
  unsigned count_ = 0;
};

// What a launch that ended with `result`, which is no success, returns.
absl::Status LaunchFailure(const Driver& driver,
                           const Kernel& kernel,
                           const LaunchShape& shape,
                           CuResult result,
                           const char* entry) {
  const absl::Status cause = driver.ErrorOf(result, entry);
  std::string how;
  if (shape.shared_bytes > 0)
    how += fmt::format(" with {} bytes of dynamic shared memory", shape.shared_bytes);
  if (shape.cooperative) how += ", cooperative";
  if (shape.programmatic) how += ", programmatic";
  if (shape.cluster != Dim3())
    how += fmt::format(", in clusters of {} blocks", TextOf(shape.cluster));
  return WithFailureOf(
      cause, MakeError(cause.code(), "Launch: kernel '{}' in {} blocks of {} threads{}: {}{}",
                       kernel.name, TextOf(shape.grid), TextOf(BlockSizeOf(kernel, shape)), how,
                       MessageOf(cause), AdviceFor(driver, kernel, shape, result)));
}

}  // namespace

namespace internal {

absl::Status CheckArguments(const Kernel& kernel, size_t count, int64_t bytes) {
  if (kernel.parameter_count >= 0 && count != static_cast<size_t>(kernel.parameter_count))
    return InvalidArgument(
        "Launch: kernel '{}': the parameter count is {}, but the argument count is {}; give one "
        "argument for each parameter",
        kernel.name, kernel.parameter_count, count);
  if (bytes >= 0 && kernel.parameter_bytes >= 0 && bytes != kernel.parameter_bytes)
    return InvalidArgument(
        "Launch: the parameters of kernel '{}' take {} bytes, but the given arguments take {}; "
        "give each argument the type of its parameter",
        kernel.name, kernel.parameter_bytes, bytes);
  return absl::OkStatus();
}

absl::Status LaunchPointers(const Driver& driver,
                            const Kernel& kernel,
                            CuStream stream,
                            void** arguments,
                            const LaunchShape& shape) {
  const Dim3& grid = shape.grid;
  const Dim3 block = BlockSizeOf(kernel, shape);
  AttributeList attributes(shape);
  if (attributes.count() == 0) {
    const CuResult result =
        driver.table().LaunchKernel(kernel.function, grid.x, grid.y, grid.z, block.x, block.y,
                                    block.z, shape.shared_bytes, stream, arguments, nullptr);
    if (result == CuResult::kSuccess) return absl::OkStatus();
    return LaunchFailure(driver, kernel, shape, result, "cuLaunchKernel");
  }
  const CuLaunchConfig config{.grid_x = grid.x,
                              .grid_y = grid.y,
                              .grid_z = grid.z,
                              .block_x = block.x,
                              .block_y = block.y,
                              .block_z = block.z,
                              .shared_bytes = shape.shared_bytes,
                              .stream = stream,
                              .attributes = attributes.data(),
                              .attribute_count = attributes.count()};
  const CuResult result =
      driver.table().LaunchKernelEx(&config, kernel.function, arguments, nullptr);
  if (result == CuResult::kSuccess) return absl::OkStatus();
  return LaunchFailure(driver, kernel, shape, result, "cuLaunchKernelEx");
}

}  // namespace internal

absl::Status Launch(const Driver& driver,
                    const Kernel& kernel,
                    CuStream stream,
                    ArgumentPointers arguments,
                    const LaunchShape& shape) {
  COPPICE_RETURN_IF_ERROR(internal::CheckArguments(kernel, arguments.size(), -1));
  const auto null = std::find(arguments.begin(), arguments.end(), nullptr);
  if (null != arguments.end()) {
    return InvalidArgument(
        "Launch: the pointer to argument {} of kernel '{}' is null; point to a value of its type",
        null - arguments.begin(), kernel.name);
  }
  return internal::LaunchPointers(driver, kernel, stream, const_cast<void**>(arguments.data()),
                                  shape);
}

}  // namespace coppice
