// Texts of options, against what the trace has.

#include "tools/prof/whatif/changes.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/padding/joint_document.h"

#include "tools/prof/whatif/traced_spec.h"
#include "tools/support/policy_file.h"
#include "tools/support/printable.h"

namespace coppice {
namespace {

constexpr int64_t kExactMax = 4096;  // Buckets of an `exact` policy that are written out.

std::string ProgramList(const PoolTrace& trace) {
  std::vector<std::string> names;
  for (const TracedProgram& program : trace.programs)
    names.push_back(LabelOf(program));
  return fmt::format("{}", fmt::join(names, ", "));
}

// The places of the programs that are called so, or so with their variant.
std::vector<int> ProgramsNamed(const PoolTrace& trace, std::string_view text) {
  const std::string name = Printable(text);  // As names of a trace are.
  std::vector<int> labelled;
  std::vector<int> named;
  for (size_t i = 0; i < trace.programs.size(); ++i) {
    if (LabelOf(trace.programs[i]) == name) labelled.push_back(static_cast<int>(i));
    if (trace.programs[i].name == name) named.push_back(static_cast<int>(i));
  }
  return labelled.empty() ? named : labelled;
}

// The sizes that a policy is for.
struct Whose {
  std::vector<int> programs;
  std::string symbol;  // Empty: all of these programs.
};

Whose WhoseOf(const PoolTrace& trace, const std::string& text) {
  Whose whose = {.programs = ProgramsNamed(trace, text), .symbol = {}};
  const size_t dot = text.rfind('.');
  if (!whose.programs.empty() || dot == std::string::npos || dot + 1 == text.size()) return whose;
  whose.programs = ProgramsNamed(trace, text.substr(0, dot));
  whose.symbol = text.substr(dot + 1);
  return whose;
}

// Whether buckets of the symbol may be chosen at all.
bool MayHavePolicy(const ProgramSpec& spec, int symbol) {
  return ClaimOf(spec, symbol).has_value() &&
         spec.symbols[static_cast<size_t>(symbol)].kind != SymbolKind::kStatic;
}

std::optional<std::vector<int64_t>> ParseExtents(std::string_view text) {
  std::vector<int64_t> extents;
  while (true) {
    int64_t extent = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0) return std::nullopt;
    extents.push_back(extent);
    text.remove_prefix(static_cast<size_t>(rest - text.data()));
    if (text.empty()) return extents;
    if (text.front() != 'x') return std::nullopt;
    text.remove_prefix(1);
  }
}

absl::Status Named(const std::string& text, const absl::Status& dropped) {
  return dropped.ok() ? dropped
                      : InvalidArgument("--drop {}: {}", Printable(text), MessageOf(dropped));
}

class Changer {
 public:
  Changer(const TracedCalls& traced, ChangedMaking& made)
      : traced_(traced), trace_(traced.trace), made_(made) {}

  absl::Status SetPolicies(const std::string& text);
  absl::Status Drop(const std::string& text);

 private:
  ProgramSpec& SpecAt(int program) { return made_.specs[static_cast<size_t>(program)]; }

  absl::StatusOr<int> SetPolicyOf(int program,
                                  const std::string& wanted,
                                  const std::string& policy);
  absl::Status SetPolicy(const std::string& text, int program, int symbol);
  absl::Status SetJoint(const std::string& text, int program, JointSpec& joint);
  absl::Status DropSize(const std::string& text,
                        const Whose& whose,
                        const std::optional<std::vector<int64_t>>& extents);
  absl::Status DropFrom(int program, int symbol, int64_t bucket);
  absl::Status DropJoint(int program, JointSpec& joint, const JointSize& bucket);
  bool HasBucket(int program, const std::vector<int64_t>& extents);
  absl::Status DropBucket(const std::string& text,
                          int program,
                          const std::vector<int64_t>& extents);
  // Names of sizes of these programs that may be padded; "" if there are none.
  std::string PaddedSizes(const std::vector<int>& programs) const;
  std::string BucketList(const std::vector<int>& programs) const;

  const TracedCalls& traced_;
  const PoolTrace& trace_;
  ChangedMaking& made_;
};

absl::Status Changer::SetPolicy(const std::string& text, int program, int symbol) {
  PaddingPolicy& policy = SpecAt(program).symbols[static_cast<size_t>(symbol)].policy;
  COPPICE_ASSIGN_OR_RETURN(policy, ParseFittingPolicy(text, policy.maximum()));
  made_.new_policies.insert({program, symbol});
  return absl::OkStatus();
}

absl::Status Changer::SetJoint(const std::string& text, int program, JointSpec& joint) {
  if (IsPolicyFile(text)) {
    std::ifstream file(text, std::ios::binary);
    const std::string document{std::istreambuf_iterator<char>(file), {}};
    COPPICE_ASSIGN_OR_RETURN(JointDocument read, ReadJointDocument(document, text));
    joint.policy = std::move(read.policy);
  } else {
    COPPICE_ASSIGN_OR_RETURN(joint.policy, JointPolicy::Parse(text, joint.policy.limit()));
  }
  made_.new_policies.insert({program, joint.a});
  made_.new_policies.insert({program, joint.b});
  return absl::OkStatus();
}

absl::Status Changer::SetPolicies(const std::string& text) {
  size_t equals = text.find('=');
  Whose whose;
  if (equals == std::string::npos) {
    for (int i = 0; i < static_cast<int>(trace_.programs.size()); ++i)
      whose.programs.push_back(i);
  }
  // A name may have the sign in it.
  for (size_t next = equals; whose.programs.empty() && next != std::string::npos;
       next = text.find('=', next + 1)) {
    equals = next;
    whose = WhoseOf(trace_, text.substr(0, next));
  }
  if (whose.programs.empty() && equals != std::string::npos)
    return InvalidArgument(
        "--policy {}: there is no program '{}'; the programs of the trace are {}", Printable(text),
        Printable(text.substr(0, text.find('='))), ProgramList(trace_));
  const std::string policy = equals == std::string::npos ? text : text.substr(equals + 1);
  int changed = 0;
  for (const int program : whose.programs) {
    const absl::StatusOr<int> set = SetPolicyOf(program, whose.symbol, policy);
    if (!set.ok())
      return InvalidArgument("--policy {}: {}", Printable(text), MessageOf(set.status()));
    changed += *set;
  }
  if (changed > 0) return absl::OkStatus();
  const std::string sizes = PaddedSizes(whose.programs);
  if (sizes.empty())
    return InvalidArgument("--policy {}: no size may be padded; leave the option out",
                           Printable(text));
  return InvalidArgument(
      "--policy {}: '{}' is not a size that may be padded; the sizes that may be padded are {}",
      Printable(text), Printable(whose.symbol), sizes);
}

std::string Changer::PaddedSizes(const std::vector<int>& programs) const {
  std::set<std::string> names;
  for (const int program : programs) {
    const ProgramSpec& spec = made_.specs[static_cast<size_t>(program)];
    for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol) {
      if (MayHavePolicy(spec, symbol)) names.insert(spec.symbols[static_cast<size_t>(symbol)].name);
    }
  }
  return Printable(fmt::format("{}", fmt::join(names, ", ")));
}

// How many policies of the program were set.
absl::StatusOr<int> Changer::SetPolicyOf(int program,
                                         const std::string& wanted,
                                         const std::string& policy) {
  ProgramSpec& spec = SpecAt(program);
  int changed = 0;
  for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol) {
    const std::string& name = spec.symbols[static_cast<size_t>(symbol)].name;
    if ((!wanted.empty() && name != wanted) || !MayHavePolicy(spec, symbol)) continue;
    const JointSpec* const joint = spec.JointOf(symbol);
    // A pair has one policy, and it is set where its first size is met.
    if (joint != nullptr && joint->a != symbol && wanted.empty()) continue;
    if (made_.new_policies.contains({program, symbol}))
      return InvalidArgument(
          "size '{}' of program '{}' already has a --policy; give one --policy per size", name,
          LabelOf(trace_.programs[static_cast<size_t>(program)]));
    COPPICE_RETURN_IF_ERROR(
        joint == nullptr ? SetPolicy(policy, program, symbol)
                         : SetJoint(policy, program,
                                    spec.joint[static_cast<size_t>(joint - spec.joint.data())]));
    ++changed;
  }
  return changed;
}

std::string Changer::BucketList(const std::vector<int>& programs) const {
  std::set<std::vector<int64_t>> buckets;
  for (const TracedNode& node : trace_.nodes) {
    const TracedBucket& bucket = trace_.buckets[static_cast<size_t>(node.bucket)];
    if (std::ranges::find(programs, bucket.program) != programs.end())
      buckets.insert(bucket.extents);
  }
  std::vector<std::string> labels;
  for (const std::vector<int64_t>& extents : buckets)
    labels.push_back(fmt::format("{}", fmt::join(extents, "x")));
  return labels.empty() ? "none" : fmt::format("{}", fmt::join(labels, ", "));
}

absl::Status Changer::Drop(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string name = Printable(text.substr(0, colon));
  const Whose whose = colon == std::string::npos ? Whose() : WhoseOf(trace_, name);
  const std::vector<int>& named = whose.programs;
  if (named.empty())
    return InvalidArgument(
        "--drop {}: there is no program '{}'; give PROGRAM:BUCKET, such as decode:8, or "
        "PROGRAM.SYMBOL:BUCKET, where PROGRAM is one of {}",
        Printable(text), name, ProgramList(trace_));
  const auto extents = ParseExtents(std::string_view(text).substr(colon + 1));
  if (!whose.symbol.empty()) return DropSize(text, whose, extents);
  // Of several programs of one name, those that have it.
  std::vector<int> having;
  for (const int program : named)
    if (extents.has_value() && HasBucket(program, *extents)) having.push_back(program);
  if (having.empty())
    return InvalidArgument("--drop {}: program '{}' has no such bucket; its recorded buckets: {}",
                           Printable(text), name, BucketList(named));
  for (const int program : having)
    COPPICE_RETURN_IF_ERROR(DropBucket(text, program, *extents));
  return absl::OkStatus();
}

bool Changer::HasBucket(int program, const std::vector<int64_t>& extents) {
  return extents.size() == SpecAt(program).symbols.size() &&
         std::ranges::any_of(trace_.buckets, [&](const TracedBucket& bucket) {
           return bucket.program == program && bucket.extents == extents;
         });
}

absl::Status Changer::DropBucket(const std::string& text,
                                 int program,
                                 const std::vector<int64_t>& extents) {
  ProgramSpec& spec = SpecAt(program);
  if (spec.joint.size() == 1 && spec.symbols.size() == 2)
    return Named(text, DropJoint(program, spec.joint[0], spec.joint[0].SizeIn(extents)));
  std::vector<int> padded;
  for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol)
    if (MayHavePolicy(spec, symbol)) padded.push_back(symbol);
  if (padded.size() != 1)
    return InvalidArgument(
        "--drop {}: {} sizes of program '{}' are padded separately, so a bucket has no policy of "
        "its own; drop a bucket of one size with --drop PROGRAM.SYMBOL:BUCKET",
        Printable(text), padded.empty() ? "no" : fmt::format("{}", padded.size()),
        LabelOf(trace_.programs[static_cast<size_t>(program)]));
  return Named(text, DropFrom(program, padded[0], extents[static_cast<size_t>(padded[0])]));
}

// Of one size of programs, all buckets that have this extent of it.
absl::Status Changer::DropSize(const std::string& text,
                               const Whose& whose,
                               const std::optional<std::vector<int64_t>>& extents) {
  if (!extents.has_value() || extents->size() != 1)
    return InvalidArgument(
        "--drop {}: a bucket of '{}' is one number; give one, such as PROGRAM.SYMBOL:8",
        Printable(text), whose.symbol);
  bool there = false;
  for (const int program : whose.programs) {
    const ProgramSpec& spec = SpecAt(program);
    for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol) {
      const bool padded = MayHavePolicy(spec, symbol) && spec.JointOf(symbol) == nullptr;
      if (spec.symbols[static_cast<size_t>(symbol)].name != whose.symbol || !padded) continue;
      COPPICE_RETURN_IF_ERROR(Named(text, DropFrom(program, symbol, extents->front())));
      there = true;
    }
  }
  if (there) return absl::OkStatus();
  return InvalidArgument(
      "--drop {}: '{}' is not a size that is padded on its own; drop a whole bucket with "
      "PROGRAM:BUCKET",
      Printable(text), whose.symbol);
}

absl::Status Changer::DropFrom(int program, int symbol, int64_t bucket) {
  PaddingPolicy& policy = SpecAt(program).symbols[static_cast<size_t>(symbol)].policy;
  const int64_t gone[] = {bucket};
  bool there = IsBucketOf(policy, bucket);
  COPPICE_ASSIGN_OR_RETURN(policy, WithoutBuckets(std::move(policy), gone));
  const bool replaced = made_.new_policies.contains({program, symbol});  // For good.
  for (const TracedStep& step : traced_.steps) {
    const bool follows =
        step.kind == TracedStep::Kind::kPolicy && step.what == program && step.value == symbol;
    if (replaced || !follows) continue;
    COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy later, PolicyOf(trace_, step.more));
    there = there || IsBucketOf(later, bucket);
    COPPICE_ASSIGN_OR_RETURN(const PaddingPolicy left, WithoutBuckets(later, gone));
    if (left.maximum() != policy.maximum())
      return InvalidArgument(
          "it is the largest bucket, and without it a later policy of this size ends at {} instead "
          "of {}; give one policy for all calls with --policy",
          left.maximum(), policy.maximum());
  }
  if (!there)
    return InvalidArgument("{} is not a bucket of the policy {}; drop one of its buckets", bucket,
                           policy.name());
  made_.dropped[{program, symbol}].push_back(bucket);
  return absl::OkStatus();
}

absl::Status Changer::DropJoint(int program, JointSpec& joint, const JointSize& bucket) {
  std::vector<JointSize> left = joint.policy.buckets();
  std::erase(left, bucket);
  if (left.empty()) return InvalidArgument("it is the only bucket; without it nothing is recorded");
  JointSize limit;
  for (const JointSize& size : left)
    limit = {std::max(limit.a, size.a), std::max(limit.b, size.b)};
  const JointGuard guard = joint.policy.guard();
  COPPICE_ASSIGN_OR_RETURN(joint.policy, JointPolicy::List(left, limit, joint.policy.budget()));
  COPPICE_ASSIGN_OR_RETURN(joint.policy, joint.policy.WithGuard(guard));
  const std::vector<JointSize> made = joint.policy.buckets();
  if (std::ranges::find(made, bucket) != made.end())
    return InvalidArgument(
        "it is the largest bucket in both sizes, and the policy needs it; drop another bucket");
  made_.new_policies.insert({program, joint.a});
  made_.new_policies.insert({program, joint.b});
  return absl::OkStatus();
}

}  // namespace

std::string Describe(const WhatIfChanges& changes) {
  std::vector<std::string> parts;
  for (const std::string& drop : changes.drops)
    parts.push_back("--drop " + drop);
  for (const std::string& policy : changes.policies)
    parts.push_back("--policy " + policy);
  if (changes.budget_bytes > 0) parts.push_back(fmt::format("--budget {}", changes.budget_bytes));
  if (changes.lanes > 0) parts.push_back(fmt::format("--lanes {}", changes.lanes));
  if (changes.suspend_idle_ns > 0)
    parts.push_back(
        fmt::format("--suspend-idle {}", static_cast<double>(changes.suspend_idle_ns) / 1e9));
  if (changes.copy_outputs) parts.emplace_back("--outputs copy");
  return parts.empty() ? "nothing" : fmt::format("{}", fmt::join(parts, " "));
}

bool IsBucketOf(const PaddingPolicy& policy, int64_t bucket) {
  return bucket >= 1 && policy.Find(bucket) == bucket;
}

absl::StatusOr<PaddingPolicy> WithoutBuckets(PaddingPolicy policy, std::span<const int64_t> gone) {
  const auto has = [&policy](int64_t bucket) { return IsBucketOf(policy, bucket); };
  if (std::ranges::none_of(gone, has)) return policy;
  if (policy.is_exact() && policy.maximum() > kExactMax)
    return InvalidArgument(
        "the policy `exact` has {} buckets, one for each size; give another policy with --policy",
        policy.maximum());
  std::vector<int64_t> left;
  PaddingGuard guard = policy.guard();
  const std::vector<int64_t> lower_bounds = std::exchange(guard.lower_bounds, {});
  const std::vector<int64_t> buckets = policy.buckets();
  for (size_t i = 0; i < buckets.size(); ++i) {
    if (std::ranges::find(gone, buckets[i]) != gone.end()) continue;
    left.push_back(buckets[i]);
    if (!lower_bounds.empty()) guard.lower_bounds.push_back(lower_bounds[i]);
  }
  if (left.empty())
    return InvalidArgument("{} is the only bucket; without it nothing is recorded", gone.front());
  COPPICE_ASSIGN_OR_RETURN(policy, PaddingPolicy::List(left, left.back()));
  return guard == PaddingGuard() ? policy : policy.WithGuard(guard);
}

absl::StatusOr<ChangedMaking> ApplyChanges(const TracedCalls& traced,
                                           const SessionOptions& options,
                                           const std::vector<ProgramSpec>& specs,
                                           const WhatIfChanges& changes) {
  ChangedMaking made{.options = options, .specs = specs, .new_policies = {}};
  Changer changer(traced, made);
  for (const std::string& policy : changes.policies)
    COPPICE_RETURN_IF_ERROR(changer.SetPolicies(policy));
  for (const std::string& drop : changes.drops) {
    if (std::ranges::count(changes.drops, drop) > 1)
      return InvalidArgument("--drop {}: it is given twice; give each bucket once", drop);
    COPPICE_RETURN_IF_ERROR(changer.Drop(drop));
  }
  if (changes.budget_bytes > 0) made.options.memory.budget_bytes = changes.budget_bytes;
  if (changes.lanes > 0) made.options.lanes = static_cast<int>(changes.lanes);
  return made;
}

}  // namespace coppice
