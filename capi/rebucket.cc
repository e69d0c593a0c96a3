// Policies of running programs, learned again or replaced.

#include "coppice/graphs/rebucket.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/base/status.h"
#include "coppice/coppice.h"
#include "coppice/padding/policy_document.h"

#include "capi/answer.h"
#include "capi/here.h"
#include "capi/policies.h"

namespace coppice::capi {
namespace {

// A symbol of a program that is registered in the session.
struct SymbolHere {
  const Program* program = nullptr;
  int index = 0;
};

absl::StatusOr<SymbolHere> SymbolOf(const coppice_session& session,
                                    const coppice_program* program,
                                    const char* name) {
  SymbolHere here;
  COPPICE_ASSIGN_OR_RETURN(here.program, ProgramOf(session, program));
  COPPICE_ASSIGN_OR_RETURN(const std::string wanted, NameIn(name, "symbol"));
  const std::vector<SymbolSpec>& symbols = Session::SpecOf(*here.program).symbols;
  const auto found = std::ranges::find(symbols, wanted, &SymbolSpec::name);
  if (found == symbols.end())
    return InvalidArgument("symbol: program '{}' has no symbol '{}'",
                           Session::SpecOf(*here.program).name, wanted);
  here.index = static_cast<int>(found - symbols.begin());
  return here;
}

// What the caller says in place of a default: below 0 it is 0.
template <typename Value>
void Set(Value& value, Value given) {
  if (given != 0) value = std::max(given, Value{0});
}

absl::StatusOr<RebucketOptions> OptionsOf(const coppice_session& session,
                                          const SymbolHere& symbol,
                                          const coppice_rebucket_options* pointer) {
  COPPICE_ASSIGN_OR_RETURN(const coppice_rebucket_options given, ReadOptions(pointer));
  COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy policy,
                           session.session->policies().GetPolicy(*symbol.program, symbol.index));
  const SymbolSpec& spec =
      Session::SpecOf(*symbol.program).symbols[static_cast<size_t>(symbol.index)];
  // Under pressure the policy in force has fewer buckets than there may be again.
  const bool may_come_back = given.cost_per_byte > 0 && !spec.policy.is_exact();
  RelearnOptions relearn =
      RelearnFor(policy, spec.multiple_of,
                 may_come_back ? static_cast<int64_t>(spec.policy.buckets().size()) : 0);
  if (given.bucket_count != 0) {
    relearn.learn.count = given.bucket_count;
    relearn.counts_uncalled = false;
  }
  Set(relearn.added_max, given.added_max);
  Set(relearn.gain_min, given.gain_min);
  if (given.max_ratio != 0) {
    relearn.learn.max_ratio = std::max(given.max_ratio, 0.0);
    relearn.learn.max_gap = given.max_gap;
  }
  RebucketOptions options;
  options.relearn = std::move(relearn);
  options.dry_run = given.dry_run != 0;
  options.cost_per_byte = given.cost_per_byte;
  Set(options.period, given.period);
  Set(options.graphs_max, given.graphs_max);
  Set(options.graphs_per_minute, given.graphs_per_minute);
  COPPICE_ASSIGN_OR_RETURN(options.binding, BindingOf(session, given.binding));
  COPPICE_ASSIGN_OR_RETURN(options.scratch, BindingOf(session, given.scratch));
  return options;
}

coppice_rebucket_report ReportOf(const RebucketReport& report) {
  coppice_rebucket_report told{};
  told.outcome = static_cast<int32_t>(report.outcome);
  told.calls = report.calls;
  told.graphs = report.graphs;
  told.added = static_cast<int64_t>(report.learned.added.size());
  told.dropped = static_cast<int64_t>(report.learned.dropped.size());
  told.waste_before_pct = report.learned.waste_before_pct;
  told.waste_after_pct = report.learned.waste_after_pct;
  if (!report.why.ok()) CopyText(std::string(MessageOf(report.why)), told.why, sizeof told.why);
  return told;
}

}  // namespace

extern "C" {

const char* coppice_rebucket_outcome_name(int32_t outcome) {
  if (outcome < 0 || outcome > COPPICE_REBUCKET_SWAPPED) return "unknown";
  return NameOf(static_cast<Rebucketed>(outcome));
}

coppice_status coppice_rebucket(coppice_session* session,
                                coppice_program* program,
                                const char* symbol,
                                const coppice_rebucket_options* options,
                                coppice_rebucket_report* out) {
  return AnswerOn(session, out, [&]() -> absl::StatusOr<coppice_rebucket_report> {
    COPPICE_ASSIGN_OR_RETURN(const SymbolHere here, SymbolOf(*session, program, symbol));
    COPPICE_ASSIGN_OR_RETURN(const RebucketOptions read, OptionsOf(*session, here, options));
    COPPICE_ASSIGN_OR_RETURN(const RebucketReport report, session->session->policies().Rebucket(
                                                              *here.program, here.index, read));
    return ReportOf(report);
  });
}

coppice_status coppice_set_policy(coppice_session* session,
                                  coppice_program* program,
                                  const char* symbol,
                                  const coppice_policy* policy) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const SymbolHere here, SymbolOf(*session, program, symbol));
    COPPICE_ASSIGN_OR_RETURN(const coppice_policy given, ReadStruct(policy));
    COPPICE_ASSIGN_OR_RETURN(PaddingPolicy read, PolicyOf(given));
    return session->session->policies().SetPolicy(*here.program, here.index, std::move(read));
  });
}

coppice_status coppice_get_policy(coppice_session* session,
                                  coppice_program* program,
                                  const char* symbol,
                                  char* buffer,
                                  size_t buffer_bytes,
                                  size_t* text_bytes) {
  return AnswerTo(
      session, TextOut{buffer, buffer_bytes, text_bytes}, [&]() -> absl::StatusOr<std::string> {
        COPPICE_ASSIGN_OR_RETURN(const SymbolHere here, SymbolOf(*session, program, symbol));
        COPPICE_ASSIGN_OR_RETURN(PaddingPolicy policy,
                                 session->session->policies().GetPolicy(*here.program, here.index));
        return WritePolicyDocument({.policy = std::move(policy), .learned = std::nullopt});
      });
}

coppice_status coppice_get_observed(coppice_session* session,
                                    coppice_program* program,
                                    const char* symbol,
                                    char* buffer,
                                    size_t buffer_bytes,
                                    size_t* text_bytes) {
  return AnswerTo(
      session, TextOut{buffer, buffer_bytes, text_bytes}, [&]() -> absl::StatusOr<std::string> {
        COPPICE_ASSIGN_OR_RETURN(const SymbolHere here, SymbolOf(*session, program, symbol));
        return session->session->policies().GetObserved(*here.program, here.index);
      });
}

coppice_status coppice_set_observed(coppice_session* session,
                                    coppice_program* program,
                                    const char* symbol,
                                    const char* text) {
  return AnswerOf(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const SymbolHere here, SymbolOf(*session, program, symbol));
    if (text == nullptr) return InvalidArgument("observed: null; give a string");
    return session->session->policies().SetObserved(*here.program, here.index, text);
  });
}

}  // extern "C"
}  // namespace coppice::capi
