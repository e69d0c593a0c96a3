// The table of well-formed sequences, from Unicode's chapter 3.

#include "coppice/base/utf8.h"

namespace coppice {

size_t Utf8SequenceLength(std::string_view text) {
  if (text.empty()) return 0;
  const auto at = [text](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = at(0);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((at(i) & 0xC0) != 0x80) return 0;
  }
  // Too long, a surrogate, or beyond the last code point.
  const bool wrong = (lead == 0xE0 && at(1) < 0xA0) || (lead == 0xED && at(1) >= 0xA0) ||
                     (lead == 0xF0 && at(1) < 0x90) || (lead == 0xF4 && at(1) >= 0x90);
  return wrong ? 0 : length;
}

}  // namespace coppice
