// Element types by the names that kernel packages have for them.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "dlpack/dlpack.h"

namespace coppice::python {

// "f32", "bf16", "i64", ... Raises InvalidArgument for a type that coppice has not.
std::string_view NameOf(DLDataType dtype);
DLDataType DTypeNamed(std::string_view name);

int64_t BytesOf(DLDataType dtype);  // Of one element.

}  // namespace coppice::python
