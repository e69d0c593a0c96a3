// Statuses of coppice.h as exceptions of Python, and exceptions of callbacks as statuses.
//
// Threads: the GIL is held, unless a function says otherwise.

#pragma once

#include <exception>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "python/core/gil.h"

namespace coppice::python {

// Raises the class of coppice.errors that `status` has, with this thread's last message; an
// exception that a callback of this thread raised meanwhile goes on as it is.
void Check(coppice_status status);

// The same of a read that came too late: StaleOutput in place of FailedPrecondition.
void CheckRead(coppice_status status);

// Raises the exception that Python has set on this thread.
[[noreturn]] void RaisePending();

// Raises one of coppice.errors by its name. The message is texts and numbers, one behind another.
[[noreturn]] void RaiseText(const char* error, const std::string& message);
template <typename... Parts>
[[noreturn]] void Raise(const char* error, const Parts&... parts) {
  std::string message;
  const auto append = [&](const auto& part) {
    if constexpr (std::is_arithmetic_v<std::decay_t<decltype(part)>>)
      message += std::to_string(part);
    else
      message += part;
  };
  (append(parts), ...);
  RaiseText(error, message);
}

// The same of a driver's entry that returned `result`: Internal.
[[noreturn]] void RaiseDriver(const char* entry, int32_t result);

// While it lives, Check knows nothing of what callbacks of this thread raised before; what they
// raised meanwhile is forgotten with it.
class CallbackScope {
 public:
  CallbackScope();
  ~CallbackScope();
  CallbackScope(const CallbackScope&) = delete;
  CallbackScope& operator=(const CallbackScope&) = delete;

 private:
  PyObject* const outer_;
};

// Runs `call`, which returns a status, without the GIL.
template <typename Call>
coppice_status Unlocked(Call&& call) {
  const GilRelease release;
  return call();
}

// A struct of C that says its size.
template <typename Struct>
Struct Blank() {
  Struct blank{};
  if constexpr (requires { blank.struct_size; }) blank.struct_size = sizeof blank;
  return blank;
}

namespace internal {
template <typename... Parameters>
std::tuple<Parameters...> ParametersOf(coppice_status (*)(Parameters...));
}  // namespace internal

// Where an array of a struct of C begins, and how long it is.
template <typename Values, typename First>
void SetArray(Values& values, First*& first, int64_t& count) {
  first = values.data();
  count = static_cast<int64_t>(values.size());
}

enum class Gil : bool { kHeld, kReleased };

// Calls a function of C, and raises what it fails with. If its last argument is left out, that is
// where it writes what is returned.
template <auto Function, Gil Kept, typename... Arguments>
auto Ask(const Arguments&... arguments) {
  using Parameters = decltype(internal::ParametersOf(Function));
  constexpr size_t kCount = std::tuple_size_v<Parameters>;
  const auto check = [](auto&& call) { Check(Kept == Gil::kHeld ? call() : Unlocked(call)); };
  if constexpr (kCount == sizeof...(arguments)) {
    check([&] { return Function(arguments...); });
  } else {
    auto told = Blank<std::remove_pointer_t<std::tuple_element_t<kCount - 1, Parameters>>>();
    check([&] { return Function(arguments..., &told); });
    return told;
  }
}
template <auto Function, typename... Arguments>
auto Ask(const Arguments&... arguments) {
  return Ask<Function, Gil::kHeld>(arguments...);
}
template <auto Function, typename... Arguments>
auto AskUnlocked(const Arguments&... arguments) {
  return Ask<Function, Gil::kReleased>(arguments...);
}

// Takes the GIL and runs `call` of a callback, which calls functions of Python by CallBack. An
// exception becomes COPPICE_UNKNOWN and the callback's message; it is kept for Check of this
// thread. Without the GIL.
template <typename Call>
coppice_status AnswerCallback(Call&& call) noexcept;

namespace internal {
coppice_status KeepException(nb::python_error& error) noexcept;
coppice_status TellException(const char* what) noexcept;
}  // namespace internal

// Tells of it as Python tells of exceptions that nobody can catch, and forgets it.
void WriteUnraisable();

template <typename Call>
coppice_status AnswerCallback(Call&& call) noexcept {
  const GilAcquire acquire;
  const CallbackCount counted;
  try {
    const CallbackScope scope;  // What it calls is not told of earlier callbacks.
    call();
    return COPPICE_OK;
  } catch (nb::python_error& error) {
    return internal::KeepException(error);
  } catch (const std::exception& error) {
    return internal::TellException(error.what());
  }
}

// The same of a callback that nobody waits for: an exception is told as unraisable.
template <typename Call>
void TellCallback(Call&& call) noexcept {
  if (AnswerCallback(call) == COPPICE_OK) return;
  const GilAcquire acquire;
  WriteUnraisable();
}

}  // namespace coppice::python
