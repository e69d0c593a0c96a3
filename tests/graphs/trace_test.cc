// Goal: a session's trace says what happened, in the form and order that trace_events.h promises:
// each call once, definitions before use, plans as they are, leases and their ends. Method: small
// programs on the emulator; the file is parsed line by line and compared with what the calls
// themselves answered.

#include "coppice/graphs/trace.h"

#include "tests/graphs/sketch.h"
#include "tests/graphs/trace_lines.h"

namespace coppice {
namespace {

using nlohmann::json;

class TraceTest : public testing::Test, protected SketchDevice {
 protected:
  SessionOptions Traced(SessionOptions options = {}) const {
    options.trace = {.path = path_.str(), .wait_when_full = true};
    return options;
  }

  // Affine that counts nothing, so that lanes may run it at once.
  Callable Uncounted() const {
    return [this](CallContext& context) -> absl::Status {
      COPPICE_ASSIGN_OR_RETURN(const Tensor y, context.AllocateOutput(0));
      const DeviceAddress x = context.input(0).data;
      return AddOnto(context, x, x, y.data, context.extent(0));
    };
  }

  // Runs affine on n values that lie on the device once for all, and drops the lease.
  absl::Status CallOn(const Affine& affine, int64_t n, int lane = 0, CuStream stream = nullptr) {
    const Tensor x = FloatsAt(values_.tensor.data, n);
    const int64_t scalar = std::bit_cast<int64_t>(2.0);
    return affine.session
        ->Run({.program = affine.program,
               .binding = affine.binding,
               .inputs = {&x, 1},
               .scalars = {&scalar, 1},
               .stream = stream == nullptr ? device_.stream() : stream,
               .lane = lane})
        .status();
  }

  std::vector<json> Lines() const { return ReadTrace(path_.str()); }

  // What every event names is defined in a line before; every node is recorded once, by then no
  // call named it, and is not named again after its eviction.
  static void ExpectDefinedBeforeUse(const std::vector<json>& lines) {
    std::map<std::string, std::set<int>> defined = {{"program", {}}, {"bucket", {}},
                                                    {"node", {}},    {"failure", {}},
                                                    {"mark", {}},    {"policy", {}}};
    std::set<int> recorded, evicted;
    const auto expect = [&](const char* kind, const json& number) {
      EXPECT_TRUE(number == -1 || defined.at(kind).contains(number.get<int>()))
          << kind << " " << number;
    };
    const auto expect_alive = [&](const json& node) {
      expect("node", node);
      EXPECT_TRUE(node == -1 ||
                  (recorded.contains(node.get<int>()) && !evicted.contains(node.get<int>())))
          << "node " << node;
    };
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines[0]["schema"], "coppice.trace/6");
    for (size_t i = 1; i < lines.size(); ++i) {
      const json& line = lines[i];
      if (line.is_object()) {
        const std::string kind = DefinedBy(line);
        EXPECT_TRUE(defined[kind].insert(line[kind].get<int>()).second) << line;
        if (kind == "node") expect("bucket", line["bucket"]);
        if (kind == "bucket") expect("program", line["program"]);
        continue;
      }
      const std::string event = line[1];
      if (event == "call") {
        expect("bucket", line[4]);
        expect_alive(line[5]);
      } else if (event == "record") {
        expect("node", line[3]);
        EXPECT_TRUE(recorded.insert(line[3].get<int>()).second) << line;
      } else if (event == "evict") {
        expect_alive(line[3]);
        evicted.insert(line[3].get<int>());
      } else if (event == "fail") {
        expect("bucket", line[3]);
        expect("failure", line[4]);
      } else if (event == "mark") {
        expect("mark", line[3]);
      } else if (event == "policy") {
        expect("program", line[3]);
        expect("policy", line[5]);
      } else if (event == "outputs") {
        expect_alive(line[4]);
      }
    }
    EXPECT_EQ(lines.back()[1], "end");
  }

  const TracePath path_;
  const Input values_ = Upload(100, 1);
};

TEST_F(TraceTest, EveryCallIsOneEventThatSaysHowItRan) {
  std::vector<std::string> expected;
  {
    const Affine affine = MakeAffine(Traced());
    for (const int64_t n : {3, 3, 3, 4, 100, 7, 3}) {
      const absl::StatusOr<Lease> lease = Call(affine, n);
      ASSERT_OK(lease);
      const bool bucketed = n <= kLargest;
      const int64_t padded = n <= 4 ? 4 : 8;
      expected.push_back(fmt::format("{} {} {} {} {} 0 [{}]", lease->call_number(),
                                     NameOf(lease->kind()), NameOf(lease->reason()), n,
                                     bucketed ? padded : n, n));
    }
  }
  const std::vector<json> lines = Lines();
  ExpectDefinedBeforeUse(lines);
  std::vector<std::string> told;
  for (const json& event : EventsOf(lines, "call")) {
    EXPECT_EQ(event[13], "borrow");
    told.push_back(fmt::format("{} {} {} {} {} {} {}", event[3].get<int>(),
                               event[6].get<std::string>(), event[7].get<std::string>(),
                               event[8].get<int>(), event[9].get<int>(), event[10].get<int>(),
                               event[11].dump()));
    EXPECT_NE(event[4], -1);
  }
  EXPECT_EQ(told, expected);
}

TEST_F(TraceTest, CallOverTheLargestBucketKeepsProgramAndExtents) {
  const Affine affine = MakeAffine(Traced());
  for (const int64_t n : {65, 100, 65})
    ASSERT_OK(CallOn(affine, n));
  ASSERT_OK(affine.session->trace().Flush());
  std::map<int, json> buckets;
  std::vector<json> extents;
  for (const json& line : Lines()) {
    if (line.is_object() && line.contains("bucket")) buckets[line["bucket"]] = line;
    if (!line.is_array() || line[1] != "call") continue;
    const json& bucket = buckets.at(line[4].get<int>());
    EXPECT_EQ(bucket["program"], 0);
    EXPECT_EQ(line[7], "over_largest_bucket");
    extents.push_back(bucket["extents"]);
  }
  EXPECT_THAT(extents, ElementsAre(json({65}), json({100}), json({65})));
  EXPECT_EQ(buckets.size(), 2U) << "equal ones are defined once";
}

TEST_F(TraceTest, CallThatNoBucketServesKeepsProgramAndExtents) {
  const Affine affine = MakeAffine(Traced());
  affine.session->SetStance(Stance::kEager);
  ASSERT_OK(CallOn(affine, 5));
  ASSERT_OK(affine.session->trace().Flush());
  const std::vector<json> calls = EventsOf(Lines(), "call");
  ASSERT_THAT(calls, SizeIs(1));
  EXPECT_EQ(calls[0][4], -1);
  EXPECT_EQ(calls[0][10], 0);
  EXPECT_EQ(calls[0][11], json({5}));
}

TEST_F(TraceTest, BucketsHaveTheScalarsOfTheirKey) {
  const Affine affine = MakeAffine(Traced());
  ASSERT_OK(Call(affine, 4, 2.0));
  ASSERT_OK(Call(affine, 4, 3.0));
  ASSERT_OK(affine.session->trace().Flush());
  std::vector<json> scalars;
  for (const json& line : Lines()) {
    if (!line.is_object()) continue;
    if (line.contains("extents")) scalars.push_back(line["scalars"]);
    if (!line.contains("symbols")) continue;
    EXPECT_EQ(line["scalars"], json({"factor"}));
  }
  EXPECT_THAT(scalars, ElementsAre(json({std::bit_cast<int64_t>(2.0)}),
                                   json({std::bit_cast<int64_t>(3.0)})));
}

TEST_F(TraceTest, NodesSayWhichKernelsTheirGraphsLaunch) {
  const Affine affine = MakeAffine(Traced());
  CallTimes(2, affine, 4);
  ASSERT_OK(affine.session->trace().Flush());
  std::vector<json> kernels;
  for (const json& line : Lines())
    if (line.is_object() && line.contains("node")) kernels.push_back(line["kernels"]);
  const json launch = json::array({{1, 1, 1}, {kTestThreads, 1, 1}, 0});
  ASSERT_THAT(kernels, SizeIs(1));
  ASSERT_THAT(kernels[0], SizeIs(3));
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(kernels[0][i][0], i == 0 ? "Scale" : "Add");
    EXPECT_EQ(json(std::vector<json>(kernels[0][i].begin() + 1, kernels[0][i].end())), launch);
  }
}

TEST_F(TraceTest, ReplayWhoseLeaseIsDroppedIsOneEvent) {
  const Affine affine = MakeAffine(Traced());
  CallTimes(3, affine, 4);
  ASSERT_OK(affine.session->trace().Flush());
  const size_t before = Lines().size();
  CallTimes(50, affine, 4);
  ASSERT_OK(affine.session->trace().Flush());
  EXPECT_EQ(Lines().size(), before + 50);
}

TEST_F(TraceTest, LeaseThatIsHeldIsToldAndSoIsItsEnd) {
  {
    const Affine affine = MakeAffine(Traced());
    CallTimes(2, affine, 4);
    absl::StatusOr<Lease> held = Call(affine, 4);  // Call 3.
    ASSERT_OK(held);
    ASSERT_OK(Call(affine, 4).status());  // Writes over it.
    held->Release();
    for (const int64_t n : {100, 4})
      ASSERT_OK(Call(affine, n).status());
  }
  const std::vector<json> lines = Lines();
  const std::vector<json> expired = EventsOf(lines, "expire");
  ASSERT_THAT(expired, SizeIs(1));
  EXPECT_EQ(expired[0][3], 3);
  EXPECT_EQ(expired[0][4], 4);
  const auto position = [&](const char* kind, int call) {
    for (size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].is_array() && lines[i][1] == kind && lines[i].size() > 3 && lines[i][3] == call)
        return i;
    }
    ADD_FAILURE() << kind << " of call " << call << " is missing";
    return size_t{0};
  };
  EXPECT_LT(position("call", 3), position("outputs", 3));
  EXPECT_LT(position("outputs", 3), position("expire", 3));
  EXPECT_LT(position("expire", 3), position("release", 3));
  EXPECT_NE(lines[position("outputs", 3)][4], -1);
  // Runs without a graph are leased from the start.
  EXPECT_EQ(lines[position("outputs", 1)][4], -1);
  EXPECT_LT(position("outputs", 1), position("release", 1));
}

TEST_F(TraceTest, OutputsThatAreHeldToTheEndAreNeverReleased) {
  Lease held;
  {
    const Affine affine = MakeAffine(Traced());
    CallTimes(2, affine, 4);
    held = *Call(affine, 4);
  }
  const std::vector<json> lines = Lines();
  const std::vector<json> outputs = EventsOf(lines, "outputs");
  ASSERT_FALSE(outputs.empty());
  EXPECT_EQ(outputs.back()[3], 3);
  for (const json& event : EventsOf(lines, "release"))
    EXPECT_NE(event[3], 3);
}

TEST_F(TraceTest, CopiedOutputsAreToldWithoutANode) {
  {
    const Affine affine = MakeAffine(Traced({.memory = {.copy_out_bytes = 64 * kKiB}}));
    CallTimes(2, affine, 4);
    ASSERT_OK(Call(affine, 4, 2, [](coppice::Call& call) {
                call.output_mode = OutputMode::kCopyOut;
              }).status());
  }
  const std::vector<json> lines = Lines();
  const std::vector<json> outputs = EventsOf(lines, "outputs");
  ASSERT_FALSE(outputs.empty());
  EXPECT_EQ(outputs.back()[3], 3);
  EXPECT_EQ(outputs.back()[4], -1);
  EXPECT_EQ(EventsOf(lines, "release").back()[3], 3);
}

TEST_F(TraceTest, ReadsOfLeasedOutputsAreToldBeforeWhatIsWrittenOver) {
  {
    std::unique_ptr<Session> session = MakeSession(Traced());
    const Sketched f =
        Draw(*session, {.name = "f", .input = 64, .steps = {Temporary(), Output(), Free(0)}});
    Input x = Upload(64, 1);
    std::vector<Made> path;
    for (int i = 0; i < 4; ++i) {
      path.clear();
      path.push_back(*RunSketch(f, x));
      for (int depth = 0; depth < 2; ++depth)
        path.push_back(*RunSketch(f, InputFrom(path.back())));
    }
  }
  const std::vector<json> lines = Lines();
  ExpectDefinedBeforeUse(lines);
  const std::vector<json> uses = EventsOf(lines, "use");
  ASSERT_THAT(uses, SizeIs(8));
  for (const json& use : uses) {
    EXPECT_EQ(use[5], 0) << "the only input";
    EXPECT_EQ(use[6], 0) << "the only output";
    EXPECT_EQ(use[7], 0) << "from its first byte on";
  }
  std::set<int> leased, expired;
  for (const json& line : lines) {
    if (!line.is_array()) continue;
    if (line[1] == "outputs") leased.insert(line[3].get<int>());
    if (line[1] == "expire") expired.insert(line[3].get<int>());
    if (line[1] == "release") leased.erase(line[3].get<int>());
    if (line[1] != "use") continue;
    EXPECT_EQ(line[3].get<int>(), line[4].get<int>() + 1);
    EXPECT_TRUE(leased.contains(line[4].get<int>())) << line;
    EXPECT_FALSE(expired.contains(line[4].get<int>())) << line;
  }
}

TEST_F(TraceTest, NodesSayWhereTheirBuffersLieAndWhatIsAround) {
  std::vector<NodeInfo> infos;
  {
    std::unique_ptr<Session> session = MakeSession(Traced());
    const Sketched f =
        Draw(*session,
             {.name = "f", .input = 64, .steps = {Temporary(), Output(), Free(0), Temporary(640)}});
    const Input x = Upload(64, 1);
    for (int i = 0; i < 4; ++i) {
      const Made first = *RunSketch(f, x);
      const Made second = *RunSketch(f, InputFrom(first));
    }
    for (const NodeInfo& info : session->nodes()) {
      if (info.recorded) infos.push_back(info);
    }
  }
  const std::vector<json> nodes = DefinitionsOf(Lines(), "node");
  ASSERT_EQ(nodes.size(), infos.size());
  ASSERT_GE(nodes.size(), 2U);
  bool child_seen = false;
  for (size_t i = 0; i < nodes.size(); ++i) {
    const json& node = nodes[i];
    EXPECT_EQ(node["height"], infos[i].plan_height);
    EXPECT_EQ(node["live"], infos[i].live_bytes);
    EXPECT_EQ(node["method"], infos[i].plan_method);
    EXPECT_EQ(node["graph_nodes"], infos[i].graph_nodes);
    EXPECT_EQ(node["exec_bytes"], infos[i].exec_bytes);
    EXPECT_EQ(node["record_ns"], infos[i].record_ns);
    int64_t around = 0;
    for (const json& region : node["around"])
      around += region[1].get<int64_t>();
    EXPECT_EQ(around, infos[i].around_bytes);
    child_seen |= around > 0;
    ASSERT_THAT(node["buffers"], SizeIs(3));
    int64_t top = 0;
    int outputs = 0;
    for (const json& buffer : node["buffers"]) {
      top = std::max(top, buffer[0].get<int64_t>() + buffer[1].get<int64_t>());
      outputs += buffer[2] == 0 ? 1 : 0;
      EXPECT_LT(buffer[3][0], buffer[3][1]);
    }
    EXPECT_LE(top, infos[i].plan_height);
    EXPECT_EQ(outputs, 1);
    EXPECT_EQ(node["buffers"][1][2], 0);  // The second request is the output.
    EXPECT_EQ(node["buffers"][0][2], -1);
    EXPECT_EQ(node["buffers"][2][1], 640 * kFloat);
  }
  EXPECT_TRUE(child_seen);
}

TEST_F(TraceTest, AGraphWithBreaksHasTheKernelsOfEachPiece) {
  {
    const Affine affine = MakeAffine(
        Traced(), AffineCallable([](CallContext& context) {
          COPPICE_RETURN_IF_ERROR(context.Break([](CuStream) { return absl::OkStatus(); }));
          return context.Break([](CuStream) { return absl::OkStatus(); });
        }));
    CallTimes(2, affine, 4);
  }
  const std::vector<json> nodes = DefinitionsOf(Lines(), "node");
  ASSERT_THAT(nodes, SizeIs(1));
  // The hook is between the first kernel and the others.
  ASSERT_THAT(nodes[0]["pieces"], SizeIs(3));
  EXPECT_EQ(nodes[0]["pieces"][1], 0);
  EXPECT_GT(nodes[0]["pieces"][0], 0);
  EXPECT_EQ(nodes[0]["pieces"][0].get<int>() + nodes[0]["pieces"][2].get<int>(),
            std::ssize(nodes[0]["kernels"]));
}

TEST_F(TraceTest, EvictionsAndRerecordingsAreTold) {
  {
    const Affine affine =
        MakeAffine(Traced({.limits = {.graphs_per_program_max = 2, .on_limit = OnLimit::kEvict}}));
    for (int round = 0; round < 6; ++round) {
      for (const int64_t n : {4, 8, 16})
        ASSERT_OK(Call(affine, n).status());
    }
    ASSERT_OK(affine.session->Evict(nullptr).status());
    EXPECT_GT(affine.session->stats().evictions, 0);
    CallTimes(2, affine, 4);
  }
  const std::vector<json> lines = Lines();
  ExpectDefinedBeforeUse(lines);
  EXPECT_EQ(EventsOf(lines, "record").size(), EventsOf(lines, "evict").size() + 1);
  EXPECT_EQ(DefinitionsOf(lines, "node").back()["reason"], "evicted");
  EXPECT_THAT(DefinitionsOf(lines, "bucket"), SizeIs(3));
}

TEST_F(TraceTest, WarmAndBackgroundRecordingsAreToldBeforeTheirFirstCall) {
  {
    ProgramSpec spec = AffineSpec();
    spec.thread_safe = true;
    spec.inputs[2].mutated = false;
    const Affine affine = MakeAffine(Traced({.record_in_background = true}), nullptr, spec);
    const std::vector<int64_t> buckets[] = {{16}, {32}};
    const int64_t scalars[] = {std::bit_cast<int64_t>(2.0)};
    ASSERT_OK(
        affine.session->warming().Warm(*affine.program, affine.binding, buckets, scalars, {}));
    for (const int64_t n : {16, 32, 4, 4})
      ASSERT_OK(Call(affine, n).status());
    affine.session->WaitForRecordings();
    ASSERT_OK(Call(affine, 4).status());
  }
  const std::vector<json> lines = Lines();
  ExpectDefinedBeforeUse(lines);
  EXPECT_THAT(EventsOf(lines, "record"), SizeIs(3));
  EXPECT_THAT(EventsOf(lines, "call"), SizeIs(5));
}

TEST_F(TraceTest, RecordingsThatFailAreToldWithTheCallThatFailed) {
  {
    // What the program does of it: nothing, pass it on, or fail by itself.
    for (const int way : {0, 1, 2}) {
      const Affine affine = MakeAffine(
          Traced(), AffineCallable([&](CallContext& context) -> absl::Status {
            if (context.phase() != Phase::kRecord) return absl::OkStatus();
            if (way == 2) return absl::InternalError("not now");
            const absl::Status status = context.driver().Call<&DriverTable::CtxSynchronize>();
            return way == 0 ? absl::OkStatus() : status;
          }));
      CallTimes(4, affine, 4);
      ASSERT_OK(affine.session->trace().Flush());
      const std::vector<json> lines = Lines();
      const std::vector<json> failures = DefinitionsOf(lines, "failure");
      ASSERT_THAT(failures, SizeIs(1)) << way;
      const json& failure = failures[0];
      const char* const calls[] = {"cuStreamEndCapture", "cuCtxSynchronize", ""};
      const char* const codes[] = {"CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
                                   "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "FAILED_PRECONDITION"};
      EXPECT_EQ(failure["driver_call"], calls[way]);
      EXPECT_EQ(failure["code"], codes[way]);
      if (way == 1) {
        EXPECT_THAT(failure["message"].get<std::string>(),
                    HasSubstr("program 'affine' broke its capture: cuCtxSynchronize"));
      }
      // What was broken is retried once.
      EXPECT_THAT(EventsOf(lines, "fail"), SizeIs(way == 2 ? 1 : 2));
    }
  }
  ExpectDefinedBeforeUse(Lines());
}

TEST_F(TraceTest, KindsOfMemoryAddUpToTheTotalAtEveryEvent) {
  const int64_t calls = 100'000 / TestShare();
  {
    const Affine affine =
        MakeAffine(Traced({.limits = {.graphs_per_program_max = 3, .on_limit = OnLimit::kEvict}}));
    std::mt19937_64 random(TestSeed());
    for (int64_t i = 0; i < calls; ++i) {
      const int64_t n = std::uniform_int_distribution<int64_t>(1, 80)(random);
      ASSERT_OK(CallOn(affine, n));
      if (i % 1000 != 0) continue;
      ASSERT_OK(affine.session->memory().Trim());
    }
  }
  const std::vector<json> lines = Lines();
  ExpectDefinedBeforeUse(lines);
  std::map<std::string, int64_t> bytes;
  int64_t calls_told = 0, last_ns = 0, events = 0;
  for (const json& line : lines) {
    if (!line.is_array()) continue;
    calls_told += line[1] == "call" ? 1 : 0;
    if (line[2] == 0) {
      EXPECT_GE(line[0], last_ns);
      last_ns = line[0];
    }
    if (line[1] != "bytes") continue;
    ++events;
    bytes[line[3]] = line[4];
    int64_t sum = 0;
    for (const auto& [kind, of_kind] : bytes)
      sum += of_kind;
    EXPECT_EQ(sum, line[5]);
  }
  EXPECT_EQ(calls_told, calls);
  EXPECT_GT(events, 2);
  EXPECT_GT(bytes["nodes"], 0);
  EXPECT_THAT(EventsOf(lines, "dropped"), IsEmpty());
}

TEST_F(TraceTest, SuspensionIsToldBetweenTheBytesThatGoAndThoseThatComeBack) {
  {
    const Affine affine = MakeAffine(Traced({.memory = {.budget_bytes = 48 * kMiB}}));
    CallTimes(3, affine, 4);
    ASSERT_OK(affine.session->memory().Suspend({}));
    ASSERT_OK(affine.session->memory().Resume());
    ASSERT_OK(Call(affine, 4).status());
  }
  const std::vector<json> lines = Lines();
  EXPECT_EQ(lines[0]["budget"], 48 * kMiB);
  EXPECT_GT(lines[0]["granularity"], 0);
  std::map<std::string, int64_t> bytes;
  int told = 0;
  for (const json& line : lines) {
    if (!line.is_array()) continue;
    if (line[1] == "bytes") bytes[line[3]] = line[4];
    if (line[1] != "suspend" && line[1] != "resume") continue;
    ++told;
    EXPECT_EQ(bytes["nodes"] > 0, line[1] == "resume");
    EXPECT_EQ(bytes["staging"] > 0, line[1] == "resume");
    EXPECT_GT(bytes["graphs"], 0);
  }
  EXPECT_EQ(told, 2);
}

TEST_F(TraceTest, LanesOfTwoThreadsKeepTheirOwnOrder) {
  constexpr int kLanes = 2;
  const int64_t calls = std::max<int64_t>(4000 / TestShare(), 400);
  {
    ProgramSpec spec = AffineSpec();
    spec.inputs[2].mutated = false;
    const Affine affine = MakeAffine(Traced({.lanes = kLanes}), Uncounted(), spec);
    std::vector<std::thread> threads;
    for (int lane = 0; lane < kLanes; ++lane) {
      threads.emplace_back([&, lane] {
        ASSERT_OK(device_.context().MakeCurrent());
        const Stream stream = *Stream::Create(device_.driver());
        for (int64_t i = 0; i < calls; ++i)
          ASSERT_OK(CallOn(affine, 1 + (i * (lane + 3)) % kLargest, lane, stream.handle()));
        ASSERT_OK(stream.Synchronize());
      });
    }
    for (int i = 0; i < 20; ++i)
      ASSERT_OK(affine.session->trace().Flush());
    for (std::thread& thread : threads)
      thread.join();
  }
  const std::vector<json> lines = Lines();
  ExpectDefinedBeforeUse(lines);
  EXPECT_EQ(lines[0]["lanes"], kLanes);
  std::array<int64_t, kLanes> told{}, last_ns{};
  for (const json& event : EventsOf(lines, "call")) {
    const auto lane = event[2].get<size_t>();
    EXPECT_EQ(event[3], ++told[lane]);
    EXPECT_GE(event[0], last_ns[lane]);
    last_ns[lane] = event[0];
  }
  EXPECT_THAT(told, ElementsAre(calls, calls));
}

TEST_F(TraceTest, PathThatEndsBeforeItsLastByteIsRefused) {
  const SessionOptions options{.trace = {.path = std::string("a\0b", 3)}};
  EXPECT_THAT(Session::Create(device_.context(), options), StatusIs(kWrongArgument));
}

TEST_F(TraceTest, FullDiskEndsTheTraceAndNotTheSession) {
  std::vector<std::string> told;
  SessionOptions options{.trace = {.path = "/dev/full", .events_per_lane = 16}};
  options.log = [&](const std::string& line) {
    if (line.find("/dev/full") != std::string::npos) told.push_back(line);
  };
  {
    const Affine affine = MakeAffine(options);
    EXPECT_THAT(affine.session->trace().Flush(), StatusIs(kExhausted));
    for (const RunKind path :
         {RunKind::kWarmUp, RunKind::kRecord, RunKind::kReplay, RunKind::kReplay})
      ExpectRun(affine, 4, path);
    EXPECT_THAT(affine.session->trace().Flush(), StatusIs(kExhausted));
  }
  EXPECT_THAT(told, SizeIs(1));
}

TEST_F(TraceTest, SessionWithoutATraceFlushesNothing) {
  const Affine affine = MakeAffine();
  ExpectRun(affine, 4, RunKind::kWarmUp);
  EXPECT_OK(affine.session->trace().Flush());
}

TEST_F(TraceTest, MarksAreEventsOfTheSessionInOrderOfTime) {
  Affine affine = MakeAffine(Traced(), Uncounted());
  affine.session->trace().Mark("before");
  ASSERT_OK(CallOn(affine, 4));
  affine.session->trace().Mark("between \"quotes\"\n");
  ASSERT_OK(CallOn(affine, 4));
  affine.session->trace().Mark("before");
  affine.session.reset();
  const std::vector<json> lines = Lines();
  ExpectDefinedBeforeUse(lines);
  const std::vector<json> definitions = DefinitionsOf(lines, "mark");
  ASSERT_THAT(definitions, SizeIs(2)) << "equal names have one number";
  EXPECT_EQ(definitions[0]["name"], "before");
  EXPECT_EQ(definitions[1]["name"], "between \"quotes\"\n");
  const std::vector<json> marks = EventsOf(lines, "mark");
  ASSERT_THAT(marks, SizeIs(3));
  const std::vector<json> calls = EventsOf(lines, "call");
  ASSERT_THAT(calls, SizeIs(2));
  for (size_t i = 0; i < marks.size(); ++i) {
    EXPECT_EQ(marks[i][2], -1) << "of no lane";
    EXPECT_EQ(marks[i][3], definitions[i % 2]["mark"]);
    EXPECT_EQ(marks[i].size(), 4U);
    if (i > 0) {
      EXPECT_GE(marks[i][0], calls[i - 1][0]);
    }
    if (i < calls.size()) {
      EXPECT_LE(marks[i][0], calls[i][0]);
    }
  }
}

TEST_F(TraceTest, MarksOfManyThreadsAndNamesAreAllThere) {
  std::unique_ptr<Session> session = MakeSession(Traced());
  constexpr int kMarks = 1500;  // More names than are remembered.
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&session, thread] {
      for (int i = 0; i < kMarks; ++i)
        session->trace().Mark("m" + std::to_string(2 * i + thread));
    });
  }
  for (std::thread& thread : threads)
    thread.join();
  session.reset();
  const std::vector<json> lines = Lines();
  ExpectDefinedBeforeUse(lines);
  const std::vector<json> marks = EventsOf(lines, "mark");
  EXPECT_THAT(marks, SizeIs(2 * kMarks));
  EXPECT_TRUE(
      std::ranges::is_sorted(marks, {}, [](const json& mark) { return mark[0].get<int64_t>(); }));
  std::set<std::string> names;
  for (const json& definition : DefinitionsOf(lines, "mark"))
    names.insert(definition["name"]);
  EXPECT_THAT(names, SizeIs(2 * kMarks));
}

TEST_F(TraceTest, MarkWithoutATraceDoesNothing) {
  MakeSession()->trace().Mark("nobody hears");
}

}  // namespace
}  // namespace coppice
