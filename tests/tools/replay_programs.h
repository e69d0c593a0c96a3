// Programs that are right, for tests that plant faults in them: most are what Triton made of
// samples/triton_kernels.py, the others are written by hand.
//
// Threads: one at a time.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace coppice {

// A program, the texts of its kernels by their files, and the sizes of calls that are served.
struct Planting {
  nlohmann::json manifest;
  std::map<std::string, std::string> files;
  std::vector<std::vector<int64_t>> calls;
  bool triton = false;
  std::vector<int64_t> scalars = {};

  nlohmann::json& program() { return manifest["programs"]["main"]; }
  std::string& text(const std::string& kernel) {
    const nlohmann::json& target = manifest["kernels"][kernel]["targets"][0];
    return files[manifest["modules"][target["module"].get<std::string>()]["file"]];
  }
};

// Kernel "Next" of x, y and count: y[i] = x[i] + x[i + 1], the row behind.
const std::string& NextKernel();

// By their names.
const std::map<std::string, std::function<Planting()>>& PlantingBases();

}  // namespace coppice
