// Runs scripts, here or in a process of their own.

#include "tests/sim/traffic_world.h"

#include <unistd.h>

#include "gtest/gtest-spi.h"
#include <sys/wait.h>

#include "coppice/base/check.h"

#include "tests/sim/traffic_simulation.h"

namespace coppice {

TrafficReport RunTraffic(const TrafficScript& script, PlantedDefect planted) {
  // What the device finds at its end, leaks above all, is a failure like any other.
  testing::TestPartResultArray results;
  TrafficReport report;
  {
    const testing::ScopedFakeTestPartResultReporter reporter(
        testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &results);
    TrafficSimulation simulation(script.options, planted);
    report = simulation.Run(script.operations);
  }
  for (int i = 0; i < results.size() && report.failure.empty(); ++i) {
    if (results.GetTestPartResult(i).failed())
      report.failure = fmt::format("left behind: {}", results.GetTestPartResult(i).message());
  }
  return report;
}

std::string RunTrafficApart(const TrafficScript& script, PlantedDefect planted) {
  std::array<int, 2> ends{};
  std::fflush(nullptr);
  COPPICE_CHECK(pipe(ends.data()) == 0, "no pipe");
  const pid_t child = fork();
  COPPICE_CHECK(child >= 0, "no process");
  if (child == 0) {
    // Whatever ends the process says why on its error output.
    COPPICE_CHECK(dup2(ends[1], STDERR_FILENO) >= 0, "no error output");
    close(ends[0]);
    close(ends[1]);
    const std::string failure = RunTraffic(script, planted).failure;
    std::fputs(failure.c_str(), stderr);
    std::exit(failure.empty() ? 0 : 1);  // NOLINT(concurrency-mt-unsafe)
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t bytes = 0; (bytes = read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<size_t>(bytes));
  close(ends[0]);
  int status = 0;
  COPPICE_CHECK(waitpid(child, &status, 0) == child, "the process is gone");
  if (WIFSIGNALED(status)) return fmt::format("signal {}: {}", WTERMSIG(status), text);
  if (WEXITSTATUS(status) == 0) return "";
  return text.empty() ? fmt::format("exit {}: no word", WEXITSTATUS(status)) : text;
}

}  // namespace coppice
