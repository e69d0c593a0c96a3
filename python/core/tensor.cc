// Tensors as objects of Python.

#include "python/core/tensor.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "python/core/arrays.h"
#include "python/core/device.h"
#include "python/core/given.h"
#include "python/core/lease.h"
#include "python/core/methods.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

// What a capsule's consumer owns. One of the two structs is used.
struct Exported {
  DLManagedTensorVersioned versioned{};
  DLManagedTensor old{};
  PyObject* owner = nullptr;
  coppice_read* scope = nullptr;
  std::array<int64_t, kRankMax> shape{};
  std::array<int64_t, kRankMax> strides{};

  void Delete() {
    if (Py_IsInitialized() == 0) return;  // Memory goes with the process.
    const GilAcquire acquire;
    EndRead(scope);
    Py_DECREF(owner);
    delete this;
  }
};

template <typename Managed>
void DeleteManaged(Managed* managed) {
  static_cast<Exported*>(managed->manager_ctx)->Delete();
}

template <typename Managed>
void DeleteUnused(PyObject* capsule, const char* name) {
  if (PyCapsule_IsValid(capsule, name) == 0) return;  // A consumer renamed it: it is his.
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  managed->deleter(managed);
}

constexpr char kVersioned[] = "dltensor_versioned";
constexpr char kOld[] = "dltensor";

// What __dlpack__ of a tensor answers: in place on CUDA, a copy of the host on an emulator or where
// the CPU is asked for.
nb::object ExportTensor(nb::object self,
                        const nb::object& stream,
                        const nb::object& max_version,
                        const nb::object& dl_device,
                        const nb::object& copy) {
  const Tensor& tensor = nb::cast<const Tensor&>(self);
  const ExportRequest request = RequestOf(max_version);
  const Device& device = tensor.device();
  if (device.ExportsCopies(dl_device, copy)) {
    nb::object host = nb::cast(tensor.ToHost(device.StreamOf(stream)));
    const HostTensor& read = nb::cast<const HostTensor&>(host);
    return CapsuleOf(read.View(), host, {.versioned = request.versioned, .copied = true});
  }
  device.OrderConsumer(stream);
  return CapsuleOf(tensor.View(), std::move(self), request);
}

nb::object ExportHost(nb::object self,
                      const nb::object& /*stream*/,
                      const nb::object& max_version,
                      const nb::object& /*dl_device*/,
                      const nb::object& /*copy*/) {
  const HostTensor& tensor = nb::cast<const HostTensor&>(self);
  return CapsuleOf(tensor.View(), std::move(self), RequestOf(max_version));
}

template <typename Shown>
std::string Describe(const Shown& tensor, const char* kind) {
  std::string text = std::string("<") + kind + " " + std::string(NameOf(tensor.layout().dtype));
  const char* before = " ";
  for (const int64_t size : tensor.layout().shape) {
    text += before + std::to_string(size);
    before = "x";
  }
  return text + ">";
}

template <typename Shown>
void BindLayout(nb::class_<Shown>& bound) {
  BindSizes(bound, "The element type, as packages name it: \"f32\", \"bf16\", \"i64\".");
  bound.def_prop_ro(
      "nbytes", [](const Shown& self) { return self.layout().SpanBytes(); },
      "Bytes from the first element to the end of the last.");
}

}  // namespace

Layout Layout::Dense(DLDataType dtype, std::vector<int64_t> shape) {
  Layout layout{.dtype = dtype, .shape = std::move(shape), .strides = {}};
  layout.strides.resize(layout.shape.size());
  int64_t step = 1;
  for (size_t axis = layout.shape.size(); axis-- > 0;) {
    layout.strides[axis] = step;
    if (__builtin_mul_overflow(step, std::max<int64_t>(layout.shape[axis], 1), &step))
      step = std::numeric_limits<int64_t>::max();  // Which Check finds too large.
  }
  return layout;
}

Layout Layout::Of(const DLTensor& tensor) {
  CheckShape(tensor, "tensor");
  const std::vector<int64_t> shape(tensor.shape, tensor.shape + tensor.ndim);
  Layout layout = Dense(tensor.dtype, shape);
  if (tensor.strides != nullptr)
    layout.strides.assign(tensor.strides, tensor.strides + tensor.ndim);
  return layout;
}

DLTensor Layout::At(void* data, DLDevice device) const {
  return {.data = data,
          .device = device,
          .ndim = static_cast<int32_t>(shape.size()),
          .dtype = dtype,
          .shape = const_cast<int64_t*>(shape.data()),
          .strides = const_cast<int64_t*>(strides.data()),
          .byte_offset = 0};
}

void Layout::Check() const {
  CheckShape(At(nullptr, {}), "tensor");
}

int64_t Layout::SpanBytes() const {
  return python::SpanBytes(At(nullptr, {}));
}

nb::tuple TupleOf(const std::vector<int64_t>& numbers) {
  nb::list list;
  for (const int64_t number : numbers)
    list.append(number);
  return nb::tuple(list);
}

ExportRequest RequestOf(nb::handle max_version) {
  if (max_version.is_none()) return {};
  const nb::tuple parts = GivenParts(max_version, "max_version", "(major, minor)", 2);
  return {.versioned = Given<int>(parts[0], "max_version") >= 1, .copied = false};
}

nb::object CapsuleOf(const DLTensor& tensor,
                     nb::object owner,
                     const ExportRequest& request,
                     coppice_read* scope) {
  auto exported = std::make_unique<Exported>();
  DLTensor shown = tensor;
  std::copy(tensor.shape, tensor.shape + tensor.ndim, exported->shape.begin());
  std::copy(tensor.strides, tensor.strides + tensor.ndim, exported->strides.begin());
  shown.shape = exported->shape.data();
  shown.strides = exported->strides.data();
  PyObject* capsule = nullptr;
  if (request.versioned) {
    exported->versioned = {
        .version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
        .manager_ctx = exported.get(),
        .deleter = &DeleteManaged<DLManagedTensorVersioned>,
        .flags = request.copied ? DLPACK_FLAG_BITMASK_IS_COPIED : 0,
        .dl_tensor = shown};
    capsule = PyCapsule_New(&exported->versioned, kVersioned, [](PyObject* unused) {
      DeleteUnused<DLManagedTensorVersioned>(unused, kVersioned);
    });
  } else {
    exported->old = {.dl_tensor = shown,
                     .manager_ctx = exported.get(),
                     .deleter = &DeleteManaged<DLManagedTensor>};
    capsule = PyCapsule_New(&exported->old, kOld,
                            [](PyObject* unused) { DeleteUnused<DLManagedTensor>(unused, kOld); });
  }
  if (capsule == nullptr) RaisePending();
  exported->owner = owner.release().ptr();
  exported->scope = scope;
  (void)exported.release();
  return nb::steal(capsule);
}

HostTensor::HostTensor(Layout layout)
    : layout_(std::move(layout)),
      own_(new std::byte[static_cast<size_t>(std::max<int64_t>(layout_.SpanBytes(), 1))]),
      data_(own_.get()) {}

HostTensor::HostTensor(Layout layout, void* data, nb::object owner)
    : layout_(std::move(layout)), data_(data), owner_(std::move(owner)) {}

DLTensor HostTensor::View() const {
  return layout_.At(data_, {.device_type = kDLCPU, .device_id = 0});
}

Tensor::Tensor(nb::object device, Layout layout)
    : device_(std::move(device)), layout_(std::move(layout)) {
  address_ = this->device().Allocate(std::max<int64_t>(layout_.SpanBytes(), 1));
  owned_ = true;
}

Tensor::Tensor(nb::object device, Layout layout, uint64_t address, nb::object owner)
    : device_(std::move(device)),
      layout_(std::move(layout)),
      address_(address),
      owner_(std::move(owner)) {}

Tensor::~Tensor() {
  if (owned_) device().Free(address_);
}

Device& Tensor::device() const {
  return nb::cast<Device&>(device_);
}

DLTensor Tensor::View() const {
  return layout_.At(reinterpret_cast<void*>(address_), device().dl());
}

void Tensor::CopyFrom(nb::handle array, uintptr_t stream) {
  Array read;
  read.Read(array, "array", 0, 0, device());
  if (!read.on_host()) Raise("InvalidArgument", "array: not on the CPU; copy it there first");
  const Layout given = Layout::Of(read.tensor());
  if (given.shape != layout_.shape || NameOf(given.dtype) != NameOf(layout_.dtype))
    Raise("InvalidArgument", "array: its sizes or its type differ from those of the target tensor");
  if (given.strides != layout_.strides && (!IsDense(read.tensor()) || !IsDense(View())))
    Raise("InvalidArgument", "array: its strides differ from those of the target tensor");
  device().CopyToDevice(
      address_, static_cast<const std::byte*>(read.tensor().data) + read.tensor().byte_offset,
      layout_.SpanBytes(), stream);
}

std::unique_ptr<HostTensor> Tensor::ToHost(uintptr_t stream) const {
  return CopyToHost(device(), layout_, address_, stream);
}

std::unique_ptr<Tensor> ShownBy(const nb::object& device,
                                const DLTensor& tensor,
                                nb::object owner) {
  const auto address = reinterpret_cast<uint64_t>(tensor.data) + tensor.byte_offset;
  return std::make_unique<Tensor>(device, Layout::Of(tensor), address, std::move(owner));
}

std::unique_ptr<HostTensor> CopyToHost(const Device& device,
                                       const Layout& layout,
                                       uint64_t address,
                                       uintptr_t stream) {
  auto host = std::make_unique<HostTensor>(layout);
  device.CopyToHost(host->data(), address, layout.SpanBytes(), stream);
  return host;
}

nb::object AsNumpy(const nb::object& self) {
  return nb::module_::import_("numpy").attr("from_dlpack")(self.attr("to_host")());
}

nb::object AsArray(const nb::object& self, const nb::object& dtype, const nb::object& copy) {
  if (!copy.is_none() && !nb::cast<bool>(copy)) {
    PyErr_SetString(PyExc_ValueError,
                    "NumPy can only get a copy of device memory; do not pass copy=False");
    RaisePending();
  }
  const nb::object array = AsNumpy(self);
  return dtype.is_none() ? array : array.attr("astype")(dtype, nb::arg("copy") = false);
}

void RaiseNoValue(const nb::object& self, const char* what) {
  const std::string text = NameOfType(self) + ": " + what +
                           " needs its values, which are on the device. In a wrapped callable, "
                           "pass the value that the host needs as a number, or launch a kernel "
                           "that decides; elsewhere copy it with numpy()";
  PyErr_SetString(PyExc_TypeError, text.c_str());
  RaisePending();
}

void BindTensors(nb::module_& module) {
  nb::class_<HostTensor> host(
      module, "HostTensor",
      "Memory of the host. Consumers of DLPack share it: torch.from_dlpack(t),\n"
      "numpy.from_dlpack(t).");
  BindLayout(host);
  BindNoValues(host);
  BindExport<&ExportHost>(host, [](const HostTensor&) { return DLDevice{kDLCPU, 0}; });
  host.def("__repr__", [](const HostTensor& self) { return Describe(self, "coppice.HostTensor"); });

  nb::class_<Tensor> tensor(
      module, "Tensor",
      "Memory of a device, with a type, sizes and strides. On CUDA, other libraries use it\n"
      "in place through DLPack; from the emulator they get a copy on the CPU.");
  BindLayout(tensor);
  BindNumpy(tensor);
  BindNoValues(tensor);
  tensor.def_prop_ro("device", &Tensor::device_object, "The device that the tensor is on.")
      .def("data_ptr", &Tensor::address, "The address of the first element.")
      .def("copy_from", &Tensor::CopyFrom, nb::arg("array"), nb::arg("stream") = 0,
           "Copies a CPU tensor of the same sizes and type into this one, in the order of the\n"
           "stream (0: the device's own). Waits for the stream.")
      .def("to_host", &Tensor::ToHost, nb::arg("stream") = 0,
           "A copy on the host, after the work of the stream. Waits for the stream.");
  BindExport<&ExportTensor>(tensor,
                            [](const Tensor& self) { return self.device().exported_device(); });
  tensor.def("__repr__", [](const Tensor& self) { return Describe(self, "coppice.Tensor"); });
}

}  // namespace coppice::python
