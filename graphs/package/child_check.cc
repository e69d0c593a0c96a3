// Seeds, real sizes, ranges and guards.

#include "graphs/package/child_check.h"

#include "fmt/ranges.h"

#include "coppice/base/expression.h"
#include "coppice/base/status.h"
#include "coppice/runtime/package_uses.h"

namespace coppice::internal {

absl::Status CheckChild(const std::string& path,
                        const package::Manifest& manifest,
                        const package::Program& child) {
  const auto cannot = [&](const std::string& place, const char* what) {
    return MakeError(absl::StatusCode::kUnimplemented,
                     "{}: /programs/{}/{}: a program that runs inside another program cannot use "
                     "{}; use an input instead",
                     path, child.name, place, what);
  };
  for (const package::Buffer& buffer : child.buffers)
    if (buffer.role == package::Role::kSeed) return cannot("buffers/" + buffer.name, "a seed");
  for (size_t i = 0; i < child.steps.size(); ++i)
    if (!package::UsesOf(manifest, child.steps[i]).real_symbols.empty())
      return cannot(fmt::format("steps/{}", i), "real sizes");
  return absl::OkStatus();
}

absl::Status CheckChildSizes(const package::Program& child, std::span<const int64_t> sizes) {
  for (size_t i = 0; i < sizes.size(); ++i) {
    const package::Symbol& symbol = child.symbols[i];
    if (sizes[i] < symbol.min || sizes[i] > symbol.max || sizes[i] % symbol.multiple_of != 0)
      return InvalidArgument(
          "'{}' of program '{}' is {}, which is not a multiple of {} in [{}, {}]", symbol.name,
          child.name, sizes[i], symbol.multiple_of, symbol.min, symbol.max);
  }
  for (const std::string& text : child.guards) {
    COPPICE_ASSIGN_OR_RETURN(const Expression guard, Expression::Parse(text, child.names()));
    if (!guard.Evaluate(sizes).is_true())
      return InvalidArgument("guard '{}' of program '{}' fails at [{}]", text, child.name,
                             fmt::join(sizes, ", "));
  }
  return absl::OkStatus();
}

}  // namespace coppice::internal
