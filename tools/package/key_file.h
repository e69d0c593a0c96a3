// Ed25519 keys in PEM files, as `openssl genpkey` and `openssl pkey -pubout` write them.
//
// Threads: pure functions, apart from the file system.

#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

#include "coppice/runtime/package.h"

namespace coppice {

// Opens the package at `path`; where `key_paths` names files, the public key in one of them signed
// it. Errors: kInvalidArgument a file has no key, or one of another kind; as ReadTextFile and
// Package::Open.
absl::StatusOr<package::Package> OpenSigned(const std::string& path,
                                            const std::vector<std::string>& key_paths);

// The signature of `message`, 64 bytes, by the private key in a file. Errors: of the
// file, the same.
absl::StatusOr<std::string> SignWith(const std::string& path, std::string_view message);

}  // namespace coppice
