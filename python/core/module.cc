// The extension coppice._core: coppice.h as objects of Python. Links neither CUDA nor PyTorch.

#include "python/core/callbacks.h"
#include "python/core/device.h"
#include "python/core/external.h"
#include "python/core/kernels.h"
#include "python/core/lease.h"
#include "python/core/session.h"
#include "python/core/sharing.h"
#include "python/core/tensor.h"

namespace coppice::python {
namespace {

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
