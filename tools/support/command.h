// A command of a tool: its options, its subcommands, its help, and how each is refused.
//
// A command is declared once, before it is parsed. Every Add binds a name to a target; parsing
// writes the targets of what was given and leaves the others as they are. A name that begins with
// `-` is an option, any other is an argument by its position. Only command.cc knows the package
// underneath, because its headers take longer to compile than all else that a tool includes.
//
// Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"

#include "tools/support/console.h"

namespace coppice {

// The exit codes of a tool, for its help.
inline constexpr const char* kExitCodes =
    "Exit codes: 0 success; 1 a check failed: a step differs from its reference, accesses are\n"
    "unordered, a plan is larger than --capacity, or memory grows; 2 a wrong option or input\n"
    "file; 3 the device or its driver failed; 4 the output cannot be written; 5 a signal\n"
    "stopped the command (soak and bench print what they have measured so far); 6 host memory\n"
    "ran out.";

// Reads a seed. Errors: kInvalidArgument quoting the text.
absl::StatusOr<uint64_t> ParseSeed(const std::string& text);

// Runs a tool up to its exit code. What may happen in any command is told here, in one line that
// begins with `name`: host memory that runs out, on any thread, which ends the process with
// kExitMemory at once; a report that does not reach its reader, kExitOutput.
ExitCode RunTool(const char* name, const Console& console, absl::FunctionRef<ExitCode()> run);

class Command {
 public:
  enum class Presence { kOptional, kRequired };

  // Takes a text as it was given; returns why it is refused, or nothing.
  using Taker = std::function<std::string(const std::string& text)>;

  // What a tool is. --version prints `version`, --help what was declared.
  Command(const std::string& name, const std::string& summary, const std::string& version);
  ~Command();
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  // Ends the help; subcommands that are added later have it too, until they get their own.
  void SetFooter(const std::string& text);

  // Adds a subcommand, which lives as long as this command. One of them must be given.
  Command& AddSubcommand(const std::string& name, const std::string& help);

  // Lets this command be given without any of its subcommands, which are there by now.
  void AllowNoSubcommand();

  void AddFlag(const std::string& name, bool& target, const std::string& help);

  // A text that is not empty: an unset shell variable is a mistake, not a wish for the default.
  // Help shows `placeholder` for it. `target` outlives the command, here and below.
  void AddText(const std::string& name,
               std::string& target,
               const std::string& placeholder,
               const std::string& help,
               Presence presence = Presence::kOptional);

  // Several of them.
  void AddTexts(const std::string& name,
                std::vector<std::string>& target,
                const std::string& placeholder,
                const std::string& help,
                Presence presence = Presence::kOptional);

  // One of them each time that the option is given, so that others may follow it.
  void AddRepeated(const std::string& name,
                   std::vector<std::string>& target,
                   const std::string& placeholder,
                   const std::string& help);

  // Several of `known`.
  void AddChoices(const std::string& name,
                  std::vector<std::string>& target,
                  const std::vector<std::string>& known,
                  const std::string& placeholder,
                  const std::string& help);

  // A text that help does not mention.
  void AddHidden(const std::string& name, std::string& target);

  // A whole number from 1 to `largest`.
  void AddCount(const std::string& name, int64_t& target, int64_t largest, const std::string& help);

  // The same as --name=N; without N it is `fallback`. Refuses --name= and --name N.
  void AddOptionalCount(const std::string& name,
                        int64_t& target,
                        int64_t fallback,
                        int64_t largest,
                        const std::string& help);

  // Whole numbers from 1 to `largest`, with commas between.
  void AddCounts(const std::string& name,
                 std::vector<int64_t>& target,
                 int64_t largest,
                 const std::string& help);

  // Seconds above 0, up to 10^6, which become nanoseconds.
  void AddSeconds(const std::string& name, int64_t& target, const std::string& help);

  // A text that `parse` turns into `target`; its error is the option's.
  template <typename Value, typename Target>
  void AddParsed(const std::string& name,
                 absl::StatusOr<Value> (*parse)(const std::string&),
                 Target& target,
                 const std::string& help) {
    const auto take = [parse, &target](const std::string& text) {
      const absl::StatusOr<Value> value = parse(text);
      if (value.ok()) target = *value;
      return value.ok() ? std::string() : MessageOf(value.status());
    };
    AddTaken(name, "TEXT", take, help);
  }

  // Refuses `name` and `other` together.
  void Exclude(const std::string& name, const std::string& other);

  // Parses `arguments`. Returns the exit code if the tool ends here: after --help or --version, or
  // for a command line that is refused, in one line.
  std::optional<ExitCode> Parse(int argument_count,
                                const char* const* arguments,
                                const Console& console);

  // Whether the arguments named this subcommand. Requires one that was added.
  bool Given(const std::string& subcommand) const;

 private:
  struct Parser;

  explicit Command(std::unique_ptr<Parser> parser);

  // What is wrong with the value of an optional count, which the parser does not tell; or nothing.
  std::string MisusedCount(std::span<const char* const> arguments) const;

  // An option of which `take` gets the text.
  void AddTaken(const std::string& name,
                const std::string& placeholder,
                const Taker& take,
                const std::string& help);

  const std::unique_ptr<Parser> parser_;
};

}  // namespace coppice
