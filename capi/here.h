// Whose code a thread runs. Private to capi/.
//
// Threads: what is told is of the calling thread.

#pragma once

#include <functional>

#include "absl/status/status.h"

#include "coppice/coppice.h"

namespace coppice::capi {

struct ProgramNeeds;

// Whose code a thread runs.
struct Here {
  ProgramNeeds* needs = nullptr;             // Of the innermost callable or function; null: none.
  coppice_context* run = nullptr;            // Of the innermost callable; null in a function.
  const coppice_session* session = nullptr;  // Of the innermost callback.
};
const Here& WhoseCode();

// Makes the thread run a callback of a session while it lives: a program's callable or function, or
// one of the session's own.
class HereScope {
 public:
  explicit HereScope(const Here& here);
  ~HereScope();
  HereScope(const HereScope&) = delete;
  HereScope& operator=(const HereScope&) = delete;

  const Here& here() const { return here_; }
  const HereScope* outer() const { return outer_; }

 private:
  const Here here_;
  const HereScope* const outer_;
};

// A callback of a session's as C++ calls it; empty if it is null. `user` outlives it.
template <typename Returned, typename... Arguments>
std::function<Returned(Arguments...)> CallbackOf(Returned (*callback)(void* user, Arguments...),
                                                 void* user,
                                                 const coppice_session& session) {
  if (callback == nullptr) return nullptr;
  return [callback, user, &session](Arguments... arguments) {
    const HereScope here({.session = &session});
    return callback(user, arguments...);
  };
}

// kFailedPrecondition if the thread runs a callback of this session, which may be gone.
absl::Status CheckNotCalledBy(const coppice_session* session);

}  // namespace coppice::capi
