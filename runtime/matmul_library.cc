// cuBLASLt knows matrices by columns. One whose rows lie one after another is, by columns, its own
// transpose; so what is asked for is y^T = b^T a^T.

#include "coppice/runtime/matmul_library.h"

#include <algorithm>
#include <dlfcn.h>
#include <limits>
#include <utility>

#include "coppice/base/status.h"
#include "coppice/runtime/stream.h"

#include "runtime/cublas_lt_abi.h"

namespace coppice {
namespace {

constexpr size_t kWorkspaceBytesMax = size_t{32} << 20;

struct Types {
  int data;
  int compute;
  int scale;
};

std::optional<Types> TypesOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return Types{kCudaReal32, kCublasCompute32, kCudaReal32};
    case DType::kFloat64:
      return Types{kCudaReal64, kCublasCompute64, kCudaReal64};
    case DType::kFloat16:
      return Types{kCudaReal16, kCublasCompute32, kCudaReal32};
    case DType::kBFloat16:
      return Types{kCudaBrain16, kCublasCompute32, kCudaReal32};
    default:
      return std::nullopt;
  }
}

// A matrix as the library is told of it: by columns, or what its transpose is by columns.
struct Layout {
  int64_t rows = 0;  // Of what lies there by columns.
  int64_t columns = 0;
  int64_t stride = 0;  // Between two columns.
  int64_t batch_stride = 0;
  bool by_rows = false;  // It is the transpose that lies by columns.
};

std::optional<Layout> LayoutOf(const MatrixProduct::Operand& operand,
                               int64_t rows,
                               int64_t columns) {
  const auto [batch, row, column] = operand.strides;
  if (batch < 0) return std::nullopt;
  if ((column == 1 || columns == 1) && (rows == 1 || row >= columns))
    return Layout{columns, rows, rows == 1 ? columns : row, batch, true};
  if ((row == 1 || rows == 1) && (columns == 1 || column >= rows))
    return Layout{rows, columns, columns == 1 ? rows : column, batch, false};
  return std::nullopt;
}

MatrixProduct::Operand Transposed(MatrixProduct::Operand operand) {
  std::swap(operand.strides[1], operand.strides[2]);
  return operand;
}

// The product whose y lies by rows: the same, or that of the transposes in the other order.
MatrixProduct ByRows(const MatrixProduct& product) {
  if (product.y.strides[2] == 1 || product.n == 1) return product;
  MatrixProduct other = product;
  std::swap(other.m, other.n);
  other.a = Transposed(product.b);
  other.b = Transposed(product.a);
  if (product.c) other.c = Transposed(*product.c);
  other.y = Transposed(product.y);
  return other;
}

struct Layouts {
  Layout a;
  Layout b;
  Layout c;
  Layout y;
};

// Requires: ByRows.
std::optional<Layouts> LayoutsOf(const MatrixProduct& product) {
  constexpr int64_t kBatchMax = std::numeric_limits<int32_t>::max();
  if (std::min({product.batch, product.m, product.n, product.k}) < 1 || product.batch > kBatchMax ||
      !TypesOf(product.dtype))
    return std::nullopt;
  const std::optional<Layout> a = LayoutOf(product.a, product.m, product.k);
  const std::optional<Layout> b = LayoutOf(product.b, product.k, product.n);
  const std::optional<Layout> y = LayoutOf(product.y, product.m, product.n);
  const std::optional<Layout> c = LayoutOf(product.c.value_or(product.y), product.m, product.n);
  if (!a || !b || !c || !y || !y->by_rows || !c->by_rows) return std::nullopt;
  if (product.batch > 1 && (y->batch_stride == 0 || c->batch_stride == 0)) return std::nullopt;
  return Layouts{*a, *b, *c, *y};
}

}  // namespace

// The functions of the library, by their names without cublasLt.
struct MatmulLibrary::Entries {
  int (*Create)(void** handle) = nullptr;
  int (*Destroy)(void* handle) = nullptr;
  int (*MatmulDescCreate)(void** made, int compute, int scale) = nullptr;
  int (*MatmulDescDestroy)(void* made) = nullptr;
  int (*MatmulDescSetAttribute)(void* made,
                                int attribute,
                                const void* value,
                                size_t bytes) = nullptr;
  int (*MatrixLayoutCreate)(
      void** made, int type, uint64_t rows, uint64_t columns, int64_t stride) = nullptr;
  int (*MatrixLayoutDestroy)(void* made) = nullptr;
  int (*MatrixLayoutSetAttribute)(void* made,
                                  int attribute,
                                  const void* value,
                                  size_t bytes) = nullptr;
  int (*MatmulPreferenceCreate)(void** made) = nullptr;
  int (*MatmulPreferenceDestroy)(void* made) = nullptr;
  int (*MatmulPreferenceSetAttribute)(void* made,
                                      int attribute,
                                      const void* value,
                                      size_t bytes) = nullptr;
  int (*MatmulAlgoGetHeuristic)(void* handle,
                                void* description,
                                void* a,
                                void* b,
                                void* c,
                                void* d,
                                void* preference,
                                int wanted,
                                CublasLtHeuristic* found,
                                int* count) = nullptr;
  int (*Matmul)(void* handle,
                void* description,
                const void* alpha,
                const void* a,
                void* layout_of_a,
                const void* b,
                void* layout_of_b,
                const void* beta,
                const void* c,
                void* layout_of_c,
                void* d,
                void* layout_of_d,
                const uint64_t* algorithm,
                void* workspace,
                size_t workspace_bytes,
                CuStream stream) = nullptr;

  // Whether the library has all of them.
  bool Load(void* library) {
    const auto find = [&](const char* name, auto& function) {
      function =
          reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return find("cublasLtCreate", Create) && find("cublasLtDestroy", Destroy) &&
           find("cublasLtMatmulDescCreate", MatmulDescCreate) &&
           find("cublasLtMatmulDescDestroy", MatmulDescDestroy) &&
           find("cublasLtMatmulDescSetAttribute", MatmulDescSetAttribute) &&
           find("cublasLtMatrixLayoutCreate", MatrixLayoutCreate) &&
           find("cublasLtMatrixLayoutDestroy", MatrixLayoutDestroy) &&
           find("cublasLtMatrixLayoutSetAttribute", MatrixLayoutSetAttribute) &&
           find("cublasLtMatmulPreferenceCreate", MatmulPreferenceCreate) &&
           find("cublasLtMatmulPreferenceDestroy", MatmulPreferenceDestroy) &&
           find("cublasLtMatmulPreferenceSetAttribute", MatmulPreferenceSetAttribute) &&
           find("cublasLtMatmulAlgoGetHeuristic", MatmulAlgoGetHeuristic) &&
           find("cublasLtMatmul", Matmul);
  }
};

// What the library is told of one product.
struct MatmulLibrary::Call {
  Call(const Entries& of, const MatrixProduct& product);
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() {
    if (description != nullptr) entries.MatmulDescDestroy(description);
    for (void* const layout : {left, right, added, result})
      if (layout != nullptr) entries.MatrixLayoutDestroy(layout);
  }

  const Entries& entries;
  void* description = nullptr;
  void* left = nullptr;
  void* right = nullptr;
  void* added = nullptr;
  void* result = nullptr;
  bool usable = false;
};

MatmulLibrary::Call::Call(const Entries& of, const MatrixProduct& product) : entries(of) {
  const std::optional<Layouts> layouts = LayoutsOf(product);
  if (!layouts) return;
  const Types types = *TypesOf(product.dtype);
  const auto set = [](auto function, void* made, int attribute, const auto& value) {
    return function(made, attribute, &value, sizeof(value)) == kCublasSuccess;
  };
  const auto lay_out = [&](const Layout& layout, void*& made) {
    const auto batch = static_cast<int32_t>(product.batch);
    return entries.MatrixLayoutCreate(&made, types.data, static_cast<uint64_t>(layout.rows),
                                      static_cast<uint64_t>(layout.columns),
                                      layout.stride) == kCublasSuccess &&
           set(entries.MatrixLayoutSetAttribute, made, kCublasLtBatchCount, batch) &&
           set(entries.MatrixLayoutSetAttribute, made, kCublasLtBatchOffset, layout.batch_stride);
  };
  // b^T and a^T are what lies there by columns if b and a lie by rows.
  const int32_t of_left = layouts->b.by_rows ? 0 : kCublasTranspose;
  const int32_t of_right = layouts->a.by_rows ? 0 : kCublasTranspose;
  usable = entries.MatmulDescCreate(&description, types.compute, types.scale) == kCublasSuccess &&
           set(entries.MatmulDescSetAttribute, description, kCublasLtTransposeA, of_left) &&
           set(entries.MatmulDescSetAttribute, description, kCublasLtTransposeB, of_right) &&
           lay_out(layouts->b, left) && lay_out(layouts->a, right) && lay_out(layouts->c, added) &&
           lay_out(layouts->y, result);
}

std::unique_ptr<MatmulLibrary> MatmulLibrary::Find(const Driver& driver) {
  if (driver.kind() == DriverKind::kEmulator) return nullptr;
  for (const char* const name : {"libcublasLt.so.13", "libcublasLt.so.12"}) {
    // Never closed: its code must stay valid for the life of the process.
    void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    auto entries = std::make_unique<Entries>();
    if (library == nullptr || !entries->Load(library)) continue;
    void* handle = nullptr;
    const RelaxedCaptureScope relaxed(driver);
    if (entries->Create(&handle) != kCublasSuccess) continue;
    return std::unique_ptr<MatmulLibrary>(new MatmulLibrary(driver, std::move(entries), handle));
  }
  return nullptr;
}

MatmulLibrary::MatmulLibrary(const Driver& driver, std::unique_ptr<Entries> entries, void* handle)
    : driver_(driver), entries_(std::move(entries)), handle_(handle) {}

MatmulLibrary::~MatmulLibrary() {
  const RelaxedCaptureScope relaxed(driver_);
  entries_->Destroy(handle_);
}

const MatmulLibrary::Algorithm* MatmulLibrary::Choose(const MatrixProduct& product) {
  Key key{static_cast<int64_t>(product.dtype),
          product.batch,
          product.m,
          product.n,
          product.k,
          product.c ? 1 : 0};
  auto next = key.begin() + 6;
  for (const MatrixProduct::Operand& operand :
       {product.a, product.b, product.c.value_or(MatrixProduct::Operand()), product.y})
    next = std::copy(operand.strides.begin(), operand.strides.end(), next);
  const std::lock_guard lock(mutex_);
  const auto [found, is_new] = chosen_.try_emplace(key);
  if (is_new) found->second = Ask(ByRows(product));
  return found->second ? &*found->second : nullptr;
}

std::optional<MatmulLibrary::Algorithm> MatmulLibrary::Ask(const MatrixProduct& product) const {
  const Call call(*entries_, product);
  void* preference = nullptr;
  if (!call.usable || entries_->MatmulPreferenceCreate(&preference) != kCublasSuccess)
    return std::nullopt;
  const auto set = [&](int attribute, const auto& value) {
    return entries_->MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)) ==
           kCublasSuccess;
  };
  bool is_set = set(kCublasLtWorkspaceMax, kWorkspaceBytesMax);
  for (int operand = 0; operand < 4; ++operand)
    is_set =
        is_set && set(kCublasLtAlignmentOfA + operand, static_cast<uint32_t>(kOperandAlignment));
  CublasLtHeuristic found{};
  int count = 0;
  const int asked = is_set ? entries_->MatmulAlgoGetHeuristic(handle_, call.description, call.left,
                                                              call.right, call.added, call.result,
                                                              preference, 1, &found, &count)
                           : ~kCublasSuccess;
  entries_->MatmulPreferenceDestroy(preference);
  if (asked != kCublasSuccess || count < 1 || found.state != kCublasSuccess) return std::nullopt;
  return Algorithm{found.algorithm, static_cast<int64_t>(found.workspace_bytes)};
}

bool MatmulLibrary::TakesAddresses(const MatrixProduct& product) {
  const DeviceAddress all =
      product.a.data | product.b.data | product.y.data | (product.c ? product.c->data : 0);
  return all % static_cast<DeviceAddress>(kOperandAlignment) == 0;
}

absl::Status MatmulLibrary::Multiply(const MatrixProduct& given,
                                     const Algorithm& algorithm,
                                     DeviceAddress workspace,
                                     CuStream stream) const {
  const MatrixProduct product = ByRows(given);
  const Call call(*entries_, product);
  if (!call.usable)
    return absl::InternalError(
        "cublasLtMatmulDescCreate refused a product that it accepted before");
  const auto pointer = [](DeviceAddress address) {
    return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr)
  };
  const double wide[] = {product.alpha, product.c ? product.beta : 0};
  const float narrow[] = {static_cast<float>(wide[0]), static_cast<float>(wide[1])};
  const auto factor = [&](int i) -> const void* {
    return product.dtype == DType::kFloat64 ? static_cast<const void*>(&wide[i]) : &narrow[i];
  };
  const RelaxedCaptureScope relaxed(driver_);
  const int status =
      entries_->Matmul(handle_, call.description, factor(0), pointer(product.b.data), call.left,
                       pointer(product.a.data), call.right, factor(1),
                       pointer(product.c ? product.c->data : product.y.data), call.added,
                       pointer(product.y.data), call.result, algorithm.data.data(),
                       pointer(workspace), static_cast<size_t>(algorithm.workspace_bytes), stream);
  if (status == kCublasSuccess) return absl::OkStatus();
  return MakeError(absl::StatusCode::kInternal, "cublasLtMatmul failed with status {}", status);
}

}  // namespace coppice
