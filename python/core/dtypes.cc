// Element types: a table of names.

#include "python/core/dtypes.h"

#include <array>

#include "python/core/status.h"

namespace coppice::python {
namespace {

struct Named {
  std::string_view name;
  DLDataType dtype;
};

constexpr std::array<Named, 16> kNamed = {{
    {"f64", {kDLFloat, 64, 1}},
    {"f32", {kDLFloat, 32, 1}},
    {"f16", {kDLFloat, 16, 1}},
    {"bf16", {kDLBfloat, 16, 1}},
    {"f8e4m3", {kDLFloat8_e4m3fn, 8, 1}},
    {"f8e5m2", {kDLFloat8_e5m2, 8, 1}},
    {"c64", {kDLComplex, 64, 1}},
    {"i64", {kDLInt, 64, 1}},
    {"i32", {kDLInt, 32, 1}},
    {"i16", {kDLInt, 16, 1}},
    {"i8", {kDLInt, 8, 1}},
    {"u64", {kDLUInt, 64, 1}},
    {"u32", {kDLUInt, 32, 1}},
    {"u16", {kDLUInt, 16, 1}},
    {"u8", {kDLUInt, 8, 1}},
    {"bool", {kDLBool, 8, 1}},
}};

}  // namespace

std::string_view NameOf(DLDataType dtype) {
  for (const Named& named : kNamed) {
    if (named.dtype.code == dtype.code && named.dtype.bits == dtype.bits && dtype.lanes == 1)
      return named.name;
  }
  Raise("InvalidArgument", "dtype: coppice has no dtype for DLPack code ", dtype.code, " with ",
        dtype.bits, " bits and ", dtype.lanes, " lanes");
}

DLDataType DTypeNamed(std::string_view name) {
  std::string known;
  for (const Named& named : kNamed) {
    if (named.name == name) return named.dtype;
    known += " " + std::string(named.name);
  }
  Raise("InvalidArgument", "dtype: '", name, "' is not one of", known);
}

int64_t BytesOf(DLDataType dtype) {
  return dtype.bits / 8;
}

}  // namespace coppice::python
