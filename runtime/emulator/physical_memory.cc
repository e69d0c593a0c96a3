// A memfd; what is given back becomes a hole in it.

#include "runtime/emulator/physical_memory.h"

#include <algorithm>
#include <fcntl.h>
#include <unistd.h>
#include <vector>

#include <sys/mman.h>

#include "coppice/base/units.h"

namespace coppice::emulator {
namespace {

constexpr unsigned char kPoison = 0xCB;

}  // namespace

std::unique_ptr<PhysicalMemory> PhysicalMemory::Create(int64_t capacity_bytes) {
  int file = memfd_create("coppice-emulator", MFD_CLOEXEC);
  if (file >= 0 && file <= STDERR_FILENO) {
    // A standard stream is closed: what somebody prints must not become device memory.
    const int low = file;
    file = fcntl(low, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    close(low);
  }
  if (file < 0) return nullptr;
  return std::unique_ptr<PhysicalMemory>(new PhysicalMemory(file, capacity_bytes));
}

PhysicalMemory::~PhysicalMemory() {
  close(file_);
}

int64_t PhysicalMemory::Take(int64_t bytes) {
  if (bytes > capacity_bytes_ - used_bytes_) return -1;
  static const std::vector<unsigned char> poison(static_cast<size_t>(kMiB), kPoison);
  const int64_t offset = next_offset_;
  for (int64_t done = 0; done < bytes;) {
    const int64_t chunk = std::min(bytes - done, kMiB);
    const ssize_t written = pwrite(file_, poison.data(), static_cast<size_t>(chunk), offset + done);
    if (written <= 0) {
      fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
      return -1;
    }
    done += written;
  }
  next_offset_ += bytes;
  used_bytes_ += bytes;
  return offset;
}

void PhysicalMemory::Give(int64_t offset, int64_t bytes) {
  fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset, bytes);
  used_bytes_ -= bytes;
}

}  // namespace coppice::emulator
