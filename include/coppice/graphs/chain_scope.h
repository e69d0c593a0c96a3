// A chain: calls of a lane whose outputs stay valid together, whether they read each other's
// outputs or not.
//
// Threads: a scope belongs to one thread at a time.

#pragma once

#include <utility>

namespace coppice {

namespace internal {
class Lane;
}  // namespace internal

// While it lives, each call on its lane is a child of the calls before it in the scope: its graph
// does not write over leased outputs of the chain. The first call is a root. The scope must end
// before its session.
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
