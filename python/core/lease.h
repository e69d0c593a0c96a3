// Leases and outputs of calls, as objects of Python.
//
// Threads: the GIL is held; it is released while a method waits.

#pragma once

#include <memory>
#include <optional>

#include "python/core/device.h"
#include "python/core/session_call.h"
#include "python/core/tensor.h"

namespace coppice::python {

class Lease {
 public:
  Lease(coppice_lease* handle, nb::object session, nb::object device, uintptr_t stream)
      : handle_(handle),
        session_(std::move(session)),
        device_(std::move(device)),
        stream_(stream) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { Release(); }

  // Null once it was given up.
  coppice_lease* handle() const { return handle_; }
  // Raises StaleOutput once it was given up, or its session is closed.
  SessionCall Use() const;
  const nb::object& session() const { return session_; }   // Its SessionHold.
  std::unique_ptr<Lease> Part(coppice_lease* part) const;  // What a split made of it.
  Device& device() const { return nb::cast<Device&>(device_); }
  const nb::object& device_object() const { return device_; }
  uintptr_t stream() const { return stream_; }  // Of the call.
  coppice_lease_info Info() const;
  void Release() noexcept;

 private:
  coppice_lease* handle_;
  nb::object session_;
  nb::object device_;
  uintptr_t stream_;
};

// Output `index` of a lease. It keeps the lease.
class Output {
 public:
  Output(nb::object lease, int index) : lease_(std::move(lease)), index_(index) {}

  Lease& lease() const { return nb::cast<Lease&>(lease_); }
  const nb::object& lease_object() const { return lease_; }
  int index() const { return index_; }

  // Where it lies, which stays as it is. Raises StaleOutput if it was written over before this was
  // asked for first.
  const Layout& layout() const;
  uint64_t address() const;
  DLTensor View() const;

  // A copy on the host. Waits. Raises StaleOutput.
  std::unique_ptr<HostTensor> ToHost(uintptr_t stream) const;

 private:
  struct Place {
    Layout layout;
    uint64_t address = 0;
  };
  const Place& Find() const;

  nb::object lease_;
  int index_;
  mutable std::optional<Place> place_;
};

// Ends a scope without the GIL, which a run that has the lane may wait for.
void EndRead(coppice_read* scope) noexcept;

// While it lives, nothing writes over the lease's outputs. Raises StaleOutput.
class Scope {
 public:
  Scope(const Lease& lease, uintptr_t stream);
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { EndRead(handle_); }

  coppice_read* handle() const { return handle_; }
  coppice_read* Leak() { return std::exchange(handle_, nullptr); }

 private:
  coppice_read* handle_ = nullptr;
};

void BindLeases(nb::module_& module);

}  // namespace coppice::python
