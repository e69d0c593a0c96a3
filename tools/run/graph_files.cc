// Names that are safe, and files under them.

#include "tools/run/graph_files.h"

#include <filesystem>
#include <utility>
#include <vector>

#include "fmt/format.h"
#include "fmt/ranges.h"

#include "coppice/base/status.h"

#include "tools/support/text_file.h"

namespace coppice {
namespace {

constexpr size_t kNameBytesMax = 100;  // Of a program; file systems take 255 in all.

bool IsSafe(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_' || c == '.';
}

std::string SafeName(const std::string& text) {
  std::string name = text.substr(0, kNameBytesMax);
  for (char& c : name)
    c = IsSafe(c) ? c : '_';
  if (name.starts_with('.') || name.starts_with('-')) name.front() = '_';
  return name;
}

}  // namespace

std::string GraphFileName(const NodeInfo& node) {
  std::string name = SafeName(node.program);
  if (!node.variant.empty()) name += "-" + SafeName(node.variant);
  if (!node.bucket.empty()) name += "-" + SafeName(fmt::format("{}", fmt::join(node.bucket, "x")));
  return fmt::format("{}-lane{}-{}.dot", name, node.lane, node.number);
}

absl::Status WriteGraphFiles(const Session& session,
                             const std::string& folder,
                             const std::string& input) {
  std::vector<std::pair<std::string, std::string>> files;
  for (const NodeInfo& node : session.nodes()) {
    if (!node.recorded) continue;
    const std::string path = (std::filesystem::path(folder) / GraphFileName(node)).string();
    COPPICE_RETURN_IF_ERROR(CheckOutputs({&input, 1}, {&path, 1}));
    COPPICE_ASSIGN_OR_RETURN(std::string dot, session.Dump(node));
    files.emplace_back(path, std::move(dot));
  }
  for (const auto& [path, dot] : files)
    COPPICE_RETURN_IF_ERROR(WriteTextFile(path, dot));
  return absl::OkStatus();
}

}  // namespace coppice
