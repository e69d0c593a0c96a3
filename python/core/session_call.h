// Calls of a session of C, and its end: no call is under way on any thread when it goes.
//
// Threads: the GIL is held, but where a function says otherwise.

#pragma once

#include <cstddef>
#include <set>
#include <string>

#include "python/core/status.h"

namespace coppice::python {

class Session;

// A session of C, which whoever calls it shares, as an object of Python's.
struct SessionHold {
  coppice_session* handle = nullptr;
  int calls = 0;  // Under way.
  bool closed = false;
  std::set<PyObject*> callbacks;  // That C has a reference to each.

  void Close() noexcept;
  void EndIfUnused() noexcept;  // Ends it if it is closed and no call is under way.
};

inline SessionHold& HoldOf(nb::handle hold) {
  return *nb::inst_ptr<SessionHold>(hold);
}

// A call of a session, or of a lease of it.
class SessionCall {
 public:
  // Raises FailedPrecondition once the session is closed.
  explicit SessionCall(const Session& session);
  explicit SessionCall(nb::object hold);
  SessionCall(const SessionCall&) = delete;
  SessionCall& operator=(const SessionCall&) = delete;
  ~SessionCall();

  coppice_session* handle() const { return HoldOf(hold_).handle; }

 private:
  const nb::object hold_;
  const CallbackScope callbacks_;
};

// Text that `write` writes into a buffer that it is told, all of one moment. Without the GIL.
template <typename Write>
coppice_status ReadText(std::string& text, Write&& write) {
  size_t bytes = 0;
  do {
    text.resize(bytes);
    const coppice_status status = write(text.data(), text.size() + 1, &bytes);
    if (status != COPPICE_OK) return status;
  } while (bytes > text.size());
  text.resize(bytes);
  return COPPICE_OK;
}

// The text of a function of C that writes one, called with these arguments before it.
template <auto Function, typename... Arguments>
std::string AskText(const Arguments&... arguments) {
  std::string text;
  Check(Unlocked([&] {
    return ReadText(text, [&](char* buffer, size_t bytes, size_t* written) {
      return Function(arguments..., buffer, bytes, written);
    });
  }));
  return text;
}

void BindSessionHolds(nb::module_& module);

}  // namespace coppice::python
