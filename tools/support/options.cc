// Options and their refusal, on top of CLI11.

#include "tools/support/options.h"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "fmt/format.h"

namespace coppice {
namespace {

// One line for a command line that CLI11 refuses.
ExitCode Refuse(std::string message, const CLI::App& app, const Console& console) {
  std::string command = app.get_name();
  for (const CLI::App* parsed = &app; !parsed->get_subcommands().empty();) {
    parsed = parsed->get_subcommands().front();
    command += " " + parsed->get_name();
  }
  std::replace(message.begin(), message.end(), '\n', ' ');
  Print(console.err, "{}: {}; see {} --help\n", command, message, command);
  return kExitUsage;
}

}  // namespace

void AddCount(CLI::App& app,
              const std::string& name,
              int64_t& target,
              int64_t largest,
              const std::string& help) {
  app.add_option(name, help)
      ->expected(1)
      ->type_name("N")
      ->check([&target, largest](const std::string& text) {
        int64_t count = 0;
        const char* const last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data(), last, count);
        if (error != std::errc() || end != last || count < 1 || count > largest)
          return fmt::format("'{}' is no count; give a whole number from 1 to {}", text, largest);
        target = count;
        return std::string();
      });
}

std::string RefuseEmpty(const std::string& text) {
  return text.empty() ? "the text is empty; leave the argument out or give it a value"
                      : std::string();
}

std::optional<ExitCode> Parse(CLI::App& app,
                              int argument_count,
                              const char* const* arguments,
                              const Console& console) {
  try {
    app.parse(argument_count, arguments);
  } catch (const CLI::CallForVersion& version) {
    Print(console.out, "{}\n", version.what());
    return kExitOk;
  } catch (const CLI::Success&) {  // --help.
    Print(console.out, "{}", app.help());
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return Refuse(error.what(), app, console);
  }
  return std::nullopt;
}

}  // namespace coppice
