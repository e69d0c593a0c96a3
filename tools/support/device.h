// The device that a command works on: a driver, the ledger around it, and a current context.
//
// Threads: one at a time; the context is current on the thread that opened the device.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/emulator.h"
#include "coppice/runtime/stream.h"

#include "tools/ledger/driver_ledger.h"

namespace coppice {

enum class DeviceChoice : uint8_t {
  kAuto,  // CUDA where there is a device, otherwise the host.
  kHost,  // The emulator.
  kCuda,
};

// Reads `auto`, `host` or `cuda`. Errors: kInvalidArgument quoting the text.
absl::StatusOr<DeviceChoice> ParseDeviceChoice(const std::string& text);

// What the emulator runs of a kernel; CUDA runs what was compiled for it.
enum class KernelChoice : uint8_t {
  kHost,  // Its host code.
  kPtx,   // The PTX that nvcc made of it.
};

// Reads `host` or `ptx`. Errors: kInvalidArgument quoting the text.
absl::StatusOr<KernelChoice> ParseKernelChoice(const std::string& text);

// The driver that a choice leads to: CUDA's, or that of an emulator of its own.
class ChosenDriver {
 public:
  // `seed` and `kernels` are the emulator's. Errors: kUnavailable if CUDA was asked for and is
  // absent; as Emulator::Create.
  static absl::StatusOr<ChosenDriver> Open(DeviceChoice choice,
                                           uint64_t seed,
                                           KernelChoice kernels = KernelChoice::kHost);
  // The same with all that the emulator may be told.
  static absl::StatusOr<ChosenDriver> Open(DeviceChoice choice, const Emulator::Options& emulator);

  const Driver& driver() const { return driver_; }
  bool is_cuda() const { return driver_.kind() == DriverKind::kCuda; }
  const char* kind() const { return is_cuda() ? "cuda" : "host"; }

  // Why CUDA was not taken under kAuto; empty otherwise.
  const std::string& cuda_absence() const { return cuda_absence_; }

  // As Emulator::reports; empty on CUDA.
  std::vector<std::string> reports() const;
  // As Emulator::kernel_findings; empty on CUDA.
  std::vector<KernelFinding> kernel_findings() const;
  Emulator* emulator() const { return emulator_.get(); }  // Null on CUDA.
  // As Emulator::fault; empty on CUDA.
  std::string fault() const { return emulator_ == nullptr ? std::string() : emulator_->fault(); }

 private:
  explicit ChosenDriver(const Driver& driver) : driver_(driver) {}

  std::string cuda_absence_;
  std::unique_ptr<Emulator> emulator_;  // Null on CUDA.
  Driver driver_;
};

class Device {
 public:
  struct Options {
    DeviceChoice choice = DeviceChoice::kAuto;
    uint64_t seed = 1;                           // Of the emulator ...
    KernelChoice kernels = KernelChoice::kHost;  // ... too.
    DriverLedger::Options ledger;
  };

  // Opens device 0 of the driver chosen. Errors: as ChosenDriver::Open, DriverLedger::Create and
  // Context::Create.
  static absl::StatusOr<std::unique_ptr<Device>> Open(const Options& options);

  const Context& context() const { return *context_; }
  const Driver& driver() const { return ledger_->driver(); }
  const DriverLedger& ledger() const { return *ledger_; }
  bool is_cuda() const { return chosen_.is_cuda(); }
  const char* kind() const { return chosen_.kind(); }
  std::string Name() const;  // As the driver calls it, or the kind.

  // As those of ChosenDriver.
  const std::string& cuda_absence() const { return chosen_.cuda_absence(); }
  std::vector<std::string> reports() const { return chosen_.reports(); }

 private:
  explicit Device(ChosenDriver chosen) : chosen_(std::move(chosen)) {}

  ChosenDriver chosen_;
  std::unique_ptr<DriverLedger> ledger_;
  std::optional<Context> context_;
};

}  // namespace coppice
