// Character by character.

#include "tools/support/printable.h"

#include "coppice/base/utf8.h"

namespace coppice {
namespace {

bool IsPrintable(char32_t character) {
  const bool turns = (character >= 0x200E && character <= 0x200F) ||
                     (character >= 0x2028 && character <= 0x202E) ||
                     (character >= 0x2066 && character <= 0x2069);
  return character >= 0x20 && (character < 0x7F || character > 0x9F) && !turns;
}

}  // namespace

char32_t TakeCharacter(std::string_view& text) {
  static constexpr unsigned char kMasks[] = {0, 0x7F, 0x1F, 0x0F, 0x07};  // Of a first byte.
  const size_t bytes = Utf8SequenceLength(text);
  char32_t character = static_cast<unsigned char>(text.front()) & kMasks[bytes];
  for (size_t i = 1; i < bytes; ++i)
    character = character << 6 | (static_cast<unsigned char>(text[i]) & 0x3F);
  text.remove_prefix(bytes == 0 ? 1 : bytes);
  return character;
}

std::string Printable(std::string_view text) {
  std::string printable;
  while (!text.empty()) {
    const std::string_view before = text;
    if (IsPrintable(TakeCharacter(text))) {
      printable += before.substr(0, before.size() - text.size());
    } else {
      printable += '?';
    }
  }
  return printable;
}

}  // namespace coppice
