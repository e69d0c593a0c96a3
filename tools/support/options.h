// What the command lines of all tools have in common: how an option is declared, checked and
// refused.
//
// Threads: one at a time per process.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"

#include "tools/support/console.h"

namespace coppice {

// The exit codes of a tool, for its help.
inline constexpr const char* kExitCodes =
    "Exit codes: 0 success; 1 what was checked is wrong: a step that differs from its reference,\n"
    "accesses that nothing orders, a plan above --capacity, memory that grows; 2 a wrong option "
    "or\n"
    "input file; 3 the device or its driver failed; 4 the output cannot be written.";

// Adds an option whose text `parse` turns into `target`; its error is the option's.
template <typename Value, typename Target>
void AddParsed(CLI::App& app,
               const std::string& name,
               absl::StatusOr<Value> (*parse)(const std::string&),
               Target& target,
               const std::string& help) {
  app.add_option(name, help)
      ->expected(1)
      ->type_name("TEXT")
      ->check([parse, &target](const std::string& text) {
        const absl::StatusOr<Value> value = parse(text);
        if (value.ok()) target = *value;
        return value.ok() ? std::string() : MessageOf(value.status());
      });
}

// Adds an option that takes a whole number from 1 to `largest`.
void AddCount(CLI::App& app,
              const std::string& name,
              int64_t& target,
              int64_t largest,
              const std::string& help);

// A check for options: an unset shell variable is a mistake, not a wish for the default.
std::string RefuseEmpty(const std::string& text);

// Parses `arguments`. Returns the exit code if the command ends here: after --help or --version, or
// for a command line that `app` refuses, in one line.
std::optional<ExitCode> Parse(CLI::App& app,
                              int argument_count,
                              const char* const* arguments,
                              const Console& console);

}  // namespace coppice
