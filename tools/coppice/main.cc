// The command `coppice`.

#include <csignal>
#include <filesystem>
#include <system_error>
#include <unistd.h>

#include "tools/coppice/command_line.h"

namespace {

volatile std::sig_atomic_t g_stop = 0;

// Again, a signal ends the process at once: where a command does not look, nobody has to wait.
void AskToStop(int signal) {
  g_stop = 1;
  std::signal(signal, SIG_DFL);
}

// A mapped file that somebody shortens has no bytes any more where they are read.
void EndWithoutFile(int signal, siginfo_t* information, void* /*context*/) {
  constexpr char kMessage[] =
      "coppice: a file became shorter while it was read; do not change files while coppice reads "
      "them\n";
  if (information->si_code == BUS_ADRERR) {
    const ssize_t written = write(STDERR_FILENO, kMessage, sizeof(kMessage) - 1);
    static_cast<void>(written);  // Nobody is left to tell.
    _exit(coppice::kExitUsage);
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void CatchShortenedFiles() {
  struct sigaction action = {};
  action.sa_sigaction = EndWithoutFile;
  action.sa_flags = SA_SIGINFO;
  sigaction(SIGBUS, &action, nullptr);
}

}  // namespace

int main(int argument_count, char** arguments) {
  // A file over the limit on sizes is an error of its own, which names it.
  std::signal(SIGXFSZ, SIG_IGN);
  CatchShortenedFiles();
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
