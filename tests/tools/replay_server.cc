// The emulator checks nothing, as a GPU does not.

#include "tests/tools/replay_server.h"

#include <algorithm>
#include <array>

#include "tests/package/small_kernels.h"
#include "tests/support/test_device.h"
#include "tools/replay/replay_command_line.h"

namespace coppice {
namespace {

Emulator::Options CarelessEmulator() {
  Emulator::Options options;
  options.memory_bytes = int64_t{256} << 20;
  options.seed = TestSeed();
  options.strictness = Emulator::Strictness::All(false);
  return options;
}

}  // namespace

size_t FindIn(const std::string& ptx, const std::string& kernel, const std::string& text) {
  const size_t entry = ptx.find(".entry " + kernel + "(");
  EXPECT_NE(entry, std::string::npos) << kernel;
  const size_t at = ptx.find(text, entry);
  EXPECT_NE(at, std::string::npos) << text;
  return at;
}

int LineAt(const std::string& ptx, size_t at) {
  return 1 +
         static_cast<int>(std::count(ptx.begin(), ptx.begin() + static_cast<ptrdiff_t>(at), '\n'));
}

nlohmann::json ProgramOf(const std::string& kernel) {
  nlohmann::json program = DiamondProgram();
  program["buffers"] = {{"x", package::FloatBuffer("input", {"n"})},
                        {"y", package::FloatBuffer("output", {"n"})}};
  if (kernel == "Scale") program["steps"] = {package::ScaleStep("x", "y", "n", "2")};
  if (kernel == "Add") program["steps"] = {package::AddStep("x", "x", "y", "n")};
  if (kernel == "Mask") program["steps"] = {package::MaskStep("x", "y", "n", "n")};
  return program;
}

package::PackageBuilder PackageOf(const std::string& ptx, const nlohmann::json& program) {
  package::PackageBuilder with_kernels = package::SmallKernels();
  package::PackageBuilder builder;
  builder.AddModule("small", "ptx", "sm_80", ptx);
  builder.manifest["kernels"] = with_kernels.manifest["kernels"];
  builder.manifest["programs"]["main"] = program;
  return builder;
}

ReplayServer::ReplayServer(const std::string& package, RecorderOptions recorder)
    : emulator_(*Emulator::Create(CarelessEmulator())),
      context_(*Context::Create(emulator_->driver())),
      stream_(*Stream::Create(emulator_->driver())) {
  loaded_ = *package::LoadedPackage::Load(context_, *package::Package::Open(package, {}), {});
  SessionOptions options;
  options.recorder = recorder;
  session_ = *Session::Create(context_, options);
  program_ = *session_->Register(*loaded_, "main", {});
}

Tensor ReplayServer::Upload(const std::vector<int64_t>& dims) {
  int64_t count = 1;
  for (const int64_t dim : dims)
    count *= dim;
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(ValueAt(i));
  return UploadValues(values, dims);
}

Tensor ReplayServer::UploadValues(const std::vector<float>& values,
                                  const std::vector<int64_t>& dims) {
  const size_t bytes = values.size() * sizeof(float);
  DeviceMemory memory =
      *DeviceMemory::Create(emulator_->driver(), std::max<int64_t>(static_cast<int64_t>(bytes), 1));
  const DeviceAddress address = memory.address();
  memory_.emplace(address, std::move(memory));
  EXPECT_OK(emulator_->driver().Call<&DriverTable::MemcpyHtoDAsync>(address, values.data(), bytes,
                                                                    stream_.handle()));
  EXPECT_OK(stream_.Synchronize());
  return Tensor::Dense(address, DType::kFloat32, dims);
}

bool ReplayServer::Run(const std::vector<Tensor>& inputs, const std::vector<int64_t>& scalars) {
  const absl::Status ran = session_
                               ->Run({.program = program_,
                                      .binding = binding_,
                                      .inputs = inputs,
                                      .scalars = scalars,
                                      .stream = stream_.handle()})
                               .status();
  return ran.ok() && stream_.Synchronize().ok();
}

bool ReplayServer::RunTwice(const Tensor& input, const std::vector<int64_t>& scalars) {
  Call call{.program = program_,
            .binding = binding_,
            .inputs = {&input, 1},
            .scalars = scalars,
            .stream = stream_.handle()};
  const absl::StatusOr<Lease> first = session_->Run(call);
  if (!first.ok()) return false;
  const absl::StatusOr<ReadScope> scope = first->Read(stream_.handle());
  if (!scope.ok()) return false;
  const Tensor output = scope->output(0);
  call.inputs = {&output, 1};
  return session_->Run(call).ok() && stream_.Synchronize().ok();
}

CommandOutcome RunReplay(const std::vector<std::string>& arguments) {
  static constexpr std::array kSubcommands = {kReplaySubcommand};
  std::vector<std::string> all = {"replay"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return OutcomeOf("coppice", all,
                   [](int count, const char* const* pointers, const Console& console) {
                     return RunSubcommands(kSubcommands, count, pointers, /*program=*/"", console);
                   });
}

}  // namespace coppice
