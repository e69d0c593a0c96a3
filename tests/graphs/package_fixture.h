// Packages of small kernels in sessions, for tests.
//
// Threads: one.

#pragma once

#include "nlohmann/json.hpp"

#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/package/small_kernels.h"
#include "tests/support/test.h"
#include "tests/support/test_device.h"

namespace coppice {

// The diamond with an output that is its input, and one that is all of y but its first element.
inline nlohmann::json AliasedOutputsProgram() {
  nlohmann::json program = DiamondProgram();
  nlohmann::json& buffers = program["buffers"];
  program["outputs"] = {"y", "same", "tail"};
  buffers["same"] = package::FloatBuffer("output", {"n"});
  buffers["same"]["alias"] = {{"buffer", "x"}};
  buffers["tail"] = package::FloatBuffer("output", {"n - 1"});
  buffers["tail"]["alias"] = {{"buffer", "y"}, {"offset", 4}};
  return program;
}

// A device, and what packages and their programs need of it.
class PackageFixture : public testing::Test {
 protected:
  // Loads the package of `builder`, which lives as long as the test.
  const package::LoadedPackage& Load(const package::PackageBuilder& builder) {
    zips_.push_back(std::make_unique<std::string>(builder.Zip()));
    absl::StatusOr<package::Package> opened =
        package::Package::FromMemory(package::BytesOf(*zips_.back()), "test.zip", {});
    EXPECT_OK(opened);
    absl::StatusOr<std::unique_ptr<const package::LoadedPackage>> loaded =
        package::LoadedPackage::Load(device_.context(), *std::move(opened), {});
    EXPECT_OK(loaded);
    loaded_.push_back(*std::move(loaded));
    return *loaded_.back();
  }
  const package::LoadedPackage& LoadProgram(const nlohmann::json& program) {
    package::PackageBuilder builder = package::SmallKernels();
    builder.manifest["programs"]["main"] = program;
    return Load(builder);
  }

  std::unique_ptr<Session> MakeSession(const SessionOptions& options = {}) const {
    return *Session::Create(device_.context(), options);
  }

  Tensor Upload(const std::vector<float>& values) {
    uploads_.push_back(*device_.Upload(values));
    return FloatsAt(uploads_.back().address(), static_cast<int64_t>(values.size()));
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

  template <typename T = float>
  std::vector<T> Read(const Lease& lease, int output = 0) {
    absl::StatusOr<ReadScope> scope = lease.Read(device_.stream());
    EXPECT_OK(scope);
    if (!scope.ok()) return {};
    const Tensor y = scope->output(output);
    return device_.Download<T>(y.data, y.element_count());
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

  TestDevice device_{DriverLedger::Options{}};
  std::vector<std::unique_ptr<std::string>> zips_;
  std::vector<std::unique_ptr<const package::LoadedPackage>> loaded_;
  std::vector<DeviceMemory> uploads_;
};

// A session beside it, for programs that are called "main".
class PackageSessionFixture : public PackageFixture {
 protected:
  // Registers the program in a session that is made anew with these options.
  const Program* Open(const nlohmann::json& program, const SessionOptions& options = {}) {
    session_ = MakeSession(options);
    absl::StatusOr<const Program*> registered =
        session_->Register(LoadProgram(program), "main", {});
    EXPECT_OK(registered);
    return registered.value_or(nullptr);
  }

  std::unique_ptr<Session> session_ = MakeSession();
};

}  // namespace coppice
