// The stages of a call up to its decision, and what a run finds out behind it.

#include "graphs/call/explain.h"

#include <string>

#include "absl/cleanup/cleanup.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"

#include "graphs/call/check.h"
#include "graphs/call/decide.h"
#include "graphs/call/deliver.h"
#include "graphs/call/held.h"
#include "graphs/call/place.h"
#include "graphs/node/input_layout.h"
#include "graphs/parts/reach.h"
#include "graphs/parts/retire.h"

namespace coppice::internal {
namespace {

// Whether the node's memory is present, or the budget would have room to map it again.
bool IsWithinReach(const SessionParts& parts, Lane& lane, const Node& node) {
  if (node.top() <= lane.memory().present_bytes()) return true;
  const int64_t lacking = lane.memory().LackingPlanBytes(node.top());
  if (lacking == 0) return true;
  lane.nodes().SetInUse(&node);
  const absl::Cleanup idle = [&lane] { lane.nodes().SetInUse(nullptr); };
  return lacking <= Reach(parts, lane).ReclaimableBytes(MemoryKind::kPlan);
}

// What comes of a decision where a run is about to act on it.
Decision Foresee(const SessionParts& parts,
                 const Rules& rules,
                 const Request& request,
                 Lane& lane,
                 const Node* node) {
  const Program& program = *request.call.program;
  Decision decision = Decide(rules, request, lane, node);
  Outcome& outcome = decision.outcome;
  if (!decision.status.ok()) return decision;
  if (decision.evict && lane.nodes().CountDroppable(&program).nodes == 0) {
    outcome = {.kind = RunKind::kEager, .reason = Reason::kGraphLimit};
  } else if (outcome.kind == RunKind::kReplay && !IsWithinReach(parts, lane, *node)) {
    if (rules.stance == Stance::kStrict) {
      decision.status =
          MakeError(absl::StatusCode::kResourceExhausted,
                    "Session::Run: the budget has no room for {} bytes of the plan of program "
                    "'{}' on lane {}; drop leases or raise the budget",
                    node->top(), program.spec.name, lane.index);
    }
    outcome = {.kind = RunKind::kEager, .reason = Reason::kByteLimit};
  } else if (outcome.kind == RunKind::kRecord && parts.background != nullptr &&
             program.spec.thread_safe) {
    outcome.kind = RunKind::kEager;  // Until the recording is there.
  }
  return decision;
}

// What refuses the call once it is decided.
absl::Status FindRefusal(const Request& request, Lane& lane, const Node* node, RunKind kind) {
  if (kind != RunKind::kReplay)
    COPPICE_RETURN_IF_ERROR(lane.order().RefuseCapture(request.call.stream));
  if (kind == RunKind::kReplay) COPPICE_RETURN_IF_ERROR(CheckHeld(request, lane, *node));
  const bool graph = kind == RunKind::kReplay || kind == RunKind::kRecord;
  if (!graph || !NeedsCopyOutBytes(request.call.output_mode)) return absl::OkStatus();
  return CheckCopyOut(request, lane);
}

// Why an output of the path is not read where it lies: what the symbols claim that pad it.
std::string DescribeFilled(const Request& request, size_t copy) {
  const Program& program = *request.call.program;
  const InputSpec& input = program.copied_input(copy);
  const Tensor& tensor = request.call.inputs[copy];
  const Tensor whole = PlacedTensor(tensor.data, input, request.shape.padded);
  const uint32_t symbols =
      program.SymbolsOf(PaddedExtents(input, tensor, whole, CountedOf(request.call)));
  std::string text;
  for (size_t i = 0; i < program.spec.symbols.size(); ++i) {
    if (((symbols & ~program.layout.any_bits) >> i & 1) == 0) continue;
    const SymbolSpec& symbol = program.spec.symbols[i];
    const PaddingClaim claim = *ClaimOf(program.spec, static_cast<int>(i));  // It is padded.
    text += fmt::format("{}'{}' {}", text.empty() ? "" : ", ", symbol.name,
                        claim.padding == PaddingContents::kRowIndependent
                            ? "is claimed to be row-independent, so its fill matters"
                            : "claims " + DescribeClaim(claim));
  }
  return fmt::format("; input '{}' is staged because of its padding: {}", input.name, text);
}

// What claims keep the call from, and what they let its padding hold.
std::string DescribeClaims(const Request& request, Lane& lane) {
  const Program& program = *request.call.program;
  std::string text;
  for (size_t i = 0; i < program.spec.symbols.size(); ++i) {
    const SymbolSpec& symbol = program.spec.symbols[i];
    const int64_t real = request.shape.real[i];
    const int64_t padded = request.shape.padded[i];
    const int64_t bucket = program.policy(i).Find(real).value_or(real);
    const bool claimed = ClaimOf(program.spec, static_cast<int>(i)).has_value();
    if (!claimed && symbol.kind != SymbolKind::kStatic && bucket != real)
      text += fmt::format("; '{}' is not padded from {} to {}, because it has no claim",
                          symbol.name, real, bucket);
    if (symbol.claim && padded != real)
      text += fmt::format("; '{}' is padded from {} to {}, as its claim allows: {}", symbol.name,
                          real, padded, DescribeClaim(*symbol.claim));
  }
  for (const size_t copy : FilledInputs(request, lane))
    text += DescribeFilled(request, copy);
  return text;
}

std::string DescribeRun(const Request& request, Lane& lane, const Outcome& outcome) {
  const ProgramSpec& spec = request.call.program->spec;
  const bool padded = outcome.kind != RunKind::kEager;
  const auto first = (padded ? request.shape.padded : request.shape.real).begin();
  return fmt::format("{} of program '{}' {} [{}]: {}{}", NameOf(outcome.kind), spec.name,
                     padded ? "in bucket" : "at extents",
                     fmt::join(first, first + static_cast<ptrdiff_t>(spec.symbols.size()), ", "),
                     DescribeReason(request, lane, outcome.reason),
                     padded ? DescribeClaims(request, lane) : "");
}

}  // namespace

Explanation ExplainCall(const SessionParts& parts, Request& request, Lane& lane) {
  Explanation explanation;
  const absl::Cleanup read = [&lane] { lane.slots().EndReads(); };
  explanation.status = CheckRegistered("Session::Run", *request.call.program);
  if (explanation.status.ok()) explanation.status = lane.memory().CheckPresent("Session::Run");
  if (explanation.status.ok()) explanation.status = FindPlace(request, lane);
  if (!explanation.status.ok()) return explanation;
  // As a run would, so that what nobody leases any more does not count.
  lane.slots().Sweep();
  const Node* node = FindNode(request, lane);
  if (node == nullptr) explanation.status = DropRetired(parts, lane);
  if (!explanation.status.ok()) return explanation;
  const Rules rules{.options = parts.options, .stance = parts.stance.load()};
  const Decision decision = Foresee(parts, rules, request, lane, node);
  explanation.status = decision.status;
  explanation.kind = decision.outcome.kind;
  explanation.reason = decision.outcome.reason;
  if (explanation.status.ok())
    explanation.status = FindRefusal(request, lane, node, explanation.kind);
  if (!decision.status.ok()) return explanation;
  if (explanation.kind != RunKind::kReplay) {
    explanation.text = DescribeRun(request, lane, decision.outcome);
    return explanation;
  }
  explanation.node = node->info();
  explanation.text = fmt::format(
      "replay of program '{}' in bucket [{}]; its plan avoids {} leased bytes; recorded in {} us{}",
      node->info().program, fmt::join(node->info().bucket, ", "), node->info().around_bytes,
      node->info().record_ns / 1000, DescribeClaims(request, lane));
  return explanation;
}

}  // namespace coppice::internal
