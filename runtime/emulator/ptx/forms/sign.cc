// Forms of 32-bit and 64-bit floats that do not round: signs, classes, the smaller and the larger.

#include <cstdint>
#include <string>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/float_format.h"
#include "runtime/emulator/ptx/forms/minmax.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

template <typename F, bool ftz>
F Neg(F a) {
  return FromBits<F>(ToBits(FlushIf<ftz>(a)) ^ FloatBits<F>::kSign);
}

template <typename F, bool ftz>
F AbsOf(F a) {
  return Abs(FlushIf<ftz>(a));
}

template <typename F, bool ftz, bool larger, bool nan>
F ExtremeOf(F a, F b) {
  return Extreme<larger, nan>(FlushIf<ftz>(a), FlushIf<ftz>(b));
}

template <bool ftz, bool larger, bool nan>
float MagnitudeOf(float a, float b) {
  return ExtremeMagnitude<larger, nan>(FlushIf<ftz>(a), FlushIf<ftz>(b));
}

// The magnitude of b with the sign of a.
template <typename F>
F CopySign(F a, F b) {
  const BitsOf<F> sign = FloatBits<F>::kSign;
  return FromBits<F>((ToBits(a) & sign) | (ToBits(b) & ~sign));
}

template <typename F>
bool IsFinite(F a) {
  return ToBits(Abs(a)) < FloatBits<F>::kInfinity;
}

template <typename F>
bool IsInfinite(F a) {
  return ToBits(Abs(a)) == FloatBits<F>::kInfinity;
}

template <typename F>
bool IsNumber(F a) {
  return !IsNaN(a);
}

template <typename F>
bool IsNotANumber(F a) {
  return IsNaN(a);
}

template <typename F>
bool IsSubnormal(F a) {
  return ToBits(a) << 1 != 0 && (ToBits(a) & FloatBits<F>::kInfinity) == 0;
}

// Zeros are, unlike for isnormal() of C.
template <typename F>
bool IsNormal(F a) {
  return IsFinite(a) && !IsSubnormal(a);
}

template <typename F>
void AddClasses(FormTable& table, const std::string& type) {
  table.Each<IsFinite<F>>("testp.finite" + type);
  table.Each<IsInfinite<F>>("testp.infinite" + type);
  table.Each<IsNumber<F>>("testp.number" + type);
  table.Each<IsNotANumber<F>>("testp.notanumber" + type);
  table.Each<IsNormal<F>>("testp.normal" + type);
  table.Each<IsSubnormal<F>>("testp.subnormal" + type);
  table.Each<CopySign<F>>("copysign" + type);
}

template <typename F, bool ftz>
void AddSigns(FormTable& table, const std::string& type) {
  const std::string end = (ftz ? ".ftz" : "") + type;
  table.Each<Neg<F, ftz>>("neg" + end);
  table.Each<AbsOf<F, ftz>>("abs" + end);
  table.Each<ExtremeOf<F, ftz, false, false>>("min" + end);
  table.Each<ExtremeOf<F, ftz, true, false>>("max" + end);
}

template <bool ftz>
void AddExtremes(FormTable& table) {
  const std::string flush = ftz ? ".ftz" : "";
  table.Each<ExtremeOf<float, ftz, false, true>>("min" + flush + ".NaN.f32");
  table.Each<ExtremeOf<float, ftz, true, true>>("max" + flush + ".NaN.f32");
  table.Each<MagnitudeOf<ftz, false, false>>("min" + flush + ".xorsign.abs.f32");
  table.Each<MagnitudeOf<ftz, true, false>>("max" + flush + ".xorsign.abs.f32");
  table.Each<MagnitudeOf<ftz, false, true>>("min" + flush + ".NaN.xorsign.abs.f32");
  table.Each<MagnitudeOf<ftz, true, true>>("max" + flush + ".NaN.xorsign.abs.f32");
}

FormTable MakeSignTable() {
  FormTable table;
  AddClasses<float>(table, ".f32");
  AddClasses<double>(table, ".f64");
  AddSigns<float, false>(table, ".f32");
  AddSigns<float, true>(table, ".f32");
  AddSigns<double, false>(table, ".f64");
  AddExtremes<false>(table);
  AddExtremes<true>(table);
  return table;
}

}  // namespace

std::span<const Form> SignForms() {
  static const FormTable table = MakeSignTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
