// Goal: a trace is read as coppice/graphs/trace_events.h says, and every broken file gets one error
// with file and line. Method: small files; a clean one, broken at each byte and in each field.

#include "tools/prof/pool_trace.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/base/status.h"

#include "tests/support/status_matchers.h"
#include "tests/tools/trace_builder.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::StartsWith;

struct Read {
  absl::StatusOr<PoolTrace> trace = PoolTrace();
  std::vector<TracedEvent> events;

  // Event `i`, or from the end on if that is negative.
  template <typename Event>
  const Event& At(int i) const {
    return std::get<Event>(events.at(static_cast<size_t>(i < 0 ? std::ssize(events) + i : i)).what);
  }
};

Read ReadText(const std::string& text) {
  const TemporaryFile file(text);
  Read read;
  read.trace = ReadPoolTrace(file.path(), [&](const PoolTrace&, const TracedEvent& event) {
    read.events.push_back(event);
  });
  return read;
}

// What is said of `line` if it follows a clean trace; begins behind the file's name.
std::string ErrorOf(const std::string& line) {
  TraceBuilder trace = CleanTrace();
  const int64_t number = trace.Line("{}", line);
  const Read read = ReadText(trace.Text());
  EXPECT_THAT(read.trace, StatusIs(absl::StatusCode::kInvalidArgument)) << line;
  const std::string message = MessageOf(read.trace.status());
  EXPECT_THAT(message, HasSubstr(fmt::format("_trace:{}: ", number))) << line;
  EXPECT_EQ(message.find('\n'), std::string::npos);
  return message;
}

TEST(PoolTraceTest, ReadsDefinitions) {
  TraceBuilder trace = CleanTrace(/*budget=*/77);
  trace.Program("prefill", "int8");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_EQ(read.trace->device, "Emulated <GPU>");
  EXPECT_EQ(read.trace->lanes, 1);
  EXPECT_EQ(read.trace->granularity, 4096);
  EXPECT_EQ(read.trace->budget, 77);
  ASSERT_EQ(read.trace->programs.size(), 2U);
  EXPECT_EQ(LabelOf(read.trace->programs[0]), "decode");
  EXPECT_EQ(LabelOf(read.trace->programs[1]), "prefill/int8");
  EXPECT_THAT(read.trace->programs[0].symbols, ElementsAre("batch"));
  ASSERT_EQ(read.trace->buckets.size(), 2U);
  EXPECT_EQ(LabelOf(read.trace->buckets[0]), "8");
  ASSERT_EQ(read.trace->nodes.size(), 3U);
  const TracedNode& node = read.trace->nodes[2];
  EXPECT_EQ(node.bucket, 1);
  EXPECT_EQ(node.height, 8192);
  EXPECT_EQ(node.reason, Reason::kNewBucket);
  EXPECT_THAT(node.around, ElementsAre(AddressRange{0, 4096}));
  EXPECT_THAT(node.offsets, ElementsAre(4096, 6144));
  EXPECT_THAT(node.outputs, ElementsAre(0, -1));
  EXPECT_THAT(node.buffers[0].lifetime, ElementsAre(Interval{0, 2}));
  EXPECT_THAT(FootprintOf(node), ElementsAre(AddressRange{4096, 8192}));
  EXPECT_THAT(OutputRangesOf(node), ElementsAre(AddressRange{4096, 6144}));
}

TEST(PoolTraceTest, NamesThingsByPlaceWhateverTheirNumbers) {
  TraceBuilder trace;
  trace.Line(R"({{"program":900,"name":"f","variant":"","symbols":[],"scalars":[],"spec":{{}},)"
             R"("policies":[],"joint":[]}})");
  trace.Line(R"({{"bucket":70,"program":900,"lane":0,"extents":[],"scalars":[]}})");
  trace.Line(R"([3,"call",0,1,70,-1,"eager","user_disabled",0,0,900,[],-1,"borrow"])");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_EQ(LabelOf(read.trace->buckets[0]), "-");
  EXPECT_EQ(read.At<CallEvent>(0).bucket, 0);
  EXPECT_EQ(read.At<CallEvent>(0).node, -1);
}

TEST(PoolTraceTest, ReadsTheValuesOfEveryEvent) {
  TraceBuilder trace = CleanTrace();
  trace.Line(
      R"([ 90000, "call", 0, 9, 1, 2, "record", "evicted", 10, 12, 0, [ 6 ], -1, "borrow" ])");
  trace.Event("evict", 0, "1");
  trace.Event("dropped", -1, "3");
  trace.Event("end", -1);
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_TRUE(read.trace->ended);
  EXPECT_EQ(read.trace->dropped, 3);
  EXPECT_EQ(read.trace->last_ns, 90000);
  EXPECT_EQ(read.trace->events, static_cast<int64_t>(read.events.size()));

  EXPECT_EQ(read.events[0].lane, -1);
  const auto& bytes = read.At<BytesEvent>(0);
  EXPECT_EQ(bytes.kind, MemoryKind::kEager);
  EXPECT_EQ(bytes.bytes, 4096);
  EXPECT_EQ(bytes.total_bytes, 4096);

  EXPECT_EQ(read.events[read.events.size() - 4].time_ns, 90000);
  EXPECT_EQ(read.events[read.events.size() - 4].lane, 0);
  const auto& call = read.At<CallEvent>(-4);
  EXPECT_EQ(call.call, 9);
  EXPECT_EQ(call.bucket, 1);
  EXPECT_EQ(call.node, 2);
  EXPECT_EQ(call.path, RunKind::kRecord);
  EXPECT_EQ(call.reason, Reason::kEvicted);
  EXPECT_EQ(call.real_elements, 10);
  EXPECT_EQ(call.padded_elements, 12);

  for (const TracedEvent& event : read.events) {
    const auto* const expire = event.As<ExpireEvent>();
    if (expire == nullptr) continue;
    EXPECT_EQ(expire->call, 6);
    EXPECT_EQ(expire->other_call, 7);
  }
}

TEST(PoolTraceTest, ATraceWithoutAnEndIsRead) {
  const Read read = ReadText(CleanTrace().Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_FALSE(read.trace->ended);
}

TEST(PoolTraceTest, AcceptsCrLfAndAMissingLastNewline) {
  std::string text;
  for (const char c : CleanTrace().Text())
    text += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_THAT(ReadText(text).trace, IsOk());
  text.resize(text.size() - 2);
  EXPECT_THAT(ReadText(text).trace, IsOk());
}

TEST(PoolTraceTest, LinesMayCrossTheBlocksOfTheFile) {
  TraceBuilder trace = CleanTrace();
  for (int call = 9; call < 60'000; ++call)
    trace.Call(call, 0, 0, "replay");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_EQ(read.At<CallEvent>(-1).call, 59'999);
}

TEST(PoolTraceTest, ATraceCutAnywhereIsReadUpToTheLineThatIsCut) {
  const std::string text = CleanTrace().Text();
  for (size_t bytes = 1; bytes < text.size(); ++bytes) {
    const std::string cut = text.substr(0, bytes);
    const size_t last = cut.rfind('\n');
    const Read read = ReadText(cut);
    const bool whole = text[bytes] == '\n';
    if (last == std::string::npos && !whole) {
      EXPECT_THAT(MessageOf(read.trace.status()), HasSubstr("_trace:1: the line is cut off"));
      continue;
    }
    ASSERT_THAT(read.trace, IsOk()) << cut.substr(last + 1);
    const Read before = ReadText(whole ? cut + "\n" : cut.substr(0, last + 1));
    ASSERT_THAT(before.trace, IsOk());
    EXPECT_EQ(read.events.size(), before.events.size());
    EXPECT_EQ(read.trace->buckets.size(), before.trace->buckets.size());
    EXPECT_EQ(read.trace->nodes.size(), before.trace->nodes.size());
    EXPECT_FALSE(read.trace->ended);
  }
}

TEST(PoolTraceTest, NamesArePrintable) {
  TraceBuilder trace = CleanTrace();
  trace.Line(R"({{"program":1,"name":"a\u001b[31mb\n\u007f","variant":"","symbols":["n\t"],)"
             R"("scalars":[],"spec":{{}},"policies":[],"joint":[]}})");
  trace.Line(R"({{"mark":0,"name":"\u0001 ünïcode"}})");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_EQ(read.trace->programs[1].name, "a?[31mb??");
  EXPECT_THAT(read.trace->programs[1].symbols, ElementsAre("n?"));
  EXPECT_THAT(read.trace->marks, ElementsAre("? ünïcode"));
}

TEST(PoolTraceTest, RefusesFilesThatAreNoTrace) {
  EXPECT_THAT(MessageOf(ReadText("").trace.status()), HasSubstr("_trace:1: the file is empty"));
  for (const char* text :
       {"hello\n", "[1,2]\n", "{}\n", "\n", "7\n", "{\"schema\":7}\n", "\0\xff\n"}) {
    EXPECT_THAT(MessageOf(ReadText(text).trace.status()), HasSubstr("_trace:1: ")) << text;
  }
  const auto ignore = [](const PoolTrace&, const TracedEvent&) {};
  EXPECT_THAT(ReadPoolTrace("no/such/file", ignore), StatusIs(absl::StatusCode::kInvalidArgument));
  EXPECT_THAT(ReadPoolTrace(testing::TempDir(), ignore),
              StatusIs(absl::StatusCode::kInvalidArgument));
}

TEST(PoolTraceTest, NamesTheSchemaItReadsWhereTheTraceHasAnother) {
  for (const std::string other : {"coppice.trace/5", "coppice.trace/7"}) {
    std::string text = CleanTrace().Text();
    const std::string_view own = "coppice.trace/6";
    text.replace(text.find(own), own.size(), other);
    const std::string message = MessageOf(ReadText(text).trace.status());
    EXPECT_THAT(message, HasSubstr("'schema' is not coppice.trace/6"));
    EXPECT_THAT(message, HasSubstr(other));
  }
  EXPECT_THAT(ErrorOf(R"([90000,"teleport",0,1])"), HasSubstr("coppice.trace/6"));
}

TEST(PoolTraceTest, ReadsTheProgramAndTheExtentsOfACall) {
  TraceBuilder trace = CleanTrace();
  trace.Line(R"({{"program":1,"name":"encode","variant":"","symbols":["n","m"],"scalars":[],)"
             R"("spec":{{}},"policies":[],"joint":[]}})");
  trace.Event("call", 0, R"(9,-1,-1,"eager","user_disabled",6,6,1,[3,2147483647],-1,"borrow")");
  trace.Event("call", 0, R"(10,0,0,"replay","none",6,8,0,[6],-1,"borrow")");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  const auto& eager = read.At<CallEvent>(-2);
  EXPECT_EQ(eager.program, 1);
  EXPECT_THAT(eager.extents.values(), ElementsAre(3, 2147483647));
  EXPECT_EQ(read.At<CallEvent>(-1).program, 0);
  EXPECT_THAT(read.At<CallEvent>(-1).extents.values(), ElementsAre(6));
  for (const char* rest : {"2,[1]", "-1,[1]", "0,[-1]", "0,[2147483648]", "0,[1,2]", "0,[]",
                           "0,[1,2,3,4,5,6,7,8,9]", "0,[1", "0,[1,]", "0,1"})
    EXPECT_THAT(
        ErrorOf(fmt::format(R"([90000,"call",0,9,-1,-1,"eager","none",6,6,{},-1,"borrow"])", rest)),
        HasSubstr("'call'"))
        << rest;
}

TEST(PoolTraceTest, ReadsHowLongACallTookAndWhereItsOutputsWent) {
  TraceBuilder trace = CleanTrace();
  trace.Event("call", 0, R"(9,0,0,"replay","none",6,8,0,[6],1234,"copy_out")");
  trace.Event("call", 0, R"(10,0,0,"replay","none",6,8,0,[6],-1,"borrow")");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  const auto& timed = read.At<CallEvent>(-2);
  EXPECT_EQ(timed.host_ns, 1234);
  EXPECT_EQ(timed.outputs, OutputMode::kCopyOut);
  EXPECT_EQ(read.At<CallEvent>(-1).host_ns, -1);
  EXPECT_EQ(read.At<CallEvent>(-1).outputs, OutputMode::kBorrow);
  for (const char* rest : {"5", "-1", "-2,\"borrow\"", "5,\"lend\"", "5,\"borrow\",1"})
    EXPECT_THAT(
        ErrorOf(fmt::format(R"([90000,"call",0,9,-1,-1,"eager","none",6,6,0,[1],{}])", rest)),
        HasSubstr("'call'"))
        << rest;
}

TEST(PoolTraceTest, ReadsWhichInputIsWhichOutput) {
  TraceBuilder trace = CleanTrace();
  trace.Event("use", 0, "9,8,2,1,256");
  trace.Event("use", 0, "9,8,-1,-1,0");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  const auto& use = read.At<UseEvent>(-2);
  EXPECT_EQ(use.call, 9);
  EXPECT_EQ(use.other_call, 8);
  EXPECT_EQ(use.input, 2);
  EXPECT_EQ(use.output, 1);
  EXPECT_EQ(use.offset_bytes, 256);
  EXPECT_EQ(read.At<UseEvent>(-1).input, -1);
  for (const char* values : {"9,8,2", "9,8,2,1", "9,8,-2,1,0", "9,8,1,2147483648,0", "9,8,1,1,-1"})
    EXPECT_THAT(ErrorOf(fmt::format(R"([90000,"use",0,{}])", values)), HasSubstr("'use'"))
        << values;
}

TEST(PoolTraceTest, ReadsPoliciesThatSymbolsGet) {
  TraceBuilder trace = CleanTrace();
  trace.Line(R"({{"policy":7,"document":{{"version":1,"buckets":[8,64]}}}})");
  trace.Event("policy", -1, "0,0,7");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_THAT(read.trace->policies, ElementsAre(R"({"buckets":[8,64],"version":1})"));
  EXPECT_EQ(read.At<PolicyEvent>(-1).program, 0);
  EXPECT_EQ(read.At<PolicyEvent>(-1).symbol, 0);
  EXPECT_EQ(read.At<PolicyEvent>(-1).policy, 0);
  for (const char* values : {"0,0,7", "0,0", "-1,0,7", "0,1,7", "0,0,-1"})
    EXPECT_THAT(ErrorOf(fmt::format(R"([90000,"policy",-1,{}])", values)), HasSubstr("'policy'"))
        << values;
  for (const char* line : {R"({"policy":0})", R"({"policy":0,"document":[1]})"})
    EXPECT_THAT(ErrorOf(line), HasSubstr("'document'")) << line;
}

TEST(PoolTraceTest, ReadsTheTimesOfRequests) {
  TraceBuilder trace = CleanTrace();
  trace.Event("request", -1, "17,1500,9000,120,30");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  const auto& request = read.At<RequestEvent>(-1);
  EXPECT_EQ(request.request, 17);
  EXPECT_EQ(request.first_token_ns, 1500);
  EXPECT_EQ(request.last_token_ns, 9000);
  EXPECT_EQ(request.input_tokens, 120);
  EXPECT_EQ(request.output_tokens, 30);
  EXPECT_THAT(ErrorOf(R"([90000,"request",-1,17,1500])"), HasSubstr("'request'"));
}

TEST(PoolTraceTest, ReadsTheBytesOfStatics) {
  TraceBuilder trace = CleanTrace();
  trace.Event("statics", -1, "0,64,96");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  const auto& statics = read.At<StaticsEvent>(-1);
  EXPECT_EQ(statics.program, 0);
  EXPECT_EQ(statics.bytes, 64);
  EXPECT_EQ(statics.total_bytes, 96);
  EXPECT_THAT(ErrorOf(R"([90000,"statics",-1,0,-1,96])"), HasSubstr("value 5 of 'statics'"));
  EXPECT_THAT(ErrorOf(R"([90000,"statics",-1,9,64,96])"), HasSubstr("value 4 of 'statics'"));
}

TEST(PoolTraceTest, ReadsOptionsAndSpecsAsTheyStand) {
  TraceBuilder trace;
  trace.Replace(1, R"({"schema":"coppice.trace/6","device":"","lanes":1,"granularity":1,)"
                   R"("budget":0,"options":{"warmup_runs":2}})");
  trace.Line(R"({{"program":0,"name":"f","variant":"","symbols":["a","b"],"scalars":[],)"
             R"("spec":{{"claim":1}},)"
             R"("policies":[{{"ladder":"exact"}},{{"ladder":"pow2"}}],)"
             R"("joint":[[0,1,{{"grid":"pow2/pow2"}}]]}})");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_EQ(read.trace->options, R"({"warmup_runs":2})");
  const TracedProgram& program = read.trace->programs[0];
  EXPECT_EQ(program.spec, R"({"claim":1})");
  EXPECT_THAT(program.policies, ElementsAre(R"({"ladder":"exact"})", R"({"ladder":"pow2"})"));
  ASSERT_EQ(program.joint.size(), 1U);
  EXPECT_EQ(program.joint[0].a, 0);
  EXPECT_EQ(program.joint[0].b, 1);
  EXPECT_EQ(program.joint[0].policy, R"({"grid":"pow2/pow2"})");
  for (const char* more : {R"("spec":1)", R"("policies":[1])", R"("joint":[[0,2,{}]])",
                           R"("joint":[[0,1]])", R"("joint":[[0,1,2]])"})
    EXPECT_THAT(ErrorOf(fmt::format(
                    R"({{"program":9,"name":"g","variant":"","symbols":["a","b"],"scalars":[],)"
                    R"("spec":{{}},"policies":[],"joint":[],{}}})",
                    more)),
                HasSubstr("is not"))
        << more;
}

TEST(PoolTraceTest, ReadsWhatBuffersAreCalled) {
  TraceBuilder trace = CleanTrace();
  trace.Line(R"({{"node":9,"bucket":0,"height":8192,"live":8192,"method":"","graph_nodes":1,)"
             R"("exec_bytes":1,"record_ns":1,"reason":"none","around":[],)"
             R"("kernels":[],"buffers":[[0,4096,-1,[0,1],"qkv"],[4096,4096,-1,[0,1],""]]}})");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  const TracedNode& node = read.trace->nodes.back();
  EXPECT_THAT(node.labels, ElementsAre("qkv", ""));
  EXPECT_EQ(LabelOfBuffer(node, 0), "qkv");
  EXPECT_EQ(LabelOfBuffer(node, 1), "#1");
}

TEST(PoolTraceTest, ReadsTheScalarsOfAKey) {
  TraceBuilder trace;
  trace.Line(R"({{"program":0,"name":"p","variant":"","symbols":["n"],"scalars":["layers","sign"],)"
             R"("spec":{{}},"policies":[],"joint":[]}})");
  trace.Line(
      R"({{"bucket":0,"program":0,"lane":0,"extents":[8],"scalars":[4611686018427387904,-1]}})");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_THAT(read.trace->programs[0].scalars, testing::ElementsAre("layers", "sign"));
  EXPECT_THAT(read.trace->buckets[0].scalars, testing::ElementsAre(int64_t{1} << 62, -1));
  EXPECT_EQ(LabelOf(read.trace->buckets[0]), "8 (4611686018427387904, -1)");
  for (const char* scalars : {"1", "[1.5]", R"(["1"])", "[18446744073709551615]"})
    EXPECT_THAT(ErrorOf(fmt::format(
                    R"({{"bucket":9,"program":0,"lane":0,"extents":[8],"scalars":{}}})", scalars)),
                HasSubstr("'scalars' is not"))
        << scalars;
}

TEST(PoolTraceTest, ReadsTheKernelsOfANode) {
  TraceBuilder trace = CleanTrace();
  const auto node = [](const std::string& kernels) {
    return fmt::format(
        R"({{"node":3,"bucket":0,"height":0,"live":0,"method":"size","graph_nodes":2,)"
        R"("exec_bytes":1,"record_ns":1,"reason":"new_bucket","around":[],"kernels":{},)"
        R"("buffers":[]}})",
        kernels);
  };
  trace.Line("{}", node(R"([["attend",[64,2,1],[256,1,1],8192],["add",[1,1,1],[32,1,1],0]])"));
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  ASSERT_EQ(read.trace->nodes.back().kernels.size(), 2U);
  const TracedKernel& kernel = read.trace->nodes.back().kernels[0];
  EXPECT_EQ(kernel.name, "attend");
  EXPECT_EQ(kernel.grid, (std::array<int64_t, 3>{64, 2, 1}));
  EXPECT_EQ(kernel.block, (std::array<int64_t, 3>{256, 1, 1}));
  EXPECT_EQ(kernel.shared_bytes, 8192);
  for (const char* kernels :
       {"1", "[1]", R"([["a",[1,1],[1,1,1],0]])", R"([["a",[1,1,1],[0,1,1],0]])",
        R"([[1,[1,1,1],[1,1,1],0]])", R"([["a",[1,1,1],[1,1,1],-1]])"})
    EXPECT_THAT(ErrorOf(node(kernels)), HasSubstr("'kernels' is not")) << kernels;
}

TEST(PoolTraceTest, ReadsMarks) {
  TraceBuilder trace = CleanTrace();
  trace.Line(R"({{"mark":7,"name":"warm"}})");
  trace.Event("mark", -1, "7");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  EXPECT_THAT(read.trace->marks, testing::ElementsAre("warm"));
  EXPECT_EQ(read.At<MarkEvent>(-1).mark, 0);
  EXPECT_THAT(ErrorOf(R"([90000,"mark",-1,7])"), HasSubstr("value 4 of 'mark' is wrong"));
  EXPECT_THAT(ErrorOf(R"([90000,"mark",-1,-1])"), HasSubstr("value 4 of 'mark' is wrong"));
}

TEST(PoolTraceTest, ReadsFailures) {
  TraceBuilder trace = CleanTrace();
  trace.Failure("cuCtxSynchronize", "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "not here");
  trace.Event("fail", 0, "1,0");
  const Read read = ReadText(trace.Text());
  ASSERT_THAT(read.trace, IsOk());
  ASSERT_EQ(read.trace->failures.size(), 1U);
  EXPECT_EQ(read.trace->failures[0].driver_call, "cuCtxSynchronize");
  EXPECT_EQ(read.trace->failures[0].code, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED");
  EXPECT_EQ(read.trace->failures[0].message, "not here");
  EXPECT_EQ(read.At<FailEvent>(-1).bucket, 1);
  EXPECT_EQ(read.At<FailEvent>(-1).failure, 0);
}

TEST(PoolTraceTest, RefusesDeepDefinitionsWithoutTakingThemApart) {
  const size_t depth = 1'000'000;
  for (const char* open : {"[", "{\"a\":"}) {
    std::string line = R"({"program":7,"name":)";
    for (size_t i = 0; i < depth; ++i)
      line += open;
    EXPECT_THAT(ErrorOf(line), HasSubstr("deep"));
  }
  EXPECT_THAT(ErrorOf("{\"a\":" + std::string(depth, '[') + std::string(depth, ']') + "}"),
              HasSubstr("deep"));
}

TEST(PoolTraceTest, RefusesBrokenEvents) {
  for (const char* line : {"[",
                           "[]",
                           "[1]",
                           R"([90000,"call"])",
                           R"([-1,"end",-1])",
                           R"([1.5,"end",-1])",
                           R"([1e3,"end",-1])",
                           R"(["1","end",-1])",
                           R"([01,"end",-1])",
                           R"([90000,end,-1])",
                           R"([90000,"end",-1)",
                           R"([90000,"end",-1],)",
                           R"([90000,"end",-1]])",
                           R"([90000,"end",1])",
                           R"([90000,"end",-2])",
                           R"([90000,"end"])",
                           R"([90000,"end",-1,5])",
                           R"([90000,"evict",0,3])",
                           R"([90000,"evict",0,-1])",
                           R"([90000,"evict",-1,1])",
                           R"([90000,"record",-1,1])",
                           R"([90000,"fail",0,0,0])",
                           R"([90000,"fail",0,-1,0])",
                           R"([90000,"fail",0,0,-1])",
                           R"([90000,"release",0,0])",
                           R"([90000,"release",-1,5])",
                           R"([90000,"release",0])",
                           R"([90000,"release",0,"5"])",
                           R"([90000,"release",0,99999999999999999999])",
                           R"([90000,"release",0,9007199254740993])",
                           R"([90000,"bytes",-1,"attic",1,1])",
                           R"([90000,"bytes",-1,"nodes",-1,1])",
                           R"([90000,"call",0,9,5,0,"replay","none",1,1,0,[6],-1,"borrow"])",
                           R"([90000,"call",0,9,0,9,"replay","none",1,1,0,[6],-1,"borrow"])",
                           R"([90000,"call",0,9,0,0,"fly","none",1,1,0,[6],-1,"borrow"])",
                           R"([90000,"call",0,9,0,0,"replay","because",1,1,0,[6],-1,"borrow"])",
                           R"([90000,"call",0,9,0,0,"replay","none",1])"}) {
    ErrorOf(line);
  }
}

TEST(PoolTraceTest, RefusesBrokenDefinitions) {
  const auto node = [](const std::string& from, const std::string& to) {
    std::string line = R"({"node":7,"bucket":0,"height":9,"live":9,"method":"m","graph_nodes":1,)"
                       R"("exec_bytes":1,"record_ns":1,"reason":"none","around":[[0,1]],)"
                       R"("kernels":[],"buffers":[[1,2,-1,[0,2,3,4],""]]})";
    const size_t at = line.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return line.replace(at, from.size(), to);
  };
  TraceBuilder good = CleanTrace();
  good.Line("{}", node("7", "8"));
  ASSERT_THAT(ReadText(good.Text()).trace, IsOk());
  EXPECT_THAT(ErrorOf(node("\"height\":9", "\"height\":-9")), HasSubstr("'height'"));
  EXPECT_THAT(ErrorOf(node("\"live\":9,", "")), HasSubstr("'live'"));
  EXPECT_THAT(ErrorOf(node("\"m\"", "8")), HasSubstr("'method'"));
  EXPECT_THAT(ErrorOf(node("\"none\"", "\"because\"")), HasSubstr("'reason'"));
  EXPECT_THAT(ErrorOf(node("\"bucket\":0", "\"bucket\":44")), HasSubstr("'bucket'"));
  EXPECT_THAT(ErrorOf(node("\"node\":7", "\"node\":1")), HasSubstr("'node'"));
  for (const char* around : {"[0]", "[0,0]", "[-1,1]", "7", "[0,1,2]"})
    EXPECT_THAT(ErrorOf(node("[0,1]", around)), HasSubstr("'around'")) << around;
  for (const char* buffer :
       {"[1,2,-1,[0,2]]", R"([1,0,-1,[0,2],""])", R"([-1,2,-1,[0,2],""])", R"([1,2,-2,[0,2],""])",
        "[1,2,-1,[]]", "[1,2,-1,[0]]", "[1,2,-1,[0,2,1,4]]", "[1,2,-1,[2,2]]", "[1,2,-1,[0,1.5]]",
        "7", "[18446744073709551615,2,-1,[0,2]]"})
    EXPECT_THAT(ErrorOf(node(R"([1,2,-1,[0,2,3,4],""])", buffer)), HasSubstr("'buffers'"))
        << buffer;
  EXPECT_THAT(ErrorOf(R"({"bucket":9,"program":3,"lane":0,"extents":[]})"), HasSubstr("'program'"));
  EXPECT_THAT(ErrorOf(R"({"bucket":9,"program":0,"lane":1,"extents":[]})"), HasSubstr("'lane'"));
  EXPECT_THAT(ErrorOf(R"({"bucket":9,"program":0,"lane":0,"extents":["a"]})"),
              HasSubstr("'extents'"));
  EXPECT_THAT(ErrorOf(R"({"bucket":1,"program":0,"lane":0,"extents":[],"scalars":[]})"),
              HasSubstr("'bucket'"));
  EXPECT_THAT(ErrorOf(R"({"program":0,"name":"f","variant":"","symbols":[],"scalars":[],)"
                      R"("spec":{},"policies":[],"joint":[]})"),
              HasSubstr("'program'"));
  EXPECT_THAT(ErrorOf(R"({"program":5,"name":"f","variant":"","symbols":[1]})"),
              HasSubstr("'symbols'"));
  EXPECT_THAT(ErrorOf(R"({"failure":0,"driver_call":"","code":7,"message":""})"),
              HasSubstr("'code'"));
  EXPECT_THAT(ErrorOf(R"({"leaf":5})"), HasSubstr("does not define"));
  EXPECT_THAT(ErrorOf("nonsense"), HasSubstr("nonsense"));
}

TEST(PoolTraceTest, RefusesLinesBehindTheEnd) {
  TraceBuilder trace = CleanTrace();
  trace.Event("end", -1);
  const int64_t line = trace.Event("end", -1);
  EXPECT_THAT(MessageOf(ReadText(trace.Text()).trace.status()),
              HasSubstr(fmt::format("_trace:{}: ", line)));
}

TEST(AddressRangeTest, NormalizeSortsAndJoins) {
  std::vector<AddressRange> ranges = {{8, 9}, {0, 2}, {2, 4}, {1, 3}, {6, 7}};
  Normalize(ranges);
  EXPECT_THAT(ranges, ElementsAre(AddressRange{0, 4}, AddressRange{6, 7}, AddressRange{8, 9}));
}

TEST(AddressRangeTest, MeetsOnlyWhereAByteIsInBoth) {
  EXPECT_FALSE(Meet({{0, 4}, {8, 9}}, {{4, 8}, {9, 10}}));
  EXPECT_TRUE(Meet({{0, 4}, {8, 9}}, {{4, 9}}));
  EXPECT_TRUE(Meet({{3, 4}}, {{0, 1}, {2, 100}}));
  EXPECT_FALSE(Meet({}, {{0, 1}}));
}

}  // namespace
}  // namespace coppice
