// A walk over the steps of a program, as a session makes it, of which only kernels count.

#include "tools/prof/export/kernel_blocks.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"

namespace coppice {
namespace {

absl::StatusOr<int64_t> ValueOf(const package::Amount& amount, const std::vector<int64_t>& values) {
  const Computed computed = amount.At(values);
  if (!computed.ok() || computed.value < 0)
    return InvalidArgument(
        "'{}' is {} at these sizes",
        amount.expression ? amount.expression->text() : fmt::format("{}", amount.value),
        computed.ok() ? fmt::format("{}", computed.value) : NameOf(computed.fault));
  return computed.value;
}

// The blocks of a step on one of its kernel's targets.
absl::StatusOr<Grid> GridOf(const package::KernelStep& step,
                            const package::Target& target,
                            std::vector<int64_t> values) {
  values.insert(values.end(), target.values.begin(), target.values.end());
  Grid grid{};
  for (size_t axis = 0; axis < grid.size(); ++axis) {
    COPPICE_ASSIGN_OR_RETURN(grid[axis], ValueOf(step.grid[axis], values));
  }
  return grid;
}

class Walk {
 public:
  // Sees a kernel step of `program`, with the program's values.
  using Visit = std::function<absl::Status(const package::Program& program,
                                           const std::vector<int>& path,
                                           const package::KernelStep& step,
                                           const std::vector<int64_t>& values)>;

  Walk(const package::Manifest& manifest, Visit visit)
      : manifest_(manifest), visit_(std::move(visit)) {}

  absl::Status Run(int index, const std::vector<int64_t>& values) {
    const package::Program& program = manifest_.programs[static_cast<size_t>(index)];
    for (size_t i = 0; i < program.steps.size(); ++i) {
      const package::Step& step = program.steps[i];
      if (step.condition && !step.condition->Evaluate(values).is_true()) continue;
      path_.push_back(static_cast<int>(i));
      if (const auto* kernel = std::get_if<package::KernelStep>(&step.action)) {
        COPPICE_RETURN_IF_ERROR(visit_(program, path_, *kernel, values));
      } else if (const auto* child = std::get_if<package::ChildStep>(&step.action)) {
        std::vector<int64_t> sizes;
        for (const package::Amount& symbol : child->symbols) {
          COPPICE_ASSIGN_OR_RETURN(sizes.emplace_back(), ValueOf(symbol, values));
        }
        COPPICE_RETURN_IF_ERROR(Run(child->program, sizes));
      }
      path_.pop_back();
    }
    return absl::OkStatus();
  }

 private:
  const package::Manifest& manifest_;
  const Visit visit_;
  std::vector<int> path_;
};

std::vector<int64_t> ValuesOf(const package::Program& program,
                              const std::map<std::string, int64_t>& sizes) {
  std::vector<int64_t> values;
  for (const std::string& name : program.names()) {
    const auto found = sizes.find(name);
    values.push_back(found == sizes.end() ? 0 : found->second);
  }
  return values;
}

std::string TextOf(const package::Source& source) {
  if (source.file.empty()) return "";
  return source.line > 0 ? fmt::format("{}:{}", source.file, source.line) : source.file;
}

bool IsLaunch(const TracedKernel& traced, const package::Target& target, const Grid& grid) {
  return traced.name == target.symbol && traced.grid == grid &&
         std::ranges::equal(traced.block, target.block);
}

}  // namespace

int64_t BlockCount(const Grid& grid) {
  int64_t product = 1;
  for (const int64_t size : grid)
    if (__builtin_mul_overflow(product, size, &product)) product = INT64_MAX;
  return product;
}

absl::StatusOr<std::vector<std::optional<KernelOrigin>>> OriginsOf(
    const package::Manifest& manifest,
    int program,
    const TracedNode& node,
    const std::map<std::string, int64_t>& sizes) {
  std::vector<std::optional<KernelOrigin>> origins(node.kernels.size());
  // Mostly the launches are in the order of the nodes: the search begins behind the last one.
  size_t next = 0;
  const auto find = [&](const package::Program& of, const std::vector<int>& path,
                        const package::KernelStep& step,
                        const std::vector<int64_t>& values) -> absl::Status {
    const package::Kernel& kernel = manifest.kernels[static_cast<size_t>(step.kernel)];
    for (size_t t = 0; t < kernel.targets.size(); ++t) {
      COPPICE_ASSIGN_OR_RETURN(const Grid grid, GridOf(step, kernel.targets[t], values));
      if (std::ranges::count(grid, 0) > 0) return absl::OkStatus();  // It launches nothing.
      for (size_t tried = 0; tried < origins.size(); ++tried) {
        const size_t i = (next + tried) % origins.size();
        if (origins[i] || !IsLaunch(node.kernels[i], kernel.targets[t], grid)) continue;
        origins[i] = {.path = path,
                      .program = of.name,
                      .kernel = kernel.name,
                      .source = TextOf(kernel.source),
                      .target = static_cast<int>(t)};
        next = i + 1;
        return absl::OkStatus();
      }
    }
    return InvalidArgument(
        "step {} of program '{}' launches kernel '{}', but graph {} of the "
        "trace does not have that launch; give the package that was traced, "
        "or --program for those programs that are of it",
        path.back(), of.name, kernel.name, node.id);
  };
  COPPICE_RETURN_IF_ERROR(
      Walk(manifest, find)
          .Run(program, ValuesOf(manifest.programs[static_cast<size_t>(program)], sizes)));
  return origins;
}

absl::StatusOr<SizedLaunches> LaunchesAt(const package::Manifest& manifest,
                                         int program,
                                         const std::vector<std::optional<KernelOrigin>>& origins,
                                         const std::map<std::string, int64_t>& sizes) {
  std::map<std::vector<int>, size_t> places;
  for (size_t i = 0; i < origins.size(); ++i)
    if (origins[i]) places[origins[i]->path] = i;
  SizedLaunches launches{.grids = std::vector<std::optional<Grid>>(origins.size())};
  size_t found = 0;
  const auto launch = [&](const package::Program& /*of*/, const std::vector<int>& path,
                          const package::KernelStep& step,
                          const std::vector<int64_t>& values) -> absl::Status {
    const package::Kernel& kernel = manifest.kernels[static_cast<size_t>(step.kernel)];
    const auto place = places.find(path);
    const int target = place == places.end() ? 0 : origins[place->second]->target;
    COPPICE_ASSIGN_OR_RETURN(const Grid grid,
                             GridOf(step, kernel.targets[static_cast<size_t>(target)], values));
    if (std::ranges::count(grid, 0) > 0) return absl::OkStatus();
    if (place == places.end()) {
      launches.same_steps = false;
      return absl::OkStatus();
    }
    launches.grids[place->second] = grid;
    ++found;
    return absl::OkStatus();
  };
  COPPICE_RETURN_IF_ERROR(
      Walk(manifest, launch)
          .Run(program, ValuesOf(manifest.programs[static_cast<size_t>(program)], sizes)));
  launches.same_steps &= found == places.size();
  return launches;
}

}  // namespace coppice
