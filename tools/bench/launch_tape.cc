// The two entries that note, and the launches made again.

#include "tools/bench/launch_tape.h"

#include <cstring>
#include <utility>

#include "coppice/base/status.h"

namespace coppice {
namespace {

DriverTable taped_table;
std::vector<TapedLaunch> noted;

// What a staging launch passes, and zeros up to what the widest kernel reads.
std::vector<int64_t> WordsOf(const StagingHeader& header) {
  std::vector<int64_t> words(kWideStagingBytes / sizeof(int64_t));
  std::memcpy(words.data(), &header,
              sizeof(header) +
                  static_cast<size_t>(header.copy_count) * static_cast<size_t>(header.copy_bytes));
  return words;
}

CuResult NoteGraph(CuGraphExec exec, CuStream stream) {
  const CuResult result = taped_table.GraphLaunch(exec, stream);
  if (result == CuResult::kSuccess) noted.push_back({.stream = stream, .exec = exec});
  return result;
}

// NOLINTNEXTLINE(readability-function-size): CUDA's signature.
CuResult NoteStaging(CuFunction function,
                     unsigned grid_x,
                     unsigned grid_y,
                     unsigned grid_z,
                     unsigned block_x,
                     unsigned block_y,
                     unsigned block_z,
                     unsigned shared_bytes,
                     CuStream stream,
                     void** parameters,
                     void** extra) {
  const CuResult result =
      taped_table.LaunchKernel(function, grid_x, grid_y, grid_z, block_x, block_y, block_z,
                               shared_bytes, stream, parameters, extra);
  if (result != CuResult::kSuccess) return result;
  noted.push_back({.stream = stream,
                   .function = function,
                   .grid = {grid_x, grid_y, grid_z},
                   .block = {block_x, block_y, block_z},
                   .shared_bytes = shared_bytes,
                   .staging = WordsOf(*static_cast<const StagingHeader*>(parameters[0]))});
  return result;
}

absl::Status RepeatOne(const Driver& driver, const TapedLaunch& launch) {
  if (launch.exec != nullptr)
    return driver.Call<&DriverTable::GraphLaunch>(launch.exec, launch.stream);
  void* parameters[] = {const_cast<int64_t*>(launch.staging.data())};
  return driver.Call<&DriverTable::LaunchKernel>(
      launch.function, launch.grid[0], launch.grid[1], launch.grid[2], launch.block[0],
      launch.block[1], launch.block[2], launch.shared_bytes, launch.stream,
      static_cast<void**>(parameters), static_cast<void**>(nullptr));
}

}  // namespace

absl::StatusOr<std::vector<TapedLaunch>> LaunchTape::Note(
    const std::function<absl::Status()>& work) {
  taped_table = inner_.table();
  noted.clear();
  DriverTable table = taped_table;
  table.GraphLaunch = &NoteGraph;
  table.LaunchKernel = &NoteStaging;
  driver_ = Driver(table, inner_.kind());
  const absl::Status status = work();
  driver_ = inner_;
  COPPICE_RETURN_IF_ERROR(status);
  return std::exchange(noted, {});
}

absl::Status Repeat(const Driver& driver, const std::vector<TapedLaunch>& launches) {
  for (const TapedLaunch& launch : launches)
    COPPICE_RETURN_IF_ERROR(RepeatOne(driver, launch));
  return absl::OkStatus();
}

}  // namespace coppice
