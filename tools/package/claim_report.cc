// A line per symbol, and one per kind of padding that failed.

#include "tools/package/claim_report.h"

#include <algorithm>

#include "fmt/format.h"
#include "nlohmann/json.hpp"

#include "tools/ptx/ptx.h"

namespace coppice {
namespace {

using ReportJson = nlohmann::ordered_json;

// Whether what was tried refutes what the package says.
bool Refuted(const SymbolFound& symbol) {
  if (!symbol.said) return false;
  return std::ranges::none_of(symbol.tried, [&](const KindTried& tried) {
    return tried.padding <= symbol.said->padding &&
           (tried.holds_bits || (!symbol.said->equal.bits && tried.holds_tolerance));
  });
}

std::string ClaimText(const std::optional<PaddingClaim>& claim) {
  return claim ? DescribeClaim(*claim) : "nothing";
}

ReportJson ClaimJson(const std::optional<PaddingClaim>& claim) {
  if (!claim) return nullptr;
  ReportJson equal = "bits";
  if (!claim->equal.bits)
    equal = {{"absolute", fmt::format("{}", claim->equal.absolute)},
             {"relative", fmt::format("{}", claim->equal.relative)}};
  return {{"padding", NameOf(claim->padding)}, {"equal", equal}};
}

}  // namespace

bool ClaimsTooMuch(const ClaimReport& report) {
  return !report.together.empty() || std::ranges::any_of(report.symbols, Refuted);
}

std::string FormatClaims(const ClaimReport& report) {
  std::string text = fmt::format("package {}, program {}, device {}\n", report.path, report.program,
                                 report.device_kind);
  for (const SymbolFound& symbol : report.symbols) {
    text +=
        fmt::format("{}: {}\n  the package says: {}{}\n", symbol.symbol, ClaimText(symbol.claim),
                    ClaimText(symbol.said), Refuted(symbol) ? ", which does not hold" : "");
    for (const KindTried& tried : symbol.tried) {
      text += fmt::format("  {:<7} {} in {} runs\n", NameOf(tried.padding),
                          tried.holds_bits        ? "equal bit for bit"
                          : tried.holds_tolerance ? "within the tolerance"
                                                  : "refuted",
                          tried.runs);
      if (tried.failure.empty()) continue;
      text += fmt::format("          {}{}{}: {}\n          first in {}\n", tried.sizes,
                          tried.poison.empty() ? "" : ", padding of ", tried.poison, tried.failure,
                          tried.step);
    }
    if (!symbol.path.empty()) text += fmt::format("  {}\n", symbol.path);
  }
  if (report.together_runs > 0)
    text +=
        fmt::format("all symbols at once: {} ({} runs)\n",
                    report.together.empty() ? "as claimed" : report.together, report.together_runs);
  return text + (report.written ? "the package now contains these claims\n" : "");
}

std::string FormatClaimsJson(const ClaimReport& report) {
  ReportJson symbols = ReportJson::array();
  for (const SymbolFound& symbol : report.symbols) {
    ReportJson tried = ReportJson::array();
    for (const KindTried& each : symbol.tried)
      tried.push_back({{"padding", NameOf(each.padding)},
                       {"runs", each.runs},
                       {"holds_bits", each.holds_bits},
                       {"holds_tolerance", each.holds_tolerance},
                       {"sizes", each.sizes},
                       {"poison", each.poison},
                       {"failure", each.failure},
                       {"step", each.step}});
    symbols.push_back({{"symbol", symbol.symbol},
                       {"claim", ClaimJson(symbol.claim)},
                       {"package_says", ClaimJson(symbol.said)},
                       {"refuted", Refuted(symbol)},
                       {"tried", tried},
                       {"path", symbol.path}});
  }
  return FormatJson({{"package", report.path},
                     {"program", report.program},
                     {"device_kind", report.device_kind},
                     {"symbols", symbols},
                     {"together_runs", report.together_runs},
                     {"together", report.together},
                     {"written", report.written}});
}

}  // namespace coppice
