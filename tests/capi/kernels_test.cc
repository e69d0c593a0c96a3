// Goal: kernels of a C caller are loaded, described and launched as coppice.h says.
// Method: small PTX kernels on the emulator, on plain streams and in callables, against products
// computed here; kernels that need shared memory and clusters.

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

// Takes nothing, does nothing, and has shared memory as its launches give it.
constexpr char kIdle[] = R"(
.version 7.8
.target sm_90
.address_size 64
.visible .entry Idle() { ret; }
)";

class KernelsTest : public CallableFixture {
 protected:
  void SetUp() override {
    CallableFixture::SetUp();
    LoadKernels();
  }
};

TEST_F(KernelsTest, AKernelTellsItsNameAndWhereItsParametersLie) {
  coppice_kernel* const scale = KernelCalled("Scale");
  EXPECT_EQ(KernelCalled("Scale"), scale) << "equal names give the same kernel";
  coppice_kernel_info info = {.struct_size = sizeof(info)};
  ASSERT_C_OK(coppice_kernel_describe(scale, &info));
  EXPECT_STREQ(info.name, "Scale");
  ASSERT_EQ(info.parameter_count, 4);
  EXPECT_EQ(std::vector<int64_t>(info.parameter_bytes, info.parameter_bytes + 4),
            (std::vector<int64_t>{8, 8, 4, 4}));
  EXPECT_EQ(std::vector<int64_t>(info.parameter_offsets, info.parameter_offsets + 4),
            (std::vector<int64_t>{0, 8, 16, 20}));
}

TEST_F(KernelsTest, ANameThatIsNotThereIsToldWithThoseThatAre) {
  coppice_kernel* kernel = nullptr;
  EXPECT_C_ERROR(COPPICE_NOT_FOUND, "it has Add, Mask, Scale",
                 coppice_kernel_get(kernels_, "Skale", &kernel));
  EXPECT_EQ(kernel, nullptr);
}

TEST_F(KernelsTest, AnImageIsCopiedAndOneThatIsWrongSaysWhere) {
  std::string text = kIdle;
  coppice_kernels* idle = nullptr;
  ASSERT_C_OK(coppice_kernels_load(device_, text.data(), static_cast<int64_t>(text.size()), &idle));
  text.assign(text.size(), 'x');
  coppice_kernel* kernel = nullptr;
  EXPECT_C_OK(coppice_kernel_get(idle, "Idle", &kernel));
  coppice_kernel_info info = {.struct_size = sizeof(info)};
  ASSERT_C_OK(coppice_kernel_describe(kernel, &info));
  EXPECT_EQ(info.parameter_count, 0);
  EXPECT_EQ(info.parameter_bytes, nullptr);
  coppice_kernels_release(idle);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "", coppice_kernels_load(device_, "no image", 8, &idle));
  EXPECT_EQ(idle, nullptr);
  const std::string wrong = std::string(kIdle) + ".visible .entry Odd() { jump; }\n";
  EXPECT_NE(coppice_kernels_load(device_, wrong.data(), static_cast<int64_t>(wrong.size()), &idle),
            COPPICE_OK);
  EXPECT_THAT(LastError(), HasSubstr("jump"));
}

TEST_F(KernelsTest, LaunchesOnAPlainStreamCopyTheirArguments) {
  const DLTensor x = Upload(Ramp(200));
  const DLTensor y = Upload(Ramp(200, 0));
  uint64_t from = AddressOf(x);
  uint64_t to = AddressOf(y);
  uint32_t count = 200;
  float factor = 3;
  void* arguments[] = {&from, &to, &count, &factor};
  coppice_launch_shape shape = {.struct_size = sizeof(shape)};
  shape.grid[0] = 2;
  shape.block[0] = 128;
  ASSERT_C_OK(coppice_launch(KernelCalled("Scale"), &shape, arguments, 4, stream_));
  factor = 100;
  to = 0;
  EXPECT_EQ(Download(y), Ramp(200, 3));
}

TEST_F(KernelsTest, ASessionKeepsTheImageThatItsCallablesLaunch) {
  program_ =
      RegisterBody("twice", [this](coppice_context* context) { return ScaleInput(context, 2); });
  RunOn(Ramp(100));
  RunOn(Ramp(100));
  coppice_kernels_release(kernels_);
  kernels_ = nullptr;
  int32_t ran = -1;
  EXPECT_EQ(RunOn(Ramp(90), &ran), Ramp(90, 2));
  EXPECT_EQ(ran, COPPICE_RUN_REPLAY);
}

TEST_F(KernelsTest, ASessionKeepsTheImageThatItsFunctionsLaunch) {
  auto run = [this](const coppice_function_call* call) {
    return LaunchScale(AddressOf(call->inputs[0]), AddressOf(call->outputs[0]),
                       static_cast<uint32_t>(call->inputs[0].shape[0]), 3, call->stream);
  };
  using Run = decltype(run);
  RegisterFunction(
      "thrice", COPPICE_LAUNCHES,
      [](void* user, const coppice_function_call* call) {
        return (*static_cast<Run*>(user))(call);
      },
      &run);
  EXPECT_EQ(RunOn(Ramp(100)), Ramp(100, 6));
  coppice_kernels_release(kernels_);
  kernels_ = nullptr;
  EXPECT_EQ(RunOn(Ramp(100)), Ramp(100, 6));
}

TEST_F(KernelsTest, SharedMemoryIsAllowedAsFarAsTheDeviceHasIt) {
  coppice_kernels* idle = nullptr;
  ASSERT_C_OK(coppice_kernels_load(device_, kIdle, sizeof(kIdle) - 1, &idle));
  coppice_kernel* kernel = nullptr;
  ASSERT_C_OK(coppice_kernel_get(idle, "Idle", &kernel));
  coppice_launch_shape shape = {.struct_size = sizeof(shape)};
  shape.grid[0] = 1;
  shape.block[0] = 32;
  for (const uint32_t bytes : {1U << 10, 100U << 10, 50U << 10, 200U << 10}) {
    shape.shared_bytes = bytes;
    EXPECT_C_OK(coppice_launch(kernel, &shape, nullptr, 0, stream_));
  }
  shape.shared_bytes = 1U << 20;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "needs 1048576",
                 coppice_launch(kernel, &shape, nullptr, 0, stream_));
  EXPECT_C_OK(coppice_stream_synchronize(device_, stream_));
  coppice_kernels_release(idle);
}

TEST_F(KernelsTest, ClustersAndCooperativeGridsAreAskedOfTheDevice) {
  coppice_kernels* idle = nullptr;
  ASSERT_C_OK(coppice_kernels_load(device_, kIdle, sizeof(kIdle) - 1, &idle));
  coppice_kernel* kernel = nullptr;
  ASSERT_C_OK(coppice_kernel_get(idle, "Idle", &kernel));
  coppice_launch_shape shape = {.struct_size = sizeof(shape)};
  shape.grid[0] = 8;
  shape.grid[1] = 2;
  shape.block[0] = 32;
  shape.cluster[0] = 4;
  EXPECT_C_OK(coppice_launch(kernel, &shape, nullptr, 0, stream_));
  shape.cluster[0] = 3;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "clusters of 3 x 1 x 1",
                 coppice_launch(kernel, &shape, nullptr, 0, stream_));
  shape.cluster[0] = 16;
  shape.grid[0] = 16;
  EXPECT_C_ERROR(COPPICE_UNIMPLEMENTED, "", coppice_launch(kernel, &shape, nullptr, 0, stream_));
  shape.cluster[0] = 0;
  shape.cooperative = 1;
  EXPECT_C_OK(coppice_launch(kernel, &shape, nullptr, 0, stream_));
  shape.grid[0] = 1U << 20;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "cooperative",
                 coppice_launch(kernel, &shape, nullptr, 0, stream_));
  shape.grid[0] = 1;
  shape.programmatic = 1;
  EXPECT_C_OK(coppice_launch(kernel, &shape, nullptr, 0, stream_));
  EXPECT_C_OK(coppice_stream_synchronize(device_, stream_));
  coppice_kernels_release(idle);
}

TEST_F(KernelsTest, WhatIsNoLaunchIsRefused) {
  coppice_kernel* const scale = KernelCalled("Scale");
  uint64_t address = 0;
  uint32_t count = 0;
  float factor = 0;
  void* arguments[] = {&address, &address, &count, &factor};
  coppice_launch_shape shape = {.struct_size = sizeof(shape)};
  shape.block[0] = 128;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "grid",
                 coppice_launch(scale, &shape, arguments, 4, stream_));
  shape.grid[0] = 1;
  for (const int32_t few : {0, 3, 5})
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "parameter count is 4",
                   coppice_launch(scale, &shape, few == 0 ? nullptr : arguments, few, stream_));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "arguments",
                 coppice_launch(scale, &shape, arguments, -1, stream_));
  arguments[2] = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "argument 2",
                 coppice_launch(scale, &shape, arguments, 4, stream_));
  arguments[2] = &count;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "stream",
                 coppice_launch(scale, &shape, arguments, 4, nullptr));
  shape.block[0] = 0;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "block",
                 coppice_launch(scale, &shape, arguments, 4, stream_));
}

}  // namespace
}  // namespace coppice
