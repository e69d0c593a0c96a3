// Valid programs of packages, drawn from a seed, and what they compute, for tests.
//
// Buffers are rows of n elements of f32. Steps are kernels, copies, fills and children, on runs of
// rows: so views begin at offsets, and parts of a buffer are touched by some steps alone. Nothing
// reads what no step wrote, outputs are written to their last row, and every padding of n is right.
//
// Units: rows, and elements of f32. Threads: one.

#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

namespace coppice {

class DrawnProgram {
 public:
  static constexpr int64_t kSizeMax = 256;  // Of n.

  explicit DrawnProgram(std::mt19937_64& random);

  // "programs" of a manifest of SmallKernels: the entry, and its child.
  nlohmann::json Programs() const;

  // Rows of each input and output, in their order.
  std::vector<int> InputRows() const { return RowsOf(inputs_); }
  std::vector<int> OutputRows() const { return RowsOf(outputs_); }
  bool IsMutated(size_t input) const { return buffers_[inputs_[input]].mutated; }

  // The outputs at size n. Inputs that the program writes are changed.
  std::vector<std::vector<float>> Compute(int64_t n, std::vector<std::vector<float>>& inputs) const;

 private:
  static constexpr size_t kNone = SIZE_MAX;

  struct Buffer {
    std::string name;
    std::string role;
    int rows = 1;
    bool mutated = false;
    size_t alias = kNone;  // The buffer whose rows it has, from alias_row on.
    int alias_row = 0;
    std::vector<bool> written = {};  // Rows, by the steps so far.
  };
  // Rows [row, row + count) of a buffer, where a step says how many.
  struct Rows {
    size_t buffer = 0;
    int row = 0;
  };
  enum class Kind : uint8_t { kScale, kAdd, kMask, kCopy, kFill, kFillFirst, kChild };
  struct Step {
    Kind kind = Kind::kFill;
    int rows = 1;
    std::vector<Rows> from = {};
    Rows to = {};
    int factor = 0;            // Of kScale and kChild; what fills.
    const char* access = "w";  // Of `to`, to kernels.
  };

  size_t Draw(size_t end) { return random_() % end; }
  bool OneIn(size_t n) { return Draw(n) == 0; }
  size_t AddBuffer(std::string role, size_t number);
  void AddAlias(size_t number);
  void AddStep();
  void FillOutputs();
  // `rows` rows of an own buffer that steps may write, or that were written.
  Rows DrawTarget(int rows);
  Rows DrawSource(int rows);
  // Whether steps that go element by element may have both.
  bool Fit(const Rows& from, const Rows& to, int rows, bool same) const;
  void Note(Step step);
  std::vector<int> RowsOf(const std::vector<size_t>& buffers) const;
  nlohmann::json OperandOf(const Rows& rows) const;
  nlohmann::json JsonOf(const Step& step) const;
  static void Apply(const Step& step, int64_t n, std::vector<std::vector<float>>& memory);

  std::mt19937_64& random_;
  std::vector<Buffer> buffers_;
  std::vector<size_t> inputs_;
  std::vector<size_t> outputs_;
  std::vector<Step> steps_;
  bool padded_ = false;
};

}  // namespace coppice
