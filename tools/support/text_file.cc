// Files in blocks, so that one that never ends is refused, not loaded.

#include "tools/support/text_file.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr size_t kQuotedBytesMax = 40;

}  // namespace

absl::StatusOr<std::string> ReadTextFile(const std::string& path, const char* wanted) {
  const auto error = [&](const char* what) {
    return InvalidArgument("{}: {}; give the path of {}", path, what, wanted);
  };
  std::error_code code;
  if (std::filesystem::is_directory(path, code)) return error("this is a directory");
  if (!std::filesystem::exists(path, code)) return error("there is no such file");
  std::ifstream file(path, std::ios::binary);
  if (!file) return error("the file cannot be opened");
  std::string text;
  std::array<char, 1 << 16> block{};
  while (file.read(block.data(), block.size()), file.gcount() > 0) {
    text.append(block.data(), static_cast<size_t>(file.gcount()));
    if (static_cast<int64_t>(text.size()) > kTextFileBytesMax)
      return error("the file is larger than 1 GiB");
  }
  if (file.bad()) return error("the file cannot be read");
  return text;
}

absl::Status WriteTextFile(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (file) return absl::OkStatus();
  return FailedPrecondition("{}: the file cannot be written: {}; give a path that can", path,
                            std::generic_category().message(errno));
}

std::string_view TakeLine(std::string_view& text) {
  const size_t end = text.find('\n');
  std::string_view line = text.substr(0, end);
  text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::string Quote(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text.substr(0, kQuotedBytesMax)) {
    if (c >= ' ' && c <= '~') {
      quoted += c;
    } else {
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return quoted + (text.size() > kQuotedBytesMax ? "...'" : "'");
}

}  // namespace coppice
