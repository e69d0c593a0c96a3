// What one --arg of `coppice ptx run` says.
//
//   in:x.npy              an array that the kernel may read
//   out:y.npy:f32:64x64   one that is written to a file; until the kernel writes, all bits are 1
//   inout:q.npy:r.npy     one that is read from a file, and written to another
//   i32:1000  f32:0.125   a value: i8 to i64, u8 to u64, f32, f64
//   null                  a pointer to nothing
//
// Units: bytes. Threads: plain values; pure functions.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/base/tensor.h"

namespace coppice {

struct KernelArgument {
  std::string text;    // As it was given.
  std::string input;   // A file, of in and inout.
  std::string output;  // A file, of out and inout.
  // Of out.
  DType dtype = DType::kFloat32;
  std::vector<int64_t> dims;
  // Of a value, and of null: its bits, and how many bytes they are.
  uint64_t bits = 0;
  int64_t bytes = 8;

  bool is_array() const { return !input.empty() || !output.empty(); }
};

// Errors: kInvalidArgument  quotes the text, and says what to give.
absl::StatusOr<KernelArgument> ParseKernelArgument(const std::string& text);

}  // namespace coppice
