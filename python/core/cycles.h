// What Python's collector of cycles is told of this module's objects.
//
// Threads: the GIL is held.

#pragma once

#include <functional>

#include "python/core/nanobind.h"

namespace coppice::python {

// A slot of a type: visits what `Visit` names of an object, which is called back with each
// reference that the object has.
template <typename Object, auto Visit>
int Traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  int stopped = 0;
  Visit(*nb::inst_ptr<Object>(self), [&](PyObject* held) {
    if (held != nullptr && stopped == 0) stopped = visit(held, arg);
  });
  return stopped;
}

// The slots of a type that only has to be looked through.
template <typename Object, auto Visit>
nb::type_slots LooksThrough() {
  static const PyType_Slot kSlots[] = {
      {Py_tp_traverse, reinterpret_cast<void*>(&Traverse<Object, Visit>)}, {0, nullptr}};
  return nb::type_slots(kSlots);
}

// The same of a type whose references are members, or what they return.
template <typename Object, auto... Members>
nb::type_slots Keeps() {
  constexpr auto kVisit = [](const Object& object, const auto& visit) {
    (visit(std::invoke(Members, object).ptr()), ...);
  };
  return LooksThrough<Object, kVisit>();
}

}  // namespace coppice::python
