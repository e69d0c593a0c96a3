// The callbacks that each thread is in, innermost first.

#include "capi/here.h"

#include <utility>

#include "coppice/base/status.h"

namespace coppice::capi {
namespace {

constinit thread_local const HereScope* innermost = nullptr;

}  // namespace

const Here& WhoseCode() {
  static constexpr Here kNobodys;
  return innermost == nullptr ? kNobodys : innermost->here();
}

HereScope::HereScope(const Here& here) : here_(here), outer_(std::exchange(innermost, this)) {}

HereScope::~HereScope() {
  innermost = outer_;
}

absl::Status CheckNotCalledBy(const coppice_session* session) {
  for (const HereScope* scope = innermost; scope != nullptr; scope = scope->outer()) {
    if (scope->here().session == session)
      return FailedPrecondition(
          "session: a call from one of its own callables or callbacks would wait for itself; call "
          "after they return");
  }
  return absl::OkStatus();
}

}  // namespace coppice::capi
