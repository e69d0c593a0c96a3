// Draws step after step, and keeps which rows hold something.

#include "tests/graphs/drawn_program.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "tests/package/small_kernels.h"

namespace coppice {
namespace {

using nlohmann::json;
using package::FloatBuffer;

constexpr int kRowsMax = 4;

std::string CountText(int rows) {
  return rows == 1 ? "n" : std::to_string(rows) + " * n";
}

}  // namespace

DrawnProgram::DrawnProgram(std::mt19937_64& random) : random_(random), padded_(OneIn(2)) {
  for (size_t i = 0, count = 1 + Draw(3); i < count; ++i) {
    inputs_.push_back(AddBuffer("input", i));
    buffers_.back().written.assign(static_cast<size_t>(buffers_.back().rows), true);
  }
  for (size_t i = 0, count = 1 + Draw(5); i < count; ++i)
    AddBuffer("temporary", i);
  const size_t own = 1 + Draw(3);
  for (size_t i = 0; i < own; ++i)
    outputs_.push_back(AddBuffer("output", i));
  for (size_t i = 0, count = 3 + Draw(12); i < count; ++i)
    AddStep();
  FillOutputs();
  if (OneIn(4)) AddAlias(own);
}

size_t DrawnProgram::AddBuffer(std::string role, size_t number) {
  Buffer buffer{.name = role.substr(0, 1) + std::to_string(number),
                .role = std::move(role),
                .rows = static_cast<int>(1 + Draw(kRowsMax))};
  buffer.written.assign(static_cast<size_t>(buffer.rows), false);
  buffers_.push_back(std::move(buffer));
  return buffers_.size() - 1;
}

void DrawnProgram::AddAlias(size_t number) {
  const std::vector<size_t>& roots = OneIn(2) ? inputs_ : outputs_;
  const size_t root = roots[Draw(roots.size())];
  const size_t alias = AddBuffer("output", number);
  buffers_[alias].alias = root;
  buffers_[alias].rows = static_cast<int>(1 + Draw(static_cast<size_t>(buffers_[root].rows)));
  buffers_[alias].alias_row =
      static_cast<int>(Draw(static_cast<size_t>(buffers_[root].rows - buffers_[alias].rows + 1)));
  outputs_.push_back(alias);
}

DrawnProgram::Rows DrawnProgram::DrawTarget(int rows) {
  while (true) {
    const Rows to{.buffer = Draw(buffers_.size()), .row = static_cast<int>(Draw(kRowsMax))};
    const Buffer& buffer = buffers_[to.buffer];
    if (to.row + rows <= buffer.rows && (buffer.role != "input" || OneIn(8))) return to;
  }
}

DrawnProgram::Rows DrawnProgram::DrawSource(int rows) {
  while (true) {
    const Rows from{.buffer = Draw(buffers_.size()), .row = static_cast<int>(Draw(kRowsMax))};
    const Buffer& buffer = buffers_[from.buffer];
    if (from.row + rows > buffer.rows) continue;
    const auto first = buffer.written.begin() + from.row;
    if (std::all_of(first, first + rows, [](bool written) { return written; })) return from;
  }
}

bool DrawnProgram::Fit(const Rows& from, const Rows& to, int rows, bool same) const {
  if (from.buffer != to.buffer) return true;
  if (from.row == to.row) return same;
  return std::abs(from.row - to.row) >= rows;
}

void DrawnProgram::AddStep() {
  Step step{.kind = static_cast<Kind>(Draw(7)), .factor = static_cast<int>(Draw(4))};
  // Of a buffer that is there, and an input has all of its rows.
  const int most = buffers_[inputs_[Draw(inputs_.size())]].rows;
  step.rows = static_cast<int>(1 + Draw(static_cast<size_t>(most)));
  if (step.kind == Kind::kMask || step.kind == Kind::kFillFirst) step.rows = 1;
  const bool roomy = std::ranges::any_of(buffers_, [&](const Buffer& buffer) {
    return buffer.role != "input" && buffer.rows >= step.rows;
  });
  if (!roomy) step.rows = 1;
  const bool fills = step.kind == Kind::kFill || step.kind == Kind::kFillFirst;
  const bool in_place = step.kind == Kind::kScale || step.kind == Kind::kAdd;
  for (int tries = 0; tries < 20; ++tries) {
    step.to = DrawTarget(step.rows);
    step.from.clear();
    for (int i = fills ? 0 : step.kind == Kind::kAdd ? 2 : 1; i > 0; --i)
      step.from.push_back(DrawSource(step.rows));
    const bool fit = std::ranges::all_of(
        step.from, [&](const Rows& from) { return Fit(from, step.to, step.rows, in_place); });
    // A row of which something is written holds something everywhere.
    const Buffer& target = buffers_[step.to.buffer];
    if (step.kind == Kind::kFillFirst && !target.written[static_cast<size_t>(step.to.row)])
      continue;
    if (fit) return Note(std::move(step));
  }
}

void DrawnProgram::Note(Step step) {
  Buffer& target = buffers_[step.to.buffer];
  const auto first = target.written.begin() + step.to.row;
  const bool in_place = std::ranges::any_of(
      step.from, [&](const Rows& from) { return from.buffer == step.to.buffer; });
  // What was there may be read only if something was.
  const bool there = std::find(first, first + step.rows, false) == first + step.rows;
  step.access = there && (in_place || OneIn(2)) ? "rw" : "w";
  target.mutated = target.role == "input";
  std::fill(first, first + step.rows, true);
  steps_.push_back(std::move(step));
}

void DrawnProgram::FillOutputs() {
  for (const size_t output : outputs_) {
    for (int row = 0; row < buffers_[output].rows; ++row) {
      if (!buffers_[output].written[static_cast<size_t>(row)])
        Note({.kind = Kind::kFill, .to = {.buffer = output, .row = row}, .factor = row});
    }
  }
}

std::vector<int> DrawnProgram::RowsOf(const std::vector<size_t>& buffers) const {
  std::vector<int> rows;
  for (const size_t buffer : buffers)
    rows.push_back(buffers_[buffer].rows);
  return rows;
}

json DrawnProgram::OperandOf(const Rows& rows) const {
  json operand = {{"buffer", buffers_[rows.buffer].name}};
  if (rows.row > 0) operand["offset"] = std::to_string(4 * rows.row) + " * n";
  return operand;
}

json DrawnProgram::JsonOf(const Step& step) const {
  const json to = OperandOf(step.to);
  json args;
  for (const Rows& rows : step.from) {
    args.push_back(OperandOf(rows));
    args.back()["access"] = "r";
  }
  args.push_back(to);
  args.back()["access"] = step.access;
  args.push_back({{"i32", CountText(step.rows)}});
  const auto kernel = [&](const char* name) {
    return json{{"op", "kernel"},
                {"kernel", name},
                {"grid", package::GridOf(CountText(step.rows))},
                {"args", args}};
  };
  json made;
  switch (step.kind) {
    case Kind::kScale:
      made = kernel("Scale");
      made["args"].push_back({{"f32", std::to_string(step.factor)}});
      return made;
    case Kind::kAdd:
      return kernel("Add");
    case Kind::kMask:
      made = kernel("Mask");
      made["args"].push_back({{"real", "n"}});
      return made;
    case Kind::kCopy:
      return {{"op", "memcpy"},
              {"to", to},
              {"from", OperandOf(step.from[0])},
              {"bytes", std::to_string(4 * step.rows) + " * n"}};
    case Kind::kFill:
    case Kind::kFillFirst:
      return {{"op", "memset"},
              {"to", to},
              {"value", std::bit_cast<uint32_t>(static_cast<float>(step.factor))},
              {"width", 4},
              {"count", step.kind == Kind::kFill ? CountText(step.rows) : "1"}};
    case Kind::kChild:
      return {{"op", "child"},
              {"program", "child"},
              {"symbols", {{"n", CountText(step.rows)}}},
              {"buffers", {{"x", OperandOf(step.from[0])}, {"y", to}}}};
  }
  return {};
}

json DrawnProgram::Programs() const {
  json main = {{"symbols", {{"n", {{"min", 1}, {"max", kSizeMax}}}}},
               {"inputs", json::array()},
               {"outputs", json::array()},
               {"steps", json::array()}};
  if (padded_) {
    main["symbols"]["n"]["buckets"] = "pow2";
    main["symbols"]["n"]["claim"] = {{"padding", "any"}, {"equal", "bits"}};
  }
  for (const Buffer& buffer : buffers_) {
    json written = FloatBuffer(buffer.role, {buffer.rows, "n"});
    if (buffer.mutated) written["mutated"] = true;
    if (buffer.alias != kNone) {
      written["alias"] = OperandOf({.buffer = buffer.alias, .row = buffer.alias_row});
    }
    main["buffers"][buffer.name] = written;
  }
  for (const size_t input : inputs_)
    main["inputs"].push_back(buffers_[input].name);
  for (const size_t output : outputs_)
    main["outputs"].push_back(buffers_[output].name);
  for (const Step& step : steps_)
    main["steps"].push_back(JsonOf(step));
  json child = DiamondProgram();
  child["symbols"]["n"]["max"] = kRowsMax * kSizeMax;
  return {{"main", main}, {"child", child}};
}

void DrawnProgram::Apply(const Step& step, int64_t n, std::vector<std::vector<float>>& memory) {
  float* const to = memory[step.to.buffer].data() + step.to.row * n;
  std::vector<const float*> from;
  for (const Rows& rows : step.from)
    from.push_back(memory[rows.buffer].data() + rows.row * n);
  const auto factor = static_cast<float>(step.factor);
  for (int64_t i = 0; i < (step.kind == Kind::kFillFirst ? 1 : step.rows * n); ++i) {
    switch (step.kind) {
      case Kind::kScale:
        to[i] = factor * from[0][i];
        break;
      case Kind::kAdd:
        to[i] = from[0][i] + from[1][i];
        break;
      case Kind::kMask:
      case Kind::kCopy:
        to[i] = from[0][i];
        break;
      case Kind::kFill:
      case Kind::kFillFirst:
        to[i] = factor;
        break;
      case Kind::kChild:
        to[i] = 2 * from[0][i] + 3 * from[0][i];
        break;
    }
  }
}

std::vector<std::vector<float>> DrawnProgram::Compute(
    int64_t n, std::vector<std::vector<float>>& inputs) const {
  std::vector<std::vector<float>> memory;
  for (const Buffer& buffer : buffers_)
    memory.emplace_back(static_cast<size_t>(buffer.rows * n));
  for (size_t i = 0; i < inputs.size(); ++i)
    memory[inputs_[i]] = inputs[i];
  for (const Step& step : steps_)
    Apply(step, n, memory);
  for (size_t i = 0; i < inputs.size(); ++i)
    inputs[i] = memory[inputs_[i]];
  std::vector<std::vector<float>> outputs;
  for (const size_t output : outputs_) {
    const Buffer& buffer = buffers_[output];
    const std::vector<float>& root = memory[buffer.alias == kNone ? output : buffer.alias];
    const auto first = root.begin() + buffer.alias_row * n;
    outputs.emplace_back(first, first + buffer.rows * n);
  }
  return outputs;
}

}  // namespace coppice
