// Python's functions behind those of C.

#include "python/core/callbacks.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "python/core/cycles.h"
#include "python/core/device.h"
#include "python/core/given.h"
#include "python/core/session_call.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

// What a callback needs; the object that C holds a reference to.
struct Callback {
  nb::object device;
  nb::object hold;  // Knows of C's reference.
  nb::object fn;
};

const Callback& CallbackOf(void* user) {
  return nb::cast<const Callback&>(nb::handle(static_cast<PyObject*>(user)));
}

// A tensor of a function: memory that the CPU aliases on an emulator, else the device's.
nb::object ShownTo(const nb::object& device, const DLTensor& tensor) {
  if (!nb::cast<const Device&>(device).is_emulator()) return nb::cast(ShownBy(device, tensor));
  return nb::cast(std::make_unique<HostTensor>(Layout::Of(tensor), tensor.data, nb::object()));
}

nb::list ShownTo(const nb::object& device, const DLTensor* tensors, int32_t count) {
  nb::list shown;
  for (int32_t i = 0; i < count; ++i)
    shown.append(ShownTo(device, tensors[i]));
  return shown;
}

const std::vector<const char*> kPhases = {"warm_up", "record", "eager"};

// A method that is one call of C on the run.
template <auto Function, typename... Arguments>
auto AskRun(const Context& context, const Arguments&... arguments) {
  return Ask<Function>(context.handle(), arguments...);
}

// A property out of what the run says of itself.
template <auto Field>
auto RunInfo(const Context& context) {
  return Ask<&coppice_context_describe>(context.handle()).*Field;
}

uint64_t Allocate(const Context& context, int64_t bytes, const std::optional<std::string>& label) {
  return label ? Ask<&coppice_context_allocate_labelled>(context.handle(), bytes, label->c_str())
               : Ask<&coppice_context_allocate>(context.handle(), bytes);
}

}  // namespace

void* UserOf(nb::object callback) {
  HoldOf(CallbackOf(callback.ptr()).hold).callbacks.insert(callback.ptr());
  return callback.release().ptr();
}

void ReleaseUser(void* user) {
  if (Py_IsInitialized() == 0) return;  // Memory goes with the process.
  const GilAcquire acquire;
  const nb::object callback = nb::steal(static_cast<PyObject*>(user));
  HoldOf(CallbackOf(user).hold).callbacks.erase(callback.ptr());
}

nb::object MakeCallback(nb::object device, nb::object hold, nb::object fn) {
  return nb::cast(std::make_unique<Callback>(std::move(device), std::move(hold), std::move(fn)));
}

coppice_status RunStepFunction(void* user, const coppice_function_call* call) {
  return AnswerCallback([&] {
    const Callback& callback = CallbackOf(user);
    nb::dict options;
    for (int32_t i = 0; i < call->option_count; ++i)
      options[nb::str(call->option_names[i])] = nb::str(call->option_values[i]);
    CallBack(callback.fn, ShownTo(callback.device, call->inputs, call->input_count),
             ShownTo(callback.device, call->outputs, call->output_count), options,
             reinterpret_cast<uintptr_t>(call->stream));
  });
}

coppice_status RunEagerStep(void* user, void* stream) {
  return AnswerCallback(
      [&] { CallBack(CallbackOf(user).fn, reinterpret_cast<uintptr_t>(stream)); });
}

coppice_status RunCallable(void* user, coppice_context* context) {
  return AnswerCallback([&] {
    const Callback& callback = CallbackOf(user);
    const nb::object told =
        nb::cast(std::make_unique<Context>(context, callback.device, callback.hold));
    struct Ended {  // Whoever keeps the context finds out that its run is over.
      Context& context;
      ~Ended() { context.End(); }
    } const ended{nb::cast<Context&>(told)};
    CallBack(callback.fn, told);
  });
}

coppice_context* Context::handle() const {
  if (handle_ == nullptr) Raise("FailedPrecondition", "context: its run is over");
  return handle_;
}

namespace {

// A tensor that a function of C tells of.
template <auto Function>
std::unique_ptr<Tensor> Shown(const Context& context, int index) {
  return ShownBy(context.device(), Ask<Function>(context.handle(), index).tensor);
}

void AddBreak(const Context& context, const nb::object& step) {
  CheckCallable(step, "add_break");
  coppice_context* const run = context.handle();
  void* const user = UserOf(MakeCallback(context.device(), context.hold(), step));
  AskUnlocked<&coppice_context_break>(run, &RunEagerStep, user, &ReleaseUser);
}

}  // namespace

void BindContexts(nb::module_& module) {
  nb::class_<Callback>(module, "_Callback", Keeps<Callback, &Callback::hold, &Callback::fn>());
  nb::class_<Context>(
      module, "Context",
      "The argument of a callable of Session.register_callable, valid during its run. The\n"
      "callable must launch only on `stream` and allocate through this object.")
      .def_prop_ro(
          "phase",
          [](const Context& self) { return kPhases[RunInfo<&coppice_context_info::phase>(self)]; },
          "\"warm_up\", \"record\" (the stream is capturing) or \"eager\".")
      .def_prop_ro(
          "stream",
          [](const Context& self) {
            return reinterpret_cast<uintptr_t>(RunInfo<&coppice_context_info::stream>(self));
          },
          "The stream.")
      .def_prop_ro("parameters", &RunInfo<&coppice_context_info::parameters>,
                   "Address of the parameter block, which has the real extents.")
      .def_prop_ro(
          "workspace", &RunInfo<&coppice_context_info::workspace>,
          "Address of the workspace for libraries; 0 if there is none. Each lane and each\n"
          "included call have a workspace of their own.")
      .def_prop_ro("workspace_bytes", &RunInfo<&coppice_context_info::workspace_bytes>,
                   "Size of the workspace in bytes.")
      .def_prop_ro("device", &Context::device)
      .def("extent", &AskRun<&coppice_context_extent, int>, nb::arg("symbol"),
           "The padded extent of a symbol by its number, in elements.")
      .def("scalar", &AskRun<&coppice_context_scalar, int>, nb::arg("scalar"),
           "The value of a scalar by its number.")
      .def("input", &Shown<&coppice_context_input>, nb::arg("index"),
           "An input, at padded extents.")
      .def("offsets", &Shown<&coppice_context_offsets>, nb::arg("ragged"),
           "The offsets of ragged sequences, by their number in the spec: where each sequence\n"
           "begins, and where the last one ends.")
      .def("output", &Shown<&coppice_context_output>, nb::arg("index"),
           "Allocates an output, once.")
      .def("add_break", &AddBreak, nb::arg("step"),
           "Ends the graph recorded so far, and begins another after step(stream). A call\n"
           "without a graph runs `step` at once, and every replay runs it between the two\n"
           "graphs.")
      .def("alias_output", &AskRun<&coppice_context_alias_output, int, uint64_t>, nb::arg("index"),
           nb::arg("address"), "Declares that an output lies in an input.")
      .def("allocate", &Allocate, nb::arg("bytes"), nb::arg("label") = nb::none(),
           "Memory of this run; profilers call it `label`.")
      .def("free", &AskRun<&coppice_context_free, uint64_t>, nb::arg("address"),
           "Gives back memory of `allocate`, or an input that was donated.");
}

}  // namespace coppice::python
