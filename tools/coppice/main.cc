// The command `coppice`.

#include <filesystem>
#include <system_error>

#include "tools/coppice/command_line.h"

int main(int argument_count, char** arguments) {
  std::error_code error;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
  return coppice::RunCommandLine(argument_count, arguments, program.string(), {});
}
