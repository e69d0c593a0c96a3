// The command `coppice`, whichever subcommands it has.

#include "tools/support/subcommand.h"

#include <algorithm>
#include <optional>
#include <vector>

namespace coppice {
namespace {

constexpr const char* kSummary =
    "CUDA graphs with dynamic shapes: one graph per shape bucket, one pool for all.\n"
    "No GPU is needed: if there is no CUDA driver, an emulator takes its place.";

ExitCode RunParsed(std::span<const Subcommand> subcommands,
                   int argument_count,
                   const char* const* arguments,
                   const std::string& program,
                   const Console& console) {
  Command command("coppice", kSummary, "coppice " COPPICE_VERSION);
  command.SetFooter(kExitCodes);
  std::vector<Subcommand::Action> actions;
  for (const Subcommand& each : subcommands)
    actions.push_back(each.declare(command.AddSubcommand(each.name, each.help), program));
  if (const std::optional<ExitCode> end = command.Parse(argument_count, arguments, console))
    return *end;
  const auto given = std::ranges::find_if(
      subcommands, [&](const Subcommand& each) { return command.Given(each.name); });
  return actions[static_cast<size_t>(given - subcommands.begin())](console);
}

}  // namespace

ExitCode RunSubcommands(std::span<const Subcommand> subcommands,
                        int argument_count,
                        const char* const* arguments,
                        const std::string& program,
                        const Console& console) {
  return RunTool("coppice", console, [&] {
    return RunParsed(subcommands, argument_count, arguments, program, console);
  });
}

}  // namespace coppice
