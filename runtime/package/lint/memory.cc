// Follows a program's steps through the bytes of its buffers.

#include <algorithm>
#include <string>
#include <utility>
#include <variant>

#include "fmt/format.h"

#include "runtime/package/lint/byte_set.h"
#include "runtime/package/lint/program_lint.h"

namespace coppice::package {
namespace {

// What a step does with an operand.
enum class Extent : uint8_t {
  kExact,   // Every byte of the range.
  kWithin,  // Some bytes of it: what a kernel touches is its own business.
};

struct Touch {
  const Operand* operand = nullptr;
  Place place;
  Access access = Access::kReadWrite;
  Extent extent = Extent::kWithin;
  int64_t bytes = 0;  // Of kExact.
};

// The bytes of buffers at one point, while its steps run.
class Memory {
 public:
  Memory(ProgramLint& lint, const Point& point)
      : lint_(lint),
        point_(point),
        sizes_(lint.program.buffers.size(), -1),
        written_(lint.program.buffers.size()) {}

  // False if a buffer's size has no value, or an alias lies outside its buffer.
  bool Measure() {
    bool measured = true;
    for (size_t i = 0; i < sizes_.size(); ++i) {
      const Buffer& buffer = lint_.program.buffers[i];
      const auto bytes = lint_.BytesOf(buffer, point_.values, lint_.PlaceOf(buffer), point_);
      measured = measured && bytes;
      sizes_[i] = bytes.value_or(-1);
    }
    for (const Buffer& buffer : lint_.program.buffers)
      measured = measured && (!buffer.alias || CheckAlias(buffer));
    return measured;
  }

  // False if the range is not inside its buffer.
  bool Apply(const Touch& touch, std::span<const int64_t> values) {
    const Buffer& buffer = lint_.buffer(touch.operand->buffer);
    const auto offset =
        lint_.Evaluate(touch.operand->offset, values, touch.place / "offset", point_);
    if (!offset) return false;
    const int64_t size = sizes_[static_cast<size_t>(touch.operand->buffer)];
    int64_t end = size;
    if (touch.extent == Extent::kExact) {
      if (touch.bytes < 0) {
        lint_.report.Error(
            "negative-size", touch.place, std::to_string(touch.bytes),
            fmt::format("the number of bytes must not be negative, {}", lint_.Sizes(point_)),
            "use 0 or more bytes");
        return false;
      }
      if (__builtin_add_overflow(*offset, touch.bytes, &end)) end = INT64_MAX;
      if (touch.bytes == 0) return true;
    }
    const bool inside = *offset >= 0 && end <= size && (*offset < size || size == 0);
    if (!inside) {
      lint_.report.Error("out-of-bounds", touch.place, fmt::format("[{}, {})", *offset, end),
                         fmt::format("{} has {} bytes, {}", buffer.name, size, lint_.Sizes(point_)),
                         "correct the offset, or the size of the step or the buffer");
      return false;
    }
    const auto [root, shift] = RootOf(touch.operand->buffer);
    if (touch.access != Access::kWrite) CheckRead(root, *offset + shift, end + shift, touch);
    if (touch.access != Access::kRead)
      written_[static_cast<size_t>(root)].Add(*offset + shift, end + shift);
    return true;
  }

  void CheckCopy(const MemcpyStep& copy, int64_t bytes, const Place& place) {
    const auto [to, to_shift] = RootOf(copy.to.buffer);
    const auto [from, from_shift] = RootOf(copy.from.buffer);
    const int64_t a = copy.to.offset.At(point_.values).value + to_shift;
    const int64_t b = copy.from.offset.At(point_.values).value + from_shift;
    if (to == from && bytes > 0 && std::max(a, b) - std::min(a, b) < bytes)
      lint_.report.Error(
          "memcpy-overlap", place, fmt::format("{} bytes", bytes),
          fmt::format("the source at byte {} and the destination at byte {} of {} overlap, {}", b,
                      a, lint_.buffer(to).name, lint_.Sizes(point_)),
          "copy through a temporary");
  }

  // Outputs that nothing wrote, or not all of.
  void CheckOutputs() {
    for (const int output : lint_.program.outputs) {
      const Buffer& buffer = lint_.buffer(output);
      const auto [root, shift] = RootOf(output);
      const Role role = lint_.buffer(root).role;
      if (role != Role::kOutput) continue;  // It is there when the call begins.
      const int64_t size = sizes_[static_cast<size_t>(output)];
      const int64_t missing = written_[static_cast<size_t>(root)].FirstMissing(shift, shift + size);
      if (missing < shift + size)
        lint_.report.Error(
            "output-unwritten", lint_.PlaceOf(buffer), buffer.name,
            fmt::format("no step writes byte {} of its {} bytes, {}", missing - shift, size,
                        lint_.Sizes(point_)),
            "write all of it, or declare access \"w\" for the kernel that writes it");
    }
  }

  int64_t size(int buffer) const { return sizes_[static_cast<size_t>(buffer)]; }

 private:
  // The buffer whose bytes `buffer` has, and at which of them it begins.
  std::pair<int, int64_t> RootOf(int buffer) const {
    int64_t shift = 0;
    for (size_t hop = 0; hop < 2 && lint_.buffer(buffer).alias; ++hop) {
      shift += lint_.buffer(buffer).alias->offset.At(point_.values).value;
      buffer = lint_.buffer(buffer).alias->buffer;
    }
    return {buffer, shift};
  }

  bool CheckAlias(const Buffer& buffer) {
    const Place place = lint_.PlaceOf(buffer) / "alias";
    const auto offset =
        lint_.Evaluate(buffer.alias->offset, point_.values, place / "offset", point_);
    const int64_t size = sizes_[static_cast<size_t>(&buffer - lint_.program.buffers.data())];
    const int64_t room = sizes_[static_cast<size_t>(buffer.alias->buffer)];
    if (!offset) return false;
    if (*offset >= 0 && *offset <= room && size <= room - *offset) return true;
    lint_.report.Error("alias-bounds", place, fmt::format("{} bytes at {}", size, *offset),
                       fmt::format("{} has {} bytes, {}", lint_.buffer(buffer.alias->buffer).name,
                                   room, lint_.Sizes(point_)),
                       "correct the offset or the shape of the output");
    return false;
  }

  void CheckRead(int root, int64_t begin, int64_t end, const Touch& touch) {
    const Buffer& buffer = lint_.buffer(root);
    if (buffer.role != Role::kTemporary && buffer.role != Role::kOutput) return;
    const ByteSet& written = written_[static_cast<size_t>(root)];
    const int64_t missing = written.FirstMissing(begin, end);
    // A kernel need not read all of what its address reaches.
    const bool unwritten =
        touch.extent == Extent::kExact ? missing < end : begin < end && !written.Meets(begin, end);
    if (unwritten)
      lint_.report.Error(
          "read-before-write", touch.place, buffer.name,
          fmt::format("no earlier step writes byte {} of this buffer, {}", missing,
                      lint_.Sizes(point_)),
          touch.access == Access::kReadWrite
              ? "declare \"access\": \"w\" if the step only writes it, or write it in an earlier "
                "step"
              : "write it in an earlier step, or move this step after the step that writes it");
  }

  ProgramLint& lint_;
  const Point& point_;
  std::vector<int64_t> sizes_;  // Bytes per buffer.
  std::vector<ByteSet> written_;
};

// The buffers that arguments name.
void CollectArgument(const Argument& argument, const Place& place, std::vector<Touch>& touches) {
  if (const auto* const buffer = std::get_if<BufferArgument>(&argument))
    touches.push_back({.operand = &buffer->operand, .place = place, .access = buffer->access});
  if (const auto* const map = std::get_if<TensorMapArgument>(&argument))
    touches.push_back(
        {.operand = &map->operand, .place = place / "tensormap", .access = map->access});
  if (const auto* const members = std::get_if<StructArgument>(&argument))
    for (size_t i = 0; i < members->members.size(); ++i)
      CollectArgument(members->members[i], place / "struct" / i, touches);
}

class StepWalk {
 public:
  StepWalk(ProgramLint& lint, const Point& point, Memory& memory)
      : lint_(lint), point_(point), memory_(memory) {}

  void Run(const Step& step, const Place& place) {
    std::visit([&](const auto& action) { Do(action, place); }, step.action);
  }

 private:
  void Do(const KernelStep& step, const Place& place) {
    const Kernel& kernel = lint_.manifest.kernels[static_cast<size_t>(step.kernel)];
    const std::vector<int64_t> values = WithValues(point_, kernel.targets.front());
    for (const Amount& blocks : step.grid)
      if (blocks.At(values).value == 0) return;  // Launches nothing.
    std::vector<Touch> touches;
    for (size_t i = 0; i < step.args.size(); ++i)
      CollectArgument(step.args[i], place / "args" / i, touches);
    ApplyAll(touches, values);
  }

  void Do(const MemsetStep& step, const Place& place) {
    const auto count = lint_.Evaluate(step.count, point_.values, place / "count", point_);
    int64_t bytes = 0;
    if (!count || __builtin_mul_overflow(*count, step.width, &bytes)) return;
    ApplyAll({{&step.to, place / "to", Access::kWrite, Extent::kExact, bytes}}, point_.values);
  }

  void Do(const MemcpyStep& step, const Place& place) {
    const auto bytes = lint_.Evaluate(step.bytes, point_.values, place / "bytes", point_);
    if (!bytes) return;
    const bool inside =
        ApplyAll({{&step.from, place / "from", Access::kRead, Extent::kExact, *bytes},
                  {&step.to, place / "to", Access::kWrite, Extent::kExact, *bytes}},
                 point_.values);
    if (inside) memory_.CheckCopy(step, *bytes, place);
  }

  void Do(const CallStep& step, const Place& place) {
    std::vector<Touch> touches;
    const auto add = [&](const std::vector<View>& views, const Place& list, Access access) {
      for (size_t i = 0; i < views.size(); ++i) {
        const auto bytes = lint_.SpanOf(views[i].shape, views[i].strides, SizeOf(views[i].dtype),
                                        point_.values, list / i, point_);
        if (bytes) touches.push_back({&views[i].operand, list / i, access, Extent::kExact, *bytes});
      }
    };
    add(step.inputs, place / "inputs", Access::kRead);
    add(step.outputs, place / "outputs", Access::kWrite);
    ApplyAll(touches, point_.values);
  }

  void Do(const ChildStep& step, const Place& place) {
    const Program& child = lint_.manifest.programs[static_cast<size_t>(step.program)];
    std::vector<int64_t> values;
    for (size_t i = 0; i < step.symbols.size(); ++i) {
      const Symbol& symbol = child.symbols[i];
      const Place at = place / "symbols" / symbol.name;
      const auto value = lint_.Evaluate(step.symbols[i], point_.values, at, point_);
      if (!value) return;
      if (*value < symbol.min || *value > symbol.max || *value % StepOf(symbol) != 0)
        lint_.report.Error(
            "child-size", at, std::to_string(*value),
            fmt::format("symbol {} of {} must be a multiple of {} in [{}, {}], {}", symbol.name,
                        child.name, StepOf(symbol), symbol.min, symbol.max, lint_.Sizes(point_)),
            "pass sizes that the child allows");
      values.push_back(*value);
    }
    CheckGuards(child, values, place);
    std::vector<Touch> touches;
    const auto add = [&](const std::vector<Operand>& operands, const std::vector<int>& buffers,
                         bool outputs) {
      for (size_t i = 0; i < operands.size(); ++i) {
        const Buffer& buffer = child.buffers[static_cast<size_t>(buffers[i])];
        const Place at = place / "buffers" / buffer.name;
        const auto bytes = lint_.BytesOf(buffer, values, at, point_);
        const Access access = outputs          ? Access::kWrite
                              : buffer.mutated ? Access::kReadWrite
                                               : Access::kRead;
        if (bytes) touches.push_back({&operands[i], at, access, Extent::kExact, *bytes});
      }
    };
    add(step.inputs, child.inputs, false);
    add(step.outputs, child.outputs, true);
    ApplyAll(touches, point_.values);
  }

  void CheckGuards(const Program& child, std::span<const int64_t> values, const Place& place) {
    const std::vector<std::string> names = child.names();
    for (const std::string& text : child.guards) {
      const auto guard = Expression::Parse(text, names);
      if (guard.ok() && !guard->Evaluate(values).is_true())
        lint_.report.Error("child-guard", place / "program", child.name,
                           fmt::format("its guard '{}' fails, {}", text, lint_.Sizes(point_)),
                           "add a guard to this program, or skip the step with \"if\"");
    }
  }

  // Reads come before writes. False if a range is not inside its buffer.
  bool ApplyAll(const std::vector<Touch>& touches, std::span<const int64_t> values) {
    bool inside = true;
    for (const bool writes : {false, true})
      for (const Touch& touch : touches)
        if ((touch.access == Access::kWrite) == writes)
          inside = memory_.Apply(touch, values) && inside;
    return inside;
  }

  ProgramLint& lint_;
  const Point& point_;
  Memory& memory_;
};

}  // namespace

void LintMemory(ProgramLint& lint) {
  for (const Point& point : lint.points) {
    Memory memory(lint, point);
    if (!memory.Measure()) continue;
    StepWalk walk(lint, point, memory);
    for (size_t i = 0; i < lint.program.steps.size(); ++i) {
      const Place place = lint.place / "steps" / i;
      if (!lint.IsSkipped(lint.program.steps[i], place, point))
        walk.Run(lint.program.steps[i], place);
    }
    memory.CheckOutputs();
  }
}

}  // namespace coppice::package
