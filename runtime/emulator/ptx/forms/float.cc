// Arithmetic of 32-bit and 64-bit floats, in every rounding mode.

#include <cmath>
#include <string>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/float_format.h"
#include "runtime/emulator/ptx/forms/rounding.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

template <typename F>
F Add(F a, F b) {
  return a + b;
}

template <typename F>
F Sub(F a, F b) {
  return a - b;
}

template <typename F>
F Mul(F a, F b) {
  return a * b;
}

template <typename F>
F Fma(F a, F b, F c) {
  return std::fma(a, b, c);
}

template <typename F>
F Div(F a, F b) {
  return a / b;
}

template <typename F>
F Rcp(F a) {
  return 1 / a;
}

template <typename F>
F Sqrt(F a) {
  return std::sqrt(a);
}

template <bool ftz, bool sat>
std::string Modifiers() {
  return std::string(ftz ? ".ftz" : "") + (sat ? ".sat" : "");
}

// Where a mode may be left out, it is to nearest.
template <auto of>
void AddWithDefault(FormTable& table, const std::string& before, const std::string& behind) {
  table.Each<of>(before + behind);
  AddRounded<of>(table, before, behind);
}

template <typename F, bool ftz, bool sat>
void AddSums(FormTable& table, const std::string& type) {
  const std::string end = Modifiers<ftz, sat>() + type;
  AddWithDefault<Modified<Add<F>, ftz, sat>::Of>(table, "add", end);
  AddWithDefault<Modified<Sub<F>, ftz, sat>::Of>(table, "sub", end);
  AddWithDefault<Modified<Mul<F>, ftz, sat>::Of>(table, "mul", end);
  AddRounded<Modified<Fma<F>, ftz, sat>::Of>(table, "fma", end);
  AddRounded<Modified<Fma<F>, ftz, sat>::Of>(table, "mad", end);
}

template <typename F, bool ftz>
void AddQuotients(FormTable& table, const std::string& type) {
  const std::string end = Modifiers<ftz, false>() + type;
  AddRounded<Modified<Div<F>, ftz, false>::Of>(table, "div", end);
  AddRounded<Modified<Rcp<F>, ftz, false>::Of>(table, "rcp", end);
  AddRounded<Modified<Sqrt<F>, ftz, false>::Of>(table, "sqrt", end);
}

FormTable MakeFloatTable() {
  FormTable table;
  AddSums<float, false, false>(table, ".f32");
  AddSums<float, false, true>(table, ".f32");
  AddSums<float, true, false>(table, ".f32");
  AddSums<float, true, true>(table, ".f32");
  AddSums<double, false, false>(table, ".f64");
  AddQuotients<float, false>(table, ".f32");
  AddQuotients<float, true>(table, ".f32");
  AddQuotients<double, false>(table, ".f64");
  return table;
}

}  // namespace

std::span<const Form> FloatForms() {
  static const FormTable table = MakeFloatTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
