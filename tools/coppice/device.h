// The device that a command works on: a driver, the ledger around it, and a current context.
//
// Threads: one at a time; the context is current on the thread that opened the device.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "coppice/runtime/driver.h"
#include "coppice/runtime/driver_ledger.h"
#include "coppice/runtime/emulator.h"
#include "coppice/runtime/stream.h"

namespace coppice {

enum class DeviceChoice : uint8_t {
  kAuto,  // CUDA where there is a device, otherwise the host.
  kHost,  // The emulator.
  kCuda,
};

// Reads `auto`, `host` or `cuda`. Errors: kInvalidArgument quoting the text.
absl::StatusOr<DeviceChoice> ParseDeviceChoice(const std::string& text);

class Device {
 public:
  struct Options {
    DeviceChoice choice = DeviceChoice::kAuto;
    uint64_t seed = 1;  // Of the emulator.
    DriverLedger::Options ledger;
  };

  // Opens device 0 of the driver chosen. Errors: kUnavailable if CUDA was asked for and is absent;
  // as Emulator::Create, DriverLedger::Create and Context::Create.
  static absl::StatusOr<std::unique_ptr<Device>> Open(const Options& options);

  const Context& context() const { return *context_; }
  const Driver& driver() const { return ledger_->driver(); }
  const DriverLedger& ledger() const { return *ledger_; }
  bool is_cuda() const { return driver_->kind() == DriverKind::kCuda; }
  const char* kind() const { return is_cuda() ? "cuda" : "host"; }
  std::string Name() const;  // As the driver calls it, or the kind.

  // Why CUDA was not taken under kAuto; empty otherwise.
  const std::string& cuda_absence() const { return cuda_absence_; }

 private:
  Device() = default;

  std::string cuda_absence_;
  std::unique_ptr<Emulator> emulator_;  // Null on CUDA.
  std::optional<Driver> driver_;
  std::unique_ptr<DriverLedger> ledger_;
  std::optional<Context> context_;
};

}  // namespace coppice
