// Tensors of a device's memory and of the host's, as objects of Python, and capsules of DLPack.
//
// Units: elements where nothing else is said. Threads: the GIL is held.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "python/core/dtypes.h"
#include "python/core/nanobind.h"

namespace coppice::python {

class Device;

// Element type, sizes and strides.
struct Layout {
  DLDataType dtype{};
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;

  static Layout Dense(DLDataType dtype, std::vector<int64_t> shape);
  static Layout Of(const DLTensor& tensor);        // Raises as CheckShape.
  void Check() const;                              // As CheckShape.
  int64_t SpanBytes() const;                       // From the first element to the end of the last.
  DLTensor At(void* data, DLDevice device) const;  // Points into this layout.
};

nb::tuple TupleOf(const std::vector<int64_t>& numbers);

// What a DLPack consumer asks of __dlpack__.
struct ExportRequest {
  bool versioned = false;
  bool copied = false;  // The bytes are the consumer's own.
};
// Reads max_version. Raises BufferError for a version that DLPack never had.
ExportRequest RequestOf(nb::handle max_version);

// A capsule that shows `tensor`, whose layout is copied, and keeps `owner` until its consumer drops
// it. `scope` ends then; null: none.
nb::object CapsuleOf(const DLTensor& tensor,
                     nb::object owner,
                     const ExportRequest& request,
                     coppice_read* scope = nullptr);

// Memory of the host, or memory of an emulator while a function of the host runs on it: what
// consumers alias as a tensor of the CPU.
class HostTensor {
 public:
  explicit HostTensor(Layout layout);                       // Of its own.
  HostTensor(Layout layout, void* data, nb::object owner);  // Somebody else's.

  const Layout& layout() const { return layout_; }
  void* data() const { return data_; }
  DLTensor View() const;

 private:
  Layout layout_;
  std::unique_ptr<std::byte[]> own_;
  void* data_;
  nb::object owner_;
};

// Memory of a device: its own, or borrowed from an owner.
class Tensor {
 public:
  Tensor(nb::object device, Layout layout);  // Allocates.
  Tensor(nb::object device, Layout layout, uint64_t address, nb::object owner);
  Tensor(const Tensor&) = delete;
  Tensor& operator=(const Tensor&) = delete;
  ~Tensor();

  const Layout& layout() const { return layout_; }
  uint64_t address() const { return address_; }
  Device& device() const;
  const nb::object& device_object() const { return device_; }
  DLTensor View() const;

  // Writes all of it, in the order of `stream`, from a tensor of the CPU of the same sizes and
  // type. Waits.
  void CopyFrom(nb::handle array, uintptr_t stream);
  std::unique_ptr<HostTensor> ToHost(uintptr_t stream) const;

 private:
  nb::object device_;
  Layout layout_;
  uint64_t address_ = 0;
  bool owned_ = false;
  nb::object owner_;
};

// A tensor of DLPack on the device, in memory that `owner` keeps.
std::unique_ptr<Tensor> ShownBy(const nb::object& device,
                                const DLTensor& tensor,
                                nb::object owner = {});

// Bytes from a device's address to a host tensor of that layout. Waits for `stream`.
std::unique_ptr<HostTensor> CopyToHost(const Device& device,
                                       const Layout& layout,
                                       uint64_t address,
                                       uintptr_t stream);

// A copy of what has a method to_host, as a NumPy array.
nb::object AsNumpy(const nb::object& self);
// The same as NumPy's protocol asks for it. Raises ValueError where no copy may be made.
nb::object AsArray(const nb::object& self, const nb::object& dtype, const nb::object& copy);

// Adds numpy() and __array__ to a class with a method to_host.
template <typename Class>
void BindNumpy(nb::class_<Class>& bound) {
  bound.def("numpy", &AsNumpy, "A copy as a NumPy array.")
      .def("__array__", &AsArray, nb::arg("dtype").none() = nb::none(), nb::kw_only(),
           nb::arg("copy").none() = nb::none());
}

// Adds sizes, strides and the type to a class that has a layout.
template <typename Class>
void BindSizes(nb::class_<Class>& bound, const char* dtype_doc) {
  bound
      .def_prop_ro(
          "shape", [](const Class& self) { return TupleOf(self.layout().shape); }, "Sizes.")
      .def_prop_ro(
          "strides", [](const Class& self) { return TupleOf(self.layout().strides); },
          "Strides, in elements.")
      .def_prop_ro(
          "dtype", [](const Class& self) { return NameOf(self.layout().dtype); }, dtype_doc);
}

// Adds the protocol of DLPack: `Export` makes capsules, and `on` says what device they show.
template <auto Export, typename Class, typename On>
void BindExport(nb::class_<Class>& bound, const On& on) {
  bound
      .def("__dlpack__", Export, nb::kw_only(), nb::arg("stream").none() = nb::none(),
           nb::arg("max_version").none() = nb::none(), nb::arg("dl_device").none() = nb::none(),
           nb::arg("copy").none() = nb::none())
      .def("__dlpack_device__", [on](const Class& self) {
        const DLDevice device = on(self);
        return nb::make_tuple(static_cast<int>(device.device_type), device.device_id);
      });
}

// What a tensor cannot be asked on the host: its truth, and whether it equals something. Python
// would answer both by the object, whatever the values are. Raises TypeError.
[[noreturn]] void RaiseNoValue(const nb::object& self, const char* what);

template <typename Class>
void BindNoValues(nb::class_<Class>& bound) {
  bound.def("__bool__", [](const nb::object& self) -> bool { RaiseNoValue(self, "bool()"); })
      .def(
          "__eq__",
          [](const nb::object& self, const nb::object&) -> bool { RaiseNoValue(self, "=="); },
          nb::arg("other").none())
      .def(
          "__ne__",
          [](const nb::object& self, const nb::object&) -> bool { RaiseNoValue(self, "!="); },
          nb::arg("other").none());
}

void BindTensors(nb::module_& module);

}  // namespace coppice::python
