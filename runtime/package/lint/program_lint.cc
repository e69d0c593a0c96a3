// Arithmetic at the sizes that are tried.

#include "runtime/package/lint/program_lint.h"

#include <algorithm>
#include <set>
#include <utility>

#include "coppice/base/check.h"
#include "coppice/base/status.h"

namespace coppice::package {
namespace {

constexpr size_t kTargetsMax = 64;  // Of a kernel, whose launches are followed.

// Expressions that are evaluated at each point, about.
int64_t CountOf(const Manifest& manifest, const Program& program) {
  int64_t count = static_cast<int64_t>(program.guards.size());
  for (const Buffer& buffer : program.buffers)
    count += static_cast<int64_t>(1 + buffer.shape.size() + buffer.strides.size());
  for (const Step& step : program.steps) {
    const auto* const kernel = std::get_if<KernelStep>(&step.action);
    count += 8;
    if (kernel == nullptr) continue;
    const Kernel& launched = manifest.kernels[static_cast<size_t>(kernel->kernel)];
    count += static_cast<int64_t>(std::min(launched.targets.size(), kTargetsMax) *
                                  (8 + kernel->args.size() + kernel->assumes.size()));
  }
  return count;
}

}  // namespace

ProgramLint::ProgramLint(const Manifest& of, const Program& linted, int64_t points_max, Report& to)
    : manifest(of),
      program(linted),
      report(to),
      place(Place() / "programs" / linted.name),
      names(linted.names()) {
  constexpr int64_t kEvaluationsMax = 20'000'000;
  constexpr int64_t kPointsMin = 4;
  for (const std::string& text : program.guards) {
    auto guard = Expression::Parse(text, names);
    COPPICE_CHECK(guard.ok(), "the guards of a manifest that was read must parse");
    guards.push_back(*std::move(guard));
  }
  const int64_t most =
      std::max(kPointsMin, kEvaluationsMax / std::max<int64_t>(1, CountOf(of, linted)));
  points = PointsOf(program, guards, std::min(points_max, most));
  if (points.empty())
    report.Error("no-sizes", place / "guards", fmt::format("{} guards", guards.size()),
                 "none of the allowed sizes that lint tried passes the guards, so nothing can run",
                 "correct the guards, or min, max and multiple_of of the symbols");
}

const std::vector<const Target*>& ProgramLint::TargetsOf(int kernel) {
  const auto [found, is_new] = targets_.try_emplace(kernel);
  if (!is_new) return found->second;
  std::set<std::pair<std::vector<int64_t>, std::array<uint32_t, 3>>> seen;
  for (const Target& target : manifest.kernels[static_cast<size_t>(kernel)].targets)
    if (seen.size() < kTargetsMax && seen.emplace(target.values, target.cluster).second)
      found->second.push_back(&target);
  return found->second;
}

std::string ProgramLint::Sizes(const Point& point) const {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i)
    text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", names[i], point.values[i]);
  if (text.empty()) return "in every call";
  return (point.padded ? "padded to " : "at ") + text;
}

std::optional<int64_t> ProgramLint::Evaluate(const Amount& amount,
                                             std::span<const int64_t> values,
                                             const Place& at,
                                             const Point& point) const {
  const Computed computed = amount.At(values);
  if (computed.ok()) return computed.value;
  report.Error("arithmetic", at, TextOf(amount),
               fmt::format("{} {}", NameOf(computed.fault), Sizes(point)),
               "limit the symbols with `max` or a guard, or rewrite the expression");
  return std::nullopt;
}

std::optional<int64_t> ProgramLint::SpanOf(std::span<const Amount> shape,
                                           std::span<const Amount> strides,
                                           int64_t element_bytes,
                                           std::span<const int64_t> values,
                                           const Place& at,
                                           const Point& point) const {
  int64_t last = 0;   // Of the last element.
  int64_t dense = 1;  // Stride of the next axis.
  bool empty = false;
  bool overflows = false;
  for (size_t axis = shape.size(); axis-- > 0;) {
    const auto size = Evaluate(shape[axis], values, at / "shape" / axis, point);
    std::optional<int64_t> stride = dense;
    if (!strides.empty()) stride = Evaluate(strides[axis], values, at / "strides" / axis, point);
    if (!size || !stride) return std::nullopt;
    if (*size < 0 || *stride < 0) {
      const size_t which = axis;
      report.Error("negative-size", at / (*size < 0 ? "shape" : "strides") / which,
                   TextOf(*size < 0 ? shape[axis] : strides[axis]),
                   fmt::format("{} {}", *size < 0 ? *size : *stride, Sizes(point)),
                   "make sizes and strides 0 or greater");
      return std::nullopt;
    }
    empty = empty || *size == 0;
    int64_t reach = 0;
    overflows =
        overflows || __builtin_mul_overflow(std::max<int64_t>(*size - 1, 0), *stride, &reach);
    overflows = overflows || __builtin_add_overflow(last, reach, &last);
    overflows = overflows || __builtin_mul_overflow(dense, std::max<int64_t>(*size, 1), &dense);
  }
  if (empty) return 0;
  int64_t bytes = 0;
  overflows = overflows || __builtin_add_overflow(last, 1, &last);
  overflows = overflows || __builtin_mul_overflow(last, element_bytes, &bytes);
  if (!overflows) return bytes;
  report.Error("arithmetic", at / "shape", shape.empty() ? "" : TextOf(shape.front()),
               fmt::format("more than 2^63 bytes {}", Sizes(point)),
               "give the symbols an upper bound, with `max` or a guard");
  return std::nullopt;
}

std::optional<int64_t> ProgramLint::BytesOf(const Buffer& buffer,
                                            std::span<const int64_t> values,
                                            const Place& at,
                                            const Point& point) const {
  constexpr int64_t kSeedWord = 8;
  if (buffer.role == Role::kConstant) {
    const Constant& constant = manifest.constants[static_cast<size_t>(buffer.constant)];
    std::vector<Amount> shape;
    std::vector<Amount> strides;
    for (const int64_t size : constant.shape)
      shape.push_back({.value = size, .expression = std::nullopt});
    for (const int64_t stride : constant.strides)
      strides.push_back({.value = stride, .expression = std::nullopt});
    return SpanOf(shape, strides, SizeOf(constant.dtype), values,
                  Place() / "constants" / constant.name, point);
  }
  const int64_t element = buffer.role == Role::kSeed ? kSeedWord : SizeOf(buffer.dtype);
  return SpanOf(buffer.shape, buffer.strides, element, values, at, point);
}

bool ProgramLint::IsSkipped(const Step& step, const Place& at, const Point& point) const {
  if (!step.condition) return false;
  const auto value =
      Evaluate({.value = 0, .expression = step.condition}, point.values, at / "if", point);
  return !value || *value == 0;
}

std::string TextOf(const Amount& amount) {
  return amount.expression ? amount.expression->text() : std::to_string(amount.value);
}

std::vector<int64_t> WithValues(const Point& point, const Target& target) {
  std::vector<int64_t> values = point.values;
  values.insert(values.end(), target.values.begin(), target.values.end());
  return values;
}

}  // namespace coppice::package
