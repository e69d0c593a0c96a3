// Commands on top of CLI11.

#include "tools/support/command.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "CLI/CLI.hpp"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace coppice {

struct Command::Parser {
  std::unique_ptr<CLI::App> root;  // Of a tool; its subcommands belong to it.
  CLI::App& app;
  std::vector<std::unique_ptr<Command>> subcommands = {};
  std::vector<std::string> optional_counts = {};  // Their names.
};

namespace {

std::string RefuseEmpty(const std::string& text) {
  return text.empty() ? "the text is empty; leave the argument out or give it a value"
                      : std::string();
}

// The command and the subcommands that the arguments named.
std::vector<const CLI::App*> ParsedOf(const CLI::App& app) {
  std::vector<const CLI::App*> parsed = {&app};
  while (!parsed.back()->get_subcommands().empty())
    parsed.push_back(parsed.back()->get_subcommands().front());
  return parsed;
}

// What is missing; a subcommand that does not exist is not.
std::string DescribeMissing(const CLI::RequiredError& error, const CLI::App& app) {
  const CLI::App& last = *ParsedOf(app).back();
  const std::vector<std::string> rest = last.remaining();
  std::vector<std::string> names;
  for (const CLI::App* subcommand : last.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(subcommand->get_name());
  if (rest.empty() || names.empty()) return error.what();
  return fmt::format("'{}' is not a subcommand; the subcommands are {}", rest.front(),
                     fmt::join(names, ", "));
}

// One line for a command line that CLI11 refuses.
ExitCode Refuse(std::string message, const CLI::App& app, const Console& console) {
  std::string command;
  for (const CLI::App* parsed : ParsedOf(app))
    command += (command.empty() ? "" : " ") + parsed->get_name();
  std::replace(message.begin(), message.end(), '\n', ' ');
  Print(console.err, "{}: {}; see {} --help\n", command, message, command);
  return kExitUsage;
}

absl::StatusOr<int64_t> ParseSeconds(const std::string& text) {
  constexpr double kSecondsMax = 1e6;
  double seconds = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  if (whole && seconds >= 1e-9 && seconds <= kSecondsMax)
    return static_cast<int64_t>(seconds * 1e9);
  return InvalidArgument("'{}' is not a time; give seconds from 1e-9 to {}", text, kSecondsMax);
}

struct RunningTool {
  const char* name = "";
  std::FILE* err = nullptr;
} running_tool;

// Not by an exception: hash tables of Abseil do not survive one, and a thread has nobody to pass it
// on to. Allocates nothing.
[[noreturn]] void EndWithoutMemory() {
  std::fputs(running_tool.name, running_tool.err);
  std::fputs(": host memory ran out; give the process more memory, or a smaller input\n",
             running_tool.err);
  std::fflush(running_tool.err);
  std::_Exit(kExitMemory);
}

// Why a text is no count, or nothing and `target` is it.
std::string TakeCount(const std::string& text, int64_t largest, int64_t& target) {
  int64_t count = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, count);
  if (error != std::errc() || end != last || count < 1 || count > largest)
    return fmt::format("'{}' is not a count; give a whole number from 1 to {}", text, largest);
  target = count;
  return {};
}

// One text, or several, none of them empty.
template <typename Target>
void AddNonEmpty(CLI::App& app,
                 const std::string& name,
                 Target& target,
                 const std::string& placeholder,
                 const std::string& help,
                 Command::Presence presence) {
  app.add_option(name, target, help)
      ->required(presence == Command::Presence::kRequired)
      ->type_name(placeholder)
      ->check(RefuseEmpty);
}

}  // namespace

absl::StatusOr<uint64_t> ParseSeed(const std::string& text) {
  uint64_t seed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (error == std::errc() && end == text.data() + text.size()) return seed;
  return InvalidArgument("'{}' is not a seed; give a whole number from 0 to 2^64 - 1", text);
}

ExitCode RunTool(const char* name, const Console& console, absl::FunctionRef<ExitCode()> run) {
  running_tool = {.name = name, .err = console.err};
  const std::new_handler before = std::set_new_handler(&EndWithoutMemory);
  const ExitCode code = run();
  std::set_new_handler(before);
  if (std::fflush(console.out) == 0 && std::ferror(console.out) == 0) return code;
  const std::string reason = std::generic_category().message(errno);
  Print(console.err,
        "{}: cannot write to standard output: {}; free some disk space, or redirect the output\n",
        name, reason);
  return kExitOutput;
}

Command::Command(const std::string& name, const std::string& summary, const std::string& version)
    : Command([&] {
        auto root = std::make_unique<CLI::App>(summary, name);
        CLI::App& app = *root;
        app.set_version_flag("--version", version);
        return std::make_unique<Parser>(Parser{.root = std::move(root), .app = app});
      }()) {}

Command::Command(std::unique_ptr<Parser> parser) : parser_(std::move(parser)) {}

Command::~Command() = default;

void Command::SetFooter(const std::string& text) {
  parser_->app.footer(text);
}

Command& Command::AddSubcommand(const std::string& name, const std::string& help) {
  parser_->app.require_subcommand(1);
  CLI::App& app = *parser_->app.add_subcommand(name, help);
  parser_->subcommands.emplace_back(
      new Command(std::make_unique<Parser>(Parser{.root = nullptr, .app = app})));
  return *parser_->subcommands.back();
}

void Command::AllowNoSubcommand() {
  parser_->app.require_subcommand(0, 1);
}

void Command::AddFlag(const std::string& name, bool& target, const std::string& help) {
  parser_->app.add_flag(name, target, help);
}

void Command::AddText(const std::string& name,
                      std::string& target,
                      const std::string& placeholder,
                      const std::string& help,
                      Presence presence) {
  AddNonEmpty(parser_->app, name, target, placeholder, help, presence);
}

void Command::AddTexts(const std::string& name,
                       std::vector<std::string>& target,
                       const std::string& placeholder,
                       const std::string& help,
                       Presence presence) {
  AddNonEmpty(parser_->app, name, target, placeholder, help, presence);
}

void Command::AddRepeated(const std::string& name,
                          std::vector<std::string>& target,
                          const std::string& placeholder,
                          const std::string& help) {
  parser_->app.add_option(name, target, help)
      ->type_name(placeholder)
      ->check(RefuseEmpty)
      ->allow_extra_args(false);
}

void Command::AddChoices(const std::string& name,
                         std::vector<std::string>& target,
                         const std::vector<std::string>& known,
                         const std::string& placeholder,
                         const std::string& help) {
  parser_->app.add_option(name, target, help)->type_name(placeholder)->check(CLI::IsMember(known));
}

void Command::AddHidden(const std::string& name, std::string& target) {
  parser_->app.add_option(name, target)->group("");
}

void Command::AddCount(const std::string& name,
                       int64_t& target,
                       int64_t largest,
                       const std::string& help) {
  const auto take = [&target, largest](const std::string& text) {
    return TakeCount(text, largest, target);
  };
  AddTaken(name, "N", take, help);
}

void Command::AddOptionalCount(const std::string& name,
                               int64_t& target,
                               int64_t fallback,
                               int64_t largest,
                               const std::string& help) {
  const auto take = [&target, fallback, largest](const std::string& text) {
    // What a flag without a value has.
    if (text != "true") return TakeCount(text, largest, target);
    target = fallback;
    return std::string();
  };
  parser_->app.add_flag(name, help)
      ->option_text("[=N]")
      ->check(take)
      ->multi_option_policy(CLI::MultiOptionPolicy::Throw);
  parser_->optional_counts.push_back(name);
}

void Command::AddSeconds(const std::string& name, int64_t& target, const std::string& help) {
  AddParsed(name, &ParseSeconds, target, help);
}

void Command::AddCounts(const std::string& name,
                        std::vector<int64_t>& target,
                        int64_t largest,
                        const std::string& help) {
  const auto take = [&target, largest](const std::string& text) {
    std::vector<int64_t> counts;
    const char* const last = text.data() + text.size();
    for (const char* next = text.data(); next <= last; ++next) {
      int64_t count = 0;
      const auto [end, error] = std::from_chars(next, last, count);
      if (error != std::errc() || (end != last && *end != ',') || count < 1 || count > largest) {
        return fmt::format(
            "'{}' is not a list of counts; give whole numbers from 1 to {}, separated by commas",
            text, largest);
      }
      counts.push_back(count);
      next = end;
    }
    target = std::move(counts);
    return std::string();
  };
  AddTaken(name, "LIST", take, help);
}

void Command::AddTaken(const std::string& name,
                       const std::string& placeholder,
                       const Taker& take,
                       const std::string& help) {
  parser_->app.add_option(name, help)->expected(1)->type_name(placeholder)->check(take);
}

void Command::Exclude(const std::string& name, const std::string& other) {
  CLI::App& app = parser_->app;
  app.get_option(name)->excludes(app.get_option(other));
}

std::string Command::MisusedCount(std::span<const char* const> arguments) const {
  for (const std::string& name : parser_->optional_counts) {
    for (size_t i = 0; i < arguments.size() && arguments[i] != std::string_view("--"); ++i) {
      // To the parser it is the same as the name alone.
      if (arguments[i] == name + "=")
        return fmt::format("{}= has no number; give {}=N, or {} alone", name, name, name);
      if (arguments[i] != name || i + 1 == arguments.size()) continue;
      const std::string_view next = arguments[i + 1];
      if (!next.empty() && next.find_first_not_of("0123456789") == std::string_view::npos)
        return fmt::format("{} {}: the number is not part of the option; give {}={}", name, next,
                           name, next);
    }
  }
  for (const std::unique_ptr<Command>& subcommand : parser_->subcommands)
    if (subcommand->parser_->app.parsed()) return subcommand->MisusedCount(arguments);
  return {};
}

std::optional<ExitCode> Command::Parse(int argument_count,
                                       const char* const* arguments,
                                       const Console& console) {
  CLI::App& app = parser_->app;
  const std::span<const char* const> all(arguments, static_cast<size_t>(argument_count));
  try {
    app.parse(argument_count, arguments);
    if (const std::string misuse = MisusedCount(all); !misuse.empty())
      return Refuse(misuse, app, console);
  } catch (const CLI::CallForVersion& version) {
    Print(console.out, "{}\n", version.what());
    return kExitOk;
  } catch (const CLI::Success&) {  // --help.
    Print(console.out, "{}", app.help());
    return kExitOk;
  } catch (const CLI::RequiredError& error) {
    return Refuse(DescribeMissing(error, app), app, console);
  } catch (const CLI::ParseError& error) {
    const std::string misuse = MisusedCount(all);
    return Refuse(misuse.empty() ? error.what() : misuse, app, console);
  }
  return std::nullopt;
}

bool Command::Given(const std::string& subcommand) const {
  return parser_->app.got_subcommand(subcommand);
}

}  // namespace coppice
