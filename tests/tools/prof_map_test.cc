// Goal: `coppice prof map` shows who uses which bytes, marks those that buckets share, and writes
// the same picture for the same trace. Method: the maps of a small trace, as values and as text.

#include "tools/prof/prof_map.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/support/status_matchers.h"
#include "tests/support/text_count.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"

namespace coppice {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

AddressMap MapOf(const TraceBuilder& trace) {
  const TemporaryFile file(trace.Text());
  absl::StatusOr<AddressMap> map = ReadAddressMap(file.path());
  EXPECT_THAT(map, IsOk());
  return map.ok() ? *std::move(map) : AddressMap();
}

// One bucket per list of [begin, end), all of one lane.
TraceBuilder TraceOf(const std::vector<std::vector<AddressRange>>& buckets) {
  TraceBuilder trace;
  trace.Program("f");
  for (size_t i = 0; i < buckets.size(); ++i) {
    trace.Bucket(0, static_cast<int64_t>(i) + 1);
    TraceBuilder::NodeSpec node = {.bucket = static_cast<int>(i), .height = 100, .live = 100};
    for (const AddressRange& range : buckets[i])
      node.buffers.push_back({range.begin, range.bytes(), -1, {0, 1}});
    trace.Node(node);
  }
  return trace;
}

TEST(AddressUseTest, SplitsBytesIntoExclusiveAndShared) {
  const AddressMap map = MapOf(TraceOf({{{0, 10}, {20, 30}}, {{5, 25}}, {{40, 50}}}));
  EXPECT_THAT(map.uses[0].exclusive, ElementsAre(AddressRange{0, 5}, AddressRange{25, 30}));
  EXPECT_THAT(map.uses[0].Shared(), ElementsAre(AddressRange{5, 10}, AddressRange{20, 25}));
  EXPECT_THAT(map.uses[1].exclusive, ElementsAre(AddressRange{10, 20}));
  EXPECT_THAT(map.uses[1].Shared(), ElementsAre(AddressRange{5, 10}, AddressRange{20, 25}));
  EXPECT_THAT(map.uses[2].exclusive, ElementsAre(AddressRange{40, 50}));
  EXPECT_THAT(map.uses[2].Shared(), IsEmpty());
  EXPECT_EQ(map.uses[0].used_bytes, 20);
  EXPECT_EQ(map.uses[0].shared_bytes(), 10);
}

TEST(AddressUseTest, BytesOfThreeBucketsAreNobodysAlone) {
  const AddressMap map = MapOf(TraceOf({{{0, 10}}, {{0, 10}}, {{0, 12}}}));
  EXPECT_THAT(map.uses[0].exclusive, IsEmpty());
  EXPECT_THAT(map.uses[1].exclusive, IsEmpty());
  EXPECT_THAT(map.uses[2].exclusive, ElementsAre(AddressRange{10, 12}));
}

TEST(AddressUseTest, CountsNeighboursAsNeighbours) {
  const AddressMap map = MapOf(TraceOf({{{0, 10}}, {{10, 20}}}));
  EXPECT_EQ(map.uses[0].shared_bytes(), 0);
  EXPECT_EQ(map.uses[1].shared_bytes(), 0);
}

TEST(ProfMapTest, ShowsTheHighestPlanOfEachBucket) {
  const AddressMap map = MapOf(CleanTrace());
  EXPECT_THAT(map.nodes, ElementsAre(0, 2));
  EXPECT_EQ(map.mapped_peak, 12288);
  EXPECT_EQ(map.HeightOf(0), 12288);
  EXPECT_EQ(map.BoundOf(0), 12288);
}

TEST(ProfMapTest, SvgHasABlockPerBufferAndHatchesWhatIsShared) {
  const std::string svg = DrawAddressMap(MapOf(CleanTrace()));
  EXPECT_THAT(svg, StartsWith("<svg"));
  EXPECT_THAT(svg,
              HasSubstr("output 0 (buffer 0 of node 0): 4096 bytes at offset 0, steps [1, 3)"));
  EXPECT_THAT(svg, HasSubstr("temp (buffer 1 of node 2): 2048 bytes at offset 6144"));
  EXPECT_THAT(svg, HasSubstr("planned around: [0, 4096)"));
  EXPECT_THAT(svg, Not(HasSubstr("of node 1)")));  // Bucket 1 has a higher plan.
  // A strip per bucket, and one in the legend.
  EXPECT_EQ(CountOf(svg, "fill:url(#hatch)"), 3);
  // Names of devices and programs are no markup.
  EXPECT_THAT(svg, HasSubstr("Emulated &lt;GPU&gt;"));
}

TEST(ProfMapTest, LegendHasWhatIsDrawnAndNothingElse) {
  const std::string svg = DrawAddressMap(MapOf(CleanTrace()));
  for (const char* key : {"an output", "shared with other buckets", "the plan goes around",
                          "other plans of the bucket", "most bytes live at once", ">mapped<"})
    EXPECT_THAT(svg, HasSubstr(key));
  const std::string apart = DrawAddressMap(MapOf(TraceOf({{{0, 10}}, {{10, 20}}})));
  for (const char* key :
       {"an output", "shared with", "fill:url(#hatch)", "goes around", "other plans of", "mapped"})
    EXPECT_THAT(apart, Not(HasSubstr(key)));
  EXPECT_THAT(apart, HasSubstr("a buffer; colours tell"));
}

TEST(ProfMapTest, HeadlineSaysWhatSharingSaves) {
  EXPECT_EQ(HeadlineOf(MapOf(CleanTrace())),
            "2 buckets need 12.00 KiB in one pool; apart they would need 20.00 KiB");
  EXPECT_EQ(HeadlineOf(MapOf(TraceOf({{{0, 10}}}))), "1 bucket needs 100 B");
  EXPECT_EQ(HeadlineOf(MapOf(TraceOf({}))), "No graph was recorded, so no bytes were planned");
}

TEST(ProfMapTest, RowsAreSortedByProgramThenByExtentsAsNumbers) {
  TraceBuilder trace;
  trace.Program("prefill");
  trace.Program("decode");
  int bucket = 0;
  for (const auto& [program, extent] :
       std::vector<std::pair<int, int64_t>>{{0, 128}, {1, 16}, {0, 16}, {1, 8}}) {
    trace.Bucket(program, extent);
    trace.Node({.bucket = bucket++, .height = 8, .live = 8, .buffers = {{0, 8, -1, {0, 1}}}});
  }
  EXPECT_THAT(MapOf(trace).RowsOf(0), ElementsAre(3, 1, 2, 0));
}

TEST(ProfMapTest, AxisHasItsQuantityAndItsUnit) {
  EXPECT_THAT(DrawAddressMap(MapOf(CleanTrace())), HasSubstr(">address, KiB</text>"));
}

TEST(ProfMapTest, BytesByKindAreThoseOfTheLargestTotal) {
  TraceBuilder trace = CleanTrace();
  trace.Event("bytes", -1, R"("external",5000,22384)");
  trace.Event("bytes", -1, R"("external",0,17384)");
  trace.Line(R"([1,"bytes",-1,"workspace",700,700])");  // Lines need not be in order of time.
  trace.Line(R"([2,"bytes",-1,"workspace",0,0])");
  const AddressMap map = MapOf(trace);
  EXPECT_EQ(map.total_peak, 22384);
  EXPECT_EQ(map.kinds_then[static_cast<size_t>(MemoryKind::kExternal)], 5000);
  EXPECT_EQ(map.kinds_then[static_cast<size_t>(MemoryKind::kEager)], 4096);
  EXPECT_EQ(map.kinds_then[static_cast<size_t>(MemoryKind::kWorkspace)], 0);
  EXPECT_EQ(map.kinds_peaks[static_cast<size_t>(MemoryKind::kWorkspace)], 700);
  const std::string svg = DrawAddressMap(map);
  EXPECT_THAT(svg, HasSubstr("All memory of the session at its peak: 21.86 KiB"));
  EXPECT_THAT(svg, HasSubstr("external: 5000 bytes, at most 5000"));
  EXPECT_THAT(svg, HasSubstr("0 B, 700 B at another time"));
  EXPECT_THAT(svg, Not(HasSubstr("constants"))) << "there were none";
}

TEST(ProfMapTest, StaticsAreBesideTheSessionsMemory) {
  TraceBuilder trace = CleanTrace();
  EXPECT_THAT(DrawAddressMap(MapOf(trace)), Not(HasSubstr("statics")));
  trace.Event("statics", -1, "0,5000,5000");
  trace.Event("statics", -1, "0,0,0");
  const AddressMap map = MapOf(trace);
  EXPECT_EQ(map.statics.total, 5000);
  EXPECT_THAT(map.statics.programs, ElementsAre(5000));
  const std::string svg = DrawAddressMap(map);
  EXPECT_THAT(svg, HasSubstr("at its peak: 16.98 KiB"));
  EXPECT_THAT(svg, HasSubstr("statics: 5000 bytes at most; decode 5000"));
  EXPECT_THAT(svg,
              HasSubstr("4.88 KiB at most: held by the application and not part of the total"));
  trace.Event("statics", -1, "0,1125899906842624,1125899906842624");
  const std::string broken = DrawAddressMap(MapOf(trace));
  EXPECT_THAT(broken, HasSubstr("… 1048576.00 GiB at most"));
  EXPECT_THAT(broken, HasSubstr(">bytes, KiB</text>")) << "the session's own are what is measured";
}

TEST(ProfMapTest, LongNamesAreShortenedInTheMiddle) {
  TraceBuilder trace;
  trace.Program(std::string(200, 'n') + "ü" + std::string(200, 'm'));
  trace.Bucket(0, 1234567);
  trace.Node({.bucket = 0, .height = 8, .live = 8, .buffers = {{0, 8, -1, {0, 1}}}});
  const std::string svg = DrawAddressMap(MapOf(trace));
  EXPECT_THAT(svg, HasSubstr("nnn…mmm"));
  EXPECT_THAT(svg, HasSubstr("m 1234567</text>"));
}

TEST(ProfMapTest, BuffersAreCalledAsTheirProgramCallsThem) {
  TraceBuilder trace;
  trace.Program("f");
  trace.Bucket(0, 8);
  trace.Line(R"({{"node":0,"bucket":0,"height":8,"live":8,"method":"size","graph_nodes":1,)"
             R"("exec_bytes":1,"record_ns":1,"reason":"new_bucket","around":[],"kernels":[],)"
             R"("buffers":[[0,8,-1,[0,1],"attention.scores"]]}})");
  EXPECT_THAT(DrawAddressMap(MapOf(trace)),
              HasSubstr("attention.scores, temp (buffer 0 of node 0): 8 bytes"));
  EXPECT_THAT(DrawBucketMap(MapOf(trace), 0), HasSubstr("attention.scores, temp 0: 8 bytes"));
}

TEST(ProfMapTest, SvgOfABucketShowsItsPlanOverItsSteps) {
  const std::string svg = DrawBucketMap(MapOf(CleanTrace()), 1);
  EXPECT_THAT(svg, StartsWith("<svg"));
  EXPECT_THAT(svg, HasSubstr("output 0: 2048 bytes at offset 4096"));
  EXPECT_THAT(svg, HasSubstr("around 0: 4096 bytes at offset 0"));
}

TEST(ProfMapTest, ALargeNodeIsDrawnByItsLargestBuffers) {
  TraceBuilder trace;
  trace.Program("f");
  trace.Bucket(0, 1);
  TraceBuilder::NodeSpec node = {.height = 1'000'000, .live = 1};
  for (int64_t i = 0; i < 30'000; ++i)
    node.buffers.push_back({i * 10, 10, -1, {i, i + 1}});
  node.buffers.push_back({500'000, 1000, 3, {0, 30'000}});
  trace.Node(node);
  const std::string svg = DrawAddressMap(MapOf(trace));
  EXPECT_THAT(svg, HasSubstr("output 3 (buffer 30000"));
  EXPECT_EQ(CountOf(svg, "of node 0)"), 20'001);
}

TEST(ProfMapTest, TextMarksSharedAndExclusiveBytes) {
  const std::string text = PrintAddressMap(MapOf(TraceOf({{{0, 100}}, {{0, 50}}})));
  EXPECT_THAT(text, HasSubstr("f 1 |" + std::string(36, '=') + std::string(36, '#') + "|"));
  EXPECT_THAT(text, HasSubstr("f 2 |" + std::string(36, '=') + std::string(36, ' ') + "|"));
}

TEST(ProfMapTest, TextOfABucketHasAddressesUpwards) {
  const std::string text = PrintBucketMap(MapOf(CleanTrace()), 1);
  // Temp b on top in the first half of the steps, output A below it in all, ~ at the bottom.
  const size_t temp = text.find("|" + std::string(36, 'b') + std::string(36, ' ') + "|");
  const size_t output = text.find("|" + std::string(72, 'A') + "|");
  const size_t around = text.find("|" + std::string(72, '~') + "|");
  ASSERT_NE(around, std::string::npos) << text;
  EXPECT_LT(temp, output);
  EXPECT_LT(output, around);
}

TEST(ProfMapTest, CommandWritesTheSamePictureForTheSameTrace) {
  const TemporaryFile trace(CleanTrace().Text());
  const TemporaryFile one("", "one.svg");
  const TemporaryFile two("", "two.svg");
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{}, std::vector<std::string>{"--bucket", "0"}}) {
    for (const TemporaryFile* file : {&one, &two}) {
      std::vector<std::string> arguments = {"prof", "map", trace.path(), "-o", file->path()};
      arguments.insert(arguments.end(), options.begin(), options.end());
      const CommandOutcome outcome = RunCoppice(arguments);
      EXPECT_EQ(outcome.code, kExitOk) << outcome.err;
    }
    EXPECT_EQ(one.Read(), two.Read());
    EXPECT_THAT(one.Read(), StartsWith("<svg"));
  }
}

TEST(ProfMapTest, PictureHasANameBesideTheTraceUnlessOneIsGiven) {
  const TemporaryFile trace(CleanTrace().Text(), "t.trace");
  const TemporaryFile picture("", "t.svg");
  const CommandOutcome named = RunCoppice({"prof", "map", trace.path()});
  EXPECT_EQ(named.code, kExitOk) << named.err;
  EXPECT_EQ(named.out, "wrote " + picture.path() + "\n");
  const CommandOutcome piped = RunCoppice({"prof", "map", trace.path(), "-o", "-"});
  EXPECT_EQ(piped.out, picture.Read());
  EXPECT_THAT(piped.out, StartsWith("<svg"));
  const TemporaryFile of_bucket("", "t.bucket0.svg");
  EXPECT_EQ(RunCoppice({"prof", "map", trace.path(), "--bucket", "0"}).out,
            "wrote " + of_bucket.path() + "\n");
  EXPECT_EQ(picture.Read(), piped.out) << "the whole map stays";
}

TEST(ProfMapTest, CommandPrintsTheMapAsJson) {
  TraceBuilder with_statics = CleanTrace();
  with_statics.Event("statics", -1, "0,64,96");
  const TemporaryFile trace(with_statics.Text());
  const CommandOutcome outcome = RunCoppice({"prof", "map", trace.path(), "--json"});
  EXPECT_EQ(outcome.code, kExitOk);
  const nlohmann::json map = nlohmann::json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(map["mapped_peak_bytes"], 12288);
  EXPECT_EQ(map["statics_peak_bytes"], 96);
  EXPECT_EQ(map["together_bytes"], 12288);
  EXPECT_EQ(map["apart_bytes"], 20480);
  EXPECT_EQ(map["kinds_at_total_peak_bytes"]["graphs"], 1000);
  ASSERT_EQ(map["rows"].size(), 2U);
  EXPECT_EQ(map["rows"][0]["shared"], nlohmann::json::parse("[[0,8192]]"));
  EXPECT_EQ(map["rows"][0]["exclusive"], nlohmann::json::parse("[[8192,12288]]"));
  EXPECT_EQ(map["rows"][1]["highest"]["node"], 2);
  const CommandOutcome one = RunCoppice({"prof", "map", trace.path(), "--json", "--bucket", "1"});
  EXPECT_EQ(nlohmann::json::parse(one.out, nullptr, false)["rows"].size(), 1U);
}

TEST(ProfMapTest, CommandRefusesWhatItCannotDraw) {
  TraceBuilder builder = CleanTrace();
  builder.Bucket(0, 2);
  const TemporaryFile trace(builder.Text());
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--ascii", "--bucket", "7"},
        {"--ascii", "--bucket", "2"},
        {"-o", "-", "--json"},
        {"-o", "-", "--ascii"}}) {
    std::vector<std::string> arguments = {"prof", "map", trace.path()};
    arguments.insert(arguments.end(), options.begin(), options.end());
    EXPECT_EQ(RunCoppice(arguments).code, kExitUsage);
  }
  EXPECT_EQ(RunCoppice({"prof", "map", trace.path(), "-o", "no/such/folder/x.svg"}).code,
            kExitOutput);
}

TEST(ProfMapTest, PictureIsNotDrawnOverTheTrace) {
  const TemporaryFile trace(CleanTrace().Text());
  const CommandOutcome outcome = RunCoppice({"prof", "map", trace.path(), "-o", trace.path()});
  EXPECT_EQ(outcome.code, kExitUsage);
  EXPECT_THAT(outcome.err, HasSubstr("over an input"));
  EXPECT_EQ(trace.Read(), CleanTrace().Text());
}

}  // namespace
}  // namespace coppice
