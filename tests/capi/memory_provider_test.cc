// Goal: a device with a memory provider takes from it what coppice.h says, and nothing else.
// Method: a provider that counts, and takes memory from the emulator's cuMemAlloc; leases of small
// PTX kernels.

#include "coppice/coppice.h"

#include "tests/capi/callable_fixture.h"

namespace coppice {
namespace {

using MemAlloc = int(uint64_t* address, size_t bytes);
using MemFree = int(uint64_t address);

// What a provider was asked for.
struct Provided {
  MemAlloc* allocate = nullptr;
  MemFree* free = nullptr;
  std::map<uint64_t, int64_t> blocks;
  int allocations = 0;
  void* stream = nullptr;
  uint64_t offset = 0;  // By which it misses what it has.
  coppice_status answer = COPPICE_OK;
};

coppice_status Provide(void* user, int64_t bytes, void* stream, uint64_t* address) {
  auto& provided = *static_cast<Provided*>(user);
  if (provided.answer != COPPICE_OK) {
    coppice_set_error("all is given out");
    return provided.answer;
  }
  ++provided.allocations;
  provided.stream = stream;
  EXPECT_EQ(provided.allocate(address, static_cast<size_t>(bytes) + 256), 0);
  *address += provided.offset;
  provided.blocks[*address] = bytes;
  return COPPICE_OK;
}

void TakeBack(void* user, uint64_t address, int64_t bytes) {
  auto& provided = *static_cast<Provided*>(user);
  EXPECT_EQ(provided.blocks[address], bytes);
  provided.blocks.erase(address);
  EXPECT_EQ(provided.free(address - provided.offset), 0);
}

class MemoryProviderTest : public CallableFixture {
 protected:
  void SetUp() override {
    coppice_memory_provider provider = {.struct_size = sizeof(provider)};
    provider.user = &provided_;
    provider.allocate = &Provide;
    provider.free = &TakeBack;
    coppice_device_options options = {.struct_size = sizeof(options)};
    options.kind = COPPICE_DEVICE_EMULATOR;
    options.provider = &provider;
    ASSERT_C_OK(coppice_device_open(&options, &device_));
    ASSERT_C_OK(coppice_stream_create(device_, &stream_));
    provided_.allocate = Entry<MemAlloc>("cuMemAlloc");
    provided_.free = Entry<MemFree>("cuMemFree");
    LoadKernels();
  }
  void TearDown() override {
    CallableFixture::TearDown();
    EXPECT_EQ(provided_.blocks.size(), 0U) << "what was left has gone with the device";
  }

  Provided provided_;
};

TEST_F(MemoryProviderTest, MemoryComesFromItAndGoesBack) {
  uint64_t address = 0;
  ASSERT_C_OK(coppice_memory_allocate(device_, 1000, &address));
  EXPECT_EQ(provided_.blocks[address], 1000);
  EXPECT_EQ(provided_.stream, nullptr);
  ASSERT_C_OK(coppice_memory_free(device_, address));
  EXPECT_TRUE(provided_.blocks.empty());
  ASSERT_C_OK(coppice_memory_allocate(device_, 1000, &address));
  ASSERT_C_OK(coppice_external_allocator_use(device_));
  void* const block = coppice_external_allocate(500, 0, stream_);
  EXPECT_EQ(provided_.blocks[reinterpret_cast<uint64_t>(block)], 500);
  EXPECT_EQ(provided_.stream, stream_);
  coppice_external_free(block, 500, 0, stream_);
  EXPECT_EQ(provided_.blocks.size(), 1U);
  ASSERT_C_OK(coppice_external_allocator_use(nullptr));
}

TEST_F(MemoryProviderTest, DetachedOutputsLieInItAndASessionsMemoryDoesNot) {
  program_ =
      RegisterBody("twice", [this](coppice_context* context) { return ScaleInput(context, 2); });
  const DLTensor x = Upload(Ramp(100));
  const int before = provided_.allocations;
  for (int i = 0; i < 3; ++i) {
    coppice_lease* const lease = LeaseOf(program_, x);
    EXPECT_EQ(provided_.allocations, before + i);
    DLManagedTensorVersioned* kept = nullptr;
    ASSERT_C_OK(coppice_lease_detach(lease, stream_, &kept, 1));
    EXPECT_EQ(provided_.allocations, before + i + 1);
    EXPECT_EQ(provided_.stream, stream_);
    EXPECT_EQ(provided_.blocks.count(AddressOf(kept->dl_tensor)), 1U);
    EXPECT_EQ(Download(kept->dl_tensor), Ramp(100, 2));
    kept->deleter(kept);
    EXPECT_EQ(provided_.blocks.size(), 1U) << "x alone";
    coppice_lease_release(lease);
  }
}

TEST_F(MemoryProviderTest, ItsFailuresAreTold) {
  program_ =
      RegisterBody("twice", [this](coppice_context* context) { return ScaleInput(context, 2); });
  const DLTensor x = Upload(Ramp(100));
  coppice_lease* const lease = LeaseOf(program_, x);
  provided_.answer = COPPICE_RESOURCE_EXHAUSTED;
  uint64_t address = 0;
  EXPECT_C_ERROR(COPPICE_RESOURCE_EXHAUSTED,
                 "memory provider failed with 4 (resource exhausted): "
                 "all is given out",
                 coppice_memory_allocate(device_, 8, &address));
  DLManagedTensorVersioned* kept = nullptr;
  EXPECT_C_ERROR(COPPICE_RESOURCE_EXHAUSTED, "all is given out",
                 coppice_lease_detach(lease, stream_, &kept, 1));
  provided_.answer = COPPICE_OK;
  provided_.offset = 128;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "is a multiple of 256",
                 coppice_memory_allocate(device_, 8, &address));
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "is a multiple of 256",
                 coppice_lease_detach(lease, stream_, &kept, 1));
  provided_.offset = 0;
  EXPECT_EQ(provided_.blocks.size(), 1U) << "what is of no use goes back";
  EXPECT_EQ(Read(lease), Ramp(100, 2));
  coppice_lease_release(lease);
}

TEST_F(MemoryProviderTest, HalfAProviderIsNone) {
  coppice_memory_provider provider = {.struct_size = sizeof(provider)};
  provider.allocate = &Provide;
  coppice_device_options options = {.struct_size = sizeof(options)};
  options.provider = &provider;
  coppice_device* device = nullptr;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "both", coppice_device_open(&options, &device));
  provider.struct_size = 0;
  EXPECT_C_ERROR(COPPICE_INVALID_ARGUMENT, "sizeof(coppice_memory_provider)",
                 coppice_device_open(&options, &device));
}

}  // namespace
}  // namespace coppice
