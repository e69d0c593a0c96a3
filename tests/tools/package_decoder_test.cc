// Goal: `coppice run --package` serves the decoder of a package as it does the one of tools/model;
// what is no such decoder, or too small for the trace, is refused in one line. Method: the package
// that PyTorch's exporter made of samples/torch_decoder.py, and copies with another manifest, on
// the emulator, which executes its PTX.

#include "tools/model/package_decoder.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "coppice/runtime/package.h"

#include "tests/package/package_builder.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"
#include "tests/tools/command_outcome.h"

namespace coppice {
namespace {

using Json = nlohmann::json;
using package::PackageBuilder;
using package::TemporaryFolder;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::StartsWith;

constexpr const char* kDecoderZip = COPPICE_SAMPLES "/torch_decoder.zip";

// The sample, its manifest changed by `edit`, at `path`.
std::string WriteEdited(const std::string& path, const std::function<void(Json& manifest)>& edit) {
  const package::Package sample = *package::Package::Open(kDecoderZip, {});
  PackageBuilder builder(Json::parse(sample.manifest_text()));
  edit(builder.manifest);
  for (const package::File& file : sample.manifest().files)
    builder.AddFile(file.name, package::TextOf(*sample.Read(file.name)));
  return builder.WriteZip(path);
}

Json& Buffer(Json& manifest, const char* program, const char* name) {
  return manifest["programs"][program]["buffers"][name];
}

class PackageDecoderTest : public testing::Test {
 protected:
  std::unique_ptr<PackageDecoder> Load(const std::string& path) {
    absl::StatusOr<std::unique_ptr<PackageDecoder>> decoder =
        PackageDecoder::Create(device_.context(), path);
    EXPECT_OK(decoder);
    return *std::move(decoder);
  }

  // The message that a changed sample is refused with.
  std::string Refusal(const std::function<void(Json& manifest)>& edit) {
    const absl::Status status =
        PackageDecoder::Create(device_.context(), WriteEdited(folder_ / "edited.zip", edit))
            .status();
    EXPECT_THAT(status, StatusIs(absl::StatusCode::kInvalidArgument));
    return std::string(status.message());
  }

  const TemporaryFolder folder_;
  TestDevice device_;
};

TEST_F(PackageDecoderTest, SizesAreThoseOfTheSample) {
  const std::unique_ptr<PackageDecoder> decoder = Load(kDecoderZip);
  EXPECT_EQ(decoder->sizes().slots, 16) << "the cache's last slot is for padding";
  EXPECT_EQ(decoder->sizes().max_context, 512);
  EXPECT_EQ(decoder->sizes().vocab, 512);
  EXPECT_EQ(decoder->default_policy(/*prefill=*/true), "pow2");
  EXPECT_THAT(decoder->targets(), ElementsAre(Pair("sm_80 ptx", 49)));
}

TEST_F(PackageDecoderTest, StepsTakeTheirTensorsInTheProgramsOrder) {
  const std::unique_ptr<PackageDecoder> decoder = Load(kDecoderZip);
  const std::vector<StepArray> prefill =
      decoder->ArraysOf({.prefill = true, .tokens = {5, 6, 7}, .slots = {2}});
  ASSERT_EQ(prefill.size(), 3U);
  EXPECT_THAT(prefill[0].dims, ElementsAre(1, 3));
  EXPECT_THAT(prefill[0].values, ElementsAre(5, 6, 7));
  EXPECT_THAT(prefill[1].values, ElementsAre(3)) << "the length";
  EXPECT_THAT(prefill[2].values, ElementsAre(2));
  const std::vector<StepArray> decode =
      decoder->ArraysOf({.prefill = false, .tokens = {5, 6}, .positions = {8, 9}, .slots = {2, 4}});
  EXPECT_THAT(decode[0].values, ElementsAre(5, 6));
  EXPECT_THAT(decode[1].values, ElementsAre(8, 9));
  EXPECT_THAT(decode[2].values, ElementsAre(2, 4));
}

TEST_F(PackageDecoderTest, StepsBelowTheLeastSizeGetRowsOfPadding) {
  const std::string path = WriteEdited(folder_ / "edited.zip", [](Json& manifest) {
    for (const char* program : {"prefill", "decode"})
      manifest["programs"][program]["symbols"]["batch"]["min"] = 2;
  });
  const std::unique_ptr<PackageDecoder> decoder = Load(path);
  const std::vector<StepArray> prefill =
      decoder->ArraysOf({.prefill = true, .tokens = {5}, .slots = {3}});
  EXPECT_THAT(prefill[0].dims, ElementsAre(2, 2));
  EXPECT_THAT(prefill[0].values, ElementsAre(5, 0, 0, 0));
  EXPECT_THAT(prefill[1].values, ElementsAre(1, 1));
  EXPECT_THAT(prefill[2].values, ElementsAre(3, 16)) << "behind the slots of requests";
  const std::vector<StepArray> decode =
      decoder->ArraysOf({.prefill = false, .tokens = {5}, .positions = {8}, .slots = {3}});
  EXPECT_THAT(decode[1].values, ElementsAre(8, 0));
  EXPECT_THAT(decode[2].values, ElementsAre(3, 16));
}

TEST_F(PackageDecoderTest, OtherProgramsAreRefusedWithTheirPlace) {
  EXPECT_THAT(Refusal([](Json& manifest) {
                manifest["programs"]["generate"] = manifest["programs"]["decode"];
                manifest["programs"].erase("decode");
                manifest["entry"] = "prefill";
              }),
              HasSubstr("/programs/decode is missing"));
  EXPECT_THAT(Refusal([](Json& manifest) {
                manifest["programs"]["decode"]["inputs"] = {"slots", "positions", "tokens", "keys",
                                                            "values"};
              }),
              HasSubstr("/programs/decode has the inputs slots, positions, tokens, keys, values"));
  EXPECT_THAT(
      Refusal([](Json& manifest) { Buffer(manifest, "prefill", "lengths")["dtype"] = "u32"; }),
      HasSubstr("has lengths as"));
}

TEST_F(PackageDecoderTest, PaddingThatWouldWriteOverARequestIsRefused) {
  EXPECT_THAT(Refusal([](Json& manifest) { Buffer(manifest, "decode", "slots")["fill"] = "zero"; }),
              HasSubstr("/programs/decode/buffers/slots/fill is 0"));
  EXPECT_THAT(Refusal([](Json& manifest) {
                Buffer(manifest, "prefill", "slots")["fill"] = {{"value", "17.0"}};
              }),
              HasSubstr("/programs/prefill/buffers/slots/fill is 17"));
}

TEST_F(PackageDecoderTest, WeightsThatAreNotDescribedAreMissed) {
  EXPECT_THAT(Refusal([](Json& manifest) { manifest["constants"]["embedding"].erase("x-random"); }),
              HasSubstr("/constants/embedding has no data and no x-random"));
}

// Runs on the emulator and returns the report; the exit code must be 0.
Json Serve(std::vector<std::string> arguments, const std::string& path = kDecoderZip) {
  arguments.insert(arguments.begin(),
                   {"run", "--package", path, "--device", "host", "--json", "--quiet"});
  return JsonOf(RunCoppice(arguments));
}

TEST(RunPackageTest, VerifiedAndPoisonedRunHasNoMismatchAndNoFinding) {
  const Json report = Serve({"--requests", "3", "--shrink", "256", "--verify", "all", "--poison"});
  EXPECT_EQ(report["mismatches"], 0);
  EXPECT_EQ(report["findings"], 0);
  EXPECT_EQ(report["kernels"], "ptx");
  EXPECT_EQ(report["package"], kDecoderZip);
  EXPECT_EQ(report["targets"]["sm_80 ptx"], 49);
  const int64_t steps =
      report["prefill_steps"].get<int64_t>() + report["decode_steps"].get<int64_t>();
  EXPECT_EQ(report["verified_steps"], steps);
  EXPECT_EQ(report["calls"], 2 * steps);
  EXPECT_EQ(report["warm_ups"], 0) << "what a package does is known";
  EXPECT_EQ(report["replays"].get<int64_t>() + report["records"].get<int64_t>(), 2 * steps);
  EXPECT_GE(report["pool_height_bytes"], report["max_bucket_live_bytes"]);
  EXPECT_LE(report["pool_height_bytes"].get<double>(),
            1.02 * report["max_bucket_live_bytes"].get<double>());
}

TEST(RunPackageTest, ReplaysAtExactSizesComputeNoPaddingAndAreTold) {
  const TemporaryFolder folder;
  const std::string trace = folder / "exact.trace";
  const Json report = Serve({"--requests", "4", "--shrink", "32", "--verify", "all", "--exact",
                             "always", "--trace-out", trace});
  EXPECT_EQ(report["mismatches"], 0);
  EXPECT_EQ(report["findings"], 0);
  EXPECT_EQ(report["pad_computed_pct"], 0);
  EXPECT_EQ(report["families"], 2) << "one per program";
  EXPECT_EQ(report["executables"], 2);
  EXPECT_GT(report["graphs"], 2);
  EXPECT_EQ(report["exact_replays"], report["calls"]);
  EXPECT_GT(report["patched_nodes"], 0);
  const Json summary = JsonOf(RunCoppice({"prof", "summary", trace, "--json"}));
  EXPECT_EQ(summary["exact_replays"], report["exact_replays"]);
  EXPECT_EQ(summary["executables"], report["executables"]);
  EXPECT_EQ(summary["graphs_recorded"], report["graphs"]);
  const CommandOutcome again = RunCoppice({"prof", "whatif", trace, "--json"});
  EXPECT_EQ(again.code, kExitMismatch) << "what-if has a graph per bucket";
  for (const char* const gap : {"'prefill' replays at the sizes", "'decode' replays at the sizes"})
    EXPECT_THAT(again.out, HasSubstr(gap));
}

TEST(RunPackageTest, BucketsAreLearnedAgainAsOfAnyModel) {
  const Json report =
      Serve({"--requests", "6", "--shrink", "256", "--verify", "all", "--relearn=3"});
  EXPECT_EQ(report["mismatches"], 0);
  EXPECT_EQ(report["findings"], 0);
  const Json& prompts = report["relearn"]["symbols"][0];
  EXPECT_EQ(prompts["program"], "prefill");
  EXPECT_EQ(prompts["symbol"], "length");
  EXPECT_EQ(prompts["looks"], 2);
  EXPECT_GE(prompts["swaps"].size(), 1U);
  EXPECT_GE(prompts["graphs_recorded"], 1);
}

TEST(RunPackageTest, APaddedProgramThatComputesAnotherResultIsAMismatch) {
  // The programs of a padded length lack a step that those of real lengths have.
  const TemporaryFolder folder;
  const std::string path = WriteEdited(folder / "edited.zip", [](Json& manifest) {
    Json& steps = manifest["programs"]["prefill"]["steps"];
    steps[4]["if"] = "length % 16 != 0";
  });
  const CommandOutcome outcome =
      RunCoppice({"run", "--package", path, "--device", "host", "--json", "--quiet", "--requests",
                  "1", "--shrink", "128", "--verify", "all", "--prefill-policy", "linear:16"});
  EXPECT_EQ(outcome.code, kExitMismatch);
  EXPECT_GT(Json::parse(outcome.out)["mismatches"], 0);
}

TEST(RunPackageTest, DumpedStepsHaveEveryRowAndItsLogits) {
  const TemporaryFolder folder;
  const Json report = Serve(
      {"--requests", "2", "--shrink", "256", "--verify", "none", "--dump-steps", folder / "steps"});
  const std::string lines = package::ReadBytes(folder / "steps/steps.jsonl");
  int64_t steps = 0;
  size_t rows = 0;
  for (size_t start = 0, end = 0; (end = lines.find('\n', start)) != std::string::npos;
       start = end + 1, ++steps) {
    const Json step = Json::parse(lines.substr(start, end - start));
    EXPECT_EQ(step["next_tokens"].size(), step["slots"].size());
    EXPECT_EQ(step["requests"].size(), step["slots"].size());
    EXPECT_EQ(step["positions"].size(), step["prefill"] ? 0 : step["slots"].size());
    rows += step["slots"].size();
  }
  EXPECT_EQ(steps, report["prefill_steps"].get<int64_t>() + report["decode_steps"].get<int64_t>());
  EXPECT_EQ(package::ReadBytes(folder / "steps/logits.f32").size(), rows * 512 * sizeof(float));
}

TEST(RunPackageTest, WhatDoesNotFitIsRefusedInOneLine) {
  const auto refusal = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"run", "--device", "host", "--quiet"});
    const CommandOutcome outcome = RunCoppice(arguments);
    EXPECT_EQ(outcome.code, kExitUsage);
    EXPECT_THAT(outcome.out, IsEmpty());
    EXPECT_THAT(outcome.err, StartsWith("coppice run: "));
    return outcome.err;
  };
  EXPECT_THAT(refusal({"--package", kDecoderZip, "--slots", "17"}),
              HasSubstr("serves up to 16 requests at once"));
  EXPECT_THAT(refusal({"--package", kDecoderZip, "--shrink", "1"}), HasSubstr("give --shrink 16"));
  EXPECT_THAT(refusal({"--package", "no_such.zip"}), HasSubstr("no_such.zip"));
}

}  // namespace
}  // namespace coppice
