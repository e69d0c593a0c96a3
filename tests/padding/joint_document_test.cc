// Goal: every sentence of joint_document.h. Method: the header's examples, policies of every kind
// written and read back, and documents that each break one rule.

#include "coppice/padding/joint_document.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

absl::StatusOr<JointDocument> Read(const std::string& text) {
  return ReadJointDocument(text, "p.json");
}

TEST(JointDocumentTest, ReadsTheExamples) {
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const JointDocument list,
      Read(R"({"version": 1, "buckets": [[1, 1024], [2, 256], [4, 1024]]})"));
  EXPECT_EQ(list.policy.limit(), (JointSize{4, 1024}));
  EXPECT_EQ(list.policy.name(), "2x256,1x1024,4x1024");
  EXPECT_EQ(list.learned, std::nullopt);
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const JointDocument grid,
      Read(R"({"version": 1, "grid": "pow2/linear:64", "limit": [4, 1024]})"));
  EXPECT_EQ(grid.policy.name(), "pow2/linear:64");
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const JointDocument all,
      Read(R"({"version": 1, "buckets": [[4, 256], [1, 1024]], "budget": 1024,
               "ordered": true, "guard": {"max_ratio": "2", "min_replay_elements": 64},
               "learned": {"waste_pct": "7.31", "mass": "2778"}, "x-note": [1]})"));
  EXPECT_THAT(all.policy.buckets(), ElementsAre(JointSize{4, 256}, JointSize{1, 1024}));
  EXPECT_EQ(all.policy.budget(), 1024);
  EXPECT_EQ(all.policy.guard(), (JointGuard{2, 64}));
  EXPECT_EQ(all.learned, (JointLearnedFrom{7.31, 2778}));
}

TEST(JointDocumentTest, AListWithoutALimitHasTheLargestOfItsExtents) {
  EXPECT_EQ(Read(R"({"version": 1, "buckets": [[1, 9], [3, 2]]})")->policy.name(), "3x2,1x9,3x9");
  EXPECT_EQ(Read(R"({"version": 1, "buckets": [[1, 9]], "limit": [2, 9]})")->policy.name(),
            "1x9,2x9");
}

TEST(JointDocumentTest, ReadsBackWhatItWrites) {
  for (const char* text :
       {"pow2/pow2", "exact/geometric:1.1:8/budget:512", "1x64,4x16", "ordered:4x16,1x7",
        "ordered:4x16,1x7/budget:128", "1x64,4x16/budget:64"}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const JointPolicy plain, JointPolicy::Parse(text, {8, 64}));
    COPPICE_ASSERT_OK_AND_ASSIGN(
        const JointPolicy guarded,
        plain.WithGuard({.max_ratio = 1 + 1e-15, .min_replay_elements = 5}));
    for (const JointPolicy& policy : {plain, guarded}) {
      for (const std::optional<JointLearnedFrom> learned :
           {std::optional<JointLearnedFrom>(), std::optional(JointLearnedFrom{0.1 + 0.2, 1e300})}) {
        const std::string written = WriteJointDocument({policy, learned});
        EXPECT_TRUE(IsJointDocument(written)) << written;
        EXPECT_THAT(written, Not(HasSubstr("\n")));
        COPPICE_ASSERT_OK_AND_ASSIGN(const JointDocument again, Read(written));
        EXPECT_EQ(again.policy.name(), policy.name()) << written;
        EXPECT_EQ(again.policy.limit(), policy.limit()) << written;
        EXPECT_EQ(again.policy.guard(), policy.guard()) << written;
        EXPECT_EQ(again.learned, learned) << written;
      }
    }
  }
}

TEST(JointDocumentTest, KnowsItsDocumentsFromThoseOfOneSymbol) {
  for (const char* text :
       {"", "[1]", "{", R"({"version": 1, "buckets": [1, 2]})", R"({"version": 1, "buckets": []})",
        R"({"version": 1, "ladder": "pow2", "maximum": 4})"})
    EXPECT_FALSE(IsJointDocument(text)) << text;
  EXPECT_TRUE(IsJointDocument(R"({"grid": 1})"));
  EXPECT_TRUE(IsJointDocument(R"({"version": 2, "buckets": [[1, 2]]})"));
}

TEST(JointDocumentTest, AnotherVersionIsUnimplemented) {
  for (const char* text : {R"({"buckets": [[1, 2]]})", R"({"version": 2, "buckets": [[1, 2]]})",
                           R"({"version": 0, "x": 1})"})
    EXPECT_THAT(Read(text), StatusIs(absl::StatusCode::kUnimplemented)) << text;
}

TEST(JointDocumentTest, RefusesWhatBreaksARule) {
  const std::string list = R"("buckets": [[1, 2]])";
  for (const std::string& members : std::vector<std::string>{
           R"("limit": [1, 2])",
           R"("buckets": [])",
           R"("buckets": 3)",
           R"("buckets": {})",
           R"("buckets": [1, 2])",
           R"("buckets": [[1]])",
           R"("buckets": [[1, 2, 3]])",
           R"("buckets": [[1, "2"]])",
           R"("buckets": [[1, 2.0]])",
           R"("buckets": [[1, -2]])",
           R"("buckets": [[1, 18446744073709551615]])",
           R"("buckets": [[0, 1]])",
           R"("grid": "pow2/pow2")",
           R"("grid": "pow2", "limit": [1, 2])",
           R"("grid": 4, "limit": [1, 2])",
           R"("grid": "1x2", "limit": [1, 2])",
           R"("grid": "pow2/pow2/budget:4", "limit": [1, 2])",
           R"("grid": "pow2/none", "limit": [1, 2])",
           R"("grid": "pow2/pow2", "limit": [0, 2])",
           R"("grid": "pow2/pow2", "limit": [1, 2], "ordered": true)",
           R"("grid": "pow2/pow2", "limit": [8, 8], "budget": 7)",
           list + R"(, "grid": "pow2/pow2")",
           list + R"(, "limit": 4)",
           list + R"(, "limit": [1, 1])",
           list + R"(, "budget": "4")",
           list + R"(, "budget": 1)",
           list + R"(, "ordered": 1)",
           list + R"(, "bucket": [])",
           list + R"(, "guard": 2)",
           list + R"(, "guard": {})",
           list + R"(, "guard": {"max_ratio": 2})",
           list + R"(, "guard": {"max_ratio": "0.5"})",
           list + R"(, "guard": {"max_ratio": "2", "min": 1})",
           list + R"(, "guard": {"max_ratio": "2", "min_replay_elements": -1})",
           list + R"(, "learned": 2)",
           list + R"(, "learned": {"waste_pct": "1"})",
           list + R"(, "learned": {"waste_pct": "-1", "mass": "1"})",
           list + R"(, "learned": {"waste_pct": "nan", "mass": "1"})",
           list + R"(, "learned": {"waste_pct": "1", "mass": "inf"})",
           list + R"(, "learned": {"waste_pct": "1", "mass": "1x"})"}) {
    const absl::StatusOr<JointDocument> read = Read(R"({"version": 1, )" + members + "}");
    ASSERT_THAT(read, StatusIs(kWrongArgument)) << members;
    EXPECT_EQ(read.status().message().substr(0, 7), "p.json:") << read.status();
    EXPECT_EQ(read.status().message().find('\n'), std::string::npos) << read.status();
  }
  for (const char* text : {"", "null", "[]", "{", "{\"version\": 1,}"})
    EXPECT_THAT(Read(text), StatusIs(kWrongArgument)) << text;
}

}  // namespace
}  // namespace coppice
