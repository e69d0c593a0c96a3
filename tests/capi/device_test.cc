// Goal: a device keeps to what coppice.h says when a call is refused, when something is found, when
// its work calls back, and when a fault has ended it.
// Method: captures that refuse copies, races and faults that are made on purpose, a function of the
// host that calls the device, and what is left of each.

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

constexpr int32_t kNotPermitted = 800;
constexpr int32_t kCaptureUnsupported = 900;
constexpr int32_t kIllegalAddress = 700;
constexpr size_t kCount = 64;

class DeviceTest : public CallableFixture {
 protected:
  // Runs `body` while a stream captures in CUDA's strictest mode: that one, or another.
  void WhileCapturing(void* capturing, const std::function<void()>& body) {
    void* graph = nullptr;
    ASSERT_EQ(Entry<int(void*, int)>("cuStreamBeginCapture")(capturing, 0), 0);
    body();
    (void)Entry<int(void*, void**)>("cuStreamEndCapture")(capturing, &graph);
    if (graph != nullptr) (void)Entry<int(void*)>("cuGraphDestroy")(graph);
  }
  void* NewStream() {
    void* stream = nullptr;
    EXPECT_C_OK(coppice_stream_create(device_, &stream));
    return stream;
  }
  int64_t FindingCount() {
    int64_t count = -1;
    EXPECT_C_OK(coppice_device_finding_count(device_, &count));
    return count;
  }
  std::string FindingsSince(int64_t since) {
    size_t bytes = 0;
    EXPECT_C_OK(coppice_device_findings_since(device_, since, nullptr, 0, &bytes));
    std::string text(bytes, '\0');
    EXPECT_C_OK(coppice_device_findings_since(device_, since, text.data(), bytes + 1, nullptr));
    return text;
  }
  // Ends the device by a kernel that reads where nothing lies.
  void Fault() {
    const uint64_t y = reinterpret_cast<uint64_t>(Upload(Ramp(kCount)).data);
    ASSERT_C_OK(LaunchScale(4096, y, kCount, 1, stream_));
    EXPECT_C_ERROR(COPPICE_INTERNAL, "CUDA_ERROR_ILLEGAL_ADDRESS",
                   coppice_stream_synchronize(device_, stream_));
    EXPECT_EQ(coppice_last_driver_result(), kIllegalAddress);
  }
};

TEST_F(DeviceTest, ACopyThatACaptureRefusesIsOverWhenItReturns) {
  constexpr auto kBytes = static_cast<int64_t>(kCount * sizeof(float));
  void* const other = NewStream();
  for (void* const capturing : {other, stream_}) {
    const DLTensor on_device = Upload(Ramp(kCount));
    const auto address = reinterpret_cast<uint64_t>(on_device.data);
    std::vector<float> read(kCount);
    std::vector<float> written = Ramp(kCount, 3);
    WhileCapturing(capturing, [&] {
      EXPECT_C_ERROR(COPPICE_ABORTED, "900",
                     coppice_copy_to_host(device_, read.data(), address, kBytes, stream_));
      EXPECT_EQ(coppice_last_driver_result(), kCaptureUnsupported);
    });
    std::ranges::fill(read, -1.0F);  // As whoever gets the memory next.
    WhileCapturing(capturing, [&] {
      EXPECT_C_ERROR(COPPICE_ABORTED, "900",
                     coppice_copy_to_device(device_, address, written.data(), kBytes, stream_));
    });
    std::ranges::fill(written, -1.0F);
    EXPECT_C_OK(coppice_device_synchronize(device_));
    EXPECT_THAT(read, Each(-1.0F));
    EXPECT_THAT(Download(on_device), Not(testing::Contains(-1.0F)));
  }
}

TEST_F(DeviceTest, ACopyOnTheLegacyStreamIsRefusedBeforeItIsQueued) {
  float word = 0;
  const auto address = reinterpret_cast<uint64_t>(Upload({5}).data);
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "legacy stream",
                 coppice_copy_to_host(device_, &word, address, sizeof(word), nullptr));
  EXPECT_C_OK(coppice_device_synchronize(device_));
  EXPECT_EQ(word, 0);
}

TEST_F(DeviceTest, WhatIsFoundAgainIsFoundBehindEachCallThatHasIt) {
  void* const other = NewStream();
  const auto address = reinterpret_cast<uint64_t>(Upload(Ramp(kCount)).data);
  auto* const fill = Entry<int(uint64_t, unsigned char, size_t, void*)>("cuMemsetD8Async");
  for (int round = 0; round < 5; ++round) {
    const int64_t before = FindingCount();
    ASSERT_EQ(fill(address, 0, 4, stream_), 0);
    EXPECT_C_OK(coppice_device_synchronize(device_));
    EXPECT_EQ(FindingsSince(before), "") << "a call in order, round " << round;
    ASSERT_EQ(fill(address, 0, 4, stream_), 0);
    ASSERT_EQ(fill(address, 0, 4, other), 0);
    EXPECT_C_OK(coppice_device_synchronize(device_));
    EXPECT_THAT(FindingsSince(before), HasSubstr("unordered accesses")) << "round " << round;
    EXPECT_GT(FindingCount(), before);
  }
  expected_findings_ = Findings();
  EXPECT_EQ(std::ranges::count(expected_findings_, '\n'), 1);
}

// What a function of the host got of the device that it is part of.
struct Asked {
  coppice_device* device = nullptr;
  void* stream = nullptr;
  uint64_t memory = 0;  // To free.
  coppice_package* package = nullptr;
  coppice_kernels* kernels = nullptr;
  std::vector<std::pair<coppice_status, int32_t>> answers;
  coppice_status freed = COPPICE_INTERNAL;
  std::string text;
};

coppice_status AskDevice(void* user, const coppice_function_call* call) {
  auto& asked = *static_cast<Asked*>(user);
  float word = 0;
  uint64_t address = 0;
  void* stream = nullptr;
  const auto note = [&](coppice_status status) {
    asked.answers.emplace_back(status, coppice_last_driver_result());
    asked.text = LastError();
  };
  note(coppice_device_synchronize(asked.device));
  note(coppice_stream_synchronize(asked.device, asked.stream));
  note(coppice_copy_to_host(asked.device, &word, asked.memory, 4, asked.stream));
  note(coppice_copy_to_device(asked.device, asked.memory, &word, 4, asked.stream));
  note(coppice_memory_allocate(asked.device, 64, &address));
  note(coppice_stream_create(asked.device, &stream));
  asked.freed = coppice_memory_free(asked.device, asked.memory);
  coppice_package_release(std::exchange(asked.package, nullptr));
  coppice_kernels_release(std::exchange(asked.kernels, nullptr));
  std::copy_n(static_cast<const float*>(call->inputs[0].data), call->inputs[0].shape[0],
              static_cast<float*>(call->outputs[0].data));
  return COPPICE_OK;
}

TEST_F(DeviceTest, AFunctionOfTheHostThatWaitsForItselfIsToldSo) {
  Asked asked{.device = device_, .stream = stream_};
  RegisterFunction("ask", COPPICE_ON_HOST, &AskDevice, &asked);
  for (int call = 0; call < 3; ++call) {
    asked.answers.clear();
    asked.memory = reinterpret_cast<uint64_t>(Upload(Ramp(kCount)).data);
    LoadKernels();
    asked.kernels = std::exchange(kernels_, nullptr);
    if (call == 0) asked.package = std::exchange(package_, nullptr);
    EXPECT_EQ(RunOn(Ramp(10)), Ramp(10, 2));
    EXPECT_THAT(asked.answers, Each(testing::Pair(COPPICE_FAILED_PRECONDITION, kNotPermitted)));
    EXPECT_EQ(asked.answers.size(), 6U);
    EXPECT_THAT(asked.text, HasSubstr("would wait for itself"));
    EXPECT_EQ(asked.freed, COPPICE_OK);
    EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "not an address",
                   coppice_memory_free(device_, asked.memory));
  }
}

TEST_F(DeviceTest, AResetMakesADeviceThatAFaultEndedAsNew) {
  LoadAndRegister(DiamondProgram());
  LoadKernels();
  EXPECT_EQ(RunOn(Ramp(10)), Ramp(10, 5));
  const auto old = reinterpret_cast<uint64_t>(Upload(Ramp(3)).data);
  Fault();
  const int64_t before = FindingCount();
  EXPECT_EQ(FindingsSince(before), "");
  EXPECT_NE(FindingsSince(before - 1), "") << "the fault";
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "release them", coppice_device_reset(device_));
  coppice_session_release(std::exchange(session_, nullptr));
  ASSERT_C_OK(coppice_device_reset(device_));
  EXPECT_EQ(Findings(), "");
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "not an address", coppice_memory_free(device_, old));
  ASSERT_C_OK(coppice_stream_create(device_, &stream_));
  ASSERT_C_OK(coppice_session_create(device_, nullptr, &session_));
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "load again",
                 coppice_register_package(session_, package_, "main", nullptr, &program_));
  const auto x = reinterpret_cast<uint64_t>(Upload(Ramp(3)).data);
  EXPECT_C_ERROR(COPPICE_FAILED_PRECONDITION, "load again", LaunchScale(x, x, 3, 1, stream_));
  coppice_session_release(std::exchange(session_, nullptr));
  coppice_package_release(std::exchange(package_, nullptr));
  LoadAndRegister(DiamondProgram());
  for (int call = 0; call < 3; ++call)
    EXPECT_EQ(RunOn(Ramp(10)), Ramp(10, 5));
}

}  // namespace
}  // namespace coppice
