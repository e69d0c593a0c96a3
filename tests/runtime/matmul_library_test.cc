// Goal: products by cuBLASLt are those of the host, for every layout that Choose takes, and a
// session replays them in its graphs.
// Method: on the emulator there is no library. On CUDA shapes and strides are drawn, and compared
// with sums on the host; on the emulated libcuda.so.1 the library is fake_cublas_lt.cc, which
// refuses a wrong algorithm and writes to its workspace.

#include "coppice/runtime/matmul_library.h"

#include <algorithm>
#include <cstdint>
#include <dlfcn.h>
#include <random>
#include <vector>

#include "coppice/graphs/session.h"
#include "coppice/runtime/loaded_package.h"

#include "tests/gpu/gpu_fixture.h"
#include "tests/graphs/variants_fixture.h"
#include "tests/support/test.h"

namespace coppice {
namespace {

using nlohmann::json;

class MatmulLibraryTest : public GpuFixture {
 protected:
  void SetUp() override {
    GpuFixture::SetUp();
    if (IsSkipped()) return;
    library_ = MatmulLibrary::Find(device_.driver());
  }

  // A matrix of rows x columns in each of `batch`, laid out as drawn, with room between them.
  struct Matrix {
    std::vector<float> values;
    std::array<int64_t, 3> strides{};

    float at(int64_t batch, int64_t row, int64_t column) const {
      return values[static_cast<size_t>(batch * strides[0] + row * strides[1] +
                                        column * strides[2])];
    }
  };
  Matrix Draw(int64_t batch, int64_t rows, int64_t columns, bool may_repeat) {
    Matrix matrix;
    const bool by_rows = random_() % 2 == 0;
    const int64_t inner = by_rows ? columns : rows;
    const int64_t outer = by_rows ? rows : columns;
    const auto gap = static_cast<int64_t>(random_() % 3);
    matrix.strides[by_rows ? 2 : 1] = 1;
    matrix.strides[by_rows ? 1 : 2] = inner + gap;
    const int64_t bytes = outer * (inner + gap) + static_cast<int64_t>(random_() % 2) * 4;
    matrix.strides[0] = may_repeat && random_() % 3 == 0 ? 0 : bytes;
    matrix.values.resize(static_cast<size_t>(bytes * batch));
    for (float& value : matrix.values)
      value = static_cast<float>(random_() % 17) - 8;
    return matrix;
  }

  int Asked() const {
    const auto asked = reinterpret_cast<int (*)()>(
        dlsym(dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD), "fake_cublas_lt_asked"));
    return asked == nullptr ? -1 : asked();
  }

  TestDevice device_{Kind(), TestEmulatorOptions(), {}};
  std::unique_ptr<MatmulLibrary> library_;
  std::mt19937_64 random_{TestSeed()};
};
COPPICE_GPU_SUITE(MatmulLibraryTest);

TEST_P(MatmulLibraryTest, AnEmulatorHasNone) {
  if (GetParam() == DriverKind::kEmulator) {
    EXPECT_EQ(library_, nullptr);
  }
}

TEST_P(MatmulLibraryTest, ProductsOfDrawnLayoutsAreThoseOfTheHost) {
  if (library_ == nullptr) GTEST_SKIP() << "no cuBLASLt";
  for (int drawn = 0; drawn < 200; ++drawn) {
    const auto size = [&] { return static_cast<int64_t>(1 + random_() % 9); };
    const int64_t batch = random_() % 2 == 0 ? 1 : size();
    const int64_t m = size();
    const int64_t n = size();
    const int64_t k = size();
    const Matrix a = Draw(batch, m, k, true);
    const Matrix b = Draw(batch, k, n, true);
    Matrix y = Draw(batch, m, n, false);
    const Matrix c = y;  // Of one layout: of another the library may know no algorithm.
    const bool adds = random_() % 2 == 0;
    const auto upload = [&](const Matrix& matrix) { return *device_.Upload(matrix.values); };
    const DeviceMemory memory[] = {upload(a), upload(b), upload(c), upload(y)};
    MatrixProduct product{.batch = batch,
                          .m = m,
                          .n = n,
                          .k = k,
                          .a = {memory[0].address(), a.strides},
                          .b = {memory[1].address(), b.strides},
                          .y = {memory[3].address(), y.strides},
                          .alpha = 2,
                          .beta = -1};
    if (adds) product.c = {memory[2].address(), c.strides};
    const MatmulLibrary::Algorithm* const chosen = library_->Choose(product);
    ASSERT_NE(chosen, nullptr) << batch << " x " << m << " x " << n << " x " << k;
    EXPECT_EQ(library_->Choose(product), chosen);
    ASSERT_TRUE(MatmulLibrary::TakesAddresses(product));
    const DeviceMemory workspace =
        *DeviceMemory::Create(device_.driver(), std::max<int64_t>(chosen->workspace_bytes, 1));
    ASSERT_OK(library_->Multiply(product, *chosen, workspace.address(), device_.stream()));
    y.values = device_.Download<float>(memory[3].address(), static_cast<int64_t>(y.values.size()));
    for (int64_t i = 0; i < batch * m * n; ++i) {
      const int64_t row = i / n % m;
      const int64_t column = i % n;
      const int64_t of = i / (m * n);
      float sum = 0;
      for (int64_t at = 0; at < k; ++at)
        sum += a.at(of, row, at) * b.at(of, at, column);
      EXPECT_EQ(y.at(of, row, column), 2 * sum - (adds ? c.at(of, row, column) : 0));
    }
  }
}

TEST_P(MatmulLibraryTest, AsksOnceForEachShape) {
  if (library_ == nullptr || Asked() < 0) GTEST_SKIP() << "the library is no fake";
  const int before = Asked();
  MatrixProduct product{
      .m = 4, .n = 4, .k = 4, .a = {16, {0, 4, 1}}, .b = {16, {0, 4, 1}}, .y = {16, {0, 4, 1}}};
  EXPECT_NE(library_->Choose(product), nullptr);
  product.a.data = 32;  // Addresses do not matter.
  EXPECT_NE(library_->Choose(product), nullptr);
  EXPECT_EQ(Asked(), before + 1);
  product.k = 3;
  EXPECT_NE(library_->Choose(product), nullptr);
  EXPECT_EQ(Asked(), before + 2);
}

TEST_P(MatmulLibraryTest, LayoutsThatItCannotBeToldAreNotTaken) {
  if (library_ == nullptr) GTEST_SKIP() << "no cuBLASLt";
  const MatrixProduct plain{.batch = 2,
                            .m = 4,
                            .n = 4,
                            .k = 4,
                            .a = {16, {16, 4, 1}},
                            .b = {16, {16, 4, 1}},
                            .y = {16, {16, 4, 1}}};
  EXPECT_NE(library_->Choose(plain), nullptr);
  MatrixProduct other = plain;
  other.a.strides = {32, 8, 2};
  EXPECT_EQ(library_->Choose(other), nullptr);
  other = plain;
  other.c = MatrixProduct::Operand{16, {0, 0, 1}};
  EXPECT_EQ(library_->Choose(other), nullptr);
  other = plain;
  other.k = 0;
  EXPECT_EQ(library_->Choose(other), nullptr);
  other = plain;
  other.b.data = 20;
  EXPECT_FALSE(MatmulLibrary::TakesAddresses(other));
}

TEST_P(MatmulLibraryTest, ASessionReplaysTheProduct) {
  constexpr int64_t kColumns = 8;
  const auto buffer = [](const char* role, const json& shape) {
    return json{{"role", role}, {"dtype", "f32"}, {"shape", shape}};
  };
  const auto view = [](const char* name, const json& shape) {
    return json{{"buffer", name}, {"dtype", "f32"}, {"shape", shape}};
  };
  package::PackageBuilder builder = VariantKernels();
  // z = (x @ w) @ w
  builder.manifest["programs"]["main"] = ScaleProgram();
  json& program = builder.manifest["programs"]["main"];
  program["inputs"] = {"x", "w"};
  program["outputs"] = {"z"};
  program["buffers"] = {{"x", buffer("input", {"n", kColumns})},
                        {"w", buffer("input", {kColumns, kColumns})},
                        {"y", buffer("temporary", {"n", kColumns})},
                        {"z", buffer("output", {"n", kColumns})}};
  program["symbols"]["n"].erase("claim");
  const auto product = [&](const char* a, const char* y) {
    return json{{"op", "call"},
                {"function", "gemm"},
                {"inputs", {view(a, {"n", kColumns}), view("w", {kColumns, kColumns})}},
                {"outputs", json::array({view(y, {"n", kColumns})})},
                {"options", json::object()}};
  };
  program["steps"] = {product("x", "y"), product("y", "z")};
  const std::string zip = builder.Zip();
  COPPICE_ASSERT_OK_AND_ASSIGN(
      package::Package opened,
      package::Package::FromMemory(package::BytesOf(zip), "products.zip", {}));
  COPPICE_ASSERT_OK_AND_ASSIGN(
      const auto loaded,
      package::LoadedPackage::Load(device_.context(), std::move(opened), {.allow_ptx = true}));
  const std::unique_ptr<Session> session = *Session::Create(device_.context(), {});
  COPPICE_ASSERT_OK_AND_ASSIGN(const Program* main, session->Register(*loaded, "main", {}));
  const int before = Asked();
  for (const int64_t rows : {5, 5, 5, 12, 12}) {
    std::vector<float> x(static_cast<size_t>(rows * kColumns));
    std::vector<float> w(static_cast<size_t>(kColumns * kColumns));
    for (std::vector<float>* values : {&x, &w})
      for (float& value : *values)
        value = static_cast<float>(random_() % 7) - 3;
    const DeviceMemory memory[] = {*device_.Upload(x), *device_.Upload(w)};
    const int64_t x_dims[] = {rows, kColumns};
    const int64_t w_dims[] = {kColumns, kColumns};
    const Tensor inputs[] = {Tensor::Dense(memory[0].address(), DType::kFloat32, x_dims),
                             Tensor::Dense(memory[1].address(), DType::kFloat32, w_dims)};
    COPPICE_ASSERT_OK_AND_ASSIGN(
        Lease lease, session->Run({.program = main, .inputs = inputs, .stream = device_.stream()}));
    COPPICE_ASSERT_OK_AND_ASSIGN(const ReadScope scope, lease.Read(device_.stream()));
    const std::vector<float> z = device_.Download<float>(scope.output(0).data, rows * kColumns);
    const auto times_w = [&](const std::vector<float>& left) {
      std::vector<float> made(left.size());
      for (size_t i = 0; i < made.size(); ++i)
        for (size_t k = 0; k < kColumns; ++k)
          made[i] += left[i / kColumns * kColumns + k] * w[k * kColumns + i % kColumns];
      return made;
    };
    EXPECT_EQ(z, times_w(times_w(x)));
  }
  if (library_ != nullptr && before >= 0) {
    EXPECT_EQ(Asked(), before + 2);
  }
}

}  // namespace
}  // namespace coppice
