// OpenSSL reads the files.

#include "tools/package/key_file.h"

#include <cstdint>
#include <memory>

#include <openssl/evp.h>
#include <openssl/pem.h>

#include "coppice/base/status.h"

#include "tools/support/text_file.h"

namespace coppice {
namespace {

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Key = std::unique_ptr<EVP_PKEY, FreeKey>;

// Nobody is asked for the password of a key.
int NoPassword(char* /*text*/, int /*size*/, int /*writing*/, void* /*data*/) {
  return -1;
}

absl::StatusOr<Key> ReadKey(const std::string& path, bool is_private) {
  const char* const wanted = is_private ? "a private key" : "a public key";
  COPPICE_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, wanted));
  const std::unique_ptr<BIO, FreeBio> bio(
      BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  const auto read = is_private ? &PEM_read_bio_PrivateKey : &PEM_read_bio_PUBKEY;
  Key key(bio == nullptr ? nullptr : read(bio.get(), nullptr, &NoPassword, nullptr));
  if (key != nullptr && EVP_PKEY_get_base_id(key.get()) == EVP_PKEY_ED25519) return key;
  return InvalidArgument("{}: the file {}; make one with `openssl {}`", path,
                         key == nullptr ? std::string("holds no ") + (wanted + 2) +
                                              " in PEM that can be read without a password"
                                        : "holds a key that is not an Ed25519 key",
                         is_private ? "genpkey -algorithm ed25519" : "pkey -pubout");
}

}  // namespace

absl::StatusOr<package::Package> OpenSigned(const std::string& path,
                                            const std::vector<std::string>& key_paths) {
  package::OpenOptions options;
  for (const std::string& key_path : key_paths) {
    COPPICE_ASSIGN_OR_RETURN(const Key key, ReadKey(key_path, /*is_private=*/false));
    package::PublicKey& raw = options.trusted_keys.emplace_back();
    size_t size = raw.size();
    if (EVP_PKEY_get_raw_public_key(key.get(), raw.data(), &size) != 1 || size != raw.size())
      return InvalidArgument(
          "{}: OpenSSL cannot read the raw public key of {} bytes; make the file again with "
          "`openssl pkey -pubout`",
          key_path, raw.size());
  }
  return package::Package::Open(path, options);
}

absl::StatusOr<std::string> SignWith(const std::string& path, std::string_view message) {
  COPPICE_ASSIGN_OR_RETURN(const Key key, ReadKey(path, /*is_private=*/true));
  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  std::string signature(64, '\0');
  size_t size = signature.size();
  if (context == nullptr ||
      EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), reinterpret_cast<uint8_t*>(signature.data()), &size,
                     reinterpret_cast<const uint8_t*>(message.data()), message.size()) != 1)
    return InvalidArgument("{}: OpenSSL cannot sign with this key", path);
  return signature;
}

}  // namespace coppice
