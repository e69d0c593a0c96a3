// What containers and terminals put around the lines of a server's log.

#include <algorithm>
#include <cctype>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "nlohmann/json.hpp"

#include "tools/support/text_file.h"
#include "tools/tune/trace_rows.h"

namespace coppice {
namespace {

using JsonValue = nlohmann::json;

constexpr char kEscape = '\x1b';

bool IsWord(std::string_view text) {
  for (const char c : text) {
    if (std::isalnum(static_cast<unsigned char>(c)) == 0 && c != '-' && c != '_' && c != '.')
      return false;
  }
  return !text.empty();
}

// Of `docker compose logs`: "server-1  | ".
size_t ComposePrefix(std::string_view line) {
  const size_t bar = line.find(" | ");
  if (bar == std::string_view::npos) return 0;
  const std::string_view name = line.substr(0, line.find_last_not_of(' ', bar) + 1);
  return IsWord(name) ? bar + 3 : 0;
}

// Of `kubectl logs --prefix`: "[pod/server-7d4/engine] ".
size_t KubectlPrefix(std::string_view line) {
  const size_t end = line.find("] ");
  return line.starts_with("[pod/") && end != std::string_view::npos ? end + 2 : 0;
}

// Of files in /var/log/pods: "2026-01-31T23:59:59.5Z stderr F ".
size_t PodPrefix(std::string_view line) {
  for (const std::string_view mark : {"Z stdout F ", "Z stderr F ", "Z stdout P ", "Z stderr P "}) {
    const size_t place = line.find(mark);
    if (place < 40 && std::isdigit(static_cast<unsigned char>(line[0])) != 0)
      return place + mark.size();
  }
  return 0;
}

using Prefix = size_t (*)(std::string_view line);

Prefix PrefixOf(std::string_view line) {
  for (const Prefix prefix : {&ComposePrefix, &KubectlPrefix, &PodPrefix})
    if (prefix(line) > 0) return prefix;
  return nullptr;
}

// Without what sets colours: escape, [, parameters, and a letter.
std::string WithoutColours(std::string_view text) {
  std::string plain;
  while (!text.empty()) {
    const size_t escape = text.find(kEscape);
    plain += text.substr(0, escape);
    text.remove_prefix(std::min(escape, text.size()));
    if (text.empty()) break;
    const size_t letter = text.find_first_not_of("0123456789;", text.starts_with("\x1b[") ? 2 : 1);
    text.remove_prefix(letter == std::string_view::npos ? text.size() : letter + 1);
  }
  return plain;
}

// The text of a line of docker's json-file; null: it is none.
const JsonValue* DockerText(const JsonValue& line) {
  if (!line.is_object() || !line.contains("stream")) return nullptr;
  const auto text = line.find("log");
  return text != line.end() && text->is_string() ? &*text : nullptr;
}

bool IsOfDocker(std::string_view line) {
  return line.starts_with('{') &&
         DockerText(JsonValue::parse(line, nullptr, /*allow_exceptions=*/false)) != nullptr;
}

std::string WithoutDocker(std::string_view text) {
  std::string plain;
  std::string begun;  // Of a line that goes on in the next object.
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    const JsonValue object = JsonValue::parse(line, nullptr, /*allow_exceptions=*/false);
    const JsonValue* const log = DockerText(object);
    begun += log != nullptr ? log->get<std::string>() : std::string(line) + "\n";
    // A line that goes on leaves an empty one, so that lines keep their numbers.
    plain += begun.ends_with('\n') ? std::exchange(begun, {}) : "\n";
  }
  return plain + begun;
}

std::string WithoutPrefixes(std::string_view text, Prefix prefix) {
  std::string plain;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    plain += line.substr(prefix(line));
    plain += '\n';
  }
  return plain;
}

}  // namespace

std::optional<std::string> Unwrap(std::string_view text) {
  std::optional<std::string> plain;
  const auto replace = [&](std::string with) {
    plain = std::move(with);
    text = *plain;
  };
  const auto first_line = [&text] {
    std::string_view rest = text;
    rest.remove_prefix(std::min(rest.find_first_not_of(" \r\n\t"), rest.size()));
    return TakeLine(rest);
  };
  if (text.find(kEscape) != std::string_view::npos) replace(WithoutColours(text));
  if (IsOfDocker(first_line())) replace(WithoutDocker(text));
  if (text.find(kEscape) != std::string_view::npos) replace(WithoutColours(text));
  if (const Prefix prefix = PrefixOf(first_line())) replace(WithoutPrefixes(text, prefix));
  return plain;
}

}  // namespace coppice
