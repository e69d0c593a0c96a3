// Kernels of the caller's own as objects of Python.

#include "python/core/kernels.h"

#include <memory>
#include <string>

#include "python/core/methods.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

std::unique_ptr<Kernels> LoadKernels(const nb::object& self, const nb::bytes& image) {
  const Device& device = nb::cast<const Device&>(self);
  return std::make_unique<Kernels>(
      AskUnlocked<&coppice_kernels_load>(device.handle(), image.c_str(),
                                         static_cast<int64_t>(image.size())),
      self);
}

std::unique_ptr<Kernel> GetKernel(const nb::object& self, const std::string& name) {
  const Kernels& kernels = nb::cast<const Kernels&>(self);
  coppice_kernel* const found = Ask<&coppice_kernel_get>(kernels.handle(), name.c_str());
  const coppice_kernel_info info = Ask<&coppice_kernel_describe>(found);
  std::vector<int64_t> bytes;
  if (info.parameter_count > 0)
    bytes.assign(info.parameter_bytes, info.parameter_bytes + info.parameter_count);
  return std::make_unique<Kernel>(self, found, name, info.parameter_count >= 0, std::move(bytes));
}

// Blocks or threads along up to three axes; those that are left out are 1.
void ReadAxes(nb::handle given, const char* what, uint32_t (&axes)[3]) {
  std::vector<uint32_t> read;
  if (!nb::try_cast(given, read) || read.empty() || read.size() > 3)
    Raise("InvalidArgument", what, ": give one to three counts");
  for (size_t axis = 0; axis < 3; ++axis)
    axes[axis] = axis < read.size() ? read[axis] : 1;
}

// Where the values of the arguments lie, in Python's own objects.
std::vector<void*> ArgumentsOf(const Kernel& kernel, const nb::list& given) {
  if (kernel.sized && given.size() != kernel.parameter_bytes.size())
    Raise("InvalidArgument", "launch of ", kernel.name, ": it has ", kernel.parameter_bytes.size(),
          " parameters, but ", given.size(), " are given");
  std::vector<void*> arguments;
  for (const nb::handle value : given) {
    if (!nb::isinstance<nb::bytes>(value))
      Raise("InvalidArgument", "arguments: give a bytes object for each parameter");
    const nb::bytes bytes = nb::borrow<nb::bytes>(value);
    const size_t index = arguments.size();
    if (kernel.sized && static_cast<int64_t>(bytes.size()) != kernel.parameter_bytes[index])
      Raise("InvalidArgument", "launch of ", kernel.name, ": parameter ", index, " has ",
            kernel.parameter_bytes[index], " bytes, and ", bytes.size(), " are given");
    arguments.push_back(const_cast<char*>(bytes.c_str()));
  }
  return arguments;
}

void Launch(const Device& self,
            const Kernel& kernel,
            const nb::object& grid,
            const nb::object& block,
            const nb::list& arguments,
            uintptr_t stream,
            uint32_t shared_bytes,
            const nb::object& cluster,
            bool cooperative,
            bool programmatic) {
  auto shape = Blank<coppice_launch_shape>();
  shape.shared_bytes = shared_bytes;
  ReadAxes(grid, "grid", shape.grid);
  ReadAxes(block, "block", shape.block);
  ReadAxes(cluster, "cluster", shape.cluster);
  if (shape.cluster[0] == 1 && shape.cluster[1] == 1 && shape.cluster[2] == 1)
    shape.cluster[0] = 0;  // A cluster of one block is none.
  shape.cooperative = cooperative ? 1 : 0;
  shape.programmatic = programmatic ? 1 : 0;
  const std::vector<void*> values = ArgumentsOf(kernel, arguments);
  AskUnlocked<&coppice_launch>(kernel.handle, &shape, values.data(),
                               static_cast<int32_t>(values.size()), self.StreamAt(stream));
}

}  // namespace

void BindKernels(nb::module_& module) {
  nb::class_<Kernel>(module, "Kernel", "A kernel of an image. It keeps the image.")
      .def_ro("name", &Kernel::name)
      .def_ro("kernels", &Kernel::kernels, "The image.")
      .def_prop_ro(
          "parameter_bytes",
          [](const Kernel& self) -> nb::object {
            if (!self.sized) return nb::none();
            return nb::tuple(nb::cast(self.parameter_bytes));
          },
          "Size of each parameter in bytes, in order; None if the driver is older than CUDA\n"
          "12.4.");

  nb::class_<Kernels>(module, "Kernels", "An image of kernels, loaded on a device.")
      .def_prop_ro("device", &Kernels::device)
      .def("get", &GetKernel, nb::arg("name"),
           "A kernel by its name in the image. Raises NotFound, whose message lists the kernels.");

  AddMethod<Device>(
      "load_kernels", &LoadKernels, nb::arg("image"),
      "Loads kernels from a cubin, a fatbin or PTX text, as bytes. The emulator executes\n"
      "PTX. Raises InvalidArgument or Unimplemented with the message of the driver's\n"
      "compiler.");
  AddMethod<Device>(
      "launch", &Launch, nb::arg("kernel"), nb::arg("grid"), nb::arg("block"), nb::arg("arguments"),
      nb::arg("stream") = 0, nb::kw_only(), nb::arg("shared_bytes") = 0,
      nb::arg("cluster") = nb::make_tuple(1, 1, 1), nb::arg("cooperative") = false,
      nb::arg("programmatic") = false,
      "Launches on `stream` (0: the device's own), or into its capture if it is capturing.\n\n"
      "`grid`: blocks, `block`: threads, `cluster`: blocks, along one to three axes.\n"
      "`arguments`: a bytes object per parameter, copied. Raises InvalidArgument if the\n"
      "arguments do not fit the kernel's parameters, or if the kernel or the device does\n"
      "not allow the shape.");
}

}  // namespace coppice::python
