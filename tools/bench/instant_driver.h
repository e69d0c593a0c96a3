// A driver whose launches return at once: what is left of a call is coppice's own cost.
//
// It is another driver with four entries replaced. Until the switch is on, they pass through, so
// that a program can be warmed up and recorded; from then on GraphLaunch, LaunchKernel,
// GraphExecKernelNodeSetParams and MemcpyDtoHAsync do nothing and succeed.
//
// Threads: one instance per process at a time, because a driver entry is a plain function.

#pragma once

#include "coppice/runtime/driver.h"

namespace coppice {

class InstantDriver {
 public:
  // Wraps `inner`, which must outlive this object. The switch is off.
  explicit InstantDriver(const Driver& inner);

  void Switch(bool instant);
  const Driver& driver() const { return driver_; }

 private:
  Driver driver_;
};

}  // namespace coppice
