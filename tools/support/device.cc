// Opens CUDA or the emulator behind a ledger.

#include "tools/support/device.h"

#include <utility>

#include "coppice/base/status.h"

namespace coppice {

absl::StatusOr<DeviceChoice> ParseDeviceChoice(const std::string& text) {
  if (text == "auto") return DeviceChoice::kAuto;
  if (text == "host") return DeviceChoice::kHost;
  if (text == "cuda") return DeviceChoice::kCuda;
  return InvalidArgument("'{}' is not a device; give auto, host or cuda", text);
}

absl::StatusOr<KernelChoice> ParseKernelChoice(const std::string& text) {
  if (text == "host") return KernelChoice::kHost;
  if (text == "ptx") return KernelChoice::kPtx;
  return InvalidArgument("'{}' is not a kind of kernel; give host or ptx", text);
}

absl::StatusOr<ChosenDriver> ChosenDriver::Open(DeviceChoice choice,
                                                uint64_t seed,
                                                KernelChoice kernels) {
  Emulator::Options options;
  options.seed = seed;
  options.compiled_kernels = kernels == KernelChoice::kPtx;
  return Open(choice, options);
}

absl::StatusOr<ChosenDriver> ChosenDriver::Open(DeviceChoice choice,
                                                const Emulator::Options& options) {
  std::string cuda_absence;
  if (choice != DeviceChoice::kHost) {
    const absl::StatusOr<Driver> cuda = Driver::LoadCuda();
    if (cuda.ok()) return ChosenDriver(*cuda);
    if (choice == DeviceChoice::kCuda) return cuda.status();
    cuda_absence = MessageOf(cuda.status());
  }
  COPPICE_ASSIGN_OR_RETURN(std::unique_ptr<Emulator> emulator, Emulator::Create(options));
  ChosenDriver chosen(emulator->driver());
  chosen.cuda_absence_ = std::move(cuda_absence);
  chosen.emulator_ = std::move(emulator);
  return chosen;
}

std::vector<std::string> ChosenDriver::reports() const {
  return emulator_ == nullptr ? std::vector<std::string>() : emulator_->reports();
}

std::vector<KernelFinding> ChosenDriver::kernel_findings() const {
  return emulator_ == nullptr ? std::vector<KernelFinding>() : emulator_->kernel_findings();
}

absl::StatusOr<std::unique_ptr<Device>> Device::Open(const Options& options) {
  COPPICE_ASSIGN_OR_RETURN(ChosenDriver chosen,
                           ChosenDriver::Open(options.choice, options.seed, options.kernels));
  std::unique_ptr<Device> device(new Device(std::move(chosen)));
  COPPICE_ASSIGN_OR_RETURN(device->ledger_,
                           DriverLedger::Create(device->chosen_.driver(), options.ledger));
  COPPICE_ASSIGN_OR_RETURN(Context context, Context::Create(device->ledger_->driver()));
  device->context_.emplace(std::move(context));
  return device;
}

std::string Device::Name() const {
  std::string name = context_->DeviceName();
  return name.empty() ? kind() : name;
}

}  // namespace coppice
