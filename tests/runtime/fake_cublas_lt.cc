// A stand-in for libcublasLt.so.13 on the emulated libcuda.so.1: products of f32 and f64, computed
// by a host function on the stream, because the device's memory is the host's there.
//
// It asks for a workspace and writes all of it, refuses an algorithm that it did not give for the
// same shape, and counts how often it was asked for one: fake_cublas_lt_asked().

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <dlfcn.h>

namespace {

constexpr int kSuccess = 0;
constexpr int kNotInitialized = 1;
constexpr int kInvalidValue = 7;
constexpr int kNotSupported = 15;
constexpr size_t kWorkspaceBytes = 4096;

std::atomic<int> asked = 0;

struct Layout {
  int type = 0;
  uint64_t rows = 0;
  uint64_t columns = 0;
  int64_t stride = 0;
  int32_t batch = 1;
  int64_t batch_stride = 0;
};

struct Description {
  int scale = 0;
  int32_t transposed[2] = {};
};

struct Preference {
  uint64_t workspace_bytes = 0;
};

struct Product {
  Description description;
  Layout layouts[4];
  const void* operands[3] = {};
  void* result = nullptr;
  float alpha = 0;
  float beta = 0;
  void* workspace = nullptr;
};

// A block of one thread for each element: its row, column and matrix.
constexpr char kKernel[] = R"(
.version 8.0
.target sm_80
.address_size 64
.visible .entry Product(.param .u64 a, .param .u64 b, .param .u64 c, .param .u64 d,
    .param .u64 workspace, .param .u64 depth, .param .u64 a_row, .param .u64 a_depth,
    .param .u64 a_batch, .param .u64 b_depth, .param .u64 b_column, .param .u64 b_batch,
    .param .u64 c_column, .param .u64 c_batch, .param .u64 d_column, .param .u64 d_batch,
    .param .f32 alpha, .param .f32 beta) {
  .reg .pred %p<4>; .reg .b32 %r<4>; .reg .f32 %f<8>; .reg .b64 %row, %column, %batch, %k, %at;
  .reg .b64 %a, %b, %c, %d, %step_a, %step_b, %t<4>;
  mov.u32 %r0, %ctaid.x; cvt.u64.u32 %row, %r0;
  mov.u32 %r0, %ctaid.y; cvt.u64.u32 %column, %r0;
  mov.u32 %r0, %ctaid.z; cvt.u64.u32 %batch, %r0;
  ld.param.u64 %t0, [a_row]; mul.lo.u64 %a, %row, %t0;
  ld.param.u64 %t0, [a_batch]; mad.lo.u64 %a, %batch, %t0, %a; shl.b64 %a, %a, 2;
  ld.param.u64 %t0, [a]; add.u64 %a, %a, %t0;
  ld.param.u64 %t0, [b_column]; mul.lo.u64 %b, %column, %t0;
  ld.param.u64 %t0, [b_batch]; mad.lo.u64 %b, %batch, %t0, %b; shl.b64 %b, %b, 2;
  ld.param.u64 %t0, [b]; add.u64 %b, %b, %t0;
  ld.param.u64 %step_a, [a_depth]; shl.b64 %step_a, %step_a, 2;
  ld.param.u64 %step_b, [b_depth]; shl.b64 %step_b, %step_b, 2;
  mov.f32 %f0, 0f00000000;
  ld.param.u64 %k, [depth];
Loop:
  ld.global.f32 %f1, [%a]; ld.global.f32 %f2, [%b]; fma.rn.f32 %f0, %f1, %f2, %f0;
  add.u64 %a, %a, %step_a; add.u64 %b, %b, %step_b;
  sub.u64 %k, %k, 1; setp.ne.u64 %p0, %k, 0;
  @%p0 bra Loop;
  ld.param.f32 %f3, [alpha]; mul.f32 %f0, %f0, %f3;
  ld.param.f32 %f4, [beta]; setp.eq.f32 %p1, %f4, 0f00000000;
  @%p1 bra Store;
  ld.param.u64 %t0, [c_column]; mad.lo.u64 %c, %column, %t0, %row;
  ld.param.u64 %t0, [c_batch]; mad.lo.u64 %c, %batch, %t0, %c; shl.b64 %c, %c, 2;
  ld.param.u64 %t0, [c]; add.u64 %c, %c, %t0;
  ld.global.f32 %f5, [%c]; fma.rn.f32 %f0, %f4, %f5, %f0;
Store:
  ld.param.u64 %t0, [d_column]; mad.lo.u64 %d, %column, %t0, %row;
  ld.param.u64 %t0, [d_batch]; mad.lo.u64 %d, %batch, %t0, %d; shl.b64 %d, %d, 2;
  ld.param.u64 %t0, [d]; add.u64 %d, %d, %t0;
  st.global.f32 [%d], %f0;
  or.b64 %t1, %row, %column; or.b64 %t1, %t1, %batch; setp.ne.u64 %p2, %t1, 0;
  @%p2 ret;
  ld.param.u64 %t0, [workspace]; st.global.u64 [%t0], %t1; st.global.u64 [%t0+4088], %t1;
  ret;
}
)";

// The functions of the driver that it needs.
template <typename Function>
Function* Find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), name));
}

int Launch(Product product, void* stream) {
  const auto load = Find<int(void** module, const void* image)>("cuModuleLoadData");
  const auto get =
      Find<int(void** function, void* module, const char* name)>("cuModuleGetFunction");
  const auto launch =
      Find<int(void* function, unsigned x, unsigned y, unsigned z, unsigned, unsigned, unsigned,
               unsigned shared, void* stream, void** arguments, void** extra)>("cuLaunchKernel");
  void* module = nullptr;  // It stays, as the code of a library does.
  void* function = nullptr;
  if (load(&module, kKernel) != 0 || get(&function, module, "Product") != 0) return kNotInitialized;
  Layout* const layouts = product.layouts;
  const auto strides = [&](int operand) {  // Of what is multiplied: of rows, and of columns.
    const bool turned = product.description.transposed[operand] != 0;
    return std::array<int64_t, 2>{turned ? layouts[operand].stride : 1,
                                  turned ? 1 : layouts[operand].stride};
  };
  auto [a_row, a_depth] = strides(0);
  auto [b_depth, b_column] = strides(1);
  uint64_t depth = product.description.transposed[0] != 0 ? layouts[0].rows : layouts[0].columns;
  void* arguments[] = {&product.operands[0],
                       &product.operands[1],
                       &product.operands[2],
                       &product.result,
                       &product.workspace,
                       &depth,
                       &a_row,
                       &a_depth,
                       &layouts[0].batch_stride,
                       &b_depth,
                       &b_column,
                       &layouts[1].batch_stride,
                       &layouts[2].stride,
                       &layouts[2].batch_stride,
                       &layouts[3].stride,
                       &layouts[3].batch_stride,
                       &product.alpha,
                       &product.beta};
  return launch(function, static_cast<unsigned>(layouts[3].rows),
                static_cast<unsigned>(layouts[3].columns), static_cast<unsigned>(layouts[3].batch),
                1, 1, 1, 0, stream, arguments, nullptr) == 0
             ? kSuccess
             : kNotInitialized;
}

// What an algorithm is given for: another shape gets another.
std::array<uint64_t, 8> AlgorithmOf(const Description& description, const Layout* const (&of)[4]) {
  std::array<uint64_t, 8> made{};
  for (size_t i = 0; i < 4; ++i)
    made[i] =
        of[i]->rows * 1'000'003 + of[i]->columns * 1'009 + static_cast<uint64_t>(of[i]->stride);
  made[4] = static_cast<uint64_t>(description.transposed[0] * 2 + description.transposed[1]);
  made[5] = static_cast<uint64_t>(of[3]->batch);
  return made;
}

template <typename Made>
int Destroy(void* made) {
  delete static_cast<Made*>(made);
  return kSuccess;
}

template <typename Value>
int Take(const void* value, size_t bytes, Value& into) {
  if (bytes != sizeof(into)) return kInvalidValue;
  std::memcpy(&into, value, bytes);
  return kSuccess;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): NVIDIA's names.
extern "C" {

int fake_cublas_lt_asked() {
  return asked;
}

int cublasLtCreate(void** handle) {
  if (dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD) == nullptr) return kNotInitialized;
  *handle = new int(0);
  return kSuccess;
}
int cublasLtDestroy(void* handle) {
  return Destroy<int>(handle);
}

int cublasLtMatmulDescCreate(void** made, int /*compute*/, int scale) {
  *made = new Description{.scale = scale};
  return kSuccess;
}
int cublasLtMatmulDescDestroy(void* made) {
  return Destroy<Description>(made);
}
int cublasLtMatmulDescSetAttribute(void* made, int attribute, const void* value, size_t bytes) {
  constexpr int kTransposeA = 3;
  if (attribute < kTransposeA || attribute > kTransposeA + 1) return kInvalidValue;
  return Take(value, bytes, static_cast<Description*>(made)->transposed[attribute - kTransposeA]);
}

int cublasLtMatrixLayoutCreate(
    void** made, int type, uint64_t rows, uint64_t columns, int64_t stride) {
  if (stride < static_cast<int64_t>(rows)) return kInvalidValue;
  *made = new Layout{.type = type, .rows = rows, .columns = columns, .stride = stride};
  return kSuccess;
}
int cublasLtMatrixLayoutDestroy(void* made) {
  return Destroy<Layout>(made);
}
int cublasLtMatrixLayoutSetAttribute(void* made, int attribute, const void* value, size_t bytes) {
  constexpr int kBatchCount = 5;
  constexpr int kBatchOffset = 6;
  Layout& layout = *static_cast<Layout*>(made);
  if (attribute == kBatchCount) return Take(value, bytes, layout.batch);
  if (attribute == kBatchOffset) return Take(value, bytes, layout.batch_stride);
  return kInvalidValue;
}

int cublasLtMatmulPreferenceCreate(void** made) {
  *made = new Preference;
  return kSuccess;
}
int cublasLtMatmulPreferenceDestroy(void* made) {
  return Destroy<Preference>(made);
}
int cublasLtMatmulPreferenceSetAttribute(void* made,
                                         int attribute,
                                         const void* value,
                                         size_t bytes) {
  constexpr int kWorkspaceMax = 1;
  constexpr int kAlignmentOfA = 5;
  constexpr int kAlignmentOfD = 8;
  if (attribute == kWorkspaceMax)
    return Take(value, bytes, static_cast<Preference*>(made)->workspace_bytes);
  uint32_t alignment = 0;
  if (attribute < kAlignmentOfA || attribute > kAlignmentOfD) return kInvalidValue;
  return Take(value, bytes, alignment);
}

struct Heuristic {
  std::array<uint64_t, 8> algorithm;
  size_t workspace_bytes;
  int state;
  float waves;
  int reserved[4];
};

int cublasLtMatmulAlgoGetHeuristic(void* /*handle*/,
                                   void* description,
                                   void* a,
                                   void* b,
                                   void* c,
                                   void* d,
                                   void* preference,
                                   int wanted,
                                   Heuristic* found,
                                   int* count) {
  ++asked;
  const Layout* const of[] = {static_cast<Layout*>(a), static_cast<Layout*>(b),
                              static_cast<Layout*>(c), static_cast<Layout*>(d)};
  const bool known = of[3]->type == 0;
  const auto& about = *static_cast<Description*>(description);
  if (wanted < 1 || !known || about.scale != of[3]->type ||
      static_cast<Preference*>(preference)->workspace_bytes < kWorkspaceBytes)
    return kNotSupported;
  *found = {.algorithm = AlgorithmOf(about, of),
            .workspace_bytes = kWorkspaceBytes,
            .state = 0,
            .waves = 1,
            .reserved = {}};
  *count = 1;
  return kSuccess;
}

int cublasLtMatmul(void* /*handle*/,  // NOLINT(readability-function-size)
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
                   void* stream) {
  const Layout* const of[] = {static_cast<Layout*>(layout_of_a), static_cast<Layout*>(layout_of_b),
                              static_cast<Layout*>(layout_of_c), static_cast<Layout*>(layout_of_d)};
  const auto& about = *static_cast<Description*>(description);
  const auto address = reinterpret_cast<uintptr_t>(workspace);
  const bool fits = std::ranges::equal(
      AlgorithmOf(about, of),
      std::array<uint64_t, 8>{algorithm[0], algorithm[1], algorithm[2], algorithm[3], algorithm[4],
                              algorithm[5], algorithm[6], algorithm[7]});
  if (!fits || workspace_bytes < kWorkspaceBytes || address == 0 || address % 256 != 0)
    return kInvalidValue;
  return Launch({.description = about,
                 .layouts = {*of[0], *of[1], *of[2], *of[3]},
                 .operands = {a, b, c},
                 .result = d,
                 .alpha = *static_cast<const float*>(alpha),
                 .beta = *static_cast<const float*>(beta),
                 .workspace = workspace},
                stream);
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
