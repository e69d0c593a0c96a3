// A name, '=', and what the name is to be.

#include "tools/package/given_value.h"

#include <charconv>
#include <optional>
#include <string_view>

#include "coppice/base/status.h"

#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr const char* kValueForms =
    "give NAME=@x.npy, NAME=5, NAME=random:SEED, NAME=random:SEED:LOW:HIGH or NAME=zeros; "
    "HIGH may be an expression of sizes";
constexpr const char* kNumberForms = "give NAME=5, or NAME=5,33 with a number for each set";
constexpr std::string_view kRandom = "random:";

template <typename T>
std::optional<T> NumberIn(std::string_view text) {
  T value{};
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

// Takes what is ahead of the first `mark` off `text`, and the mark.
std::string_view TakeUpTo(char mark, std::string_view& text) {
  const size_t at = std::min(text.find(mark), text.size());
  const std::string_view first = text.substr(0, at);
  text.remove_prefix(std::min(at + 1, text.size()));
  return first;
}

std::optional<std::vector<int64_t>> NumbersIn(const std::string& text) {
  std::vector<int64_t> numbers;
  const std::string ended =
      text + ",";  // So that a last comma has a number behind it, an empty one.
  for (std::string_view rest = ended; !rest.empty();) {
    const std::optional<int64_t> number = NumberIn<int64_t>(TakeUpTo(',', rest));
    if (!number) return std::nullopt;
    numbers.push_back(*number);
  }
  return numbers;
}

// "7", "7:0:512" or "7:1:n+1". False if it is none of them.
bool TakeRange(std::string_view text, GivenValue& given) {
  const std::optional<uint64_t> seed = NumberIn<uint64_t>(TakeUpTo(':', text));
  if (!seed) return false;
  given.range.seed = *seed;
  if (text.empty()) return true;
  given.range.low = NumberIn<double>(TakeUpTo(':', text));
  given.range.high = NumberIn<double>(text);
  if (!given.range.low || text.empty()) return false;
  if (!given.range.high) given.high = text;
  return !given.range.high || *given.range.low < *given.range.high;
}

}  // namespace

absl::StatusOr<std::pair<std::string, std::string>> SplitGiven(const std::string& text,
                                                               const char* forms) {
  const size_t at = text.find('=');
  if (at == std::string::npos || at == 0 || at + 1 == text.size())
    return InvalidArgument("{} is not of the form NAME=VALUE; {}", Quote(text), forms);
  return std::pair(text.substr(0, at), text.substr(at + 1));
}

absl::StatusOr<GivenValue> ParseGivenNumbers(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const auto split, SplitGiven(text, kNumberForms));
  std::optional<std::vector<int64_t>> numbers = NumbersIn(split.second);
  if (!numbers)
    return InvalidArgument("{}: {} is not a number; {}", text, Quote(split.second), kNumberForms);
  GivenValue given{.name = split.first, .kind = GivenValue::Kind::kNumbers};
  given.numbers = *std::move(numbers);
  return given;
}

absl::StatusOr<GivenValue> ParseGivenValue(const std::string& text) {
  COPPICE_ASSIGN_OR_RETURN(const auto split, SplitGiven(text, kValueForms));
  const std::string& value = split.second;
  GivenValue given{.name = split.first};
  if (value == "zeros") return given;
  if (value.starts_with('@') && value.size() > 1) {
    given.kind = GivenValue::Kind::kFile;
    given.file = value.substr(1);
    return given;
  }
  if (value.starts_with(kRandom)) {
    given.kind = GivenValue::Kind::kRandom;
    if (!TakeRange(std::string_view(value).substr(kRandom.size()), given))
      return InvalidArgument("{}: {} is not a seed and range; {}", text, Quote(value), kValueForms);
    return given;
  }
  std::optional<std::vector<int64_t>> numbers = NumbersIn(value);
  if (!numbers)
    return InvalidArgument("{}: {} is not a value; {}", text, Quote(value), kValueForms);
  given.kind = GivenValue::Kind::kNumbers;
  given.numbers = *std::move(numbers);
  return given;
}

}  // namespace coppice
