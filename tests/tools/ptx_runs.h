// Kernels of a test in files, and `coppice ptx run` on arrays in files.
//
// Threads: one.

#pragma once

#include <cstdint>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/support/status_matchers.h"
#include "tests/tools/command_outcome.h"
#include "tests/tools/trace_builder.h"
#include "tools/support/npy.h"

namespace coppice {

inline constexpr const char* kPtxHeader = ".version 9.0\n.target sm_80\n.address_size 64\n";

class PtxFile : public TemporaryFile {
 public:
  explicit PtxFile(const char* kernels, const std::string& name = "k.ptx")
      : TemporaryFile(std::string(kPtxHeader) + kernels, name) {}
};

template <typename T>
std::string FormatArray(DType dtype,
                        const std::vector<int64_t>& dims,
                        const std::vector<T>& values) {
  return FormatNpy(dtype, dims, std::as_bytes(std::span(values)));
}

template <typename T>
std::vector<T> ValuesInFile(const TemporaryFile& file) {
  const absl::StatusOr<NpyArray> array = ReadNpy(file.path());
  EXPECT_OK(array);
  if (!array.ok()) return {};
  std::vector<T> values(array->bytes.size() / sizeof(T));
  std::memcpy(values.data(), array->bytes.data(), array->bytes.size());
  return values;
}

// A path of the test at which there is nothing.
class PtxTarget : public TemporaryFile {
 public:
  explicit PtxTarget(const std::string& name) : TemporaryFile("", name) {
    std::filesystem::remove(path());
  }
  bool Exists() const { return std::filesystem::exists(path()); }
};

inline CommandOutcome RunPtx(const PtxFile& file,
                             const std::string& kernel,
                             const std::string& block,
                             const std::vector<std::string>& arguments,
                             const std::vector<std::string>& more = {}) {
  std::vector<std::string> all = {"ptx",    "run", file.path(), kernel,
                                  "--grid", "1",   "--block",   block};
  for (const std::string& argument : arguments)
    all.insert(all.end(), {"--arg", argument});
  all.insert(all.end(), more.begin(), more.end());
  return RunCoppice(all);
}

inline nlohmann::json ParsePtxJson(const CommandOutcome& outcome) {
  return nlohmann::json::parse(outcome.out, nullptr, /*allow_exceptions=*/false);
}

}  // namespace coppice
