// What may replace a policy, and what becomes of the graphs of the old one.

#include "graphs/rebucket/swap_policy.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "graphs/call/check.h"
#include "graphs/parts/retire.h"

namespace coppice::internal {

absl::StatusOr<Ladder*> FindLadder(const char* where,
                                   const SessionParts& parts,
                                   const Program& program,
                                   int symbol) {
  if (program.place.owner != parts.catalogue.get())
    return InvalidArgument("{}: the program belongs to another session", where);
  COPPICE_RETURN_IF_ERROR(CheckRegistered(where, program));
  if (symbol < 0 || symbol >= static_cast<int>(program.spec.symbols.size()))
    return InvalidArgument(
        "{}: the number of symbols of program '{}' is {}, so there is no symbol {}", where,
        program.spec.name, program.spec.symbols.size(), symbol);
  if (const JointSpec* const joint = program.spec.JointOf(symbol))
    return InvalidArgument(
        "{}: symbols '{}' and '{}' of program '{}' are padded together by a joint policy, which "
        "stays as it was registered; read ProgramSpec::joint, or register another program",
        where, program.spec.symbols[static_cast<size_t>(joint->a)].name,
        program.spec.symbols[static_cast<size_t>(joint->b)].name, program.spec.name);
  return &program.ladder(static_cast<size_t>(symbol));
}

absl::Status CheckPolicy(const char* where,
                         const Program& program,
                         int symbol,
                         const PaddingPolicy& policy) {
  const SymbolSpec& spec = program.spec.symbols[static_cast<size_t>(symbol)];
  if (!MayPad(program.spec, symbol) || policy.is_exact())
    return InvalidArgument(
        "{}: symbol '{}' of program '{}': a new policy cannot turn padding on or off; register "
        "another program instead",
        where, spec.name, program.spec.name);
  if (policy.maximum() != spec.policy.maximum())
    return InvalidArgument(
        "{}: symbol '{}' of program '{}' was registered with buckets up to {}, but the new buckets "
        "go up to {}; give the same maximum",
        where, spec.name, program.spec.name, spec.policy.maximum(), policy.maximum());
  return CheckBuckets(where, program.spec, spec, policy);
}

void SwapPolicy(const SessionParts& parts,
                const Program& program,
                int symbol,
                PaddingPolicy policy) {
  const auto index = static_cast<size_t>(symbol);
  Ladder& ladder = program.ladder(index);
  const std::vector<int64_t> before = ladder.policy.buckets();
  const std::vector<int64_t> after = policy.buckets();
  std::vector<int64_t> gone;
  std::ranges::set_difference(before, after, std::back_inserter(gone));
  // Extents that are not padded are nobody's buckets.
  const auto has_gone = [&](const BucketKey& key) {
    return std::ranges::binary_search(gone, key.words[index]) &&
           program.Pads(index, key.words[index], Observe::kNo);
  };
  for (const std::unique_ptr<Lane>& lane : parts.lanes)
    lane->nodes().RetireBuckets(program, has_gone);
  ladder.policy = std::move(policy);
  if (parts.tracer != nullptr)
    parts.tracer->Policy(program.place.trace_number, symbol, ladder.policy);
}

absl::Status DropVanished(const SessionParts& parts) {
  for (const std::unique_ptr<Lane>& lane : parts.lanes) {
    const std::lock_guard lock(lane->mutex);
    COPPICE_RETURN_IF_ERROR(DropRetired(parts, *lane));
  }
  return absl::OkStatus();
}

absl::Status SetPolicy(const SessionParts& parts,
                       const Program& program,
                       int symbol,
                       PaddingPolicy policy) {
  constexpr char kWhere[] = "Session::SetPolicy";
  COPPICE_RETURN_IF_ERROR(FindLadder(kWhere, parts, program, symbol).status());
  COPPICE_RETURN_IF_ERROR(CheckPolicy(kWhere, program, symbol, policy));
  {
    const auto locks = parts.LockIdleLanes();
    SwapPolicy(parts, program, symbol, std::move(policy));
  }
  return DropVanished(parts);
}

absl::Status NotObserved(const char* where, const Program& program, int symbol) {
  return InvalidArgument(
      "{}: the sizes of symbol '{}' of program '{}' are not counted; give the symbol an "
      "observe_half_life",
      where, program.spec.symbols[static_cast<size_t>(symbol)].name, program.spec.name);
}

absl::StatusOr<std::string> GetObserved(SessionParts& parts, const Program& program, int symbol) {
  constexpr char kWhere[] = "Session::GetObserved";
  COPPICE_ASSIGN_OR_RETURN(const Ladder* ladder, FindLadder(kWhere, parts, program, symbol));
  if (ladder->observer == nullptr) return NotObserved(kWhere, program, symbol);
  return ladder->observer->ToJson();
}

absl::Status SetObserved(SessionParts& parts,
                         const Program& program,
                         int symbol,
                         std::string_view text) {
  constexpr char kWhere[] = "Session::SetObserved";
  COPPICE_ASSIGN_OR_RETURN(Ladder * ladder, FindLadder(kWhere, parts, program, symbol));
  if (ladder->observer == nullptr) return NotObserved(kWhere, program, symbol);
  COPPICE_ASSIGN_OR_RETURN(DecayingHistogram read, DecayingHistogram::Read(text, kWhere));
  if (read.options().limit != ladder->observer->options().limit)
    return InvalidArgument(
        "{}: the histogram has sizes up to {}, but symbol '{}' of program '{}' has buckets up to "
        "{}",
        kWhere, read.options().limit, program.spec.symbols[static_cast<size_t>(symbol)].name,
        program.spec.name, ladder->observer->options().limit);
  auto observer = std::make_unique<DecayingHistogram>(std::move(read));
  const auto locks = parts.LockIdleLanes();
  ladder->observer = std::move(observer);
  ladder->learned_at = 0;
  return absl::OkStatus();
}

}  // namespace coppice::internal
