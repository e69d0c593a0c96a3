// Methods of classes that another file binds.

#pragma once

#include <string>
#include <utility>

#include "python/core/nanobind.h"

namespace coppice::python {

// The class of an object as users know it: "coppice.Tensor".
inline std::string NameOfType(nb::handle object) {
  return std::string("coppice.") + nb::str(object.type().attr("__name__")).c_str();
}

// Adds a method to a class of the module, which is bound by now.
template <typename Class, typename Function, typename... Extra>
void AddMethod(const char* name, Function&& function, const Extra&... extra) {
  const nb::handle type = nb::type<Class>();
  type.attr(name) = nb::cpp_function(std::forward<Function>(function), nb::name(name),
                                     nb::scope(type), nb::is_method(), extra...);
}

}  // namespace coppice::python
