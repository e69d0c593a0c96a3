// Leases and outputs.

#include "python/core/lease.h"

#include <string>
#include <utility>
#include <vector>

#include "python/core/cycles.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

// Frees what Lease.detach gave out, when the last object that shows it goes.
void DeleteDetached(void* managed) noexcept {
  if (IsLeftToProcess()) return;
  auto* const tensor = static_cast<DLManagedTensorVersioned*>(managed);
  const GilRelease release;
  tensor->deleter(tensor);
}

nb::list Detach(Lease& lease, uintptr_t stream) {
  const coppice_lease_info info = lease.Info();
  const int32_t count = info.is_part != 0 ? 1 : info.output_count;
  std::vector<DLManagedTensorVersioned*> tensors(static_cast<size_t>(count));
  void* const on = reinterpret_cast<void*>(stream == 0 ? lease.stream() : stream);
  const SessionCall use = lease.Use();
  CheckRead(Unlocked([&] {
    return coppice_lease_detach(lease.handle(), on, tensors.data(),
                                static_cast<int64_t>(tensors.size()));
  }));
  nb::list made;
  for (DLManagedTensorVersioned* const tensor : tensors) {
    const nb::capsule owner(tensor, &DeleteDetached);
    made.append(nb::cast(ShownBy(lease.device_object(), tensor->dl_tensor, owner)));
  }
  lease.Release();
  return made;
}

nb::list Split(const nb::object& self) {
  Lease& lease = nb::cast<Lease&>(self);
  std::vector<coppice_lease*> parts(static_cast<size_t>(lease.Info().output_count));
  const SessionCall use = lease.Use();
  AskUnlocked<&coppice_lease_split>(lease.handle(), parts.data(),
                                    static_cast<int64_t>(parts.size()));
  nb::list made;
  for (coppice_lease* const part : parts)
    made.append(nb::cast(lease.Part(part)));
  lease.Release();
  return made;
}

// The same output as far as the device counted it. Waits.
std::unique_ptr<HostTensor> ToHostSized(const Output& output, uintptr_t stream) {
  const uintptr_t on = stream == 0 ? output.lease().stream() : stream;
  const Scope scope(output.lease(), on);
  const coppice_view view = AskUnlocked<&coppice_read_sized_output>(scope.handle(), output.index());
  return CopyToHost(output.lease().device(), Layout::Of(view.tensor),
                    reinterpret_cast<uint64_t>(view.tensor.data), on);
}

nb::object ExportOutput(nb::object self,
                        const nb::object& stream,
                        const nb::object& max_version,
                        const nb::object& dl_device,
                        const nb::object& copy) {
  const Output& output = nb::cast<const Output&>(self);
  const ExportRequest request = RequestOf(max_version);
  const Device& device = output.lease().device();
  const uintptr_t on = device.StreamOf(stream);
  if (device.ExportsCopies(dl_device, copy)) {
    const nb::object host = nb::cast(output.ToHost(on));
    return CapsuleOf(nb::cast<const HostTensor&>(host).View(), host,
                     {.versioned = request.versioned, .copied = true});
  }
  Scope scope(output.lease(), on);
  const DLTensor view = output.View();
  return CapsuleOf(view, std::move(self), request, scope.Leak());
}

std::unique_ptr<Tensor> CountOf(const nb::object& self) {
  const Output& output = nb::cast<const Output&>(self);
  const Scope scope(output.lease(), 0);
  const coppice_view view = Ask<&coppice_read_count>(scope.handle(), output.index());
  return ShownBy(output.lease().device_object(), view.tensor, self);
}

std::string Describe(const Output& output) {
  return "<coppice.Output " + std::to_string(output.index()) + " of call " +
         std::to_string(output.lease().Info().call_number) + ">";
}

}  // namespace

coppice_lease_info Lease::Info() const {
  if (handle_ == nullptr) Raise("FailedPrecondition", "lease: it was released or used up");
  return Ask<&coppice_lease_describe>(handle_);
}

void Lease::Release() noexcept {
  if (handle_ == nullptr || IsLeftToProcess()) return;
  coppice_lease_release(std::exchange(handle_, nullptr));
}

SessionCall Lease::Use() const {
  if (handle_ == nullptr) Raise("StaleOutput", "lease: it was released or used up");
  if (HoldOf(session_).closed)
    Raise("StaleOutput",
          "lease: the session that made the outputs is gone; read them before the session ends");
  return SessionCall(session_);
}

std::unique_ptr<Lease> Lease::Part(coppice_lease* part) const {
  return std::make_unique<Lease>(part, session_, device_, stream_);
}

void EndRead(coppice_read* scope) noexcept {
  EndHandle<&coppice_read_end>(scope);
}

Scope::Scope(const Lease& lease, uintptr_t stream) {
  const SessionCall use = lease.Use();
  void* const on = reinterpret_cast<void*>(stream == 0 ? lease.stream() : stream);
  CheckRead(Unlocked([&] { return coppice_lease_read(lease.handle(), on, &handle_); }));
}

const Output::Place& Output::Find() const {
  if (place_) return *place_;
  const Scope scope(lease(), 0);
  const coppice_view view = Ask<&coppice_read_output>(scope.handle(), index_);
  place_.emplace(Layout::Of(view.tensor), reinterpret_cast<uint64_t>(view.tensor.data));
  return *place_;
}

const Layout& Output::layout() const {
  return Find().layout;
}

uint64_t Output::address() const {
  return Find().address;
}

DLTensor Output::View() const {
  const Place& place = Find();
  return place.layout.At(reinterpret_cast<void*>(place.address), lease().device().dl());
}

std::unique_ptr<HostTensor> Output::ToHost(uintptr_t stream) const {
  const uintptr_t on = stream == 0 ? lease().stream() : stream;
  const Scope scope(lease(), on);
  const Place& place = Find();
  return CopyToHost(lease().device(), place.layout, place.address, on);
}

namespace {

void BindOutputs(nb::module_& module) {
  nb::class_<Output> output(
      module, "Output",
      "One output of a call, which keeps its lease. Other libraries read it through DLPack.\n"
      "On CUDA they read it in place, and calls that would write over it are refused until\n"
      "the consumer drops it. On the emulator they get a copy on the CPU. Reading it after\n"
      "it was overwritten raises StaleOutput.",
      Keeps<Output, &Output::lease_object>());
  BindNumpy(output);
  BindNoValues(output);
  output.def_prop_ro("lease", &Output::lease_object, "Its lease.")
      .def_prop_ro("index", &Output::index, "The index of this output.")
      .def_prop_ro("device", [](const Output& self) { return self.lease().device_object(); });
  BindSizes(output, "The element type, as packages name it.");
  output
      .def_prop_ro(
          "count", &CountOf,
          "The tensor to which the device writes the real size of the output, for `counts` of\n"
          "Program.run. Later calls may overwrite it, like the output.")
      .def("data_ptr", &Output::address, "The address of the first element.")
      .def("to_host", &Output::ToHost, nb::arg("stream") = 0,
           "A copy on the host. Waits for the copy.")
      .def("to_host_sized", &ToHostSized, nb::arg("stream") = 0,
           "A copy on the host, of the size that the device counted. Waits for the\n"
           "copy.");
  BindExport<&ExportOutput>(
      output, [](const Output& self) { return self.lease().device().exported_device(); });
  output.def("__repr__", &Describe);
}

}  // namespace

void BindLeases(nb::module_& module) {
  nb::class_<Lease>(
      module, "Lease",
      "The right to read the outputs of one call. While it exists, calls that build on the\n"
      "outputs do not write over them. Any other call may; the outputs are stale from then\n"
      "on.",
      Keeps<Lease, &Lease::session>())
      .def_prop_ro(
          "kind", [](const Lease& self) { return coppice_run_kind_name(self.Info().kind); },
          "How the call ran: \"replay\", \"record\", \"warm_up\" or \"eager\".")
      .def_prop_ro(
          "reason", [](const Lease& self) { return coppice_reason_name(self.Info().reason); },
          "Why the call did not replay, such as \"new_bucket\"; \"none\" if it did.")
      .def_prop_ro(
          "call_number", [](const Lease& self) { return self.Info().call_number; },
          "The call's number on its lane.")
      .def("__len__", [](const Lease& self) { return self.Info().output_count; })
      .def("__getitem__",
           [](const nb::object& self, int index) {
             const int count = nb::cast<const Lease&>(self).Info().output_count;
             if (count == 0) (void)nb::cast<const Lease&>(self).Use();  // Its session may be gone.
             if (index < 0 || index >= count) {
               PyErr_SetString(PyExc_IndexError, "lease: no such output");
               RaisePending();
             }
             return std::make_unique<Output>(self, index);
           })
      .def("release", &Lease::Release, "Gives the outputs up.")
      .def("split", &Split,
           "One lease per output, each of which can be kept, donated or dropped separately:\n"
           "output i is part[i]. This lease is empty afterwards.")
      .def("detach", &Detach, nb::arg("stream") = 0,
           "Copies the outputs into memory of their own, and gives the lease up. Returns a list\n"
           "of tensors.");
  BindOutputs(module);
}

}  // namespace coppice::python
