// Goal: events reach the file in order, once, or are counted as dropped; a file that cannot be made
// or written is told of; times are those of the steady clock.
// Method: the ring, the clock and the writer by themselves. A pipe that the test does not read yet
// stands for a slow disk, /dev/full for a full one.

#include "graphs/trace/trace_ring.h"

#include <fcntl.h>
#include <unistd.h>

#include <sys/stat.h>

#include "coppice/graphs/memory_usage.h"
#include "coppice/graphs/reason.h"

#include "graphs/trace/trace_clock.h"
#include "graphs/trace/trace_writer.h"
#include "tests/graphs/trace_lines.h"

namespace coppice::internal {
namespace {

ReleaseEvent Release(int64_t call) {
  return {.call = call};
}

RingEvent InRing(int64_t call) {
  return {/*ticks=*/0, Release(call)};
}

// The call that a release is of; -1 if it is another event.
int64_t CallOf(const RingEvent& event) {
  int64_t call = -1;
  event.VisitEvent([&]<typename Event>(const Event& what) {
    if constexpr (std::same_as<Event, ReleaseEvent>) call = what.call;
  });
  return call;
}

TEST(TraceRingTest, TakesEventsInOrderAndGivesTheirRoomBack) {
  TraceRing ring(16);
  int64_t put = 0, taken = 0;
  for (int round = 0; round < 100; ++round) {
    while (put - taken < round % 16) {
      if (!ring.Put(InRing(put))) {
        ASSERT_TRUE(ring.Extend());
        continue;
      }
      ++put;
    }
    ring.Take(ring.head(), [&](const RingEvent& event) { EXPECT_EQ(CallOf(event), taken++); });
    EXPECT_EQ(taken, put);
  }
}

TEST(TraceRingTest, HasRoomForThePowerOfTwoAboveWhatWasAskedFor) {
  TraceRing ring(17);
  EXPECT_EQ(ring.capacity(), 32U);
  int put = 0;
  do {
    while (ring.Put(InRing(put)))
      ++put;
    EXPECT_TRUE(put == 0 || put == 16 || put == 32) << put;  // The bell rings at half.
  } while (ring.Extend());
  EXPECT_EQ(put, 32);
}

TEST(TraceRingTest, EventsThatAreOneGetInTogetherOrNotAtAll) {
  TraceRing ring(16);
  const RingEvent both[] = {InRing(0), InRing(1)};
  int pairs = 0;
  do {
    while (ring.Put(both))
      ++pairs;
  } while (ring.Extend(2));
  EXPECT_EQ(pairs, 8);
  ring.Take(1, [](const RingEvent&) {});
  EXPECT_FALSE(ring.Extend(2)) << "there is room for one";
  EXPECT_FALSE(ring.Put(both));
  EXPECT_EQ(ring.head(), 16U);
  EXPECT_TRUE(ring.Put(InRing(0)));
}

TEST(TraceRingTest, HasNoMemoryUntilItsFirstEvent) {
  std::vector<std::unique_ptr<TraceRing>> rings;  // Of 4 GiB each.
  for (int i = 0; i < 1024; ++i)
    rings.push_back(std::make_unique<TraceRing>(int64_t{1} << 26));
  EXPECT_FALSE(rings.back()->Put(InRing(0)));
  EXPECT_EQ(rings.back()->Claim(), nullptr);
}

TEST(TraceRingTest, WhatIsClaimedIsInTheRingOnceItIsPublished) {
  TraceRing ring(16);
  ASSERT_TRUE(ring.Extend());
  for (int64_t call = 0; call < 8; ++call) {
    RingEvent* const place = ring.Claim();
    ASSERT_NE(place, nullptr);
    *place = InRing(call);
    EXPECT_EQ(ring.head(), static_cast<uint64_t>(call));
    ring.Publish();
    EXPECT_EQ(ring.head(), static_cast<uint64_t>(call + 1));
  }
  EXPECT_EQ(ring.Claim(), nullptr) << "the bell rings at half";
  int64_t taken = 0;
  ring.Take(ring.head(), [&](const RingEvent& event) { EXPECT_EQ(CallOf(event), taken++); });
  EXPECT_EQ(taken, 8);
}

TEST(TraceRingTest, OneThreadPutsWhileAnotherTakes) {
  constexpr int64_t kEvents = 200'000;
  TraceRing ring(64);
  std::atomic<bool> done = false;
  int64_t taken = 0;
  std::thread consumer([&] {
    for (bool last = false; !last;) {
      last = done.load();
      ring.Take(ring.head(), [&](const RingEvent& event) { EXPECT_EQ(CallOf(event), taken++); });
      std::this_thread::yield();
    }
  });
  for (int64_t i = 0; i < kEvents; ++i) {
    while (!ring.Put(InRing(i))) {
      if (!ring.Extend()) std::this_thread::yield();
    }
  }
  done = true;
  consumer.join();
  EXPECT_EQ(taken, kEvents);
}

TEST(TraceClockTest, TimeFollowsTheSteadyClock) {
  constexpr int64_t kSlack = 1'000'000;  // A thread may lose its core between two clocks.
  const uint64_t start = TraceClock::Nanoseconds();
  const TraceClock clock;
  TraceTime time(clock);
  for (int i = 0; i < 1000; ++i) {
    const auto before = static_cast<int64_t>(TraceClock::Nanoseconds() - start);
    const uint64_t ticks = clock.Now();
    const auto after = static_cast<int64_t>(TraceClock::Nanoseconds() - start);
    time.Advance();
    EXPECT_GE(time.At(ticks), before - kSlack);
    EXPECT_LE(time.At(ticks), after + kSlack);
  }
}

TEST(TraceClockTest, StretchesAreThoseOfTheSteadyClock) {
  const TraceClock clock;
  TraceTime time(clock);
  uint64_t begin = 0, end = 0, shortest_ns = 0, longest_ns = 0;
  const uint64_t before = TraceClock::Nanoseconds();
  begin = clock.Now();
  const uint64_t inner = TraceClock::Nanoseconds();
  while (TraceClock::Nanoseconds() - inner < 10'000'000) {
  }
  shortest_ns = TraceClock::Nanoseconds() - inner;
  end = clock.Now();
  longest_ns = TraceClock::Nanoseconds() - before;
  time.Advance();
  // The rate has the error of two anchors.
  EXPECT_GE(static_cast<double>(time.Between(begin, end)), 0.9 * static_cast<double>(shortest_ns));
  EXPECT_LE(static_cast<double>(time.Between(begin, end)), 1.1 * static_cast<double>(longest_ns));
  EXPECT_EQ(time.Between(end, end), 1);
}

TEST(TraceWriterTest, FileHasDefinitionsBeforeTheEventsThatFollowThem) {
  const TracePath path;
  {
    auto writer = *TraceWriter::Create({.path = path.str(), .events_per_lane = 16}, 2, nullptr);
    for (int i = 0; i < 100; ++i) {
      writer->Define("{\"node\":" + std::to_string(i) + "}\n");
      writer->Put(static_cast<size_t>(i % 2), RecordEvent{.node = i});
      if (i % 10 == 0) {
        ASSERT_OK(writer->Flush());
      }
    }
  }
  int defined = 0;
  for (const nlohmann::json& line : ReadTrace(path.str())) {
    if (line.is_object()) {
      EXPECT_EQ(line["node"], defined++);
    } else if (line[1] == "record") {
      EXPECT_LT(line[3], defined);
    }
  }
  EXPECT_EQ(defined, 100);
}

TEST(TraceWriterTest, FlushedFileHoldsWhatWasPutIn) {
  const TracePath path;
  auto writer = *TraceWriter::Create({.path = path.str()}, 1, nullptr);
  for (int i = 0; i < 3; ++i) {
    writer->Put(0, Release(i));
    ASSERT_OK(writer->Flush());
    EXPECT_THAT(EventsOf(ReadTrace(path.str()), "release"), SizeIs(i + 1));
  }
  EXPECT_THAT(EventsOf(ReadTrace(path.str()), "end"), SizeIs(0));
  writer.reset();
  EXPECT_THAT(EventsOf(ReadTrace(path.str()), "end"), SizeIs(1));
}

TEST(TraceWriterTest, EachKindOfEventHasItsValues) {
  const TracePath path;
  {
    auto writer = *TraceWriter::Create({.path = path.str()}, 1, nullptr);
    writer->Put(0, RingCall{.path = RunKind::kRecord,
                            .reason = Reason::kEvicted,
                            .outputs = OutputMode::kWriteInto,
                            .bucket = 3,
                            .node = 5,
                            .program = 1,
                            .call = 7,
                            .real_elements = 10,
                            .padded_elements = 16,
                            .extents = {12, 40, -1}});
    writer->Put(0, FurtherExtents{.extents = {4, 5, -1, -1, -1}},
                RingCall{.program = 1, .call = 8, .extents = {1, 2, 3}}, /*ticks=*/0);
    writer->Put(0, EvictEvent{.node = 5});
    writer->Put(0, FailEvent{.bucket = 3, .failure = 2});
    writer->Put(1, BytesEvent{.kind = MemoryKind::kEager, .bytes = 64, .total_bytes = 96});
    writer->Put(0, OutputsEvent{.call = 7, .node = 5});
    writer->Put(0,
                UseEvent{.call = 8, .other_call = 7, .input = 2, .output = 1, .offset_bytes = 256});
    writer->Put(0, ExpireEvent{.call = 7, .other_call = 9});
    writer->Put(0, PartEvent{.call = 7, .output = 1});
    writer->Put(0, Release(7));
    writer->Put(1, SuspendEvent());
    writer->Put(1, ResumeEvent());
    writer->Put(1, MarkEvent{.mark = 6});
    writer->Put(1, PolicyEvent{.program = 2, .symbol = 1, .policy = 4});
    writer->Put(1, StaticsEvent{.program = 2, .bytes = 64, .total_bytes = 96});
    writer->Put(1, RequestEvent{.request = 17,
                                .first_token_ns = 1500,
                                .last_token_ns = 9000,
                                .input_tokens = 120,
                                .output_tokens = 30});
  }
  std::vector<std::string> lines;
  for (nlohmann::json& line : ReadTrace(path.str())) {
    EXPECT_GE(line[0], 0);
    line.erase(0);
    lines.push_back(line.dump());
  }
  EXPECT_THAT(
      lines, ElementsAre(R"(["call",0,7,3,5,"record","evicted",10,16,1,[12,40],-1,"write_into"])",
                         R"(["call",0,8,-1,-1,"replay","none",0,0,1,[1,2,3,4,5],-1,"borrow"])",
                         R"(["evict",0,5])", R"(["fail",0,3,2])", R"(["outputs",0,7,5])",
                         R"(["use",0,8,7,2,1,256])", R"(["expire",0,7,9])", R"(["part",0,7,1])",
                         R"(["release",0,7])", R"(["bytes",-1,"eager",64,96])", R"(["suspend",-1])",
                         R"(["resume",-1])", R"(["mark",-1,6])", R"(["policy",-1,2,1,4])",
                         R"(["statics",-1,2,64,96])", R"(["request",-1,17,1500,9000,120,30])",
                         R"(["end",-1])"));
}

TEST(TraceWriterTest, FileIsReadableByItsOwnerOnly) {
  const TracePath path;
  std::ofstream(path.str()) << "what was there before";
  ASSERT_EQ(chmod(path.str().c_str(), 0644), 0);
  auto writer = *TraceWriter::Create({.path = path.str()}, 1, nullptr);
  struct stat found {};
  ASSERT_EQ(stat(path.str().c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0600U);
  EXPECT_EQ(found.st_size, 0);
}

TEST(TraceWriterTest, FileThatCannotBeMadeIsAnErrorThatNamesIt) {
  const std::string path = testing::TempDir() + "/no_such_folder/trace";
  const absl::Status status = TraceWriter::Create({.path = path}, 1, nullptr).status();
  EXPECT_THAT(status, StatusIs(absl::StatusCode::kNotFound, HasSubstr(path)));
  for (const int64_t events : {int64_t{0}, int64_t{15}, (int64_t{1} << 26) + 1}) {
    const TracePath good;
    EXPECT_EQ(TraceWriter::Create({.path = good.str(), .events_per_lane = events}, 1, nullptr)
                  .status()
                  .code(),
              absl::StatusCode::kInvalidArgument);
  }
}

TEST(TraceWriterTest, FileOfAnotherWriterIsLeftAlone) {
  const TracePath path;
  auto writer = *TraceWriter::Create({.path = path.str()}, 1, nullptr);
  writer->Put(0, Release(7));
  ASSERT_OK(writer->Flush());
  EXPECT_THAT(TraceWriter::Create({.path = path.str()}, 1, nullptr),
              StatusIs(kRefused, HasSubstr("give each session its own file")));
  EXPECT_THAT(EventsOf(ReadTrace(path.str()), "release"), SizeIs(1));
  writer.reset();
  EXPECT_TRUE(TraceWriter::Create({.path = path.str()}, 1, nullptr).ok()) << "it is free again";
}

TEST(TraceWriterTest, FullDiskIsToldOnceAndHoldsNobodyUp) {
  std::vector<std::string> told;
  {
    auto writer =
        *TraceWriter::Create({.path = "/dev/full", .events_per_lane = 16, .wait_when_full = true},
                             1, [&](const std::string& line) { told.push_back(line); });
    for (int64_t i = 0; i < 1'000; ++i)
      writer->Put(0, Release(i));
    EXPECT_EQ(writer->Flush().code(), absl::StatusCode::kResourceExhausted);
    writer->Define("{}\n");
    writer->Put(0, Release(0));
    EXPECT_EQ(writer->Flush().code(), absl::StatusCode::kResourceExhausted);
  }
  ASSERT_THAT(told, SizeIs(1));
  EXPECT_THAT(told[0], HasSubstr("/dev/full"));
}

// A file whose other end reads only when told to.
class TracePipe {
 public:
  TracePipe() {
    EXPECT_EQ(mkfifo(path_.str().c_str(), 0600), 0);
    end_ = open(path_.str().c_str(), O_RDONLY | O_NONBLOCK);
    EXPECT_GE(end_, 0);
    EXPECT_EQ(fcntl(end_, F_SETFL, 0), 0);
  }
  ~TracePipe() { Close(); }
  TracePipe(const TracePipe&) = delete;
  TracePipe& operator=(const TracePipe&) = delete;

  const std::string& path() const { return path_.str(); }
  // Reads until the writer closes.
  std::string ReadAll() const {
    std::string text;
    std::array<char, 4096> part{};
    for (ssize_t count = 1; count > 0;) {
      count = read(end_, part.data(), part.size());
      if (count > 0) text.append(part.data(), static_cast<size_t>(count));
    }
    return text;
  }
  void Close() {
    if (end_ >= 0) close(std::exchange(end_, -1));
  }

 private:
  const TracePath path_;
  int end_ = -1;
};

// Puts releases in while nobody reads, then reads them; the file's lines.
std::vector<nlohmann::json> PutThenRead(int64_t events) {
  TracePipe pipe;
  auto writer = *TraceWriter::Create({.path = pipe.path(), .events_per_lane = 16}, 1, nullptr);
  for (int64_t i = 0; i < events; ++i)
    writer->Put(0, Release(i));
  std::string text;
  std::thread reader([&] { text = pipe.ReadAll(); });
  writer.reset();
  reader.join();
  return ParseTrace(text);
}

TEST(TraceWriterTest, FullRingDropsEventsAndCountsThem) {
  constexpr int64_t kEvents = 100'000;  // More than the pipe and the writer's text can hold.
  const std::vector<nlohmann::json> lines = PutThenRead(kEvents);
  int64_t next = 0, dropped = 0;
  for (const nlohmann::json& line : lines) {
    if (line[1] == "dropped") {
      dropped += line[3].get<int64_t>();
      next += line[3].get<int64_t>();
    } else if (line[1] == "release") {
      EXPECT_EQ(line[3], next++);  // What was lost is told where it was lost.
    }
  }
  EXPECT_EQ(next, kEvents);
  EXPECT_GT(dropped, 0);
  EXPECT_EQ(lines.back()[1], "end");
}

TEST(TraceWriterTest, WaitingForRoomLosesNothing) {
  constexpr int64_t kEvents = 5'000;  // Each ring of them waits for two threads to take turns.
  TracePipe pipe;
  auto writer = *TraceWriter::Create(
      {.path = pipe.path(), .events_per_lane = 16, .wait_when_full = true}, 1, nullptr);
  std::string text;
  std::thread reader([&] { text = pipe.ReadAll(); });  // A pipe without a writer would end.
  for (int64_t i = 0; i < kEvents; ++i)
    writer->Put(0, Release(i));
  writer.reset();
  reader.join();
  const std::vector<nlohmann::json> lines = ParseTrace(text);
  EXPECT_THAT(EventsOf(lines, "dropped"), SizeIs(0));
  const std::vector<nlohmann::json> releases = EventsOf(lines, "release");
  ASSERT_THAT(releases, SizeIs(kEvents));
  for (int64_t i = 0; i < kEvents; ++i)
    ASSERT_EQ(releases[static_cast<size_t>(i)][3], i);
}

TEST(TraceWriterTest, PipeThatNobodyReadsAnyMoreIsAFailedWrite) {
  TracePipe pipe;
  auto writer = *TraceWriter::Create({.path = pipe.path()}, 1, nullptr);
  pipe.Close();
  writer->Put(0, Release(1));
  EXPECT_THAT(MessageOf(writer->Flush()), HasSubstr(pipe.path()));
}

TEST(TraceWriterTest, NamesOfAnyBytesAreQuotedAsJson) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte)
    all += static_cast<char>(byte);
  for (const std::string& text :
       {all, std::string("a\"b\\c\n\t\0d", 9), std::string("\xED\xA0\x80\xC0\x80\xF5\x80\x80\x80"),
        std::string("\xE2\x82"), std::string("\xF0\x9F\x98\x80 \xE2\x82\xAC \xC3\xA9")}) {
    const auto parsed = nlohmann::json::parse(QuoteJson(text), nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(parsed.is_string()) << QuoteJson(text);
  }
  const std::string valid = "decode \"x\" \\ \n \xE2\x82\xAC";
  EXPECT_EQ(nlohmann::json::parse(QuoteJson(valid)), valid);
  EXPECT_EQ(QuoteJson("\xFF"), "\"\\ufffd\"");
}

}  // namespace
}  // namespace coppice::internal
