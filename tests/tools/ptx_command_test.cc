// Goal: `coppice ptx check` tells all of a file and refuses what cannot run; `coppice ptx run` runs
// a kernel on files, reports what is wrong with it, and refuses whatever does not fit before it
// writes anything. Method: the command in this process on kernels of a few lines.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/support/status_matchers.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/ptx_runs.h"
#include "tools/ptx/kernel_argument.h"
#include "tools/ptx/kernel_memory.h"
#include "tools/ptx/ptx.h"
#include "tools/support/npy.h"

extern "C" const char coppice_ptx_softmax[];  // Of `coppice bench ptx`.

namespace coppice {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using testing::StartsWith;

// y[i] = x[i] * factor for i < n, with 12 bytes of shared memory that nobody uses.
constexpr const char* kScaleText = R"(
.file 1 "scale.py"
.visible .entry Scale(.param .u64 x, .param .u64 y, .param .u32 n, .param .f32 factor)
.maxntid 256
{
  .shared .align 4 .b8 unused[12];
  .reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<4>; .reg .b64 %rd<6>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  ld.param.u32 %r1, [n];
  ld.param.f32 %f1, [factor];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.s32 %p1, %r5, %r1;
  @%p1 bra DONE;
  mul.wide.s32 %rd3, %r5, 4;
  add.s64 %rd4, %rd1, %rd3;
  add.s64 %rd5, %rd2, %rd3;
  .loc 1 7 3
  ld.global.f32 %f2, [%rd4];
  mul.f32 %f3, %f2, %f1;
  .loc 1 8 3
  st.global.f32 [%rd5], %f3;
DONE:
  ret;
}
)";
constexpr int kLoadLine = 25;  // In PtxFile(kScaleText).

// Every thread writes its index to one word of shared memory.
constexpr const char* kRaceText = R"(
.visible .entry Race() {
  .shared .align 4 .b32 word;
  .reg .b32 %r<2>;
  mov.u32 %r1, %tid.x;
  st.shared.u32 [word], %r1;
  ret;
}
)";

// A text of its own and a kernel that prints it.
constexpr const char* kPrintText = R"(
.extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 arguments);
.global .align 1 .b8 text[4] = {104, 105, 10, 0};
.visible .entry Greet() {
  .reg .b64 %rd<3>; .reg .b32 %r<2>;
  mov.u64 %rd1, text;
  cvta.global.u64 %rd2, %rd1;
  { .param .b64 param0; .param .b64 param1; .param .b32 retval0;
    st.param.b64 [param0], %rd2;
    st.param.b64 [param1], %rd2;
    call.uni (retval0), vprintf, (param0, param1);
    ld.param.b32 %r1, [retval0]; }
  ret;
}
)";

// A kernel that a GPU of another generation runs, and one that any does.
constexpr const char* kRefusedText = R"(
.func Fence() {
  tcgen05.wait::ld.sync.aligned;
  ret;
}
.visible .entry Blackwell() {
  call Fence;
  tcgen05.alloc.b32 24;
  ret;
}
.visible .entry Plain(.param .align 8 .b8 both[12]) .reqntid 32, 2 {
  ret;
}
)";

void ExpectPtxRefused(const CommandOutcome& outcome, const std::string& part) {
  EXPECT_EQ(outcome.code, kExitUsage) << outcome.err;
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_THAT(outcome.err, AllOf(StartsWith("coppice ptx"), HasSubstr(part)));
  EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
}

// --- check

TEST(PtxCheckTest, ListsKernelsWithParametersMemoryThreadsAndOpcodes) {
  const PtxFile file(kScaleText);
  const nlohmann::json json = JsonOf(RunCoppice({"ptx", "check", file.path(), "--json"}));
  EXPECT_EQ(json["file"], file.path());
  EXPECT_EQ(json["refused_kernels"], 0);
  ASSERT_THAT(json["kernels"], SizeIs(1));
  const nlohmann::json& kernel = json["kernels"][0];
  EXPECT_EQ(kernel["name"], "Scale");
  EXPECT_EQ(kernel["parameter_bytes"], 24);
  EXPECT_EQ(kernel["shared_bytes"], 12);
  EXPECT_EQ(kernel["max_threads"], 256);
  EXPECT_TRUE(kernel["required_threads"].is_null());
  ASSERT_THAT(kernel["parameters"], SizeIs(4));
  EXPECT_EQ(kernel["parameters"][3],
            (nlohmann::json{{"index", 3}, {"name", "factor"}, {"offset", 20}, {"bytes", 4}}));
  EXPECT_EQ(kernel["opcodes"]["add.s64"], 2);
  EXPECT_EQ(kernel["opcodes"]["ld.param.u64"], 2);
  EXPECT_EQ(kernel["opcodes"]["ret"], 1);
  EXPECT_THAT(kernel["refused"], IsEmpty());
}

TEST(PtxCheckTest, TextSaysTheSame) {
  const PtxFile file(kScaleText);
  const CommandOutcome outcome = RunCoppice({"ptx", "check", file.path()});
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, HasSubstr("kernel Scale\n  24 bytes of parameters, 12 of static shared "
                                     "memory, at most 256 threads\n"));
  EXPECT_THAT(outcome.out, HasSubstr("3  factor      20      4\n"));
  EXPECT_THAT(outcome.out, HasSubstr("add.s64 x 2"));
  EXPECT_THAT(outcome.out, EndsWith("1 kernels, 0 of them refused\n"));
}

TEST(PtxCheckTest, NamesAllThatWouldBeRefusedAndExitsWith1) {
  const PtxFile file(kRefusedText);
  const CommandOutcome outcome = RunCoppice({"ptx", "check", file.path(), "--json"});
  EXPECT_EQ(outcome.code, kExitMismatch);
  const nlohmann::json json = ParsePtxJson(outcome);
  EXPECT_EQ(json["refused_kernels"], 1);
  ASSERT_THAT(json["kernels"], SizeIs(2));
  EXPECT_EQ(
      json["kernels"][0]["refused"],
      (nlohmann::json{
          {{"function", "Blackwell"}, {"line", 11}, {"opcode", "tcgen05.alloc.b32"}},
          {{"function", "Fence"}, {"line", 6}, {"opcode", "tcgen05.wait::ld.sync.aligned"}}}));
  EXPECT_EQ(json["kernels"][1]["required_threads"], (std::vector<int>{32, 2, 1}));
  EXPECT_THAT(json["kernels"][1]["refused"], IsEmpty());

  const CommandOutcome text = RunCoppice({"ptx", "check", file.path()});
  EXPECT_EQ(text.code, kExitMismatch);
  EXPECT_THAT(text.out, HasSubstr(fmt::format("{}:6: the emulator cannot execute "
                                              "tcgen05.wait::ld.sync.aligned in Fence; compile "
                                              "for sm_80, sm_89 or sm_90\n",
                                              file.path())));
  EXPECT_THAT(text.out, HasSubstr("blocks of 32 x 2 x 1"));
  ExpectPtxRefused(RunPtx(file, "Plain", "32,2", {"i32:1"}), "sm_80");
}

TEST(PtxCheckTest, AFileThatIsNoPtxIsOneErrorWithItsLine) {
  const TemporaryFile text("\n\nhello\n", "hello.ptx");
  ExpectPtxRefused(RunCoppice({"ptx", "check", text.path()}), text.path() + ":3: ");
  ExpectPtxRefused(RunCoppice({"ptx", "check", text.path(), "--json"}), text.path() + ":3: ");
  ExpectPtxRefused(RunCoppice({"ptx", "run", text.path(), "K", "--grid", "1", "--block", "1"}),
                   text.path() + ":3: ");
  const TemporaryFile binary(std::string("\x7f"
                                         "ELF\x02\x01\x01\x00\x00",
                                         9),
                             "k.cubin");
  ExpectPtxRefused(RunCoppice({"ptx", "check", binary.path()}), binary.path() + ":1: ");
  const PtxFile wrong(".visible .entry K()\n{\n  add.s32 %r1, %r2, 1;\n}\n");
  ExpectPtxRefused(RunCoppice({"ptx", "check", wrong.path()}), wrong.path() + ":6: ");
  ExpectPtxRefused(RunCoppice({"ptx", "check", text.path() + ".none"}), "no such file");
}

// --- run

TEST(PtxRunTest, RunsAKernelOnFilesAndCountsWhatItDoes) {
  const PtxFile file(kScaleText);
  const TemporaryFile x(FormatArray<float>(DType::kFloat32, {2, 3}, {1, 2, 3, 4, 5, 6}), "x.npy");
  const PtxTarget y("y.npy");
  const CommandOutcome outcome = RunPtx(
      file, "Scale", "32", {"in:" + x.path(), "out:" + y.path() + ":f32:2x4", "i32:6", "f32:0.125"},
      {"--json", "--seed", "7"});
  const nlohmann::json json = JsonOf(outcome);
  EXPECT_EQ(json["kernel"], "Scale");
  EXPECT_EQ(json["grid"], (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(json["block"], (std::vector<int>{32, 1, 1}));
  EXPECT_EQ(json["seed"], 7);
  EXPECT_EQ(json["completed"], true);
  EXPECT_EQ(json["loads"], 4 * 32 + 6);  // Of parameters, and of x.
  EXPECT_EQ(json["stores"], 6);
  EXPECT_GE(json["instructions"], 17);
  // Ahead of the branch, the branch that 26 take, the rest of the 6 others, and the end.
  EXPECT_EQ(json["lane_instructions"], 9 * 32 + 26 + 6 * 6 + 32);
  EXPECT_THAT(json["findings"], IsEmpty());
  ASSERT_THAT(json["arguments"], SizeIs(4));
  EXPECT_EQ(json["arguments"][0]["read_bytes"], 24);
  EXPECT_EQ(json["arguments"][0]["written_bytes"], 0);
  EXPECT_EQ(json["arguments"][0]["shape"], (std::vector<int>{2, 3}));
  EXPECT_EQ(json["arguments"][1]["parameter"], "y");
  EXPECT_EQ(json["arguments"][1]["bytes"], 32);
  EXPECT_EQ(json["arguments"][1]["written_bytes"], 24);
  EXPECT_EQ(json["arguments"][1]["address"].get<uint64_t>() % 512, 0);
  EXPECT_EQ(json["arguments"][2]["argument"], "i32:6");

  const std::vector<float> written = ValuesInFile<float>(y);
  ASSERT_THAT(written, SizeIs(8));
  for (size_t i = 0; i < 6; ++i)
    EXPECT_EQ(written[i], static_cast<float>(i + 1) / 8);
  // All bits of what nobody wrote are 1.
  EXPECT_EQ(std::bit_cast<uint32_t>(written[6]), 0xffffffff);
  COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array, ReadNpy(y.path()));
  EXPECT_THAT(array.dims, ElementsAre(2, 4));
}

TEST(PtxRunTest, TextSaysTheSame) {
  const PtxFile file(kScaleText);
  const TemporaryFile x(FormatArray<float>(DType::kFloat32, {4}, {1, 2, 3, 4}), "x.npy");
  const PtxTarget y("y.npy");
  const CommandOutcome outcome = RunPtx(
      file, "Scale", "32,1,1", {"in:" + x.path(), "out:" + y.path() + ":f32:4", "u32:4", "f32:-1"});
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
  EXPECT_THAT(outcome.err, IsEmpty());
  EXPECT_THAT(outcome.out, StartsWith("kernel Scale, grid 1 x 1 x 1, block 32 x 1 x 1, 12 bytes "
                                      "of static and 0 bytes of dynamic shared memory, seed 1\n"));
  EXPECT_THAT(outcome.out, HasSubstr("  loads         132 by lanes\n  stores        4 by lanes\n"));
  EXPECT_THAT(outcome.out, HasSubstr("in:" + x.path()));
  EXPECT_THAT(outcome.out, EndsWith("\n0 findings\n"));
}

TEST(PtxRunTest, FollowsPaddingToElementsOfOutputs) {
  const PtxFile file(kScaleText);
  const TemporaryFile x(FormatArray<float>(DType::kFloat32, {4}, {1, 2, 3, 4}), "x.npy");
  const TemporaryFile mask(FormatArray<uint8_t>(DType::kBool, {4}, {0, 1, 0, 1}), "mask.npy");
  const PtxTarget y("y.npy");
  const std::vector<std::string> arguments = {"in:" + x.path(), "out:" + y.path() + ":f32:4",
                                              "u32:4", "f32:-1"};
  const std::string folder = std::filesystem::path(mask.path()).parent_path();
  const nlohmann::json padding =
      JsonOf(RunPtx(file, "Scale", "32", arguments,
                    {"--json", "--padding", "0=" + mask.path(), "--reached", folder}))["padding"];
  ASSERT_THAT(padding["outputs"], SizeIs(1));
  EXPECT_EQ(padding["outputs"][0]["reached"], 2);
  EXPECT_EQ(padding["outputs"][0]["first"]["element"], 1);
  EXPECT_EQ(padding["outputs"][0]["first"]["thread"], (std::vector<int>{1, 0, 0}));
  EXPECT_THAT(padding["gaps"], IsEmpty());
  COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray reached, ReadNpy(folder + "/1.npy"));
  EXPECT_EQ(reached.bytes, std::string("\0\1\0\1", 4));
  EXPECT_THAT(RunPtx(file, "Scale", "32", arguments, {"--padding", "0=" + mask.path()}).out,
              HasSubstr("padding reaches 2 of 4 elements of out:" + y.path()));

  const auto refusal = [&](std::vector<std::string> more) {
    const CommandOutcome outcome = RunPtx(file, "Scale", "32", arguments, more);
    EXPECT_EQ(outcome.code, kExitUsage);
    return outcome.err;
  };
  EXPECT_THAT(refusal({"--padding", "mask.npy"}), HasSubstr("give INDEX=MASK.npy"));
  EXPECT_THAT(refusal({"--padding", "1=" + mask.path()}), HasSubstr("argument 1 is not an array"));
  EXPECT_THAT(refusal({"--padding", "0=" + x.path()}), HasSubstr("f32[4], but must be bool[4]"));
  EXPECT_THAT(refusal({"--reached", folder}), HasSubstr("add --padding"));
}

TEST(PtxRunTest, InOutIsReadFromOneFileAndWrittenToAnother) {
  const PtxFile file(kScaleText);
  const std::string before = FormatArray<float>(DType::kFloat32, {3}, {1, 2, 3});
  const TemporaryFile q(before, "q.npy");
  const PtxTarget after("after.npy");
  const std::string argument = "inout:" + q.path() + ":" + after.path();
  const TemporaryFile x(FormatArray<float>(DType::kFloat32, {2}, {8, 9}), "x.npy");
  EXPECT_EQ(RunPtx(file, "Scale", "32", {"in:" + x.path(), argument, "i32:2", "f32:1"}).code,
            kExitOk);
  EXPECT_THAT(ValuesInFile<float>(after), ElementsAre(8, 9, 3));
  EXPECT_EQ(q.Read(), before);
}

// Stores its argument.
std::string StoreText(int bytes) {
  const int bits = bytes * 8;
  return fmt::format(
      ".visible .entry Store(.param .u64 out, .param .b{0} value) {{\n"
      ".reg .b64 %rd<2>; .reg .b{1} %v<2>;\n"
      "ld.param.u64 %rd1, [out];\nld.param.b{0} %v1, [value];\nst.global.b{0} [%rd1], %v1;\n"
      "ret;\n}}\n",
      bits, std::max(bits, 16));
}

TEST(PtxRunTest, ValuesOfEveryTypeReachTheKernel) {
  struct Value {
    int bytes;
    const char* type;
    const char* text;
    uint64_t bits;
  };
  const Value values[] = {
      {1, "i8", "-128", 0x80},
      {1, "u8", "255", 0xff},
      {2, "i16", "-2", 0xfffe},
      {2, "u16", "65535", 0xffff},
      {4, "i32", "-2147483648", 0x80000000},
      {4, "u32", "4294967295", 0xffffffff},
      {4, "f32", "0.125", 0x3e000000},
      {4, "f32", "-inf", 0xff800000},
      {8, "i64", "-9223372036854775808", 0x8000000000000000},
      {8, "u64", "18446744073709551615", 0xffffffffffffffff},
      {8, "f64", "-1.5e0", 0xbff8000000000000},
  };
  for (const Value& value : values) {
    const PtxFile file(StoreText(value.bytes).c_str());
    const PtxTarget out("out.npy");
    const CommandOutcome outcome = RunPtx(file, "Store", "1",
                                          {fmt::format("out:{}:{}:1", out.path(), value.type),
                                           fmt::format("{}:{}", value.type, value.text)});
    EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
    COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array, ReadNpy(out.path()));
    EXPECT_EQ(NameOf(array.dtype), std::string(value.type));
    uint64_t bits = 0;
    ASSERT_EQ(array.bytes.size(), static_cast<size_t>(value.bytes));
    std::memcpy(&bits, array.bytes.data(), array.bytes.size());
    EXPECT_EQ(bits, value.bits) << value.type;
  }
}

TEST(PtxRunTest, OutputsHaveEveryTypeThatAFileMayHave) {
  for (const char* type : {"f16", "bf16", "f32", "f64", "bool", "i8", "i16", "i32", "i64", "u8",
                           "u16", "u32", "u64"}) {
    const PtxFile file(StoreText(1).c_str());
    const PtxTarget out("out.npy");
    EXPECT_EQ(
        RunPtx(file, "Store", "1", {fmt::format("out:{}:{}:2x2", out.path(), type), "u8:1"}).code,
        kExitOk);
    COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array, ReadNpy(out.path()));
    EXPECT_EQ(NameOf(array.dtype), std::string(type == std::string("bf16") ? "u16" : type));
    EXPECT_EQ(array.bytes.front(), '\1');
  }
}

TEST(PtxRunTest, NullIsAnAddressOfNothing) {
  const PtxFile file(StoreText(4).c_str());
  const CommandOutcome outcome = RunPtx(file, "Store", "1", {"null", "i32:1"}, {"--json"});
  EXPECT_EQ(outcome.code, kExitDevice);
  const nlohmann::json json = ParsePtxJson(outcome);
  EXPECT_EQ(json["completed"], false);
  ASSERT_THAT(json["findings"], SizeIs(1));
  EXPECT_EQ(json["findings"][0]["kind"], "illegal address");
}

TEST(PtxRunTest, AFindingNamesKernelBlockThreadAndLinesAndExitsWith3) {
  const PtxFile file(kScaleText);
  const TemporaryFile x(FormatArray<float>(DType::kFloat32, {3}, {1, 2, 3}), "x.npy");
  const PtxTarget y("y.npy");
  const std::vector<std::string> arguments = {"in:" + x.path(), "out:" + y.path() + ":f32:4",
                                              "i32:4", "f32:1"};
  const CommandOutcome outcome = RunPtx(file, "Scale", "32", arguments, {"--json"});
  EXPECT_EQ(outcome.code, kExitDevice);
  EXPECT_THAT(outcome.err, IsEmpty());
  const nlohmann::json json = ParsePtxJson(outcome);
  EXPECT_EQ(json["completed"], false);
  ASSERT_THAT(json["findings"], SizeIs(1));
  const nlohmann::json& finding = json["findings"][0];
  EXPECT_EQ(finding["kernel"], "Scale");
  EXPECT_EQ(finding["block"], (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(finding["thread"], (std::vector<int>{3, 0, 0}));
  EXPECT_EQ(finding["line"], kLoadLine);
  EXPECT_EQ(finding["source"], "scale.py:7");
  EXPECT_TRUE(y.Exists()) << "outputs are written whatever was found";

  const CommandOutcome text = RunPtx(file, "Scale", "32", arguments);
  EXPECT_EQ(text.code, kExitDevice);
  EXPECT_THAT(text.out,
              StartsWith(fmt::format("illegal address: kernel Scale, block (0, 0, 0), thread (3, "
                                     "0, 0), PTX line {}, scale.py:7: reads 4 bytes",
                                     kLoadLine)));
  EXPECT_THAT(text.out, EndsWith("1 finding; the first ended the launch\n"));
}

TEST(PtxRunTest, AnArrayThatIsOnlyReadMayNotBeWritten) {
  const PtxFile file(kScaleText);
  const TemporaryFile x(FormatArray<float>(DType::kFloat32, {1}, {1}), "x.npy");
  const CommandOutcome outcome =
      RunPtx(file, "Scale", "1", {"in:" + x.path(), "in:" + x.path(), "i32:1", "f32:1"});
  EXPECT_EQ(outcome.code, kExitDevice);
  EXPECT_THAT(outcome.out, HasSubstr("read-only"));
}

TEST(PtxRunTest, ChecksCanBeChosen) {
  const PtxFile file(kRaceText);
  const auto findings = [&](const std::string& checks) {
    const CommandOutcome outcome = RunPtx(file, "Race", "64", {}, {"--json", "--checks", checks});
    const nlohmann::json json = ParsePtxJson(outcome);
    EXPECT_EQ(outcome.code, json["findings"].empty() ? kExitOk : kExitDevice);
    EXPECT_EQ(json["completed"], true);
    return json["findings"].size();
  };
  EXPECT_EQ(findings("all"), 1U);
  EXPECT_EQ(findings("races"), 1U);
  EXPECT_EQ(findings("record,races"), 1U);
  EXPECT_EQ(findings("none"), 0U);
  EXPECT_EQ(findings("uninitialized,record"), 0U);
  for (const char* checks : {"", ",", "some", "races,", "all,races", "races;record"})
    EXPECT_EQ(RunPtx(file, "Race", "64", {}, {"--checks", checks}).code, kExitUsage) << checks;
}

TEST(PtxRunTest, WithoutRecordNobodyKnowsWhatWasTouched) {
  const PtxFile file(StoreText(1).c_str());
  const PtxTarget out("out.npy");
  const nlohmann::json json = JsonOf(RunPtx(
      file, "Store", "1", {"out:" + out.path() + ":u8:1", "u8:3"}, {"--json", "--checks", "none"}));
  EXPECT_TRUE(json["arguments"][0]["written_bytes"].is_null());
}

TEST(PtxRunTest, WhatAKernelPrintsLeavesJsonAlone) {
  const PtxFile file(kPrintText);
  const CommandOutcome text = RunPtx(file, "Greet", "2", {});
  EXPECT_EQ(text.code, kExitOk) << text.err;
  EXPECT_THAT(text.out, StartsWith("hi\nhi\nkernel Greet"));
  EXPECT_THAT(text.err, IsEmpty());
  const CommandOutcome json = RunPtx(file, "Greet", "2", {}, {"--json"});
  EXPECT_EQ(json.err, "hi\nhi\n");
  EXPECT_EQ(ParsePtxJson(json)["kernel"], "Greet");
}

TEST(PtxRunTest, FindsWhatTheReadmeSays) {
  const TemporaryFile file(coppice_ptx_softmax, "softmax.ptx");
  const TemporaryFile x(FormatArray(DType::kFloat32, {64, 1000}, std::vector<float>(64'000, 1)),
                        "x.npy");
  const PtxTarget y("y.npy");
  const auto run = [&](const char* columns) {
    return RunCoppice({"ptx", "run", file.path(), "RowSoftmax", "--grid", "64", "--block", "256",
                       "--arg", "in:" + x.path(), "--arg", "out:" + y.path() + ":f32:64x1000",
                       "--arg", columns});
  };
  EXPECT_EQ(run("i32:1000").code, kExitOk);
  EXPECT_THAT(ValuesInFile<float>(y), Each(testing::FloatEq(1e-3F)));
  const CommandOutcome outcome = run("i32:1001");
  EXPECT_EQ(outcome.code, kExitDevice);
  EXPECT_THAT(outcome.out, StartsWith("illegal address: kernel RowSoftmax, block (63, 0, 0), "));
  EXPECT_THAT(outcome.out, HasSubstr("PTX line 91: reads 4 bytes at 0x"));
  EXPECT_THAT(outcome.out, HasSubstr("past the end of the range of 256000 bytes at 0x"));
}

// --- run: what is refused

TEST(PtxRunTest, AnUnknownKernelIsRefusedWithThoseThatThereAre) {
  const PtxFile file((std::string(kScaleText) + kRaceText).c_str());
  ExpectPtxRefused(RunPtx(file, "scale", "1", {}),
                   "there is no kernel 'scale'; kernels: Scale, Race");
}

TEST(PtxRunTest, ArgumentsFitTheParametersInNumberAndSize) {
  const PtxFile file(kScaleText);
  const TemporaryFile x(FormatArray<float>(DType::kFloat32, {1}, {1}), "x.npy");
  const std::string in = "in:" + x.path();
  ExpectPtxRefused(RunPtx(file, "Scale", "1", {}), "takes 4 arguments, not 0");
  ExpectPtxRefused(RunPtx(file, "Scale", "1", {in, in, "i32:1", "f32:1", "i32:1"}),
                   "takes 4 arguments, not 5");
  ExpectPtxRefused(
      RunPtx(file, "Scale", "1", {in, in, "i64:1", "f32:1"}),
      "i64:1: the argument has 8 bytes, but parameter 2 (n) has 4 bytes; give i32, u32 or f32");
  ExpectPtxRefused(RunPtx(file, "Scale", "1", {in, "f32:1", "i32:1", "f32:1"}),
                   "parameter 1 (y) has 8 bytes");
  const PtxFile structure(".visible .entry K(.param .align 8 .b8 both[12]) {\n  ret;\n}\n");
  ExpectPtxRefused(RunPtx(structure, "K", "1", {"null"}), "this command cannot run the kernel");
}

TEST(PtxRunTest, ArgumentsThatSayNothingAreRefused) {
  const PtxFile file(StoreText(4).c_str());
  for (const char* argument : {"x.npy",
                               "in",
                               "in:",
                               "out:y.npy",
                               "out:y.npy:f32",
                               "out::f32:1",
                               "out:y.npy:f33:1",
                               "out:y.npy:c64:1",
                               "out:y.npy:f32:",
                               "out:y.npy:f32:1x",
                               "out:y.npy:f32:x1",
                               "out:y.npy:f32:-1",
                               "out:y.npy:f32:1.5",
                               "out:y.npy:f32:1x1x1x1x1x1x1x1x1",
                               "inout:q.npy",
                               "inout:q.npy:",
                               "inout::q.npy",
                               "inout:a:b:c",
                               "i32:",
                               "i32:1.5",
                               "i32:2147483648",
                               "i32:0x10",
                               "u8:-1",
                               "u8:256",
                               "f32:1e400",
                               "f32:one",
                               "nulll",
                               "NULL",
                               "bool:1",
                               "out:y.npy:f32:4294967296x4294967296x4294967296",
                               "out:y.npy:i64:9223372036854775808",
                               "out:y.npy:f32:268435457"}) {
    const CommandOutcome outcome = RunPtx(file, "Store", "1", {argument, "i32:1"});
    ExpectPtxRefused(outcome, argument);
    EXPECT_THAT(ParseKernelArgument(argument), StatusIs(kWrongArgument));
  }
  EXPECT_EQ(RunPtx(file, "Store", "1", {"", "i32:1"}).code, kExitUsage);
}

TEST(PtxRunTest, ArraysThatCannotBeReadAreRefusedByName) {
  const PtxFile file(StoreText(4).c_str());
  const TemporaryFile text("no array", "text.npy");
  ExpectPtxRefused(RunPtx(file, "Store", "1", {"in:" + text.path(), "i32:1"}),
                   text.path() + ": this is not a .npy file");
  ExpectPtxRefused(RunPtx(file, "Store", "1", {"in:" + text.path() + ".none", "i32:1"}),
                   "no such file");
  std::string big = FormatArray<int32_t>(DType::kInt32, {1}, {1});
  big[big.find('<')] = '>';
  const TemporaryFile swapped(big, "big.npy");
  ExpectPtxRefused(RunPtx(file, "Store", "1", {"in:" + swapped.path(), "i32:1"}), "big-endian");
}

TEST(PtxRunTest, LaunchesThatNoDeviceTakesAreRefused) {
  const PtxFile scale(kScaleText);
  const PtxFile race(kRaceText, "race.ptx");
  const std::vector<std::string> none;
  ExpectPtxRefused(RunCoppice({"ptx", "run", race.path(), "Race", "--grid", "1"}),
                   "--block is missing");
  ExpectPtxRefused(RunCoppice({"ptx", "run", race.path(), "Race", "--block", "1"}),
                   "--grid is missing");
  ExpectPtxRefused(RunPtx(race, "Race", "1025", none), "the maximum is 1024,1024,64");
  ExpectPtxRefused(RunPtx(race, "Race", "1,1,65", none), "the maximum is 1024,1024,64");
  ExpectPtxRefused(RunPtx(race, "Race", "32,33", none), "kernel Race allows at most 1024");
  ExpectPtxRefused(RunPtx(scale, "Scale", "257", {"null", "null", "i32:1", "f32:1"}),
                   "kernel Scale allows at most 256");
  ExpectPtxRefused(
      RunCoppice({"ptx", "run", race.path(), "Race", "--grid", "1,65536", "--block", "1"}),
      "the maximum is 2147483647,65535,65535");
  ExpectPtxRefused(RunPtx(race, "Race", "1", none, {"--shared", "232448"}),
                   "with the 4 static bytes");
  for (const char* extents : {"", "0", "1,", ",1", "1,,1", "1,1,1,1", "-1", "4294967296", "x"}) {
    EXPECT_THAT(ParseLaunchExtents(extents), StatusIs(kWrongArgument)) << extents;
    EXPECT_EQ(RunPtx(race, "Race", extents, none).code, kExitUsage) << extents;
  }
  for (const char* bytes : {"-1", "232449", "1KiB", ""})
    EXPECT_EQ(RunPtx(race, "Race", "1", none, {"--shared", bytes}).code, kExitUsage) << bytes;
}

TEST(PtxRunTest, ModulesThatDeclareMoreThanThereIsAreRefused) {
  const PtxFile shared(".visible .entry K() {\n  .shared .b8 x[232449];\n  ret;\n}\n");
  ExpectPtxRefused(RunPtx(shared, "K", "1", {}), "232449 bytes of static shared memory");
  const PtxFile global(".global .b64 x[134217729];\n.visible .entry K() {\n  ret;\n}\n");
  ExpectPtxRefused(RunPtx(global, "K", "1", {}),
                   "the variables in this file have 1073741832 bytes");
}

TEST(PtxRunTest, ABlockOfRequiredThreadsMustHaveThem) {
  const PtxFile file(".visible .entry K() .reqntid 32, 2 {\n  ret;\n}\n");
  EXPECT_EQ(RunPtx(file, "K", "32,2", {}).code, kExitOk);
  ExpectPtxRefused(RunPtx(file, "K", "64", {}), "compiled for blocks of 32,2,1");
}

TEST(PtxRunTest, ACooperativeGridFitsTheDevice) {
  // Every block waits until all have come.
  const PtxFile file(R"(
.visible .entry Meet(.param .u64 count) {
  .reg .pred %p; .reg .b32 %r<4>; .reg .b64 %rd;
  ld.param.u64 %rd, [count];
  mov.u32 %r1, %nctaid.x;
  atom.global.add.u32 %r2, [%rd], 1;
WAIT:
  ld.volatile.global.u32 %r3, [%rd];
  setp.lt.u32 %p, %r3, %r1;
  @%p bra WAIT;
  ret;
}
)");
  const TemporaryFile count(FormatArray<uint32_t>(DType::kUInt32, {1}, {0}), "count.npy");
  const PtxTarget after("after.npy");
  const auto run = [&](const char* grid) {
    return RunCoppice({"ptx", "run", file.path(), "Meet", "--grid", grid, "--block", "1",
                       "--cooperative", "--arg", "inout:" + count.path() + ":" + after.path()});
  };
  const CommandOutcome outcome = run("20");
  EXPECT_EQ(outcome.code, kExitOk) << outcome.err << outcome.out;
  EXPECT_THAT(ValuesInFile<uint32_t>(after), ElementsAre(20));
  ExpectPtxRefused(run("4225"), "at most 4224 run at once");
}

TEST(PtxRunTest, NothingIsWrittenOverWhatIsRead) {
  const PtxFile file(StoreText(4).c_str());
  ExpectPtxRefused(RunPtx(file, "Store", "1", {"out:" + file.path() + ":i32:1", "i32:1"}),
                   "written over an input");
  const TemporaryFile q(FormatArray<int32_t>(DType::kInt32, {1}, {1}), "q.npy");
  ExpectPtxRefused(RunPtx(file, "Store", "1", {"inout:" + q.path() + ":" + q.path(), "i32:1"}),
                   "written over an input");
}

TEST(PtxRunTest, AnOutputThatCannotBeWrittenIsTheErrorOfOutputs) {
  const PtxFile file(StoreText(4).c_str());
  const std::string path = testing::TempDir() + "/coppice_no_such_folder/y.npy";
  const CommandOutcome outcome = RunPtx(file, "Store", "1", {"out:" + path + ":i32:1", "i32:1"});
  EXPECT_EQ(outcome.code, kExitOutput);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("coppice ptx run: " + path), HasSubstr("written")));
}

TEST(PtxRunTest, ArraysWithoutElementsHaveAnAddress) {
  const PtxFile file(kScaleText);
  const TemporaryFile x(FormatArray<float>(DType::kFloat32, {0, 4}, {}), "x.npy");
  const PtxTarget y("y.npy");
  EXPECT_EQ(RunPtx(file, "Scale", "32",
                   {"in:" + x.path(), "out:" + y.path() + ":f32:3x0", "i32:0", "f32:1"})
                .code,
            kExitOk);
  COPPICE_ASSERT_OK_AND_ASSIGN(const NpyArray array, ReadNpy(y.path()));
  EXPECT_THAT(array.dims, ElementsAre(3, 0));
}

TEST(PtxRunTest, HelpNamesKindsOfArgumentsAndExitCodes) {
  const CommandOutcome outcome = RunCoppice({"ptx", "run", "--help"});
  EXPECT_EQ(outcome.code, kExitOk);
  for (const char* part : {"inout:q.npy:r.npy", "--cooperative", "uninitialized", "Exit codes"})
    EXPECT_THAT(outcome.out, HasSubstr(part));
  EXPECT_THAT(RunCoppice({"ptx"}).err, HasSubstr("A subcommand is required"));
}

// --- memory

TEST(KernelMemoryTest, AllocationsAreAlignedAscendingAndApart) {
  KernelMemory memory;
  const std::span<std::byte> a = memory.Add(1, /*writable=*/true);
  const std::span<std::byte> b = memory.Add(5000, /*writable=*/false);
  EXPECT_THAT(memory.Add(0, /*writable=*/true), IsEmpty());
  EXPECT_THAT(a, SizeIs(1));
  EXPECT_THAT(b, SizeIs(5000));
  ASSERT_THAT(memory.ranges(), SizeIs(2)) << "nothing is no range";
  const ptx::MemoryRange& first = memory.ranges()[0];
  const ptx::MemoryRange& second = memory.ranges()[1];
  EXPECT_GE(second.begin - first.end, static_cast<uint64_t>(KernelMemory::kRoomBytes));
  for (const ptx::MemoryRange& range : memory.ranges()) {
    EXPECT_EQ(range.begin % KernelMemory::kAlignment, 0);
    EXPECT_EQ(range.writable, range.end - range.begin == 1);
  }
}

}  // namespace
}  // namespace coppice
