// Runs the bench of the Python package, which alone can call from Python.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "fmt/format.h"
#include <sys/wait.h>

#include "coppice/base/status.h"

#include "tools/bench/bench.h"

namespace coppice {

absl::StatusOr<BenchReport> BenchPython(const BenchOptions& options, const Console& console) {
  const char* const of_package = std::getenv("COPPICE_PYTHON");
  const std::string command =
      fmt::format("'{}' -m coppice.bench --batches {}{}", of_package ? of_package : "python3",
                  options.repetitions, options.json ? " --json" : "");
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr)
    return FailedPrecondition("no process can be started; free some memory, or end some processes");
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr)
    std::fputs(buffer.data(), console.out);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return BenchReport();
  return InvalidArgument(
      "`{}` failed; it needs the Python package: run `pip install .` in the source folder, or set "
      "COPPICE_PYTHON to an interpreter that has the package",
      command);
}

}  // namespace coppice
