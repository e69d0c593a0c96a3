// Programs that a session is given: of packages, and callables.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "python/core/arrays.h"
#include "python/core/callbacks.h"
#include "python/core/described/session_fields.h"
#include "python/core/given.h"
#include "python/core/methods.h"
#include "python/core/session.h"
#include "python/core/spec.h"
#include "python/core/status.h"

namespace coppice::python {
namespace {

// Functions of `call` steps, each with a reference that is C's own.
class Functions {
 public:
  Functions(const Session& session, const nb::dict& functions, std::deque<std::string>& texts) {
    const bool emulated = session.device().is_emulator();
    for (const auto& [name, given] : functions) {
      nb::object fn = nb::borrow(given);
      int32_t when = emulated ? COPPICE_ON_HOST : COPPICE_LAUNCHES;
      if (nb::isinstance<nb::tuple>(fn)) {
        const nb::tuple parts = GivenParts(fn, "function", "(\"launches\" or \"on_host\", fn)", 2);
        when =
            NumberOf(Given<std::string>(parts[0], "function"), {"launches", "on_host"}, "function");
        fn = nb::borrow(parts[1]);
      }
      CheckCallable(fn, "function");
      held_.push_back(MakeCallback(session.device_object(), session.hold(), fn));
      texts.push_back(Given<std::string>(nb::str(name), "function"));
      read_.push_back({.struct_size = sizeof(coppice_function),
                       .when = when,
                       .name = texts.back().c_str(),
                       .run = &RunStepFunction,
                       .user = held_.back().ptr(),
                       .release = &ReleaseUser});
    }
    for (const nb::object& one : held_)
      (void)UserOf(one);
  }

  const coppice_function* data() const { return read_.data(); }
  int64_t size() const { return static_cast<int64_t>(read_.size()); }
  // After an error: what C took it has released.
  void TakeBack() const {
    for (const nb::object& one : held_) {
      if (Py_REFCNT(one.ptr()) > 1) ReleaseUser(one.ptr());
    }
  }

 private:
  std::vector<coppice_function> read_;
  std::vector<nb::object> held_;
};

std::unique_ptr<Program> RegisterPackage(const nb::object& self,
                                         const Package& package,
                                         const std::string& name,
                                         const nb::object& as,
                                         const nb::object& variant,
                                         const std::string& exact,
                                         const nb::dict& policies,
                                         const nb::dict& claims,
                                         const nb::dict& constants,
                                         const nb::dict& functions) {
  const Session& session = nb::cast<const Session&>(self);
  std::deque<std::string> texts;
  const auto text = [&](nb::handle value) {
    return texts.emplace_back(nb::cast<std::string>(nb::str(value))).c_str();
  };
  auto options = Blank<coppice_package_program_options>();
  if (!as.is_none()) options.name = text(as);
  if (!variant.is_none()) options.variant = text(variant);
  options.exact = NumberOf(exact, kExactReplays, "exact");

  std::vector<coppice_policy> read_policies;
  std::vector<coppice_joint_policy> read_joint;
  for (const auto& [symbol, policy] : policies) {
    if (nb::isinstance<nb::tuple>(symbol)) {
      read_joint.push_back(JointPolicyOf(symbol, policy, texts));
      continue;
    }
    read_policies.push_back(PolicyOf(policy, texts));
    read_policies.back().symbol = text(symbol);
  }
  std::vector<coppice_claim> read_claims;
  for (const auto& [symbol, claim] : claims) {
    read_claims.push_back(ClaimOf(claim));
    read_claims.back().symbol = text(symbol);
  }
  std::vector<Array> arrays(constants.size());
  std::vector<coppice_named_tensor> read_constants;
  for (const auto& [constant, tensor] : constants) {
    Array& array = arrays[read_constants.size()];
    array.Read(tensor, "constant", read_constants.size(), 0, session.device());
    read_constants.push_back({.struct_size = sizeof(coppice_named_tensor),
                              .reserved = 0,
                              .name = text(constant),
                              .tensor = &array.tensor()});
  }
  const Functions given_functions(session, functions, texts);
  SetArray(read_policies, options.policies, options.policy_count);
  SetArray(read_joint, options.joint, options.joint_count);
  SetArray(read_claims, options.claims, options.claim_count);
  SetArray(read_constants, options.constants, options.constant_count);
  SetArray(given_functions, options.functions, options.function_count);
  const SessionCall call(session);
  coppice_program* made = nullptr;
  const coppice_status status = Unlocked([&] {
    return coppice_register_package(call.handle(), package.handle(), name.c_str(), &options, &made);
  });
  if (status != COPPICE_OK) given_functions.TakeBack();
  Check(status);
  return std::make_unique<Program>(self, made, options.name != nullptr ? options.name : name,
                                   options.variant != nullptr ? options.variant : "");
}

std::unique_ptr<Program> RegisterCallable(const nb::object& self,
                                          const nb::dict& spec,
                                          const nb::object& fn) {
  const Session& session = nb::cast<const Session&>(self);
  const ProgramSpec read(spec);
  CheckCallable(fn, "fn");
  const SessionCall call(session);
  void* const user = UserOf(MakeCallback(session.device_object(), session.hold(), fn));
  coppice_program* const made = AskUnlocked<&coppice_register_callable>(
      call.handle(), &read.spec(), &RunCallable, user, &ReleaseUser);
  const char* const variant = read.spec().variant;
  return std::make_unique<Program>(self, made, read.spec().name, variant != nullptr ? variant : "");
}

// None if there is no such program.
std::unique_ptr<Program> Find(const nb::object& self,
                              const std::string& name,
                              const std::string& variant) {
  const Session& session = nb::cast<const Session&>(self);
  const SessionCall call(session);
  coppice_program* found = nullptr;
  const coppice_status status =
      Unlocked([&] { return coppice_find(call.handle(), name.c_str(), variant.c_str(), &found); });
  if (status == COPPICE_NOT_FOUND) return nullptr;
  Check(status);
  return std::make_unique<Program>(self, found, name, variant);
}

}  // namespace

void BindRegistering() {
  AddMethod<Session>(
      "register_package", &RegisterPackage, nb::arg("package"), nb::arg("program") = "main",
      nb::kw_only(), nb::arg("name").none() = nb::none(), nb::arg("variant").none() = nb::none(),
      nb::arg("exact") = "never", nb::arg("policies") = nb::dict(), nb::arg("claims") = nb::dict(),
      nb::arg("constants") = nb::dict(), nb::arg("functions") = nb::dict(),
      "Adds a program of a package. `exact`: whether replays compute at the sizes of their\n"
      "call: \"never\", \"auto\" (if the call before it had the same sizes) or \"always\".\n"
      "`policies`: {symbol: ladder or (ladder, maximum)}, or for two symbols {(symbol,\n"
      "symbol): pairs or (ladders, (maximum, maximum))}. `claims`: {symbol: (padding,\n"
      "absolute, relative)}. `constants`: {name: tensor}, which stay at their address as\n"
      "long as the session exists. `functions`: {name: fn} for `call` steps, which call\n"
      "fn(inputs, outputs, options, stream); or {name: (\"launches\" or \"on_host\", fn)}.");
  AddMethod<Session>(
      "register_callable", &RegisterCallable, nb::arg("spec"), nb::arg("fn"),
      "Adds a callable fn(context) that launches on context.stream. The spec describes\n"
      "ragged sequences as {\"ragged\": [{\"name\": ..., \"count\": symbol, \"total\":\n"
      "symbol, \"length\": symbol or None, \"lengths\": input, \"by\": \"lengths\" or\n"
      "\"offsets\"}]}. For a tensor of such sequences, give the entry's \"name\" as the\n"
      "first size.");
  AddMethod<Session>("find", &Find, nb::arg("name"), nb::arg("variant") = "",
                     "The program that is registered with that name and variant, or None.");
}

}  // namespace coppice::python
