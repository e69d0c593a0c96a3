// Headers as FORMAT.md's table has them.

#include "runtime/package/zip_layout.h"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <tuple>

#include "coppice/base/status.h"

#include "base/json_document.h"
#include "runtime/package/manifest_reader.h"

namespace coppice::package {
namespace {

constexpr int64_t kPage = 4096;
constexpr int64_t kLocalBytes = 30;    // Without name and extra field.
constexpr int64_t kCentralBytes = 46;  // The same.
constexpr uint64_t kLocalMark = 0x04034b50;
constexpr uint64_t kCentralMark = 0x02014b50;
constexpr uint64_t kEndMark = 0x06054b50;
constexpr uint64_t kMadeBy = 0x0314;  // Unix.
constexpr uint64_t kNeeded = 20;
constexpr uint64_t kDate = 0x0021;  // The first day that zip has.
constexpr uint64_t kPaddingId = 0xD935;
constexpr uint64_t kMode = 0x01800000;  // 0600.

void Append(std::string& out, uint64_t value, int bytes) {
  for (int byte = 0; byte < bytes; ++byte)
    out += static_cast<char>(value >> (8 * byte));
}

uint32_t NumberAt(std::span<const std::byte> zip, int64_t offset, int bytes) {
  uint32_t value = 0;
  for (int byte = 0; byte < bytes; ++byte)
    value |= std::to_integer<uint32_t>(zip[static_cast<size_t>(offset + byte)]) << (8 * byte);
  return value;
}

int64_t ExtraBytesOf(const ZipEntry& entry) {
  return entry.data - entry.header - kLocalBytes - static_cast<int64_t>(entry.name.size());
}

// What both headers have from the version that is needed to the length of the extra field.
void AppendCommon(const ZipEntry& entry, std::string& out) {
  Append(out, kNeeded, 2);
  Append(out, 0, 6);  // Flags, method, time.
  Append(out, kDate, 2);
  Append(out, entry.crc, 4);
  Append(out, static_cast<uint64_t>(entry.bytes), 4);
  Append(out, static_cast<uint64_t>(entry.bytes), 4);
  Append(out, entry.name.size(), 2);
  Append(out, static_cast<uint64_t>(ExtraBytesOf(entry)), 2);
}

void AppendNameAndExtra(const ZipEntry& entry, std::string& out) {
  const int64_t zeros = ExtraBytesOf(entry) - 4;
  out += entry.name;
  Append(out, kPaddingId, 2);
  Append(out, static_cast<uint64_t>(zeros), 2);
  out.append(static_cast<size_t>(zeros), '\0');
}

class ZipReader {
 public:
  ZipReader(std::span<const std::byte> zip, const std::string& name)
      : zip_(zip), name_(name), size_(static_cast<int64_t>(zip.size())) {}

  absl::StatusOr<std::vector<ZipEntry>> Run() {
    if (size_ < kEndBytes || size_ > kZipBytesMax)
      return InvalidArgument("{}: the zip has {} bytes, but a package has {} to {}", name_, size_,
                             kEndBytes, kZipBytesMax);
    if (NumberAt(zip_, 0, 4) != kLocalMark)
      return InvalidArgument(
          "{}: this is not a zip file, as its first bytes are wrong; give a package that "
          "coppice.export or "
          "`coppice package build` wrote",
          name_);
    const int64_t end = size_ - kEndBytes;
    const uint32_t count = NumberAt(zip_, end + 10, 2);
    central_ = NumberAt(zip_, end + 16, 4);
    if (NumberAt(zip_, end, 4) != kEndMark && !HasEndRecord())
      return InvalidArgument(
          "{}: the zip is cut off: it has {} bytes but no end record, perhaps because a download "
          "or a copy stopped early; get the file again",
          name_, size_);
    if (NumberAt(zip_, end, 4) != kEndMark || count > kZipEntriesMax || central_ > end)
      return Wrong(end, "the end record is invalid, or a comment follows it");
    cursor_ = central_;
    for (uint32_t i = 0; i < count; ++i)
      COPPICE_RETURN_IF_ERROR(ReadEntry(end));
    if (next_ != central_)
      return Wrong(next_, "bytes that belong to no file lie before the central directory");
    if (cursor_ != end)
      return Wrong(cursor_, "bytes that belong to no file lie before the end record");
    COPPICE_RETURN_IF_ERROR(
        Compare(end, EndRecordOf(entries_.size(), central_, end - central_), "the end record"));
    return std::move(entries_);
  }

 private:
  absl::Status Wrong(int64_t offset, const std::string& what) const {
    return InvalidArgument(
        "{}: offset {}: {}: the zip was damaged, or rewritten by another tool; get the file again, "
        "or unzip it to a folder, which you can use as it is or pack with `coppice package pack "
        "FOLDER -o PACKAGE.zip`",
        name_, offset, what);
  }

  // Whether a whole end record lies anywhere, as before a comment.
  bool HasEndRecord() const {
    std::string mark;
    Append(mark, kEndMark, 4);
    const std::string_view bytes(reinterpret_cast<const char*>(zip_.data()), zip_.size());
    return bytes.substr(0, bytes.size() - kEndBytes + mark.size()).rfind(mark) != bytes.npos;
  }

  absl::Status ReadEntry(int64_t end) {
    if (end - cursor_ < kCentralBytes) return Wrong(cursor_, "the central directory is cut off");
    ZipEntry entry{.crc = NumberAt(zip_, cursor_ + 16, 4),
                   .bytes = NumberAt(zip_, cursor_ + 24, 4)};
    const int64_t name_bytes = NumberAt(zip_, cursor_ + 28, 2);
    if (end - cursor_ - kCentralBytes < name_bytes)
      return Wrong(cursor_, "the central directory is cut off");
    const auto* const name = reinterpret_cast<const char*>(zip_.data()) + cursor_ + kCentralBytes;
    entry.name.assign(name, static_cast<size_t>(name_bytes));
    const std::string shown = QuoteText(entry.name, 255);
    if (!IsFileName(entry.name))
      return Wrong(cursor_, fmt::format("{} is not a valid file name in a package", shown));
    if (entries_.empty() ? entry.name != kManifestName
                         : !ComesBefore(entries_.back().name, entry.name))
      return Wrong(cursor_, fmt::format("{} occurs twice or is out of order; manifest.json must "
                                        "come first, then manifest.sig, then others by name",
                                        shown));
    const int64_t next = PlaceEntry(next_, entry);
    if (next > central_) return Wrong(next_, fmt::format("{} is cut off", shown));
    COPPICE_RETURN_IF_ERROR(
        Compare(cursor_, CentralRecordOf(entry), fmt::format("the central record of {}", shown)));
    COPPICE_RETURN_IF_ERROR(
        Compare(next_, LocalHeaderOf(entry), fmt::format("the local header of {}", shown)));
    cursor_ += kCentralBytes + name_bytes + ExtraBytesOf(entry);
    next_ = next;
    entries_.push_back(std::move(entry));
    return absl::OkStatus();
  }

  // That the file has these bytes there.
  absl::Status Compare(int64_t offset, std::string_view expected, const std::string& what) const {
    const auto* const bytes = reinterpret_cast<const char*>(zip_.data());
    const std::string_view there(bytes + offset,
                                 std::min(expected.size(), static_cast<size_t>(size_ - offset)));
    if (there == expected) return absl::OkStatus();
    const auto at = static_cast<size_t>(
        std::mismatch(there.begin(), there.end(), expected.begin()).first - there.begin());
    if (at == there.size()) return Wrong(size_, what + " is cut off");
    return Wrong(offset + static_cast<int64_t>(at),
                 fmt::format("{} has {:#04x}, but {:#04x} is canonical", what,
                             static_cast<uint8_t>(there[at]), static_cast<uint8_t>(expected[at])));
  }

  const std::span<const std::byte> zip_;
  const std::string& name_;
  const int64_t size_;
  int64_t central_ = 0;
  int64_t cursor_ = 0;  // In the central directory.
  int64_t next_ = 0;    // Where the next local header begins.
  std::vector<ZipEntry> entries_;
};

}  // namespace

int64_t PlaceEntry(int64_t header, ZipEntry& entry) {
  const int64_t least = header + kLocalBytes + static_cast<int64_t>(entry.name.size()) + 4;
  entry.header = header;
  entry.data = (least + kPage - 1) / kPage * kPage;
  return entry.data + entry.bytes;
}

std::string LocalHeaderOf(const ZipEntry& entry) {
  std::string out;
  Append(out, kLocalMark, 4);
  AppendCommon(entry, out);
  AppendNameAndExtra(entry, out);
  return out;
}

std::string CentralRecordOf(const ZipEntry& entry) {
  std::string out;
  Append(out, kCentralMark, 4);
  Append(out, kMadeBy, 2);
  AppendCommon(entry, out);
  Append(out, 0, 6);  // Comment, disk, internal attributes.
  Append(out, kMode, 4);
  Append(out, static_cast<uint64_t>(entry.header), 4);
  AppendNameAndExtra(entry, out);
  return out;
}

std::string EndRecordOf(size_t entries, int64_t central, int64_t central_bytes) {
  std::string out;
  Append(out, kEndMark, 4);
  Append(out, 0, 4);  // Disks.
  Append(out, entries, 2);
  Append(out, entries, 2);
  Append(out, static_cast<uint64_t>(central_bytes), 4);
  Append(out, static_cast<uint64_t>(central), 4);
  Append(out, 0, 2);  // Comment.
  return out;
}

bool ComesBefore(const std::string& a, const std::string& b) {
  const auto key = [](const std::string& name) {
    return std::tuple(name != kManifestName, name != kSignatureName, std::string_view(name));
  };
  return key(a) < key(b);
}

absl::StatusOr<std::vector<ZipEntry>> ReadZip(std::span<const std::byte> zip,
                                              const std::string& name) {
  return ZipReader(zip, name).Run();
}

}  // namespace coppice::package
