// What `coppice package claim` found, for people and for programs.
//
// Units: elements. Threads: plain values.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "coppice/base/padding_claim.h"

namespace coppice {

// One kind of padding of one symbol.
struct KindTried {
  PaddingContents padding = PaddingContents::kFill;
  int64_t runs = 0;
  bool holds_bits = false;
  bool holds_tolerance = false;
  // Of the first failure; empty if there was none.
  std::string sizes;    // "n=5 padded to 8"
  std::string poison;   // "nan"
  std::string failure;  // "y[2] is ..."
  std::string step;     // The first whose results differ.
};

struct SymbolFound {
  std::string symbol;
  std::optional<PaddingClaim> said;   // By the package.
  std::optional<PaddingClaim> claim;  // The strongest that was not refuted.
  std::vector<KindTried> tried{};     // The strongest first.
  std::string path{};  // Where padding gets, as TextOf(PaddingPath) says; empty: nobody asked.
};

struct ClaimReport {
  std::string path;
  std::string program;
  std::string device_kind;
  std::vector<SymbolFound> symbols;
  int64_t together_runs = 0;  // With all that claim something padded at once.
  std::string together;       // The first failure of these; empty: none.
  bool written = false;
};

// Whether the package claims what was refuted, or all claims together were.
bool ClaimsTooMuch(const ClaimReport& report);

std::string FormatClaims(const ClaimReport& report);
std::string FormatClaimsJson(const ClaimReport& report);

}  // namespace coppice
