// Finds conflicts among the accesses of streams, and among those of a graph.

#include "runtime/emulator/checks.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/plural.h"

namespace coppice::emulator {
namespace {

constexpr size_t kTextsMax = 100;

// Where host memory lies among the keys of the history; physical offsets are below.
constexpr uint64_t kHostSpace = uint64_t{1} << 62;

// True if node `from` of a graph is node `to`, or comes before it.
bool Precedes(const Snapshot& snapshot, int from, int to) {
  if (from >= to) return from == to;  // Every node is behind its dependencies.
  if (snapshot.is_chain) return true;
  std::vector<bool> seen(to - from + 1);
  std::vector<int> stack = {from};
  while (!stack.empty()) {
    const int node = stack.back();
    stack.pop_back();
    for (const int successor : snapshot.nodes[node].successors) {
      if (successor == to) return true;
      if (successor > to || seen[successor - from]) continue;
      seen[successor - from] = true;
      stack.push_back(successor);
    }
  }
  return false;
}

bool Knows(const VectorClock& clock, OperationId operation) {
  return clock.Of(operation.stream) >= operation.position;
}

const char* VerbOf(const Access& access) {
  return access.writes ? "writes" : "reads";
}

}  // namespace

// By physical bytes, so that two mappings of one handle meet.
template <typename Visit>
void Checks::ForEachPiece(const TouchedBytes& touched, Visit visit) const {
  const auto [begin, end] = touched.bytes;
  if (touched.host) return visit(kHostSpace + begin, kHostSpace + end, begin);
  memory_.ForEachPhysical(begin, end, visit);
}

template <typename OrderOf>
void Checks::Note(AccessHistory& history,
                  const TouchedBytes& touched,
                  OperationId operation,
                  int node,
                  OrderOf order_of) {
  const Access access{
      .operation = operation, .node = node, .name = touched.name, .writes = touched.writes};
  ForEachPiece(touched, [&](uint64_t begin, uint64_t end, uint64_t address) {
    const auto conflict = history.Add({begin, end}, access, order_of);
    if (conflict.has_value()) ReportConflict(*conflict, address + conflict->bytes.begin - begin);
  });
}

void Checks::Submit(OperationId operation,
                    int node,
                    const VectorClock& clock,
                    std::span<const TouchedBytes> touched) {
  const auto order_of = [&](const Access& earlier) {
    return earlier.operation == operation || Knows(clock, earlier.operation) ||
                   Knows(host_clock_, earlier.operation)
               ? Order::kBefore
               : Order::kNone;
  };
  for (const TouchedBytes& one : touched)
    Note(history_, one, operation, node, order_of);
}

void Checks::Launch(Snapshot& snapshot) {
  if (snapshot.is_chain || snapshot.checked_generation == memory_.generation()) return;
  const int64_t before = count_;
  AccessHistory history;
  for (size_t i = 0; i < snapshot.nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    const auto order_of = [&](const Access& earlier) {
      return Precedes(snapshot, earlier.node, node) ? Order::kBefore : Order::kNone;
    };
    for (const TouchedBytes& one : snapshot.nodes[i].task.touched)
      Note(history, one, {}, node, order_of);
  }
  // What is wrong with a graph is reported at each of its launches.
  if (count_ == before) snapshot.checked_generation = memory_.generation();
}

void Checks::Join(OperationId operation, const VectorClock& joined) {
  if (expected_.empty()) return;
  joined.ForEach([&](uint64_t stream, uint64_t position) {
    std::vector<Joined>& known = joined_[{operation.stream, stream}];
    if (known.empty() || known.back().known < position)
      known.push_back({operation.position, position});
  });
}

void Checks::Expect(OperationId operation, const VectorClock& clock) {
  VectorClock& known = expected_[operation];
  known = clock;
  known.Join(host_clock_);
}

void Checks::Finish(OperationId operation) {
  if (expected_.erase(operation) > 0 && expected_.empty()) joined_.clear();
}

// Of two operations of which the first is queued, and the second was submitted later.
bool Checks::IsAfter(OperationId operation, OperationId earlier) const {
  if (operation.stream == earlier.stream) return true;
  const auto found = joined_.find({operation.stream, earlier.stream});
  if (found == joined_.end()) return false;
  const auto first = std::ranges::lower_bound(found->second, earlier.position, {}, &Joined::known);
  return first != found->second.end() && first->position <= operation.position;
}

void Checks::Observe(OperationId operation,
                     const Snapshot* graph,
                     int node,
                     std::span<const TouchedBytes> touched) {
  const auto found = expected_.find(operation);
  if (found == expected_.end()) return;
  const VectorClock& clock = found->second;
  const auto order_of = [&](const Access& noted) {
    if (noted.operation == operation) {
      if (graph == nullptr || Precedes(*graph, noted.node, node)) return Order::kBefore;
      return Precedes(*graph, node, noted.node) ? Order::kAfter : Order::kNone;
    }
    if (noted.operation > operation)
      return IsAfter(noted.operation, operation) ? Order::kAfter : Order::kNone;
    return Knows(clock, noted.operation) ? Order::kBefore : Order::kNone;
  };
  for (const TouchedBytes& one : touched)
    Note(history_, one, operation, node, order_of);
}

void Checks::HoldToDeclared(const Task& task, std::span<const TouchedBytes> touched) {
  for (const TouchedBytes& one : touched) {
    uint64_t undeclared = one.bytes.begin;
    // What is declared may overlap; the first byte that nothing covers is looked for.
    for (bool grows = true; grows && undeclared < one.bytes.end;) {
      grows = false;
      for (const TouchedBytes& declared : task.touched) {
        if ((one.writes && !declared.writes) || declared.bytes.begin > undeclared ||
            declared.bytes.end <= undeclared)
          continue;
        undeclared = declared.bytes.end;
        grows = true;
      }
    }
    if (undeclared >= one.bytes.end) continue;
    std::string& text = undeclared_[{one.name, one.writes}];
    if (text.empty())
      text = fmt::format(
          "kernel {} accesses memory that it does not declare: it {} address {:#x}, in a range of "
          "{} bytes that starts at {:#x}; declare this range in COPPICE_ACCESSES",
          one.name, one.writes ? "writes" : "reads", undeclared, one.bytes.end - one.bytes.begin,
          one.bytes.begin);
    Report(text);
  }
}

void Checks::ReportConflict(Conflict conflict, uint64_t address) {
  auto& [earlier, later, bytes] = conflict;
  // As they were submitted, whichever was noted first.
  if (std::tie(later.operation, later.node) < std::tie(earlier.operation, earlier.node))
    std::swap(earlier, later);
  const std::string where =
      earlier.operation == later.operation
          ? fmt::format("by nodes {} and {} of one graph", earlier.node, later.node)
          : fmt::format("on streams {:#x} and {:#x}", earlier.operation.stream,
                        later.operation.stream);
  Report(
      fmt::format("unordered accesses {}: {} {} {} that {} {}, at address {:#x}, and nothing "
                  "orders the two accesses; add an event wait or a graph edge between them",
                  where, later.name, VerbOf(later), Plural(bytes.end - bytes.begin, "byte"),
                  earlier.name, VerbOf(earlier), address));
}

void Checks::Report(std::string text, std::optional<KernelFinding> kernel) {
  const int64_t number = Count();
  const auto known = std::ranges::find(told_, text, &Told::text);
  if (known != told_.end()) {
    known->last = number;
    return;
  }
  if (told_.size() >= kTextsMax) told_.erase(std::ranges::min_element(told_, {}, &Told::last));
  told_.push_back({.text = std::move(text), .last = number, .kernel = std::move(kernel)});
}

std::vector<KernelFinding> Checks::KernelFindings() const {
  std::vector<KernelFinding> findings;
  for (const Told& told : told_)
    if (told.kernel) findings.push_back(*told.kernel);
  return findings;
}

std::vector<std::string> Checks::ReportsSince(int64_t since) const {
  std::vector<std::string> texts;
  for (const Told& told : told_)
    if (told.last > since) texts.push_back(told.text);
  return texts;
}

}  // namespace coppice::emulator
