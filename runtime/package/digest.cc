// OpenSSL's EVP interface, whose objects are freed by their own functions.

#include "runtime/package/digest.h"

#include <memory>

#include "fmt/format.h"
#include <openssl/evp.h>

#include "coppice/base/check.h"

#include "boost/crc.hpp"

namespace coppice::package {
namespace {

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;

const uint8_t* Raw(std::span<const std::byte> bytes) {
  return reinterpret_cast<const uint8_t*>(bytes.data());
}

}  // namespace

std::string Sha256Of(std::initializer_list<std::span<const std::byte>> parts) {
  const Context context(EVP_MD_CTX_new());
  COPPICE_CHECK(context != nullptr && EVP_DigestInit_ex(context.get(), EVP_sha256(), nullptr) == 1,
                "OpenSSL has SHA-256");
  for (const std::span<const std::byte> part : parts)
    EVP_DigestUpdate(context.get(), part.data(), part.size());
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned length = 0;
  COPPICE_CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), &length) == 1 && length == 32,
                "a digest has 32 bytes");
  std::string text;
  for (unsigned i = 0; i < length; ++i)
    fmt::format_to(std::back_inserter(text), "{:02x}", digest[i]);
  return text;
}

bool IsSignedBy(const std::array<uint8_t, 32>& key,
                std::span<const std::byte> message,
                std::span<const std::byte> signature) {
  const Key public_key(
      EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, nullptr, key.data(), key.size()));
  const Context context(EVP_MD_CTX_new());
  if (public_key == nullptr || context == nullptr) return false;
  if (EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, public_key.get()) != 1)
    return false;
  return EVP_DigestVerify(context.get(), Raw(signature), signature.size(), Raw(message),
                          message.size()) == 1;
}

uint32_t Crc32Of(std::span<const std::byte> bytes) {
  boost::crc_32_type crc;
  crc.process_bytes(bytes.data(), bytes.size());
  return crc.checksum();
}

}  // namespace coppice::package
