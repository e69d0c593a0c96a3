// Each is a change of another one, or a kernel over n rows.

#include "tests/tools/replay_programs.h"

#include <iterator>
#include <utility>

#include "coppice/runtime/package.h"

#include "tests/package/small_kernels.h"
#include "tests/tools/replay_server.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::FloatBuffer;
using package::Reads;
using package::Writes;

// What Triton made of the sample, without images that the emulator cannot run.
Planting Classify() {
  const package::Package sample =
      *package::Package::Open(COPPICE_SAMPLES "/triton_kernels.zip", {});
  Planting planting{
      .manifest = json::parse(sample.manifest_text()), .calls = {{3}, {50}, {50}}, .triton = true};
  json& manifest = planting.manifest;
  manifest["files"] = json::object();
  for (auto& [name, kernel] : manifest["kernels"].items()) {
    json targets = json::array();
    for (const json& target : kernel["targets"])
      if (manifest["modules"][target["module"].get<std::string>()]["format"] == "ptx")
        targets.push_back(target);
    kernel["targets"] = targets;
  }
  for (auto module = manifest["modules"].begin(); module != manifest["modules"].end();) {
    const std::string file = (*module)["file"];
    const bool is_ptx = (*module)["format"] == "ptx";
    if (is_ptx) planting.files[file] = package::TextOf(*sample.Read(file));
    module = is_ptx ? std::next(module) : manifest["modules"].erase(module);
  }
  return planting;
}

// With the tiles of the second configuration of `multiply`, which two warps share.
Planting ClassifyInLargeTiles() {
  Planting planting = Classify();
  json& kernel = planting.manifest["kernels"]["multiply"];
  kernel["targets"].erase(0);
  kernel["targets"][0].erase("variant");
  return planting;
}

// The number of columns is a scalar.
Planting ClassifyIntoScalar() {
  Planting planting = Classify();
  planting.program()["scalars"] = {{"width", {{"bind", "key"}}}};
  planting.program()["steps"][1]["args"][4] = {{"i32", "width"}};
  planting.program()["steps"][2]["args"][1] = {{"i32", "width"}};
  planting.scalars = {40};
  return planting;
}

// It is a size that is never padded.
Planting ClassifyIntoColumns() {
  Planting planting = Classify();
  json& program = planting.program();
  program["symbols"]["columns"] = {{"min", 1}, {"max", 64}};
  program["buffers"]["weights"]["shape"] = {64, "columns"};
  program["buffers"]["shares"]["shape"] = {"rows", "columns"};
  program["steps"][1]["args"][4] = {{"i32", "columns"}};
  program["steps"][1]["grid"] = {"ceildiv(rows, ROWS)", "ceildiv(columns, COLUMNS)", 1};
  program["steps"][2]["args"][1] = {{"i32", "columns"}};
  planting.calls = {{33, 3}, {40, 16}};
  return planting;
}

// The weights are bound.
Planting ClassifyWithBoundWeights() {
  Planting planting = Classify();
  planting.program()["buffers"]["weights"]["static"] = true;
  planting.calls = {{3}};
  return planting;
}

// The compiler put two temporaries into one buffer, the second where a multiple of 16 bytes begins.
Planting ClassifyInOneBuffer() {
  Planting planting = Classify();
  json& program = planting.program();
  program["buffers"]["buffer_2"]["bytes"] = "256 * rows + 16 * rows";
  program["steps"][0]["args"][1]["offset"] = "16 * rows";
  program["steps"][1]["args"][0]["offset"] = "16 * rows";
  return planting;
}

Planting Small(const std::string& ptx, json program, std::vector<std::vector<int64_t>> calls) {
  Planting planting{.calls = std::move(calls)};
  planting.manifest = PackageOf("", program).manifest;
  planting.manifest["files"] = json::object();
  planting.files[planting.manifest["modules"]["small"]["file"]] = ptx;
  return planting;
}

// Kernel(x, y, count) in the module of the small ones, as the only step over n.
Planting WithKernel(const std::string& kernel, const std::string& ptx) {
  Planting planting = Small(package::kSmallKernels + ptx, ProgramOf("Scale"), {{50}, {40}});
  json& kernels = planting.manifest["kernels"];
  kernels[kernel] = kernels["Scale"];
  kernels[kernel]["parameters"] = {8, 8, 4};
  kernels[kernel]["targets"][0]["symbol"] = kernel;
  planting.program()["steps"] = {{{"op", "kernel"},
                                  {"kernel", kernel},
                                  {"grid", package::GridOf("n")},
                                  {"args", {Reads("x"), Writes("y"), {{"i32", "n"}}}}}};
  return planting;
}

// A program that may not be padded, as results depend on all rows, or on their number.
Planting Unpadded(Planting planting, const json& shape) {
  planting.program()["symbols"]["n"] = {{"min", 1}, {"max", 1024}};
  planting.program()["buffers"]["y"]["shape"] = shape;
  return planting;
}

std::string EntryOf(const std::string& kernel) {
  return "\n.visible .entry " + kernel + "(.param .u64 x, .param .u64 y, .param .u32 count)\n";
}

// The first thread goes through all rows: `each` adds %f2 to %f1, `end` comes before the store.
Planting OverRows(const std::string& kernel, const std::string& each, const std::string& end) {
  return Unpadded(WithKernel(kernel, EntryOf(kernel) + R"({
  .reg .pred %p<3>;
  .reg .b32 %r<5>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<4>;
  mov.u32 %r1, %tid.x;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 ret;
  ld.param.u32 %r4, [count];
  ld.param.u64 %rd2, [x];
  ld.param.u64 %rd3, [y];
  mov.f32 %f1, 0f00000000;
  mov.u32 %r2, 0;
again:
  ld.global.f32 %f2, [%rd2];
  )" + each + R"(
  add.u64 %rd2, %rd2, 4;
  add.u32 %r2, %r2, 1;
  setp.lt.u32 %p2, %r2, %r4;
  @%p2 bra again;
)" + end + R"(  st.global.f32 [%rd3], %f1;
  ret;
}
)"),
                  {1});
}

// The sum of a row and all behind it.
const std::string kSumFrom = EntryOf("SumFrom") + package::kSmallKernelOpening + R"(
  add.u64 %rd4, %rd2, %rd1;
  add.u64 %rd5, %rd3, %rd1;
  mov.f32 %f1, 0f00000000;
again:
  ld.global.f32 %f2, [%rd4];
  add.rn.f32 %f1, %f1, %f2;
  add.u64 %rd4, %rd4, 4;
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, %r4;
  @%p2 bra again;
  st.global.f32 [%rd5], %f1;
  ret;
}
)";

// Rows are numbered from the end.
const std::string kFromEnd = EntryOf("FromEnd") + package::kSmallKernelOpening + R"(
  add.u64 %rd4, %rd2, %rd1;
  add.u64 %rd5, %rd3, %rd1;
  ld.global.f32 %f1, [%rd4];
  sub.u32 %r3, %r4, %r3;
  cvt.rn.f32.u32 %f2, %r3;
  mul.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd5], %f3;
  ret;
}
)";

// Four elements a thread, in one access each.
const std::string kQuads = EntryOf("Quads") + R"({
  .reg .pred %p<2>;
  .reg .b32 %r<5>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<6>;
  mov.u32 %r1, %tid.x;
  shl.b32 %r3, %r1, 2;
  ld.param.u32 %r4, [count];
  setp.ge.u32 %p1, %r3, %r4;
  @%p1 ret;
  mul.wide.u32 %rd1, %r3, 4;
  ld.param.u64 %rd2, [x];
  ld.param.u64 %rd3, [y];
  add.u64 %rd4, %rd2, %rd1;
  add.u64 %rd5, %rd3, %rd1;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];
  st.global.v4.f32 [%rd5], {%f1, %f2, %f3, %f4};
  ret;
}
)";

// The same in each of three rows of count; up to three elements of a row stay behind.
const std::string kRowsOfQuads = EntryOf("RowsOfQuads") + R"({
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<5>;
  .reg .b64 %rd<6>;
  mov.u32 %r1, %tid.x;
  shl.b32 %r3, %r1, 2;
  ld.param.u32 %r4, [count];
  add.u32 %r2, %r3, 4;
  setp.gt.u32 %p1, %r2, %r4;
  @%p1 ret;
  mov.u32 %r2, %ctaid.y;
  mad.lo.u32 %r5, %r2, %r4, %r3;
  mul.wide.u32 %rd1, %r5, 4;
  ld.param.u64 %rd2, [x];
  ld.param.u64 %rd3, [y];
  add.u64 %rd4, %rd2, %rd1;
  add.u64 %rd5, %rd3, %rd1;
  ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd4];
  st.global.v4.f32 [%rd5], {%f1, %f2, %f3, %f4};
  ret;
}
)";

Planting Quads() {
  Planting planting = Unpadded(WithKernel("Quads", kQuads), {"n"});
  planting.program()["guards"] = {"n % 4 == 0"};
  planting.calls = {{48}, {40}};
  return planting;
}

Planting RowsOfQuads() {
  Planting planting = Unpadded(WithKernel("RowsOfQuads", kRowsOfQuads), {3, "n"});
  planting.program()["guards"] = {"n % 4 == 0"};
  planting.program()["buffers"]["x"]["shape"] = {3, "n"};
  planting.program()["steps"][0]["grid"] = {1, 3, 1};
  planting.calls = {{48}, {40}};
  return planting;
}

Planting ScaledByScalar() {
  json program = ProgramOf("Scale");
  program["scalars"] = {{"alpha", {{"bind", "key"}}}};
  program["steps"][0]["args"][3] = {{"i32", "alpha"}};
  Planting planting = Small(package::kSmallKernels, program, {{5}, {5}});
  planting.scalars = {3};
  return planting;
}

// y = x + w, where w is bound or another input.
Planting WithWeights(bool bound) {
  json program = ProgramOf("Add");
  program["symbols"]["n"]["max"] = 64;
  program["inputs"] = {"x", "w"};
  program["buffers"]["w"] = FloatBuffer("input", {64});
  program["buffers"]["w"]["static"] = bound;
  program["steps"] = {package::AddStep("x", "w", "y", "n")};
  return Small(package::kSmallKernels, program, {{5}});
}

}  // namespace

const std::string& NextKernel() {
  static const std::string* const kText =
      new std::string(EntryOf("Next") + package::kSmallKernelOpening + R"(
  add.u64 %rd4, %rd2, %rd1;
  add.u64 %rd5, %rd3, %rd1;
  ld.global.f32 %f1, [%rd4];
  add.u32 %r3, %r3, 1;
  setp.lt.u32 %p2, %r3, %r4;
  mov.f32 %f2, 0f00000000;
  @%p2 ld.global.f32 %f2, [%rd4+4];
  add.rn.f32 %f3, %f1, %f2;
  st.global.f32 [%rd5], %f3;
  ret;
}
)");
  return *kText;
}

const std::map<std::string, std::function<Planting()>>& PlantingBases() {
  static const std::map<std::string, std::function<Planting()>> bases = {
      {"Classify", Classify},
      {"ClassifyInLargeTiles", ClassifyInLargeTiles},
      {"ClassifyIntoScalar", ClassifyIntoScalar},
      {"ClassifyIntoColumns", ClassifyIntoColumns},
      {"ClassifyWithBoundWeights", ClassifyWithBoundWeights},
      {"ClassifyInOneBuffer", ClassifyInOneBuffer},
      {"Scale",
       [] {
         return Small(package::kSmallKernels, ProgramOf("Scale"), {{7}, {50}});
       }},
      {"Add",
       [] {
         return Small(package::kSmallKernels, ProgramOf("Add"), {{7}, {50}});
       }},
      {"Diamond",
       [] {
         return Small(package::kSmallKernels, DiamondProgram(), {{7}, {50}});
       }},
      {"Sum", [] { return OverRows("Sum", "add.rn.f32 %f1, %f1, %f2;", ""); }},
      {"Most", [] { return OverRows("Most", "max.f32 %f1, %f1, %f2;", ""); }},
      {"Last", [] { return OverRows("Last", "mov.f32 %f1, %f2;", ""); }},
      {"Mean",
       [] {
         return OverRows("Mean", "add.rn.f32 %f1, %f1, %f2;",
                         "  cvt.rn.f32.u32 %f3, %r4;\n  div.rn.f32 %f1, %f1, %f3;\n");
       }},
      {"Next", [] { return Unpadded(WithKernel("Next", NextKernel()), {"n"}); }},
      {"SumFrom", [] { return Unpadded(WithKernel("SumFrom", kSumFrom), {"n"}); }},
      {"FromEnd", [] { return Unpadded(WithKernel("FromEnd", kFromEnd), {"n"}); }},
      {"Quads", Quads},
      {"RowsOfQuads", RowsOfQuads},
      {"ScaledByScalar", ScaledByScalar},
      {"WithWeights", [] { return WithWeights(false); }},
      {"WithBoundWeights", [] { return WithWeights(true); }}};
  return bases;
}

}  // namespace coppice
