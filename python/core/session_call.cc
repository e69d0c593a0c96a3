// Calls of a session of C, counted.

#include "python/core/session_call.h"

#include <utility>

#include "python/core/cycles.h"
#include "python/core/session.h"

namespace coppice::python {

void SessionHold::Close() noexcept {
  closed = true;
  EndIfUnused();
}

void SessionHold::EndIfUnused() noexcept {
  if (closed && calls == 0 && !IsLeftToProcess()) EndHandle<&coppice_session_release>(handle);
}

SessionCall::SessionCall(const Session& session) : hold_(session.hold()) {
  if (session.closed()) Raise("FailedPrecondition", "session: it is closed");
  ++HoldOf(hold_).calls;
}

SessionCall::SessionCall(nb::object hold) : hold_(std::move(hold)) {
  ++HoldOf(hold_).calls;
}

SessionCall::~SessionCall() {
  --HoldOf(hold_).calls;
  HoldOf(hold_).EndIfUnused();
}

void BindSessionHolds(nb::module_& module) {
  constexpr auto kVisit = [](const SessionHold& hold, const auto& visit) {
    for (PyObject* const callback : hold.callbacks)
      visit(callback);
  };
  nb::class_<SessionHold>(module, "_SessionHold", LooksThrough<SessionHold, kVisit>(),
                          nb::is_weak_referenceable())
      .def("close", &SessionHold::Close);
}

}  // namespace coppice::python
