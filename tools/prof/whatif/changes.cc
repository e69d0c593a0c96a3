// Texts of options, against what the trace has.

#include "tools/prof/whatif/changes.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <iterator>
#include <optional>
#include <string_view>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/padding/joint_document.h"

#include "tools/support/policy_file.h"

namespace coppice {
namespace {

constexpr int64_t kExactMax = 4096;  // Buckets of an `exact` policy that are written out.

std::string ProgramList(const PoolTrace& trace) {
  std::vector<std::string> names;
  for (const TracedProgram& program : trace.programs)
    names.push_back(LabelOf(program));
  return fmt::format("{}", fmt::join(names, ", "));
}

// The place of a program that is called so, or so with its variant; -1 if none is.
int FindProgram(const PoolTrace& trace, std::string_view name) {
  for (size_t i = 0; i < trace.programs.size(); ++i)
    if (LabelOf(trace.programs[i]) == name) return static_cast<int>(i);
  for (size_t i = 0; i < trace.programs.size(); ++i)
    if (trace.programs[i].name == name) return static_cast<int>(i);
  return -1;
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
  return dropped.ok() ? dropped : InvalidArgument("--drop {}: {}", text, MessageOf(dropped));
}

class Changer {
 public:
  Changer(const PoolTrace& trace, ChangedMaking& made) : trace_(trace), made_(made) {}

  absl::Status SetPolicies(const std::string& text);
  absl::Status Drop(const std::string& text);

 private:
  ProgramSpec& SpecAt(int program) { return made_.specs[static_cast<size_t>(program)]; }

  absl::Status SetPolicy(const std::string& text, int program, int symbol);
  absl::Status SetJoint(const std::string& text, int program, JointSpec& joint);
  absl::Status DropFrom(int program, int symbol, int64_t bucket);
  absl::Status DropJoint(int program, JointSpec& joint, const JointSize& bucket);
  std::string BucketList(int program) const;

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

// What of "decode=pow2" is before the policy; empty for all programs.
std::string WhosePolicy(const std::string& text) {
  const size_t equals = text.find('=');
  return equals == std::string::npos ? "" : text.substr(0, equals);
}

absl::Status Changer::SetPolicies(const std::string& text) {
  const std::string whose = WhosePolicy(text);
  const std::string policy = text.substr(text.find('=') + 1);
  std::string wanted;
  int program = whose.empty() ? -1 : FindProgram(trace_, whose);
  if (const size_t dot = whose.rfind('.'); program < 0 && dot != std::string::npos) {
    program = FindProgram(trace_, whose.substr(0, dot));
    wanted = whose.substr(dot + 1);
  }
  if (!whose.empty() && program < 0)
    return InvalidArgument("--policy {}: there is no program '{}'; those of the trace are {}", text,
                           whose, ProgramList(trace_));
  int changed = 0;
  for (int i = 0; i < static_cast<int>(made_.specs.size()); ++i) {
    if (program >= 0 && i != program) continue;
    ProgramSpec& spec = SpecAt(i);
    for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol) {
      const std::string& name = spec.symbols[static_cast<size_t>(symbol)].name;
      if ((!wanted.empty() && name != wanted) || !MayHavePolicy(spec, symbol)) continue;
      const JointSpec* const joint = spec.JointOf(symbol);
      // A pair has one policy, and it is set where its first size is met.
      if (joint != nullptr && joint->a != symbol && wanted.empty()) continue;
      const absl::Status set =
          joint == nullptr
              ? SetPolicy(policy, i, symbol)
              : SetJoint(policy, i, spec.joint[static_cast<size_t>(joint - spec.joint.data())]);
      if (!set.ok()) return InvalidArgument("--policy {}: {}", text, MessageOf(set));
      ++changed;
    }
  }
  if (changed > 0) return absl::OkStatus();
  return InvalidArgument("--policy {}: {}; name PROGRAM.SYMBOL of one that is", text,
                         wanted.empty()
                             ? "no size may be padded"
                             : fmt::format("'{}' is no size that may be padded", wanted));
}

std::string Changer::BucketList(int program) const {
  std::set<std::vector<int64_t>> buckets;
  for (const TracedNode& node : trace_.nodes) {
    const TracedBucket& bucket = trace_.buckets[static_cast<size_t>(node.bucket)];
    if (bucket.program == program) buckets.insert(bucket.extents);
  }
  std::vector<std::string> labels;
  for (const std::vector<int64_t>& extents : buckets)
    labels.push_back(fmt::format("{}", fmt::join(extents, "x")));
  return labels.empty() ? "none, as nothing of it was recorded"
                        : fmt::format("{}", fmt::join(labels, ", "));
}

absl::Status Changer::Drop(const std::string& text) {
  const size_t colon = text.rfind(':');
  const std::string name = text.substr(0, colon);
  const int program = colon == std::string::npos ? -1 : FindProgram(trace_, name);
  if (program < 0)
    return InvalidArgument(
        "--drop {}: there is no program '{}'; give PROGRAM:BUCKET, as decode:8, with one of {}",
        text, name, ProgramList(trace_));
  ProgramSpec& spec = SpecAt(program);
  const auto extents = ParseExtents(std::string_view(text).substr(colon + 1));
  const bool there =
      extents.has_value() && std::ranges::any_of(trace_.buckets, [&](const TracedBucket& bucket) {
        return bucket.program == program && bucket.extents == *extents;
      });
  if (!there || extents->size() != spec.symbols.size())
    return InvalidArgument("--drop {}: program '{}' has no such bucket; those recorded are {}",
                           text, name, BucketList(program));
  if (spec.joint.size() == 1 && spec.symbols.size() == 2)
    return Named(text, DropJoint(program, spec.joint[0], spec.joint[0].SizeIn(*extents)));
  std::vector<int> padded;
  for (int symbol = 0; symbol < static_cast<int>(spec.symbols.size()); ++symbol)
    if (MayHavePolicy(spec, symbol)) padded.push_back(symbol);
  if (padded.size() != 1)
    return InvalidArgument(
        "--drop {}: {} sizes of program '{}' are padded, each by itself, so that no bucket is one "
        "of a policy; change one by --policy PROGRAM.SYMBOL=LIST",
        text, padded.empty() ? "no" : fmt::format("{}", padded.size()), name);
  return Named(text, DropFrom(program, padded[0], (*extents)[static_cast<size_t>(padded[0])]));
}

absl::Status Changer::DropFrom(int program, int symbol, int64_t bucket) {
  PaddingPolicy& policy = SpecAt(program).symbols[static_cast<size_t>(symbol)].policy;
  if (policy.is_exact() && policy.maximum() > kExactMax)
    return InvalidArgument("the policy `exact` has {} buckets; give another by --policy",
                           policy.maximum());
  std::vector<int64_t> left = policy.buckets();
  const auto gone = std::ranges::find(left, bucket);
  if (gone == left.end())
    return InvalidArgument("{} is no bucket of the policy {}; drop one of its own", bucket,
                           policy.name());
  PaddingGuard guard = policy.guard();
  if (!guard.lower_bounds.empty())
    guard.lower_bounds.erase(guard.lower_bounds.begin() + (gone - left.begin()));
  left.erase(gone);
  if (left.empty())
    return InvalidArgument("{} is the only bucket; without it nothing is recorded", bucket);
  COPPICE_ASSIGN_OR_RETURN(policy, PaddingPolicy::List(left, left.back()));
  if (guard != PaddingGuard()) {
    COPPICE_ASSIGN_OR_RETURN(policy, policy.WithGuard(guard));
  }
  made_.new_policies.insert({program, symbol});
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
    return InvalidArgument("it holds the largest of both sizes, without which there is no policy");
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

absl::StatusOr<ChangedMaking> ApplyChanges(const PoolTrace& trace,
                                           const SessionOptions& options,
                                           const std::vector<ProgramSpec>& specs,
                                           const WhatIfChanges& changes) {
  ChangedMaking made{.options = options, .specs = specs, .new_policies = {}};
  Changer changer(trace, made);
  for (const std::string& policy : changes.policies) {
    const std::string whose = WhosePolicy(policy);
    if (std::ranges::count(changes.policies, whose, &WhosePolicy) > 1)
      return InvalidArgument("--policy {}: another is given for {}; give each one policy", policy,
                             whose.empty() ? "all sizes" : "'" + whose + "'");
    COPPICE_RETURN_IF_ERROR(changer.SetPolicies(policy));
  }
  for (const std::string& drop : changes.drops) {
    if (std::ranges::count(changes.drops, drop) > 1)
      return InvalidArgument("--drop {}: it is there twice; give each bucket once", drop);
    COPPICE_RETURN_IF_ERROR(changer.Drop(drop));
  }
  if (changes.budget_bytes > 0) made.options.memory.budget_bytes = changes.budget_bytes;
  if (changes.lanes > 0) made.options.lanes = static_cast<int>(changes.lanes);
  return made;
}

}  // namespace coppice
