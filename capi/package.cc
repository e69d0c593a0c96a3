// Kernel packages: opened, loaded, released.

#include "coppice/runtime/package.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "capi/answer.h"

namespace coppice::capi {
namespace {

absl::StatusOr<package::OpenOptions> OpenOptionsOf(const coppice_package_options& options) {
  package::OpenOptions open;
  COPPICE_RETURN_IF_ERROR(CheckArray(options.trusted_keys, options.trusted_key_count,
                                     "coppice_package_options: trusted_keys"));
  for (int64_t i = 0; i < options.trusted_key_count; ++i) {
    package::PublicKey key;
    std::copy_n(options.trusted_keys + i * static_cast<int64_t>(key.size()), key.size(),
                key.begin());
    open.trusted_keys.push_back(key);
  }
  return open;
}

// Loads what `open` opens with the caller's options into a package that has room for it.
template <typename Open>
absl::StatusOr<Held<coppice_package>> LoadOn(coppice_device& device,
                                             const coppice_package_options* options,
                                             Open&& open) {
  auto made = MakeOn<coppice_package>(device);
  COPPICE_ASSIGN_OR_RETURN(const coppice_package_options given, ReadOptions(options));
  COPPICE_ASSIGN_OR_RETURN(const package::OpenOptions how, OpenOptionsOf(given));
  COPPICE_ASSIGN_OR_RETURN(package::Package opened, open(*made, how));
  COPPICE_ASSIGN_OR_RETURN(made->loaded,
                           package::LoadedPackage::Load(*device.context, std::move(opened),
                                                        {.allow_ptx = given.allow_ptx != 0}));
  return made;
}

}  // namespace

extern "C" {

coppice_status coppice_package_load(coppice_device* device,
                                    const char* path,
                                    const coppice_package_options* options,
                                    coppice_package** out) {
  return AnswerOn(device, out, [&]() -> absl::StatusOr<Held<coppice_package>> {
    COPPICE_ASSIGN_OR_RETURN(const std::string name, NameIn(path, "path"));
    return LoadOn(*device, options, [&](coppice_package& /*made*/, const auto& how) {
      return package::Package::Open(name, how);
    });
  });
}

coppice_status coppice_package_load_memory(coppice_device* device,
                                           const void* zip,
                                           int64_t zip_bytes,
                                           const char* name,
                                           const coppice_package_options* options,
                                           coppice_package** out) {
  return AnswerOn(device, out, [&]() -> absl::StatusOr<Held<coppice_package>> {
    if (zip == nullptr || zip_bytes < 1)
      return InvalidArgument("zip: {} bytes at {}; give a zip file", zip_bytes, fmt::ptr(zip));
    return LoadOn(*device, options, [&](coppice_package& made, const auto& how) {
      const auto* const first = static_cast<const std::byte*>(zip);
      made.zip.assign(first, first + zip_bytes);
      return package::Package::FromMemory(made.zip, name == nullptr ? "package" : name, how);
    });
  });
}

void coppice_package_release(coppice_package* package) {
  Release(package);
}

coppice_status coppice_package_manifest(coppice_package* package,
                                        const char** text,
                                        int64_t* text_bytes) {
  return AnswerOf(package, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(Clear(text));
    COPPICE_RETURN_IF_ERROR(Clear(text_bytes));
    const std::string_view manifest = package->loaded->package().manifest_text();
    *text = manifest.data();
    *text_bytes = static_cast<int64_t>(manifest.size());
    return absl::OkStatus();
  });
}

}  // extern "C"
}  // namespace coppice::capi

coppice_package::~coppice_package() {
  const coppice::capi::CurrentScope current(device.get());
  loaded.reset();
}
