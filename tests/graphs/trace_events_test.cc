// Goal: a trace has what a session needs to be made again, and how long calls and requests took.
// Method: small programs on the emulator; the file against what they were made of.

#include "coppice/graphs/trace_events.h"

#include "coppice/graphs/described/trace_fields.h"
#include "coppice/graphs/session_documents.h"
#include "coppice/padding/policy_document.h"

#include "tests/graphs/sketch.h"
#include "tests/graphs/trace_lines.h"

namespace coppice {
namespace {

using nlohmann::json;

class TraceEventsTest : public testing::Test, protected SketchDevice {
 protected:
  SessionOptions Traced(SessionOptions options = {}) const {
    options.trace = {.path = path_.str(), .wait_when_full = true};
    return options;
  }

  std::vector<json> Lines() const { return ReadTrace(path_.str()); }

  const TracePath path_;
};

TEST_F(TraceEventsTest, EventsSayTheirNamesAndFields) {
  EXPECT_STREQ(NameOf(CallEvent()), "call");
  EXPECT_STREQ(NameOf(EndEvent()), "end");
  std::vector<std::pair<std::string, int64_t>> fields;
  const UseEvent use{.call = 1, .other_call = 2, .input = 3, .output = 4, .offset_bytes = 5};
  VisitFields(use, [&](const char* name, int64_t value, int64_t /*least*/) {
    fields.emplace_back(name, value);
  });
  EXPECT_THAT(fields, ElementsAre(testing::Pair("call", 1), testing::Pair("other_call", 2),
                                  testing::Pair("input", 3), testing::Pair("output", 4),
                                  testing::Pair("offset_bytes", 5)));
}

TEST_F(TraceEventsTest, RequestsAreToldAsTheyWereNoted) {
  {
    const std::unique_ptr<Session> session = MakeSession(Traced());
    ASSERT_OK(session->trace().NoteRequest({.id = 17,
                                            .first_token_ns = 1500,
                                            .last_token_ns = 9000,
                                            .input_tokens = 120,
                                            .output_tokens = 30}));
    ASSERT_OK(session->trace().NoteRequest({.id = int64_t{1} << 53, .output_tokens = 1}));
  }
  const std::vector<json> requests = EventsOf(Lines(), "request");
  ASSERT_THAT(requests, SizeIs(2));
  EXPECT_EQ(json(requests[0].begin() + 2, requests[0].end()), json({-1, 17, 1500, 9000, 120, 30}));
  EXPECT_EQ(requests[1][3], int64_t{1} << 53);
}

TEST_F(TraceEventsTest, RequestsThatCannotBeAreRefused) {
  const std::unique_ptr<Session> session = MakeSession({});
  const RequestTimes right{.id = 1, .first_token_ns = 5, .last_token_ns = 9, .output_tokens = 2};
  ASSERT_OK(session->trace().NoteRequest(right)) << "without a trace nothing happens";
  const auto refused = [&](auto change) {
    RequestTimes times = right;
    change(times);
    EXPECT_THAT(session->trace().NoteRequest(times), StatusIs(kWrongArgument));
  };
  refused([](RequestTimes& times) { times.id = -1; });
  refused([](RequestTimes& times) { times.id = (int64_t{1} << 53) + 1; });
  refused([](RequestTimes& times) { times.first_token_ns = -1; });
  refused([](RequestTimes& times) { times.last_token_ns = 4; });
  refused([](RequestTimes& times) { times.input_tokens = -1; });
  refused([](RequestTimes& times) { times.output_tokens = 0; });
}

TEST_F(TraceEventsTest, PoliciesThatChangeAreTold) {
  {
    const Affine affine = MakeAffine(Traced());
    for (int i = 0; i < 2; ++i) {
      ASSERT_OK(affine.session->policies().SetPolicy(*affine.program, 0,
                                                     *PaddingPolicy::Parse("6,64", 64)));
      ASSERT_OK(affine.session->policies().SetPolicy(*affine.program, 0, *PaddingPolicy::Pow2(64)));
    }
  }
  const std::vector<json> lines = Lines();
  const std::vector<json> documents = DefinitionsOf(lines, "policy");
  ASSERT_THAT(documents, SizeIs(2)) << "equal ones are defined once";
  EXPECT_EQ(documents[0]["document"]["buckets"], json({6, 64}));
  EXPECT_EQ(documents[1]["document"]["ladder"], "pow2");
  std::vector<int> told;
  for (const json& event : EventsOf(lines, "policy")) {
    EXPECT_EQ(event[3], 0);
    EXPECT_EQ(event[4], 0);
    told.push_back(event[5].get<int>());
  }
  EXPECT_THAT(told, ElementsAre(0, 1, 0, 1));
}

TEST_F(TraceEventsTest, SessionsAndProgramsSayWhatTheyAreMadeOf) {
  SessionOptions options{.warmup_runs = 2};
  options.limits.graphs_per_program_max = 5;
  options.memory.budget_bytes = int64_t{1} << 30;
  ProgramSpec spec;
  {
    const Affine affine = MakeAffine(Traced(options));
    spec = Session::SpecOf(*affine.program);
  }
  const std::vector<json> lines = Lines();
  EXPECT_EQ(lines[0]["budget"], int64_t{1} << 30);
  EXPECT_EQ(lines[0]["options"].dump(), json::parse(WriteOptionsDocument(options)).dump());
  const json program = DefinitionsOf(lines, "program")[0];
  EXPECT_EQ(program["spec"].dump(), json::parse(WriteSpecDocument(spec)).dump());
  const absl::StatusOr<PolicyDocument> policy =
      ReadPolicyDocument(program["policies"][0].dump(), "the trace");
  ASSERT_OK(policy);
  EXPECT_EQ(policy->policy.name(), spec.symbols[0].policy.name());
  EXPECT_EQ(policy->policy.maximum(), spec.symbols[0].policy.maximum());
  EXPECT_THAT(program["joint"], IsEmpty());
}

TEST_F(TraceEventsTest, BytesOfStaticsAreThoseOfAllThatIsBound) {
  constexpr int64_t kBytes = 16;
  {
    const std::unique_ptr<Session> session = MakeSession(Traced());
    const auto add = [&](const char* name) {
      ProgramSpec spec{.name = name};
      spec.inputs = {{.name = "w", .dims = {Dim::Fixed(4)}, .role = InputRole::kStatic},
                     {.name = "v", .dims = {Dim::Fixed(4)}, .role = InputRole::kStatic}};
      spec.outputs = {{.name = "y", .dims = {Dim::Fixed(4)}, .role = OutputRole::kStatic}};
      return session->Register(spec, [](CallContext&) { return absl::OkStatus(); });
    };
    const absl::StatusOr<const Program*> f = add("f");
    const absl::StatusOr<const Program*> g = add("g");
    ASSERT_OK(f);
    ASSERT_OK(g);
    const auto bind = [&](const Program* program, std::vector<DeviceAddress> addresses) {
      std::vector<Tensor> statics;
      for (const DeviceAddress address : addresses)
        statics.push_back(Tensor::Dense(address, DType::kFloat32, std::vector<int64_t>{4}));
      return session->Bind(*program, statics);
    };
    // The second input reads half of the first.
    const absl::StatusOr<const Binding*> first = bind(*f, {0x1000, 0x1008, 0x2000});
    ASSERT_OK(first);
    ASSERT_OK(bind(*f, {0x1000, 0x1008, 0x2000})) << "the same";
    ASSERT_OK(bind(*g, {0x1000, 0x3000, 0x4000}));
    ASSERT_OK(session->Unbind(**first));
    ASSERT_OK(session->Unbind(**first)) << "once more";
    ASSERT_OK(bind(*f, {0x1000, 0x1008, 0x2000})) << "and again";
    ASSERT_OK(session->Unregister(**g));
  }
  std::vector<std::vector<int64_t>> told;
  for (const json& event : EventsOf(Lines(), "statics")) {
    EXPECT_EQ(event[2], -1);
    told.push_back({event[3].get<int64_t>(), event[4].get<int64_t>(), event[5].get<int64_t>()});
  }
  constexpr int64_t kOfFirst = 2 * kBytes + 8;
  EXPECT_THAT(
      told,
      ElementsAre(ElementsAre(0, kOfFirst, kOfFirst),
                  ElementsAre(1, 3 * kBytes, kOfFirst + 2 * kBytes), ElementsAre(0, 0, 3 * kBytes),
                  ElementsAre(0, kOfFirst, kOfFirst + 2 * kBytes), ElementsAre(1, 0, kOfFirst)));
}

TEST_F(TraceEventsTest, BuffersHaveTheLabelsOfTheirProgramAndTheNamesOfItsOutputs) {
  {
    std::unique_ptr<Session> session = MakeSession(Traced());
    ProgramSpec spec{.name = "f"};
    spec.outputs = {{.name = "y", .dims = {Dim::Fixed(64)}}};
    const absl::StatusOr<const Program*> program =
        session->Register(spec, [](CallContext& context) -> absl::Status {
          COPPICE_RETURN_IF_ERROR(context.Allocate(256, "query \"q\"").status());
          COPPICE_RETURN_IF_ERROR(context.Allocate(512).status());
          return context.AllocateOutput(0).status();
        });
    ASSERT_OK(program);
    for (int i = 0; i < 2; ++i)
      ASSERT_OK(session->Run({.program = *program, .stream = device_.stream()}));
  }
  const json buffers = DefinitionsOf(Lines(), "node")[0]["buffers"];
  ASSERT_THAT(buffers, SizeIs(3));
  EXPECT_EQ(buffers[0][4], "query \"q\"");
  EXPECT_EQ(buffers[1][4], "");
  EXPECT_EQ(buffers[2][4], "y");
}

TEST_F(TraceEventsTest, OneReplayInSixtyFourIsTimedAndEveryOtherCall) {
  constexpr int kCalls = 300;
  {
    const Affine affine = MakeAffine(Traced());
    for (int i = 0; i < kCalls; ++i)
      ASSERT_OK(Call(affine, 4));
  }
  const std::vector<json> calls = EventsOf(Lines(), "call");
  ASSERT_THAT(calls, SizeIs(kCalls));
  std::vector<int> timed;
  for (const json& call : calls) {
    EXPECT_TRUE(call[12] == -1 || call[12] > 0) << call;
    if (call[12] == -1) continue;
    // The host was busy with the call, and with no other before it.
    EXPECT_LE(call[12], call[0].get<int64_t>()) << call;
    if (call[6] == "replay") timed.push_back(call[3].get<int>());
  }
  EXPECT_THAT(timed, ElementsAre(65, 129, 193, 257));
  EXPECT_NE(calls[0][12], -1) << "the warm-up";
  EXPECT_NE(calls[1][12], -1) << "the recording";
}

TEST_F(TraceEventsTest, CallOfManySymbolsHasTheExtentsOfAll) {
  constexpr int kSymbols = 8;
  {
    std::unique_ptr<Session> session = MakeSession(Traced());
    ProgramSpec spec{.name = "many", .claim = PaddingContents::kAny};
    for (int i = 0; i < kSymbols; ++i) {
      const int symbol = spec.AddSymbol(fmt::format("s{}", i), *PaddingPolicy::Pow2(64));
      spec.symbols[static_cast<size_t>(symbol)].given = true;
    }
    const absl::StatusOr<const Program*> program =
        session->Register(spec, [](CallContext&) { return absl::OkStatus(); });
    ASSERT_OK(program);
    for (int call = 0; call < 5; ++call) {
      std::vector<int64_t> extents(kSymbols);
      for (int i = 0; i < kSymbols; ++i)
        extents[static_cast<size_t>(i)] = 1 + i + call;
      ASSERT_OK(
          session->Run({.program = *program, .extents = extents, .stream = device_.stream()}));
    }
  }
  const std::vector<json> calls = EventsOf(Lines(), "call");
  ASSERT_THAT(calls, SizeIs(5));
  for (int call = 0; call < 5; ++call) {
    const json& event = calls[static_cast<size_t>(call)];
    for (int i = 0; i < kSymbols; ++i)
      EXPECT_EQ(event[11][static_cast<size_t>(i)], 1 + i + call) << event;
    EXPECT_EQ(event[13], "borrow");
  }
}

}  // namespace
}  // namespace coppice
