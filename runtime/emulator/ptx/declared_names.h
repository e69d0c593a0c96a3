// Names that one scope declares: variables, and ranges of registers, of which %r<7> is %r0 to %r6.
//
// Threads: plain values.

#pragma once

#include <algorithm>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace coppice::ptx {

struct RegisterName {
  std::string_view range;
  int number = 0;
};

// "%r12" as number 12 of %r. All digits at the end are the number, as ptxas reads it; nothing:
// there are none, or too many.
inline std::optional<RegisterName> RegisterOfRange(std::string_view name) {
  constexpr size_t kDigitsMax = 8;
  const size_t digits = name.size() - (name.find_last_not_of("0123456789") + 1);
  if (digits == 0 || digits > kDigitsMax || digits == name.size()) return std::nullopt;
  RegisterName split{.range = name.substr(0, name.size() - digits)};
  for (const char digit : name.substr(split.range.size()))
    split.number = 10 * split.number + (digit - '0');
  return split;
}

// A range and a variable may have one name, because the registers of the range have others.
template <typename Value>
class DeclaredNames {
 public:
  struct Found {
    const Value* value = nullptr;  // Null: no such name.
    int number = -1;               // Of a register of a range.
  };

  // `registers` of a range; 0: a variable. Returns false if one of the names is declared already.
  bool Add(std::string_view name, int registers, Value value) {
    if (registers > 0) {
      const auto lowest = lowest_number_.find(name);
      return (lowest == lowest_number_.end() || lowest->second >= registers) &&
             ranges_.try_emplace(name, registers, std::move(value)).second;
    }
    if (const auto split = RegisterOfRange(name); split.has_value()) {
      if (FindInRange(name).value != nullptr) return false;
      int& lowest = lowest_number_.try_emplace(split->range, split->number).first->second;
      lowest = std::min(lowest, split->number);
    }
    return single_.emplace(name, std::move(value)).second;
  }

  Found Find(std::string_view name) const {
    const auto single = single_.find(name);
    return single != single_.end() ? Found{&single->second} : FindInRange(name);
  }

 private:
  Found FindInRange(std::string_view name) const {
    const auto split = ranges_.empty() ? std::nullopt : RegisterOfRange(name);
    if (!split.has_value()) return {};
    const auto range = ranges_.find(split->range);
    if (range == ranges_.end() || split->number >= range->second.first) return {};
    return {&range->second.second, split->number};
  }

  std::unordered_map<std::string_view, Value> single_;
  std::unordered_map<std::string_view, std::pair<int, Value>> ranges_;
  std::unordered_map<std::string_view, int> lowest_number_;  // Of variables such as a0.
};

}  // namespace coppice::ptx
