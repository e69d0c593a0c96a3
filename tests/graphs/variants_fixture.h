// A package whose kernel Scale has several variants, and a driver whose clock a test sets.
//
// Threads: one, but for what a test starts.

#pragma once

#include "coppice/graphs/session.h"
#include "coppice/runtime/driver.h"

#include "tests/graphs/package_fixture.h"

namespace coppice {

// A driver that counts launches between the records of two events, and says that each took as long
// as the test wants of its function. One at a time.
class ScriptedClock {
 public:
  explicit ScriptedClock(const Driver& real) : real_(real) {
    current_ = this;
    DriverTable table = real.table();
    table.LaunchKernel = &LaunchKernel;
    table.EventRecord = &EventRecord;
    table.EventElapsedTime = &ElapsedTime;
    driver_ = std::make_unique<Driver>(table, real.kind());
  }
  ~ScriptedClock() { current_ = nullptr; }
  ScriptedClock(const ScriptedClock&) = delete;
  ScriptedClock& operator=(const ScriptedClock&) = delete;

  const Driver& driver() const { return *driver_; }
  // Microseconds of a launch, per block of its grid; 0 of those not named.
  void SetCost(const Kernel& kernel, double us) { costs_[kernel.function] = us; }
  int64_t launches() const {
    const std::lock_guard lock(mutex_);
    return launches_;
  }
  int64_t timed() const {
    const std::lock_guard lock(mutex_);
    return timed_;
  }
  // The first so many questions for a time are answered; those after fail.
  void FailTimesFrom(int64_t question) { fail_from_ = question; }

 private:
  static CuResult LaunchKernel(CuFunction function,
                               unsigned x,
                               unsigned y,
                               unsigned z,
                               unsigned block_x,
                               unsigned block_y,
                               unsigned block_z,
                               unsigned shared,
                               CuStream stream,
                               void** arguments,
                               void** extra) {
    {
      const std::lock_guard lock(current_->mutex_);
      ++current_->launches_;
      const auto cost = current_->costs_.find(function);
      if (cost != current_->costs_.end()) current_->now_us_ += cost->second * x;
    }
    return current_->real_.table().LaunchKernel(function, x, y, z, block_x, block_y, block_z,
                                                shared, stream, arguments, extra);
  }
  static CuResult EventRecord(CuEvent event, CuStream stream) {
    {
      const std::lock_guard lock(current_->mutex_);
      current_->recorded_[event] = current_->now_us_;
    }
    return current_->real_.table().EventRecord(event, stream);
  }
  static CuResult ElapsedTime(float* ms, CuEvent begin, CuEvent end) {
    const std::lock_guard lock(current_->mutex_);
    if (++current_->timed_ > current_->fail_from_) return CuResult::kInvalidHandle;
    *ms = static_cast<float>((current_->recorded_[end] - current_->recorded_[begin]) / 1000);
    return CuResult::kSuccess;
  }

  static inline ScriptedClock* current_ = nullptr;
  const Driver& real_;
  std::unique_ptr<Driver> driver_;
  mutable std::mutex mutex_;
  std::map<CuFunction, double> costs_;
  std::map<CuEvent, double> recorded_;
  double now_us_ = 0;
  int64_t launches_ = 0;
  int64_t timed_ = 0;
  int64_t fail_from_ = INT64_MAX;
};

// The small kernels, of which Scale has the variants "plain", "shifted" and "other": x times the
// factor, the second one more than that, so that results tell which one ran.
inline package::PackageBuilder VariantKernels() {
  package::PackageBuilder builder = package::SmallKernels();
  const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
    const size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  const std::string shifted = replaced(replaced(package::kSmallKernels, "mul.rn.f32 %f3, %f1, %f2;",
                                                "fma.rn.f32 %f3, %f1, %f2, 0f3F800000;"),
                                       ".entry Scale(", ".entry Shifted(");
  builder.AddModule("shifted", "ptx", "sm_80", shifted);
  const std::string other = replaced(package::kSmallKernels, ".entry Scale(", ".entry Other(");
  builder.AddModule("other", "ptx", "sm_80", other);
  nlohmann::json& targets = builder.manifest["kernels"]["Scale"]["targets"];
  nlohmann::json plain = targets[0];
  plain["variant"] = "plain";
  targets[0] = plain;
  for (const auto& [module, symbol] :
       {std::pair("shifted", "Shifted"), std::pair("other", "Other")}) {
    nlohmann::json target = plain;
    target["module"] = module;
    target["symbol"] = symbol;
    target["variant"] = module;
    targets.push_back(target);
  }
  return builder;
}

// y = 2 x of n floats, by Scale.
inline nlohmann::json ScaleProgram() {
  nlohmann::json program = DiamondProgram();
  program["buffers"].erase("twice");
  program["buffers"].erase("thrice");
  program["steps"] = nlohmann::json::array({package::ScaleStep("x", "y", "n", "2")});
  return program;
}

class VariantsFixture : public PackageFixture {
 protected:
  VariantsFixture() : clock_(device_.driver()) {}

  const package::LoadedPackage& LoadVariants(const nlohmann::json& program = ScaleProgram()) {
    package::PackageBuilder builder = VariantKernels();
    builder.manifest["programs"]["main"] = program;
    return Load(builder);
  }
  // Of the variants of Scale, in the order of the package.
  void SetCosts(const package::LoadedPackage& loaded, const std::vector<double>& us) {
    const std::vector<package::Kernel>& kernels = loaded.manifest().kernels;
    const auto scale = std::ranges::find(kernels, "Scale", &package::Kernel::name);
    const auto variants = loaded.kernel(static_cast<int>(scale - kernels.begin()));
    ASSERT_EQ(variants.size(), us.size());
    for (size_t i = 0; i < us.size(); ++i)
      clock_.SetCost(variants[i].kernel, us[i]);
  }

  // A session on the driver with the scripted clock.
  std::unique_ptr<Session> MakeTimedSession(SessionOptions options = {}) {
    if (options.variant_timing == VariantTiming::kOnDevice)
      options.variant_timing = VariantTiming::kAlways;
    options.log = [this](const std::string& line) { log_.push_back(line); };
    if (!timed_context_) {
      absl::StatusOr<Context> made = Context::Create(clock_.driver());
      EXPECT_OK(made);
      timed_context_.emplace(*std::move(made));
    }
    return *Session::Create(*timed_context_, options);
  }

  static std::vector<float> Shifted(std::vector<float> values) {
    for (float& value : values)
      value += 1;
    return values;
  }

  ScriptedClock clock_;
  std::optional<Context> timed_context_;
  std::vector<std::string> log_;
};

}  // namespace coppice
