// The test device: set-up, copies, and the account at the end.

#include "tests/support/test_device.h"

#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <string_view>

#include "fmt/format.h"

#include "coppice/base/check.h"
#include "coppice/base/status.h"

#include "tests/support/status_matchers.h"
#include "tests/support/test_kernels.h"

namespace coppice {
namespace {

constexpr const char* kSeedVariable = "COPPICE_TEST_SEED";

std::string SeedMessage(uint64_t seed) {
  return fmt::format("seed {}; repeat with {}={}", seed, kSeedVariable, seed);
}

uint64_t DrawSeed() {
  const uint64_t seed = std::random_device()();
  fmt::print("{}\n", SeedMessage(seed));
  std::fflush(stdout);
  // A death test starts the program again, and its failure has to come back with the seed above.
  setenv(kSeedVariable, std::to_string(seed).c_str(), 1);  // NOLINT(concurrency-mt-unsafe)
  return seed;
}

// Whether the process holds a reference of its own to CUDA's primary context.
bool g_keeps_cuda_context = false;

}  // namespace

absl::StatusOr<std::optional<uint64_t>> GivenTestSeed() {
  const char* const text = std::getenv(kSeedVariable);  // NOLINT(concurrency-mt-unsafe)
  if (text == nullptr) return std::nullopt;
  const std::string_view digits(text);
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), seed);
  if (error != std::errc() || end != digits.data() + digits.size())
    return absl::InvalidArgumentError(
        fmt::format("COPPICE_TEST_SEED={}: give a decimal number below 2^64", digits));
  return seed;
}

uint64_t TestSeed() {
  const absl::StatusOr<std::optional<uint64_t>> given = GivenTestSeed();
  if (!given.ok()) fmt::print(stderr, "{}\n", MessageOf(given.status()));
  COPPICE_CHECK(given.ok(), "COPPICE_TEST_SEED is a decimal number");
  if (given->has_value()) return **given;
  static const uint64_t drawn = DrawSeed();
  return drawn;
}

bool TestsCompiledKernels() {
  const char* const kernels = std::getenv("COPPICE_TEST_KERNELS");  // NOLINT(concurrency-mt-unsafe)
  return kernels != nullptr && std::string_view(kernels) == "ptx";
}

Emulator::Options TestEmulatorOptions() {
  Emulator::Options options;
  options.seed = TestSeed();
  options.compiled_kernels = TestsCompiledKernels();
  return options;
}

std::string WhyNoCuda() {
  const absl::StatusOr<Driver> cuda = Driver::LoadCuda();
  if (!cuda.ok()) return "no CUDA: " + MessageOf(cuda.status());
  if (test_kernels_image.fatbin == nullptr) return "no device code: build with nvcc";
  return "";
}

void KeepCudaContext(const DriverTable& cuda) {
  if (g_keeps_cuda_context) return;
  CuContext kept = nullptr;
  EXPECT_EQ(cuda.DevicePrimaryCtxRetain(&kept, 0), CuResult::kSuccess);
  g_keeps_cuda_context = kept != nullptr;
}

void GiveBackCudaContext(const DriverTable& cuda) {
  if (!g_keeps_cuda_context) return;
  g_keeps_cuda_context = false;
  EXPECT_EQ(cuda.DevicePrimaryCtxRelease(0), CuResult::kSuccess);
}

TestDevice::TestDevice(DriverKind kind,
                       const Emulator::Options& options,
                       std::optional<DriverLedger::Options> ledger)
    : trace_(__FILE__, __LINE__, SeedMessage(options.seed)) {
  if (kind == DriverKind::kCuda) {
    absl::StatusOr<Driver> cuda = Driver::LoadCuda();
    COPPICE_CHECK(cuda.ok(), "no CUDA: ask WhyNoCuda first");
    driver_ = *cuda;
    KeepCudaContext(driver_->table());
  } else {
    absl::StatusOr<std::unique_ptr<Emulator>> emulator = Emulator::Create(options);
    COPPICE_CHECK(emulator.ok(), "no emulator: is another one alive?");
    emulator_ = *std::move(emulator);
    driver_ = emulator_->driver();
  }
  if (ledger.has_value()) {
    auto created = DriverLedger::Create(*driver_, *ledger);
    COPPICE_CHECK(created.ok(), "no ledger: is another one alive?");
    ledger_ = *std::move(created);
  }
  absl::StatusOr<Context> context = Context::Create(driver());
  COPPICE_CHECK(context.ok(), "no context");
  context_.emplace(*std::move(context));
  absl::StatusOr<Stream> stream = Stream::Create(driver());
  COPPICE_CHECK(stream.ok(), "no stream");
  stream_.emplace(*std::move(stream));
}

TestDevice::~TestDevice() {
  stream_.reset();
  context_.reset();
  if (emulator_ == nullptr) {
    if (ledger_ == nullptr) return;
    EXPECT_EQ(ledger_->created_bytes(), 0) << "bytes of cuMemCreate were not released";
    EXPECT_EQ(ledger_->allocated_bytes(), 0) << "bytes of cuMemAlloc were not freed";
    return;
  }
  const Emulator::Live live = emulator_->live();
  EXPECT_EQ(live.physical_bytes, 0) << "bytes of physical memory were not released";
  EXPECT_EQ(live.mapped_bytes, 0) << "bytes are still mapped";
  EXPECT_EQ(live.reserved_bytes, 0) << "bytes of address space were not freed";
  EXPECT_EQ(live.handles, 0) << "cuMemCreate without cuMemRelease";
  EXPECT_EQ(live.allocations, 0) << "cuMemAlloc without cuMemFree";
  EXPECT_EQ(live.streams, 0);
  EXPECT_EQ(live.events, 0);
  EXPECT_EQ(live.graphs, 0);
  EXPECT_EQ(live.execs, 0);
  EXPECT_EQ(live.libraries, 0);
  EXPECT_EQ(live.captures, 0);
  EXPECT_EQ(live.contexts, 0);
  EXPECT_EQ(emulator_->reports(), std::vector<std::string>());
}

absl::StatusOr<DeviceMemory> TestDevice::UploadBytes(std::span<const std::byte> bytes) const {
  const int64_t size = bytes.empty() ? 1 : static_cast<int64_t>(bytes.size());
  COPPICE_ASSIGN_OR_RETURN(DeviceMemory memory, DeviceMemory::Create(driver(), size));
  COPPICE_RETURN_IF_ERROR(WriteBytes(memory.address(), bytes));
  return memory;
}

absl::Status TestDevice::WriteBytes(DeviceAddress target, std::span<const std::byte> bytes) const {
  if (bytes.empty()) return absl::OkStatus();
  const void* const source = bytes.data();
  COPPICE_RETURN_IF_ERROR(
      driver().Call<&DriverTable::MemcpyHtoDAsync>(target, source, bytes.size(), stream()));
  return Synchronize();
}

absl::Status TestDevice::ReadBytes(DeviceAddress source, std::span<std::byte> bytes) const {
  if (bytes.empty()) return absl::OkStatus();
  void* const target = bytes.data();
  COPPICE_RETURN_IF_ERROR(
      driver().Call<&DriverTable::MemcpyDtoHAsync>(target, source, bytes.size(), stream()));
  return Synchronize();
}

}  // namespace coppice
