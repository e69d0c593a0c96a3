// A device, and what is loaded on it, as objects of Python.
//
// Threads: the GIL is held; it is released while a method waits or runs.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "python/core/gil.h"

namespace coppice::python {

class Device {
 public:
  explicit Device(const coppice_device_options& options);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device() { EndHandle<&coppice_device_release>(handle_); }

  coppice_device* handle() const { return handle_; }
  bool is_emulator() const { return info_.kind == COPPICE_DEVICE_EMULATOR; }
  const coppice_device_info& info() const { return info_; }
  DLDevice dl() const;
  // What other libraries see tensors on: the CPU for an emulator's, of which they get copies.
  DLDevice exported_device() const;

  // What was found behind the first `since` findings, each text once.
  std::vector<std::string> FindingsSince(int64_t since) const;
  // Makes an emulator as new. Raises FailedPrecondition while a session of it is open.
  void Reset();

  uint64_t Allocate(int64_t bytes) const;
  void Free(uint64_t address) const noexcept;
  // Stream 0 is the device's own. Both wait for it.
  void CopyToDevice(uint64_t to, const void* from, int64_t bytes, uintptr_t stream) const;
  void CopyToHost(void* to, uint64_t from, int64_t bytes, uintptr_t stream) const;

  uintptr_t CreateStream() const;
  void DestroyStream(uintptr_t stream);
  void SynchronizeStream(uintptr_t stream) const;
  uintptr_t own_stream() const;  // Made when it is asked for first.
  uintptr_t OrOwn(uintptr_t stream) const { return stream == 0 ? own_stream() : stream; }
  void* StreamAt(uintptr_t stream) const { return reinterpret_cast<void*>(OrOwn(stream)); }
  // The stream that a DLPack consumer names; 0 if none.
  uintptr_t StreamOf(const nb::object& stream) const;

  // Whether a DLPack consumer gets a copy on the host.
  bool ExportsCopies(const nb::object& dl_device, const nb::object& copy) const;
  // Makes a consumer's stream wait for the device's own; waits on the host.
  void OrderConsumer(const nb::object& stream) const;

  // Memory for the copy of a CPU tensor that a call on `stream` reads, which a later call on it
  // writes again; Copies wait for the stream, so that nobody reads it any more by then.
  uint64_t TakeStaging(int64_t bytes, uintptr_t stream);
  void GiveStaging(uint64_t address, int64_t bytes, uintptr_t stream);

 private:
  coppice_device* handle_ = nullptr;
  coppice_device_info info_{};
  mutable uintptr_t own_stream_ = 0;
  std::map<std::pair<uintptr_t, int64_t>, std::vector<uint64_t>> staging_;
};

// What is loaded on a device, which it keeps, as a handle of C that `End` ends.
template <typename Handle, auto End>
class Loaded {
 public:
  Loaded(Handle* handle, nb::object device) : handle_(handle), device_(std::move(device)) {}
  Loaded(const Loaded&) = delete;
  Loaded& operator=(const Loaded&) = delete;
  ~Loaded() { EndHandle<End>(handle_); }

  Handle* handle() const { return handle_; }
  const nb::object& device() const { return device_; }

 private:
  Handle* handle_;
  nb::object device_;
};

using Package = Loaded<coppice_package, &coppice_package_release>;

void BindDevices(nb::module_& module);

}  // namespace coppice::python
