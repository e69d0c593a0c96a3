// cvt from and to floats of 16 bits and fewer, single and packed; and tf32.

#include <array>
#include <cstdint>
#include <string>
#include <type_traits>

#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/float_format.h"
#include "runtime/emulator/ptx/forms/narrow_format.h"
#include "runtime/emulator/ptx/forms/table.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

// What is done to a value before it is rounded.
enum class Clamp : uint8_t { kNone, kSat, kRelu };
constexpr std::array<const char*, 3> kClamps = {"", ".sat", ".relu"};

template <Clamp clamp>
float Clamped(float value) {
  if constexpr (clamp == Clamp::kSat) return Saturate(value);
  if constexpr (clamp == Clamp::kRelu) return value <= 0 ? 0 : value;  // NaN stays.
  return value;
}

template <typename Format, NarrowRounding rounding, bool ftz, Clamp clamp, bool finite>
uint16_t ToHalf(float a) {
  return static_cast<uint16_t>(Narrow<Format, rounding, finite>(Clamped<clamp>(FlushIf<ftz>(a))));
}

template <typename Format, NarrowRounding rounding, Clamp clamp>
uint16_t ToHalfOfF64(double a) {
  return static_cast<uint16_t>(Narrow<Format, rounding>(Clamped<clamp>(ToOddFloat(a))));
}

// The first operand becomes the upper part.
template <typename Format, NarrowRounding rounding, Clamp clamp, bool finite>
uint32_t ToHalves(float a, float b) {
  const uint32_t high = Narrow<Format, rounding, finite>(Clamped<clamp>(a));
  return high << 16 | Narrow<Format, rounding, finite>(Clamped<clamp>(b));
}

template <typename Format, Clamp clamp>
uint16_t ToBytes(float a, float b) {
  constexpr NarrowRounding kNearest = NarrowRounding::kNearest;
  const uint32_t high = Narrow<Format, kNearest, true>(Clamped<clamp>(a));
  return static_cast<uint16_t>(high << 8 | Narrow<Format, kNearest, true>(Clamped<clamp>(b)));
}

template <typename Format, Clamp clamp>
uint16_t ToBytesOfHalves(uint32_t a) {
  return ToBytes<Format, clamp>(Widen<F16>(a >> 16), Widen<F16>(a & 0xffff));
}

template <typename Format, Clamp clamp>
uint32_t HalvesOfBytes(uint16_t a) {
  const uint32_t bits = a;
  return ToHalves<F16, NarrowRounding::kNearest, clamp, false>(Widen<Format>(bits >> 8),
                                                               Widen<Format>(bits & 0xff));
}

// The format's bits are the upper ones of 32; a NaN is that of f32.
template <NarrowRounding rounding, Clamp clamp, bool finite>
uint32_t ToTF32(float a) {
  const uint32_t bits = Narrow<TF32, rounding, finite>(Clamped<clamp>(a));
  return bits == TF32::kNaN ? FloatBits<float>::kNaN : bits << 13;
}

// Of bf16 even a NaN keeps its bits.
template <typename Format, bool sat>
float F32Of(uint16_t a) {
  const float value = Widen<Format>(a);
  if constexpr (std::is_same_v<Format, BF16>) return value;
  return sat ? Saturate(value) : Canonical(value);
}

template <typename Format, bool sat>
double F64Of(uint16_t a) {
  return static_cast<double>(F32Of<Format, sat>(a));
}

template <typename To, typename From, NarrowRounding rounding>
uint16_t HalfOfHalf(uint16_t a) {
  return static_cast<uint16_t>(Narrow<To, rounding>(Widen<From>(a)));
}

double F64OfBF16(uint16_t a) {
  return static_cast<double>(Canonical(Widen<BF16>(a)));
}

template <NarrowRounding rounding, bool ftz, Clamp clamp>
void AddF16OfF32(FormTable& table, const std::string& mode) {
  const std::string head = "cvt" + mode + (ftz ? ".ftz" : "");
  const char* const name = kClamps[static_cast<size_t>(clamp)];
  table.Each<ToHalf<F16, rounding, ftz, clamp, false>>(head + name + ".f16.f32");
}

template <NarrowRounding rounding>
void AddF16(FormTable& table, const std::string& mode) {
  AddF16OfF32<rounding, false, Clamp::kNone>(table, mode);
  AddF16OfF32<rounding, false, Clamp::kSat>(table, mode);
  AddF16OfF32<rounding, true, Clamp::kNone>(table, mode);
  AddF16OfF32<rounding, true, Clamp::kSat>(table, mode);
  table.Each<ToHalfOfF64<F16, rounding, Clamp::kNone>>("cvt" + mode + ".f16.f64");
  table.Each<ToHalfOfF64<F16, rounding, Clamp::kSat>>("cvt" + mode + ".sat.f16.f64");
}

// Modifiers of the conversions that know .relu and .satfinite.
template <Clamp clamp, bool finite>
std::string Ending() {
  return std::string(clamp == Clamp::kRelu ? ".relu" : "") + (finite ? ".satfinite" : "");
}

template <NarrowRounding rounding, Clamp clamp, bool finite>
void AddTrained(FormTable& table, const std::string& mode) {
  const std::string head = "cvt" + mode + Ending<clamp, finite>();
  table.Each<ToHalf<BF16, rounding, false, clamp, finite>>(head + ".bf16.f32");
  table.Each<ToHalves<BF16, rounding, clamp, finite>>(head + ".bf16x2.f32");
  table.Each<ToHalves<F16, rounding, clamp, finite>>(head + ".f16x2.f32");
  if constexpr (finite || clamp == Clamp::kRelu)
    table.Each<ToHalf<F16, rounding, false, clamp, finite>>(head + ".f16.f32");
  if constexpr (!finite) table.Each<ToTF32<rounding, clamp, false>>(head + ".tf32.f32");
}

template <NarrowRounding rounding>
void AddTrainedAll(FormTable& table, const std::string& mode) {
  AddTrained<rounding, Clamp::kNone, false>(table, mode);
  AddTrained<rounding, Clamp::kNone, true>(table, mode);
  AddTrained<rounding, Clamp::kRelu, false>(table, mode);
  AddTrained<rounding, Clamp::kRelu, true>(table, mode);
}

template <typename Format, Clamp clamp>
void AddBytes(FormTable& table, const std::string& type) {
  const std::string relu = clamp == Clamp::kRelu ? ".relu" : "";
  table.Each<ToBytes<Format, clamp>>("cvt.rn.satfinite" + relu + type + ".f32");
  table.Each<ToBytesOfHalves<Format, clamp>>("cvt.rn.satfinite" + relu + type + ".f16x2");
  table.Each<HalvesOfBytes<Format, clamp>>("cvt.rn" + relu + ".f16x2" + type);
}

// From and to bf16, as sm_90 has them.
template <NarrowRounding rounding>
void AddBF16(FormTable& table, const std::string& mode) {
  table.Each<HalfOfHalf<BF16, F16, rounding>>("cvt" + mode + ".bf16.f16");
  table.Each<HalfOfHalf<F16, BF16, rounding>>("cvt" + mode + ".f16.bf16");
  table.Each<ToHalfOfF64<BF16, rounding, Clamp::kNone>>("cvt" + mode + ".bf16.f64");
}

FormTable MakeNarrowTable() {
  FormTable table;
  AddBF16<NarrowRounding::kNearest>(table, ".rn");
  AddBF16<NarrowRounding::kTowardZero>(table, ".rz");
  AddBF16<NarrowRounding::kDown>(table, ".rm");
  AddBF16<NarrowRounding::kUp>(table, ".rp");
  table.Each<HalfOfHalf<BF16, F16, NarrowRounding::kNearest>>("cvt.bf16.f16");
  table.Each<HalfOfHalf<F16, BF16, NarrowRounding::kNearest>>("cvt.f16.bf16");
  table.Each<F64OfBF16>("cvt.f64.bf16");
  AddF16<NarrowRounding::kNearest>(table, ".rn");
  AddF16<NarrowRounding::kTowardZero>(table, ".rz");
  AddF16<NarrowRounding::kDown>(table, ".rm");
  AddF16<NarrowRounding::kUp>(table, ".rp");
  AddTrainedAll<NarrowRounding::kNearest>(table, ".rn");
  AddTrainedAll<NarrowRounding::kTowardZero>(table, ".rz");
  table.Each<ToTF32<NarrowRounding::kNearestAway, Clamp::kNone, false>>("cvt.rna.tf32.f32");
  table.Each<ToTF32<NarrowRounding::kNearestAway, Clamp::kNone, true>>(
      "cvt.rna.satfinite.tf32.f32");
  AddBytes<E4M3, Clamp::kNone>(table, ".e4m3x2");
  AddBytes<E4M3, Clamp::kRelu>(table, ".e4m3x2");
  AddBytes<E5M2, Clamp::kNone>(table, ".e5m2x2");
  AddBytes<E5M2, Clamp::kRelu>(table, ".e5m2x2");
  for (const char* const flush : {"", ".ftz"}) {  // An f16 is never a subnormal f32.
    const std::string head = std::string("cvt") + flush;
    table.Each<F32Of<F16, false>>(head + ".f32.f16");
    table.Each<F32Of<F16, true>>(head + ".sat.f32.f16");
  }
  table.Each<F64Of<F16, false>>("cvt.f64.f16");
  table.Each<F64Of<F16, true>>("cvt.sat.f64.f16");
  table.Each<F32Of<BF16, false>>("cvt.f32.bf16");
  return table;
}

}  // namespace

std::span<const Form> NarrowForms() {
  static const FormTable table = MakeNarrowTable();
  return table.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
