// Where a sample runs: on a GPU if there is one, else on the emulator.

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/runtime/driver.h"
#include "coppice/runtime/emulator.h"
#include "coppice/runtime/kernel_image.h"

namespace samples {

// The CUDA driver, if it loads and `image` has code for it; otherwise the driver of a new emulator,
// which `emulator` keeps.
inline absl::StatusOr<coppice::Driver> OpenDriver(const coppice::KernelImage& image,
                                                  std::unique_ptr<coppice::Emulator>& emulator) {
  if (image.fatbin != nullptr) {
    if (auto cuda = coppice::Driver::LoadCuda(); cuda.ok()) return cuda;
  }
  COPPICE_ASSIGN_OR_RETURN(emulator, coppice::Emulator::Create());
  return emulator->driver();
}

// Prints what went wrong in `sample`, and what the emulator, if there is one, has to report.
// Returns the exit code.
inline int Finish(const char* sample,
                  const absl::Status& status,
                  const std::unique_ptr<coppice::Emulator>& emulator) {
  if (!status.ok()) fmt::print(stderr, "{}: {}\n", sample, coppice::MessageOf(status));
  const auto reports = emulator ? emulator->reports() : std::vector<std::string>();
  for (const std::string& report : reports)
    fmt::print(stderr, "{}: {}\n", sample, report);
  return status.ok() && reports.empty() ? 0 : 1;
}

}  // namespace samples
