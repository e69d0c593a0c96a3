// What Python gives by name, as fields of structs of C, and arrays of C by the words of Python.
//
// Threads: the GIL is held. Errors: TypeError and InvalidArgument, which name the field.

#pragma once

#include <cstdint>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "python/core/given.h"
#include "python/core/spec.h"
#include "python/core/status.h"

namespace coppice::python {

// Fields of a dict, each of which has to be asked for. One that is None is left out, and then the
// field of C stays as it is.
class Fields {
 public:
  // `where` is what has them: "session"; they are its `noun`s.
  Fields(nb::handle given, std::string where, const char* noun = "field")
      : given_(nb::borrow<nb::dict>(given)), where_(std::move(where)), noun_(noun) {
    if (!nb::isinstance<nb::dict>(given)) RaiseNot(given, where_, "dict");
  }

  // None if it is left out.
  nb::object Get(const char* name) {
    if (known_.insert(name).second) names_ += (names_.empty() ? "" : ", ") + std::string(name);
    return given_.contains(name) ? nb::object(given_[name]) : nb::none();
  }
  template <typename Value>
  void Number(const char* name, Value& value) {
    if (const nb::object given = Get(name); !given.is_none()) value = As<Value>(given, name);
  }
  void Flag(const char* name, int32_t& value) {
    bool given = value != 0;
    Number(name, given);
    value = given ? 1 : 0;
  }
  void Word(const char* name, const std::vector<const char*>& words, int32_t& value) {
    if (const nb::object given = Get(name); !given.is_none())
      value = NumberOf(As<std::string>(given, name), words, (where_ + ": " + name).c_str());
  }
  // Lives as long as this.
  void Text(const char* name, const char*& value) {
    if (const nb::object given = Get(name); !given.is_none())
      value = texts_.emplace_back(As<std::string>(given, name)).c_str();
  }
  // A text that has to be there.
  std::string Text(const char* name) { return As<std::string>(Get(name), name); }
  nb::list List(const char* name) {
    const nb::object value = Get(name);
    if (value.is_none()) return {};
    if (!nb::isinstance<nb::list>(value) && !nb::isinstance<nb::tuple>(value))
      RaiseNot(value, where_ + ": " + name, "list or tuple");
    return nb::list(value);
  }

  // Raises InvalidArgument for a field that nobody asked for.
  void CheckNames() const {
    for (const auto& [key, value] : given_) {
      const auto name = nb::cast<std::string>(nb::str(key));
      if (!known_.contains(name))
        Raise("InvalidArgument", where_, ": no ", noun_, " is called '", name,
              "'; valid names: ", names_);
    }
  }

 private:
  template <typename Value>
  Value As(nb::handle given, const char* name) const {
    return Given<Value>(given, where_ + ": " + name);
  }

  nb::dict given_;
  std::string where_;
  const char* noun_;
  std::set<std::string> known_;
  std::string names_;  // The same in the order in which they were asked for.
  std::deque<std::string> texts_;
};

enum class Zeros : bool { kShown, kLeftOut };

// An array of C by the words of its elements.
template <typename Values>
nb::dict ByWord(const Values& values,
                const std::vector<const char*>& words,
                Zeros zeros = Zeros::kShown) {
  nb::dict read;
  for (size_t i = 0; i < words.size(); ++i) {
    if (values[i] != 0 || zeros == Zeros::kShown) read[words[i]] = values[i];
  }
  return read;
}

}  // namespace coppice::python
