// selp and slct: one of two values.

#include <cstdint>
#include <string>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/float_format.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

template <typename T>
T Selp(T a, T b, bool p) {
  return p ? a : b;
}

template <typename T>
T SlctByInteger(T a, T b, int32_t c) {
  return c >= 0 ? a : b;
}

// -0 is not below 0, and a NaN chooses b.
template <typename T, bool ftz>
T SlctByFloat(T a, T b, float c) {
  return FlushIf<ftz>(c) >= 0 ? a : b;
}

template <typename T>
void AddSelectRows(FormTable& table, const std::string& type) {
  table.Each<Selp<T>>("selp" + type);
  table.Each<SlctByInteger<T>>("slct" + type + ".s32");
  table.Each<SlctByFloat<T, false>>("slct" + type + ".f32");
  table.Each<SlctByFloat<T, true>>("slct.ftz" + type + ".f32");
}

FormTable MakeSelectTable() {
  FormTable table;
  for (const char* const type : {".b16", ".u16", ".s16"})
    AddSelectRows<uint16_t>(table, type);
  for (const char* const type : {".b32", ".u32", ".s32", ".f32"})
    AddSelectRows<uint32_t>(table, type);
  for (const char* const type : {".b64", ".u64", ".s64", ".f64"})
    AddSelectRows<uint64_t>(table, type);
  return table;
}

}  // namespace

std::span<const Form> SelectForms() {
  static const FormTable table = MakeSelectTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
