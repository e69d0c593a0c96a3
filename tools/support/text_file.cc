// Files in blocks, so that one that never ends is refused, not loaded.

#include "tools/support/text_file.h"

#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/container/flat_hash_set.h"
#include <sys/stat.h>

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr size_t kQuotedBytesMax = 40;
constexpr int kLinksMax = 40;  // In a row; the kernel follows as many.

// Where a write to `path` goes, also if that file is not there yet.
std::filesystem::path PlaceOf(const std::string& path) {
  std::error_code code;
  std::filesystem::path place = std::filesystem::absolute(path, code);
  for (int i = 0; i < kLinksMax && std::filesystem::is_symlink(place, code); ++i)
    place = place.parent_path() / std::filesystem::read_symlink(place, code);
  std::filesystem::path found = std::filesystem::weakly_canonical(place, code);
  return code ? place : found;
}

// Equal for equal files: the file itself, or the place where it would be made.
std::string IdentityOf(const std::string& path) {
  struct stat file {};
  if (stat(path.c_str(), &file) == 0) return fmt::format("{}:{}", file.st_dev, file.st_ino);
  return PlaceOf(path).string();
}

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

absl::Status MakeFolder(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error && std::filesystem::is_directory(path, error)) return absl::OkStatus();
  return FailedPrecondition("{}: the folder cannot be made: {}; give another folder", path,
                            error ? error.message() : "it is a file");
}

absl::Status WriteTextFile(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  const bool opened = file.is_open();
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  if (file) return absl::OkStatus();
  const std::string reason = std::generic_category().message(errno);
  std::error_code code;
  const bool cut = opened && std::filesystem::is_regular_file(path, code) &&
                   std::filesystem::remove(std::filesystem::canonical(path, code), code);
  return FailedPrecondition(
      "{}: the file cannot be written: {}; {}", path, reason,
      cut ? "the incomplete file is removed; free some disk space, or give another path"
          : "give another path");
}

absl::Status CheckOutputs(std::span<const std::string> inputs,
                          std::span<const std::string> outputs) {
  absl::flat_hash_set<std::string> read;
  for (const std::string& input : inputs)
    if (!input.empty()) read.insert(IdentityOf(input));
  absl::flat_hash_set<std::string> written;
  for (const std::string& output : outputs) {
    if (output.empty()) continue;
    const std::string identity = IdentityOf(output);
    if (read.contains(identity))
      return InvalidArgument("{}: this would be written over an input; give another path", output);
    if (!written.insert(identity).second)
      return InvalidArgument(
          "{}: this would be written twice; give each input file and each output a different name",
          output);
  }
  return absl::OkStatus();
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
