// Sessions and the profiles between them, for tests.
//
// Threads: one, but where it says so.

#pragma once

#include "nlohmann/json.hpp"

#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/graphs/session_fixture.h"
#include "tests/package/small_kernels.h"
#include "tools/ledger/latency_model.h"

namespace coppice {

using Buckets = std::vector<int64_t>;

// Sessions that save profiles and load them.
class ProfileFixture : public SessionFixture {
 protected:
  ProfileFixture()
      : SessionFixture(DriverLedger::Options{.latency = &LatencyModel::Documented()}),
        path_(folder_ / "session.profile") {}

  // A session whose affine was launched this often in each bucket, at factor 2.
  Affine Served(const std::vector<std::pair<int64_t, int>>& launches,
                const SessionOptions& options = {}) {
    Affine affine = MakeAffine(options);
    for (const auto& [n, count] : launches) {
      for (int i = 0; i <= count; ++i)  // The first call of a bucket launches no graph.
        EXPECT_OK(Call(affine, n));
    }
    return affine;
  }
  void Save(const std::vector<std::pair<int64_t, int>>& launches) {
    EXPECT_OK(Served(launches).session->warming().SaveProfile(path_));
  }

  LoadProfileOptions Bound(const Affine& affine) {
    uploads_.push_back(*device_.Upload(std::vector<float>{0}));
    const Binding* scratch =
        *affine.session->Bind(*affine.program, AffineStatics(uploads_.back().address()));
    return {.bindings = {{.binding = affine.binding, .scratch = scratch}}};
  }
  absl::StatusOr<LoadedProfile> Load(const Affine& affine) {
    return affine.session->warming().LoadProfile(path_, Bound(affine));
  }

  nlohmann::json Saved() const { return nlohmann::json::parse(package::ReadBytes(path_)); }
  void Write(const nlohmann::json& profile) const { package::WriteBytes(path_, profile.dump()); }

  // Buckets of the nodes, in the order of their recording.
  static Buckets Recorded(const Session& session) {
    std::vector<NodeInfo> nodes = session.nodes();
    std::erase_if(nodes, [](const NodeInfo& node) { return !node.recorded; });
    std::ranges::sort(nodes, {}, &NodeInfo::number);
    Buckets buckets;
    for (const NodeInfo& node : nodes)
      buckets.push_back(node.bucket[0]);
    return buckets;
  }

  // Expects one reason for all that is left out.
  static void ExpectSkipped(const LoadedProfile& loaded, ProfileSkip reason, size_t count) {
    EXPECT_EQ(loaded.skipped.size(), count);
    for (const SkippedBucket& skipped : loaded.skipped) {
      EXPECT_EQ(skipped.reason, reason) << NameOf(skipped.reason) << ": " << skipped.why.ToString();
      EXPECT_FALSE(skipped.why.ok());
    }
  }
  // Expects that a session refuses the file and is as it was.
  void ExpectRefused(absl::StatusCode code, const std::string& where) {
    const Affine affine = MakeAffine();
    const absl::StatusOr<LoadedProfile> loaded = Load(affine);
    EXPECT_THAT(loaded, StatusIs(code)) << where;
    EXPECT_THAT(std::string(loaded.status().message()), HasSubstr(where));
    EXPECT_THAT(affine.session->nodes(), IsEmpty());
    EXPECT_EQ(affine.session->memory().usage().of(MemoryKind::kPlan), 0);
  }

  const package::LoadedPackage& LoadProgram(const nlohmann::json& program) {
    package::PackageBuilder builder = package::SmallKernels();
    builder.manifest["programs"]["main"] = program;
    zips_.push_back(std::make_unique<std::string>(builder.Zip()));
    loaded_.push_back(*package::LoadedPackage::Load(
        device_.context(),
        *package::Package::FromMemory(package::BytesOf(*zips_.back()), "test.zip", {}), {}));
    return *loaded_.back();
  }
  absl::StatusOr<Lease> CallPackage(Session& session, const Program& program, int64_t n) {
    uploads_.push_back(*device_.Upload(Ramp(n)));
    const Tensor x = FloatsAt(uploads_.back().address(), n);
    return session.Run({.program = &program, .inputs = {&x, 1}, .stream = device_.stream()});
  }

  // Waits for `stream` alone, as threads have to.
  std::vector<float> DownloadOn(const Stream& stream, const Tensor& tensor, int64_t count) const {
    std::vector<float> values(static_cast<size_t>(count));
    EXPECT_OK(device_.driver().Call<&DriverTable::MemcpyDtoHAsync>(
        values.data(), tensor.data, values.size() * sizeof(float), stream.handle()));
    EXPECT_OK(stream.Synchronize());
    return values;
  }

  package::TemporaryFolder folder_;
  const std::string path_;
  std::vector<std::unique_ptr<std::string>> zips_;
  std::vector<std::unique_ptr<const package::LoadedPackage>> loaded_;
};

}  // namespace coppice
