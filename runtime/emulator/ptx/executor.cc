// The executor, for who asks whether there is one.

#include "runtime/emulator/ptx/executor.h"

#include <cstdio>
#include <cstdlib>

#include "fmt/format.h"

namespace coppice::ptx {
namespace {

// A line of what a launch executed and touched, at the end of a file: processes share one, so that
// it is written at once.
void Append(const char* path, const Launch& launch, const Outcome& outcome) {
  int64_t read = 0;
  int64_t written = 0;
  for (const TouchedRange& range : outcome.touched)
    (range.writes ? written : read) += static_cast<int64_t>(range.end - range.begin);
  const std::string line =
      fmt::format("{}\t{}\t{}\t{}\t{}\n", launch.kernel->code->name, outcome.counts.instructions,
                  outcome.counts.lane_instructions, read, written);
  std::FILE* const file = std::fopen(path, "a");
  if (file == nullptr) return std::perror(path);  // The launch itself is right.
  std::fwrite(line.data(), 1, line.size(), file);
  std::fclose(file);
}

Outcome RunCounted(const Launch& launch, const Environment& environment) {
  Outcome outcome = Run(launch, environment);
  const char* const path = std::getenv("COPPICE_PTX_COUNTS");  // NOLINT(concurrency-mt-unsafe)
  if (path != nullptr) Append(path, launch, outcome);
  return outcome;
}

}  // namespace
}  // namespace coppice::ptx

const coppice::ptx::Executor coppice_ptx_executor = {
    .build = coppice::ptx::Program::Build,
    .run = coppice::ptx::RunCounted,
    .describe = [](const coppice::ptx::Finding& finding) { return finding.Describe(); }};
