// Goal: `coppice prof import` plans what a file says was allocated, and whatever else the file is,
// says so in one line, soon, and in little memory. Method: files written by hand, those that
// `coppice prof export` writes, whose figures are known, and 100,000 changed copies of both.

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/allocator/planner.h"

#include "tests/support/byte_mutator.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_share.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/process_limits.h"
#include "tests/tools/trace_builder.h"
#include "tools/prof/export/pickle_writer.h"
#include "tools/prof/import/foreign_lifetimes.h"

namespace coppice {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

using ForeignJson = nlohmann::ordered_json;

constexpr const char* kRmmHead = "Thread,Time,Action,Pointer,Size,Stream\n";

CommandOutcome RunImport(const std::string& format,
                         const std::string& bytes,
                         const std::vector<std::string>& options = {}) {
  const TemporaryFile file(bytes, "foreign");
  std::vector<std::string> arguments = {"prof", "import", format, file.path()};
  arguments.insert(arguments.end(), options.begin(), options.end());
  return RunCoppice(arguments);
}

nlohmann::json PlannedDevicesOf(const std::string& format, const std::string& bytes) {
  return JsonOf(RunImport(format, bytes, {"--json"}))["devices"];
}

std::string PickleOfJson(const ForeignJson& json) {
  PickleWriter writer;
  writer.Value(json);
  return writer.Finish();
}

ForeignJson TraceEntry(const char* action, int64_t address, int64_t bytes) {
  return {{"action", action}, {"addr", address}, {"size", bytes}, {"stream", 0}};
}

// A snapshot of one device.
ForeignJson SnapshotOf(ForeignJson entries, ForeignJson segments = ForeignJson::array()) {
  return {{"segments", std::move(segments)},
          {"device_traces", ForeignJson::array({std::move(entries)})}};
}

// Two allocations at a time, of which one is there before, and one stays; a segment that grows.
ForeignJson SmallSnapshot() {
  return SnapshotOf(
      ForeignJson::array({TraceEntry("segment_alloc", 4096, 4096),
                          TraceEntry("alloc", 4096, 1000),
                          TraceEntry("free_completed", 512, 300),
                          TraceEntry("alloc", 6144, 2000),
                          TraceEntry("free_requested", 4096, 1000),
                          TraceEntry("free_completed", 4096, 1000),
                          {{"action", "oom"}, {"size", 1 << 20}, {"device_free", 3}},
                          TraceEntry("segment_map", 8192, 4096),
                          TraceEntry("segment_unmap", 8192, 4096),
                          TraceEntry("something else", 0, 0)}),
      ForeignJson::array(
          {{{"device", 0},
            {"address", 4096},
            {"total_size", 4096},
            {"blocks", ForeignJson::array({{{"size", 2048}, {"state", "inactive"}},
                                           {{"size", 2048}, {"state", "active_allocated"}}})}},
           {{"device", 0},
            {"address", 65536},
            {"total_size", 512},
            {"blocks", ForeignJson::array({{{"size", 512}, {"state", "active_pending_free"}}})}}}));
}

std::string ExportedBytes(const TraceBuilder& trace, std::vector<std::string> arguments) {
  const TemporaryFile file(trace.Text());
  const TemporaryFile out("", "out");
  arguments.insert(arguments.begin(), {"prof", "export"});
  arguments.insert(arguments.end(), {file.path(), "-o", out.path()});
  EXPECT_EQ(RunCoppice(arguments).code, kExitOk);
  return out.Read();
}

TEST(ProfImportTest, PairsBecomeLifetimesAndWhatNoEventTellsWasThereAllAlong) {
  for (const std::string& bytes : {PickleOfJson(SmallSnapshot()), SmallSnapshot().dump()}) {
    const nlohmann::json devices = PlannedDevicesOf("memory-viz", bytes);
    ASSERT_EQ(devices.size(), 1U);
    EXPECT_EQ(devices[0]["events"], 10);
    EXPECT_EQ(devices[0]["allocations"], 4);
    EXPECT_EQ(devices[0]["live_before_the_events"], 2);
    EXPECT_EQ(devices[0]["live_after_the_events"], 2);
    EXPECT_EQ(devices[0]["requests_refused"], 1);
    EXPECT_EQ(devices[0]["reserved_peak_bytes"], 4096 + 4096 + 512);
    // The block of 512 bytes, and 1000 and 2000 together.
    EXPECT_EQ(devices[0]["allocated_peak_bytes"], 3512);
    EXPECT_EQ(devices[0]["bound_bytes"], 3512);
    EXPECT_GE(devices[0]["height_bytes"], 3512);
  }
}

TEST(ProfImportTest, LifetimesEndBeforeTheStepOfTheirFree) {
  const std::string bytes = PickleOfJson(SmallSnapshot());
  const auto devices = ReadSnapshotLifetimes(bytes, "s");
  ASSERT_OK(devices);
  std::vector<std::string> rows;
  for (const Buffer& buffer : devices->front().buffers)
    rows.push_back(
        fmt::format("{}: {}-{}", buffer.bytes, buffer.lifetime[0].lower, buffer.lifetime[0].upper));
  EXPECT_THAT(rows, testing::ElementsAre("300: 0-3", "1000: 2-6", "2000: 4-11", "512: 0-11"));
}

TEST(ProfImportTest, AnAddressThatIsAllocatedAgainEndsWhatWasThere) {
  const ForeignJson snapshot =
      SnapshotOf(ForeignJson::array({TraceEntry("alloc", 64, 100), TraceEntry("alloc", 64, 50),
                                     TraceEntry("alloc", 0, 0), TraceEntry("free", 0, 0)}));
  const nlohmann::json device = PlannedDevicesOf("memory-viz", snapshot.dump())[0];
  EXPECT_EQ(device["allocations"], 2);
  EXPECT_EQ(device["bound_bytes"], 100);
  EXPECT_EQ(device["allocations_of_no_bytes"], 1);
  EXPECT_EQ(device["reserved_peak_bytes"], nullptr);
}

TEST(ProfImportTest, ExportsOfATraceComeBackWithItsFigures) {
  const TraceBuilder trace = CleanTrace();
  const TemporaryFile file(trace.Text(), "whole");
  const nlohmann::json summary = JsonOf(RunCoppice({"prof", "summary", file.path(), "--json"}));
  const int64_t peak = summary["total_peak_bytes"];
  EXPECT_EQ(PlannedDevicesOf("memory-viz",
                             ExportedBytes(trace, {"memory-viz"}))[0]["reserved_peak_bytes"],
            peak);
  EXPECT_EQ(PlannedDevicesOf("rmm-csv", ExportedBytes(trace, {"rmm-csv"}))[0]["bound_bytes"], peak);
  const nlohmann::json buckets =
      JsonOf(RunCoppice({"prof", "buckets", file.path(), "--json", "--sort", "id"}))["buckets"];
  const nlohmann::json plans =
      PlannedDevicesOf("memory-viz", ExportedBytes(trace, {"memory-viz", "--mode", "plan"}));
  ASSERT_EQ(plans.size(), buckets.size());
  for (size_t i = 0; i < plans.size(); ++i) {
    EXPECT_EQ(plans[i]["bound_bytes"], buckets[i]["bound_bytes"]);
    EXPECT_EQ(plans[i]["reserved_peak_bytes"], buckets[i]["height_bytes"]);
  }
}

TEST(ProfImportTest, LifetimesThatAreWrittenPlanTheSame) {
  const TemporaryFile out("", "lifetimes.csv");
  const std::string bytes = PickleOfJson(SmallSnapshot());
  const nlohmann::json device =
      JsonOf(RunImport("memory-viz", bytes, {"--json", "-o", out.path()}))["devices"][0];
  const nlohmann::json plan =
      nlohmann::json::parse(RunCoppice({"plan", out.path(), "--json"}).out)["files"][0];
  EXPECT_EQ(plan["height_bytes"], device["height_bytes"]);
  EXPECT_EQ(plan["bound_bytes"], device["bound_bytes"]);
  EXPECT_EQ(plan["buffers"], device["allocations"]);
}

TEST(ProfImportTest, TheTableSaysWhatIsNotInThePlan) {
  const CommandOutcome outcome = RunImport("memory-viz", PickleOfJson(SmallSnapshot()));
  EXPECT_EQ(outcome.code, kExitOk);
  EXPECT_THAT(outcome.out, HasSubstr("2 allocations are older than the first event"));
  EXPECT_THAT(outcome.out, HasSubstr("1 requests were refused"));
}

TEST(ProfImportTest, RmmLogsAreReadAsRmmReadsThem) {
  const nlohmann::json device =
      PlannedDevicesOf("rmm-csv", std::string(kRmmHead) +
                                      "7,10:00:00.000001,allocate,0x7f00,1024,0\r\n"
                                      "7,10:00:00.000002,allocate,7e00,512,0x2\n"
                                      "9,10:00:00.000003,allocate failure,(nil),4096,0\n"
                                      "9,10:00:00.000004,free,0x7f00,1024,0\n"
                                      "9,10:00:00.000005,allocate,(nil),0,0\n"
                                      "9,10:00:00.000005,allocate,(nil),0,0\n"
                                      "9,10:00:00.000006,free,0x1,256,0\n\n")[0];
  EXPECT_EQ(device["events"], 7);
  EXPECT_EQ(device["allocations"], 3);
  EXPECT_EQ(device["requests_refused"], 1);
  EXPECT_EQ(device["live_before_the_events"], 1);
  EXPECT_EQ(device["bound_bytes"], 1024 + 512 + 256);
  EXPECT_EQ(device["reserved_peak_bytes"], nullptr);
}

TEST(ProfImportTest, RowsThatRmmDoesNotWriteAreNamedByLine) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "foreign:1: the header is ''"},
      {"Thread,Time\n", "foreign:1: the header is 'Thread,Time'"},
      {std::string(kRmmHead) + "1,2,3\n", "foreign:2: the row has 3 fields, the header 6"},
      {std::string(kRmmHead) + "\n1,t,free,0x1,1,0\n", "foreign:2: the row has 1 fields"},
      {std::string(kRmmHead) + "1,t,alloc,0x1,1,0\n", "foreign:2: the action is 'alloc'"},
      {std::string(kRmmHead) + "1,t,free,0xg,1,0\n", "foreign:2: the pointer is '0xg'"},
      {std::string(kRmmHead) + "1,t,free,0x1,-1,0\n", "foreign:2: the size is '-1'"},
      {std::string(kRmmHead) + "1,t,free,0x1,1e3,0\n", "foreign:2: the size is '1e3'"},
      {std::string(kRmmHead) + "1,t,free,0x1,1125899906842625,0\n", "foreign:2: the size is"},
      {std::string(kRmmHead) + "1,t,allocate,0x1,8,0\n1,t,allocate,0x1,8,0\n",
       "foreign:3: 0x1 is allocated"}};
  for (const auto& [text, wanted] : cases) {
    const CommandOutcome outcome = RunImport("rmm-csv", text);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_THAT(outcome.err, HasSubstr(wanted));
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
}

// The line that a pickle of these bytes is refused with.
std::string RefusalOfPickle(const std::string& bytes) {
  const CommandOutcome outcome = RunImport("memory-viz", bytes);
  EXPECT_EQ(outcome.code, kExitUsage) << outcome.out;
  EXPECT_THAT(outcome.out, IsEmpty());
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  return outcome.err;
}

TEST(ProfImportTest, PicklesThatCouldRunCodeAreRefusedAtTheirByte) {
  EXPECT_THAT(RefusalOfPickle("\x80\x02"
                              "cposix\nsystem\n(X\2\0\0\0idtR."),
              AllOf(HasSubstr("byte 2: the opcode GLOBAL, which can run code")));
  for (const auto& [code, name] :
       std::vector<std::pair<char, const char*>>{{'R', "REDUCE"},
                                                 {'b', "BUILD"},
                                                 {'i', "INST"},
                                                 {'o', "OBJ"},
                                                 {'\x81', "NEWOBJ"},
                                                 {'\x92', "NEWOBJ_EX"},
                                                 {'\x93', "STACK_GLOBAL"},
                                                 {'P', "PERSID"},
                                                 {'Q', "BINPERSID"},
                                                 {'\x82', "EXT1"},
                                                 {'\x83', "EXT2"},
                                                 {'\x84', "EXT4"}}) {
    EXPECT_THAT(RefusalOfPickle(std::string("\x80\x04NN") + code),
                HasSubstr(fmt::format("byte 4: the opcode {}, which can run code", name)));
  }
}

TEST(ProfImportTest, OpcodesThatNoSnapshotHasAreRefusedAtTheirByte) {
  using std::string_literals::operator""s;
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"\x80\x01N."s, "byte 0: the protocol 1"},
      {"\x80\x06N."s, "byte 0: the protocol 6"},
      {"\x80\x04]C\1x."s, "byte 3: the opcode 0x43"},
      {"\x80\x04\x8f."s, "byte 2: the opcode 0x8f"},
      {"\x80\x04."s, "byte 2: a value is wanted"},
      {"\x80\x04N"s, "byte 3: the file ends"},
      {"\x80\x04X\xff\xff\xff\xffno"s, "byte 2: the file ends"},
      {"\x80\x04u."s, "byte 2: a mark is wanted"},
      {"\x80\x04]u."s, "byte 3: a mark is wanted"},
      {"\x80\x04](NNu."s, "byte 6: items of a dict go into something else"},
      {"\x80\x04}(Nu."s, "byte 5: a key of a dict has no value"},
      {"\x80\x04}(NNe."s, "byte 6: items of a list go into something else"},
      {"\x80\x04(NNe."s, "byte 5: items are there without"},
      {"\x80\x04N\x86."s, "byte 3: a value is wanted"},
      {"\x80\x04N(\x85."s, "byte 4: a value is wanted"},
      {"\x80\x04h\7."s, "byte 2: memo 7 is wanted, and there are 0"},
      {"\x80\x04Nr\xff\xff\xff\xff."s, "byte 3: memo 4294967295 follows 0 others"},
      {"\x80\x04q\0."s, "byte 2: a value is wanted"},
      {"\x80\x04N."s, "the file: it is no dict with lists"},
      {"{}", "the file: it is no dict with lists"},
      {"{\"segments\":[],", "byte 15: this is no JSON"},
      {"[[[[", "byte 4: this is no JSON"},
      {"", "byte 0: this is no JSON"}};
  for (const auto& [bytes, wanted] : cases)
    EXPECT_THAT(RefusalOfPickle(bytes), HasSubstr(wanted));
}

TEST(ProfImportTest, PartsOfASnapshotThatAreNoSuchThingAreNamed) {
  const ForeignJson good = ForeignJson::array({TraceEntry("alloc", 64, 100)});
  ForeignJson no_blocks = SnapshotOf(good, ForeignJson::array({{{"device", 0}}}));
  ForeignJson no_size = SnapshotOf(
      good, ForeignJson::array({{{"device", 0},
                                 {"address", 0},
                                 {"total_size", 5},
                                 {"blocks", ForeignJson::array({ForeignJson::object()})}}}));
  ForeignJson far_device =
      SnapshotOf(good, ForeignJson::array({{{"device", 5000},
                                            {"address", 0},
                                            {"total_size", 5},
                                            {"blocks", ForeignJson::array()}}}));
  const std::vector<std::pair<ForeignJson, std::string>> cases = {
      {no_blocks, "segments[0]: it has no device, address, total_size and blocks"},
      {no_size, "segments[0].blocks[0]: it has no size and state"},
      {far_device, "segments[0]: it has no device"},
      {SnapshotOf(ForeignJson::array({3})), "device_traces[0][0]: it has no action"},
      {SnapshotOf(ForeignJson::array({TraceEntry("alloc", 0, -1)})),
       "device_traces[0][0]: it has no addr"},
      {SnapshotOf(ForeignJson::array({TraceEntry("alloc", 0, (int64_t{1} << 50) + 1)})),
       "device_traces[0][0]: it has no addr and size from 0 to 2^50"},
      {SnapshotOf(ForeignJson::array({{{"action", "alloc"}, {"addr", "x"}, {"size", 1}}})),
       "device_traces[0][0]: it has no addr"},
      {ForeignJson{{"segments", ForeignJson::array()}, {"device_traces", ForeignJson::array({3})}},
       "device_traces[0]: it is no list"}};
  for (const auto& [snapshot, wanted] : cases) {
    EXPECT_THAT(RefusalOfPickle(snapshot.dump()), HasSubstr(wanted));
    EXPECT_THAT(RefusalOfPickle(PickleOfJson(snapshot)), HasSubstr(wanted));
  }
}

TEST(ProfImportTest, SizesWhoseSumNothingHoldsAreRefused) {
  ForeignJson entries = ForeignJson::array();
  for (int i = 0; i < 10'000; ++i)
    entries.push_back(TraceEntry("alloc", i, int64_t{1} << 50));
  EXPECT_THAT(RefusalOfPickle(PickleOfJson(SnapshotOf(entries))), HasSubstr("device 0: "));
}

TEST(ProfImportTest, PairsAreBuffersThatAreThereAtTheSameTime) {
  const auto buffer = [](int64_t lower, int64_t upper) {
    return Buffer{.lifetime = {{lower, upper}}, .bytes = 1};
  };
  EXPECT_EQ(CountPairs({}), 0);
  EXPECT_EQ(CountPairs({buffer(0, 3)}), 0);
  EXPECT_EQ(CountPairs({buffer(0, 3), buffer(3, 4)}), 0);
  EXPECT_EQ(CountPairs({buffer(2, 4), buffer(0, 3), buffer(0, 9), buffer(3, 4)}), 5);
}

TEST(ProfImportTest, AllocationsThatTakeTooLongToPlanAreRefused) {
  std::string log = kRmmHead;
  for (int i = 1; i <= 90'000; ++i)
    log += fmt::format("1,0:0:0.1,allocate,{:#x},{},0\n", i, i % 7 + 1);
  const CommandOutcome outcome = RunImport("rmm-csv", log);
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("4049955000 pairs"));
}

TEST(ProfImportTest, EveryBeginningOfAPickleIsRefusedAndNoneCrashes) {
  const std::string bytes = PickleOfJson(SmallSnapshot());
  for (size_t i = 0; i < bytes.size(); ++i)
    EXPECT_FALSE(ReadSnapshotLifetimes(bytes.substr(0, i), "s").ok()) << i;
}

TEST(ProfImportTest, SmallFilesThatMeanMuchAreRefusedSoon) {
  // Lists of the same list twice, 200 levels deep: 2^200 values to whoever follows them.
  using std::string_literals::operator""s;
  std::string doubled = "\x80\x02}(X\1\0\0\0x(]q\0"s;
  for (int i = 0; i < 200; ++i)
    doubled += "](h\0h\0eq\0"s;
  doubled += "tX\x08\0\0\0segmentsh\0X\x0d\0\0\0device_traces]u."s;
  EXPECT_THAT(RefusalOfPickle(doubled), HasSubstr("segments[0]"));

  // One trace of many events, for each of 4000 devices.
  ForeignJson entries = ForeignJson::array();
  for (int i = 0; i < 10'000; ++i)
    entries.push_back({{"action", "snapshot"}});
  PickleWriter writer;
  writer.BeginDict();
  writer.Text("segments");
  writer.BeginList();
  writer.EndList();
  writer.Text("device_traces");
  writer.BeginList();
  writer.Item();
  writer.Value(entries);
  const int64_t trace = writer.Memoize();
  for (int i = 1; i < 4'000; ++i) {
    writer.Item();
    writer.Get(trace);
  }
  writer.EndList();
  writer.EndDict();
  EXPECT_THAT(RefusalOfPickle(writer.Finish()), HasSubstr("more than 16000000 events and blocks"));

  EXPECT_THAT(RefusalOfPickle("\x80\x02" + std::string(5'000'000, ']')),
              HasSubstr("values are put down before they go anywhere"));
  EXPECT_THAT(RefusalOfPickle("\x80\x02" + std::string(30'000'000, '(')),
              HasSubstr("more than 400 MiB"));
  EXPECT_THAT(RefusalOfPickle(std::string(5'000'000, '[')), HasSubstr("more than 400 MiB"));
}

TEST(ProfImportTest, MisuseIsOneLineAndExitCodeTwo) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"prof", "import"},
                                             {"prof", "import", "memory-viz"},
                                             {"prof", "import", "colour", "f"},
                                             {"prof", "import", "rmm-csv", "/no/such/file"},
                                             {"prof", "import", "rmm-csv", "/"}}) {
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  ForeignJson two = SnapshotOf(ForeignJson::array({TraceEntry("alloc", 64, 100)}));
  two["device_traces"].push_back(two["device_traces"][0]);
  const TemporaryFile out("", "out");
  EXPECT_THAT(RunImport("memory-viz", two.dump(), {"-o", out.path()}).err,
              HasSubstr("it has 2 devices"));
  EXPECT_EQ(RunImport("memory-viz", SmallSnapshot().dump(), {"-o", "/no/such/folder/f"}).code,
            kExitOutput);
}

TEST(ProfImportTest, ChangedFilesArePlannedOrRefusedInOneLine) {
  const int64_t cases = 100'000 / TestShare();
  const std::vector<std::pair<const char*, std::string>> seeds = {
      {"memory-viz", PickleOfJson(SmallSnapshot())},
      {"memory-viz", SmallSnapshot().dump()},
      {"memory-viz", ExportedBytes(CleanTrace(), {"memory-viz"})},
      {"memory-viz", ExportedBytes(CleanTrace(), {"memory-viz", "--mode", "plan"})},
      {"rmm-csv", ExportedBytes(CleanTrace(), {"rmm-csv"})},
      {"rmm-csv", std::string(kRmmHead) + "7,1:0:0.1,allocate,0x7f00,1024,0\n"
                                          "7,1:0:0.1,allocate failure,(nil),12,0\n"
                                          "7,1:0:0.1,free,0x7f00,1024,0\n"}};
  ByteMutator mutator(/*seed=*/20, "(}]).uaesltdNKMJXqrhj,\n0x-\x85\x86\x88\x8a\x94");
  int64_t planned = 0;
  int64_t through_the_command = 0;
  for (int64_t i = 0; i < cases; ++i) {
    const auto& [format, good] = seeds[static_cast<size_t>(i) % seeds.size()];
    const std::string bytes = mutator.Mutate(good);
    SCOPED_TRACE(i);
    absl::Status status;
    std::vector<ForeignLifetimes> devices;
    if (std::string_view(format) == "rmm-csv") {
      absl::StatusOr<ForeignLifetimes> read = ReadRmmLifetimes(bytes, "f");
      status = read.status();
      if (read.ok()) devices.push_back(*std::move(read));
    } else {
      absl::StatusOr<std::vector<ForeignLifetimes>> read = ReadSnapshotLifetimes(bytes, "f");
      status = read.status();
      if (read.ok()) devices = *std::move(read);
    }
    if (!status.ok()) {
      ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      ASSERT_THAT(std::string(status.message()), MatchesRegex("f:[^\n]+; [^\n]+"));
    }
    for (const ForeignLifetimes& device : devices) {
      const absl::StatusOr<PlannerResult> plan = PlanBuffers(device.buffers);
      if (plan.ok()) ++planned;
    }
    // The command itself is slower to begin than to read.
    if (i % 500 != 0) continue;
    ++through_the_command;
    const CommandOutcome outcome = RunImport(format, bytes);
    ASSERT_TRUE(outcome.code == kExitOk || outcome.code == kExitUsage) << outcome.err;
    ASSERT_LE(std::ranges::count(outcome.err, '\n'), 1) << outcome.err;
  }
  EXPECT_GT(planned, cases / 20);
  EXPECT_GT(through_the_command, 0);
  // A sanitizer's own memory is beside that.
  if (kPlainBuild) {
    EXPECT_LT(MostBytesOfProcess(), int64_t{1} << 30);
  }
}

}  // namespace
}  // namespace coppice
