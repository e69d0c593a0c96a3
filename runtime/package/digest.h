// Digests and signatures, by OpenSSL.
//
// Threads: stateless.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

namespace coppice::package {

// SHA-256 of `parts` one behind another, as 64 hexadecimal digits in lower case.
std::string Sha256Of(std::initializer_list<std::span<const std::byte>> parts);

// Whether the key made this Ed25519 signature, of 64 bytes, of `message`.
bool IsSignedBy(const std::array<uint8_t, 32>& key,
                std::span<const std::byte> message,
                std::span<const std::byte> signature);

// CRC-32 as zip has it.
uint32_t Crc32Of(std::span<const std::byte> bytes);

}  // namespace coppice::package
