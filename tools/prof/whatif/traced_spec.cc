// Field by field, as the trace's documents have them.

#include "tools/prof/whatif/traced_spec.h"

#include <utility>

#include "coppice/base/status.h"
#include "coppice/graphs/session_documents.h"
#include "coppice/padding/joint_document.h"
#include "coppice/padding/policy_document.h"

namespace coppice {
namespace {

absl::StatusOr<PaddingPolicy> ParsePolicy(const std::string& document) {
  COPPICE_ASSIGN_OR_RETURN(PolicyDocument read, ReadPolicyDocument(document, "the policy"));
  return std::move(read.policy);
}

}  // namespace

absl::StatusOr<SessionOptions> OptionsOf(const PoolTrace& trace) {
  COPPICE_ASSIGN_OR_RETURN(SessionOptions options,
                           ReadOptionsDocument(trace.options, "the options of the session"));
  options.variant_timing = VariantTiming::kNever;
  options.checks = {};
  options.keep_drawings = false;
  return options;
}

absl::StatusOr<ProgramSpec> SpecOf(const TracedProgram& program) {
  const std::string where = "the spec of program '" + LabelOf(program) + "'";
  COPPICE_ASSIGN_OR_RETURN(ProgramSpec spec, ReadSpecDocument(program.spec, where));
  spec.name = program.name;
  spec.variant = program.variant;
  if (spec.symbols.size() != program.policies.size()) {
    return InvalidArgument(
        "{}: the number of symbols is {}, but the number of policies is {}; give an unmodified "
        "trace",
        where, spec.symbols.size(), program.policies.size());
  }
  for (size_t i = 0; i < spec.symbols.size(); ++i) {
    COPPICE_ASSIGN_OR_RETURN(spec.symbols[i].policy, ParsePolicy(program.policies[i]));
  }
  for (const TracedProgram::Joint& joint : program.joint) {
    COPPICE_ASSIGN_OR_RETURN(JointDocument read, ReadJointDocument(joint.policy, "the policy"));
    spec.joint.push_back({.a = joint.a, .b = joint.b, .policy = std::move(read.policy)});
  }
  return spec;
}

absl::StatusOr<PaddingPolicy> PolicyOf(const TracedProgram& program, int symbol) {
  return ParsePolicy(program.policies[static_cast<size_t>(symbol)]);
}

absl::StatusOr<PaddingPolicy> PolicyOf(const PoolTrace& trace, int policy) {
  return ParsePolicy(trace.policies[static_cast<size_t>(policy)]);
}

}  // namespace coppice
