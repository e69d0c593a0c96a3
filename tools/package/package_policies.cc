// Spellings of policies with their maximum behind.

#include <algorithm>
#include <charconv>
#include <optional>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"

#include "tools/package/given_value.h"
#include "tools/package/package_run.h"
#include "tools/support/policy_file.h"

namespace coppice {
namespace {

constexpr int64_t kLearnedMax = 65'536;  // As LIMIT of python/coppice/learning.py.

constexpr const char* kPolicyForms =
    "give NAME=pow2:64, NAME=linear:16:64, NAME=geometric:1.25:8:64, NAME=ramp:4:16:64, "
    "NAME=vllm:64, NAME=1,2,4, NAME=exact or NAME=POLICY.json";

std::optional<int64_t> WholeNumber(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 1) return std::nullopt;
  return value;
}

absl::StatusOr<PaddingPolicy> ParsePolicy(const std::string& spelling, int64_t symbol_max) {
  const int64_t bound = std::min(symbol_max, PaddingPolicy::kExtentMax);
  if (IsPolicyFile(spelling)) return ReadPolicyFile(spelling);
  const size_t colon = spelling.rfind(':');
  if (colon != std::string::npos) {
    // The last number is the maximum if what is ahead of it is a policy by itself.
    const std::string head = spelling.substr(0, colon);
    const std::optional<int64_t> maximum = WholeNumber(spelling.substr(colon + 1));
    const bool takes_one = head.starts_with("linear") || head.starts_with("tpu");
    const bool needs_more = head == "linear" || head == "tpu" || head == "geometric" ||
                            head == "ramp" || (std::ranges::count(head, ':') == 1 && !takes_one);
    if (maximum && !needs_more) return PaddingPolicy::Parse(head, std::min(*maximum, bound));
  }
  if (spelling.find_first_not_of("0123456789,") == std::string::npos) {
    const std::optional<int64_t> last = WholeNumber(spelling.substr(spelling.rfind(',') + 1));
    if (last) return PaddingPolicy::Parse(spelling, std::min(*last, bound));
  }
  return PaddingPolicy::Parse(spelling, bound);
}

absl::Status CheckSymbol(const package::Program& program,
                         const std::string& name,
                         const std::string& where) {
  if (std::ranges::find(program.symbols, name, &package::Symbol::name) != program.symbols.end())
    return absl::OkStatus();
  std::vector<std::string> names;
  for (const package::Symbol& symbol : program.symbols)
    names.push_back(symbol.name);
  return InvalidArgument("{}: '{}' is not a symbol of program '{}'; its symbols: {}", where, name,
                         program.name,
                         names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", ")));
}

bool BeginsWithPow2(const package::Symbol& symbol) {
  const bool buckets = symbol.buckets_pow2 || !symbol.buckets.empty();
  return !buckets && symbol.multiple_of == 1 && symbol.max >= 1 && symbol.max <= kLearnedMax;
}

}  // namespace

absl::StatusOr<GivenClaims> ParseClaims(const package::Program& program,
                                        const std::vector<std::string>& texts) {
  GivenClaims claims;
  for (const std::string& text : texts) {
    COPPICE_ASSIGN_OR_RETURN(const auto split, SplitGiven(text, "give NAME=any or NAME=finite"));
    COPPICE_RETURN_IF_ERROR(CheckSymbol(program, split.first, "--claim " + text));
    const absl::StatusOr<std::optional<PaddingClaim>> claim = ParseClaim(split.second);
    if (!claim.ok()) return InvalidArgument("--claim {}: {}", text, MessageOf(claim.status()));
    if (!claims.emplace(split.first, *claim).second)
      return InvalidArgument("--claim {}: '{}' already has a claim; give one claim for each symbol",
                             text, split.first);
  }
  return claims;
}

absl::StatusOr<std::map<std::string, PaddingPolicy>> ParsePolicies(
    const package::Program& program,
    const std::vector<std::string>& texts,
    const GivenClaims& claims) {
  std::map<std::string, PaddingPolicy> policies;
  for (const std::string& text : texts) {
    COPPICE_ASSIGN_OR_RETURN(const auto split, SplitGiven(text, kPolicyForms));
    COPPICE_RETURN_IF_ERROR(CheckSymbol(program, split.first, "--policy " + text));
    const auto symbol = std::ranges::find(program.symbols, split.first, &package::Symbol::name);
    absl::StatusOr<PaddingPolicy> policy = ParsePolicy(split.second, symbol->max);
    if (!policy.ok())
      return InvalidArgument("--policy {}: {}; {}", text, MessageOf(policy.status()), kPolicyForms);
    if (!policies.emplace(split.first, *std::move(policy)).second)
      return InvalidArgument(
          "--policy {}: '{}' already has a policy; give one policy for each symbol", text,
          split.first);
  }
  for (const package::Symbol& symbol : program.symbols) {
    const auto given = claims.find(symbol.name);
    const bool claimed =
        given == claims.end() ? symbol.claim.has_value() : given->second.has_value();
    if (!claimed || policies.contains(symbol.name) || !BeginsWithPow2(symbol)) continue;
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy, PaddingPolicy::Pow2(symbol.max));
    policies.emplace(symbol.name, std::move(policy));
  }
  return policies;
}

}  // namespace coppice
