// A trace is known by its first bytes, so that it may be called anything.

#include "tools/prof/watch/traced_process.h"

#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <map>
#include <system_error>
#include <utility>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include <sys/stat.h>

#include "coppice/base/status.h"

namespace coppice {
namespace {

constexpr std::string_view kTraceBegins = "{\"schema\":\"coppice.trace/";

// "flags:\t0100001", octal.
bool IsWritten(const std::filesystem::path& information) {
  std::ifstream file(information);
  std::string name;
  unsigned flags = 0;
  while (file >> name) {
    if (name == "flags:") return bool(file >> std::oct >> flags) && (flags & O_ACCMODE) != O_RDONLY;
  }
  return false;
}

bool IsTrace(const std::filesystem::path& path) {
  std::error_code code;
  if (!std::filesystem::is_regular_file(path, code)) return false;
  std::ifstream file(path, std::ios::binary);
  std::string begins(kTraceBegins.size(), '\0');
  file.read(begins.data(), static_cast<std::streamsize>(begins.size()));
  return file.gcount() == static_cast<std::streamsize>(begins.size()) && begins == kTraceBegins;
}

}  // namespace

absl::StatusOr<TracedProcess> FindTracedProcess(int64_t process, const std::string& processes) {
  const std::filesystem::path folder =
      std::filesystem::path(processes) / fmt::format("{}", process);
  std::error_code code;
  if (!std::filesystem::is_directory(folder, code))
    return InvalidArgument("process {}: there is no such process; give the ID of a running process",
                           process);
  std::map<std::pair<dev_t, ino_t>, TracedProcess> traces;  // One may be open several times.
  std::filesystem::directory_iterator next(folder / "fd", code);
  for (const std::filesystem::directory_iterator end; !code && next != end; next.increment(code)) {
    const std::filesystem::path link = next->path();
    struct stat file {};
    if (stat(link.c_str(), &file) != 0 || !IsWritten(folder / "fdinfo" / link.filename()) ||
        !IsTrace(link))
      continue;
    std::error_code unread;
    traces.try_emplace({file.st_dev, file.st_ino},
                       TracedProcess{.name = std::filesystem::read_symlink(link, unread).string(),
                                     .path = link.string()});
  }
  if (code)
    return InvalidArgument(
        "process {}: its open files cannot be read: {}; run the command as the user who owns the "
        "process, or give the path of its trace",
        process, code.message());
  if (traces.empty())
    return InvalidArgument(
        "process {}: it has no trace open for writing; set SessionOptions::trace, or give the path "
        "of a trace",
        process);
  if (traces.size() == 1) return std::move(traces.begin()->second);
  std::vector<std::string> names;
  for (const auto& [file, trace] : traces)
    names.push_back(trace.name);
  return InvalidArgument("process {}: it writes {} traces; give the path of one: {}", process,
                         names.size(), fmt::join(names, ", "));
}

}  // namespace coppice
