// The memory of a session in bytes, by kind: what it holds, and the most that it ever held.
//
// Every byte is in one kind; the total is the sum of the kinds. `graphs` is an estimate from a
// table, because no driver says how much memory an executable graph takes. All other kinds are
// exact: they are counted where memory is mapped or reported, never inferred from free device
// memory.
//
// Units: bytes. Threads: plain values.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace coppice {

// What device memory is for.
enum class MemoryKind : uint8_t {
  kPlan,       // "nodes" by name. Mapped under the plan windows, where all nodes of a lane share
               // the same bytes.
  kEager,      // Mapped under the eager windows: warm-up and eager runs, and their leases.
  kStaging,    // Mapped under the staging windows: padded inputs and parameter blocks.
  kCopyOut,    // Mapped under the copy-out windows.
  kWorkspace,  // Mapped under the workspace windows, for libraries.
  kConstants,  // Mapped under the constants window.
  kSpare,      // Physical handles that no window has mapped, kept for later growth.
  kIncluded,   // Memory of graphs that the caller's captures include.
  kGraphs,     // Executable graphs, as the driver keeps them: an estimate.
  kExternal,   // Memory that the application itself holds and has reported.
};
inline constexpr int kMemoryKindCount = 10;

// The name in files and reports: the enumerator in snake case without its k, unless its comment
// gives another name.
const char* NameOf(MemoryKind kind);

// What a session holds, in bytes.
struct MemoryUsage {
  std::array<int64_t, kMemoryKindCount> bytes{};  // Held, by kind.
  std::array<int64_t, kMemoryKindCount> peak{};   // The most ever held, by kind.
  int64_t total = 0;       // The sum over all kinds. It is counted separately.
  int64_t total_peak = 0;  // The highest total so far.
  int64_t budget = 0;      // The most that the total may be; 0: no budget.
  int64_t height = 0;      // Largest end offset in the plan of any recorded graph, over all lanes.
  int64_t eager_live = 0;  // Bytes in use in the eager windows.
  int64_t eager_peak = 0;  // Highest top of any eager window so far.

  int64_t of(MemoryKind kind) const { return bytes[static_cast<size_t>(kind)]; }
  int64_t peak_of(MemoryKind kind) const { return peak[static_cast<size_t>(kind)]; }
  friend bool operator==(const MemoryUsage&, const MemoryUsage&) = default;
};

}  // namespace coppice
