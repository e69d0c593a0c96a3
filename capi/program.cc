// Programs of a session: registered, found, bound, ended.

#include <string>
#include <utility>

#include "coppice/base/status.h"

#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/on_device.h"
#include "capi/spec.h"
#include "capi/structs.h"
#include "capi/tensors.h"

namespace coppice::capi {
namespace {

absl::StatusOr<coppice_program*> RegisterPackage(coppice_session& session,
                                                 coppice_package* package,
                                                 const char* program,
                                                 const coppice_package_program_options* options) {
  COPPICE_RETURN_IF_ERROR(CheckHandle(package, "package"));
  if (package->device.get() != session.device.get())
    return InvalidArgument("package: loaded on another device than the session's");
  COPPICE_RETURN_IF_ERROR(CheckNotReset(*package->device, package->resets, "package"));
  COPPICE_ASSIGN_OR_RETURN(const std::string name, NameIn(program, "program"));
  COPPICE_ASSIGN_OR_RETURN(PackageProgram made, PackageProgramOf(session, options));
  made.needs->package = Held<coppice_package>::Share(package);
  COPPICE_ASSIGN_OR_RETURN(
      const Program* const registered,
      session.session->Register(*package->loaded, name, std::move(made.options)));
  session.Hold(registered, std::move(made.needs));
  return session.HandleOf(registered);
}

absl::StatusOr<coppice_program*> RegisterCallable(coppice_session& session,
                                                  const coppice_program_spec* given,
                                                  coppice_callable callable,
                                                  User user) {
  if (callable == nullptr) return InvalidArgument("callable: null; give a function");
  COPPICE_ASSIGN_OR_RETURN(const coppice_program_spec read,
                           ReadStruct(given, "coppice_program_spec"));
  COPPICE_ASSIGN_OR_RETURN(ProgramSpec spec, SpecOf(read));
  auto needs = Held<ProgramNeeds>::Adopt(new ProgramNeeds);
  Callable made = CallableOf(callable, std::move(user), spec, session, needs);
  COPPICE_ASSIGN_OR_RETURN(const Program* const registered,
                           session.session->Register(std::move(spec), std::move(made)));
  session.Hold(registered, std::move(needs));
  return session.HandleOf(registered);
}

}  // namespace
}  // namespace coppice::capi

using coppice::capi::Answer;
using coppice::capi::AnswerOn;
using coppice::capi::CheckHandle;
using coppice::capi::ClearOut;

coppice_status coppice_register_package(coppice_session* session,
                                        coppice_package* package,
                                        const char* program,
                                        const coppice_package_program_options* options,
                                        coppice_program** out) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_register_package"));
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    COPPICE_ASSIGN_OR_RETURN(*out,
                             coppice::capi::RegisterPackage(*session, package, program, options));
    return absl::OkStatus();
  });
}

coppice_status coppice_register_callable(coppice_session* session,
                                         const coppice_program_spec* spec,
                                         coppice_callable callable,
                                         void* user,
                                         void (*release)(void* user),
                                         coppice_program** out) {
  return AnswerOn(session, [&]() -> absl::Status {
    coppice::capi::User kept(user, release);
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_register_callable"));
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    COPPICE_ASSIGN_OR_RETURN(
        *out, coppice::capi::RegisterCallable(*session, spec, callable, std::move(kept)));
    return absl::OkStatus();
  });
}

coppice_status coppice_find(coppice_session* session,
                            const char* name,
                            const char* variant,
                            coppice_program** out) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_find"));
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    COPPICE_ASSIGN_OR_RETURN(const std::string of, coppice::capi::NameIn(name, "program"));
    const coppice::Program* const found =
        session->session->Find(of, coppice::capi::TextOf(variant));
    if (found == nullptr)
      return coppice::MakeError(absl::StatusCode::kNotFound, "the session has no program {}", of);
    *out = session->HandleOf(found);
    return absl::OkStatus();
  });
}

coppice_status coppice_reset(coppice_session* session, coppice_program* program) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    COPPICE_ASSIGN_OR_RETURN(const coppice::Program* const of,
                             coppice::capi::ProgramOf(*session, program));
    return session->session->Reset(*of);
  });
}

coppice_status coppice_unregister(coppice_session* session, coppice_program* program) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    COPPICE_ASSIGN_OR_RETURN(const coppice::Program* const of,
                             coppice::capi::ProgramOf(*session, program));
    COPPICE_RETURN_IF_ERROR(session->session->Unregister(*of));
    session->Forget(of);
    return absl::OkStatus();
  });
}

coppice_status coppice_bind(coppice_session* session,
                            coppice_program* program,
                            const DLTensor* const* statics,
                            int64_t static_count,
                            coppice_binding** out) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_bind"));
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    COPPICE_ASSIGN_OR_RETURN(const coppice::Program* const of,
                             coppice::capi::ProgramOf(*session, program));
    COPPICE_ASSIGN_OR_RETURN(
        const coppice::capi::Tensors tensors,
        coppice::capi::TensorsOf(statics, static_count, session->device->dl(), "static"));
    COPPICE_ASSIGN_OR_RETURN(const coppice::Binding* const bound,
                             session->session->Bind(*of, tensors));
    *out = session->HandleOf(bound);
    return absl::OkStatus();
  });
}

coppice_status coppice_unbind(coppice_session* session, coppice_binding* binding) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckSession(session));
    COPPICE_RETURN_IF_ERROR(CheckHandle(binding, "binding"));
    COPPICE_ASSIGN_OR_RETURN(const coppice::Binding* const of,
                             coppice::capi::BindingOf(*session, binding));
    return session->session->Unbind(*of);
  });
}
