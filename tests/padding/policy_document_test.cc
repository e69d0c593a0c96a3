// Goal: every sentence of policy_document.h. Method: the header's documents, what is written read
// back, and each field broken by itself.

#include "coppice/padding/policy_document.h"

#include "tests/support/test.h"

namespace coppice {
namespace {

TEST(PolicyDocumentTest, ReadsTheDocumentsOfTheHeader) {
  const absl::StatusOr<PolicyDocument> list =
      ReadPolicyDocument(R"({"version": 1, "buckets": [1, 2, 4, 64]})", "p.json");
  ASSERT_TRUE(list.ok()) << list.status();
  EXPECT_THAT(list->policy.buckets(), ElementsAre(1, 2, 4, 64));
  EXPECT_EQ(list->learned, std::nullopt);
  EXPECT_EQ(list->policy.guard(), PaddingGuard());
  const absl::StatusOr<PolicyDocument> ladder =
      ReadPolicyDocument(R"({"version": 1, "ladder": "vllm", "maximum": 64})", "p.json");
  ASSERT_TRUE(ladder.ok()) << ladder.status();
  EXPECT_EQ(ladder->policy.name(), "vllm");
  EXPECT_EQ(ladder->policy.maximum(), 64);
  const absl::StatusOr<PolicyDocument> all = ReadPolicyDocument(
      R"({"version": 1, "buckets": [8, 64],
          "guard": {"max_ratio": "2", "min_replay_size": 4, "lower_bounds": [1, 16]},
          "learned": {"waste_pct": "5.31", "mass": "12340", "limit": 64}, "x-who": {}})",
      "p.json");
  ASSERT_TRUE(all.ok()) << all.status();
  EXPECT_EQ(all->policy.guard(),
            (PaddingGuard{.max_ratio = 2, .min_replay_size = 4, .lower_bounds = {1, 16}}));
  EXPECT_EQ(all->policy.Find(20), std::nullopt);
  EXPECT_EQ(all->learned, (LearnedFrom{.waste_pct = 5.31, .mass = 12340, .limit = 64}));
}

TEST(PolicyDocumentTest, TakesTheMaximumThatIsAskedFor) {
  const char* const pow2 = R"({"version":1,"ladder":"pow2"})";
  EXPECT_EQ(ReadPolicyDocument(pow2, "p", 48)->policy.maximum(), 48);
  EXPECT_FALSE(ReadPolicyDocument(pow2, "p").ok());
  const char* const list = R"({"version":1,"buckets":[1,2]})";
  EXPECT_THAT(ReadPolicyDocument(list, "p", 48)->policy.buckets(), ElementsAre(1, 2, 48));
  EXPECT_FALSE(ReadPolicyDocument(list, "p", 1).ok());
  const char* const own = R"({"version":1,"ladder":"pow2","maximum":64})";
  EXPECT_TRUE(ReadPolicyDocument(own, "p", 64).ok());
  EXPECT_FALSE(ReadPolicyDocument(own, "p", 48).ok());
}

TEST(PolicyDocumentTest, ReadsBackWhatItWrites) {
  const std::vector<int64_t> buckets = {1, 5, 40};
  const PaddingGuard guards[] = {
      {}, {.max_ratio = 1.1}, {.min_replay_size = 3}, {.max_ratio = 2, .lower_bounds = {0, 3, 6}}};
  for (const PaddingGuard& guard : guards) {
    const PolicyDocument document = {
        .policy = *PaddingPolicy::List(buckets, 40)->WithGuard(guard),
        .learned = LearnedFrom{.waste_pct = 1.0 / 3, .mass = 1e9 + 0.1, .limit = 40}};
    const std::string text = WritePolicyDocument(document);
    EXPECT_EQ(text.find('\n'), std::string::npos);
    const absl::StatusOr<PolicyDocument> again = ReadPolicyDocument(text, "again");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(again->policy.buckets(), buckets);
    EXPECT_EQ(again->policy.guard(), guard);
    EXPECT_EQ(again->learned, document.learned);
    EXPECT_EQ(WritePolicyDocument(*again), text);
  }
  for (const char* name : {"exact", "pow2", "vllm", "geometric:1.25:8", "7,300"}) {
    const PolicyDocument document = {.policy = *PaddingPolicy::Parse(name, 300)};
    const PolicyDocument again = *ReadPolicyDocument(WritePolicyDocument(document), "again");
    EXPECT_EQ(again.policy.name(), name);
    EXPECT_EQ(again.policy.maximum(), 300);
  }
  EXPECT_EQ(WritePolicyDocument({.policy = *PaddingPolicy::List(buckets, 40)}),
            R"({"version":1,"buckets":[1,5,40]})");
}

TEST(PolicyDocumentTest, RefusesAnotherVersion) {
  for (const char* text : {R"({"version":2,"buckets":[1]})", R"({"version":"1","buckets":[1]})",
                           R"({"buckets":[1]})"}) {
    const absl::Status status = ReadPolicyDocument(text, "p.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(status.ToString(), HasSubstr("p.json: version"));
  }
}

TEST(PolicyDocumentTest, RefusesWhatIsNoDocumentWithItsPlace) {
  struct Broken {
    const char* text;
    const char* where;
  };
  for (const Broken& one : {
           Broken{"", "p.json"},
           {"[1,2]", "the root"},
           {R"({"version":1})", "ladder"},
           {R"({"version":1,"buckets":[]})", "/buckets"},
           {R"({"version":1,"buckets":{}})", "/buckets"},
           {R"({"version":1,"buckets":[1,"2"]})", "/buckets/1"},
           {R"({"version":1,"buckets":[0]})", "/buckets/0"},
           {R"({"version":1,"buckets":[-4]})", "/buckets/0"},
           {R"({"version":1,"buckets":[1,2.5]})", "2.5"},
           {R"({"version":1,"buckets":[2,1]})", "sort"},
           {R"({"version":1,"buckets":[1,1]})", "sort"},
           {R"({"version":1,"buckets":[1,20000000]})", "/buckets/1"},
           {R"({"version":1,"buckets":[9],"maximum":8})", "/buckets"},
           {R"({"version":1,"buckets":[9],"maximum":0})", "/maximum"},
           {R"({"version":1,"buckets":[9],"ladder":"pow2"})", "either"},
           {R"({"version":1,"ladder":"pow2"})", "maximum"},
           {R"({"version":1,"ladder":"pow3","maximum":8})", "/ladder"},
           {R"({"version":1,"ladder":2,"maximum":8})", "/ladder"},
           {R"({"version":1,"buckets":[9],"bucket":1})", "/bucket"},
           {R"({"version":1,"buckets":[9],"guard":1})", "/guard"},
           {R"({"version":1,"buckets":[9],"guard":{"ratio":"2"}})", "/guard/ratio"},
           {R"({"version":1,"buckets":[9],"guard":{"max_ratio":"0.5"}})", "/guard"},
           {R"({"version":1,"buckets":[9],"guard":{"max_ratio":"nan"}})", "/guard"},
           {R"({"version":1,"buckets":[9],"guard":{"min_replay_size":-1}})", "/min_replay_size"},
           {R"({"version":1,"buckets":[9],"guard":{"lower_bounds":[10]}})", "/guard"},
           {R"({"version":1,"buckets":[9],"guard":{"lower_bounds":[1,2]}})", "/guard"},
           {R"({"version":1,"buckets":[9],"learned":{}})", "/learned"},
           {R"({"version":1,"buckets":[9],
                "learned":{"waste_pct":"-1","mass":"1","limit":9}})",
            "/learned/waste_pct"},
           {R"({"version":1,"buckets":[9],
                "learned":{"waste_pct":"1","mass":"inf","limit":9}})",
            "/learned/mass"},
           {R"({"version":1,"buckets":[9],
                "learned":{"waste_pct":"1","mass":"1","limit":0}})",
            "/learned/limit"},
       }) {
    const absl::Status status = ReadPolicyDocument(one.text, "p.json").status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << one.text;
    EXPECT_THAT(status.ToString(), HasSubstr(one.where)) << one.text;
    EXPECT_THAT(status.ToString(), HasSubstr("p.json")) << one.text;
    EXPECT_EQ(status.ToString().find('\n'), std::string::npos);
  }
}

}  // namespace
}  // namespace coppice
