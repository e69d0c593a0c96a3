// What CUDA calls its results, and what it says of them.
//
// Threads: stateless.

#pragma once

#include "coppice/runtime/cuda_abi.h"

namespace coppice::emulator {

struct ResultText {
  int number = 0;
  const char* name = "";  // "CUDA_ERROR_INVALID_VALUE".
  const char* text = "";
};

// Those of a result that CUDA 13.0 has, or null.
const ResultText* FindResultText(CuResult result);

}  // namespace coppice::emulator
