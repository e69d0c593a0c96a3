// Launches of kernels: their dimensions, arguments and attributes.
//
//   Launch(driver, kernel, stream, params, 7)                       // 7 blocks; one struct.
//   Launch(driver, kernel, stream, params, {.grid = {7, 2, 3}})     // A grid of three dimensions.
//   Launch(driver, kernel, stream, Arguments(x, y, count), shape)   // One value per parameter.
//   Launch(driver, kernel, stream, pointers, shape)                 // A pointer to each value.
//
// The last form is for code that packs arguments by a table, such as loaders of compiled kernels.
// ParametersOf returns the place of each parameter, and pointers[i] points to value i in the
// buffer.
//
// A launch into a stream that captures becomes a kernel node with the same attributes.
//
// Units: grids and clusters count blocks, blocks count threads. Threads: any. A launch copies its
// arguments before it returns, and allocates only for the message of an error.

#pragma once

#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>

#include "absl/status/status.h"

#include "coppice/runtime/driver.h"

namespace coppice {

// Three dimensions; x varies fastest.
struct Dim3 {
  unsigned x = 1;
  unsigned y = 1;
  unsigned z = 1;
  friend bool operator==(const Dim3&, const Dim3&) = default;
};

// A launchable kernel. A plain value; valid while its KernelLibrary lives.
struct Kernel {
  CuFunction function = nullptr;
  const char* name = "";         // Its name in its library.
  unsigned block_threads = 0;    // The block size of a launch that gives none; 0: every launch must
                                 // give one.
  int parameter_count = -1;      // -1: unknown to the driver.
  int64_t parameter_bytes = -1;  // Where the last parameter ends; -1: unknown.
};

// How large a launch is, and how it may run.
struct LaunchShape {
  Dim3 grid = {};          // Blocks: up to 2^31 - 1 x 65535 x 65535.
  Dim3 block = {0, 1, 1};  // Threads; must fit the compiled kernel. x = 0: Kernel::block_threads.
  unsigned shared_bytes = 0;  // Dynamic shared memory. Beyond 48 KiB the kernel needs
                              // KernelNeeds::shared_bytes.
  // All blocks run at the same time, so that they may wait for each other (grid synchronisation).
  bool cooperative = false;
  // May start before the stream's last kernel has ended: programmatic dependent launch. Requires:
  // the kernel waits (griddepcontrol.wait) before it touches memory, because a plan reuses bytes in
  // stream order.
  bool programmatic = false;
  Dim3 cluster = {};  // Blocks that share a cluster, from SM 90 on; divides the grid.
};

// Pointers to the arguments of a launch, one per parameter, in the order of the parameters.
using ArgumentPointers = std::span<void* const>;

namespace internal {

// Zeroes the padding bytes of `value` if the compiler supports it, so that launches with equal
// arguments pass equal bytes.
template <typename Value>
void ClearPadding([[maybe_unused]] Value& value) {
#if __has_builtin(__builtin_clear_padding)
  if constexpr (!std::has_unique_object_representations_v<Value>) __builtin_clear_padding(&value);
#endif
}

absl::Status LaunchPointers(const Driver& driver,
                            const Kernel& kernel,
                            CuStream stream,
                            void** arguments,
                            const LaunchShape& shape);

// Errors: kInvalidArgument if `kernel` is known to have another number of parameters, or parameters
// that end elsewhere. If `bytes` is -1, the end is not checked.
absl::Status CheckArguments(const Kernel& kernel, size_t count, int64_t bytes);

template <typename T>
concept ParameterStruct = std::is_class_v<T> && std::is_trivially_copyable_v<T> &&
    !std::convertible_to<const T&, ArgumentPointers>;

}  // namespace internal

// The arguments of a kernel with several parameters, by value and in order. Their types must be
// those of the parameters: do not pass an int for an int64_t, or the literal 2.0 for a float.
template <typename... Values>
class Arguments {
  static_assert((std::is_trivially_copyable_v<Values> && ...), "a driver copies bytes");

 public:
  explicit Arguments(const Values&... values) : values_(values...) {}

  // Where the last value ends if the values are laid out like the members of a struct.
  static constexpr int64_t bytes() {
    size_t end = 0;
    ((end = (end + alignof(Values) - 1) / alignof(Values) * alignof(Values) + sizeof(Values)), ...);
    return static_cast<int64_t>(end);
  }

  // Pointers to the values in this object, whose padding is zeroed.
  std::array<void*, sizeof...(Values)> pointers() {
    return std::apply(
        [](Values&... values) {
          (internal::ClearPadding(values), ...);
          return std::array<void*, sizeof...(Values)>{&values...};
        },
        values_);
  }

 private:
  std::tuple<Values...> values_;
};

// Launches `blocks` blocks of a kernel with one parameter, a struct. Its padding is passed as zeros
// if the compiler supports it. Requires: `Parameters` is the struct of the kernel.
//
// Errors of every Launch: the driver's; kInvalidArgument for dimensions, shared memory, a
// cooperative grid or a cluster beyond what the kernel or the device allows; kUnimplemented for
// launches that this driver does not execute (emulator.h). The messages name the kernel and the
// shape of the launch, except those of this Launch, because replays call it. Cost: one driver call.
template <internal::ParameterStruct Parameters>
absl::Status Launch(const Driver& driver,
                    const Kernel& kernel,
                    CuStream stream,
                    const Parameters& parameters,
                    unsigned blocks) {
  const auto launch = [&](const Parameters& copied) {
    void* arguments[] = {const_cast<Parameters*>(&copied)};
    return driver.Call<&DriverTable::LaunchKernel>(
        kernel.function, blocks, 1U, 1U, kernel.block_threads, 1U, 1U, 0U, stream,
        static_cast<void**>(arguments), static_cast<void**>(nullptr));
  };
  if constexpr (std::has_unique_object_representations_v<Parameters>) {
    return launch(parameters);
  } else {
    Parameters clear = parameters;
    internal::ClearPadding(clear);
    return launch(clear);
  }
}

// The same in any shape.
template <internal::ParameterStruct Parameters>
absl::Status Launch(const Driver& driver,
                    const Kernel& kernel,
                    CuStream stream,
                    const Parameters& parameters,
                    const LaunchShape& shape) {
  Parameters copied = parameters;
  internal::ClearPadding(copied);
  void* arguments[] = {&copied};
  return internal::LaunchPointers(driver, kernel, stream, arguments, shape);
}

// Launches a kernel with several parameters. Errors: also kInvalidArgument if the kernel is known
// to have another number of parameters, or parameters that end elsewhere; then nothing is launched.
template <typename... Values>
absl::Status Launch(const Driver& driver,
                    const Kernel& kernel,
                    CuStream stream,
                    Arguments<Values...> arguments,
                    const LaunchShape& shape) {
  absl::Status checked =
      internal::CheckArguments(kernel, sizeof...(Values), Arguments<Values...>::bytes());
  if (!checked.ok()) return checked;
  auto pointers = arguments.pointers();
  return internal::LaunchPointers(driver, kernel, stream, pointers.data(), shape);
}

// The same with a pointer per parameter. Errors: also kInvalidArgument if the kernel is known to
// have another number of parameters, or a pointer is null; then nothing is launched. Requires: each
// pointer points to as many bytes as its parameter has.
absl::Status Launch(const Driver& driver,
                    const Kernel& kernel,
                    CuStream stream,
                    ArgumentPointers arguments,
                    const LaunchShape& shape);

}  // namespace coppice
