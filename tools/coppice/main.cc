// The command `coppice`.

#include <csignal>
#include <filesystem>
#include <system_error>

#include "tools/coppice/command_line.h"

namespace {

volatile std::sig_atomic_t g_stop = 0;

// Again, a signal ends the process at once: where a command does not look, nobody has to wait.
void AskToStop(int signal) {
  g_stop = 1;
  std::signal(signal, SIG_DFL);
}

}  // namespace

int main(int argument_count, char** arguments) {
  // A file over the limit on sizes is an error of its own, which names it.
  std::signal(SIGXFSZ, SIG_IGN);
  coppice::Console console;
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  console.stop = [] {
    // From the first question on: a command that never asks ends at the first signal.
    static const auto installed = [] {
      for (const int signal : {SIGTERM, SIGINT})
        if (std::signal(signal, AskToStop) == SIG_IGN) std::signal(signal, SIG_IGN);
      return true;
    }();
    return installed && g_stop != 0;
  };
  return coppice::RunCommandLine(argument_count, arguments, program.string(), console);
}
