// A folder among the temporary ones.

#include "tools/support/scratch_folder.h"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

#include "absl/status/status.h"
#include "fmt/format.h"

namespace coppice {

absl::StatusOr<ScratchFolder> ScratchFolder::Create() {
  std::error_code error;
  std::string path = std::filesystem::temp_directory_path(error) / "coppice.XXXXXX";
  if (error || mkdtemp(path.data()) == nullptr)
    return absl::ErrnoToStatus(errno, fmt::format("{} cannot be made", path));
  return ScratchFolder(std::move(path));
}

ScratchFolder::~ScratchFolder() {
  if (path_.empty()) return;
  std::error_code error;
  std::filesystem::remove_all(path_, error);
}

}  // namespace coppice
