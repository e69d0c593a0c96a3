// Kernels as PTX for packages of tests, and their lines of a manifest.
//
// Units: elements of f32.

#pragma once

#include <string>

#include "nlohmann/json.hpp"

#include "tests/package/package_builder.h"

namespace coppice::package {

// Scale(x, y, count, factor)   y[i] = factor * x[i]
// Add(x, y, z, count)          z[i] = x[i] + y[i]
// Mask(x, y, count, real)      y[i] = x[i] where i is below the i64 at `real`, else 0
// Registers; thread i of the grid leaves if it is not below `count`; rd1 is the place of element i,
// rd2 and rd3 are x and y.
inline constexpr char kSmallKernelOpening[] = R"({
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<9>;
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  mad.lo.u32 %r3, %r1, 128, %r2;
  ld.param.u32 %r4, [count];
  setp.ge.u32 %p1, %r3, %r4;
  @%p1 ret;
  mul.wide.u32 %rd1, %r3, 4;
  ld.param.u64 %rd2, [x];
  ld.param.u64 %rd3, [y];
)";

inline const std::string kSmallKernels = std::string(R"(
.version 7.0
.target sm_80
.address_size 64

.visible .entry Scale(.param .u64 x, .param .u64 y, .param .u32 count, .param .f32 factor)
)") + kSmallKernelOpening + R"(  add.u64 %rd4, %rd2, %rd1;
  add.u64 %rd5, %rd3, %rd1;
  ld.global.f32 %f1, [%rd4];
  ld.param.f32 %f2, [factor];
  mul.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd5], %f3;
  ret;
}

.visible .entry Add(.param .u64 x, .param .u64 y, .param .u64 z, .param .u32 count)
)" + kSmallKernelOpening + R"(  ld.param.u64 %rd4, [z];
  add.u64 %rd5, %rd2, %rd1;
  add.u64 %rd6, %rd3, %rd1;
  add.u64 %rd7, %rd4, %rd1;
  ld.global.f32 %f1, [%rd5];
  ld.global.f32 %f2, [%rd6];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd7], %f3;
  ret;
}

.visible .entry Mask(.param .u64 x, .param .u64 y, .param .u32 count, .param .u64 real)
)" + kSmallKernelOpening + R"(  add.u64 %rd4, %rd2, %rd1;
  add.u64 %rd5, %rd3, %rd1;
  ld.param.u64 %rd6, [real];
  ld.global.u64 %rd7, [%rd6];
  cvt.u64.u32 %rd8, %r3;
  setp.ge.u64 %p2, %rd8, %rd7;
  mov.f32 %f1, 0f00000000;
  @!%p2 ld.global.f32 %f1, [%rd4];
  st.global.f32 [%rd5], %f1;
  ret;
}
)";

// A package of these kernels, without programs: "Scale", "Add" and "Mask", 128 threads a block, the
// number of which expressions may call BLOCK.
inline PackageBuilder SmallKernels() {
  PackageBuilder builder;
  builder.AddModule("small", "ptx", "sm_80", kSmallKernels);
  const auto kernel = [](const std::string& symbol, const nlohmann::json& parameters) {
    return nlohmann::json{{"parameters", parameters},
                          {"targets",
                           {{{"module", "small"},
                             {"symbol", symbol},
                             {"block", {128, 1, 1}},
                             {"values", {{"BLOCK", 128}}}}}}};
  };
  builder.manifest["kernels"] = {{"Scale", kernel("Scale", {8, 8, 4, 4})},
                                 {"Add", kernel("Add", {8, 8, 8, 4})},
                                 {"Mask", kernel("Mask", {8, 8, 4, 8})}};
  return builder;
}

// Steps of these kernels over `count` elements. A buffer is read, but the last, which is written.
inline nlohmann::json GridOf(const std::string& count) {
  return {"ceildiv(" + count + ", BLOCK)", 1, 1};
}
inline nlohmann::json Reads(const std::string& buffer) {
  return {{"buffer", buffer}, {"access", "r"}};
}
inline nlohmann::json Writes(const std::string& buffer) {
  return {{"buffer", buffer}, {"access", "w"}};
}
inline nlohmann::json ScaleStep(const std::string& x,
                                const std::string& y,
                                const std::string& count,
                                const std::string& factor) {
  return {{"op", "kernel"},
          {"kernel", "Scale"},
          {"grid", GridOf(count)},
          {"args", {Reads(x), Writes(y), {{"i32", count}}, {{"f32", factor}}}}};
}
inline nlohmann::json AddStep(const std::string& x,
                              const std::string& y,
                              const std::string& z,
                              const std::string& count) {
  return {{"op", "kernel"},
          {"kernel", "Add"},
          {"grid", GridOf(count)},
          {"args", {Reads(x), Reads(y), Writes(z), {{"i32", count}}}}};
}
inline nlohmann::json MaskStep(const std::string& x,
                               const std::string& y,
                               const std::string& count,
                               const std::string& symbol) {
  return {{"op", "kernel"},
          {"kernel", "Mask"},
          {"grid", GridOf(count)},
          {"args", {Reads(x), Writes(y), {{"i32", count}}, {{"real", symbol}}}}};
}

inline nlohmann::json FloatBuffer(const std::string& role, const nlohmann::json& shape) {
  return {{"role", role}, {"dtype", "f32"}, {"shape", shape}};
}

}  // namespace coppice::package

namespace coppice {

// y = 2 x + `factor` x, by two temporaries that do not depend on each other; any padding of n does.
inline nlohmann::json DiamondProgram(const std::string& factor = "3",
                                     const nlohmann::json& buckets = "pow2") {
  using package::AddStep;
  using package::FloatBuffer;
  using package::ScaleStep;
  return {{"symbols",
           {{"n",
             {{"min", 1},
              {"max", 1024},
              {"buckets", buckets},
              {"claim", {{"padding", "any"}, {"equal", "bits"}}}}}}},
          {"inputs", {"x"}},
          {"outputs", {"y"}},
          {"buffers",
           {{"x", FloatBuffer("input", {"n"})},
            {"twice", FloatBuffer("temporary", {"n"})},
            {"thrice", FloatBuffer("temporary", {"n"})},
            {"y", FloatBuffer("output", {"n"})}}},
          {"steps",
           {ScaleStep("x", "twice", "n", "2"), ScaleStep("x", "thrice", "n", factor),
            AddStep("twice", "thrice", "y", "n")}}};
}

}  // namespace coppice
