// Names in the text of a kernel.

#include "tools/replay/unread_arguments.h"

#include <algorithm>
#include <cctype>
#include <string>
#include <string_view>

namespace coppice {
namespace {

bool IsOfName(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '$';
}

// Where `name` stands as a whole name, from `from` on; npos: nowhere.
size_t FindName(std::string_view text, std::string_view name, size_t from) {
  for (size_t at = text.find(name, from); at != text.npos; at = text.find(name, at + 1)) {
    const size_t end = at + name.size();
    const bool begins = at == 0 || !IsOfName(text[at - 1]);
    if (begins && (end == text.size() || !IsOfName(text[end]))) return at;
  }
  return text.npos;
}

// The names that ".param" declares in a list of parameters.
std::vector<std::string_view> NamesIn(std::string_view list) {
  std::vector<std::string_view> names;
  while (!list.empty()) {
    std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    one = one.substr(0, one.find('['));  // Of an array.
    while (!one.empty() && !IsOfName(one.back()))
      one.remove_suffix(1);
    size_t begin = one.size();
    while (begin > 0 && IsOfName(one[begin - 1]))
      --begin;
    names.push_back(one.substr(begin));
  }
  return names;
}

}  // namespace

std::vector<bool> ParametersRead(const package::Package& package, const package::Kernel& kernel) {
  const package::Manifest& manifest = package.manifest();
  for (const package::Target& target : kernel.targets) {
    const package::Module& module = manifest.modules[static_cast<size_t>(target.module)];
    if (module.format != package::ImageFormat::kPtx) continue;
    const absl::StatusOr<std::span<const std::byte>> bytes =
        package.Read(manifest.files[static_cast<size_t>(module.file)].name);
    if (!bytes.ok()) continue;
    const std::string_view text(reinterpret_cast<const char*>(bytes->data()), bytes->size());
    size_t entry = text.find(".entry");
    while (entry != text.npos &&
           FindName(text.substr(0, text.find('(', entry)), target.symbol, entry) == text.npos)
      entry = text.find(".entry", entry + 1);
    if (entry == text.npos) continue;
    const size_t open = text.find('(', entry);
    const size_t close = text.find(')', entry);
    if (open == text.npos || close == text.npos || close < open) continue;
    const size_t next = std::min(text.find(".entry", close), text.size());
    std::vector<bool> read;
    for (const std::string_view name : NamesIn(text.substr(open + 1, close - open - 1)))
      read.push_back(name.empty() || FindName(text.substr(0, next), name, close) != text.npos);
    return read;
  }
  return {};
}

}  // namespace coppice
