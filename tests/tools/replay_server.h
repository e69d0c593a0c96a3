// A server that records its calls on an emulator which looks for as little as it can, and the
// command that replays them, for tests of `coppice replay`.
//
//   ReplayServer server(folder / "p.zip");
//   server.Run({server.Upload({50})});
//   server.Save(folder / "x.coppice-case");
//   RunReplay({folder / "x.coppice-case", "--json"})
//
// Units: elements of f32. Threads: one at a time.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "coppice/graphs/session.h"
#include "coppice/runtime/emulator.h"
#include "coppice/runtime/loaded_package.h"
#include "coppice/runtime/stream.h"

#include "tests/package/package_builder.h"
#include "tests/support/test.h"
#include "tests/tools/command_outcome.h"

namespace coppice {

// Where `text` stands behind the entry of a kernel.
size_t FindIn(const std::string& ptx, const std::string& kernel, const std::string& text);
// The line of that place, from 1.
int LineAt(const std::string& ptx, size_t at);

// The program of kernel Scale, Add or Mask: y of x, of any size up to 1024 that may be padded with
// anything.
nlohmann::json ProgramOf(const std::string& kernel);
// A package of the program, as "main", and of these kernels, among them the small ones.
package::PackageBuilder PackageOf(const std::string& ptx, const nlohmann::json& program);

class ReplayServer {
 public:
  // Serves the entry of the package.
  explicit ReplayServer(const std::string& package,
                        RecorderOptions recorder = {.ring_bytes = 1 << 22});

  // Memory of these sizes, which holds ValueAt(0), ValueAt(1), ...
  Tensor Upload(const std::vector<int64_t>& dims);
  Tensor UploadValues(const std::vector<float>& values, const std::vector<int64_t>& dims);
  static float ValueAt(int64_t i) { return 1 + 0.25F * static_cast<float>(i); }

  // Runs and waits. False: the device has had enough.
  bool Run(const std::vector<Tensor>& inputs, const std::vector<int64_t>& scalars = {});

  // Runs, and runs again on the first output of that, in place.
  bool RunTwice(const Tensor& input, const std::vector<int64_t>& scalars);

  void Bind(const std::vector<Tensor>& statics) { binding_ = *session_->Bind(*program_, statics); }
  // Gives its memory back.
  void Free(const Tensor& uploaded) { memory_.erase(uploaded.data); }
  void Save(const std::string& path) { EXPECT_OK(session_->recorder().Save(path, "a test", {})); }

 private:
  std::unique_ptr<Emulator> emulator_;
  Context context_;
  Stream stream_;
  std::unique_ptr<const package::LoadedPackage> loaded_;
  std::map<DeviceAddress, DeviceMemory> memory_;
  std::unique_ptr<Session> session_;
  const Program* program_ = nullptr;
  const Binding* binding_ = nullptr;
};

// Runs the command in this process.
CommandOutcome RunReplay(const std::vector<std::string>& arguments);

}  // namespace coppice
