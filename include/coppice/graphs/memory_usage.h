// The books of a session: bytes by kind, exact, and the most there ever were.
//
// Every byte is in one kind; the total is the sum of the kinds. `graphs` is an estimate from a
// table, because no driver tells what an executable graph occupies; all others are counted where
// they are mapped or reported. Nothing is inferred from free device memory.
//
// Units: bytes. Threads: plain values.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace coppice {

// What device memory is for.
enum class MemoryKind : uint8_t {
  kPlan,       // "nodes" by name. Mapped under the plan windows, where the nodes of a lane lie on
               // top of each other.
  kEager,      // Mapped under the eager windows: warm-up and eager runs, and their leases.
  kStaging,    // Mapped under the staging windows: padded inputs and parameter blocks.
  kCopyOut,    // Mapped under the copy-out windows.
  kWorkspace,  // Mapped under the workspace windows, for libraries.
  kConstants,  // Mapped under the constants window.
  kSpare,      // Physical handles that no window has mapped, kept for the next growth.
  kIncluded,   // Memory of graphs that the caller's captures include.
  kGraphs,     // Executable graphs, as the driver keeps them: an estimate.
  kExternal,   // What the application said that it holds itself.
};
inline constexpr int kMemoryKindCount = 10;

// As files and reports call them: in snake case without the k, but for one that says otherwise.
const char* NameOf(MemoryKind kind);

// What a session holds, in bytes.
struct MemoryUsage {
  std::array<int64_t, kMemoryKindCount> bytes{};  // Held, by kind.
  std::array<int64_t, kMemoryKindCount> peak{};   // The most of each kind there ever was.
  int64_t total = 0;                              // Sum of `bytes`, counted by itself.
  int64_t total_peak = 0;                         // The most there ever was of it.
  int64_t budget = 0;                             // What the total may reach; 0: no budget.
  int64_t height = 0;      // Highest end of any plan that a graph was recorded at, of all lanes.
  int64_t eager_live = 0;  // Live in the eager windows.
  int64_t eager_peak = 0;  // Highest top of any eager window so far.

  int64_t of(MemoryKind kind) const { return bytes[static_cast<size_t>(kind)]; }
  int64_t peak_of(MemoryKind kind) const { return peak[static_cast<size_t>(kind)]; }
  friend bool operator==(const MemoryUsage&, const MemoryUsage&) = default;
};

}  // namespace coppice
