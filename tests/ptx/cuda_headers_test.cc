// Goal: conversions and arithmetic of narrow floats give what cuda_fp16.h, cuda_bf16.h and
// cuda_fp8.h of the CUDA Toolkit compute on a host. Method: all values of 16 and of 8 bits, and of
// wider operands edges and drawn values; each opcode beside the function that nvcc makes it of.
// Skipped where there are no such headers.

#include <bit>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <type_traits>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/form_table.h"
#include "tests/ptx/one_form.h"
#include "tests/support/test_device.h"
#include "tests/support/test_share.h"

#ifdef COPPICE_HAVE_CUDA_HEADERS
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#endif

namespace coppice::ptx {
namespace {

#ifdef COPPICE_HAVE_CUDA_HEADERS

uint16_t Bits(__half value) {
  return __half_as_ushort(value);
}
uint16_t Bits(__nv_bfloat16 value) {
  return __bfloat16_as_ushort(value);
}
__half Half(uint64_t bits) {
  return __ushort_as_half(static_cast<uint16_t>(bits));
}
__nv_bfloat16 BFloat(uint64_t bits) {
  return __ushort_as_bfloat16(static_cast<uint16_t>(bits));
}
float Float(uint64_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits));
}
double Double(uint64_t bits) {
  return std::bit_cast<double>(bits);
}

// The bits of the result, of those of up to two operands.
using Function = std::function<uint64_t(uint64_t, uint64_t)>;

struct HeaderRow {
  const char* opcode;
  const char* letters;
  Function function;
  bool any_nan = false;  // The PTX ISA leaves open which NaN.
};

// A register of 16 bits holds what is narrower with its sign.
template <typename Integer, typename From>
Function IntegerFunction(Integer (*function)(From), From (*from)(uint64_t)) {
  using Register = std::conditional_t<sizeof(Integer) == 1, int16_t, Integer>;
  return [=](uint64_t a, uint64_t) -> uint64_t {
    const Register value = function(from(a));
    return static_cast<std::make_unsigned_t<Register>>(value);
  };
}

template <typename To, typename Integer>
Function OfInteger(To (*function)(Integer)) {
  return [=](uint64_t a, uint64_t) -> uint64_t { return Bits(function(static_cast<Integer>(a))); };
}

template <typename To, typename From>
Function OfFloat(To (*function)(From), From (*from)(uint64_t)) {
  return [=](uint64_t a, uint64_t) -> uint64_t { return Bits(function(from(a))); };
}

template <typename To>
Function OfTwo(To (*function)(To, To), To (*from)(uint64_t)) {
  return [=](uint64_t a, uint64_t b) -> uint64_t { return Bits(function(from(a), from(b))); };
}

uint64_t Fp8(float value, __nv_fp8_interpretation_t format) {
  return __nv_cvt_float_to_fp8(value, __NV_SATFINITE, format);
}

// Two floats: the first is the upper half.
Function BytesOfFloats(__nv_fp8_interpretation_t format) {
  return [=](uint64_t a, uint64_t b) { return Fp8(Float(a), format) << 8 | Fp8(Float(b), format); };
}

Function BytesOfHalves(__nv_fp8_interpretation_t format) {
  return [=](uint64_t a, uint64_t) -> uint64_t {
    const __half2_raw halves{static_cast<uint16_t>(a), static_cast<uint16_t>(a >> 16)};
    return __nv_cvt_halfraw2_to_fp8x2(halves, __NV_SATFINITE, format);
  };
}

Function HalvesOfBytes(__nv_fp8_interpretation_t format) {
  return [=](uint64_t a, uint64_t) -> uint64_t {
    const __half2_raw halves =
        __nv_cvt_fp8x2_to_halfraw2(static_cast<__nv_fp8x2_storage_t>(a), format);
    return uint64_t{halves.y} << 16 | halves.x;
  };
}

uint64_t PackedHalves(uint64_t high, uint64_t low) {
  return high << 16 | low;
}

template <typename To>
Function OfOne(To (*function)(To), To (*from)(uint64_t)) {
  return [=](uint64_t a, uint64_t) -> uint64_t { return Bits(function(from(a))); };
}

// Two values in each register.
Function OfPairs(__half2 (*function)(__half2, __half2)) {
  return [=](uint64_t a, uint64_t b) {
    const __half2 result =
        function(__halves2half2(Half(a), Half(a >> 16)), __halves2half2(Half(b), Half(b >> 16)));
    return PackedHalves(Bits(__high2half(result)), Bits(__low2half(result)));
  };
}

std::vector<HeaderRow> HeaderRows() {
  return {
      {"cvt.rn.f16.f32", "Hw", OfFloat(__float2half_rn, Float)},
      {"cvt.rz.f16.f32", "Hw", OfFloat(__float2half_rz, Float)},
      {"cvt.rm.f16.f32", "Hw", OfFloat(__float2half_rd, Float)},
      {"cvt.rp.f16.f32", "Hw", OfFloat(__float2half_ru, Float)},
      {"cvt.rn.f16.f64", "Hd", OfFloat(__double2half, Double)},
      {"cvt.rn.bf16.f32", "Hw", OfFloat(__float2bfloat16_rn, Float)},
      {"cvt.rz.bf16.f32", "Hw", OfFloat(__float2bfloat16_rz, Float)},
      {"cvt.rn.f16x2.f32", "Www",
       [](uint64_t a, uint64_t b) {
         const __half2 both = __floats2half2_rn(Float(b), Float(a));
         return PackedHalves(Bits(__high2half(both)), Bits(__low2half(both)));
       }},
      {"cvt.rn.bf16x2.f32", "Www",
       [](uint64_t a, uint64_t b) {
         const __nv_bfloat162 both = __floats2bfloat162_rn(Float(b), Float(a));
         return PackedHalves(Bits(__high2bfloat16(both)), Bits(__low2bfloat16(both)));
       }},
      {"cvt.f32.f16", "Wh",
       [](uint64_t a, uint64_t) -> uint64_t {
         return std::bit_cast<uint32_t>(__half2float(Half(a)));
       }},
      {"cvt.f32.bf16", "Wh",
       [](uint64_t a, uint64_t) -> uint64_t {
         return std::bit_cast<uint32_t>(__bfloat162float(BFloat(a)));
       }},
      {"cvt.rzi.s8.f16", "Hh", IntegerFunction(__half2char_rz, Half)},
      {"cvt.rzi.u8.f16", "Hh", IntegerFunction(__half2uchar_rz, Half)},
      {"cvt.rzi.s16.f16", "Hh", IntegerFunction(__half2short_rz, Half)},
      {"cvt.rzi.u16.f16", "Hh", IntegerFunction(__half2ushort_rz, Half)},
      {"cvt.rzi.s32.f16", "Wh", IntegerFunction(__half2int_rz, Half)},
      {"cvt.rzi.u32.f16", "Wh", IntegerFunction(__half2uint_rz, Half)},
      {"cvt.rzi.s64.f16", "Dh", IntegerFunction(__half2ll_rz, Half)},
      {"cvt.rzi.u64.f16", "Dh", IntegerFunction(__half2ull_rz, Half)},
      {"cvt.rn.f16.s16", "Hh", OfInteger(__short2half_rn)},
      {"cvt.rz.f16.s16", "Hh", OfInteger(__short2half_rz)},
      {"cvt.rm.f16.s16", "Hh", OfInteger(__short2half_rd)},
      {"cvt.rp.f16.s16", "Hh", OfInteger(__short2half_ru)},
      {"cvt.rn.f16.u16", "Hh", OfInteger(__ushort2half_rn)},
      {"cvt.rz.f16.u16", "Hh", OfInteger(__ushort2half_rz)},
      {"cvt.rm.f16.u16", "Hh", OfInteger(__ushort2half_rd)},
      {"cvt.rp.f16.u16", "Hh", OfInteger(__ushort2half_ru)},
      {"cvt.rn.f16.s32", "Hw", OfInteger(__int2half_rn)},
      {"cvt.rz.f16.s32", "Hw", OfInteger(__int2half_rz)},
      {"cvt.rm.f16.s32", "Hw", OfInteger(__int2half_rd)},
      {"cvt.rp.f16.s32", "Hw", OfInteger(__int2half_ru)},
      {"cvt.rn.f16.u32", "Hw", OfInteger(__uint2half_rn)},
      {"cvt.rz.f16.u32", "Hw", OfInteger(__uint2half_rz)},
      {"cvt.rm.f16.u32", "Hw", OfInteger(__uint2half_rd)},
      {"cvt.rp.f16.u32", "Hw", OfInteger(__uint2half_ru)},
      {"cvt.rn.f16.s64", "Hd", OfInteger(__ll2half_rn)},
      {"cvt.rz.f16.s64", "Hd", OfInteger(__ll2half_rz)},
      {"cvt.rm.f16.s64", "Hd", OfInteger(__ll2half_rd)},
      {"cvt.rp.f16.s64", "Hd", OfInteger(__ll2half_ru)},
      {"cvt.rn.f16.u64", "Hd", OfInteger(__ull2half_rn)},
      {"cvt.rz.f16.u64", "Hd", OfInteger(__ull2half_rz)},
      {"cvt.rm.f16.u64", "Hd", OfInteger(__ull2half_rd)},
      {"cvt.rp.f16.u64", "Hd", OfInteger(__ull2half_ru)},
      {"cvt.rn.satfinite.e4m3x2.f32", "Hww", BytesOfFloats(__NV_E4M3)},
      {"cvt.rn.satfinite.e5m2x2.f32", "Hww", BytesOfFloats(__NV_E5M2)},
      {"cvt.rn.satfinite.e4m3x2.f16x2", "Hw", BytesOfHalves(__NV_E4M3)},
      {"cvt.rn.satfinite.e5m2x2.f16x2", "Hw", BytesOfHalves(__NV_E5M2)},
      {"cvt.rn.f16x2.e4m3x2", "Wh", HalvesOfBytes(__NV_E4M3)},
      {"cvt.rn.f16x2.e5m2x2", "Wh", HalvesOfBytes(__NV_E5M2)},
      {"add.f16", "Hhh", OfTwo<__half>(__hadd, Half)},
      {"sub.f16", "Hhh", OfTwo<__half>(__hsub, Half)},
      {"mul.f16", "Hhh", OfTwo<__half>(__hmul, Half)},
      {"add.sat.f16", "Hhh", OfTwo<__half>(__hadd_sat, Half)},
      {"sub.sat.f16", "Hhh", OfTwo<__half>(__hsub_sat, Half)},
      {"mul.sat.f16", "Hhh", OfTwo<__half>(__hmul_sat, Half)},
      {"min.f16", "Hhh", OfTwo<__half>(__hmin, Half)},
      {"max.f16", "Hhh", OfTwo<__half>(__hmax, Half)},
      {"min.NaN.f16", "Hhh", OfTwo<__half>(__hmin_nan, Half)},
      {"max.NaN.f16", "Hhh", OfTwo<__half>(__hmax_nan, Half)},
      {"abs.f16", "Hh", OfOne<__half>(__habs, Half), true},
      {"neg.f16", "Hh", OfOne<__half>(__hneg, Half), true},
      {"set.eq.f16x2.f16x2", "Www", OfPairs(__heq2)},
      {"set.ne.f16x2.f16x2", "Www", OfPairs(__hne2)},
      {"set.le.f16x2.f16x2", "Www", OfPairs(__hle2)},
      {"set.ge.f16x2.f16x2", "Www", OfPairs(__hge2)},
      {"set.lt.f16x2.f16x2", "Www", OfPairs(__hlt2)},
      {"set.gt.f16x2.f16x2", "Www", OfPairs(__hgt2)},
      {"set.equ.f16x2.f16x2", "Www", OfPairs(__hequ2)},
      {"set.neu.f16x2.f16x2", "Www", OfPairs(__hneu2)},
      {"set.leu.f16x2.f16x2", "Www", OfPairs(__hleu2)},
      {"set.geu.f16x2.f16x2", "Www", OfPairs(__hgeu2)},
      {"set.ltu.f16x2.f16x2", "Www", OfPairs(__hltu2)},
      {"set.gtu.f16x2.f16x2", "Www", OfPairs(__hgtu2)},
      {"add.f16x2", "Www", OfPairs(__hadd2)},
      {"sub.f16x2", "Www", OfPairs(__hsub2)},
      {"mul.f16x2", "Www", OfPairs(__hmul2)},
      {"min.f16x2", "Www", OfPairs(__hmin2)},
      {"max.f16x2", "Www", OfPairs(__hmax2)},
      {"add.bf16", "Hhh", OfTwo<__nv_bfloat16>(__hadd, BFloat)},
      {"sub.bf16", "Hhh", OfTwo<__nv_bfloat16>(__hsub, BFloat)},
      {"mul.bf16", "Hhh", OfTwo<__nv_bfloat16>(__hmul, BFloat)},
      {"min.bf16", "Hhh", OfTwo<__nv_bfloat16>(__hmin, BFloat)},
      {"max.bf16", "Hhh", OfTwo<__nv_bfloat16>(__hmax, BFloat)},
  };
}

class HeaderDraw {
 public:
  explicit HeaderDraw(uint64_t seed) : random_(seed) {}

  // Any bits; numbers that a narrow float can or nearly can hold; ties between two of them.
  uint64_t Operand(int bits) {
    const uint64_t any = random_();
    if (bits == 16) return any & 0xffff;
    switch (any % 6) {
      case 0:
        return random_();
      case 1:  // Small integers.
        return random_() >> (64 - 1 - random_() % 40);
      case 2:
        return 0 - (random_() >> (64 - 1 - random_() % 40));
      default:
        break;
    }
    // An exponent from below the subnormals of e4m3 to above the largest half, or of all of bf16,
    // and a mantissa of which few bits are set, or all but few.
    const int spread = any % 2 == 0 ? 44 : 290;
    const auto exponent = static_cast<int>(random_() % static_cast<uint64_t>(spread)) - spread / 2;
    const uint64_t few = uint64_t{1} << (random_() % 53) | uint64_t{1} << (random_() % 53);
    const uint64_t kept = ~((uint64_t{1} << (32 + random_() % 20)) - 1);
    const uint64_t drawn = random_() & kept;
    const uint64_t mantissa = (random_() % 3 == 0   ? ~few
                               : random_() % 2 == 0 ? few
                                                    : drawn | few) &
                              ((uint64_t{1} << 52) - 1);
    const uint64_t number =
        (random_() & uint64_t{1}) << 63 | static_cast<uint64_t>(exponent + 1023) << 52 | mantissa;
    if (bits == 64) return number;
    return std::bit_cast<uint32_t>(static_cast<float>(std::bit_cast<double>(number)));
  }

 private:
  std::mt19937_64 random_;
};

class CudaHeadersTest : public testing::TestWithParam<HeaderRow> {};

TEST_P(CudaHeadersTest, GiveTheSame) {
  const HeaderRow& row = GetParam();
  const Form* const form = FindForm(row.opcode);
  ASSERT_NE(form, nullptr);
  OneForm one(row.opcode, row.letters);
  ASSERT_EQ(one.error(), "");
  const std::vector<FormOperand>& places = one.places();
  const bool all = places.size() == 2 && places[1].bits() == 16;
  HeaderDraw draw(TestSeed());
  const int64_t batches = all ? (1 << 16) / kLanes : 4000;
  for (int64_t batch = 0; batch < batches; batch += TestShare()) {
    uint64_t in[kLanes][2] = {};
    for (int lane = 0; lane < kLanes; ++lane) {
      for (size_t i = 1; i < places.size(); ++i) {
        const uint64_t value =
            all ? static_cast<uint64_t>(batch * kLanes + lane) : draw.Operand(places[i].bits());
        in[lane][i - 1] = places[i].bits() == 32 ? value & 0xffffffff : value;
        one.warp().Set(places[i], lane, value);
      }
    }
    one.Run(*form, kAllLanes);
    for (int lane = 0; lane < kLanes; ++lane) {
      const uint64_t expected = row.function(in[lane][0], in[lane][1]);
      const uint64_t actual = one.warp().Get(places[0], lane);
      if (row.any_nan && __hisnan(Half(expected)) && __hisnan(Half(actual))) continue;
      ASSERT_EQ(actual, expected) << fmt::format("{} of {:#x}, {:#x}: {:#x}, not {:#x}", row.opcode,
                                                 in[lane][0], in[lane][1], actual, expected);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(HeaderRows,
                         CudaHeadersTest,
                         testing::ValuesIn(HeaderRows()),
                         [](const auto& row) {
                           std::string name = row.param.opcode;
                           for (char& letter : name)
                             if (letter == '.') letter = '_';
                           return name;
                         });

#else

TEST(CudaHeadersTest, GiveTheSame) {
  GTEST_SKIP() << "no CUDA Toolkit with cuda_fp16.h";
}

#endif

}  // namespace
}  // namespace coppice::ptx
