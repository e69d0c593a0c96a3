// Puts the embedded files together.

#include "tools/prof/html/report_page.h"

#include <array>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "fmt/format.h"

#include "runtime/package/digest.h"

extern "C" {
extern const char coppice_report_page[];
extern const char coppice_report_style[];
extern const char coppice_report_charts[];
extern const char coppice_report_charts_licence[];
extern const char coppice_report_kit[];
extern const char coppice_report_tables[];
extern const char coppice_report_boxes[];
extern const char coppice_report_overview[];
extern const char coppice_report_memory[];
extern const char coppice_report_map[];
extern const char coppice_report_plan[];
extern const char coppice_report_buckets[];
extern const char coppice_report_why[];
extern const char coppice_report_paths[];
extern const char coppice_report_timeline[];
extern const char coppice_report_times[];
extern const char coppice_report_requests[];
extern const char coppice_report_whatif[];
extern const char coppice_report_whatif_view[];
extern const char coppice_report_start[];
extern const char coppice_difference_page[];
extern const char coppice_difference_views[];
}

namespace coppice {
namespace {

constexpr const char* kWhatIfLink = "\n      <a href=\"#what-if\">What if</a>";

// In the order in which they run: what pages share, their views, what draws them.
std::vector<const char*> ScriptsWith(const std::vector<const char*>& views) {
  std::vector<const char*> scripts = {coppice_report_charts, coppice_report_kit,
                                      coppice_report_tables};
  scripts.insert(scripts.end(), views.begin(), views.end());
  scripts.push_back(coppice_report_start);
  return scripts;
}

std::string BytesFromHex(const std::string& digits) {
  std::string bytes;
  for (size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16));
  return bytes;
}

std::string Base64Of(const std::string& bytes) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  for (size_t i = 0; i < bytes.size(); i += 3) {
    uint32_t group = 0;
    for (size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<uint8_t>(bytes[i + j]) : 0U);
    for (size_t j = 0; j < 4; ++j)
      text += i + j <= bytes.size() ? kDigits[group >> (18 - 6 * j) & 63] : '=';
  }
  return text;
}

// `page` with each "{{name}}" replaced by what `values` has for it.
std::string Fill(std::string_view page,
                 std::span<const std::pair<std::string_view, std::string>> values) {
  std::string filled;
  while (!page.empty()) {
    const size_t open = page.find("{{");
    filled += page.substr(0, open);
    if (open == std::string_view::npos) break;
    const size_t close = page.find("}}", open);
    const std::string_view name = page.substr(open + 2, close - open - 2);
    for (const auto& [key, value] : values)
      if (key == name) filled += value;
    page.remove_prefix(close + 2);
  }
  return filled;
}

std::string Assembled(const char* page,
                      const std::vector<const char*>& scripts_of_page,
                      const nlohmann::ordered_json& document) {
  std::string scripts;
  std::string digests;
  for (const char* const script : scripts_of_page) {
    const std::string text = std::string("\n") + script;
    scripts += "<script>" + text + "</script>\n";
    digests += " " + PolicyDigest(text);
  }
  const std::string style = std::string("\n") + coppice_report_style;
  const bool what_if = document.contains("what_if");
  const std::array<std::pair<std::string_view, std::string>, 7> values = {{
      {"policy", fmt::format("default-src 'none'; script-src{}; style-src {}; base-uri 'none'; "
                             "form-action 'none'",
                             digests, PolicyDigest(style))},
      {"style", "<style>" + style + "</style>"},
      {"licence", coppice_report_charts_licence},
      {"what-if-link", what_if ? kWhatIfLink : ""},
      {"what-if-view", what_if ? coppice_report_whatif_view : ""},
      {"data", ScriptSafeJson(document)},
      {"scripts", scripts},
  }};
  return Fill(page, values);
}

}  // namespace

std::string PolicyDigest(const std::string& text) {
  const std::string digits = package::Sha256Of({std::as_bytes(std::span(text))});
  return "'sha256-" + Base64Of(BytesFromHex(digits)) + "'";
}

std::string ScriptSafeJson(const nlohmann::ordered_json& json) {
  const std::string text =
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size() + text.size() / 64);
  // JSON has this character in texts only, where its escape means the same.
  for (const char letter : text) {
    if (letter == '<') {
      safe += "\\u003c";
    } else {
      safe += letter;
    }
  }
  return safe;
}

std::string PageOf(const nlohmann::ordered_json& report) {
  std::vector<const char*> views = {
      coppice_report_boxes, coppice_report_overview, coppice_report_memory,
      coppice_report_map,   coppice_report_plan,     coppice_report_buckets,
      coppice_report_why,   coppice_report_paths,    coppice_report_timeline,
      coppice_report_times, coppice_report_requests,
  };
  if (report.contains("what_if")) views.push_back(coppice_report_whatif);
  return Assembled(coppice_report_page, ScriptsWith(views), report);
}

std::string DifferencePageOf(const nlohmann::ordered_json& difference) {
  return Assembled(coppice_difference_page, ScriptsWith({coppice_difference_views}), difference);
}

}  // namespace coppice
