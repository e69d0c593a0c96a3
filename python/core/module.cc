// The extension coppice._core: coppice.h as objects of Python. Links neither CUDA nor PyTorch.

#include "python/core/callbacks.h"
#include "python/core/device.h"
#include "python/core/external.h"
#include "python/core/kernels.h"
#include "python/core/lease.h"
#include "python/core/methods.h"
#include "python/core/session.h"
#include "python/core/tensor.h"

namespace coppice::python {
namespace {

// Makes copy.copy of a class of the module give the object itself, and deepcopy and pickle raise
// TypeError: such an object stands for something of a device, and a second one would end what the
// first one needs.
template <typename Class>
void Share() {
  AddMethod<Class>(
      "__copy__", [](nb::object self) { return self; }, "The object itself.");
  AddMethod<Class>(
      "__reduce_ex__",
      [](const nb::object& self, int /*protocol*/) -> nb::object {
        const std::string text = NameOfType(self) +
                                 ": it belongs to a device of this process, and cannot be pickled "
                                 "or deep-copied; copy.copy() shares it, and numpy() of a tensor "
                                 "is a copy";
        PyErr_SetString(PyExc_TypeError, text.c_str());
        RaisePending();
      },
      nb::arg("protocol"), "Raises TypeError.");
}

template <typename... Classes>
void ShareAll() {
  (Share<Classes>(), ...);
}

void ShareClasses() {
  ShareAll<HostTensor, Tensor, Output, Lease, Device, Package, Kernels, Kernel, Session, Program,
           Binding, Chain, Context>();
}

}  // namespace
}  // namespace coppice::python

NB_MODULE(_core, module) {
  nanobind::set_leak_warnings(false);  // A device of the process lives until the process ends.
  module.doc() = "The C surface of coppice, as objects.";
  module.attr("__version__") = coppice_version();
  coppice::python::BindTensors(module);
  coppice::python::BindDevices(module);
  coppice::python::BindKernels(module);
  coppice::python::BindLeases(module);
  coppice::python::BindContexts(module);
  coppice::python::BindExternals(module);
  coppice::python::BindSessions(module);
  coppice::python::BindPrograms(module);
  coppice::python::BindPadding(module);
  coppice::python::ShareClasses();
}
