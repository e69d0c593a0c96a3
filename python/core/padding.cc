// Policies as Python says them.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "python/core/given.h"
#include "python/core/methods.h"
#include "python/core/session.h"
#include "python/core/session_call.h"
#include "python/core/spec.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

nb::tuple PolicyBuckets(const nb::object& policy, int64_t most) {
  std::deque<std::string> texts;
  const coppice_policy read = PolicyOf(policy, texts);
  const int64_t count = Ask<&coppice_policy_buckets>(&read, nullptr, 0);
  const int64_t shown = std::clamp<int64_t>(most, 0, count);
  std::vector<int64_t> buckets(static_cast<size_t>(shown));
  Ask<&coppice_policy_buckets>(&read, buckets.data(), shown);
  return nb::make_tuple(count, buckets);
}

nb::tuple JointPolicyBuckets(const nb::object& policy, int64_t most) {
  std::deque<std::string> texts;
  const coppice_joint_policy read = JointPolicyOf(policy, texts);
  const int64_t count = Ask<&coppice_joint_policy_buckets>(&read, nullptr, 0);
  const int64_t shown = std::clamp<int64_t>(most, 0, count);
  std::vector<int64_t> numbers(2 * static_cast<size_t>(shown));
  Ask<&coppice_joint_policy_buckets>(&read, numbers.data(), shown);
  nb::list buckets;
  for (size_t i = 0; i < numbers.size(); i += 2)
    buckets.append(nb::make_tuple(numbers[i], numbers[i + 1]));
  return nb::make_tuple(count, buckets);
}

std::string LearnPolicy(const std::vector<int64_t>& sizes,
                        const std::vector<double>& counts,
                        int64_t limit,
                        int64_t buckets,
                        double price,
                        int64_t align,
                        const std::vector<int64_t>& forced,
                        double prior,
                        double max_ratio,
                        int64_t max_gap) {
  if (!counts.empty() && counts.size() != sizes.size())
    Raise("InvalidArgument", "learn_policy: give one count for each size");
  const coppice_learn_options options = {.struct_size = sizeof(coppice_learn_options),
                                         .reserved = 0,
                                         .limit = limit,
                                         .bucket_count = buckets,
                                         .price = price,
                                         .align = align,
                                         .forced = forced.data(),
                                         .forced_count = static_cast<int64_t>(forced.size()),
                                         .prior = prior > 0 ? prior : -1,
                                         .max_ratio = max_ratio,
                                         .max_gap = max_gap};
  return AskText<&coppice_learn_policy>(sizes.data(), counts.empty() ? nullptr : counts.data(),
                                        static_cast<int64_t>(sizes.size()), &options);
}

// As C has options whose 0 is a default: none is 0, and 0 is below it.
template <typename Value>
Value OrDefault(const std::optional<Value>& given) {
  if (!given) return 0;
  return *given == 0 ? -1 : *given;
}

nb::dict Rebucket(const Program& program,
                  const std::string& symbol,
                  bool dry_run,
                  std::optional<int64_t> period,
                  std::optional<int64_t> buckets,
                  std::optional<int64_t> added_max,
                  std::optional<double> gain_min,
                  std::optional<double> max_ratio,
                  int64_t max_gap,
                  std::optional<int32_t> graphs_max,
                  std::optional<int32_t> graphs_per_minute,
                  double cost_per_byte,
                  const nb::object& binding,
                  const nb::object& scratch) {
  auto options = Blank<coppice_rebucket_options>();
  options.dry_run = dry_run ? 1 : 0;
  options.period = OrDefault(period);
  options.bucket_count = buckets.value_or(0);
  options.added_max = OrDefault(added_max);
  options.gain_min = OrDefault(gain_min);
  options.max_ratio = OrDefault(max_ratio);
  options.max_gap = max_gap;
  options.graphs_max = OrDefault(graphs_max);
  options.graphs_per_minute = OrDefault(graphs_per_minute);
  options.cost_per_byte = cost_per_byte;
  if (!binding.is_none()) options.binding = GivenObject<const Binding>(binding, "binding").handle;
  if (!scratch.is_none()) options.scratch = GivenObject<const Binding>(scratch, "scratch").handle;
  const coppice_rebucket_report report =
      AskProgram<&coppice_rebucket>(program, symbol.c_str(), &options);
  nb::dict read;
  read["outcome"] = coppice_rebucket_outcome_name(report.outcome);
  read["calls"] = report.calls;
  read["graphs"] = report.graphs;
  read["added"] = report.added;
  read["dropped"] = report.dropped;
  read["waste_before_pct"] = report.waste_before_pct;
  read["waste_after_pct"] = report.waste_after_pct;
  read["why"] = static_cast<const char*>(report.why);
  return read;
}

void SetPolicy(const Program& program, const std::string& symbol, const nb::object& policy) {
  std::deque<std::string> texts;
  const coppice_policy read = PolicyOf(policy, texts);
  AskProgram<&coppice_set_policy>(program, symbol.c_str(), &read);
}

// A method whose text one function of C writes of a symbol.
template <auto Function>
std::string TextOfSymbol(const Program& program, const std::string& symbol) {
  const SessionCall session(program.of());
  return AskText<Function>(session.handle(), program.handle, symbol.c_str());
}

void SetObserved(const Program& program, const std::string& symbol, const std::string& text) {
  AskProgram<&coppice_set_observed>(program, symbol.c_str(), text.c_str());
}

}  // namespace

void BindPadding(nb::module_& module) {
  module.def("policy_buckets", &PolicyBuckets, nb::arg("policy"), nb::arg("most") = 4096,
             "The number of buckets of a policy, and the first `most` of them. A policy is a\n"
             "string, or (string, maximum). Raises InvalidArgument for an unknown policy.");
  module.def(
      "joint_policy_buckets", &JointPolicyBuckets, nb::arg("policy"), nb::arg("most") = 4096,
      "Like policy_buckets, but takes a policy for two sizes: a string, or (string, (maximum,\n"
      "maximum)). Its buckets are pairs.");
  module.def("learn_policy", &LearnPolicy, nb::arg("sizes"), nb::arg("counts"), nb::kw_only(),
             nb::arg("limit"), nb::arg("buckets"), nb::arg("price"), nb::arg("align"),
             nb::arg("forced"), nb::arg("prior"), nb::arg("max_ratio"), nb::arg("max_gap"),
             "Calls coppice_learn_policy, and returns its JSON: see coppice.learn.");
  AddMethod<Program>(
      "rebucket", &Rebucket, nb::arg("symbol"), nb::kw_only(), nb::arg("dry_run") = false,
      nb::arg("period") = nb::none(), nb::arg("buckets") = nb::none(),
      nb::arg("added_max") = nb::none(), nb::arg("gain_min") = nb::none(),
      nb::arg("max_ratio") = nb::none(), nb::arg("max_gap") = 0, nb::arg("graphs_max") = nb::none(),
      nb::arg("graphs_per_minute") = nb::none(), nb::arg("cost_per_byte") = 0.0,
      nb::arg("binding").none() = nb::none(), nb::arg("scratch").none() = nb::none(),
      "Learns the buckets of an observed symbol again from its calls, and swaps them in if\n"
      "that saves enough. Records the graphs of new buckets first; if it records any, it\n"
      "waits for the device.\n"
      "\n"
      "period: calls before it learns again (2000). buckets: the maximum number of buckets,\n"
      "not counting those above the largest call (the current number). added_max: how many\n"
      "buckets may be new (4). gain_min: percentage points of waste that a swap must save\n"
      "(1). max_ratio, max_gap: caps on the padding of a call; 0: no cap (1.25 and 2 if the\n"
      "largest bucket is at most 512, otherwise 1.5 and 1). graphs_max, graphs_per_minute:\n"
      "the maximum number of graphs to record (16 and 64). cost_per_byte: the price of a\n"
      "byte of graphs, in elements of padding per call (0); with a price, a ladder that pads\n"
      "more may win if it has fewer graphs.\n"
      "\n"
      "Returns outcome (\"not due\", \"kept\", \"limited\", \"not recorded\", \"would swap\",\n"
      "\"swapped\"), calls, graphs, added, dropped, waste_before_pct, waste_after_pct and\n"
      "why.");
  AddMethod<Program>("policy", &TextOfSymbol<&coppice_get_policy>, nb::arg("symbol"),
                     "The current policy of a symbol, as JSON.");
  AddMethod<Program>("set_policy", &SetPolicy, nb::arg("symbol"), nb::arg("policy"),
                     "Replaces the policy of a symbol, up to the same maximum. Waits for calls.");
  AddMethod<Program>("observed", &TextOfSymbol<&coppice_get_observed>, nb::arg("symbol"),
                     "The observed sizes of a symbol, as JSON.");
  AddMethod<Program>("set_observed", &SetObserved, nb::arg("symbol"), nb::arg("text"),
                     "Continues from sizes that were observed elsewhere.");
}

}  // namespace coppice::python
