// Turns the rows of a latency table into costs.

#include "tools/ledger/latency_model.h"

#include <bitset>
#include <charconv>
#include <cmath>
#include <optional>
#include <vector>

#include "coppice/base/check.h"
#include "coppice/base/status.h"
#include "coppice/base/tsv.h"
#include "coppice/base/units.h"

// The text of tools/ledger/latency.documented.tsv; CMakeLists.txt beside it embeds it.
extern "C" const char coppice_latency_documented[];

namespace coppice {
namespace {

constexpr std::string_view kColumns = "entry\tcall_us\tnode_us\tmib_us\tsource";
constexpr std::string_view kDefault = "default";

}  // namespace

class LatencyModel::Parser {
 public:
  explicit Parser(std::string name) : model_(std::move(name)) {}

  absl::StatusOr<LatencyModel> Parse(std::string_view tsv) {
    COPPICE_ASSIGN_OR_RETURN(const std::vector<TsvRow> rows, ParseTsv(tsv, model_.name_, kColumns));
    for (const TsvRow& row : rows)
      COPPICE_RETURN_IF_ERROR(ParseRow(row));
    if (!default_) return Error("the table ends without a default row; add one");
    for (int entry = 0; entry < kDriverEntryCount; ++entry) {
      if (!has_row_[entry]) model_.costs_[entry] = *default_;
    }
    return std::move(model_);
  }

 private:
  template <typename... Args>
  absl::Status Error(fmt::format_string<Args...> format, Args&&... args) const {
    return InvalidArgument("{}:{}: {}", model_.name_, line_,
                           fmt::format(format, std::forward<Args>(args)...));
  }

  absl::Status ParseRow(const TsvRow& row) {
    line_ = row.line;
    const std::string_view symbol = row.fields[0];
    Cost cost;
    COPPICE_ASSIGN_OR_RETURN(cost.call_us, ParseUs("call_us", row.fields[1]));
    COPPICE_ASSIGN_OR_RETURN(cost.node_us, ParseUs("node_us", row.fields[2]));
    COPPICE_ASSIGN_OR_RETURN(cost.mib_us, ParseUs("mib_us", row.fields[3]));
    if (row.fields[4].empty())
      return Error("{} has no source; say where its figures come from", symbol);
    return Keep(symbol, cost);
  }

  absl::StatusOr<double> ParseUs(const char* column, std::string_view text) const {
    double us = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, us);
    if (error != std::errc() || end != last || !std::isfinite(us) || us < 0)
      return Error("{} is '{}'; give a number of microseconds >= 0", column, text);
    return us;
  }

  absl::Status Keep(std::string_view symbol, const Cost& cost) {
    if (symbol == kDefault) {
      if (default_) return Error("the default already has a row; remove one of the two rows");
      default_ = cost;
      return absl::OkStatus();
    }
    const std::optional<int> entry = FindDriverEntry(symbol);
    if (!entry)
      return Error("'{}' is not a driver entry; give a name such as {}", symbol,
                   DriverEntryAt(0).symbol);
    if (has_row_[*entry]) return Error("{} already has a row; remove one of the two rows", symbol);
    has_row_[*entry] = true;
    model_.costs_[*entry] = cost;
    return absl::OkStatus();
  }

  LatencyModel model_;
  std::optional<Cost> default_;
  std::bitset<kDriverEntryCount> has_row_;
  int line_ = 1;  // Of the row that is being read, or was last.
};

absl::StatusOr<LatencyModel> LatencyModel::Parse(std::string_view tsv, std::string name) {
  return Parser(std::move(name)).Parse(tsv);
}

const LatencyModel& LatencyModel::Documented() {
  static const LatencyModel model = [] {
    absl::StatusOr<LatencyModel> parsed =
        Parse(coppice_latency_documented, "latency.documented.tsv");
    COPPICE_CHECK(parsed.ok(), "the embedded table of latencies is wrong");
    return *std::move(parsed);
  }();
  return model;
}

double LatencyModel::CallUs(int entry, int64_t nodes, int64_t bytes) const {
  COPPICE_CHECK(entry >= 0 && entry < kDriverEntryCount, "no such driver entry");
  COPPICE_CHECK(nodes >= 0 && bytes >= 0, "nodes and bytes must not be negative");
  const Cost& cost = costs_[static_cast<size_t>(entry)];
  return cost.call_us + cost.node_us * static_cast<double>(nodes) +
         cost.mib_us * static_cast<double>(bytes) / static_cast<double>(kMiB);
}

}  // namespace coppice
