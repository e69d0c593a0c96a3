// What this module has of nanobind, and of C.
//
// Casters are the same in all sources, because a function that is bound in two of them must not be
// two different ones.

#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "coppice/coppice.h"

namespace coppice::python {

namespace nb = nanobind;

}  // namespace coppice::python
