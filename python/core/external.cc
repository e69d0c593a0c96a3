// What other libraries are given and give.

#include "python/core/external.h"

#include <cstddef>
#include <cstdint>
#include <string>

#include "python/core/callbacks.h"
#include "python/core/device.h"
#include "python/core/methods.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

// The driver's cuMemcpyDtoDAsync_v2 and cuMemsetD8Async.
using CopyFunction = int (*)(uint64_t to, uint64_t from, size_t bytes, void* stream);
using FillFunction = int (*)(uint64_t to, unsigned char value, size_t count, void* stream);
// cuPointerGetAttribute and cuThreadExchangeStreamCaptureMode.
using AskFunction = int (*)(void* data, int attribute, uint64_t address);
using ExchangeFunction = int (*)(int* mode);
// cuCtxGetCurrent and cuCtxSetCurrent.
using CurrentFunction = int (*)(void** context);
using MakeCurrentFunction = int (*)(void* context);

constexpr int kBufferId = 7, kDeviceOrdinal = 9, kRelaxed = 2;

uintptr_t DriverFunction(const Device& self, const std::string& name) {
  return reinterpret_cast<uintptr_t>(Ask<&coppice_driver_entry>(self.handle(), name.c_str()));
}

template <typename Function>
Function FindFunction(const Device& device, const char* name) {
  return reinterpret_cast<Function>(DriverFunction(device, name));
}

// Within, the device is this thread's current one, for functions of the driver.
class CurrentScope {
 public:
  explicit CurrentScope(const Device& device)
      : set_(FindFunction<MakeCurrentFunction>(device, "cuCtxSetCurrent")) {
    known_ = FindFunction<CurrentFunction>(device, "cuCtxGetCurrent")(&before_) == 0;
    Ask<&coppice_device_make_current>(device.handle());
  }
  CurrentScope(const CurrentScope&) = delete;
  CurrentScope& operator=(const CurrentScope&) = delete;
  ~CurrentScope() {
    if (known_) set_(before_);
  }

 private:
  MakeCurrentFunction set_;
  void* before_ = nullptr;
  bool known_ = false;
};

// Calls a function of the driver on a stream of the device.
template <typename Function, typename... Arguments>
void CallDriver(const Device& device, const char* name, uintptr_t stream, Arguments... arguments) {
  const auto function = FindFunction<Function>(device, name);
  const CurrentScope current(device);
  void* const on = device.StreamAt(stream);
  int result = 0;
  {
    const GilRelease release;
    result = function(arguments..., on);
  }
  if (result != 0) RaiseDriver(name, result);
}

// Whether the driver says `attribute` of an address, also while a stream captures.
bool AskOf(const Device& device, int attribute, uint64_t address, void* answer) {
  const auto ask = FindFunction<AskFunction>(device, "cuPointerGetAttribute");
  const auto exchange = FindFunction<ExchangeFunction>(device, "cuThreadExchangeStreamCaptureMode");
  const CurrentScope current(device);
  const nb::gil_scoped_release release;
  int mode = kRelaxed;  // Or asking would end this thread's capture.
  exchange(&mode);
  const int result = ask(answer, attribute, address);
  exchange(&mode);
  return result == 0;
}

void Copy(const Device& self, uint64_t to, uint64_t from, uint64_t bytes, uintptr_t stream) {
  if (bytes > 0) CallDriver<CopyFunction>(self, "cuMemcpyDtoDAsync", stream, to, from, bytes);
}

void Fill(const Device& self, uint64_t to, uint64_t bytes, uint8_t value, uintptr_t stream) {
  if (bytes > 0) CallDriver<FillFunction>(self, "cuMemsetD8Async", stream, to, value, bytes);
}

bool Holds(const Device& self, uint64_t address) {
  uint64_t id = 0;
  return AskOf(self, kBufferId, address, &id);
}

void AddGraph(const Context& self, uintptr_t graph) {
  AskUnlocked<&coppice_context_add_graph>(self.handle(), reinterpret_cast<void*>(graph));
}

nb::dict ExternalStats() {
  const coppice_external_stats stats = Ask<&coppice_external_allocator_stats>();
  nb::dict read;
  read["run_blocks"] = stats.run_blocks;
  read["left_blocks"] = stats.left_blocks;
  read["device_blocks"] = stats.device_blocks;
  read["late_frees"] = stats.late_frees;
  return read;
}

}  // namespace

int32_t OrdinalOf(const Device& device, uint64_t address) {
  const int32_t own = device.info().ordinal;
  int ordinal = own;
  return !device.is_emulator() && AskOf(device, kDeviceOrdinal, address, &ordinal) ? ordinal : own;
}

void BindExternals(nb::module_& module) {
  AddMethod<Device>(
      "copy", &Copy, nb::arg("to"), nb::arg("source"), nb::arg("bytes"), nb::arg("stream") = 0,
      "Copies bytes between two addresses of the device, ordered after earlier work on\n"
      "`stream` (0: the device's own), or into its capture if it is capturing.");
  AddMethod<Device>(
      "fill", &Fill, nb::arg("to"), nb::arg("bytes"), nb::arg("value") = 0, nb::arg("stream") = 0,
      "Sets bytes at an address of the device to `value`, in the same order as copy().");
  AddMethod<Device>(
      "driver_function", &DriverFunction, nb::arg("name"),
      "The address of a function of the CUDA driver, for ctypes, on a GPU or the emulator.\n"
      "Raises NotFound.");
  AddMethod<Device>(
      "holds", &Holds, nb::arg("address"),
      "Whether the device has memory at an address. Also works while a stream is capturing.");
  AddMethod<Device>(
      "lend_memory",
      [](const Device& self, bool lend) {
        Ask<&coppice_external_allocator_use>(lend ? self.handle() : nullptr);
      },
      nb::arg("lend") = true,
      "Makes this the device from which coppice_external_allocate takes memory when no\n"
      "callable is running. With False, no device is. coppice.torch.allocator() calls this.");
  AddMethod<Context>(
      "add_graph", &AddGraph, nb::arg("graph"),
      "Adds a CUgraph, by its address, to the run. The caller must keep alive whatever its\n"
      "nodes use. Raises InvalidArgument for nodes that allocate or branch.");
  module.def("external_stats", &ExternalStats,
             "Numbers of blocks that other libraries have allocated: run_blocks, in runs of\n"
             "callables; left_blocks, the part of run_blocks that the run did not free;\n"
             "device_blocks, outside of runs. late_frees: frees that did nothing.");
}

}  // namespace coppice::python
