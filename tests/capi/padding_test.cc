// Goal: coppice.h says what buckets a policy has, of one size or of two together, gives joint
// policies to programs, and learns policies from sizes.
// Method: ladders and pairs in words and in JSON against lists written out; programs of packages
// and callables by the buckets that calls get; a learned policy against one found by hand, read
// back as any other; what cannot be is an error that says where.

#include "nlohmann/json.hpp"

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

using nlohmann::json;
using testing::Pair;

coppice_policy PolicyOf(const char* text, int64_t maximum) {
  coppice_policy policy = {.struct_size = sizeof(policy)};
  policy.text = text;
  policy.maximum = maximum;
  return policy;
}

// The first buckets, as many as `room`; fewer if there are fewer.
std::vector<int64_t> BucketsOf(const char* text, int64_t maximum, size_t room = 64) {
  const coppice_policy policy = PolicyOf(text, maximum);
  std::vector<int64_t> buckets(room, -1);
  int64_t count = 0;
  EXPECT_C_OK(coppice_policy_buckets(&policy, buckets.data(), static_cast<int64_t>(room), &count));
  if (static_cast<size_t>(count) < room) buckets.resize(static_cast<size_t>(count));
  return buckets;
}

coppice_joint_policy JointOf(const char* text, int64_t a_maximum = 0, int64_t b_maximum = 0) {
  return {.struct_size = sizeof(coppice_joint_policy),
          .reserved = 0,
          .a = "batch",
          .b = "length",
          .text = text,
          .a_maximum = a_maximum,
          .b_maximum = b_maximum};
}

// The first buckets, as many as `room`; fewer if there are fewer.
std::vector<std::pair<int64_t, int64_t>> BucketsOf(const coppice_joint_policy& policy,
                                                   int64_t room = 64) {
  std::vector<int64_t> numbers(2 * static_cast<size_t>(room), -1);
  int64_t count = 0;
  EXPECT_C_OK(coppice_joint_policy_buckets(&policy, numbers.data(), room, &count));
  std::vector<std::pair<int64_t, int64_t>> buckets;
  for (int64_t i = 0; i < std::min(count, room); ++i)
    buckets.emplace_back(numbers[2 * static_cast<size_t>(i)],
                         numbers[2 * static_cast<size_t>(i) + 1]);
  return buckets;
}

coppice_learn_options OptionsOf(int64_t bucket_count, int64_t limit) {
  coppice_learn_options options = {.struct_size = sizeof(options)};
  options.bucket_count = bucket_count;
  options.limit = limit;
  return options;
}

class Learned {
 public:
  Learned(const std::vector<int64_t>& sizes,
          const double* counts,
          const coppice_learn_options& options) {
    const auto learn = [&](char* buffer, size_t buffer_bytes) {
      return coppice_learn_policy(sizes.data(), counts, static_cast<int64_t>(sizes.size()),
                                  &options, buffer, buffer_bytes, &bytes_);
    };
    EXPECT_C_OK(learn(nullptr, 0));
    text_.resize(bytes_ + 1);
    EXPECT_C_OK(learn(text_.data(), text_.size()));
    text_.resize(bytes_);
  }
  const std::string& text() const { return text_; }
  std::vector<int64_t> buckets() const { return nlohmann::json::parse(text_)["buckets"]; }

 private:
  size_t bytes_ = 0;
  std::string text_;
};

TEST(CPaddingTest, LaddersInWordsAndInJsonHaveTheirBuckets) {
  EXPECT_THAT(BucketsOf("pow2", 24), ElementsAre(1, 2, 4, 8, 16, 24));
  EXPECT_THAT(BucketsOf("4,2,9", 9), ElementsAre(2, 4, 9));
  EXPECT_THAT(BucketsOf(R"({"version": 1, "buckets": [3, 8]})", 0), ElementsAre(3, 8));
  EXPECT_THAT(BucketsOf(R"({"version": 1, "ladder": "linear:8", "maximum": 20})", 0),
              ElementsAre(8, 16, 20));
  EXPECT_THAT(BucketsOf("exact", 4), ElementsAre(1, 2, 3, 4));
}

TEST(CPaddingTest, APresetHasAMaximumOfItsOwn) {
  EXPECT_EQ(BucketsOf("vllm", 0, 100).back(), 512);
  EXPECT_EQ(BucketsOf("vllm", 64, 100).back(), 64);
}

TEST(CPaddingTest, NoMoreIsWrittenThanThereIsRoomForAndTheCountIsOfAll) {
  for (const char* const text : {"pow2", "exact"}) {
    const coppice_policy policy = PolicyOf(text, 1 << 20);
    int64_t buckets[3] = {0, 0, -7};
    int64_t count = 0;
    ASSERT_C_OK(coppice_policy_buckets(&policy, buckets, 2, &count));
    EXPECT_THAT(buckets, ElementsAre(1, 2, -7)) << text;
    EXPECT_EQ(count, text == std::string("exact") ? 1 << 20 : 21);
    ASSERT_C_OK(coppice_policy_buckets(&policy, nullptr, 0, &count));
  }
}

TEST(CPaddingTest, WhatIsNoPolicyIsAnError) {
  int64_t count = 7;
  coppice_policy policy = PolicyOf("pow3", 64);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "pow3",
                 coppice_policy_buckets(&policy, nullptr, 0, &count));
  EXPECT_EQ(count, 0);
  policy = PolicyOf("pow2", 0);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "give its maximum",
                 coppice_policy_buckets(&policy, nullptr, 0, &count));
  policy = PolicyOf(R"({"version": 2, "buckets": [1]})", 0);
  EXPECT_C_ERROR(COPPICE_UNIMPLEMENTED, "version",
                 coppice_policy_buckets(&policy, nullptr, 0, &count));
  policy = PolicyOf("pow2", 64);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "capacity",
                 coppice_policy_buckets(&policy, nullptr, 1, &count));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "capacity",
                 coppice_policy_buckets(&policy, nullptr, -1, &count));
  policy.struct_size = 0;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_policy)",
                 coppice_policy_buckets(&policy, nullptr, 0, &count));
}

TEST(CPaddingTest, JointPoliciesInWordsAndInJsonHaveTheirBuckets) {
  const std::vector<std::pair<int64_t, int64_t>> pairs = {{4, 128}, {1, 512}, {4, 512}};
  for (const coppice_joint_policy& policy :
       {JointOf("1x512,4x128", 4, 512),
        JointOf(R"({"version": 1, "buckets": [[1, 512], [4, 128]]})"),
        JointOf(R"({"version": 1, "buckets": [[1, 512], [4, 128]]})", 4, 512)}) {
    const auto buckets = BucketsOf(policy);
    EXPECT_THAT(buckets, testing::UnorderedElementsAreArray(pairs)) << policy.text;
  }
  EXPECT_THAT(BucketsOf(JointOf("pow2/linear:8", 2, 16)),
              ElementsAre(Pair(1, 8), Pair(1, 16), Pair(2, 8), Pair(2, 16)));
}

TEST(CPaddingTest, APresetOfAJointPolicyHasAMaximumOfItsOwn) {
  EXPECT_EQ(BucketsOf(JointOf("vllm/2,4", 0, 4), 4096).back(), std::pair(int64_t{512}, int64_t{4}));
  EXPECT_EQ(BucketsOf(JointOf("2,4/vllm", 4, 0), 4096).back(), std::pair(int64_t{4}, int64_t{512}));
}

TEST(CPaddingTest, NoMoreBucketsOfAJointPolicyAreWrittenThanThereIsRoomFor) {
  const coppice_joint_policy policy = JointOf("pow2/pow2", 4, 4);
  int64_t buckets[5] = {0, 0, 0, 0, -7};
  int64_t count = 0;
  ASSERT_C_OK(coppice_joint_policy_buckets(&policy, buckets, 2, &count));
  EXPECT_THAT(buckets, ElementsAre(1, 1, 1, 2, -7));
  EXPECT_EQ(count, 9);
  const coppice_joint_policy large = JointOf("exact/exact", 1024, 1024);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "but at most 65536",
                 coppice_joint_policy_buckets(&large, buckets, 2, &count));
  ASSERT_C_OK(coppice_joint_policy_buckets(&large, nullptr, 0, &count));
  EXPECT_EQ(count, 1024 * 1024);
}

TEST(CPaddingTest, WhatIsNoJointPolicyIsAnError) {
  int64_t count = 7;
  const auto buckets = [&count](const coppice_joint_policy& policy) {
    return coppice_joint_policy_buckets(&policy, nullptr, 0, &count);
  };
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "pow3", buckets(JointOf("pow3/pow2", 4, 4)));
  EXPECT_EQ(count, 0);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "give the maxima", buckets(JointOf("1x2", 4)));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "give the maxima", buckets(JointOf("pow2/vllm")));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "give the maxima", buckets(JointOf(nullptr)));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "its limit is 4x8",
                 buckets(JointOf(R"({"version": 1, "buckets": [[4, 8]]})", 4, 9)));
  EXPECT_C_ERROR(COPPICE_UNIMPLEMENTED, "version",
                 buckets(JointOf(R"({"version": 2, "buckets": [[4, 8]]})")));
  const coppice_joint_policy policy = JointOf("1x2", 4, 4);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "capacity",
                 coppice_joint_policy_buckets(&policy, nullptr, 1, &count));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_joint_policy)",
                 buckets(coppice_joint_policy{}));
}

// Programs of x [batch, length] and y = 3 x.
class CJointTest : public CallableFixture {
 protected:
  static json PairProgram() {
    const auto symbol = [](int64_t max) {
      return json{{"min", 1},
                  {"max", max},
                  {"buckets", "pow2"},
                  {"claim", {{"padding", "any"}, {"equal", "bits"}}}};
    };
    const json shape = {"batch", "length"};
    return {
        {"symbols", {{"batch", symbol(8)}, {"length", symbol(512)}}},
        {"inputs", {"x"}},
        {"outputs", {"y"}},
        {"buffers",
         {{"x", package::FloatBuffer("input", shape)},
          {"y", package::FloatBuffer("output", shape)}}},
        {"steps", nlohmann::json::array({package::ScaleStep("x", "y", "batch * length", "3")})}};
  }
  coppice_status RegisterPair(const coppice_package_program_options& options) {
    return coppice_register_package(session_, package_, "main", &options, &program_);
  }
  static coppice_package_program_options OptionsWith(const coppice_joint_policy& policy) {
    coppice_package_program_options options = {.struct_size = sizeof(options)};
    options.joint = &policy;
    options.joint_count = 1;
    return options;
  }

  coppice_status RegisterCallable(const coppice_joint_policy& policy,
                                  int32_t claim = COPPICE_CLAIM_ROW_INDEPENDENT,
                                  int32_t fill = COPPICE_FILL_ZERO) {
    static constexpr const char* kShape[] = {"batch", "length"};
    coppice_symbol_spec symbols[2] = {};
    for (size_t i = 0; i < 2; ++i) {
      symbols[i].struct_size = sizeof(symbols[i]);
      symbols[i].kind = COPPICE_SYMBOL_DYNAMIC;
      symbols[i].name = kShape[i];
    }
    coppice_tensor_spec x = {.struct_size = sizeof(x)};
    x.dtype = {kDLFloat, 32, 1};
    x.name = "x";
    x.shape = kShape;
    x.rank = 2;
    coppice_tensor_spec y = x;
    y.name = "y";
    x.fill = fill;
    coppice_program_spec spec = {.struct_size = sizeof(spec)};
    spec.claim = claim;
    spec.name = "pair";
    spec.symbols = symbols;
    spec.symbol_count = 2;
    spec.inputs = &x;
    spec.input_count = 1;
    spec.outputs = &y;
    spec.output_count = 1;
    spec.joint = &policy;
    spec.joint_count = 1;
    return coppice_register_callable(
        session_, &spec,
        [](void* user, coppice_context* context) {
          const auto* const test = static_cast<const CJointTest*>(user);
          int64_t batch = 0;
          int64_t length = 0;
          EXPECT_C_OK(coppice_context_extent(context, 0, &batch));
          EXPECT_C_OK(coppice_context_extent(context, 1, &length));
          return test->LaunchScale(InputOf(context), OutputOf(context),
                                   static_cast<uint32_t>(batch * length), 3,
                                   InfoOf(context).stream);
        },
        this, nullptr, &program_);
  }

  // Runs a call whose rows have no gaps in their bucket, and expects its values.
  void ExpectCall(int64_t batch, int64_t length) {
    const std::vector<float> values = Ramp(batch * length);
    DLTensor x = Upload(values);
    int64_t shape[] = {batch, length};
    x.ndim = 2;
    x.shape = shape;
    coppice_lease* const lease = LeaseOf(program_, x);
    coppice_read* scope = nullptr;
    ASSERT_C_OK(coppice_lease_read(lease, stream_, &scope));
    coppice_view view = {.struct_size = sizeof(view)};
    ASSERT_C_OK(coppice_read_output(scope, 0, &view));
    std::vector<float> y(values.size());
    EXPECT_C_OK(coppice_copy_to_host(device_, y.data(), AddressOf(view.tensor),
                                     static_cast<int64_t>(y.size() * sizeof(float)), stream_));
    EXPECT_EQ(y, Ramp(batch * length, 3));
    coppice_read_end(scope);
    coppice_lease_release(lease);
  }
  void ExpectPairs() {
    for (int i = 0; i < 3; ++i) {
      ExpectCall(3, 128);
      ExpectCall(1, 300);
    }
    std::vector<json> buckets;
    for (const json& bucket : Buckets())
      buckets.push_back(bucket["bucket"]);
    EXPECT_THAT(buckets, UnorderedElementsAre(json{4, 128}, json{1, 512}));
  }
};

TEST_F(CJointTest, TwoSymbolsOfAPackageArePaddedTogether) {
  Load(PairProgram());
  const coppice_joint_policy policy = JointOf("1x512,4x128", 4, 512);
  ASSERT_C_OK(RegisterPair(OptionsWith(policy)));
  ExpectPairs();
}

TEST_F(CJointTest, TwoSymbolsOfACallableArePaddedTogether) {
  LoadKernels();
  ASSERT_C_OK(coppice_session_create(device_, nullptr, &session_));
  ASSERT_C_OK(RegisterCallable(JointOf(R"({"version": 1, "buckets": [[1, 512], [4, 128]]})")));
  ExpectPairs();
}

// Padding that holds what was there tells claims apart.
TEST_F(CJointTest, AProgramClaimsWhatItsPaddingMayHold) {
  LoadKernels();
  ASSERT_C_OK(coppice_session_create(device_, nullptr, &session_));
  const coppice_joint_policy policy = JointOf("1x512,4x128", 4, 512);
  const auto claims = [&](int32_t claim) {
    return RegisterCallable(policy, claim, COPPICE_FILL_UNDEFINED);
  };
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "claims finite values", claims(COPPICE_CLAIM_FINITE));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "claims exactly its fill", claims(COPPICE_CLAIM_FILL));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "claim", claims(COPPICE_CLAIM_EXACT));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "program: claim", claims(COPPICE_CLAIM_FILL + 1));
  EXPECT_C_OK(claims(COPPICE_CLAIM_ANY));
}

TEST_F(CJointTest, WhatAJointPolicyDoesNotHeedIsRefused) {
  Load(PairProgram());
  coppice_joint_policy policy = JointOf("1x512,4x128", 4, 512);
  policy.b = "width";
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "'width', which is not a symbol",
                 RegisterPair(OptionsWith(policy)));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "the spec has nothing called 'width'",
                 RegisterCallable(policy));
  policy.b = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "joint policy: b: give a name",
                 RegisterPair(OptionsWith(policy)));
  coppice_package_program_options options = OptionsWith(policy);
  options.joint = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "coppice_joint_policy: null", RegisterPair(options));
  EXPECT_THAT(Buckets(), IsEmpty());
}

TEST(CPaddingTest, CountsWeighSizesAndOptionsBoundBuckets) {
  const std::vector<int64_t> sizes = {10, 20, 10};
  const double counts[] = {1, 1000, 1};
  EXPECT_THAT(BucketsOf(Learned(sizes, nullptr, OptionsOf(2, 0)).text().c_str(), 0),
              ElementsAre(10, 20));
  coppice_learn_options options = OptionsOf(2, 64);
  // With a prior those of the count end at the largest size, and others double up to the limit.
  EXPECT_THAT(Learned(sizes, counts, options).buckets(), ElementsAre(testing::_, 20, 40, 64));
  options.prior = -1;
  EXPECT_THAT(Learned(sizes, counts, options).buckets(), ElementsAre(20, 64));
  const int64_t forced[] = {33};
  options.bucket_count = 3;
  options.forced = forced;
  options.forced_count = 1;
  options.align = 8;
  EXPECT_THAT(Learned(sizes, counts, options).buckets(), ElementsAre(24, 33, 64));
  options = OptionsOf(0, 64);
  options.price = 1e9;
  options.prior = -1;
  EXPECT_THAT(Learned(sizes, counts, options).buckets(), ElementsAre(64));
  options = OptionsOf(7, 64);
  options.max_ratio = 2;
  int64_t before = 0;
  for (const int64_t bucket : Learned(sizes, counts, options).buckets()) {
    EXPECT_LE(bucket, 2 * (before + 1));
    before = bucket;
  }
}

TEST(CPaddingTest, WhatNothingIsLearnedFromIsAnError) {
  const std::vector<int64_t> sizes = {5, 9};
  const auto learn = [&](const coppice_learn_options* options, const double* counts = nullptr) {
    return coppice_learn_policy(sizes.data(), counts, 2, options, nullptr, 0, nullptr);
  };
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "neither a count nor a price", learn(nullptr));
  coppice_learn_options options = OptionsOf(2, 0);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "no call",
                 coppice_learn_policy(nullptr, nullptr, 0, &options, nullptr, 0, nullptr));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "null, but",
                 coppice_learn_policy(nullptr, nullptr, 3, &options, nullptr, 0, nullptr));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizes: their count is -1",
                 coppice_learn_policy(sizes.data(), nullptr, -1, &options, nullptr, 0, nullptr));
  for (const double count : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN()}) {
    const double counts[] = {1, count};
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "count", learn(&options, counts));
  }
  options.bucket_count = 100;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", learn(&options));
  options = OptionsOf(2, -4);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "limit", learn(&options));
  options = OptionsOf(2, 0);
  options.forced_count = 1;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "forced", learn(&options));
  options.struct_size = 2;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_learn_options)", learn(&options));
}

}  // namespace
}  // namespace coppice
