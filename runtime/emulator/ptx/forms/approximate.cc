// Approximate operations of floats. PTX bounds their errors; these are exact to the last bit or
// nearly, so that no result depends on the host.

#include <cmath>
#include <cstdint>
#include <string>

#include "runtime/emulator/ptx/forms/elementary.h"
#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/float_format.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

// As a times the reciprocal of b, which is 0 where it would be subnormal.
float ApproximateDiv(float a, float b) {
  constexpr float kLargest = 0x1p126F;
  const float size = std::fabs(b);
  return size > kLargest && !std::isinf(size) ? a * std::copysign(0.0F, b) : a / b;
}

float FullRangeDiv(float a, float b) {
  return a / b;
}

float ApproximateRcp(float a) {
  return 1 / a;
}

float ApproximateSqrt(float a) {
  return std::sqrt(a);
}

float ApproximateRsqrt(float a) {
  return static_cast<float>(1 / std::sqrt(static_cast<double>(a)));
}

double ApproximateRsqrt64(double a) {
  return 1 / std::sqrt(a);
}

// Zero for a subnormal angle, also where those are not flushed.
float ApproximateSin(float a) {
  constexpr float kLeastNormal = 0x1p-126F;
  if (std::fabs(a) < kLeastNormal) return std::copysign(0.0F, a);
  return static_cast<float>(std::sin(static_cast<double>(a)));
}

float ApproximateCos(float a) {
  return static_cast<float>(std::cos(static_cast<double>(a)));
}

float ApproximateTanh(float a) {
  return static_cast<float>(std::tanh(static_cast<double>(a)));
}

float ApproximateExp2(float a) {
  return Exp2(a);
}

float ApproximateLog2(float a) {
  return Log2(a);
}

// Of 64 bits, the gross approximations read and write the upper word only.
double UpperWord(double a) {
  return FromBits<double>(ToBits(Canonical(a)) & 0xffffffff00000000);
}

double GrossRcp(double a) {
  return UpperWord(Flush(1 / Flush(UpperWord(a))));
}

double GrossRsqrt(double a) {
  return UpperWord(Flush(1 / std::sqrt(Flush(UpperWord(a)))));
}

template <auto of>
void AddApproximate(FormTable& table, const std::string& name) {
  table.Each<Modified<of, false, false>::Of>(name + ".f32");
  table.Each<Modified<of, true, false>::Of>(name + ".ftz.f32");
}

FormTable MakeApproximateTable() {
  FormTable table;
  AddApproximate<ApproximateDiv>(table, "div.approx");
  AddApproximate<FullRangeDiv>(table, "div.full");
  AddApproximate<ApproximateRcp>(table, "rcp.approx");
  AddApproximate<ApproximateSqrt>(table, "sqrt.approx");
  AddApproximate<ApproximateRsqrt>(table, "rsqrt.approx");
  AddApproximate<ApproximateSin>(table, "sin.approx");
  AddApproximate<ApproximateCos>(table, "cos.approx");
  AddApproximate<ApproximateExp2>(table, "ex2.approx");
  AddApproximate<ApproximateLog2>(table, "lg2.approx");
  table.Each<Modified<ApproximateTanh, false, false>::Of>("tanh.approx.f32");
  table.Each<ApproximateRsqrt64>("rsqrt.approx.f64");
  table.Each<GrossRcp>("rcp.approx.ftz.f64");
  table.Each<GrossRsqrt>("rsqrt.approx.ftz.f64");
  return table;
}

}  // namespace

std::span<const Form> ApproximateForms() {
  static const FormTable table = MakeApproximateTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
