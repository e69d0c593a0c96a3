// Kernel packages: opened, loaded, released.

#include "coppice/runtime/package.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "coppice/base/status.h"

#include "capi/failure.h"
#include "capi/handles.h"
#include "capi/on_device.h"
#include "capi/structs.h"

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

absl::Status LoadOn(coppice_package& handle, package::Package opened, bool allow_ptx) {
  COPPICE_ASSIGN_OR_RETURN(handle.loaded,
                           package::LoadedPackage::Load(*handle.device->context, std::move(opened),
                                                        {.allow_ptx = allow_ptx}));
  return absl::OkStatus();
}

absl::StatusOr<Held<coppice_package>> NewPackage(coppice_device* device) {
  COPPICE_RETURN_IF_ERROR(CheckHandle(device, "device"));
  auto handle = Held<coppice_package>::Adopt(new coppice_package);
  handle->device = Held<coppice_device>::Share(device);
  handle->resets = device->resets.load();
  return handle;
}

}  // namespace
}  // namespace coppice::capi

using coppice::InvalidArgument;
using coppice::capi::Answer;
using coppice::capi::AnswerOn;
using coppice::capi::CheckHandle;
using coppice::capi::ClearOut;
using coppice::capi::Held;

coppice_package::~coppice_package() {
  const coppice::capi::CurrentScope current(device.get());
  loaded.reset();
}

coppice_status coppice_package_load(coppice_device* device,
                                    const char* path,
                                    const coppice_package_options* options,
                                    coppice_package** out) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_package_load"));
    COPPICE_ASSIGN_OR_RETURN(Held<coppice_package> handle, coppice::capi::NewPackage(device));
    COPPICE_ASSIGN_OR_RETURN(const std::string name, coppice::capi::NameIn(path, "path"));
    COPPICE_ASSIGN_OR_RETURN(const coppice_package_options given,
                             coppice::capi::ReadOptions(options, "coppice_package_options"));
    COPPICE_ASSIGN_OR_RETURN(const coppice::package::OpenOptions open,
                             coppice::capi::OpenOptionsOf(given));
    COPPICE_ASSIGN_OR_RETURN(coppice::package::Package opened,
                             coppice::package::Package::Open(name, open));
    COPPICE_RETURN_IF_ERROR(
        coppice::capi::LoadOn(*handle, std::move(opened), given.allow_ptx != 0));
    *out = handle.Leak();
    return absl::OkStatus();
  });
}

coppice_status coppice_package_load_memory(coppice_device* device,
                                           const void* zip,
                                           int64_t zip_bytes,
                                           const char* name,
                                           const coppice_package_options* options,
                                           coppice_package** out) {
  return AnswerOn(device, [&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(out, "coppice_package_load_memory"));
    COPPICE_ASSIGN_OR_RETURN(Held<coppice_package> handle, coppice::capi::NewPackage(device));
    if (zip == nullptr || zip_bytes < 1)
      return InvalidArgument("zip: {} bytes at {}; give a zip file", zip_bytes, fmt::ptr(zip));
    COPPICE_ASSIGN_OR_RETURN(const coppice_package_options given,
                             coppice::capi::ReadOptions(options, "coppice_package_options"));
    COPPICE_ASSIGN_OR_RETURN(const coppice::package::OpenOptions open,
                             coppice::capi::OpenOptionsOf(given));
    const auto* const first = static_cast<const std::byte*>(zip);
    handle->zip.assign(first, first + zip_bytes);
    COPPICE_ASSIGN_OR_RETURN(coppice::package::Package opened,
                             coppice::package::Package::FromMemory(
                                 handle->zip, name == nullptr ? "package" : name, open));
    COPPICE_RETURN_IF_ERROR(
        coppice::capi::LoadOn(*handle, std::move(opened), given.allow_ptx != 0));
    *out = handle.Leak();
    return absl::OkStatus();
  });
}

void coppice_package_release(coppice_package* package) {
  coppice::capi::Release(package);
}

coppice_status coppice_package_manifest(coppice_package* package,
                                        const char** text,
                                        int64_t* text_bytes) {
  return Answer([&]() -> absl::Status {
    COPPICE_RETURN_IF_ERROR(ClearOut(text, "coppice_package_manifest: text"));
    COPPICE_RETURN_IF_ERROR(ClearOut(text_bytes, "coppice_package_manifest: text_bytes"));
    COPPICE_RETURN_IF_ERROR(CheckHandle(package, "package"));
    const std::string_view manifest = package->loaded->package().manifest_text();
    *text = manifest.data();
    *text_bytes = static_cast<int64_t>(manifest.size());
    return absl::OkStatus();
  });
}
