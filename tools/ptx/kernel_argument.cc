// A word, a colon, and what the word asks for.

#include "tools/ptx/kernel_argument.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"

#include "tools/support/npy.h"
#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr const char* kForms =
    "give in:x.npy, out:y.npy:f32:64x64, inout:q.npy:r.npy, null, or a value such as i32:1000 or "
    "f32:0.125";

std::optional<DType> FindDType(std::string_view name) {
  for (size_t i = 0; i < internal::kDTypeFacts.size(); ++i) {
    const auto dtype = static_cast<DType>(i);
    if (name == NameOf(dtype) && HasNpyName(dtype)) return dtype;
  }
  return std::nullopt;
}

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc() || end != last) return std::nullopt;
  return value;
}

// The bits of a number; nothing: it is none, or not of the type.
template <typename T>
std::optional<uint64_t> BitsOf(std::string_view text) {
  const std::optional<T> value = ParseNumber<T>(text);
  if (!value) return std::nullopt;
  if constexpr (sizeof(T) == 8) return std::bit_cast<uint64_t>(*value);
  if constexpr (sizeof(T) == 4) return std::bit_cast<uint32_t>(*value);
  if constexpr (sizeof(T) == 2) return std::bit_cast<uint16_t>(*value);
  if constexpr (sizeof(T) == 1) return std::bit_cast<uint8_t>(*value);
}

struct ValueType {
  std::string_view name;
  int64_t bytes;
  std::optional<uint64_t> (*bits)(std::string_view text);
};

constexpr std::array<ValueType, 10> kValueTypes = {{{"i8", 1, &BitsOf<int8_t>},
                                                    {"i16", 2, &BitsOf<int16_t>},
                                                    {"i32", 4, &BitsOf<int32_t>},
                                                    {"i64", 8, &BitsOf<int64_t>},
                                                    {"u8", 1, &BitsOf<uint8_t>},
                                                    {"u16", 2, &BitsOf<uint16_t>},
                                                    {"u32", 4, &BitsOf<uint32_t>},
                                                    {"u64", 8, &BitsOf<uint64_t>},
                                                    {"f32", 4, &BitsOf<float>},
                                                    {"f64", 8, &BitsOf<double>}}};

// "64x64"
std::optional<std::vector<int64_t>> ParseShape(std::string_view text) {
  std::vector<int64_t> dims;
  while (dims.size() < static_cast<size_t>(kRankMax)) {
    const size_t end = std::min(text.find('x'), text.size());
    const std::optional<int64_t> extent = ParseNumber<int64_t>(text.substr(0, end));
    if (!extent || *extent < 0) return std::nullopt;
    dims.push_back(*extent);
    if (end == text.size()) return dims;
    text.remove_prefix(end + 1);
  }
  return std::nullopt;
}

// Takes what is ahead of the first colon off `text`, and the colon.
std::string_view TakeFirst(std::string_view& text) {
  const size_t colon = std::min(text.find(':'), text.size());
  const std::string_view first = text.substr(0, colon);
  text.remove_prefix(std::min(colon + 1, text.size()));
  return first;
}

// Takes what is behind the last colon off `text`; empty: there is none.
std::string_view TakeLast(std::string_view& text) {
  const size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {};
  const std::string_view last = text.substr(colon + 1);
  text.remove_suffix(text.size() - colon);
  return last;
}

absl::StatusOr<KernelArgument> ParseOutput(std::string_view rest, KernelArgument argument) {
  const std::string_view shape = TakeLast(rest);
  const std::string_view type = TakeLast(rest);
  const std::optional<DType> dtype = FindDType(type);
  std::optional<std::vector<int64_t>> dims = ParseShape(shape);
  if (rest.empty() || !dtype || !dims) {
    return InvalidArgument(
        "{}: {}; give out:FILE:TYPE:SHAPE with a type of f16, bf16, f32, f64, bool, i8 to i64, u8 "
        "to u64, and a shape of up to {} extents, such as 64x64",
        argument.text,
        rest.empty() ? std::string("the file, the type or the shape is missing")
        : !dtype     ? fmt::format("{} is not a type", Quote(type))
                     : fmt::format("{} is not a shape", Quote(shape)),
        kRankMax);
  }
  if (const auto bytes = NpyBytes(*dtype, *dims); !bytes.ok())
    return InvalidArgument("{}: {}", argument.text, MessageOf(bytes.status()));
  argument.output = rest;
  argument.dtype = *dtype;
  argument.dims = *std::move(dims);
  return argument;
}

}  // namespace

absl::StatusOr<KernelArgument> ParseKernelArgument(const std::string& text) {
  KernelArgument argument = {.text = text};
  if (text == "null") return argument;
  std::string_view rest = text;
  const std::string_view word = TakeFirst(rest);
  if (word == "out") return ParseOutput(rest, std::move(argument));
  if (word == "in" && !rest.empty()) {
    argument.input = rest;
    return argument;
  }
  if (word == "inout") {
    argument.input = TakeFirst(rest);
    argument.output = rest;
    if (argument.input.empty() || rest.empty() || rest.find(':') != std::string_view::npos)
      return InvalidArgument("{}: inout needs two files; give inout:FILE:FILE", text);
    return argument;
  }
  for (const ValueType& type : kValueTypes) {
    if (type.name != word) continue;
    const std::optional<uint64_t> bits = type.bits(rest);
    if (!bits)
      return InvalidArgument(
          "{}: {} is not a number of type {}; give a number that the type can hold", text,
          Quote(rest), word);
    argument.bits = *bits;
    argument.bytes = type.bytes;
    return argument;
  }
  return InvalidArgument("{}: {} is not a kind of argument; {}", text, Quote(word), kForms);
}

}  // namespace coppice
