// The one zip file that a list of files has: its headers, made; and read, by making them again.
//
// Units: bytes. Threads: stateless.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace coppice::package {

inline constexpr int64_t kZipBytesMax = (int64_t{1} << 32) - 1;
inline constexpr int64_t kEndBytes = 22;  // Of the end record.
inline constexpr size_t kZipEntriesMax = 65'534;
inline constexpr char kManifestName[] = "manifest.json";
inline constexpr char kSignatureName[] = "manifest.sig";

struct ZipEntry {
  std::string name;
  uint32_t crc = 0;
  int64_t bytes = 0;
  int64_t header = 0;  // Where its local header begins.
  int64_t data = 0;    // Where its bytes begin.
};

// The entry's places, if its local header begins at `header`. Returns where the next one's does.
int64_t PlaceEntry(int64_t header, ZipEntry& entry);
// Requires of both: the entry is placed.
std::string LocalHeaderOf(const ZipEntry& entry);
std::string CentralRecordOf(const ZipEntry& entry);
std::string EndRecordOf(size_t entries, int64_t central, int64_t central_bytes);

// Whether the file `a` comes before `b`: the manifest, its signature, then by name.
bool ComesBefore(const std::string& a, const std::string& b);

// The entries of a zip, all of whose headers are canonical; their CRCs are not compared with their
// bytes. Errors: kInvalidArgument with the offset.
absl::StatusOr<std::vector<ZipEntry>> ReadZip(std::span<const std::byte> zip,
                                              const std::string& name);

}  // namespace coppice::package
