// The bytes that the arguments of a launch point to, for a driver that can check the kernel's
// accesses against them.
//
// A driver gets addresses, but not the sizes of the buffers there. Code that launches from a
// description of the kernel knows the sizes, and declares them around the driver's call:
//
//   const ArgumentBytes arguments[] = {{.argument = 0, .name = "x", .begin = x, .bytes = 64},
//                                      {.argument = 1, .name = "y", .begin = y, .bytes = 64,
//                                       .writes = true}};
//   const AccessBounds bounds(arguments);
//   driver.Call<&DriverTable::LaunchKernel>(...);
//
// The emulator keeps the bounds with the launch, or with the node of a graph. If a compiled kernel
// accesses anything else, except variables of its module, the context ends with 700, and fault()
// names the nearest argument. The emulator also keeps the step of the program, and
// kernel_findings() names it. CUDA's driver ignores bounds and steps.
//
// Units: bytes. Threads: bounds apply to launches on the thread that made them.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "coppice/base/units.h"

namespace coppice {

struct ArgumentBytes {
  int argument = 0;       // Index of the kernel's argument, from 0; a struct may have several
                          // entries.
  std::string_view name;  // Its name in messages.
  DeviceAddress begin = 0;
  int64_t bytes = 0;
  bool writes = false;  // Whether the kernel may write these bytes; it may always read them.
};

// The step of a program that launches. The driver's findings name it.
struct LaunchStep {
  std::string_view program;
  int step = -1;  // -1: none is known.
};

class [[nodiscard]] AccessBounds {
 public:
  // While the object lives, kernels that this thread launches or adds to graphs may access only
  // these bytes. `arguments` and the name in `step` must outlive the object. If several objects
  // live, the innermost applies. Cost: allocates nothing.
  explicit AccessBounds(std::span<const ArgumentBytes> arguments, const LaunchStep& step = {});
  ~AccessBounds();
  AccessBounds(const AccessBounds&) = delete;
  AccessBounds& operator=(const AccessBounds&) = delete;

  std::span<const ArgumentBytes> arguments() const { return arguments_; }
  const LaunchStep& step() const { return step_; }

  // The bounds of the calling thread; null: its launches have none.
  static const AccessBounds* Current();

 private:
  const std::span<const ArgumentBytes> arguments_;
  const LaunchStep step_;
  const AccessBounds* const outer_;
};

}  // namespace coppice
