// Cubins by their notes, PTX by its text, fatbins by their entries.

#include "runtime/package/lint/image_facts.h"

#include <algorithm>
#include <string_view>

#include "coppice/base/status.h"

#include "runtime/device_image.h"
#include "runtime/emulator/ptx/program.h"
#include "runtime/package/cubin.h"

namespace coppice::package {
namespace {

using internal::DeviceImageKind;

absl::Status AddCubin(std::span<const std::byte> image, Architecture built, ImageFacts& facts) {
  COPPICE_ASSIGN_OR_RETURN(const Cubin cubin, ReadCubin(image));
  if (cubin.capability != built.capability)
    return InvalidArgument(
        "the cubin is for sm_{}, but the module says {}; name the architecture of the cubin in the "
        "module",
        cubin.capability, NameOf(built));
  for (const CubinKernel& kernel : cubin.kernels) {
    KernelFacts& to = facts.kernels[kernel.name];
    to = {.registers = kernel.registers,
          .shared_bytes = kernel.shared_bytes,
          .max_threads = int64_t{kernel.max_threads[0]} * kernel.max_threads[1],
          .required_threads = kernel.required_threads,
          .cluster = kernel.cluster};
    // Three numbers of 32 bits can be more than an int64 holds.
    if (__builtin_mul_overflow(to.max_threads, int64_t{kernel.max_threads[2]}, &to.max_threads))
      to.max_threads = INT64_MAX;
    for (const CubinParameter& parameter : kernel.parameters)
      to.parameter_bytes.push_back(parameter.bytes);
  }
  return absl::OkStatus();
}

absl::Status AddPtx(const std::string& text, Architecture built, ImageFacts& facts) {
  const std::string target = TargetOfPtx(text);
  if (target != NameOf(built))
    return InvalidArgument(
        "the PTX has .target '{}', but the module says {}; name the target of the PTX in the "
        "module",
        target, NameOf(built));
  COPPICE_ASSIGN_OR_RETURN(const std::vector<ptx::KernelSurvey> kernels,
                           ptx::Program::Survey(text));
  for (const ptx::KernelSurvey& kernel : kernels) {
    KernelFacts& to = facts.kernels[kernel.name];
    to = {.shared_bytes = kernel.shared_bytes, .max_threads = std::max(kernel.max_threads, 0)};
    for (size_t i = 0; i < 3; ++i)
      to.required_threads[i] = static_cast<uint32_t>(std::max(kernel.required_threads[i], 0));
    for (const auto& parameter : kernel.parameters)
      to.parameter_bytes.push_back(static_cast<int32_t>(parameter.bytes));
  }
  return absl::OkStatus();
}

std::string TextOf(std::span<const std::byte> bytes) {
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::string(text.substr(0, text.find('\0')));
}

// The cubin of the architecture, or its PTX where there is no cubin.
absl::Status AddFatbin(std::span<const std::byte> image, Architecture built, ImageFacts& facts) {
  COPPICE_ASSIGN_OR_RETURN(const std::vector<internal::FatbinEntry> entries,
                           internal::FatbinEntries(image));
  for (const DeviceImageKind kind : {DeviceImageKind::kCubin, DeviceImageKind::kPtx}) {
    bool found = false;
    for (const internal::FatbinEntry& entry : entries) {
      if (entry.kind != kind || entry.capability != built.capability) continue;
      found = true;
      if (entry.compressed)
        facts.readable = false;
      else if (kind == DeviceImageKind::kCubin)
        COPPICE_RETURN_IF_ERROR(AddCubin(entry.bytes, built, facts));
      else
        COPPICE_RETURN_IF_ERROR(AddPtx(TextOf(entry.bytes), built, facts));
    }
    if (found) return absl::OkStatus();
  }
  return InvalidArgument("the fatbin has no code for {}; compile it with -gencode for {}",
                         NameOf(built), NameOf(built));
}

}  // namespace

std::string TargetOfPtx(const std::string& text) {
  constexpr std::string_view kDirective = ".target";
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    if (!line.starts_with(kDirective)) continue;
    line.remove_prefix(kDirective.size());
    line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
    return std::string(line.substr(0, line.find_first_of(" \t\r,/")));
  }
  return "";
}

absl::StatusOr<ImageFacts> ReadImage(std::span<const std::byte> image,
                                     const Module& module,
                                     Architecture architecture) {
  COPPICE_ASSIGN_OR_RETURN(const DeviceImageKind kind, internal::ClassifyDeviceImage(image));
  const DeviceImageKind wanted = module.format == ImageFormat::kCubin    ? DeviceImageKind::kCubin
                                 : module.format == ImageFormat::kFatbin ? DeviceImageKind::kFatbin
                                                                         : DeviceImageKind::kPtx;
  if (kind != wanted)
    return InvalidArgument(
        "the file is {}, but the module says {}; name the format of the file in the module",
        internal::NameOf(kind), internal::NameOf(wanted));
  ImageFacts facts;
  switch (kind) {
    case DeviceImageKind::kCubin:
      COPPICE_RETURN_IF_ERROR(AddCubin(image, architecture, facts));
      break;
    case DeviceImageKind::kPtx:
      COPPICE_RETURN_IF_ERROR(AddPtx(TextOf(image), architecture, facts));
      break;
    case DeviceImageKind::kFatbin:
      COPPICE_RETURN_IF_ERROR(AddFatbin(image, architecture, facts));
      break;
  }
  return facts;
}

}  // namespace coppice::package
