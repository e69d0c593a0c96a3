// Kernels of Triton first.

#include "tests/tools/replay_faults.h"

namespace coppice {
namespace {

using nlohmann::json;

PlantedFault Plant(std::string base, std::string name, std::string kernel) {
  PlantedFault fault;
  fault.base = std::move(base);
  fault.name = std::move(name);
  fault.kernel = std::move(kernel);
  return fault;
}

std::string Behind(const std::string& instruction, const std::string& more) {
  return instruction + "\n  " + more;
}

void MayBePadded(json& program) {
  program["symbols"]["n"]["buckets"] = "pow2";
  program["symbols"]["n"]["claim"] = {{"padding", "any"}, {"equal", "bits"}};
}

void HasNoGuards(json& program) {
  program.erase("guards");
}

// In normalize_rows of Triton.
std::vector<PlantedFault> NormalizeFaults() {
  const std::string load = "ld.global.v2.b32";
  const std::string store = "st.global.v2.b32";
  const std::string place = "add.s64 \t%rd1, %rd3, %rd5;";
  const std::string row_before_last =
      "{ .reg .pred %q; .reg .b32 %t; add.s32 %t, %r12, 1; setp.lt.s32 %q, %t, %r8; "
      "@%q add.s64 %rd1, %rd1, 256; }";
  const std::string last_row =
      "{ .reg .b32 %t; sub.s32 %t, %r8, %r12; sub.s32 %t, %t, 1; shl.b32 %t, %t, 8; "
      "{ .reg .b64 %u; cvt.s64.s32 %u, %t; add.s64 %rd1, %rd1, %u; } }";
  return {Plant("Classify", "LoadsUnmasked", "normalize_rows")
              .Edit("@%p1 " + load, load)
              .Shows("out_of_bounds", load)
              .From({1}),
          Plant("Classify", "StoresUnmasked", "normalize_rows")
              .Edit("@%p1 " + store, store)
              .Shows("out_of_bounds", store)
              .From({1}),
          Plant("Classify", "OneRowTooMany", "normalize_rows")
              .Edit("setp.lt.s32 \t%p1", "setp.le.s32 \t%p1")
              .Shows("out_of_bounds", load)
              .From({1}),
          Plant("Classify", "LoadsOneRowBehind", "normalize_rows")
              .Edit("[ %rd1 + 0 ]", "[ %rd1 + 256 ]")
              .Shows("out_of_bounds", load)
              .From({1}),
          Plant("Classify", "SizeOfCompilation", "normalize_rows")
              .Edit("ld.param.b32 \t%r8, [normalize_rows_param_2];", "mov.b32 \t%r8, 65536;")
              .Shows("baked_in", load)
              .From({1}),
          Plant("Classify", "AllRowsStoreToTheFirst", "normalize_rows")
              .Edit("add.s64 \t%rd2, %rd4, %rd5;", "mov.b64 \t%rd2, %rd4;")
              .Shows("race", store)
              .From({2}),
          Plant("Classify", "BlocksOverlap", "normalize_rows")
              .Edit("shl.b32 \t%r7, %r6, 2;", "shl.b32 \t%r7, %r6, 1;")
              .Shows("uninitialized", "ld.global.v4.b32 { %r37")
              .In("multiply")
              .From({5}),
          Plant("Classify", "ReadsTheNextRow", "normalize_rows")
              .Edit(place, Behind(place, row_before_last))
              .Shows("wrong_claim", store)
              .From({1}),
          Plant("Classify", "ReadsTheLastRow", "normalize_rows")
              .Edit(place, Behind(place, last_row))
              .Shows("wrong_claim", store)
              .From({1}),
          Plant("ClassifyInOneBuffer", "SecondPartBeginsAnywhere", "normalize_rows")
              .Change([](json& program) {
                program["steps"][0]["args"][1]["offset"] = "4 * rows";
                program["steps"][1]["args"][0]["offset"] = "4 * rows";
              })
              .Shows("misaligned", store)
              .From({1})};
}

// In softmax_rows.
std::vector<PlantedFault> SoftmaxFaults() {
  const std::string load = "ld.global.b32 { %r1 }, [ %rd1 + 0 ];";
  const std::string barrier = "bar.sync \t0;";
  const std::string before_first = "st.shared.b32 \t[%r22], %r18;\n\t";
  const std::string before_second = "ex2.approx.f32 \t%r31, %r30;\n\t";
  const std::string before_third = "st.shared.b32 \t[%r22], %r41;\n\t";
  const std::string columns = "ld.param.b32 \t%r4, [softmax_rows_param_1];";
  return {Plant("Classify", "LoadsUnmasked", "softmax_rows")
              .Edit("@%p1 " + load, load)
              .Shows("out_of_bounds", load)
              .From({1}),
          Plant("Classify", "OneBlockTooMany", "softmax_rows")
              .Change([](json& program) { program["steps"][2]["grid"][0] = "rows + 1"; })
              .Shows("out_of_bounds", load)
              .From({1}),
          Plant("Classify", "AllBlocksTakeTheFirstRow", "softmax_rows")
              .Edit("mov.u32 \t%r7, %ctaid.x;", "mov.u32 \t%r7, 0;")
              .Shows("race", load)
              .From({2}),
          Plant("Classify", "NoBarrierBeforeTheMost", "softmax_rows")
              .Edit(before_first + barrier, before_first)
              .Shows("race", "ld.shared.b32 \t%r26, [%r25];")
              .OrAt(before_first)
              .From({1}),
          Plant("Classify", "NoBarrierBeforeTheSums", "softmax_rows")
              .Edit(before_second + barrier, before_second)
              .Shows("race", "st.shared.b32 \t[%r22], %r41;")
              .From({1}),
          Plant("Classify", "NoBarrierBeforeTheSum", "softmax_rows")
              .Edit(before_third + barrier, before_third)
              .Shows("race", "ld.shared.b32 \t%r42, [%r25];")
              .OrAt(before_third)
              .From({1}),
          Plant("ClassifyIntoScalar", "ScalarOfCompilation", "softmax_rows")
              .Edit(columns, "mov.b32 \t%r4, 40;")
              .Change([](json& program) {
                program["steps"][1]["args"][4] = {{"i32", 40}};
              })
              .Shows("baked_in")
              .From({1}),
          // Another kernel reads the scalar, so a kernel that does not may well be right.
          Plant("ClassifyIntoScalar", "ScalarOfCompilationOfOneKernel", "softmax_rows")
              .Edit(columns, "mov.b32 \t%r4, 40;")
              .Shows("baked_in")
              .From({1})
              .Misses({"kind", "kernel"}),
          Plant("ClassifyIntoColumns", "SizeOfCompilation", "softmax_rows")
              .Edit(columns, "mov.b32 \t%r4, 64;")
              .Shows("baked_in", load)
              .From({1, 1}),
          // Where padding met live data is told for the first kernel in which it did.
          Plant("ClassifyIntoColumns", "ColumnsMayBePadded", "softmax_rows")
              .Change([](json& program) {
                program["symbols"]["columns"]["buckets"] = "pow2";
                program["symbols"]["columns"]["claim"] = {{"padding", "any"}, {"equal", "bits"}};
              })
              .Shows("wrong_claim", "max.f32")
              .From({1, 1})
              .Misses({"line"})};
}

// In multiply.
std::vector<PlantedFault> MultiplyFaults() {
  const std::string load = "ld.global.v4.b32 { %r37, %r38, %r39, %r40 }";
  const std::string load_8 = "ld.global.v4.b32 { %r42, %r43, %r44, %r45 }";
  const std::string load_column = "ld.global.b32 { %r50 }";
  const std::string store_14 = "st.global.b32 [ %rd19 + 0 ]";
  const std::string place = "add.s64 \t%rd29, %rd3, %rd9;";
  const std::string next_row =
      "{ .reg .pred %q; .reg .b32 %t; add.s32 %t, %r4, 1; setp.lt.s32 %q, %t, %r18; "
      "@%q add.s64 %rd29, %rd29, 256; }";
  return {Plant("Classify", "LoadsUnmasked", "multiply")
              .Edit("@%p1 " + load, load)
              .Shows("out_of_bounds", load)
              .From({1}),
          Plant("Classify", "LoadsSecondHalfUnmasked", "multiply")
              .Edit("@%p2 " + load_8, load_8)
              .Shows("out_of_bounds", load_8)
              .From({1}),
          // The row behind lies in the buffer of another argument, which other threads write.
          Plant("Classify", "OneRowTooManyOfTheSecondHalf", "multiply")
              .Edit("setp.lt.s32 \t%p2,", "setp.le.s32 \t%p2,")
              .Shows("out_of_bounds", load_8)
              .From({8})
              .Calls({{3}, {60}, {60}})
              .Misses({"kind"}),
          Plant("Classify", "StoresOneRowTooMany", "multiply")
              .Edit("setp.lt.s32 \t%p23,", "setp.le.s32 \t%p23,")
              .Shows("out_of_bounds", store_14)
              .From({14})
              .Calls({{3}, {46}, {46}}),
          Plant("Classify", "StoresUnmasked", "multiply")
              .Edit("@%p15 " + store_14, store_14)
              .Shows("out_of_bounds", store_14)
              .From({1}),
          Plant("Classify", "OneColumnTooMany", "multiply")
              .Edit("setp.lt.s32 \t%p3,", "setp.le.s32 \t%p3,")
              .Shows("out_of_bounds", load_column)
              .From({1}),
          Plant("Classify", "SizeOfCompilation", "multiply")
              .Edit("ld.param.b32 \t%r18, [multiply_param_3];", "mov.b32 \t%r18, 4096;")
              .Shows("baked_in", load)
              .From({1}),
          Plant("ClassifyIntoColumns", "WidthOfCompilation", "multiply")
              .Edit("ld.param.b32 \t%r19, [multiply_param_4];", "mov.b32 \t%r19, 40;")
              .Shows("baked_in")
              .From({1, 1}),
          Plant("Classify", "ReadsTheNextRow", "multiply")
              .Edit(place, Behind(place, next_row))
              .Shows("wrong_claim", "fma.rn.f32")
              .From({1}),
          Plant("ClassifyInOneBuffer", "SecondPartBeginsAtEights", "multiply")
              .Change([](json& program) {
                program["steps"][0]["args"][1]["offset"] = "8 * rows";
                program["steps"][1]["args"][0]["offset"] = "8 * rows";
              })
              .Shows("misaligned", load)
              .From({1})};
}

// Between the threads of multiply, in its larger tiles, and in what it is given.
std::vector<PlantedFault> TileFaults() {
  const std::string load_large = "ld.global.v4.b32 { %r49, %r50, %r51, %r52 }";
  const std::string row_large = "ld.shared.v4.b32 \t{%r75, %r76, %r77, %r78}, [%r17];";
  const std::string barrier = "bar.sync \t0;\n\t";
  const std::string tile = "st.shared.v4.b32 \t[%r11], {%r37";
  const std::string row = "ld.shared.v4.b32 \t{%r56, %r57, %r58, %r59}, [%r13];";
  return {
      Plant("Classify", "NoBarrierBetweenSteps", "multiply")
          .Edit(barrier + tile, tile)
          .Shows("race", tile)
          .From({1}),
      Plant("Classify", "NoBarrierAfterTheTiles", "multiply")
          .Edit(barrier + row, row)
          .Shows("race", row)
          .From({1}),
      Plant("Classify", "NoBarrierBeforeTheResults", "multiply")
          .Edit(barrier + "and.b32 \t%r299", "and.b32 \t%r299")
          .Shows("race", "st.shared.v2.b32 \t[%r303], {%r311, %r315};")
          .From({1}),
      Plant("Classify", "NoBarrierAfterTheResults", "multiply")
          .Edit("bar.warp.sync \t-1;", "")
          .Shows("race", "ld.shared.v2.b32 \t{%r272, %r276}, [%r307];")
          .From({1}),
      Plant("ClassifyInLargeTiles", "OneRowTooMany", "multiply")
          .Edit("setp.lt.s32 \t%p1,", "setp.le.s32 \t%p1,")
          .Shows("out_of_bounds", load_large)
          .From({1})
          .Misses({"kind", "size"}),
      Plant("ClassifyInLargeTiles", "StoresUnmasked", "multiply")
          .Edit("@%p20 st.global.b32", "st.global.b32")
          .Shows("out_of_bounds", "st.global.b32 [ %rd34 + 0 ]")
          .From({1}),
      Plant("ClassifyInLargeTiles", "NoBarrierAfterTheTiles", "multiply")
          .Edit(barrier + row_large, row_large)
          .Shows("race", row_large)
          .From({1}),
      Plant("ClassifyWithBoundWeights", "WeightsAreFreed", "")
          .Shows("stale_input")
          .By(Mistake::kFreesAStaticInput),
      Plant("Classify", "WeightsAreFreed", "").Shows("stale_input").By(Mistake::kFreesTheLastInput),
      Plant("Classify", "RowsAreFreed", "").Shows("stale_input").By(Mistake::kFreesTheFirstInput)};
}

// In kernels that are written by hand.
std::vector<PlantedFault> SmallFaults() {
  const std::string load = "ld.global.f32 %f1, [%rd4];";
  const std::string add_load = "ld.global.f32 %f1, [%rd5];";
  const std::string store = "st.global.f32 [%rd5], %f3;";
  const std::string place = "add.u64 %rd4, %rd2, %rd1;";
  const std::string place_y = "add.u64 %rd5, %rd3, %rd1;";
  return {Plant("Scale", "OneRowTooMany", "Scale")
              .Edit("setp.ge.u32 %p1", "setp.gt.u32 %p1")
              .Shows("out_of_bounds", load)
              .From({1}),
          Plant("Scale", "NoMask", "Scale")
              .Edit("@%p1 ret;", "")
              .Shows("out_of_bounds", load)
              .From({1}),
          Plant("Scale", "StoresOneRowBehind", "Scale")
              .Edit(place_y, Behind(place_y, "add.u64 %rd5, %rd5, 4;"))
              .Shows("out_of_bounds", store)
              .From({1}),
          Plant("Scale", "LoadsFromHalfARow", "Scale")
              .Edit(place, Behind(place, "add.u64 %rd4, %rd4, 2;"))
              .Shows("misaligned", load)
              .From({1}),
          Plant("Scale", "AllStoreToTheFirst", "Scale")
              .Edit(place_y, "mov.u64 %rd5, %rd3;")
              .Shows("race", store)
              .From({33}),
          Plant("Scale", "Traps", "Scale")
              .Edit("@%p1 ret;", "@%p1 ret;\n  trap;")
              .Shows("fault", "trap;")
              .From({1}),
          Plant("Add", "SizeOfCompilation", "Add")
              .Edit("ld.param.u32 %r4, [count];", "mov.u32 %r4, 4096;")
              .Shows("baked_in", add_load)
              .From({1}),
          Plant("Add", "SizeOfASmallerCompilation", "Add")
              .Edit("ld.param.u32 %r4, [count];", "mov.u32 %r4, 32;")
              .Shows("baked_in")
              .From({33})
              .Calls({{40}, {50}}),
          Plant("Diamond", "HalfIsWritten", "Add")
              .Change([](json& program) {
                program["steps"][0]["args"][2] = {{"i32", "n // 2"}};
              })
              .Shows("uninitialized", add_load)
              .From({1}),
          Plant("ScaledByScalar", "ScalarOfCompilation", "Scale")
              .Edit("ld.param.f32 %f2, [factor];", "mov.f32 %f2, 0f40000000;")
              .Shows("baked_in")
              .From({1})};
}

// Of promises that a program or a server does not keep.
std::vector<PlantedFault> PromiseFaults() {
  const std::string load_4 = "ld.global.v4.f32";
  return {
      Plant("Sum", "MayBePadded", "Sum")
          .Change(MayBePadded)
          .Shows("wrong_claim", "add.rn.f32 %f1, %f1, %f2;")
          .From({1}),
      Plant("Most", "MayBePadded", "Most")
          .Change(MayBePadded)
          .Shows("wrong_claim", "max.f32 %f1, %f1, %f2;")
          .From({1}),
      Plant("Last", "MayBePadded", "Last").Change(MayBePadded).Shows("wrong_claim").From({1}),
      Plant("Mean", "MayBePadded", "Mean")
          .Change(MayBePadded)
          .Shows("wrong_claim", "add.rn.f32 %f1, %f1, %f2;")
          .From({1}),
      Plant("Next", "MayBePadded", "Next")
          .Change(MayBePadded)
          .Shows("wrong_claim", "add.rn.f32 %f3, %f1, %f2;")
          .From({1}),
      Plant("SumFrom", "MayBePadded", "SumFrom")
          .Change(MayBePadded)
          .Shows("wrong_claim", "add.rn.f32 %f1, %f1, %f2;")
          .From({1}),
      Plant("FromEnd", "MayBePadded", "FromEnd").Change(MayBePadded).Shows("wrong_claim").From({1}),
      Plant("Quads", "NoGuard", "Quads")
          .Change(HasNoGuards)
          .Shows("out_of_bounds", load_4)
          .From({1})
          .Calls({{50}}),
      Plant("Quads", "GuardOfTwo", "Quads")
          .Change([](json& program) { program["guards"] = {"n % 2 == 0"}; })
          .Shows("out_of_bounds", load_4)
          .From({2})
          .Calls({{50}}),
      Plant("RowsOfQuads", "NoGuard", "RowsOfQuads")
          .Change(HasNoGuards)
          .Shows("misaligned", load_4)
          .From({5})
          .Calls({{50}}),
      Plant("WithBoundWeights", "WeightsAreFreed", "")
          .Shows("stale_input")
          .By(Mistake::kFreesAStaticInput),
      Plant("WithWeights", "RowsAreFreed", "")
          .Shows("stale_input")
          .By(Mistake::kFreesTheFirstInput)};
}

}  // namespace

std::vector<PlantedFault> PlantedFaults() {
  std::vector<PlantedFault> faults;
  for (const auto& part : {NormalizeFaults(), SoftmaxFaults(), MultiplyFaults(), TileFaults(),
                           SmallFaults(), PromiseFaults()})
    faults.insert(faults.end(), part.begin(), part.end());
  return faults;
}

}  // namespace coppice
