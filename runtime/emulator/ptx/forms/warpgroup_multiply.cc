// wgmma.mma_async: D = A B + D, of a warpgroup. Each of its warps computes its own rows.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "fmt/format.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/matrix_elements.h"
#include "runtime/emulator/ptx/forms/matrix_sums.h"
#include "runtime/emulator/ptx/forms/warpgroup.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

constexpr int kRows = 16;  // Of a warp.

template <typename A, typename B, typename Sums>
struct WarpgroupMultiplication {
  static_assert(kPerWord<A> == kPerWord<B>);
  static constexpr int kDeep = 4 * kPerWord<A>;  // Elements of 16 bytes.
  static constexpr int kDepth = 2 * kDeep;
  static constexpr int kRegisters = 2 * Sums::kRegisters;  // Of 8 columns.

  static Step Run(Warp& warp, const Instr& instr) {
    WarpgroupOperands of;
    Step step = Step::kNext;
    if (!of.Read(warp, instr, step)) return step;
    alignas(32) std::array<float, kRows * kDepth> a;
    alignas(32) std::array<float, 8 * kDepth> b;
    alignas(32) std::array<float, 8 * kRows> sums;
    for (int tile = 0; tile < 4; ++tile)
      UnpackRows<A>(of.a(tile), &a[static_cast<size_t>(tile * 8 * kDeep)]);
    if (of.negated()) std::ranges::transform(a, a.begin(), std::negate());
    if (!of.adds()) {
      for (size_t i = 0; i < of.accumulator_count(); ++i)
        std::fill_n(warp.To<uint32_t>(of.accumulators()[i]), kLanes, 0);
    }
    for (int group = 0; group < of.columns() / 8; ++group) {
      for (int half = 0; half < 2; ++half)
        UnpackColumns<B>(of.b(2 * group + half), &b[static_cast<size_t>(half * 8 * kDeep)]);
      const Slot* const upper = of.accumulators() + group * kRegisters;
      const Slot* const lower = upper + Sums::kRegisters;
      Sums::Load(warp, upper, sums.data());
      Sums::Load(warp, lower, &sums[64]);
      MultiplyAdd<kRows, kDepth, kPerWord<A>>(a.data(), b.data(), sums.data());
      Sums::Store(warp, upper, upper, sums.data(), instr.flags);
      Sums::Store(warp, lower, lower, &sums[64], instr.flags);
    }
    of.Start(warp);
    return Step::kNext;
  }
};

template <typename A, typename B, typename Sums>
void AddProducts(FormTable& rows, const char* modifier = "", uint8_t flags = 0) {
  using Of = WarpgroupMultiplication<A, B, Sums>;
  const bool integers = kPerWord<A> == 4 && Sums::kOfIntegers;
  for (int columns = 8; columns <= kWarpgroupColumnsMax; columns += 8) {
    if (integers && columns > 32 && columns % 16 != 0) continue;
    const auto add = [&](const char* before, const char* behind) {
      rows.Decoded(fmt::format("wgmma.mma_async.sync.aligned.m64n{}k{}{}.{}.{}.{}{}", columns,
                               Of::kDepth, before, Sums::kName, A::kName, B::kName, behind),
                   DecodeWarpgroupMultiply<Of::kRegisters>, Of::Run, flags);
    };
    add(modifier, "");
    if (flags != 0) add("", modifier);
  }
}

}  // namespace

std::span<const Form> WarpgroupForms() {
  static const FormTable rows = [] {
    FormTable made;
    AddProducts<ElementF16, ElementF16, F32Sums>(made);
    AddProducts<ElementF16, ElementF16, F16Sums>(made);
    AddProducts<ElementBF16, ElementBF16, F32Sums>(made);
    AddProducts<ElementTF32, ElementTF32, F32Sums>(made);
    const List<ElementE4M3, ElementE5M2> fp8;
    fp8.Each([&](auto a) {
      fp8.Each([&](auto b) {
        AddProducts<decltype(a), decltype(b), F32Sums>(made);
        AddProducts<decltype(a), decltype(b), F16Sums>(made);
      });
    });
    const List<ElementS8, ElementU8> integers;
    integers.Each([&](auto a) {
      integers.Each([&](auto b) {
        AddProducts<decltype(a), decltype(b), S32Sums>(made);
        AddProducts<decltype(a), decltype(b), S32Sums>(made, ".satfinite", kSatfinite);
      });
    });
    return made;
  }();
  return rows.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
