// Statuses as exceptions: the classes are those of coppice/errors.py.

#include "python/core/status.h"

#include <string>
#include <utility>

namespace coppice::python {
namespace {

// What a callback of this thread raised, as a reference of its own; null if nothing. A plain
// pointer, as threads end without the GIL.
thread_local PyObject* kept_exception = nullptr;

// "InvalidArgument" of the status that C calls "invalid argument".
std::string ErrorOf(coppice_status status) {
  std::string name = coppice_status_name(status);
  for (size_t space = name.find(' '); space != std::string::npos; space = name.find(' '))
    name.erase(space, 1)[space] -= 'a' - 'A';
  name[0] -= 'a' - 'A';
  return name;
}

std::string LastMessage() {
  std::string message(coppice_last_error(nullptr, 0), '\0');
  coppice_last_error(message.data(), message.size() + 1);
  return message;
}

[[noreturn]] void RaiseWith(const std::string& error,
                            const nb::str& message,
                            int32_t driver_result) {
  const nb::object kind = nb::module_::import_("coppice.errors").attr(error.c_str());
  const nb::object made = kind(message, driver_result);
  PyErr_SetObject(kind.ptr(), made.ptr());
  RaisePending();
}

[[noreturn]] void Fail(const std::string& error) {
  if (kept_exception != nullptr) {
    const nb::object exception = nb::steal(std::exchange(kept_exception, nullptr));
    PyErr_SetObject(exception.type().ptr(), exception.ptr());
    RaisePending();
  }
  const std::string message = LastMessage();
  const int32_t driver_result = coppice_last_driver_result();
  // A message may have bytes of a caller's text that are no UTF-8.
  const nb::object text = nb::steal(PyUnicode_DecodeUTF8(
      message.data(), static_cast<Py_ssize_t>(message.size()), "backslashreplace"));
  const nb::object told = nb::module_::import_("coppice.messages").attr("in_python")(text);
  RaiseWith(error, nb::str(told), driver_result);
}

}  // namespace

void RaisePending() {
  throw nb::python_error();
}

void Check(coppice_status status) {
  if (status != COPPICE_OK) [[unlikely]]
    Fail(ErrorOf(status));
}

void CheckRead(coppice_status status) {
  const bool stale = status == COPPICE_FAILED_PRECONDITION && coppice_last_driver_result() == 0;
  if (stale) Fail("StaleOutput");
  Check(status);
}

void RaiseText(const char* error, const std::string& message) {
  RaiseWith(error, nb::str(message.c_str()), 0);
}

void RaiseDriver(const char* entry, int32_t result) {
  RaiseWith("Internal",
            nb::str((std::string(entry) + ": CUresult " + std::to_string(result)).c_str()), result);
}

CallbackScope::CallbackScope() : outer_(std::exchange(kept_exception, nullptr)) {}

CallbackScope::~CallbackScope() {
  Py_XDECREF(std::exchange(kept_exception, outer_));
}

void WriteUnraisable() {
  if (kept_exception == nullptr) return;
  const nb::object exception = nb::steal(std::exchange(kept_exception, nullptr));
  PyErr_SetObject(exception.type().ptr(), exception.ptr());
  PyErr_WriteUnraisable(nullptr);
}

coppice_status internal::KeepException(nb::python_error& error) noexcept {
  const nb::object exception = nb::borrow(error.value());
  Py_XDECREF(std::exchange(kept_exception, nb::object(exception).release().ptr()));
  PyObject* const text = PyObject_Str(exception.ptr());
  const char* const message = text == nullptr ? nullptr : PyUnicode_AsUTF8AndSize(text, nullptr);
  std::string told = nb::type_name(exception.type()).c_str();
  if (message != nullptr && *message != '\0') told += std::string(": ") + message;
  PyErr_Clear();
  Py_XDECREF(text);
  coppice_set_error(told.c_str());
  return COPPICE_UNKNOWN;
}

coppice_status internal::TellException(const char* what) noexcept {
  coppice_set_error(what);
  return COPPICE_UNKNOWN;
}

}  // namespace coppice::python
