// What copy and pickle get of objects that stand for something of a device.
//
// Threads: the GIL is held.

#pragma once

#include <string>

#include "python/core/methods.h"
#include "python/core/status.h"

namespace coppice::python {

// Makes copy.copy of a class of the module give the object itself, and deepcopy and pickle raise
// TypeError: a second one would end what the first one needs.
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

}  // namespace coppice::python
