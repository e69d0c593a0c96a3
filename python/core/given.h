// What Python gives, as C++ takes it.
//
// Threads: the GIL is held. Errors: TypeError, which says what was given and what is needed.

#pragma once

#include <string>
#include <type_traits>

#include "python/core/status.h"

namespace coppice::python {

[[noreturn]] inline void RaiseNot(nb::handle given,
                                  const std::string& what,
                                  const std::string& needed) {
  const std::string message = what + ": " + needed + " is needed, but a " +
                              nb::type_name(given.type()).c_str() + " is given";
  PyErr_SetString(PyExc_TypeError, message.c_str());
  RaisePending();
}

template <typename Value>
constexpr const char* NeededOf() {
  if constexpr (std::is_same_v<Value, bool>) return "bool";
  if constexpr (std::is_integral_v<Value>) return "int within its limits";
  if constexpr (std::is_floating_point_v<Value>) return "float";
  if constexpr (std::is_same_v<Value, std::string>) return "str";
  return "list of int";
}

// A number, a text or a list of numbers. `what` names it.
template <typename Value>
Value Given(nb::handle given, const std::string& what) {
  Value value{};
  if (!nb::try_cast(given, value)) RaiseNot(given, what, NeededOf<Value>());
  return value;
}

// One of this module's objects.
template <typename Object>
Object& GivenObject(nb::handle given, const std::string& what) {
  if (!nb::isinstance<Object>(given))
    RaiseNot(given, what, nb::type_name(nb::type<Object>()).c_str());
  return nb::cast<Object&>(given);
}

// What can be called.
inline void CheckCallable(nb::handle fn, const std::string& what) {
  if (PyCallable_Check(fn.ptr()) == 0) RaiseNot(fn, what, "function");
}

// A tuple or list of as many members.
inline nb::tuple GivenParts(nb::handle given,
                            const std::string& what,
                            const char* needed,
                            size_t count) {
  const bool listed = nb::isinstance<nb::tuple>(given) || nb::isinstance<nb::list>(given);
  if (!listed || nb::len(given) != count) RaiseNot(given, what, needed);
  return nb::tuple(given);
}

}  // namespace coppice::python
