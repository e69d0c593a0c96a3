// Opens CUDA or the emulator behind a ledger.

#include "tools/coppice/device.h"

#include <utility>

#include "coppice/base/status.h"

namespace coppice {

absl::StatusOr<DeviceChoice> ParseDeviceChoice(const std::string& text) {
  if (text == "auto") return DeviceChoice::kAuto;
  if (text == "host") return DeviceChoice::kHost;
  if (text == "cuda") return DeviceChoice::kCuda;
  return InvalidArgument("'{}' is no device; give auto, host or cuda", text);
}

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const Options& options) {
  std::unique_ptr<Device> device(new Device);
  if (options.choice != DeviceChoice::kHost) {
    absl::StatusOr<Driver> cuda = Driver::LoadCuda();
    if (cuda.ok()) {
      device->driver_ = *std::move(cuda);
    } else if (options.choice == DeviceChoice::kCuda) {
      return cuda.status();
    } else {
      device->cuda_absence_ = MessageOf(cuda.status());
    }
  }
  if (!device->driver_) {
    Emulator::Options emulator;
    emulator.seed = options.seed;
    COPPICE_ASSIGN_OR_RETURN(device->emulator_, Emulator::Create(emulator));
    device->driver_ = device->emulator_->driver();
  }
  COPPICE_ASSIGN_OR_RETURN(device->ledger_, DriverLedger::Create(*device->driver_, options.ledger));
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(device->ledger_->driver()));
  device->context_.emplace(std::move(context));
  return device;
}

std::string Device::Name() const {
  std::string name = context_->DeviceName();
  return name.empty() ? kind() : name;
}

}  // namespace coppice
