// Sessions, programs and bindings, as objects of Python.
//
// Threads: the GIL is held; it is released while a method waits or runs.

#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "python/core/device.h"
#include "python/core/session_call.h"

namespace coppice::python {

class Session {
 public:
  Session(nb::object device, const nb::dict& options);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() { Close(); }

  const nb::object& hold() const { return hold_; }
  Device& device() const { return nb::cast<Device&>(device_); }
  const nb::object& device_object() const { return device_; }
  void Close() noexcept { HoldOf(hold_).Close(); }
  bool closed() const { return HoldOf(hold_).closed; }

  // What it refers to, for the collector of cycles; Clear ends what can be part of one.
  template <typename Visitor>
  void Visit(const Visitor& visit) const {
    visit(hold_.ptr());
    visit(callbacks_.ptr());
  }
  void Clear() noexcept { callbacks_.reset(); }

  int32_t stance() const { return stance_; }
  void SetStance(int32_t stance);

 private:
  nb::object hold_ = nb::cast(new SessionHold, nb::rv_policy::take_ownership);
  int32_t stance_ = COPPICE_STANCE_RECORD;
  nb::object device_;
  nb::object callbacks_;  // What C calls with `this`: log, vote, barrier, now_ns; a dict.
  int64_t now_ns_ = 0;    // What now_ns said last.

  static void Log(void* user, const char* line);
  static coppice_status Vote(void* user, coppice_vote* vote);
  static coppice_status Barrier(void* user);
  static int64_t NowNs(void* user);
};

struct Program {
  nb::object session;
  coppice_program* handle;
  std::string name;
  std::string variant;

  Session& of() const { return nb::cast<Session&>(session); }
};

// Static inputs and outputs of a program, and what keeps them.
struct Binding {
  nb::object program;
  coppice_binding* handle;
  nb::object tensors;
};

// As AskUnlocked, of a session; and of a program, with its session before it.
template <auto Function, typename... Arguments>
auto AskSession(const Session& session, const Arguments&... arguments) {
  const SessionCall call(session);
  return AskUnlocked<Function>(call.handle(), arguments...);
}
template <auto Function, typename... Arguments>
auto AskProgram(const Program& program, const Arguments&... arguments) {
  return AskSession<Function>(program.of(), program.handle, arguments...);
}

// A scope of calls that build on each other: a context manager of Python.
class Chain {
 public:
  Chain(nb::object session, int32_t lane) : session_(std::move(session)), lane_(lane) {}
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain() { End(); }

  void Begin();
  void End() noexcept { EndHandle<&coppice_chain_end>(handle_); }

 private:
  nb::object session_;
  int32_t lane_;
  coppice_chain* handle_ = nullptr;
};

// The idle memory of a lane: a context manager of Python.
class Loan {
 public:
  Loan(nb::object session, int32_t lane);
  Loan(const Loan&) = delete;
  Loan& operator=(const Loan&) = delete;
  ~Loan() { EndHandle<&coppice_loan_release>(handle_); }

  void Return(uintptr_t stream);
  void Exit() {
    if (!returned_) Return(0);
  }
  uint64_t data() const { return data_; }
  int64_t bytes() const { return bytes_; }

 private:
  nb::object session_;
  coppice_loan* handle_ = nullptr;
  uint64_t data_ = 0;
  int64_t bytes_ = 0;
  bool returned_ = false;
};

void BindSessions(nb::module_& module);
void BindRegistering();  // Methods of sessions.
void BindPrograms(nb::module_& module);
void BindPadding(nb::module_& module);  // Policies, also those of programs.

}  // namespace coppice::python
