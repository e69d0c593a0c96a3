// Kernels for people and for programs.

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "coppice/base/status.h"

#include "runtime/emulator/ptx/program.h"
#include "tools/ptx/ptx.h"
#include "tools/support/text_file.h"
#include "tools/support/text_table.h"

namespace coppice {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kColumnsMax = 100;

bool HasRequiredThreads(const ptx::KernelSurvey& kernel) {
  return kernel.required_threads != std::array{0, 0, 0};
}

int64_t CountRefused(const std::vector<ptx::KernelSurvey>& kernels) {
  return std::count_if(kernels.begin(), kernels.end(),
                       [](const ptx::KernelSurvey& kernel) { return !kernel.refused.empty(); });
}

Json ToJson(const ptx::KernelSurvey& kernel) {
  Json parameters = Json::array();
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const ptx::Place& parameter = kernel.parameters[i];
    parameters.push_back({{"index", i},
                          {"name", parameter.name},
                          {"offset", parameter.offset},
                          {"bytes", parameter.bytes}});
  }
  Json refused = Json::array();
  for (const ptx::KernelSurvey::Refused& each : kernel.refused)
    refused.push_back({{"function", each.function}, {"line", each.line}, {"opcode", each.opcode}});
  return {{"name", kernel.name},
          {"parameters", parameters},
          {"parameter_bytes", kernel.parameter_bytes},
          {"shared_bytes", kernel.shared_bytes},
          {"max_threads", kernel.max_threads},
          {"required_threads",
           HasRequiredThreads(kernel) ? Json(kernel.required_threads) : Json(nullptr)},
          {"opcodes", kernel.opcodes},
          {"refused", refused}};
}

// The opcodes as a paragraph, most frequent first.
std::string FormatOpcodes(const ptx::KernelSurvey& kernel) {
  std::vector<std::pair<std::string, int64_t>> opcodes(kernel.opcodes.begin(),
                                                       kernel.opcodes.end());
  std::stable_sort(opcodes.begin(), opcodes.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  std::string line;
  for (const auto& [opcode, count] : opcodes) {
    const std::string item = fmt::format("{} x {}", opcode, count);
    if (!line.empty() && line.size() + item.size() + 4 > kColumnsMax) {
      text += line + ",\n";
      line.clear();
    }
    line += (line.empty() ? "    " : ", ") + item;
  }
  return text + line + (line.empty() ? "" : "\n");
}

std::string Format(const ptx::KernelSurvey& kernel, const std::string& file) {
  std::string threads = fmt::format("at most {} threads", kernel.max_threads);
  if (HasRequiredThreads(kernel))
    threads = fmt::format("blocks of {}", fmt::join(kernel.required_threads, " x "));
  std::string text =
      fmt::format("kernel {}\n  {} bytes of parameters, {} of static shared memory, {}\n",
                  kernel.name, kernel.parameter_bytes, kernel.shared_bytes, threads);
  TextTable table("lrlrr", {"", "parameter", "name", "offset", "bytes"});
  for (size_t i = 0; i < kernel.parameters.size(); ++i) {
    const ptx::Place& parameter = kernel.parameters[i];
    table.Add({"", fmt::format("{}", i), parameter.name, fmt::format("{}", parameter.offset),
               fmt::format("{}", parameter.bytes)});
  }
  if (!kernel.parameters.empty()) text += table.Format();
  text += FormatOpcodes(kernel);
  for (const ptx::KernelSurvey::Refused& each : kernel.refused)
    text += fmt::format(
        "  {}:{}: the emulator cannot execute {} in {}; compile for sm_80, sm_89 or sm_90\n", file,
        each.line, each.opcode, each.function);
  return text + "\n";
}

}  // namespace

ExitCode PtxCheck(const PtxCheckOptions& options, const Console& console) {
  const auto kernels = [&]() -> absl::StatusOr<std::vector<ptx::KernelSurvey>> {
    COPPICE_ASSIGN_OR_RETURN(std::string text, ReadTextFile(options.file, "a PTX file"));
    auto surveys = ptx::Program::Survey(std::move(text));
    if (!surveys.ok()) return AtFile(options.file, surveys.status());
    return surveys;
  }();
  if (!kernels.ok()) {
    Print(console.err, "coppice ptx check: {}\n", MessageOf(kernels.status()));
    return kExitUsage;
  }
  const int64_t refused = CountRefused(*kernels);
  if (options.json) {
    Json json = Json::array();
    for (const ptx::KernelSurvey& kernel : *kernels)
      json.push_back(ToJson(kernel));
    Print(console.out, "{}",
          FormatJson({{"file", options.file}, {"kernels", json}, {"refused_kernels", refused}}));
  } else {
    for (const ptx::KernelSurvey& kernel : *kernels)
      Print(console.out, "{}", Format(kernel, options.file));
    Print(console.out, "{} kernels, {} of them refused\n", kernels->size(), refused);
  }
  return refused == 0 ? kExitOk : kExitMismatch;
}

}  // namespace coppice
