// Where the real traces are.
//
// Threads: any thread.

#pragma once

#include <cstdlib>
#include <string>

namespace coppice {

// The folder that COPPICE_DATA names; empty: this machine has none, and their tests are skipped.
inline std::string TraceFolder() {
  const char* folder = std::getenv("COPPICE_DATA");
  return folder == nullptr ? "" : folder;
}

}  // namespace coppice
