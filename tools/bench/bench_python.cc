// Runs the bench of the Python package, which alone can call from Python.

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>

#include "fmt/format.h"
#include <sys/wait.h>

#include "tools/bench/bench.h"

namespace coppice {

ExitCode BenchPython(const BenchPythonOptions& options, const Console& console) {
  const char* const of_package = std::getenv("COPPICE_PYTHON");
  std::string python = options.python;
  if (python.empty()) python = of_package != nullptr ? of_package : "python3";
  const std::string command = fmt::format("'{}' -m coppice.bench --batches {}{}", python,
                                          options.batches, options.json ? " --json" : "");
  std::fflush(console.out);
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) {
    Print(console.err, "coppice bench python: no process can be started\n");
    return kExitDevice;
  }
  std::array<char, 4096> buffer{};
  while (std::fgets(buffer.data(), buffer.size(), pipe) != nullptr)
    std::fputs(buffer.data(), console.out);
  const int status = pclose(pipe);
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return kExitOk;
  Print(console.err,
        "coppice bench python: `{}` failed; it needs the Python package: pip install . where the "
        "sources are, or --python of an environment that has it\n",
        command);
  return kExitUsage;
}

}  // namespace coppice
