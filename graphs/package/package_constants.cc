// Given, or uploaded.

#include "graphs/package/package_constants.h"

#include <algorithm>
#include <string>

#include "fmt/ranges.h"

#include "coppice/base/status.h"
#include "coppice/runtime/package_uses.h"

namespace coppice::internal {
namespace {

// Per constant of the manifest: whether `program` has a buffer of it, or one inside it.
std::vector<bool> ConstantsRead(const package::Manifest& manifest, int program) {
  std::vector<bool> read(manifest.constants.size());
  for (const int index : package::ProgramsWithin(manifest, program))
    for (const package::Buffer& buffer : manifest.programs[static_cast<size_t>(index)].buffers)
      if (buffer.role == package::Role::kConstant)
        read[static_cast<size_t>(buffer.constant)] = true;
  return read;
}

// Names all that are missing at once.
absl::Status CheckAllGiven(const package::LoadedPackage& package,
                           const std::vector<bool>& read,
                           const PackageProgramOptions& options) {
  const std::vector<package::Constant>& constants = package.manifest().constants;
  std::vector<std::string> missing;
  for (size_t i = 0; i < constants.size(); ++i)
    if (read[i] && constants[i].file < 0 && !options.constants.contains(constants[i].name))
      missing.push_back(fmt::format("/constants/{}, {}[{}]", constants[i].name,
                                    NameOf(constants[i].dtype),
                                    fmt::join(constants[i].shape, ", ")));
  if (missing.empty()) return absl::OkStatus();
  return InvalidArgument("{}: the package has no data for {}; give it with the program's constants",
                         package.package().path(), fmt::join(missing, "; "));
}

absl::StatusOr<Tensor> Given(const package::LoadedPackage& package,
                             const package::Constant& constant,
                             const PackageProgramOptions& options) {
  const Tensor& tensor = options.constants.at(constant.name);
  const std::span sizes(tensor.sizes.data(), static_cast<size_t>(tensor.rank));
  const std::span strides(tensor.strides.data(), static_cast<size_t>(tensor.rank));
  if (tensor.data == 0 || tensor.dtype != constant.dtype ||
      !std::ranges::equal(sizes, constant.shape) ||
      !std::ranges::equal(strides, constant.strides)) {
    return InvalidArgument(
        "{}: /constants/{} is {} of [{}] with strides [{}], but was given as {} of [{}] with "
        "strides [{}] at {:#x}",
        package.package().path(), constant.name, NameOf(constant.dtype),
        fmt::join(constant.shape, ", "), fmt::join(constant.strides, ", "), NameOf(tensor.dtype),
        fmt::join(sizes, ", "), fmt::join(strides, ", "), tensor.data);
  }
  return tensor;
}

}  // namespace

void Spread(const Tensor& layout,
            std::span<const std::byte> elements,
            std::span<std::byte> target) {
  const std::span sizes(layout.sizes.data(), static_cast<size_t>(layout.rank));
  if (layout.strides == Tensor::Dense(0, layout.dtype, sizes).strides) {
    std::ranges::copy(elements, target.begin());
    return;
  }
  std::ranges::fill(target, std::byte{0});
  const int64_t bytes = SizeOf(layout.dtype);
  for (int64_t element = 0; element < layout.element_count(); ++element) {
    int64_t offset = 0;
    int64_t rest = element;
    for (size_t axis = sizes.size(); axis-- > 0; rest /= sizes[axis])
      offset += rest % sizes[axis] * layout.strides[axis];
    std::ranges::copy(
        elements.subspan(static_cast<size_t>(element * bytes), static_cast<size_t>(bytes)),
        target.begin() + offset * bytes);
  }
}

absl::StatusOr<std::vector<Tensor>> PackageConstants::Place(const package::LoadedPackage& package,
                                                            int program,
                                                            const PackageProgramOptions& options,
                                                            Upload upload) {
  const package::Manifest& manifest = package.manifest();
  for (const auto& [name, tensor] : options.constants) {
    const auto named = std::ranges::find(manifest.constants, name, &package::Constant::name);
    if (named == manifest.constants.end() || named->file >= 0)
      return InvalidArgument(
          "{}: '{}' is given, but the package has no constant of that name, or already has its "
          "data; leave it out",
          package.package().path(), name);
  }
  const std::vector<bool> read = ConstantsRead(manifest, program);
  COPPICE_RETURN_IF_ERROR(CheckAllGiven(package, read, options));
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
    const auto placed = placed_.find({package.number(), i});
    if (placed != placed_.end()) {
      tensor = placed->second;
      continue;
    }
    Tensor layout = Tensor::Dense(0, constant.dtype, constant.shape);
    std::ranges::copy(constant.strides, layout.strides.begin());
    // Nothing has no address.
    tensor = layout;
    if (layout.element_count() > 0) {
      COPPICE_ASSIGN_OR_RETURN(tensor, upload(layout, package.constant(i)));
    }
    placed_[{package.number(), i}] = tensor;
  }
  return tensors;
}

}  // namespace coppice::internal
