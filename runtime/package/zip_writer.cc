// Local headers and bytes as they come, the central directory last.

#include "runtime/package/zip_writer.h"

#include "coppice/base/status.h"

#include "runtime/package/digest.h"
#include "runtime/package/zip_layout.h"

namespace coppice::package {

absl::Status ZipWriter::Add(const std::string& name, std::span<const std::byte> bytes) {
  ZipEntry entry{.name = name, .crc = Crc32Of(bytes), .bytes = static_cast<int64_t>(bytes.size())};
  next_ = PlaceEntry(next_, entry);
  central_ += CentralRecordOf(entry);
  ++count_;
  if (next_ + static_cast<int64_t>(central_.size()) + kEndBytes > kZipBytesMax)
    return InvalidArgument("{}: the zip has more than 4 GiB; leave the data of large constants out",
                           name_);
  COPPICE_RETURN_IF_ERROR(write_(LocalHeaderOf(entry)));
  return write_({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

absl::Status ZipWriter::Finish() {
  COPPICE_RETURN_IF_ERROR(write_(central_));
  return write_(EndRecordOf(count_, next_, static_cast<int64_t>(central_.size())));
}

}  // namespace coppice::package
