// A kernel package on a device of its own: opened, checked, loaded, with the constants that it has
// no data of.
//
// Units: bytes. Threads: one at a time; the context is current on the thread that opened it.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/runtime/emulator.h"
#include "coppice/runtime/loaded_package.h"
#include "coppice/runtime/package.h"
#include "coppice/runtime/stream.h"

#include "tools/bench/instant_driver.h"
#include "tools/ledger/driver_ledger.h"
#include "tools/package/host_array.h"
#include "tools/support/console.h"
#include "tools/support/device.h"

namespace coppice {

struct PackageDeviceOptions {
  DeviceChoice choice = DeviceChoice::kAuto;
  Emulator::Options emulator;
  bool time_driver = false;  // Sums the time inside the driver.
};

// The emulator's defaults, and reads of what nobody wrote.
inline Emulator::Strictness AllKernelChecks() {
  Emulator::Strictness strictness;
  strictness.uninitialized_read = true;
  return strictness;
}

// What of the emulator's strictness looks for mistakes of kernels: "all", "none", or some of
// "races", "uninitialized" and "undeclared", with commas between. Errors: kInvalidArgument quoting
// the text.
absl::StatusOr<Emulator::Strictness> ParseKernelChecks(const std::string& text);

class PackageDevice {
 public:
  // Opens the package at `path` and checks every byte of it; where there are files of trusted keys
  // (key_file.h), one of them signed it. Errors: as OpenSigned and Verify.
  static absl::StatusOr<package::Package> OpenPackage(const std::string& path,
                                                      const std::vector<std::string>& trusted_keys);

  // Opens the device. Errors: as ChosenDriver::Open, and the driver's.
  static absl::StatusOr<std::unique_ptr<PackageDevice>> Create(const PackageDeviceOptions& options);

  // Loads a package that was opened; one at a time per device. Errors: as LoadedPackage::Load.
  absl::Status Load(package::Package package);

  // Takes those constants that the program at `index` reads and the package has no data of: from
  // the safetensors file at `path`, if it is not empty and has them; else they are drawn as the
  // manifest's x-random says. Requires: loaded. Errors: kInvalidArgument one that neither has, or
  // that does not fit; as Safetensors::Open; the driver's.
  absl::Status TakeConstants(int index, const std::string& path);

  const package::LoadedPackage& loaded() const { return *loaded_; }
  const package::Manifest& manifest() const { return loaded_->manifest(); }
  const std::map<std::string, Tensor>& constants() const { return constants_; }
  const ChosenDriver& chosen() const { return chosen_; }
  const Driver& driver() const { return instant_ ? instant_->driver() : timed(); }
  int64_t driver_ns() const { return ledger_ ? ledger_->driver_ns() : 0; }  // With time_driver.
  const Context& context() const { return *context_; }
  CuStream stream() const { return stream_->handle(); }
  std::string Name() const;  // As the driver calls it, or the kind.

  // From now on launches do nothing, and neither does setting a node: calls cost what coppice does.
  // Requires: time_driver.
  void SwitchInstant() { instant_->Switch(true); }

  // Copies to and from device memory, waited for. Errors: the driver's.
  absl::Status Write(DeviceAddress address, std::string_view bytes) const;
  absl::StatusOr<HostArray> Read(const Tensor& tensor) const;

  // Device memory for a tensor of these sizes and strides, with the array's elements in it. Empty
  // strides: dense. Errors: the driver's.
  struct Placed {
    DeviceMemory memory;
    Tensor tensor;
  };
  absl::StatusOr<Placed> Place(const HostArray& array, std::span<const int64_t> strides) const;

 private:
  explicit PackageDevice(ChosenDriver chosen) : chosen_(std::move(chosen)) {}

  const Driver& timed() const { return ledger_ ? ledger_->driver() : chosen_.driver(); }

  ChosenDriver chosen_;
  std::unique_ptr<DriverLedger> ledger_;  // Null: the driver is not timed.
  std::optional<InstantDriver> instant_;  // Over the ledger.
  std::optional<Context> context_;
  std::optional<Stream> stream_;
  std::unique_ptr<const package::LoadedPackage> loaded_;
  std::vector<DeviceMemory> memory_;  // Of constants.
  std::map<std::string, Tensor> constants_;
};

// How a command ends on an error: kExitStopped if it was cancelled, kExitOutput for data loss,
// kExitUsage for what is wrong with options and files, else kExitDevice.
ExitCode ExitCodeOf(const absl::Status& status);

// Index of the program of that name, or of the entry if it is empty. Errors: kInvalidArgument names
// those that there are.
absl::StatusOr<int> FindProgram(const package::Manifest& manifest, const std::string& name);

// Per index of the manifest: whether the program at `index`, or a child of it, reads it.
std::vector<bool> ConstantsRead(const package::Manifest& manifest, int index);
std::vector<bool> KernelsRun(const package::Manifest& manifest, int index);

}  // namespace coppice
