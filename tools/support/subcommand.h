// What a program is made of: subcommands, each with its options and what they run.
//
// A target that has one gives it away as a constant; a program is a list of them.
//
// Threads: one at a time per process.

#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "tools/support/command.h"
#include "tools/support/console.h"

namespace coppice {

struct Subcommand {
  using Action = std::function<ExitCode(const Console& console)>;

  const char* name;
  const char* help;
  // Declares its options on `command`, which outlives the action. `program` is as RunSubcommands
  // has it.
  Action (*declare)(Command& command, const std::string& program);
};

// What `declare` is of options that `add` declares and `run` takes.
template <auto add, auto run>
struct Declared;

template <typename Options,
          void (*add)(Command&, Options&),
          ExitCode (*run)(const Options&, const Console&)>
struct Declared<add, run> {
  static Subcommand::Action On(Command& command, const std::string& /*program*/) {
    auto options = std::make_shared<Options>();
    add(command, *options);
    return [options](const Console& console) { return run(*options, console); };
  }
};

// The same of a subcommand that has subcommands of its own.
template <typename Options,
          void (*add)(Command&, Options&),
          ExitCode (*run)(const Command&, const Options&, const Console&)>
struct Declared<add, run> {
  static Subcommand::Action On(Command& command, const std::string& /*program*/) {
    auto options = std::make_shared<Options>();
    add(command, *options);
    return [options, &command](const Console& console) { return run(command, *options, console); };
  }
};

// Parses `arguments` and runs the subcommand they name. `program` is the path of this executable,
// for what runs it again under valgrind; empty: never.
ExitCode RunSubcommands(std::span<const Subcommand> subcommands,
                        int argument_count,
                        const char* const* arguments,
                        const std::string& program,
                        const Console& console);

}  // namespace coppice
