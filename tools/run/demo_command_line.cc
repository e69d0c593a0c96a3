// The command line of the demo's program, which has `run` alone.

#include <string>

#include "tools/coppice/command_line.h"
#include "tools/run/run_command_line.h"

namespace coppice {

ExitCode RunCommandLine(int argument_count,
                        const char* const* arguments,
                        const std::string& program,
                        const Console& console) {
  return RunSubcommands({&kRunSubcommand, 1}, argument_count, arguments, program, console);
}

}  // namespace coppice
