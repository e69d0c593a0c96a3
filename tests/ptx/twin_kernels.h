// The project's kernels, and how the parameters of each are drawn.
//
// Units: counts in elements. Threads: one.

#pragma once

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "coppice/runtime/kernel_image.h"

#include "tests/ptx/twins.h"

namespace coppice::ptx {

// What draws parameters. Integers are of a closed range.
class TwinDraw {
 public:
  explicit TwinDraw(uint64_t seed) : random_(seed) {}

  int64_t Int(int64_t least, int64_t most) {
    return least + static_cast<int64_t>(random_() % static_cast<uint64_t>(most - least + 1));
  }
  uint64_t Word() { return random_(); }
  float Float(float least, float most) {
    return least + (most - least) * static_cast<float>(random_() >> 40) * 0x1p-24F;
  }
  std::vector<float> Floats(int64_t count, float least = -1, float most = 1) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values)
      value = Float(least, most);
    return values;
  }
  template <typename T>
  std::vector<T> Ints(int64_t count, int64_t least, int64_t most) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values)
      value = static_cast<T>(Int(least, most));
    return values;
  }
  template <typename T>
  std::vector<T> Words(int64_t count) {
    std::vector<T> values(static_cast<size_t>(count));
    for (T& value : values)
      value = static_cast<T>(random_());
    return values;
  }
  // What is in memory before a kernel writes it.
  std::vector<float> Garbage(int64_t count) { return Floats(count, -1e30F, 1e30F); }

 private:
  std::mt19937_64 random_;
};

inline unsigned Blocks(int64_t count, int64_t per_block) {
  return static_cast<unsigned>(std::max<int64_t>((count + per_block - 1) / per_block, 1));
}

struct Twin {
  const char* unit = "";  // That tests/CMakeLists.txt has it compiled in.
  const KernelImage* image = nullptr;
  const char* kernel = "";
  void (*draw)(TwinDraw& draw, TwinScene& scene) = nullptr;
};

// Sums whose order the source says, and all that is not a float, are compared bit for bit; of the
// others, what draws them says how far they may be apart, and why.
std::vector<Twin> LibraryTwins();  // And those of tests.
std::vector<Twin> ToolTwins();
std::vector<Twin> SampleTwins();

}  // namespace coppice::ptx
