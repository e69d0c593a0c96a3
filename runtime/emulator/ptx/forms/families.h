// Families of forms that compute, once per instruction set of the host.
//
// On x86-64, each source of a family is compiled twice, with COPPICE_PTX_TARGET as the namespace of
// what is in it: `baseline` runs on every x86-64, `avx2` where AVX2 and FMA are. AllForms()
// chooses. Objects of `avx2` keep everything but these functions to themselves, so that no inline
// function of a header which was compiled there stands in for that of the rest; see CMakeLists.txt.
// Other architectures have one instruction set, and `avx2` is another name of `baseline`.
//
// Threads: pure functions.

#pragma once

#include <span>

#include "runtime/emulator/ptx/form.h"

#define COPPICE_PTX_FAMILIES(target)        \
  namespace target {                        \
  std::span<const Form> ApproximateForms(); \
  std::span<const Form> BitFieldForms();    \
  std::span<const Form> CarryForms();       \
  std::span<const Form> CompareForms();     \
  std::span<const Form> ConvertForms();     \
  std::span<const Form> FloatForms();       \
  std::span<const Form> HalfForms();        \
  std::span<const Form> IntegerForms();     \
  std::span<const Form> LogicForms();       \
  std::span<const Form> MoveForms();        \
  std::span<const Form> MultiplyForms();    \
  std::span<const Form> NarrowForms();      \
  std::span<const Form> RoundForms();       \
  std::span<const Form> SelectForms();      \
  std::span<const Form> SetForms();         \
  std::span<const Form> SignForms();        \
  std::span<const Form> WarpgroupForms();   \
  }

namespace coppice::ptx {

COPPICE_PTX_FAMILIES(baseline)
#if defined(__x86_64__)
COPPICE_PTX_FAMILIES(avx2)
#else
namespace avx2 = baseline;
#endif

}  // namespace coppice::ptx
