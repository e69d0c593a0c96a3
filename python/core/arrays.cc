// Tensors of other libraries: by DLPack's table of C functions where the type has one, which takes
// no allocation, else by the slower protocols.

#include "python/core/arrays.h"

#include <algorithm>
#include <string>
#include <unordered_map>

#include "python/core/dtypes.h"
#include "python/core/external.h"
#include "python/core/given.h"
#include "python/core/lease.h"
#include "python/core/status.h"
#include "python/core/tensor.h"

namespace coppice::python {
namespace {

constexpr uintptr_t kLegacyStream = 1;  // As array protocols number it.

// What is known of a type whose tensors are read by a table of functions.
struct Exchange {
  const DLPackExchangeAPI* table = nullptr;  // Null: there is none.
  // Methods that say whether the elements are to be negated, or conjugated, by whoever reads them,
  // which DLPack cannot say. Null of a type that has none.
  nb::handle is_neg{};
  nb::handle is_conj{};
};

// Types are asked once: their tables live as long as the process, and so do the types and methods,
// each of which this keeps a reference to.
const Exchange& ExchangeOf(PyTypeObject* type) {
  static auto& known = *new std::unordered_map<PyTypeObject*, Exchange>();
  const auto found = known.find(type);
  if (found != known.end()) return found->second;
  const DLPackExchangeAPI* table = nullptr;
  const nb::handle owner(reinterpret_cast<PyObject*>(type));
  if (const nb::object given = nb::getattr(owner, "__dlpack_c_exchange_api__", nb::none());
      PyCapsule_IsValid(given.ptr(), "dlpack_exchange_api") != 0) {
    const auto* header = static_cast<const DLPackExchangeAPIHeader*>(
        PyCapsule_GetPointer(given.ptr(), "dlpack_exchange_api"));
    while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION)
      header = header->prev_api;
    table = reinterpret_cast<const DLPackExchangeAPI*>(header);
    if (table != nullptr && table->dltensor_from_py_object_no_sync == nullptr) table = nullptr;
  }
  owner.inc_ref();
  Exchange exchange{.table = table};
  if (table != nullptr) {
    exchange.is_neg = nb::getattr(owner, "is_neg", nb::object()).release();
    exchange.is_conj = nb::getattr(owner, "is_conj", nb::object()).release();
  }
  return known.emplace(type, exchange).first->second;
}

bool Says(nb::handle method, nb::handle object) {
  if (!method.is_valid()) return false;
  PyObject* const arguments[] = {object.ptr()};
  const nb::object answer =
      nb::steal(PyObject_Vectorcall(method.ptr(), arguments, 1, /*kwnames=*/nullptr));
  if (!answer.is_valid()) RaisePending();
  return answer.ptr() == Py_True;
}

// Elements that lie there otherwise than they are read must not be taken for what they are.
void RefuseLazy(const Exchange& exchange,
                nb::handle object,
                const DLTensor& tensor,
                const char* what,
                size_t index) {
  const bool complex = tensor.dtype.code == kDLComplex;
  if (!Says(exchange.is_neg, object) && !(complex && Says(exchange.is_conj, object))) return;
  Raise("InvalidArgument", what, " ", index,
        ": the tensor is negated or conjugated lazily, so its memory does not hold its values; "
        "give x.resolve_neg().resolve_conj()");
}

DLDataType DTypeOfTypestr(const std::string& typestr, const char* what, size_t index) {
  constexpr std::pair<char, uint8_t> kCodes[] = {
      {'f', kDLFloat}, {'i', kDLInt}, {'u', kDLUInt}, {'b', kDLBool}, {'c', kDLComplex}};
  if (typestr.size() >= 3 && (typestr[0] == '<' || typestr[0] == '|')) {
    for (const auto& [letter, code] : kCodes) {
      const int bytes = std::atoi(typestr.c_str() + 2);
      if (typestr[1] == letter && bytes >= 1 && bytes <= 16)
        return {.code = code, .bits = static_cast<uint8_t>(8 * bytes), .lanes = 1};
    }
  }
  Raise("InvalidArgument", what, " ", index,
        ": __cuda_array_interface__ has the unsupported typestr '", typestr, "'");
}

[[noreturn]] void RaiseNoTensor(nb::handle object, const char* what, size_t index) {
  Raise("InvalidArgument", what, " ", index, ": a ",
        nb::str(object.type().attr("__qualname__")).c_str(),
        " is not a tensor; give an object with __dlpack__ or __cuda_array_interface__");
}

}  // namespace

void Array::Read(
    nb::handle object, const char* what, size_t index, uintptr_t stream, const Device& device) {
  PyTypeObject* const type = Py_TYPE(object.ptr());
  if (const Exchange& exchange = ExchangeOf(type); exchange.table != nullptr) {
    if (exchange.table->dltensor_from_py_object_no_sync(object.ptr(), &tensor_) != 0)
      RaisePending();
    RefuseLazy(exchange, object, tensor_, what, index);
    return;
  }
  if (nb::isinstance<Output>(object)) {
    tensor_ = nb::cast<Output&>(object).View();
  } else if (nb::isinstance<Tensor>(object)) {
    tensor_ = nb::cast<Tensor&>(object).View();
  } else if (nb::isinstance<HostTensor>(object)) {
    tensor_ = nb::cast<HostTensor&>(object).View();
  } else if (nb::hasattr(object, "__dlpack__")) {
    ReadCapsule(object, stream);
  } else if (nb::hasattr(object, "__cuda_array_interface__")) {
    ReadCudaArrayInterface(object.attr("__cuda_array_interface__"), what, index, device);
  } else {
    RaiseNoTensor(object, what, index);
  }
}

void Array::ReadCapsule(nb::handle object, uintptr_t stream) {
  const nb::object device = object.attr("__dlpack_device__")();
  const bool on_host = nb::cast<int>(nb::int_(device[0])) == kDLCPU;
  nb::dict options;
  options["max_version"] = nb::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  if (on_host)
    options["stream"] = nb::none();
  else
    options["stream"] = nb::int_(stream == 0 ? kLegacyStream : stream);
  const nb::object produce = object.attr("__dlpack__");
  const nb::tuple none = nb::make_tuple();
  PyObject* made = PyObject_Call(produce.ptr(), none.ptr(), options.ptr());
  if (made == nullptr && PyErr_ExceptionMatches(PyExc_TypeError) != 0) {
    PyErr_Clear();  // A producer from before DLPack 1.0 knows no max_version.
    PyDict_DelItemString(options.ptr(), "max_version");
    made = PyObject_Call(produce.ptr(), none.ptr(), options.ptr());
  }
  if (made == nullptr) RaisePending();
  kept_ = nb::steal(made);
  PyObject* const capsule = kept_.ptr();
  if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0) {
    tensor_ =
        static_cast<DLManagedTensorVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned"))
            ->dl_tensor;
  } else if (PyCapsule_IsValid(capsule, "dltensor") != 0) {
    tensor_ = static_cast<DLManagedTensor*>(PyCapsule_GetPointer(capsule, "dltensor"))->dl_tensor;
  } else {
    Raise("InvalidArgument", "__dlpack__ did not return a DLPack capsule");
  }
}

void Array::ReadCudaArrayInterface(nb::handle interface,
                                   const char* what,
                                   size_t index,
                                   const Device& device) {
  const nb::tuple shape(interface["shape"]);
  const auto typestr = Given<std::string>(interface["typestr"], "typestr");
  const nb::object strides = interface.attr("get")("strides");
  if (shape.size() > kRankMax)
    Raise("InvalidArgument", "a tensor has more than 8 axes; reshape it");
  const DLDataType dtype = DTypeOfTypestr(typestr, what, index);
  int64_t dense = 1;
  for (size_t axis = shape.size(); axis-- > 0;) {
    shape_[axis] = Given<int64_t>(shape[axis], what);
    strides_[axis] =
        strides.is_none() ? dense : Given<int64_t>(strides[axis], what) / BytesOf(dtype);
    dense *= shape_[axis];
  }
  const auto address = Given<uintptr_t>(interface["data"][0], what);
  tensor_ = {.data = reinterpret_cast<void*>(address),
             .device = {.device_type = kDLCUDA, .device_id = OrdinalOf(device, address)},
             .ndim = static_cast<int32_t>(shape.size()),
             .dtype = dtype,
             .shape = shape_.data(),
             .strides = strides_.data(),
             .byte_offset = 0};
}

void Array::MoveTo(void* data, DLDevice device) {
  tensor_.data = data;
  tensor_.byte_offset = 0;
  tensor_.device = device;
}

void CheckShape(const DLTensor& tensor, const char* what) {
  const auto refuse = [&](const std::string& why) { Raise("InvalidArgument", what, ": ", why); };
  if (tensor.ndim > kRankMax) refuse("it has more than 8 axes; reshape it");
  int64_t last = BytesOf(tensor.dtype);
  int64_t dense = last;
  bool fits = true;
  bool empty = false;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    const int64_t size = tensor.shape[axis];
    if (size < 0) refuse("it has a negative size, " + std::to_string(size));
    empty = empty || size == 0;
    int64_t step = dense;
    int64_t reach = 0;
    fits = !__builtin_mul_overflow(dense, std::max<int64_t>(size, 1), &dense) && fits;
    if (size <= 1) continue;
    if (tensor.strides != nullptr) {
      if (tensor.strides[axis] < 0) refuse("it has negative strides; copy it first");
      fits = !__builtin_mul_overflow(tensor.strides[axis], BytesOf(tensor.dtype), &step) && fits;
    }
    fits = !__builtin_mul_overflow(size - 1, step, &reach) &&
           !__builtin_add_overflow(last, reach, &last) && fits;
  }
  if (!fits && !empty) refuse("its size in bytes does not fit into 64 bits");
}

int64_t SpanBytes(const DLTensor& tensor) {
  int64_t last = 0;
  int64_t dense = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] == 0) return 0;
    last += (tensor.shape[axis] - 1) * (tensor.strides == nullptr ? dense : tensor.strides[axis]);
    dense *= tensor.shape[axis];
  }
  return (last + 1) * BytesOf(tensor.dtype);
}

bool IsDense(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  int64_t dense = 1;
  for (int axis = tensor.ndim - 1; axis >= 0; --axis) {
    if (tensor.shape[axis] != 1 && tensor.strides[axis] != dense) return tensor.shape[axis] == 0;
    dense *= tensor.shape[axis];
  }
  return true;
}

}  // namespace coppice::python
