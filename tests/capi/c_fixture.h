// The C surface as a caller of another language has it, for tests: coppice.h and nothing else.
//
// Threads: one.

#pragma once

#include "nlohmann/json.hpp"

#include "coppice/coppice.h"

#include "tests/package/small_kernels.h"
#include "tests/support/test.h"

namespace coppice {

inline std::string LastError() {
  std::string text(coppice_last_error(nullptr, 0), '\0');
  coppice_last_error(text.data(), text.size() + 1);
  return text;
}

// A result with its message.
inline testing::AssertionResult IsOk(coppice_status status) {
  if (status == COPPICE_OK) return testing::AssertionSuccess();
  return testing::AssertionFailure() << coppice_status_name(status) << ": " << LastError();
}
#define EXPECT_C_OK(call) EXPECT_TRUE(::coppice::IsOk(call))
#define ASSERT_C_OK(call) ASSERT_TRUE(::coppice::IsOk(call))

// Expects a status, and that its message has a part.
inline testing::AssertionResult Fails(coppice_status expected,
                                      const std::string& part,
                                      coppice_status status) {
  if (status != expected)
    return testing::AssertionFailure() << coppice_status_name(status) << " for "
                                       << coppice_status_name(expected) << ": " << LastError();
  const std::string text = status == COPPICE_OK ? "" : LastError();
  if (text.find(part) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << part << "' is not in: " << text;
}
#define EXPECT_C_ERROR(status, part, call) EXPECT_TRUE(::coppice::Fails(status, part, call))

// DiamondProgram with y = f(2 x), where f is the function `name` of the host.
inline nlohmann::json CallsFunction(const std::string& name) {
  nlohmann::json program = DiamondProgram();
  const auto view = [](const std::string& buffer) {
    return nlohmann::json{{"buffer", buffer}, {"dtype", "f32"}, {"shape", {"n"}}};
  };
  program["buffers"].erase("thrice");
  program["steps"] = {package::ScaleStep("x", "twice", "n", "2"),
                      {{"op", "call"},
                       {"function", name},
                       {"inputs", nlohmann::json::array({view("twice")})},
                       {"outputs", nlohmann::json::array({view("y")})},
                       {"options", {{"by", 7}, {"mode", "fast"}}}}};
  return program;
}

// An emulator, a stream, and what is made on them; everything is released in the end.
class CFixture : public testing::Test {
 protected:
  void SetUp() override {
    coppice_device_options options = {.struct_size = sizeof(options)};
    options.kind = COPPICE_DEVICE_EMULATOR;
    options.memory_bytes = int64_t{256} << 20;
    ASSERT_C_OK(coppice_device_open(&options, &device_));
    ASSERT_C_OK(coppice_stream_create(device_, &stream_));
  }

  void TearDown() override {
    EXPECT_EQ(Findings(), expected_findings_);
    coppice_session_release(session_);
    coppice_package_release(package_);
    coppice_device_release(device_);
  }

  std::string Findings() const {
    std::string text(coppice_device_findings(device_, nullptr, 0), '\0');
    coppice_device_findings(device_, text.data(), text.size() + 1);
    return text;
  }

  // Loads the program as "main" and makes a session.
  void Load(const nlohmann::json& program) {
    package::PackageBuilder builder = package::SmallKernels();
    builder.manifest["programs"]["main"] = program;
    const std::string zip = builder.Zip();
    ASSERT_C_OK(coppice_package_load_memory(device_, zip.data(), static_cast<int64_t>(zip.size()),
                                            "test.zip", nullptr, &package_));
    ASSERT_C_OK(coppice_session_create(device_, nullptr, &session_));
  }
  // The same, registered.
  void LoadAndRegister(const nlohmann::json& program) {
    Load(program);
    ASSERT_C_OK(coppice_register_package(session_, package_, "main", nullptr, &program_));
  }
  // Loads the program that calls `name` and registers it with a function of the host, which runs
  // with `user`.
  template <typename User>
  void RegisterFunction(const char* name,
                        int32_t when,
                        coppice_status (*run)(void* user, const coppice_function_call* call),
                        User* user,
                        void (*release)(void* user) = nullptr) {
    Load(CallsFunction(name));
    const coppice_function function = {.struct_size = sizeof(function),
                                       .when = when,
                                       .name = name,
                                       .run = run,
                                       .user = user,
                                       .release = release};
    const coppice_package_program_options options = {
        .struct_size = sizeof(options), .functions = &function, .function_count = 1};
    ASSERT_C_OK(coppice_register_package(session_, package_, "main", &options, &program_));
  }

  // Floats on the device, which outlive the test's calls.
  DLTensor Upload(const std::vector<float>& values) {
    uint64_t address = 0;
    const int64_t bytes = static_cast<int64_t>(values.size() * sizeof(float));
    EXPECT_C_OK(coppice_memory_allocate(device_, bytes, &address));
    EXPECT_C_OK(coppice_copy_to_device(device_, address, values.data(), bytes, stream_));
    shapes_.push_back(std::make_unique<int64_t>(values.size()));
    DLTensor tensor = {};
    tensor.data = reinterpret_cast<void*>(address);
    tensor.device = {kDLExtDev, 0};
    tensor.ndim = 1;
    tensor.dtype = {kDLFloat, 32, 1};
    tensor.shape = shapes_.back().get();
    return tensor;
  }

  std::vector<float> Download(const DLTensor& tensor) {
    std::vector<float> values(tensor.ndim == 0 ? 1 : static_cast<size_t>(tensor.shape[0]));
    EXPECT_C_OK(coppice_copy_to_host(device_, values.data(),
                                     reinterpret_cast<uint64_t>(tensor.data),
                                     static_cast<int64_t>(values.size() * sizeof(float)), stream_));
    return values;
  }

  coppice_call CallOf(const DLTensor* const* inputs, int64_t count = 1) const {
    coppice_call call = {.struct_size = sizeof(call)};
    call.program = program_;
    call.inputs = inputs;
    call.input_count = count;
    call.stream = stream_;
    return call;
  }

  using AdjustCall = std::function<void(coppice_call& call)>;

  // Runs a program on one input; `adjust` may change the call.
  coppice_status Run(coppice_program* program,
                     const DLTensor& x,
                     coppice_lease** lease,
                     const AdjustCall& adjust = {}) const {
    const DLTensor* const inputs[] = {&x};
    coppice_call call = CallOf(inputs);
    call.program = program;
    if (adjust) adjust(call);
    return coppice_run(session_, &call, lease);
  }
  // The lease of a call that has to run.
  coppice_lease* LeaseOf(coppice_program* program,
                         const DLTensor& x,
                         const AdjustCall& adjust = {}) const {
    coppice_lease* lease = nullptr;
    EXPECT_C_OK(Run(program, x, &lease, adjust));
    return lease;
  }
  // What is said of a call of the program that does not run.
  coppice_status Refused(const DLTensor& x, const AdjustCall& adjust = {}) const {
    coppice_lease* lease = nullptr;
    const coppice_status status = Run(program_, x, &lease, adjust);
    EXPECT_EQ(lease, nullptr);
    return status;
  }

  // Runs the program on x and returns its output; `kind` gets how it ran.
  std::vector<float> RunOn(const std::vector<float>& x, int32_t* kind = nullptr) {
    coppice_lease* const lease = LeaseOf(program_, Upload(x));
    if (lease == nullptr) return {};
    std::vector<float> y = Read(lease);
    if (kind != nullptr) *kind = InfoOf(lease).kind;
    coppice_lease_release(lease);
    return y;
  }
  static coppice_lease_info InfoOf(coppice_lease* lease) {
    coppice_lease_info info = {.struct_size = sizeof(info)};
    EXPECT_C_OK(coppice_lease_describe(lease, &info));
    return info;
  }
  // What coppice_buckets says.
  nlohmann::json Buckets() const {
    return nlohmann::json::parse(TextOf([this](char* buffer, size_t room, size_t* bytes) {
      return coppice_buckets(session_, buffer, room, bytes);
    }));
  }
  // What a function writes that is asked for its length first.
  template <typename Write>
  static std::string TextOf(const Write& write) {
    size_t bytes = 0;
    EXPECT_C_OK(write(nullptr, size_t{0}, &bytes));
    std::string text(bytes, '\0');
    EXPECT_C_OK(write(text.data(), bytes + 1, nullptr));
    return text;
  }

  std::vector<float> Read(coppice_lease* lease, int32_t output = 0) {
    coppice_read* scope = nullptr;
    EXPECT_C_OK(coppice_lease_read(lease, stream_, &scope));
    coppice_view view = {.struct_size = sizeof(view)};
    EXPECT_C_OK(coppice_read_output(scope, output, &view));
    std::vector<float> values = Download(view.tensor);
    coppice_read_end(scope);
    return values;
  }

  static std::vector<float> Ramp(int64_t n, float factor = 1) {
    std::vector<float> values;
    for (int64_t i = 1; i <= n; ++i)
      values.push_back(factor * static_cast<float>(i));
    return values;
  }

  coppice_device* device_ = nullptr;
  void* stream_ = nullptr;
  coppice_package* package_ = nullptr;
  coppice_session* session_ = nullptr;
  coppice_program* program_ = nullptr;
  std::vector<std::unique_ptr<int64_t>> shapes_;
  std::string expected_findings_;
};

}  // namespace coppice
