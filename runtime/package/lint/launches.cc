// Grids and arguments of kernels, at every size that is tried and for every target.

#include <array>
#include <bit>
#include <string>
#include <string_view>
#include <variant>

#include "fmt/format.h"

#include "runtime/package/lint/limits.h"
#include "runtime/package/lint/program_lint.h"

namespace coppice::package {
namespace {

// One launch of a step for one target at one point.
struct Launch {
  const Point& point;
  const Target& target;
  std::span<const int64_t> values;  // With those of the target.
};

void LintGrid(ProgramLint& lint, const KernelStep& step, const Launch& launch, const Place& place) {
  constexpr std::string_view kAxes = "xyz";
  for (size_t axis = 0; axis < 3; ++axis) {
    const Place at = place / "grid" / axis;
    const auto blocks = lint.Evaluate(step.grid[axis], launch.values, at, launch.point);
    if (!blocks) continue;
    const std::string sizes = lint.Sizes(launch.point);
    if (*blocks < 0 || *blocks > kGridMax[axis])
      lint.report.Error(
          "grid-limit", at, std::to_string(*blocks),
          fmt::format("axis {} takes 0 to {} blocks, {}", kAxes[axis], kGridMax[axis], sizes),
          "lower max or the largest bucket, or put the blocks on another axis");
    const uint32_t cluster = launch.target.cluster[axis];
    if (cluster > 1 && *blocks % cluster != 0)
      lint.report.Error(
          "grid-cluster", at, std::to_string(*blocks),
          fmt::format("not a multiple of the {} blocks of a cluster, {}", cluster, sizes),
          "round the grid up to whole clusters");
  }
}

void LintInteger(ProgramLint& lint,
                 const IntegerArgument& argument,
                 const Launch& launch,
                 const Place& place) {
  const auto value = lint.Evaluate(argument.value, launch.values, place, launch.point);
  if (!value) return;
  const int bits = 8 * argument.bytes - (argument.is_signed ? 1 : 0);
  const int64_t greatest = bits >= 63 ? INT64_MAX : (int64_t{1} << bits) - 1;
  const int64_t least = argument.is_signed ? -greatest - 1 : 0;
  if (*value < least || *value > greatest)
    lint.report.Error(
        "int-overflow", place, std::to_string(*value),
        fmt::format("{}{} holds [{}, {}], {}", argument.is_signed ? 'i' : 'u', 8 * argument.bytes,
                    least, greatest, lint.Sizes(launch.point)),
        "lower max or the largest bucket, add a guard, or compile the kernel for i64");
}

// What cuTensorMapEncodeTiled asks of sizes.
void LintMapSizes(ProgramLint& lint,
                  const TensorMapArgument& map,
                  const Launch& launch,
                  const Place& place) {
  constexpr int64_t kDimensionMax = int64_t{1} << 32;
  constexpr int64_t kStrideMax = int64_t{1} << 40;
  constexpr int64_t kAlignment = 16;
  for (size_t i = 0; i < map.dims.size(); ++i) {
    const Place at = place / "dims" / i;
    const auto size = lint.Evaluate(map.dims[i], launch.values, at, launch.point);
    if (size && (*size < 1 || *size > kDimensionMax))
      lint.report.Error("tensormap-size", at, std::to_string(*size),
                        fmt::format("a dimension must be 1 to 2^32, {}", lint.Sizes(launch.point)),
                        "skip the step with \"if\" where the dimension is 0");
  }
  for (size_t i = 0; i < map.strides.size(); ++i) {
    const Place at = place / "strides" / i;
    const auto stride = lint.Evaluate(map.strides[i], launch.values, at, launch.point);
    if (stride && (*stride <= 0 || *stride >= kStrideMax || *stride % kAlignment != 0))
      lint.report.Error(
          "tensormap-stride", at, std::to_string(*stride),
          fmt::format("a stride must be a positive multiple of 16 bytes below 2^40, {}",
                      lint.Sizes(launch.point)),
          "add a guard, or make the symbol's multiple_of large enough");
  }
  const auto offset =
      lint.Evaluate(map.operand.offset, launch.values, place / "offset", launch.point);
  if (offset && *offset % kAlignment != 0)
    lint.report.Error("tensormap-address", place / "offset", std::to_string(*offset),
                      fmt::format("not a multiple of 16 bytes, {}", lint.Sizes(launch.point)),
                      "begin the tensor at a multiple of 16 bytes");
}

// The same of what does not depend on sizes.
void LintMapBox(ProgramLint& lint, const TensorMapArgument& map, const Place& place) {
  constexpr std::array<int64_t, 4> kSwizzleBytes = {0, 32, 64, 128};
  const int64_t inner = map.box[0] * SizeOf(map.dtype);
  const int64_t swizzle = kSwizzleBytes[std::min<size_t>(map.swizzle, 3)];
  if ((map.interleave == 0 && inner % 16 != 0) || (swizzle > 0 && inner > swizzle))
    lint.report.Error(
        "tensormap-box", place / "box" / size_t{0}, fmt::format("{} bytes", inner),
        fmt::format("the rows of the box must be multiples of 16 bytes{}",
                    swizzle > 0
                        ? fmt::format(" and at most {} bytes, the width of the swizzle", swizzle)
                        : ""),
        "choose another box, or another swizzle");
}

void LintArgument(ProgramLint& lint,
                  const Argument& argument,
                  const Launch& launch,
                  const Place& place) {
  if (const auto* const integer = std::get_if<IntegerArgument>(&argument))
    LintInteger(lint, *integer, launch, place);
  if (const auto* const map = std::get_if<TensorMapArgument>(&argument)) {
    LintMapBox(lint, *map, place / "tensormap");
    LintMapSizes(lint, *map, launch, place / "tensormap");
  }
  if (const auto* const members = std::get_if<StructArgument>(&argument))
    for (size_t i = 0; i < members->members.size(); ++i)
      LintArgument(lint, members->members[i], launch, place / "struct" / i);
}

void LintMemsetStep(ProgramLint& lint,
                    const MemsetStep& step,
                    const Point& point,
                    const Place& place) {
  const auto offset = lint.Evaluate(step.to.offset, point.values, place / "to" / "offset", point);
  if (offset && *offset % step.width != 0)
    lint.report.Error(
        "memset-align", place / "to" / "offset", std::to_string(*offset),
        fmt::format("not a multiple of the width {}, {}", step.width, lint.Sizes(point)),
        "use a smaller width");
}

void LintCall(ProgramLint& lint, const CallStep& call, const Point& point, const Place& place) {
  const auto views = [&](const std::vector<View>& all, const Place& list) {
    for (size_t i = 0; i < all.size(); ++i) {
      const Place at = list / i;
      const auto offset = lint.Evaluate(all[i].operand.offset, point.values, at / "offset", point);
      if (offset && *offset % SizeOf(all[i].dtype) != 0)
        lint.report.Error(
            "view-align", at / "offset", std::to_string(*offset),
            fmt::format("not a multiple of the {} bytes of {}, {}", SizeOf(all[i].dtype),
                        NameOf(all[i].dtype), lint.Sizes(point)),
            "begin the view at an element");
    }
  };
  views(call.inputs, place / "inputs");
  views(call.outputs, place / "outputs");
}

}  // namespace

void LintLaunches(ProgramLint& lint) {
  for (size_t i = 0; i < lint.program.steps.size(); ++i) {
    const Step& step = lint.program.steps[i];
    const Place place = lint.place / "steps" / i;
    for (const Point& point : lint.points) {
      if (lint.IsSkipped(step, place, point)) continue;
      if (const auto* const memset = std::get_if<MemsetStep>(&step.action))
        LintMemsetStep(lint, *memset, point, place);
      if (const auto* const call = std::get_if<CallStep>(&step.action))
        LintCall(lint, *call, point, place);
      const auto* const kernel = std::get_if<KernelStep>(&step.action);
      if (kernel == nullptr) continue;
      for (const Target* const target : lint.TargetsOf(kernel->kernel)) {
        const std::vector<int64_t> values = WithValues(point, *target);
        const Launch launch{point, *target, values};
        LintGrid(lint, *kernel, launch, place);
        for (size_t a = 0; a < kernel->args.size(); ++a)
          LintArgument(lint, kernel->args[a], launch, place / "args" / a);
      }
    }
  }
}

}  // namespace coppice::package
