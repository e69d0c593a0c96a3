// Whether the upper halves of vector registers are in use, as VZEROUPPER ends it: each change
// between code with AVX and without costs some processors a hundred cycles then.
//
// Threads: pure functions.

#pragma once

#include <cstdint>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace coppice::ptx {

#if defined(__x86_64__)

// Requires a processor that tells.
inline bool HasUpperHalves() {
  uint32_t low;
  uint32_t high;
  asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(1));
  return (low & 4) != 0;
}

// Not every processor tells, and some always say yes.
inline const bool kTellsUpperHalves = [] {
  uint32_t a = 0;
  uint32_t b = 0;
  uint32_t c = 0;
  uint32_t d = 0;
  if (!__builtin_cpu_supports("avx2") || __get_cpuid_count(0xd, 1, &a, &b, &c, &d) == 0)
    return false;
  if ((a & 4) == 0) return false;  // XGETBV with ECX = 1.
  asm volatile("vzeroupper");
  return !HasUpperHalves();
}();

// False where the processor does not tell.
inline bool AreUpperHalvesInUse() {
  return kTellsUpperHalves && HasUpperHalves();
}

#else  // There are none.
inline bool AreUpperHalvesInUse() {
  return false;
}
#endif

}  // namespace coppice::ptx
