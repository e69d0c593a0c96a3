// Goal: ldmatrix, stmatrix and movmatrix move elements where the PTX ISA has them; wmma.load, mma
// and store agree on fragments, in every layout, space, shape and type. Method: matrices of
// distinct elements for the first three; for wmma, products of matrices in memory against loops in
// double or 64-bit integers, for every row of wmma.mma and all layouts of memory.

#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "fmt/format.h"
#include "gtest/gtest.h"

#include "runtime/emulator/ptx/form.h"
#include "runtime/emulator/ptx/form_table.h"
#include "runtime/emulator/ptx/memory.h"
#include "tests/ptx/host_warp.h"
#include "tests/support/test_device.h"

namespace coppice::ptx {
namespace {

std::string Registers(int count, int first) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text += fmt::format("{}%r{}", i == 0 ? "" : ", ", first + i);
  return "{" + text + "}";
}

struct MoveCase {
  bool store;
  int matrices;
  bool transposes;
  bool generic;
};

std::vector<MoveCase> MoveCases() {
  std::vector<MoveCase> cases;
  for (int bits = 0; bits < 24; ++bits)
    cases.push_back({bits % 2 != 0, 1 << bits / 8, (bits & 2) != 0, (bits & 4) != 0});
  return cases;
}

std::string NameOf(const MoveCase& test) {
  return fmt::format("{}.sync.aligned.m8n8.x{}{}{}.b16", test.store ? "stmatrix" : "ldmatrix",
                     test.matrices, test.transposes ? ".trans" : "", test.generic ? "" : ".shared");
}

// "For each matrix, row r is at the address of thread 8 i + r; each thread receives two consecutive
// elements of a row": thread 4 r + c has columns 2 c and 2 c + 1 of row r.
TEST(MatrixMemoryTest, LoadAndStoreHaveEachElementInItsLane) {
  for (const MoveCase& test : MoveCases()) {
    SCOPED_TRACE(NameOf(test));
    const std::string address = test.generic ? "[%d9 + 16]" : "[%r9 + 16]";
    const std::string list = Registers(test.matrices, 0);
    HostWarp warp(fmt::format("{} {}, {};", NameOf(test), test.store ? address : list,
                              test.store ? list : address));
    ASSERT_EQ(warp.error(), "");
    const auto at = [](int matrix, int row) { return 48 * (8 * matrix + (row * 3) % 8); };
    for (int lane = 0; lane < kLanes; ++lane) {
      const int place = at(lane / 8 % test.matrices, lane % 8);
      warp.Lanes<uint64_t>("%d9")[lane] = kSharedWindow + place;
      warp.Lanes<uint32_t>("%r9")[lane] = place;
    }
    const auto element = [](int matrix, int row, int column) {
      return static_cast<uint16_t>(1000 * matrix + 16 * row + column + 1);
    };
    for (int matrix = 0; matrix < test.matrices; ++matrix) {
      for (int row = 0; row < 8; ++row) {
        for (int column = 0; column < 8; ++column) {
          const uint16_t value = element(matrix, row, column);
          const int line = test.transposes ? column : row;
          const int within = test.transposes ? row : column;
          uint32_t* const words = warp.Lanes<uint32_t>(fmt::format("%r{}", matrix));
          if (test.store)
            words[4 * line + within / 2] |= uint32_t{value} << (within % 2 * 16);
          else
            std::memcpy(&warp.shared[16 + at(matrix, row) + 2 * column], &value, 2);
        }
      }
    }
    ASSERT_EQ(warp.Run(), Step::kNext);
    EXPECT_EQ(warp.accesses.size(), static_cast<size_t>(8 * test.matrices));
    for (const HostWarp::Access& access : warp.accesses) {
      EXPECT_EQ(access.bytes, 16);
      EXPECT_EQ(access.kind, test.store ? AccessKind::kWrite : AccessKind::kRead);
    }
    for (int matrix = 0; matrix < test.matrices; ++matrix) {
      for (int row = 0; row < 8; ++row) {
        for (int column = 0; column < 8; ++column) {
          const int line = test.transposes ? column : row;
          const int within = test.transposes ? row : column;
          uint16_t value = 0;
          const uint32_t* const words = warp.Lanes<uint32_t>(fmt::format("%r{}", matrix));
          if (test.store)
            std::memcpy(&value, &warp.shared[16 + at(matrix, row) + 2 * column], 2);
          else
            value = static_cast<uint16_t>(words[4 * line + within / 2] >> (within % 2 * 16));
          EXPECT_EQ(value, element(matrix, row, column)) << matrix << " " << row << " " << column;
        }
      }
    }
  }
}

TEST(MatrixMemoryTest, MovmatrixTransposes) {
  HostWarp warp("movmatrix.sync.aligned.m8n8.trans.b16 %r0, %r0;");
  ASSERT_EQ(warp.error(), "");
  auto* const halves = reinterpret_cast<uint16_t*>(warp.Lanes<uint32_t>("%r0"));
  for (int i = 0; i < 64; ++i)
    halves[i] = static_cast<uint16_t>(i);
  ASSERT_EQ(warp.Run(), Step::kNext);
  for (int i = 0; i < 64; ++i)
    EXPECT_EQ(halves[i], i % 8 * 8 + i / 8);
}

TEST(MatrixMemoryTest, ARowThatIsNotThereEndsIt) {
  HostWarp warp("ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r0}, [%r9];");
  ASSERT_EQ(warp.error(), "");
  warp.Lanes<uint32_t>("%r9")[7] = 1 << 20;
  EXPECT_EQ(warp.Run(), Step::kStop);
  warp.Lanes<uint32_t>("%r9")[7] = 8;  // Rows begin at multiples of 16.
  EXPECT_EQ(warp.Run(), Step::kStop);
}

// A product of matrices by wmma, all operands in memory.
struct MatrixProduct {
  int m = 0;
  int n = 0;
  int k = 0;
  std::string element;  // Of A and B.
  std::string c;
  std::string d;
  bool satfinite = false;
  std::string name;  // Of wmma.mma.
};

MatrixProduct MatrixProductOf(const std::string& name) {
  MatrixProduct product{.name = name};
  size_t shape = 0;  // Where "m16n16k16" begins; .mma is none.
  while (std::isdigit(name.at(shape + 1)) == 0)
    shape = name.find(".m", shape) + 1;
  std::sscanf(name.c_str() + shape, "m%dn%dk%d", &product.m, &product.n, &product.k);
  std::vector<std::string> types;
  for (size_t begin = name.find('.', shape) + 1; begin < name.size();) {
    const size_t end = std::min(name.find('.', begin), name.size());
    types.push_back(name.substr(begin, end - begin));
    begin = end + 1;
  }
  if (types.back() == "satfinite") {
    product.satfinite = true;
    types.pop_back();
  }
  product.d = types.front();
  product.c = types.back();
  product.element = types.size() == 2 ? "f16" : types[1];
  return product;
}

int BytesOf(const std::string& type) {
  return type == "s8" || type == "u8" ? 1 : type == "f16" || type == "bf16" ? 2 : 4;
}

// Small integers, which every type has and whose sums are exact.
uint32_t Encoded(const std::string& type, int value) {
  if (type == "s8" || type == "u8" || type == "s32") return static_cast<uint32_t>(value);
  const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value));
  if (type == "bf16") return bits >> 16;
  if (type != "f16") return bits;
  if (value == 0) return 0;
  return (bits >> 16 & 0x8000) | ((bits & 0x7fffffff) - (112 << 23)) >> 13;
}

struct Stored {
  std::string layout;
  int rows;
  int columns;
  int stride;  // Elements.
  std::vector<int> values;

  Stored(std::string in, int of_rows, int of_columns, bool packed)
      : layout(std::move(in)), rows(of_rows), columns(of_columns), values(rows * columns) {
    stride = (layout == "row" ? columns : rows) + (packed ? 0 : 16);
  }
  int Offset(int row, int column) const {
    return layout == "row" ? row * stride + column : column * stride + row;
  }
};

class WmmaTest : public testing::Test {
 protected:
  void Fill(Stored& matrix, bool is_unsigned) {
    for (int& value : matrix.values)
      value = static_cast<int>(random_() % 7) - (is_unsigned ? 0 : 3);
  }
  static void Write(std::byte* memory, const Stored& matrix, const std::string& type) {
    for (int row = 0; row < matrix.rows; ++row) {
      for (int column = 0; column < matrix.columns; ++column) {
        const uint32_t bits = Encoded(type, matrix.values[row * matrix.columns + column]);
        std::memcpy(memory + matrix.Offset(row, column) * BytesOf(type), &bits, BytesOf(type));
      }
    }
  }

  // One product: A, B and D in shared memory, C in global memory; each of a layout.
  void Run(const MatrixProduct& p, const std::string& of_c, const std::string& of_d, bool packed) {
    SCOPED_TRACE(testing::Message()
                 << p.name << " " << of_c << " " << of_d << " seed " << TestSeed());
    const bool by_columns_a = p.name.find("aligned.col.") != std::string::npos;
    const bool by_columns_b = p.name.find(".col.m") != std::string::npos;
    Stored a(by_columns_a ? "col" : "row", p.m, p.k, packed);
    Stored b(by_columns_b ? "col" : "row", p.k, p.n, packed);
    Stored c(of_c, p.m, p.n, packed);
    const Stored d(of_d, p.m, p.n, packed);
    Fill(a, p.element == "u8");
    Fill(b, p.element == "u8");
    Fill(c, false);

    const std::string shape = fmt::format("m{}n{}k{}", p.m, p.n, p.k);
    const int words = 4 / BytesOf(p.element) * kLanes;
    const int registers_a = p.element == "f16" ? 8 : p.m * p.k / words;
    const int registers_b = p.element == "f16" ? 8 : p.n * p.k / words;
    const auto registers = [](const std::string& type) { return type == "f16" ? 4 : 8; };
    const auto stride = [&](const char* name) { return packed ? "" : fmt::format(", {}", name); };
    const std::string list_d = Registers(registers(p.d), 0);
    HostWarp warp(
        fmt::format("wmma.load.a.sync.aligned.{}.{}.shared.{} {}, [%r70]{};\n"
                    "wmma.load.b.sync.aligned.{}.{}.{} {}, [%d11]{};\n"
                    "wmma.load.c.sync.aligned.{}.{}.global.{} {}, [%d10]{};\n"
                    "{} {}, {}, {}, {};\n"
                    "wmma.store.d.sync.aligned.{}.{}.shared.{} [%r71], {}{};\n",
                    a.layout, shape, p.element, Registers(registers_a, 10), stride("%r72"),
                    b.layout, shape, p.element, Registers(registers_b, 20), stride("%r73"),
                    c.layout, shape, p.c, Registers(registers(p.c), 30), stride("%r74"), p.name,
                    list_d, Registers(registers_a, 10), Registers(registers_b, 20),
                    Registers(registers(p.c), 30), d.layout, shape, p.d, list_d, stride("%r75")));
    ASSERT_EQ(warp.error(), "");
    std::vector<std::byte> global(8192);
    constexpr int kB = 4096;
    constexpr int kD = 8192;
    Write(warp.shared.data(), a, p.element);
    Write(warp.shared.data() + kB, b, p.element);
    Write(global.data(), c, p.c);
    for (int lane = 0; lane < kLanes; ++lane) {
      warp.Lanes<uint32_t>("%r71")[lane] = kD;
      warp.Lanes<uint64_t>("%d11")[lane] = kSharedWindow + kB;
      warp.Lanes<uint64_t>("%d10")[lane] = std::bit_cast<uint64_t>(global.data());
      warp.Lanes<uint32_t>("%r72")[lane] = a.stride;
      warp.Lanes<uint32_t>("%r73")[lane] = b.stride;
      warp.Lanes<uint32_t>("%r74")[lane] = c.stride;
      warp.Lanes<uint32_t>("%r75")[lane] = d.stride;
    }
    ASSERT_EQ(warp.RunAll(), Step::kNext);
    for (int row = 0; row < p.m; ++row) {
      for (int column = 0; column < p.n; ++column) {
        int sum = c.values[row * p.n + column];
        for (int k = 0; k < p.k; ++k)
          sum += a.values[row * p.k + k] * b.values[k * p.n + column];
        uint32_t bits = 0;
        std::memcpy(&bits, &warp.shared[kD + d.Offset(row, column) * BytesOf(p.d)], BytesOf(p.d));
        ASSERT_EQ(bits, Encoded(p.d, sum)) << row << " " << column;
      }
    }
  }

  std::mt19937_64 random_{TestSeed()};
};

TEST_F(WmmaTest, ProductsInMemoryAreThoseOfTheLoops) {
  int products = 0;
  for (const Form& form : AllForms()) {
    const std::string name = form.name;
    if (!name.starts_with("wmma.mma.")) continue;
    const MatrixProduct product = MatrixProductOf(name);
    for (const bool packed : {false, true}) {
      Run(product, "row", "col", packed);
      Run(product, "col", "row", packed);
    }
    ++products;
  }
  EXPECT_EQ(products, 4 * (3 * (4 + 1 + 4) + 1));
}

// With the test above, which runs every wmma.mma, every row of the family is run by this file.
TEST_F(WmmaTest, EveryRowOfTheFamilyIsOneOfThese) {
  std::set<std::string> known = {"movmatrix.sync.aligned.m8n8.trans.b16"};
  for (const MoveCase& test : MoveCases())
    known.insert(NameOf(test));
  for (const Form& form : MatrixForms()) {
    const std::string name = form.name;
    EXPECT_TRUE(known.contains(name) || name.starts_with("wmma.load.") ||
                name.starts_with("wmma.store.d."))
        << name;
  }
}

// Loads and stores of each row alone: what was loaded and is stored again is the same matrix.
TEST_F(WmmaTest, EveryStoreGivesWhatItsLoadTook) {
  for (const Form& form : MatrixForms()) {
    const std::string store = form.name;
    if (!store.starts_with("wmma.store.d.")) continue;
    SCOPED_TRACE(store);
    std::string load = store;
    load.replace(0, 12, "wmma.load.c");
    load = "wmma.load.c" + store.substr(12);
    const MatrixProduct shape =
        MatrixProductOf("wmma.mma.sync" + store.substr(store.find(".m")) + ".f32");
    const std::string type = store.substr(store.rfind('.') + 1);
    const bool global = store.find(".global") != std::string::npos;
    const bool narrow = store.find(".shared") != std::string::npos;
    const std::string list = Registers(type == "f16" ? 4 : 8, 0);
    HostWarp warp(fmt::format("{} {}, [{}];\n{} [{}], {};", load, list, narrow ? "%r70" : "%d10",
                              store, narrow ? "%r71" : "%d11", list));
    ASSERT_EQ(warp.error(), "");
    std::vector<std::byte> memory(4096);
    std::byte* const base = global ? memory.data() : warp.shared.data();
    const int bytes = shape.m * shape.n * BytesOf(type);
    for (int i = 0; i < bytes; ++i)
      base[i] = static_cast<std::byte>(random_());
    for (int lane = 0; lane < kLanes; ++lane) {
      warp.Lanes<uint32_t>("%r71")[lane] = 2048;
      const uint64_t at = global ? std::bit_cast<uint64_t>(base) : kSharedWindow;
      warp.Lanes<uint64_t>("%d10")[lane] = at;
      warp.Lanes<uint64_t>("%d11")[lane] = at + 2048;
    }
    ASSERT_EQ(warp.RunAll(), Step::kNext);
    EXPECT_EQ(std::memcmp(base, base + 2048, bytes), 0);
  }
}

}  // namespace
}  // namespace coppice::ptx
