// Random words, fills and copies; and products of matrices: right for all shapes, and fast for
// none.

#include "coppice/runtime/block_kernel.h"

#include "graphs/package/step_kernel_params.h"
#include "graphs/staging/units.h"

namespace coppice {
namespace {

constexpr int kThreads = 128;

// SplitMix64 (Steele, Lea and Flood, Fast Splittable Pseudorandom Number Generators, 2014).
COPPICE_DEVICE uint64_t Mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
  return x ^ (x >> 31);
}

COPPICE_DEVICE float FloatOf(uint32_t bits) {
#ifdef __CUDACC__
  return __uint_as_float(bits);
#else
  return std::bit_cast<float>(bits);
#endif
}

COPPICE_DEVICE uint32_t BitsOf(float value) {
#ifdef __CUDACC__
  return __float_as_uint(value);
#else
  return std::bit_cast<uint32_t>(value);
#endif
}

// Exact: a half's exponent is moved into that of a float, and subnormals are scaled.
COPPICE_DEVICE float FromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000U) << 16;
  const uint32_t magnitude = half & 0x7FFFU;
  if (magnitude >= 0x7C00U) return FloatOf(sign | 0x7F800000U | (magnitude & 0x3FFU) << 13);
  if (magnitude >= 0x400U) return FloatOf(sign | (magnitude + (112U << 10)) << 13);
  const float scaled = static_cast<float>(magnitude) * 5.9604644775390625e-08F;
  return sign == 0 ? scaled : -scaled;
}

// To nearest, ties to even.
COPPICE_DEVICE uint16_t ToHalf(float value) {
  const uint32_t bits = BitsOf(value);
  const uint32_t sign = bits >> 16 & 0x8000U;
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7FFFU);
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);
  if (magnitude < 0x38800000U) {
    // The sum puts the half's last bit where the float's last one is, and rounds there.
    const uint32_t sum = BitsOf(FloatOf(magnitude) + 0.5F);
    return static_cast<uint16_t>(sign | (sum - 0x3F000000U));
  }
  const uint32_t rounded = magnitude + 0xFFFU + (magnitude >> 13 & 1U);
  return static_cast<uint16_t>(sign | ((rounded >> 13) - (112U << 10)));
}

COPPICE_DEVICE uint16_t ToBFloat16(float value) {
  const uint32_t bits = BitsOf(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return 0x7FFFU;
  return static_cast<uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

COPPICE_DEVICE double Load(const void* from, GemmElement element, int64_t index) {
  switch (element) {
    case GemmElement::kFloat32:
      return static_cast<const float*>(from)[index];
    case GemmElement::kFloat16:
      return FromHalf(static_cast<const uint16_t*>(from)[index]);
    case GemmElement::kBFloat16:
      return FloatOf(static_cast<uint32_t>(static_cast<const uint16_t*>(from)[index]) << 16);
    default:
      return static_cast<const double*>(from)[index];
  }
}

COPPICE_DEVICE void Store(void* to, GemmElement element, int64_t index, double value) {
  switch (element) {
    case GemmElement::kFloat32:
      static_cast<float*>(to)[index] = static_cast<float>(value);
      break;
    case GemmElement::kFloat16:
      static_cast<uint16_t*>(to)[index] = ToHalf(static_cast<float>(value));
      break;
    case GemmElement::kBFloat16:
      static_cast<uint16_t*>(to)[index] = ToBFloat16(static_cast<float>(value));
      break;
    default:
      static_cast<double*>(to)[index] = value;
      break;
  }
}

// Bytes from the first element to behind the last.
COPPICE_ANYWHERE int64_t
SpanOf(const int64_t* strides, int64_t batch, int64_t rows, int64_t columns, GemmElement element) {
  const int64_t bytes = element == GemmElement::kFloat64   ? 8
                        : element == GemmElement::kFloat32 ? 4
                                                           : 2;
  if (batch == 0 || rows == 0 || columns == 0) return 0;
  return ((batch - 1) * strides[0] + (rows - 1) * strides[1] + (columns - 1) * strides[2] + 1) *
         bytes;
}

}  // namespace

COPPICE_KERNEL(SeedWords, kThreads, SeedWordsParams) {
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * Block::kThreads + thread;
    if (i >= params.count) return;
    const auto seed = static_cast<uint64_t>(params.state[0]);
    const auto drawn = static_cast<uint64_t>(params.state[1]) / 2;
    params.words[i] =
        static_cast<int64_t>(Mix(Mix(seed) ^ (drawn + static_cast<uint64_t>(params.first + i))));
  });
}

COPPICE_ACCESSES(SeedWords, SeedWordsParams) {
  accesses.Reads(params.state, 2);
  accesses.Writes(params.words, params.count);
}

// A thread makes one element.
COPPICE_KERNEL(Gemm, kThreads, GemmParams) {
  block.ForEach([&](int thread) {
    const int64_t i = int64_t{block.x()} * Block::kThreads + thread;
    if (i >= params.batch * params.m * params.n) return;
    const int64_t column = i % params.n;
    const int64_t row = i / params.n % params.m;
    const int64_t matrix = i / params.n / params.m;
    const int64_t a = matrix * params.a_strides[0] + row * params.a_strides[1];
    const int64_t b = matrix * params.b_strides[0] + column * params.b_strides[2];
    double sum = 0;
    float narrow = 0;
    for (int64_t k = 0; k < params.k; ++k) {
      const double left = Load(params.a, params.element, a + k * params.a_strides[2]);
      const double right = Load(params.b, params.element, b + k * params.b_strides[1]);
      if (params.element == GemmElement::kFloat64)
        sum += left * right;
      else
        narrow += static_cast<float>(left) * static_cast<float>(right);
    }
    if (params.element != GemmElement::kFloat64) sum = narrow;
    sum *= params.alpha;
    if (params.beta != 0) {
      const int64_t c =
          matrix * params.c_strides[0] + row * params.c_strides[1] + column * params.c_strides[2];
      sum += params.beta * Load(params.c, params.element, c);
    }
    const int64_t y =
        matrix * params.y_strides[0] + row * params.y_strides[1] + column * params.y_strides[2];
    Store(params.y, params.element, y, sum);
  });
}

COPPICE_ACCESSES(Gemm, GemmParams) {
  const auto bytes = [&](const int64_t* strides, int64_t rows, int64_t columns) {
    return SpanOf(strides, params.batch, rows, columns, params.element);
  };
  const auto* const a = static_cast<const char*>(params.a);
  const auto* const b = static_cast<const char*>(params.b);
  accesses.Reads(a, bytes(params.a_strides, params.m, params.k));
  accesses.Reads(b, bytes(params.b_strides, params.k, params.n));
  if (params.beta != 0)
    accesses.Reads(static_cast<const char*>(params.c), bytes(params.c_strides, params.m, params.n));
  accesses.Writes(static_cast<char*>(params.y), bytes(params.y_strides, params.m, params.n));
}

COPPICE_KERNEL(FillElements, kThreads, FillElementsParams) {
  const int64_t begin = int64_t{block.x()} * kMoveElementsPerBlock;
  const int64_t limit = begin + kMoveElementsPerBlock;
  const int64_t end = limit < params.count ? limit : params.count;
  block.ForEach([&](int thread) {
    for (int64_t i = begin + thread; i < end; i += Block::kThreads) {
      if (params.width == 1)
        static_cast<uint8_t*>(params.target)[i] = static_cast<uint8_t>(params.value);
      else
        static_cast<uint32_t*>(params.target)[i] = params.value;
    }
  });
}

COPPICE_ACCESSES(FillElements, FillElementsParams) {
  accesses.Writes(static_cast<char*>(params.target), params.count * params.width);
}

COPPICE_KERNEL(CopyBytes, kThreads, CopyBytesParams) {
  const int64_t begin = int64_t{block.x()} * kMoveBytesPerBlock;
  const int64_t limit = begin + kMoveBytesPerBlock;
  const int64_t end = limit < params.bytes ? limit : params.bytes;
  block.ForEach([&](int thread) {
    for (int64_t i = begin + thread * params.unit; i < end; i += Block::kThreads * params.unit) {
      internal::WithUnit(static_cast<int>(params.unit), [&](auto any) {
        using Unit = decltype(any);
        const auto at = i / static_cast<int64_t>(sizeof(Unit));
        static_cast<Unit*>(params.target)[at] = static_cast<const Unit*>(params.source)[at];
      });
    }
  });
}

COPPICE_ACCESSES(CopyBytes, CopyBytesParams) {
  accesses.Reads(static_cast<const char*>(params.source), params.bytes);
  accesses.Writes(static_cast<char*>(params.target), params.bytes);
}

COPPICE_KERNEL_IMAGE(step_kernels,
                     &SeedWordsHostKernel,
                     &GemmHostKernel,
                     &FillElementsHostKernel,
                     &CopyBytesHostKernel);

}  // namespace coppice
