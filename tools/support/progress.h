// A progress bar on a terminal; silent everywhere else.
//
// Units: steps of the caller's choice. Threads: one at a time.

#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

namespace coppice {

class Progress {
 public:
  // Draws on `stream` if that is a terminal and `enabled`.
  Progress(std::FILE* stream, bool enabled, std::string label);
  ~Progress();  // Wipes the bar.
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows `done` of `total`. Cost: writes only when the percentage changes.
  void Update(int64_t done, int64_t total);

 private:
  std::FILE* const stream_;
  const bool drawn_;
  const std::string label_;
  int64_t percent_ = -1;
};

}  // namespace coppice
