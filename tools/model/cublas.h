// cuBLAS as an option of the decoder: its projections by cublasSgemm.
//
// The library is loaded at run time, so that nothing links it. Each call names the workspace, which
// belongs to the lane: the library's own would be shared by graphs that run at the same time.
//
// Units: bytes. Threads: any; calls take turns, as they set the handle's stream and workspace.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "coppice/graphs/program.h"

#include "tools/model/decoder_params.h"

namespace coppice {

class Cublas {
 public:
  // The entry points in use, in cuBLAS's ABI: a result of 0 is success, an operation of 0 is "not
  // transposed", matrices are column-major.
  struct Table {
    int (*create)(void** handle) = nullptr;
    int (*destroy)(void* handle) = nullptr;
    int (*set_stream)(void* handle, CuStream stream) = nullptr;
    int (*set_workspace)(void* handle, void* workspace, size_t bytes) = nullptr;
    int (*sgemm)(void* handle,
                 int operation_a,
                 int operation_b,
                 int m,
                 int n,
                 int k,
                 const float* alpha,
                 const float* a,
                 int a_stride,
                 const float* b,
                 int b_stride,
                 const float* beta,
                 float* c,
                 int c_stride) = nullptr;
  };

  // Loads libcublas.so.13, else .12, for the life of the process. Errors: kUnavailable if there is
  // neither or an entry is missing.
  static absl::StatusOr<Table> Load();

  // Makes a handle in the current context. Errors: kInternal with cuBLAS's code.
  static absl::StatusOr<std::unique_ptr<Cublas>> Create(const Table& table);
  ~Cublas();
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  // Does what the Project kernel does, on the stream and in the workspace of `context`, but for the
  // padded rows as well. Errors: kFailedPrecondition without a workspace; kInternal.
  absl::Status Project(const ProjectParams& params, const CallContext& context);

 private:
  Cublas(const Table& table, void* handle) : table_(table), handle_(handle) {}

  const Table table_;
  void* const handle_;
  std::mutex mutex_;  // Guards the stream and the workspace of handle_.
};

}  // namespace coppice
