// Threads that outlive the interpreter.

#include "python/core/gil.h"

#include <atomic>
#include <unistd.h>

namespace coppice::python {
namespace {

std::atomic<int> g_callbacks = 0;  // That run functions of Python.

// As sys.is_finalizing(), which is gone where the end is near.
bool IsFinalizing() {
  PyObject* const asks = PySys_GetObject("is_finalizing");
  if (asks == nullptr) return true;
  PyObject* const answer = PyObject_CallNoArgs(asks);
  if (answer == nullptr) PyErr_Clear();
  const bool is_finalizing = answer != Py_False;
  Py_XDECREF(answer);
  return is_finalizing;
}

}  // namespace

void StayHere() noexcept {
  for (;;)
    pause();
}

CallbackCount::CallbackCount() {
  ++g_callbacks;
}

CallbackCount::~CallbackCount() {
  --g_callbacks;
}

bool IsLeftToProcess() noexcept {
  return g_callbacks > 0 && IsFinalizing();
}

}  // namespace coppice::python
