// Goal: a program of a kernel package runs as a callable would: keys, padding, leases, statics,
// random numbers, children and library calls, without a warm-up and without a capture.
// Method: packages of three small PTX kernels on the emulator, which watches every access and every
// order, against sums computed here; plans and results are those of the same package run as a
// callable.

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/package/small_kernels.h"
#include "tests/support/status_matchers.h"
#include "tests/support/test_device.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::AddStep;
using package::FloatBuffer;
using package::LoadedPackage;
using package::MaskStep;
using package::PackageBuilder;
using package::ScaleStep;
using package::SmallKernels;

// y = 2 x + 3 x, by two temporaries that do not depend on each other.
json DiamondProgram() {
  return {{"symbols",
           {{"n",
             {{"min", 1},
              {"max", 1024},
              {"buckets", "pow2"},
              {"claim", {{"padding", "any"}, {"equal", "bits"}}}}}}},
          {"inputs", {"x"}},
          {"outputs", {"y"}},
          {"buffers",
           {{"x", FloatBuffer("input", {"n"})},
            {"twice", FloatBuffer("temporary", {"n"})},
            {"thrice", FloatBuffer("temporary", {"n"})},
            {"y", FloatBuffer("output", {"n"})}}},
          {"steps",
           {ScaleStep("x", "twice", "n", "2"), ScaleStep("x", "thrice", "n", "3"),
            AddStep("twice", "thrice", "y", "n")}}};
}

class PackageProgramTest : public testing::Test {
 protected:
  // Loads the package of `builder`, which lives as long as the test.
  const LoadedPackage& Load(const PackageBuilder& builder) {
    zips_.push_back(std::make_unique<std::string>(builder.Zip()));
    absl::StatusOr<package::Package> opened =
        package::Package::FromMemory(package::BytesOf(*zips_.back()), "test.zip", {});
    EXPECT_OK(opened);
    absl::StatusOr<std::unique_ptr<const LoadedPackage>> loaded =
        LoadedPackage::Load(device_.driver(), *std::move(opened), {});
    EXPECT_OK(loaded);
    loaded_.push_back(*std::move(loaded));
    return *loaded_.back();
  }
  const LoadedPackage& LoadProgram(const json& program) {
    PackageBuilder builder = SmallKernels();
    builder.manifest["programs"]["main"] = program;
    return Load(builder);
  }

  std::unique_ptr<Session> MakeSession(const SessionOptions& options = {}) const {
    return *Session::Create(device_.context(), options);
  }

  Tensor Upload(const std::vector<float>& values) {
    uploads_.push_back(*device_.Upload(values));
    const int64_t dims[] = {static_cast<int64_t>(values.size())};
    return Tensor::Dense(uploads_.back().address(), DType::kFloat32, dims);
  }

  static std::vector<float> Ramp(int64_t n) {
    std::vector<float> values;
    for (int64_t i = 1; i <= n; ++i)
      values.push_back(static_cast<float>(i));
    return values;
  }
  static std::vector<float> Times(std::vector<float> values, float factor) {
    for (float& value : values)
      value *= factor;
    return values;
  }

  std::vector<float> Read(const Lease& lease, int output = 0) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    if (!scope.ok()) return {};
    const Tensor y = scope->output(output);
    return device_.Download<float>(y.data, y.element_count());
  }

  absl::StatusOr<Lease> Run(Session& session,
                            const Program& program,
                            std::vector<Tensor> inputs,
                            const Binding* binding = nullptr,
                            std::vector<int64_t> scalars = {}) {
    return session.Run({.program = &program,
                        .binding = binding,
                        .inputs = inputs,
                        .scalars = scalars,
                        .stream = device_.stream()});
  }

  TestDevice device_;
  std::vector<std::unique_ptr<std::string>> zips_;
  std::vector<std::unique_ptr<const LoadedPackage>> loaded_;
  std::vector<DeviceMemory> uploads_;
};

TEST_F(PackageProgramTest, FirstCallRecordsAndLaterOnesReplay) {
  const LoadedPackage& loaded = LoadProgram(DiamondProgram());
  const std::unique_ptr<Session> session = MakeSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  const Tensor x = Upload(Ramp(100));
  for (const RunKind kind : {RunKind::kRecord, RunKind::kReplay, RunKind::kReplay}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {x}));
    EXPECT_EQ(lease.kind(), kind) << NameOf(lease.kind());
    EXPECT_EQ(Read(lease), Times(Ramp(100), 5));
  }
}

TEST_F(PackageProgramTest, OtherSizesPadToTheirBucket) {
  const LoadedPackage& loaded = LoadProgram(DiamondProgram());
  const std::unique_ptr<Session> session = MakeSession();
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* program, session->Register(loaded, "main", {}));
  for (const int64_t n : {100, 128, 65, 100}) {
    COPPICE_ASSERT_OK_AND_ASSIGN(const Lease lease, Run(*session, *program, {Upload(Ramp(n))}));
    EXPECT_EQ(Read(lease), Times(Ramp(n), 5)) << n;
  }
  EXPECT_EQ(session->nodes().size(), 1U);
  EXPECT_EQ(session->nodes()[0].bucket, (std::vector<int64_t>{128}));
}

}  // namespace
}  // namespace coppice
