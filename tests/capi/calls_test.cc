// Goal: calls of coppice.h that build on each other, and what becomes of their outputs, are as the
// C++ headers have it: counts, donated leases, chains, parts, warmed steps, captures of the
// caller's. Method: callables that launch small PTX kernels, and a package of these, on the
// emulator, against products computed here; the emulator finds no race.

#include "nlohmann/json.hpp"

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

// Store(to, value)   the i64 at `to` is `value`
constexpr char kStore[] = R"(
.version 7.0
.target sm_80
.address_size 64
.visible .entry Store(.param .u64 to, .param .u64 value) {
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [to];
  ld.param.u64 %rd2, [value];
  st.global.u64 [%rd1], %rd2;
  ret;
}
)";

class CallsTest : public CallableFixture {
 protected:
  void SetUp() override {
    CallableFixture::SetUp();
    LoadKernels();
    ASSERT_C_OK(coppice_kernels_load(device_, kStore, sizeof(kStore) - 1, &store_));
  }
  void TearDown() override {
    coppice_kernels_release(store_);
    CallableFixture::TearDown();
  }

  // y = factor * x.
  coppice_program* RegisterScale(const char* name, float factor) {
    return RegisterBody(
        name, [this, factor](coppice_context* context) { return ScaleInput(context, factor); });
  }
  // y = x, z = 10 * x.
  coppice_program* RegisterPair() {
    return RegisterBody("pair",
                        [this](coppice_context* context) -> coppice_status {
                          const coppice_status scaled = ScaleInput(context, 1);
                          if (scaled != COPPICE_OK) return scaled;
                          return LaunchScale(InputOf(context), OutputOf(context, 1),
                                             ExtentOf(context), 10, InfoOf(context).stream);
                        },
                        {"y", "z"});
  }
  // y = x, of which the first `kept` elements count.
  coppice_program* RegisterKeep(int64_t kept) {
    return RegisterBody(
        "keep",
        [this, kept](coppice_context* context) -> coppice_status {
          const coppice_status scaled = ScaleInput(context, 1);
          if (scaled != COPPICE_OK) return scaled;
          coppice_kernel* store = nullptr;
          EXPECT_C_OK(coppice_kernel_get(store_, "Store", &store));
          uint64_t to = OutputOf(context, 1);
          int64_t value = kept;
          void* arguments[] = {&to, &value};
          coppice_launch_shape shape = {.struct_size = sizeof(shape)};
          shape.grid[0] = 1;
          shape.block[0] = 1;
          return coppice_launch(store, &shape, arguments, 2, InfoOf(context).stream);
        },
        {"y", "kept"},
        [](Spec& spec) {
          spec.outputs[0].count = "kept";
          spec.outputs[1].dtype = {kDLInt, 64, 1};
          spec.outputs[1].rank = 0;
        });
  }
  // y = x where the parameter block says that there is some, else 0.
  coppice_program* RegisterMask() {
    return RegisterBody(
        "mask",
        [this](coppice_context* context) {
          const coppice_context_info info = InfoOf(context);
          uint64_t x = InputOf(context);
          uint64_t y = OutputOf(context);
          uint32_t count = ExtentOf(context);
          uint64_t real = info.parameters;
          void* arguments[] = {&x, &y, &count, &real};
          coppice_launch_shape shape = {.struct_size = sizeof(shape)};
          shape.grid[0] = (count + 127) / 128;
          shape.block[0] = 128;
          return coppice_launch(KernelCalled("Mask"), &shape, arguments, 4, info.stream);
        },
        {"y"}, [](Spec& spec) { spec.symbol.counted = 1; });
  }

  // Opens a scope on an output and calls `use` with it.
  void With(coppice_lease* lease,
            int32_t output,
            const std::function<void(coppice_read* scope, const coppice_view& view)>& use) {
    coppice_read* scope = nullptr;
    ASSERT_C_OK(coppice_lease_read(lease, stream_, &scope));
    coppice_view view = {.struct_size = sizeof(view)};
    ASSERT_C_OK(coppice_read_output(scope, output, &view));
    use(scope, view);
    coppice_read_end(scope);
  }
  // A tensor of an output that stays leased, as an input.
  DLTensor TensorOf(coppice_lease* lease, int32_t output = 0) {
    DLTensor tensor = {};
    With(lease, output, [&](coppice_read*, const coppice_view& view) {
      tensor = view.tensor;
      shapes_.push_back(std::make_unique<int64_t>(view.shape[0]));
      tensor.shape = shapes_.back().get();
      tensor.strides = nullptr;
    });
    return tensor;
  }

  coppice_kernels* store_ = nullptr;
};

TEST_F(CallsTest, TheDeviceDecidesHowMuchOfAnInputIsReal) {
  coppice_program* const keep = RegisterKeep(7);
  coppice_program* const mask = RegisterMask();
  std::vector<float> expected = Ramp(20);
  std::fill(expected.begin() + 7, expected.end(), 0.0F);
  const DLTensor x = Upload(Ramp(20));
  for (int i = 0; i < 5; ++i) {
    coppice_lease* const kept = LeaseOf(keep, x);
    coppice_lease* masked = nullptr;
    const DLTensor y = TensorOf(kept);
    coppice_view count = {.struct_size = sizeof(count)};
    With(kept, 0, [&](coppice_read* scope, const coppice_view& view) {
      EXPECT_EQ(view.shape[0], 20) << "the capacity";
      ASSERT_C_OK(coppice_read_count(scope, 0, &count));
      EXPECT_EQ(count.tensor.dtype.code, kDLInt);
      coppice_view none = count;
      EXPECT_C_ERROR(COPPICE_NOT_FOUND, "does not decide the size of this output",
                     coppice_read_count(scope, 1, &none));
      coppice_view sized = count;
      ASSERT_C_OK(coppice_read_sized_output(scope, 0, &sized));
      EXPECT_EQ(sized.shape[0], 7);
    });
    const DLTensor* const counts[] = {&count.tensor};
    masked = LeaseOf(mask, y, [&](coppice_call& call) {
      call.counts = counts;
      call.count_count = 1;
    });
    EXPECT_EQ(Read(masked), expected);
    coppice_lease_release(masked);
    // Of a null element the host's extent counts.
    const DLTensor* const none[] = {nullptr};
    masked = LeaseOf(mask, y, [&](coppice_call& call) {
      call.counts = none;
      call.count_count = 1;
    });
    EXPECT_EQ(Read(masked), Ramp(20));
    coppice_lease_release(masked);
    coppice_lease_release(kept);
  }
}

TEST_F(CallsTest, ADonatedLeaseIsEmptyOnceTheCallHasRun) {
  coppice_program* const twice = RegisterScale("twice", 2);
  coppice_program* const thrice = RegisterScale("thrice", 3);
  const DLTensor x = Upload(Ramp(20));
  for (int i = 0; i < 5; ++i) {
    coppice_lease* given = LeaseOf(twice, x);
    const DLTensor y = TensorOf(given);
    coppice_lease* const made = LeaseOf(thrice, y, [&](coppice_call& call) {
      call.donated = &given;
      call.donated_count = 1;
    });
    EXPECT_EQ(InfoOf(given).output_count, 0);
    EXPECT_EQ(Read(made), Ramp(20, 6));
    coppice_lease_release(given);
    coppice_lease_release(made);
  }
}

TEST_F(CallsTest, ACallThatIsRefusedLeavesWhatItWasGiven) {
  coppice_program* const twice = RegisterScale("twice", 2);
  const DLTensor x = Upload(Ramp(20));
  coppice_lease* const given = LeaseOf(twice, x);
  coppice_lease* const both[] = {given, given};
  const DLTensor* const inputs[] = {&x};
  coppice_call call = CallOf(inputs);
  call.program = twice;
  call.donated = both;
  call.donated_count = 2;
  coppice_lease* made = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "empty", coppice_run(session_, &call, &made));
  size_t bytes = 0;
  EXPECT_C_OK(coppice_explain(session_, &call, nullptr, 0, &bytes));
  call.donated_count = 1;
  With(given, 0, [&](coppice_read*, const coppice_view&) {
    EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "scope", coppice_run(session_, &call, &made));
  });
  EXPECT_EQ(made, nullptr);
  EXPECT_EQ(Read(given), Ramp(20, 2));
  coppice_lease_release(given);
}

TEST_F(CallsTest, AChainKeepsTheOutputsOfItsCalls) {
  coppice_program* const twice = RegisterScale("twice", 2);
  coppice_program* const thrice = RegisterScale("thrice", 3);
  const DLTensor x = Upload(Ramp(20));
  for (int i = 0; i < 4; ++i) {
    coppice_chain* chain = nullptr;
    ASSERT_C_OK(coppice_chain_begin(session_, 0, &chain));
    coppice_chain* second = nullptr;
    EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "", coppice_chain_begin(session_, 0, &second));
    EXPECT_EQ(second, nullptr);
    coppice_lease* const first = LeaseOf(twice, x);
    coppice_lease* const other = LeaseOf(thrice, x);
    EXPECT_EQ(Read(first), Ramp(20, 2));
    EXPECT_EQ(Read(other), Ramp(20, 3));
    coppice_lease_release(first);
    coppice_lease_release(other);
    coppice_chain_end(chain);
  }
  coppice_chain* chain = nullptr;
  ASSERT_C_OK(coppice_chain_begin(session_, 0, &chain));
  coppice_session_release(session_);
  session_ = nullptr;
  coppice_chain_end(chain);
}

TEST_F(CallsTest, PartsOfALeaseAreKeptAndDroppedByThemselves) {
  coppice_program* const pair = RegisterPair();
  const DLTensor x = Upload(Ramp(20));
  for (int i = 0; i < 3; ++i) {
    coppice_lease* const lease = LeaseOf(pair, x);
    EXPECT_EQ(InfoOf(lease).is_part, 0);
    coppice_lease* parts[2] = {};
    With(lease, 0, [&](coppice_read*, const coppice_view&) {
      EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "scope", coppice_lease_split(lease, parts, 2));
    });
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "out_count must be 2, the number of outputs, but is 1",
                   coppice_lease_split(lease, parts, 1));
    ASSERT_C_OK(coppice_lease_split(lease, parts, 2));
    EXPECT_EQ(InfoOf(lease).output_count, 0);
    coppice_lease* more[2] = {};
    EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "empty", coppice_lease_split(lease, more, 2));
    coppice_lease_release(lease);
    EXPECT_EQ(InfoOf(parts[1]).is_part, 1);
    EXPECT_EQ(InfoOf(parts[1]).part, 1);
    EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "holds only",
                   coppice_lease_split(parts[1], more, 2));
    EXPECT_EQ(more[0], nullptr);
    coppice_lease_release(parts[0]);
    With(parts[1], 1, [&](coppice_read* scope, const coppice_view& view) {
      EXPECT_EQ(Download(view.tensor), Ramp(20, 10));
      coppice_view other = {.struct_size = sizeof(other)};
      EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "holds only output 1",
                     coppice_read_output(scope, 0, &other));
      EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "holds only output 1",
                     coppice_read_count(scope, 0, &other));
    });
    DLManagedTensorVersioned* kept[2] = {};
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "out_count must be 1, the number of outputs, but is 2",
                   coppice_lease_detach(parts[1], stream_, kept, 2));
    ASSERT_C_OK(coppice_lease_detach(parts[1], stream_, kept, 1));
    EXPECT_EQ(Download(kept[0]->dl_tensor), Ramp(20, 10));
    kept[0]->deleter(kept[0]);
    coppice_lease_release(parts[1]);
  }
}

TEST_F(CallsTest, WorkThatStillReadsAReleasedLeaseComesBeforeTheLanesNextUse) {
  coppice_program* const twice = RegisterScale("twice", 2);
  const DLTensor x = Upload(Ramp(20));
  const DLTensor y = Upload(Ramp(20, 0));
  void* reader = nullptr;
  ASSERT_C_OK(coppice_stream_create(device_, &reader));
  for (int i = 0; i < 20; ++i) {
    coppice_lease* const lease = LeaseOf(twice, x);
    uint64_t address = 0;
    coppice_read* scope = nullptr;
    ASSERT_C_OK(coppice_lease_read(lease, reader, &scope));
    coppice_view view = {.struct_size = sizeof(view)};
    ASSERT_C_OK(coppice_read_output(scope, 0, &view));
    address = AddressOf(view.tensor);
    coppice_read_end(scope);
    ASSERT_C_OK(LaunchScale(address, AddressOf(y), 20, 5, reader));
    ASSERT_C_OK(coppice_lease_release_after(lease, reader));
  }
  ASSERT_C_OK(coppice_stream_synchronize(device_, reader));
  EXPECT_EQ(Download(y), Ramp(20, 10));
}

TEST_F(CallsTest, ALeaseIsReleasedEvenIfTheOrderCannotBe) {
  coppice_program* const twice = RegisterScale("twice", 2);
  const DLTensor x = Upload(Ramp(20));
  coppice_lease* lease = LeaseOf(twice, x);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "stream", coppice_lease_release_after(lease, nullptr));
  lease = LeaseOf(twice, x);
  coppice_read* scope = nullptr;
  ASSERT_C_OK(coppice_lease_read(lease, stream_, &scope));
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "scope", coppice_lease_release_after(lease, stream_));
  coppice_view view = {.struct_size = sizeof(view)};
  ASSERT_C_OK(coppice_read_output(scope, 0, &view));
  EXPECT_EQ(Download(view.tensor), Ramp(20, 2));
  coppice_read_end(scope);
}

TEST_F(CallsTest, StepsThatFeedEachOtherAreWarmedAndReplayFromTheFirstCallOn) {
  coppice_program* const prefill = RegisterPair();
  coppice_program* const decode = RegisterScale("decode", 2);
  const int64_t bucket = 32;
  coppice_feed feed = {.struct_size = sizeof(feed)};
  feed.step = 1;
  coppice_warm_step steps[2] = {};
  for (coppice_warm_step& step : steps) {
    step.struct_size = sizeof(step);
    step.bucket = &bucket;
    step.symbol_count = 1;
  }
  steps[0].program = prefill;
  steps[1].program = decode;
  steps[1].feeds = &feed;
  steps[1].feed_count = 1;
  int64_t reached = 0;
  coppice_warm_options options = {.struct_size = sizeof(options)};
  options.user = &reached;
  options.progress = [](void* user, int64_t, int64_t total) {
    *static_cast<int64_t*>(user) = total;
  };
  ASSERT_C_OK(coppice_warm_steps(session_, steps, 2, &options));
  EXPECT_EQ(reached, 2);
  ASSERT_C_OK(coppice_set_stance(session_, COPPICE_STANCE_STRICT));
  const DLTensor x = Upload(Ramp(30));
  coppice_lease* lease = LeaseOf(prefill, x);
  float factor = 1;
  for (int i = 0; i < 6; ++i) {
    const DLTensor y = TensorOf(lease);
    coppice_lease* const next = LeaseOf(decode, y);
    coppice_lease_release(lease);
    lease = next;
    factor *= 2;
  }
  EXPECT_EQ(Read(lease), Ramp(30, factor));
  coppice_lease_release(lease);
}

TEST_F(CallsTest, AProgramWithoutSymbolsHasOneBucketToWarm) {
  static constexpr const char* kShape[] = {"20"};
  program_ = RegisterBody(
      "fixed",
      [this](coppice_context* context) {
        return LaunchScale(InputOf(context), OutputOf(context), 20, 2, InfoOf(context).stream);
      },
      {"y"},
      [](Spec& spec) {
        spec.x.shape = kShape;
        spec.outputs[0].shape = kShape;
        spec.program.symbol_count = 0;
      });
  ASSERT_C_OK(coppice_warm(session_, program_, nullptr, 1, 0, nullptr));
  int32_t ran = -1;
  EXPECT_EQ(RunOn(Ramp(20), &ran), Ramp(20, 2));
  EXPECT_EQ(ran, COPPICE_RUN_REPLAY);
}

TEST_F(CallsTest, APlanIsAsHighAsTheGraphThatIsRecordedLater) {
  LoadAndRegister(DiamondProgram());
  const int64_t buckets[] = {64, 256};
  coppice_planned_bucket planned[2] = {};
  for (coppice_planned_bucket& bucket : planned)
    bucket.struct_size = sizeof(bucket);
  ASSERT_C_OK(coppice_plan(session_, program_, buckets, 2, 1, nullptr, 0, planned));
  ASSERT_C_OK(coppice_warm(session_, program_, buckets, 2, 1, nullptr));
  for (const nlohmann::json& node : Buckets()) {
    const coppice_planned_bucket& plan = planned[node["bucket"][0] == 64 ? 0 : 1];
    EXPECT_EQ(node["plan_height"], plan.plan_height);
    EXPECT_EQ(node["live_bytes"], plan.live_bytes);
    EXPECT_STRNE(plan.plan_method, "");
  }
  coppice_program* const twice = RegisterScale("twice", 2);
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "callable",
                 coppice_plan(session_, twice, buckets, 2, 1, nullptr, 0, planned));
}

TEST_F(CallsTest, ABucketThatNoCallFindsIsToldAsRetired) {
  LoadAndRegister(DiamondProgram());
  const DLTensor x = Upload(Ramp(10));
  coppice_lease* lease = LeaseOf(program_, x);
  EXPECT_EQ(Buckets()[0]["retired"], false);
  ASSERT_C_OK(coppice_reset(session_, program_));
  ASSERT_EQ(Buckets().size(), 1U) << "its outputs are leased";
  EXPECT_EQ(Buckets()[0]["retired"], true);
  coppice_lease_release(lease);
}

TEST_F(CallsTest, ARecordingIsDrawnIfTheSessionKeepsDrawings) {
  coppice_session_options options = {.struct_size = sizeof(options)};
  for (const int32_t keep : {0, 1}) {
    coppice_session_release(session_);
    options.keep_drawings = keep;
    ASSERT_C_OK(coppice_session_create(device_, &options, &session_));
    program_ = RegisterScale("twice", 2);
    RunOn(Ramp(20));
    size_t bytes = 0;
    const coppice_status none = coppice_dump(session_, 0, 1, nullptr, 0, &bytes);
    EXPECT_EQ(none, keep == 0 ? COPPICE_FAILED_PRECONDITION : COPPICE_NOT_FOUND);
    RunOn(Ramp(20));
    if (keep == 0) continue;
    for (const int64_t number : {-1, 0, 2})
      EXPECT_C_ERROR(COPPICE_NOT_FOUND, "recording",
                     coppice_dump(session_, 0, number, nullptr, 0, &bytes));
    const std::string text = TextOf([this](char* buffer, size_t room, size_t* needed) {
      return coppice_dump(session_, 0, 1, buffer, room, needed);
    });
    EXPECT_THAT(text, HasSubstr("digraph"));
    EXPECT_THAT(text, HasSubstr("Scale"));
  }
}

}  // namespace
}  // namespace coppice
