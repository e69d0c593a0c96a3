// A device to test on: an emulator or a GPU, its context, one stream, and a check that nothing
// leaks.
//
//   TestDevice device;
//   COPPICE_ASSERT_OK_AND_ASSIGN(const DeviceMemory x, device.Upload<float>({1, 2, 3}));
//   EXPECT_EQ(device.Download<float>(x.address(), 3), (std::vector<float>{1, 2, 3}));
//
// Its destructor fails the test if anything that the test made on the device is still alive, on a
// GPU as far as the ledger knows, or if the emulator has something to report; declare it before
// everything else. The order in which the emulator runs work comes from a seed, drawn for each run
// of a test program, which prints it.
//
// Units: bytes unless a name says otherwise. Threads: the thread that made it; others first call
// context().MakeCurrent().

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "coppice/base/tensor.h"
#include "coppice/base/units.h"
#include "coppice/runtime/emulator.h"
#include "coppice/runtime/kernel_library.h"
#include "coppice/runtime/stream.h"

#include "tools/ledger/driver_ledger.h"

namespace coppice {

// The seed that COPPICE_TEST_SEED gives; nothing if it is not set. InvalidArgument: it is no
// decimal number of 64 bits.
absl::StatusOr<std::optional<uint64_t>> GivenTestSeed();

// The seed of this process's tests: COPPICE_TEST_SEED in the environment, or a drawn number, which
// the first call prints and leaves in the environment for the children of death tests.
uint64_t TestSeed();

// Whether kernels run as what nvcc made of them: where COPPICE_TEST_KERNELS is ptx.
bool TestsCompiledKernels();

// The emulator's options with the seed of this process's tests.
Emulator::Options TestEmulatorOptions();

// Why tests cannot run on CUDA here; empty if they can.
std::string WhyNoCuda();

// Retains the primary context of device 0 of CUDA once more than the tests do, until the process
// ends or gives it back: the last release resets the device, for a fifth of a second or more, and
// tests that each have a context would do so each. Fails the test if CUDA refuses.
void KeepCudaContext(const DriverTable& cuda);
// Gives it back, for a test about the last release, in a child process. Requires: nothing.
void GiveBackCudaContext(const DriverTable& cuda);

class TestDevice {
 public:
  // Device 0 of the driver of this kind, be it an emulator with these options. Aborts if driver or
  // ledger cannot be made. Without ledger options there is no ledger.
  TestDevice(DriverKind kind,
             const Emulator::Options& options,
             std::optional<DriverLedger::Options> ledger);
  explicit TestDevice(const Emulator::Options& options = TestEmulatorOptions(),
                      std::optional<DriverLedger::Options> ledger = std::nullopt)
      : TestDevice(DriverKind::kEmulator, options, ledger) {}
  explicit TestDevice(const DriverLedger::Options& ledger)
      : TestDevice(TestEmulatorOptions(), ledger) {}
  ~TestDevice();
  TestDevice(const TestDevice&) = delete;
  TestDevice& operator=(const TestDevice&) = delete;

  // The ledger's driver if there is a ledger, else the emulator's or CUDA's.
  const Driver& driver() const { return ledger_ ? ledger_->driver() : *driver_; }
  Emulator& emulator() { return *emulator_; }  // Requires: made on one.
  DriverLedger& ledger() { return *ledger_; }  // Requires: made with one.
  const Context& context() const { return *context_; }
  CuStream stream() const { return stream_->handle(); }

  // Waits for the stream.
  absl::Status Synchronize() const { return stream_->Synchronize(); }

  // Allocates memory that holds `values`, at least one byte of it.
  template <typename T>
  absl::StatusOr<DeviceMemory> Upload(const std::vector<T>& values) const {
    return UploadBytes(std::as_bytes(std::span(values)));
  }

  // Copies `values` to `target`, in stream order, and waits.
  template <typename T>
  absl::Status Write(DeviceAddress target, const std::vector<T>& values) const {
    return WriteBytes(target, std::as_bytes(std::span(values)));
  }

  // The `count` elements at `source`, after all work of the stream. Fails the test and returns
  // zeros if they cannot be read.
  template <typename T>
  std::vector<T> Download(DeviceAddress source, int64_t count) const {
    std::vector<T> values(static_cast<size_t>(count));
    EXPECT_TRUE(ReadBytes(source, std::as_writable_bytes(std::span(values))).ok());
    return values;
  }

 private:
  absl::StatusOr<DeviceMemory> UploadBytes(std::span<const std::byte> bytes) const;
  absl::Status WriteBytes(DeviceAddress target, std::span<const std::byte> bytes) const;
  absl::Status ReadBytes(DeviceAddress source, std::span<std::byte> bytes) const;

  testing::ScopedTrace trace_;
  std::unique_ptr<Emulator> emulator_;  // Null on CUDA.
  std::optional<Driver> driver_;
  std::unique_ptr<DriverLedger> ledger_;
  std::optional<Context> context_;
  std::optional<Stream> stream_;
};

// A dense tensor of so many floats there.
inline Tensor FloatsAt(DeviceAddress address, int64_t count) {
  return Tensor::Dense(address, DType::kFloat32, {&count, 1});
}

// A device address as the typed pointer that kernel parameters hold.
template <typename T>
T* PointerAt(DeviceAddress address) {
  return reinterpret_cast<T*>(address);
}

}  // namespace coppice
