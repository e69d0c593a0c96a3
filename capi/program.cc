// Programs of a session: registered, found, bound, ended.

#include <string>
#include <utility>

#include "coppice/base/status.h"

#include "capi/answer.h"
#include "capi/spec.h"

namespace coppice::capi {
namespace {

absl::StatusOr<coppice_program*> RegisterPackage(coppice_session& session,
                                                 coppice_package* package,
                                                 const char* program,
                                                 const coppice_package_program_options* options) {
  COPPICE_RETURN_IF_ERROR(CheckHandle(package, "package"));
  if (package->device.get() != session.device.get())
    return InvalidArgument("package: loaded on a different device than the session");
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
  COPPICE_ASSIGN_OR_RETURN(const coppice_program_spec read, ReadStruct(given));
  COPPICE_ASSIGN_OR_RETURN(ProgramSpec spec, SpecOf(read));
  auto needs = Held<ProgramNeeds>::Adopt(new ProgramNeeds);
  Callable made = CallableOf(callable, std::move(user), spec, session, needs);
  COPPICE_ASSIGN_OR_RETURN(const Program* const registered,
                           session.session->Register(std::move(spec), std::move(made)));
  session.Hold(registered, std::move(needs));
  return session.HandleOf(registered);
}

}  // namespace

extern "C" {

coppice_status coppice_register_package(coppice_session* session,
                                        coppice_package* package,
                                        const char* program,
                                        const coppice_package_program_options* options,
                                        coppice_program** out) {
  return AnswerOn(session, out,
                  [&] { return RegisterPackage(*session, package, program, options); });
}

coppice_status coppice_register_callable(coppice_session* session,
                                         const coppice_program_spec* spec,
                                         coppice_callable callable,
                                         void* user,
                                         void (*release)(void* user),
                                         coppice_program** out) {
  User kept(user, release);
  return AnswerOn(session, out,
                  [&] { return RegisterCallable(*session, spec, callable, std::move(kept)); });
}

coppice_status coppice_find(coppice_session* session,
                            const char* name,
                            const char* variant,
                            coppice_program** out) {
  return AnswerTo(session, out, [&]() -> absl::StatusOr<coppice_program*> {
    COPPICE_ASSIGN_OR_RETURN(const std::string of, NameIn(name, "program"));
    const Program* const found = session->session->Find(of, TextOf(variant));
    if (found != nullptr) return session->HandleOf(found);
    return MakeError(absl::StatusCode::kNotFound, "the session has no program {}", of);
  });
}

coppice_status coppice_reset(coppice_session* session, coppice_program* program) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Program* const of, ProgramOf(*session, program));
    return session->session->Reset(*of);
  });
}

coppice_status coppice_unregister(coppice_session* session, coppice_program* program) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_ASSIGN_OR_RETURN(const Program* const of, ProgramOf(*session, program));
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
  return AnswerOn(session, out, [&]() -> absl::StatusOr<coppice_binding*> {
    COPPICE_ASSIGN_OR_RETURN(const Program* const of, ProgramOf(*session, program));
    COPPICE_ASSIGN_OR_RETURN(const Tensors tensors,
                             TensorsOf(statics, static_count, session->device->dl(), "static"));
    COPPICE_ASSIGN_OR_RETURN(const Binding* const bound, session->session->Bind(*of, tensors));
    return session->HandleOf(bound);
  });
}

coppice_status coppice_unbind(coppice_session* session, coppice_binding* binding) {
  return AnswerOn(session, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(CheckHandle(binding, "binding"));
    COPPICE_ASSIGN_OR_RETURN(const Binding* const of, BindingOf(*session, binding));
    return session->session->Unbind(*of);
  });
}

}  // extern "C"
}  // namespace coppice::capi
