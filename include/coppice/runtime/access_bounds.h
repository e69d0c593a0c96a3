// The bytes that a launch's arguments stand for, told to a driver that can hold the kernel to them.
//
// A driver is given addresses, and does not learn where what lies there ends. Who launches from a
// description of the kernel knows, and says so around the driver's call:
//
//   const ArgumentBytes arguments[] = {{.argument = 0, .name = "x", .begin = x, .bytes = 64},
//                                      {.argument = 1, .name = "y", .begin = y, .bytes = 64,
//                                       .writes = true}};
//   const AccessBounds bounds(arguments);
//   driver.Call<&DriverTable::LaunchKernel>(...);
//
// The emulator keeps them with the launch, or with the node of a graph. A compiled kernel that
// accesses anything else, but for variables of its module, ends the context with 700, and fault()
// names the nearest argument. CUDA's driver never asks.
//
// Units: bytes. Threads: bounds are of launches by the thread that made them.

#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "coppice/base/units.h"

namespace coppice {

struct ArgumentBytes {
  int argument = 0;       // Of the kernel, from 0; several may be of one struct.
  std::string_view name;  // What people call it.
  DeviceAddress begin = 0;
  int64_t bytes = 0;
  bool writes = false;  // Whether the kernel may write them; it may always read.
};

class [[nodiscard]] AccessBounds {
 public:
  // Holds what this thread launches and adds to graphs while it lives to these bytes, all of them
  // together. `arguments` outlive it. Of several the innermost counts. Cost: allocates nothing.
  explicit AccessBounds(std::span<const ArgumentBytes> arguments);
  ~AccessBounds();
  AccessBounds(const AccessBounds&) = delete;
  AccessBounds& operator=(const AccessBounds&) = delete;

  std::span<const ArgumentBytes> arguments() const { return arguments_; }

  // Those of the calling thread; null: its launches are not held to anything.
  static const AccessBounds* Current();

 private:
  const std::span<const ArgumentBytes> arguments_;
  const AccessBounds* const outer_;
};

}  // namespace coppice
