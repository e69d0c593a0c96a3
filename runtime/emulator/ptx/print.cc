// The format of printf, a conversion at a time; the host's printf knows how each looks.

#include "runtime/emulator/ptx/print.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string_view>
#include <vector>

#include "runtime/emulator/ptx/memory.h"

namespace coppice::ptx {
namespace {

// The arguments of one call, one behind the other, each at a multiple of its size.
class Arguments {
 public:
  Arguments(ResidentWarp& warp, uint64_t address, int lane)
      : warp_(warp), address_(address), lane_(lane) {}

  template <typename T>
  std::optional<T> Next() {
    address_ = (address_ + sizeof(T) - 1) / sizeof(T) * sizeof(T);
    const std::byte* const host =
        warp_.At(Space::kGeneric, address_, sizeof(T), AccessKind::kRead, lane_);
    if (host == nullptr) return std::nullopt;
    T value;
    std::memcpy(&value, host, sizeof(value));
    address_ += sizeof(T);
    ++count_;
    return value;
  }
  int32_t count() const { return count_; }

 private:
  ResidentWarp& warp_;
  uint64_t address_;
  int lane_;
  int32_t count_ = 0;
};

// `conversion` is of one value of type T.
template <typename T>
std::string Convert(const std::string& conversion, T value) {
  const int size = std::snprintf(nullptr, 0, conversion.c_str(), value);
  if (size <= 0) return "";
  std::string text(static_cast<size_t>(size) + 1, '\0');
  std::snprintf(text.data(), text.size(), conversion.c_str(), value);
  text.pop_back();
  return text;
}

// %[flags][width][.precision][length]conversion
struct Conversion {
  std::string flags;  // With width and precision.
  std::string_view length;
  char kind = 0;
  size_t end = 0;  // Behind it, in the format.
};

// Stars become numbers of `arguments`. Nothing: one may not be read.
std::optional<Conversion> ParseConversion(std::string_view format,
                                          size_t at,
                                          Arguments& arguments) {
  constexpr int64_t kWidthMax = 1 << 16;  // What is wider is cut.
  Conversion parsed;
  while (at < format.size() && std::strchr("-+ #0123456789.*", format[at]) != nullptr) {
    if (format[at] == '*') {
      const auto number = arguments.Next<int32_t>();
      if (!number.has_value()) return std::nullopt;
      parsed.flags += std::to_string(std::clamp<int64_t>(*number, -kWidthMax, kWidthMax));
      ++at;
    } else if (format[at] >= '1' && format[at] <= '9') {
      int64_t number = 0;
      for (; at < format.size() && format[at] >= '0' && format[at] <= '9'; ++at)
        number = std::min(number * 10 + (format[at] - '0'), kWidthMax);
      parsed.flags += std::to_string(number);
    } else {
      parsed.flags += format[at++];
    }
  }
  const size_t length = at;
  while (at < format.size() && std::strchr("hlLqjzt", format[at]) != nullptr)
    ++at;
  parsed.length = format.substr(length, at - length);
  if (at < format.size()) parsed.kind = format[at++];
  parsed.end = at;
  return parsed;
}

std::optional<std::string> ConvertNext(const Conversion& conversion,
                                       ResidentWarp& warp,
                                       int lane,
                                       Arguments& arguments) {
  const std::string prefix = "%" + conversion.flags;
  const bool wide = !conversion.length.empty() && conversion.length[0] != 'h';
  switch (conversion.kind) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
      if (wide) {
        const auto value = arguments.Next<long long>();
        if (!value.has_value()) return std::nullopt;
        return Convert(prefix + "ll" + conversion.kind, *value);
      }
      [[fallthrough]];
    case 'c': {
      const auto value = arguments.Next<int>();
      if (!value.has_value()) return std::nullopt;
      return Convert(prefix + std::string(conversion.length) + conversion.kind, *value);
    }
    case 'p': {
      const auto value = arguments.Next<uint64_t>();
      if (!value.has_value()) return std::nullopt;
      return Convert(prefix + conversion.kind, reinterpret_cast<void*>(*value));
    }
    case 's': {
      const auto address = arguments.Next<uint64_t>();
      if (!address.has_value()) return std::nullopt;
      const auto text = Memory::Of(warp).TextAt(warp, *address, lane);
      if (!text.has_value()) return std::nullopt;
      return Convert(prefix + conversion.kind, text->c_str());
    }
    case 'e':
    case 'E':
    case 'f':
    case 'F':
    case 'g':
    case 'G':
    case 'a':
    case 'A': {
      const auto value = arguments.Next<double>();
      if (!value.has_value()) return std::nullopt;
      return Convert(prefix + conversion.kind, *value);
    }
    default:
      return prefix + std::string(conversion.length) +
             (conversion.kind == 0 ? std::string() : std::string(1, conversion.kind));
  }
}

}  // namespace

std::optional<Printed> FormatPrint(ResidentWarp& warp,
                                   uint64_t format_address,
                                   uint64_t arguments_address,
                                   int lane) {
  const auto format = Memory::Of(warp).TextAt(warp, format_address, lane);
  if (!format.has_value()) return std::nullopt;
  Arguments arguments(warp, arguments_address, lane);
  Printed printed;
  for (size_t at = 0; at < format->size();) {
    if ((*format)[at] != '%') {
      printed.text += (*format)[at++];
      continue;
    }
    if (at + 1 < format->size() && (*format)[at + 1] == '%') {
      printed.text += '%';
      at += 2;
      continue;
    }
    const auto conversion = ParseConversion(*format, at + 1, arguments);
    if (!conversion.has_value()) return std::nullopt;
    const auto text = ConvertNext(*conversion, warp, lane, arguments);
    if (!text.has_value()) return std::nullopt;
    printed.text += *text;
    at = conversion->end;
  }
  printed.arguments = arguments.count();
  return printed;
}

}  // namespace coppice::ptx
