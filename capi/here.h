// Whose code a thread runs. Private to capi/.
//
// Threads: what is told is of the calling thread.

#pragma once

#include <cstdint>
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

// A caller's function as C++ has it; empty if it is null. Every `user` outlives the call.
std::function<void(int64_t done, int64_t total)> ProgressOf(const coppice_session& session,
                                                            void (*progress)(void* user,
                                                                             int64_t done,
                                                                             int64_t total),
                                                            void* user);

// kFailedPrecondition if the thread runs a callback of this session, which may be gone.
absl::Status CheckNotCalledBy(const coppice_session* session);

}  // namespace coppice::capi
