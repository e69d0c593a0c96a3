// Goal: a case is read as it was written, and whatever the bytes, there is a case or an error that
// says where. Method: a case that has everything, changed field by field, and from a seed in its
// bytes and in its manifest with sums made right. COPPICE_MUTATIONS says how many, in place of
// 4,000.

#include "coppice/graphs/case_file.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "tests/graphs/case_parts.h"
#include "tests/support/byte_mutator.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

using Json = nlohmann::json;

using testing::HasSubstr;

CaseTensor Floats(std::vector<int64_t> dims, size_t count) {
  std::string bytes;
  for (size_t i = 0; i < count * sizeof(float); ++i)
    bytes += static_cast<char>(i * 7);
  return {DType::kFloat32, std::move(dims), std::move(bytes)};
}

// Everything that a case can have.
Case Everything() {
  Case value{.why = "outputs differ \"now and then\"",
             .error = "cuStreamSynchronize: 700",
             .version = "0.1.0",
             .device = "a device",
             .driver = "cuda",
             .driver_version = 12'040,
             .lane = 2,
             .values = CaseValues::kSpecial,
             .calls_dropped = 17,
             .calls_refused = 3,
             .calls_skipped = 5};
  value.programs = {{.name = "main",
                     .variant = "draft",
                     .package_program = "main",
                     .package_sha256 = std::string(64, 'a'),
                     .package_path = "/tmp/x.zip",
                     .symbols = {{.name = "n", .policy = "pow2", .claim = PaddingClaim{}},
                                 {.name = "m", .policy = "exact", .claim = std::nullopt},
                                 {.name = "k",
                                  .policy = "1,2",
                                  .claim = PaddingClaim{.padding = PaddingContents::kRowIndependent,
                                                        .equal = {false, 0.25, 1e-05}}}},
                     .scalars = {"alpha"},
                     .inputs = {"x", "h"},
                     .statics = {"w", "cache"},
                     .outputs = {"y"}},
                    {.name = "callable", .inputs = {"x"}, .outputs = {"y"}}};
  value.bindings = {{.program = 0, .statics = {{.tensor = "bindings/0/w"}, {.dangling = true}}}};
  CaseCall first{.number = 4,
                 .program = 0,
                 .binding = 0,
                 .kind = RunKind::kRecord,
                 .reason = Reason::kNewBucket,
                 .poison = Poison::kNoise,
                 .mode = OutputMode::kCopyOut,
                 .ran = true,
                 .arrived = true,
                 .extents = {3, 2, 1},
                 .bucket = {4, 2, 2},
                 .scalars = {-5}};
  first.random.emplace(0xffff'ffff'ffff'fff0, 8);
  first.inputs = {{.tensor = "calls/4/inputs/x", .dims = {3}}, {.dims = {2, 1}}};
  first.statics = {{.tensor = "calls/4/statics/w"}, {.dangling = true}};
  first.outputs = {"calls/4/outputs/y"};
  CaseCall second{.number = 9,
                  .program = 0,
                  .binding = 0,
                  .extents = {1, 1, 1},
                  .bucket = {1, 1, 1},
                  .scalars = {0}};
  second.inputs = {{.call = 4, .output = 0, .at = 4, .dims = {1}, .strides = {1}}, {.dims = {}}};
  second.donated = {4};
  CaseCall third{.number = 10, .program = 1};
  third.inputs = {{.dtype = DType::kInt8, .dims = {0, 5}}};
  value.calls = {first, second, third};
  value.tensors = {{"bindings/0/w", Floats({2, 2}, 4)},
                   {"calls/4/inputs/x", Floats({3}, 3)},
                   {"calls/4/statics/w", Floats({2, 2}, 4)},
                   {"calls/4/outputs/y", Floats({0}, 0)}};
  value.package = "PK: not looked at";
  return value;
}

TEST(CaseFileTest, IsReadAsItWasWritten) {
  const Case value = Everything();
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string zip, FormatCase(value));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Case read, ParseCase(package::BytesOf(zip), "x.coppice-case"));
  EXPECT_TRUE(read == value);
  const package::TemporaryFolder folder;
  ASSERT_OK(WriteCase(value, folder / "a.coppice-case"));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Case again, ReadCase(folder / "a.coppice-case"));
  EXPECT_TRUE(again == value);
}

TEST(CaseFileTest, EqualCasesHaveEqualBytes) {
  EXPECT_EQ(*FormatCase(Everything()), *FormatCase(Everything()));
}

TEST(CaseFileTest, AnEmptyCaseIsOne) {
  COPPICE_ASSERT_OK_AND_ASSIGN(const std::string zip, FormatCase(Case()));
  COPPICE_ASSERT_OK_AND_ASSIGN(const Case read, ParseCase(package::BytesOf(zip), "x"));
  EXPECT_TRUE(read == Case());
}

TEST(CaseFileTest, AFileThatIsNotThereHasTheCodeOfItsErrno) {
  EXPECT_EQ(ReadCase("/nowhere/x.coppice-case").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(WriteCase(Case(), "/nowhere/x.coppice-case").code(), absl::StatusCode::kNotFound);
}

TEST(CaseFileTest, AnotherMajorVersionIsUnimplemented) {
  CaseParts parts(Everything());
  parts.manifest["schema_version"] = {2, 0};
  EXPECT_EQ(parts.Read().status().code(), absl::StatusCode::kUnimplemented);
}

struct Damage {
  const char* pointer;
  const char* value;  // JSON.
  const char* says;   // In the message.
};

TEST(CaseFileTest, SaysWhereItIsWrong) {
  const std::vector<Damage> damages = {
      {"/schema", "\"coppice-profile\"", "is not a case"},
      {"/lane", "-1", "/lane"},
      {"/values", "\"half\"", "/values"},
      {"/calls_dropped", "-1", "/calls_dropped"},
      {"/calls_skipped", "-1", "/calls_skipped"},
      {"/bindings/0/program", "2", "/bindings/0/program"},
      {"/bindings/0/statics", "[]", "/bindings/0/statics"},
      {"/programs/0/symbols/0/claim/padding", "\"every\"", "/programs/0/symbols/0/claim/padding"},
      {"/programs/0/symbols/2/claim/equal/absolute", "\"-1\"", "/programs/0/symbols/2/claim/equal"},
      {"/programs/0/symbols/2/claim/equal/relative", "\"inf\"",
       "/programs/0/symbols/2/claim/equal"},
      {"/calls/0/program", "-1", "/calls/0/program"},
      {"/calls/0/program", "2", "/calls/0/program"},
      {"/calls/0/binding", "-1", "/calls/0/binding"},
      {"/calls/0/binding", "1", "/calls/0/binding"},
      {"/calls/2/binding", "0", "/calls/2/binding"},
      {"/calls/1/number", "4", "/calls/1/number"},
      {"/calls/0/number", "0", "/calls/0/number"},
      {"/calls/0/kind", "\"walk\"", "/calls/0/kind"},
      {"/calls/0/extents", "[3, 2]", "/calls/0/extents"},
      {"/calls/0/extents/0", "-3", "/calls/0/extents/0"},
      {"/calls/0/scalars", "[]", "/calls/0/scalars"},
      {"/calls/0/random/offset", "6", "/calls/0/random/offset"},
      {"/calls/0/inputs", "[]", "/calls/0/inputs"},
      {"/calls/0/inputs/0/dims/0", "-1", "/calls/0/inputs/0/dims/0"},
      {"/calls/0/inputs/0/dims/0", "4", "calls/4/inputs/x"},
      {"/calls/0/inputs/0/dims/0", "1099511627776", "/calls/0/inputs/0/dims"},
      {"/calls/0/inputs/0/dtype", "\"f17\"", "/calls/0/inputs/0/dtype"},
      {"/calls/0/inputs/0/tensor", "\"calls/5/inputs/x\"", "calls/5/inputs/x"},
      {"/calls/0/inputs/0/tensor", "\"\"", "/calls/0/inputs/0/tensor"},
      {"/calls/1/inputs/0/in_place/call", "9", "/calls/1/inputs/0/in_place/call"},
      {"/calls/1/inputs/0/in_place/output", "-1", "/calls/1/inputs/0/in_place/output"},
      {"/calls/1/inputs/0/in_place/at", "-4", "/calls/1/inputs/0/in_place/at"},
      {"/calls/1/inputs/0/in_place/strides", "[]", "/calls/1/inputs/0/in_place/strides"},
      {"/calls/0/statics", "[]", ""},  // None is recorded: right.
      {"/calls/0/statics/0/tensor", "\"nobody\"", "nobody"},
      {"/calls/0/outputs", "[null, null]", "/calls/0/outputs"},
      {"/calls/1/donated/0", "-1", "/calls/1/donated/0"},
      {"/more", "1", "more"},
  };
  for (const Damage& damage : damages) {
    CaseParts parts(Everything());
    parts.manifest[Json::json_pointer(damage.pointer)] = Json::parse(damage.value);
    const absl::Status status = parts.Read().status();
    if (*damage.says == 0) {
      EXPECT_OK(status);
      continue;
    }
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << damage.pointer;
    EXPECT_THAT(std::string(status.message()), HasSubstr(damage.says)) << damage.pointer;
    EXPECT_THAT(std::string(status.message()), HasSubstr("x.coppice-case"));
  }
}

TEST(CaseFileTest, RefusesADamagedOrAStrangeFile) {
  std::string zip = *FormatCase(Everything());
  zip[zip.find("outputs differ")] ^= 1;
  EXPECT_THAT(std::string(ParseCase(package::BytesOf(zip), "x").status().message()),
              HasSubstr("damaged"));
  const CaseParts parts{Case()};
  const std::string manifest = package::CanonicalJson(parts.manifest);
  const std::string more = package::ZipOf(
      {{"manifest.json", manifest}, {"tensors.safetensors", parts.tensors}, {"virus", "x"}});
  EXPECT_THAT(std::string(ParseCase(package::BytesOf(more), "x").status().message()),
              HasSubstr("virus"));
  const std::string less = package::ZipOf({{"manifest.json", manifest}});
  EXPECT_THAT(std::string(ParseCase(package::BytesOf(less), "x").status().message()),
              HasSubstr("tensors.safetensors"));
}

int64_t Mutations() {
  const char* const given = std::getenv("COPPICE_MUTATIONS");
  return given == nullptr ? 4'000 : std::atoll(given);
}

// Whatever can be read can be written and read again.
void Walk(const absl::StatusOr<Case>& read, int64_t& good) {
  if (!read.ok()) {
    ASSERT_FALSE(read.status().message().empty());
    return;
  }
  ++good;
  const std::string zip = *FormatCase(*read);
  const absl::StatusOr<Case> again = ParseCase(package::BytesOf(zip), "again");
  ASSERT_OK(again);
  ASSERT_TRUE(*again == *read);
}

TEST(CaseFileTest, ChangedBytesGiveACaseOrAnError) {
  const std::string zip = *FormatCase(Everything());
  ByteMutator mutator(TestSeed(), std::string_view("\0\xff{[\"9", 6));
  int64_t good = 0;
  for (int64_t i = 0; i < Mutations() / 4; ++i) {
    const std::string changed = mutator.Mutate(zip);
    Walk(ParseCase(package::BytesOf(changed), "x"), good);
  }
}

// Any value of the manifest becomes another one, from itself or odd.
TEST(CaseFileTest, ChangedManifestsGiveACaseOrAnError) {
  ByteMutator draw(TestSeed() + 1, "x");
  const Json oddities = Json::parse(
      R"([null, true, 0, 1, -1, 3, 255, 9223372036854775807, -9223372036854775808, "", "x", "w",
          "keep", "nan", "1e999", "calls/4/inputs/x", "f32", "c64", "bits", [], {}, [[]],
          [0, 0, 0, 0, 0, 0, 0, 0, 0], {"tensor": null}, {"call": 4}])");
  const CaseParts original(Everything());
  int64_t good = 0;
  for (int64_t i = 0; i < Mutations(); ++i) {
    CaseParts parts = original;
    for (size_t times = 1 + draw.Draw(3); times > 0; --times) {
      std::vector<Json*> places;
      const auto collect = [&places](auto&& self, Json& value) -> void {
        places.push_back(&value);
        if (!value.is_structured()) return;
        for (Json& each : value)
          self(self, each);
      };
      collect(collect, parts.manifest);
      Json& place = *places[draw.Draw(places.size())];
      const Json other = draw.Draw(2) == 0 ? *places[draw.Draw(places.size())]
                                           : oddities[draw.Draw(oddities.size())];
      if (draw.Draw(4) == 0 && place.is_array() && !place.empty())
        place.erase(draw.Draw(place.size()));
      else
        place = other;
    }
    Walk(parts.Read(), good);
  }
  EXPECT_GT(good, 0) << "nothing but errors: the mutations are too wild";
}

TEST(CaseFileTest, ChangedTensorsGiveACaseOrAnError) {
  ByteMutator mutator(TestSeed() + 2, std::string_view("\0\xff{[\"9", 6));
  const CaseParts original(Everything());
  int64_t good = 0;
  for (int64_t i = 0; i < Mutations() / 4; ++i) {
    CaseParts parts = original;
    parts.tensors = mutator.Mutate(parts.tensors);
    Walk(parts.Read(), good);
  }
}

}  // namespace
}  // namespace coppice
