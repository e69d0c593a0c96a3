// Finds conflicts among the accesses of streams, and among those of a graph.

#include "runtime/emulator/checks.h"

#include <algorithm>

#include "fmt/format.h"

namespace coppice::emulator {
namespace {

constexpr size_t kReportsMax = 100;

// Where host memory lies among the keys of the history; physical offsets are below.
constexpr uint64_t kHostSpace = uint64_t{1} << 62;

// True if node `from` of a graph comes before node `to`, which comes later in topological order.
bool Precedes(const Snapshot& snapshot, int from, int to) {
  if (from == to) return true;
  if (snapshot.is_chain) return from < to;
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

const char* VerbOf(const Access& access) {
  return access.writes ? "writes" : "reads";
}

}  // namespace

// By physical bytes, so that two mappings of one handle meet.
template <typename Visit>
void Checks::ForEachPiece(const TouchedBytes& touched, Visit visit) const {
  const auto [begin, end] = touched.bytes;
  if (touched.host) return visit(kHostSpace + begin, kHostSpace + end);
  memory_.ForEachPhysical(begin, end, visit);
}

void Checks::Submit(uint64_t stream,
                    uint64_t position,
                    const VectorClock& clock,
                    std::span<const TouchedBytes> touched) {
  const auto precedes = [&](const Access& earlier) {
    return (earlier.stream == stream && earlier.position <= position) ||
           clock.Of(earlier.stream) >= earlier.position ||
           host_clock_.Of(earlier.stream) >= earlier.position;
  };
  for (const TouchedBytes& one : touched) {
    const Access access{
        .stream = stream, .position = position, .name = one.name, .writes = one.writes};
    ForEachPiece(one, [&](uint64_t begin, uint64_t end) {
      const auto conflict = history_.Add({begin, end}, access, precedes);
      if (!conflict.has_value()) return;
      ReportConflict(*conflict,
                     fmt::format("on streams {:#x} and {:#x}", conflict->earlier.stream,
                                 conflict->later.stream),
                     one.bytes.begin);
    });
  }
}

void Checks::Launch(Snapshot& snapshot) {
  if (std::exchange(snapshot.checked_generation, memory_.generation()) == memory_.generation())
    return;
  if (snapshot.is_chain) return;
  AccessHistory history;
  for (size_t i = 0; i < snapshot.nodes.size(); ++i) {
    const int node = static_cast<int>(i);
    const auto precedes = [&](const Access& earlier) {
      return Precedes(snapshot, static_cast<int>(earlier.position), node);
    };
    for (const TouchedBytes& one : snapshot.nodes[i].task.touched) {
      const Access access{.stream = 0, .position = i, .name = one.name, .writes = one.writes};
      ForEachPiece(one, [&](uint64_t begin, uint64_t end) {
        const auto conflict = history.Add({begin, end}, access, precedes);
        if (!conflict.has_value()) return;
        ReportConflict(*conflict,
                       fmt::format("of nodes {} and {} of one graph", conflict->earlier.position,
                                   conflict->later.position),
                       one.bytes.begin);
      });
    }
  }
}

void Checks::ReportConflict(const Conflict& conflict, const std::string& where, uint64_t address) {
  const auto& [earlier, later, bytes] = conflict;
  Report(fmt::format(
      "unordered accesses {}: {} {} {} bytes that {} {}, in what it touches from address {:#x} on, "
      "and nothing orders the two; add an event wait or a graph edge between them",
      where, later.name, VerbOf(later), bytes.end - bytes.begin, earlier.name, VerbOf(earlier),
      address));
}

void Checks::Report(std::string text) {
  if (reports_.size() >= kReportsMax ||
      std::find(reports_.begin(), reports_.end(), text) != reports_.end())
    return;
  reports_.push_back(std::move(text));
}

}  // namespace coppice::emulator
