// The cuBLAS library: loading it, and a row-major product in column-major terms.

#include "tools/model/cublas.h"

#include <bit>
#include <dlfcn.h>

#include "coppice/base/status.h"

namespace coppice {
namespace {

absl::Status ErrorOf(int result, const char* entry) {
  if (result == 0) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal,
                   "Cublas: {} failed with status {}; see cublasStatus_t.", entry, result);
}

template <typename Function>
absl::Status Resolve(void* library, const char* symbol, Function& function) {
  function = std::bit_cast<Function>(dlsym(library, symbol));
  if (function != nullptr) return absl::OkStatus();
  return MakeError(absl::StatusCode::kUnavailable,
                   "Cublas::Load: the library has no {}; install cuBLAS of CUDA 12 or 13.", symbol);
}

}  // namespace

absl::StatusOr<Cublas::Table> Cublas::Load() {
  void* library = nullptr;
  for (const char* name : {"libcublas.so.13", "libcublas.so.12"}) {
    if (library == nullptr) library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  }
  if (library == nullptr) {
    return MakeError(absl::StatusCode::kUnavailable,
                     "Cublas::Load: neither libcublas.so.13 nor libcublas.so.12 can be loaded; "
                     "install cuBLAS, put it on LD_LIBRARY_PATH, or clear use_cublas.");
  }
  Table table;
  COPPICE_RETURN_IF_ERROR(Resolve(library, "cublasCreate_v2", table.create));
  COPPICE_RETURN_IF_ERROR(Resolve(library, "cublasDestroy_v2", table.destroy));
  COPPICE_RETURN_IF_ERROR(Resolve(library, "cublasSetStream_v2", table.set_stream));
  COPPICE_RETURN_IF_ERROR(Resolve(library, "cublasSetWorkspace_v2", table.set_workspace));
  COPPICE_RETURN_IF_ERROR(Resolve(library, "cublasSgemm_v2", table.sgemm));
  return table;
}

absl::StatusOr<std::unique_ptr<Cublas>> Cublas::Create(const Table& table) {
  void* handle = nullptr;
  COPPICE_RETURN_IF_ERROR(ErrorOf(table.create(&handle), "cublasCreate"));
  return std::unique_ptr<Cublas>(new Cublas(table, handle));
}

Cublas::~Cublas() {
  table_.destroy(handle_);
}

absl::Status Cublas::Project(const ProjectParams& params, const CallContext& context) {
  if (context.workspace() == 0) {
    return FailedPrecondition(
        "Cublas::Project: the lane has no workspace; set SessionOptions::workspace_bytes.");
  }
  const std::lock_guard lock(mutex_);
  // In this order: a new stream resets the workspace to the library's own.
  COPPICE_RETURN_IF_ERROR(ErrorOf(table_.set_stream(handle_, context.stream()), "cublasSetStream"));
  COPPICE_RETURN_IF_ERROR(
      ErrorOf(table_.set_workspace(handle_, std::bit_cast<void*>(context.workspace()),
                                   static_cast<size_t>(context.workspace_bytes())),
              "cublasSetWorkspace"));
  // A row-major matrix is its own transpose in column-major terms, and y = x w is y' = w' x'.
  constexpr int kNotTransposed = 0;
  const float alpha = 1;
  const float beta = params.accumulate != 0 ? 1 : 0;
  return ErrorOf(
      table_.sgemm(handle_, kNotTransposed, kNotTransposed, static_cast<int>(params.width),
                   static_cast<int>(params.row_count), static_cast<int>(params.depth), &alpha,
                   params.weight, static_cast<int>(params.weight_stride), params.x,
                   static_cast<int>(params.depth), &beta, params.y, static_cast<int>(params.width)),
      "cublasSgemm");
}

}  // namespace coppice
