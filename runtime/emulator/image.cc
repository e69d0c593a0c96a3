// Tells images apart, and builds the programs of those that are compiled.

#include "runtime/emulator/image.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

#include "fmt/format.h"

#include "coppice/base/status.h"
#include "coppice/runtime/kernel_image.h"

#include "runtime/device_image.h"
#include "runtime/emulator/ptx/executor.h"
#include "runtime/package/cubin.h"

namespace coppice::emulator {
namespace {

// True if `image` starts with the bytes of `magic`, the lowest first. Looks at no byte behind the
// first that differs, since an image may be shorter.
template <typename T>
bool StartsWith(const void* image, T magic) {
  for (size_t i = 0; i < sizeof(magic); ++i) {
    if (static_cast<const unsigned char*>(image)[i] != static_cast<unsigned char>(magic >> (8 * i)))
      return false;
  }
  return true;
}

class Reader {
 public:
  Reader(const ImageRules& rules, LoadedImage* loaded, std::string* log)
      : rules_(rules), capability_(rules.capability), loaded_(*loaded), log_(*log) {}

  CuResult ReadHostCode(const KernelImage& image) {
    for (uint32_t i = 0; i < image.kernel_count; ++i)
      loaded_.kernels.push_back(CodeOf(*image.kernels[i]));
    return CuResult::kSuccess;
  }

  CuResult ReadPtx(std::string text) {
    if (&coppice_ptx_executor == nullptr)
      return Refuse(
          CuResult::kNoBinaryForGpu,
          "the image is PTX, but this program has no PTX executor; also link coppice::ptx");
    absl::StatusOr<std::unique_ptr<ptx::Program>> built =
        coppice_ptx_executor.build(std::move(text));
    if (!built.ok())
      return Refuse(built.status().code() == absl::StatusCode::kUnimplemented
                        ? CuResult::kNotSupported
                        : CuResult::kInvalidPtx,
                    std::string(built.status().message()));
    const int target = (*built)->capability();
    if (target > capability_)
      return Refuse(
          CuResult::kInvalidPtx,
          fmt::format("the image is PTX for sm_{}, but the device has compute capability {}.{}",
                      target, capability_ / 10, capability_ % 10));
    loaded_.program = *std::move(built);
    for (const ptx::Kernel& kernel : loaded_.program->kernels())
      loaded_.kernels.push_back(CodeOf(kernel, nullptr));
    return CuResult::kSuccess;
  }

  CuResult ReadFatbin(const void* image) {
    const std::span bytes(static_cast<const std::byte*>(image), internal::FatbinBytes(image));
    const absl::StatusOr<std::string_view> text = internal::FindPtx(bytes, capability_);
    if (text.ok()) return ReadPtx(std::string(*text));
    const auto entries = internal::FatbinEntries(bytes);
    for (size_t i = 0; entries.ok() && i < entries->size(); ++i) {
      const internal::FatbinEntry& entry = (*entries)[i];
      if (entry.kind == internal::DeviceImageKind::kCubin && !entry.compressed &&
          Fits(entry.capability))
        return ReadCubin(entry.bytes);
    }
    return Refuse(CuResult::kNoBinaryForGpu, std::string(text.status().message()));
  }

  CuResult ReadCubin(std::span<const std::byte> image) {
    if (!rules_.cubins)
      return Refuse(CuResult::kNoBinaryForGpu,
                    "the image is a cubin, but the emulator is set to accept only PTX; pass PTX");
    absl::StatusOr<package::Cubin> read = package::ReadCubin(image);
    if (!read.ok())
      return Refuse(CuResult::kNoBinaryForGpu,
                    fmt::format("the image is not a complete cubin: {}; the emulator executes PTX, "
                                "so compile with nvcc -ptx",
                                MessageOf(read.status())));
    if (!Fits(read->capability))
      return Refuse(
          CuResult::kNoBinaryForGpu,
          fmt::format("the image is a cubin for sm_{}, but the device has compute capability {}.{}",
                      read->capability, capability_ / 10, capability_ % 10));
    loaded_.cubin = std::make_unique<package::Cubin>(*std::move(read));
    for (const package::CubinKernel& kernel : loaded_.cubin->kernels)
      loaded_.kernels.push_back(CodeOf(kernel));
    return CuResult::kSuccess;
  }

  // Whether a device runs code of an architecture: an older one of the same major version.
  bool Fits(int architecture) const {
    return architecture / 10 == capability_ / 10 && architecture <= capability_;
  }

  // The PTX of an image; its host code declares what kernels touch.
  CuResult ReadCompiled(const KernelImage& image) {
    if (image.fatbin == nullptr)
      return Refuse(CuResult::kNoBinaryForGpu,
                    "the image has no compiled kernels; build it on a machine that has nvcc");
    const CuResult result = ReadFatbin(image.fatbin);
    if (result != CuResult::kSuccess) return result;
    const std::span hosts(image.kernels, image.kernel_count);
    for (KernelCode& code : loaded_.kernels) {
      const auto host = std::ranges::find_if(hosts, [&](const HostKernel* candidate) {
        return std::string_view(candidate->name) == code.name;
      });
      if (host != hosts.end()) code = CodeOf(*code.ptx, *host);
    }
    return CuResult::kSuccess;
  }

  CuResult Refuse(CuResult result, std::string why) {
    log_ = std::move(why);
    return result;
  }

 private:
  const ImageRules& rules_;
  const int capability_;
  LoadedImage& loaded_;
  std::string& log_;
};

}  // namespace

CuResult ReadImage(const void* image,
                   const ImageRules& rules,
                   LoadedImage* loaded,
                   std::string* log) {
  Reader reader(rules, loaded, log);
  if (StartsWith(image, KernelImage::kMagic)) {
    const auto& own = *static_cast<const KernelImage*>(image);
    return rules.compiled ? reader.ReadCompiled(own) : reader.ReadHostCode(own);
  }
  if (StartsWith(image, internal::kFatbinMagic)) return reader.ReadFatbin(image);
  if (StartsWith(image, internal::kCubinMagic))
    return reader.ReadCubin(
        {static_cast<const std::byte*>(image), static_cast<size_t>(internal::CubinBytes(image))});
  return reader.ReadPtx(static_cast<const char*>(image));
}

}  // namespace coppice::emulator
