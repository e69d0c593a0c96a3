// Given, or uploaded.

#include "graphs/package/package_constants.h"

#include <algorithm>
#include <variant>

#include "fmt/ranges.h"

#include "coppice/base/status.h"

namespace coppice::internal {
namespace {

void MarkRead(const package::Manifest& manifest, int index, std::vector<bool>& read) {
  const package::Program& program = manifest.programs[static_cast<size_t>(index)];
  for (const package::Buffer& buffer : program.buffers)
    if (buffer.role == package::Role::kConstant) read[static_cast<size_t>(buffer.constant)] = true;
  for (const package::Step& step : program.steps)
    if (const auto* child = std::get_if<package::ChildStep>(&step.action))
      MarkRead(manifest, child->program, read);
}

absl::StatusOr<Tensor> Given(const package::LoadedPackage& package,
                             const package::Constant& constant,
                             const PackageProgramOptions& options) {
  const auto given = options.constants.find(constant.name);
  if (given == options.constants.end())
    return InvalidArgument(
        "{}: /constants/{} has no data; give it in PackageProgramOptions::constants",
        package.package().path(), constant.name);
  const Tensor& tensor = given->second;
  const std::span sizes(tensor.sizes.data(), static_cast<size_t>(tensor.rank));
  const std::span strides(tensor.strides.data(), static_cast<size_t>(tensor.rank));
  if (tensor.data == 0 || tensor.dtype != constant.dtype ||
      !std::ranges::equal(sizes, constant.shape) ||
      !std::ranges::equal(strides, constant.strides)) {
    return InvalidArgument(
        "{}: /constants/{} is {} of [{}] with strides [{}], and was given as {} of [{}] with "
        "strides [{}] at {:#x}",
        package.package().path(), constant.name, NameOf(constant.dtype),
        fmt::join(constant.shape, ", "), fmt::join(constant.strides, ", "), NameOf(tensor.dtype),
        fmt::join(sizes, ", "), fmt::join(strides, ", "), tensor.data);
  }
  return tensor;
}

}  // namespace

absl::StatusOr<std::vector<Tensor>> PackageConstants::Place(const package::LoadedPackage& package,
                                                            int program,
                                                            const PackageProgramOptions& options,
                                                            Upload upload) {
  const package::Manifest& manifest = package.manifest();
  for (const auto& [name, tensor] : options.constants) {
    const auto named = std::ranges::find(manifest.constants, name, &package::Constant::name);
    if (named == manifest.constants.end() || named->file >= 0)
      return InvalidArgument("{}: '{}' is given, and is no constant without data",
                             package.package().path(), name);
  }
  std::vector<bool> read(manifest.constants.size());
  MarkRead(manifest, program, read);
  std::vector<Tensor> tensors(manifest.constants.size());
  const std::lock_guard lock(mutex_);
  for (int i = 0; i < static_cast<int>(tensors.size()); ++i) {
    if (!read[static_cast<size_t>(i)]) continue;
    const package::Constant& constant = manifest.constants[static_cast<size_t>(i)];
    Tensor& tensor = tensors[static_cast<size_t>(i)];
    if (constant.file < 0) {
      COPPICE_ASSIGN_OR_RETURN(tensor, Given(package, constant, options));
      continue;
    }
    const auto placed = placed_.find({&package, i});
    if (placed != placed_.end()) {
      tensor = placed->second;
      continue;
    }
    COPPICE_ASSIGN_OR_RETURN(tensor, upload(constant.dtype, constant.shape, package.constant(i)));
    placed_[{&package, i}] = tensor;
  }
  return tensors;
}

}  // namespace coppice::internal
