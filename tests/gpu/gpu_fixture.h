// Tests of what a GPU must do, which run on every driver: an instance Emulator, which shows that
// the test itself works, and an instance Cuda, which is skipped where there is no GPU.
//
// Threads: one test at a time.

#pragma once

#include <string>

#include "gtest/gtest.h"

#include "coppice/runtime/driver.h"

#include "tests/support/test_device.h"

namespace coppice {

class GpuFixture : public testing::TestWithParam<DriverKind> {
 protected:
  void SetUp() override {
    if (GetParam() != DriverKind::kCuda) return;
    if (const std::string reason = WhyNoCuda(); !reason.empty()) GTEST_SKIP() << reason;
  }

  // The driver for the test's device, which is made before a test can be skipped: where there is no
  // CUDA, an emulator that nobody uses.
  static DriverKind Kind() { return WhyNoCuda().empty() ? GetParam() : DriverKind::kEmulator; }
};

// Instantiates a suite that derives from GpuFixture.
#define COPPICE_GPU_SUITE(suite)                                                       \
  INSTANTIATE_TEST_SUITE_P(                                                            \
      Drivers, suite, testing::Values(DriverKind::kEmulator, DriverKind::kCuda),       \
      [](const testing::TestParamInfo<DriverKind>& instance) {                         \
        return std::string(instance.param == DriverKind::kCuda ? "Cuda" : "Emulator"); \
      })

}  // namespace coppice
