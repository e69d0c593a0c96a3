// A chain: calls of a lane that build on each other, whether they read each other's outputs or not.
//
// Threads: a scope belongs to one thread at a time.

#pragma once

#include <utility>

namespace coppice {

namespace internal {
class Lane;
}  // namespace internal

// While it lives, calls on its lane are children of those before it in the scope: their graphs
// leave all leased outputs of the chain alone. The first is a root. Ends before its session.
class [[nodiscard]] ChainScope {
 public:
  ChainScope(ChainScope&& other) noexcept : lane_(std::exchange(other.lane_, nullptr)) {}
  ChainScope& operator=(ChainScope&&) = delete;
  ~ChainScope();

 private:
  friend class Session;
  explicit ChainScope(internal::Lane* lane) : lane_(lane) {}

  internal::Lane* lane_;  // Null once moved from.
};

}  // namespace coppice
