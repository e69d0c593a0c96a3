// mma and wmma.mma: D = A B + C, of one warp.
//
// Fragments of wmma are made of the tiles that those of mma have: the PTX ISA leaves open how.

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>

#include "fmt/format.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/forms/families.h"
#include "runtime/emulator/ptx/forms/matrix_elements.h"
#include "runtime/emulator/ptx/forms/matrix_sums.h"
#include "runtime/emulator/ptx/forms/table.h"
#include "runtime/emulator/ptx/warp.h"

namespace coppice::ptx::COPPICE_PTX_TARGET {
namespace {

// Slot i of an instruction, in the order of its registers.
Slot SlotAt(const Warp& warp, const Instr& instr, int i) {
  if (i >= 4) return warp.More(instr, static_cast<uint32_t>(i - 4));
  return i == 0 ? instr.d : i == 1 ? instr.a : i == 2 ? instr.b : instr.c;
}

// A multiplication of what types and shape: everything is done by tiles.
struct Multiplication {
  int rows;
  int columns;
  int depth;
  int deep;  // Elements of 4 words: of a row of a tile of A, of a column of one of B.
  int registers_a;
  int registers_b;
  int registers_c;  // Of a tile.
  int registers_d;
  void (*unpack_a)(const uint32_t* words, float* to);
  void (*unpack_b)(const uint32_t* words, float* to);
  void (*load)(const Warp& warp, const Slot* slots, float* tile);
  void (*multiply)(const float* a, const float* b, float* sums);
  void (*store)(Warp& warp, const Slot* slots, const Slot* added, const float* tile, uint8_t flags);

  constexpr int tiles() const { return rows / 8 * (columns / 8); }
  constexpr int registers() const {
    return tiles() * (registers_d + registers_c) + registers_a + registers_b;
  }
};

// Of all forms, the most registers, and elements of A, B and the sums.
constexpr int kRegistersMax = 32;
constexpr int kElementsMax = 16 * 64;
constexpr int kSumsMax = 16 * 16;

Step Multiply(Warp& warp, const Instr& instr, const Multiplication& of) {
  Step step = Step::kNext;
  if (!warp.Gather(kAllLanes, step)) return step;
  std::array<Slot, kRegistersMax> slots;
  for (int i = 0; i < of.registers(); ++i)
    slots[i] = SlotAt(warp, instr, i);
  const Slot* const d = slots.data();
  const Slot* const a = d + of.tiles() * of.registers_d;
  const Slot* const b = a + of.registers_a;
  const Slot* const c = b + of.registers_b;

  alignas(32) std::array<float, kElementsMax> elements_a;
  alignas(32) std::array<float, kElementsMax> elements_b;
  alignas(32) std::array<float, kSumsMax> sums;
  const Slot* next = a;
  for (int k = 0; k < of.depth; k += of.deep) {
    for (int row = 0; row < of.rows; row += 8)
      of.unpack_a(warp.From<uint32_t>(*next++), &elements_a[k * of.rows + row * of.deep]);
  }
  next = b;
  for (int i = 0; i < of.columns * of.depth; i += 8 * of.deep)
    of.unpack_b(warp.From<uint32_t>(*next++), &elements_b[i]);
  for (int tile = 0; tile < of.tiles(); ++tile)
    of.load(warp, c + tile * of.registers_c, &sums[64 * tile]);
  for (int column = 0; column < of.columns; column += 8)
    of.multiply(elements_a.data(), &elements_b[column * of.depth], &sums[column * of.rows]);
  for (int tile = 0; tile < of.tiles(); ++tile) {
    of.store(warp, d + tile * of.registers_d, c + tile * of.registers_c, &sums[64 * tile],
             instr.flags);
  }
  return Step::kNext;
}

template <int rows, int columns, int depth>
struct Shape {
  static constexpr int kRows = rows;
  static constexpr int kColumns = columns;
  static constexpr int kDepth = depth;
  static std::string Name() { return fmt::format("m{}n{}k{}", rows, columns, depth); }
};

// wmma has 8 registers for f16, of whatever shape; those behind the tiles mean nothing.
template <typename Element, bool wmma>
constexpr int RegistersOf(int elements) {
  return wmma && std::is_same_v<Element, ElementF16> ? 8 : elements / (32 * kPerWord<Element>);
}

template <typename S, typename A, typename B, typename C, typename D, bool wmma>
struct MultiplicationOf {
  static constexpr Multiplication kOf = {
      .rows = S::kRows,
      .columns = S::kColumns,
      .depth = S::kDepth,
      .deep = 4 * kPerWord<A>,
      .registers_a = RegistersOf<A, wmma>(S::kRows * S::kDepth),
      .registers_b = RegistersOf<B, wmma>(S::kColumns * S::kDepth),
      .registers_c = C::kRegisters,
      .registers_d = D::kRegisters,
      .unpack_a = UnpackRows<A>,
      .unpack_b = UnpackColumns<B>,
      .load = C::Load,
      .multiply = MultiplyAdd<S::kRows, S::kDepth, kPerWord<A>>,
      .store = D::Store};
  static_assert(kPerWord<A> == kPerWord<B>);
  static_assert(kOf.registers() <= kRegistersMax && S::kRows * S::kDepth <= kElementsMax &&
                S::kColumns * S::kDepth <= kElementsMax && S::kRows * S::kColumns <= kSumsMax);

  static Step Run(Warp& warp, const Instr& instr) { return Multiply(warp, instr, kOf); }

  static std::string Operands() {
    return fmt::format("W{}w{}w{}w{}", kOf.tiles() * kOf.registers_d, kOf.registers_a,
                       kOf.registers_b, kOf.tiles() * kOf.registers_c);
  }
};

// m8n8k4 of doubles: rows and columns as in the other shapes, one element a lane. Sums are fused,
// in the order of k.
Step MultiplyDoubles(Warp& warp, const Instr& instr) {
  Step step = Step::kNext;
  if (!warp.Gather(kAllLanes, step)) return step;
  const double* const a = warp.From<double>(instr.b);
  const double* const b = warp.From<double>(instr.c);
  double sums[2][kLanes];
  for (int odd = 0; odd < 2; ++odd) {
    const double* const c = warp.From<double>(warp.More(instr, odd));
    for (int lane = 0; lane < kLanes; ++lane) {
      const int row = lane / 4;
      const int column = 2 * (lane % 4) + odd;
      double sum = c[lane];
      for (int k = 0; k < 4; ++k)
        sum = std::fma(a[4 * row + k], b[4 * column + k], sum);
      sums[odd][lane] = sum;
    }
  }
  for (int odd = 0; odd < 2; ++odd)
    std::memcpy(warp.To<double>(SlotAt(warp, instr, odd)), sums[odd], sizeof(sums[odd]));
  return Step::kNext;
}

// Single bits: the products are their xor or and, which are counted.
struct XorBits {
  static constexpr const char* kName = "xor.popc";
  static uint32_t Of(uint32_t a, uint32_t b) { return a ^ b; }
};
struct AndBits {
  static constexpr const char* kName = "and.popc";
  static uint32_t Of(uint32_t a, uint32_t b) { return a & b; }
};

template <int rows, int depth, typename Op>
struct BitMultiplication {
  static constexpr int kRowTiles = rows / 8;
  static constexpr int kDeep = depth / 128;
  static constexpr int kD = 2 * kRowTiles;
  static constexpr int kA = kRowTiles * kDeep;

  static std::string Operands() { return fmt::format("W{}w{}w{}w{}", kD, kA, kDeep, kD); }

  static Step Run(Warp& warp, const Instr& instr) {
    Step step = Step::kNext;
    if (!warp.Gather(kAllLanes, step)) return step;
    const auto words = [&](int i) { return warp.From<uint32_t>(SlotAt(warp, instr, i)); };
    std::array<std::array<uint32_t, kLanes>, kD> sums;
    for (int i = 0; i < kD; ++i) {
      const uint32_t* const c = words(kD + kA + kDeep + i);
      for (int lane = 0; lane < kLanes; ++lane) {
        sums[i][lane] = c[lane];
        for (int deep = 0; deep < kDeep; ++deep) {
          const uint32_t* const a = words(kD + deep * kRowTiles + i / 2);
          const uint32_t* const b = words(kD + kA + deep);
          const int row = lane / 4;
          const int column = 2 * (lane % 4) + i % 2;
          for (int t = 0; t < 4; ++t)
            sums[i][lane] += std::popcount(Op::Of(a[4 * row + t], b[4 * column + t]));
        }
      }
    }
    for (int i = 0; i < kD; ++i)
      std::memcpy(warp.To<uint32_t>(SlotAt(warp, instr, i)), sums[i].data(), sizeof(sums[i]));
    return Step::kNext;
  }
};

template <typename S, typename A, typename B, typename Sums>
void AddMma(FormTable& rows, const char* modifier = "", uint8_t flags = 0) {
  using Of = MultiplicationOf<S, A, B, Sums, Sums, false>;
  rows.Add(fmt::format("mma.sync.aligned.{}.row.col{}.{}.{}.{}.{}", S::Name(), modifier,
                       Sums::kName, A::kName, B::kName, Sums::kName),
           Of::Operands(), Of::Run, flags);
}

template <typename... Shapes, typename... Elements>
void AddIntegerMma(FormTable& rows, List<Shapes...>, List<Elements...> elements) {
  elements.Each([&](auto a) {
    elements.Each([&](auto b) {
      (AddMma<Shapes, decltype(a), decltype(b), S32Sums>(rows), ...);
      (AddMma<Shapes, decltype(a), decltype(b), S32Sums>(rows, ".satfinite", kSatfinite), ...);
    });
  });
}

template <int rows_of, int depth>
void AddBitMma(FormTable& rows) {
  List<XorBits, AndBits>::Each([&](auto op) {
    using Of = BitMultiplication<rows_of, depth, decltype(op)>;
    rows.Add(fmt::format("mma.sync.aligned.m{}n8k{}.row.col.s32.b1.b1.s32.{}", rows_of, depth,
                         decltype(op)::kName),
             Of::Operands(), Of::Run);
  });
}

void AddMmaForms(FormTable& rows) {
  AddMma<Shape<16, 8, 8>, ElementF16, ElementF16, F32Sums>(rows);
  AddMma<Shape<16, 8, 8>, ElementF16, ElementF16, F16Sums>(rows);
  AddMma<Shape<16, 8, 16>, ElementF16, ElementF16, F32Sums>(rows);
  AddMma<Shape<16, 8, 16>, ElementF16, ElementF16, F16Sums>(rows);
  AddMma<Shape<16, 8, 8>, ElementBF16, ElementBF16, F32Sums>(rows);
  AddMma<Shape<16, 8, 16>, ElementBF16, ElementBF16, F32Sums>(rows);
  AddMma<Shape<16, 8, 4>, ElementTF32, ElementTF32, F32Sums>(rows);
  AddMma<Shape<16, 8, 8>, ElementTF32, ElementTF32, F32Sums>(rows);
  const List<ElementE4M3, ElementE5M2> fp8;
  fp8.Each([&](auto a) {
    fp8.Each([&](auto b) {
      AddMma<Shape<16, 8, 16>, decltype(a), decltype(b), F32Sums>(rows);
      AddMma<Shape<16, 8, 16>, decltype(a), decltype(b), F16Sums>(rows);
      AddMma<Shape<16, 8, 32>, decltype(a), decltype(b), F32Sums>(rows);
      AddMma<Shape<16, 8, 32>, decltype(a), decltype(b), F16Sums>(rows);
    });
  });
  AddIntegerMma(rows, List<Shape<8, 8, 16>, Shape<16, 8, 16>, Shape<16, 8, 32>>(),
                List<ElementS8, ElementU8>());
  AddIntegerMma(rows, List<Shape<8, 8, 32>, Shape<16, 8, 32>, Shape<16, 8, 64>>(),
                List<ElementS4, ElementU4>());
  AddBitMma<8, 128>(rows);
  AddBitMma<16, 128>(rows);
  AddBitMma<16, 256>(rows);
  rows.Add("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "D2d1d1d2", MultiplyDoubles);
}

// Layouts say how wmma.load reads: its fragments are the same in each.
template <typename S, typename Element, typename C, typename D>
void AddWmma(FormTable& rows, const std::string& types, uint8_t flags = 0) {
  using Of = MultiplicationOf<S, Element, Element, C, D, true>;
  for (const char* layouts : {"row.row", "row.col", "col.row", "col.col"}) {
    rows.Add(fmt::format("wmma.mma.sync.aligned.{}.{}.{}", layouts, S::Name(), types),
             Of::Operands(), Of::Run, flags);
  }
}

void AddWmmaForms(FormTable& rows) {
  const List<Shape<16, 16, 16>, Shape<32, 8, 16>, Shape<8, 32, 16>> shapes;
  const List<F32Sums, F16Sums> sums;
  shapes.Each([&](auto shape) {
    using S = decltype(shape);
    sums.Each([&](auto d) {
      sums.Each([&](auto c) {
        AddWmma<S, ElementF16, decltype(c), decltype(d)>(rows,
                                                         fmt::format("{}.{}", d.kName, c.kName));
      });
    });
    AddWmma<S, ElementBF16, F32Sums, F32Sums>(rows, "f32.bf16.bf16.f32");
    List<ElementS8, ElementU8>::Each([&](auto element) {
      using Element = decltype(element);
      const std::string types = fmt::format("s32.{0}.{0}.s32", Element::kName);
      AddWmma<S, Element, S32Sums, S32Sums>(rows, types);
      AddWmma<S, Element, S32Sums, S32Sums>(rows, types + ".satfinite", kSatfinite);
    });
  });
  AddWmma<Shape<16, 16, 8>, ElementTF32, F32Sums, F32Sums>(rows, "f32.tf32.tf32.f32");
}

}  // namespace

std::span<const Form> MultiplyForms() {
  static const FormTable rows = [] {
    FormTable made;
    AddMmaForms(made);
    AddWmmaForms(made);
    return made;
  }();
  return rows.rows();
}

}  // namespace coppice::ptx::COPPICE_PTX_TARGET
