// A program that links coppice::graphs and nothing else, with every object of it and of the layers
// below: what a server on a machine with a GPU is. serving_binary_test.cmake looks into it.

#include <cstdio>

#include "coppice/runtime/driver.h"

int main() {
  const absl::StatusOr<coppice::Driver> driver = coppice::Driver::LoadCuda("libabsent.so");
  std::puts(absl::StatusCodeToString(driver.status().code()).c_str());
  return driver.status().code() == absl::StatusCode::kUnavailable ? 0 : 1;
}
