// The physical memory of the device: one sparse file, which costs the host only what is taken.
//
// Units: bytes. Threads: guarded by the emulator's mutex.

#pragma once

#include <cstdint>
#include <memory>

namespace coppice::emulator {

class PhysicalMemory {
 public:
  // Null if the host refuses a memfd.
  static std::unique_ptr<PhysicalMemory> Create(int64_t capacity_bytes);
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory&) = delete;
  PhysicalMemory& operator=(const PhysicalMemory&) = delete;

  // Takes poisoned bytes and returns their offset, which none had before; -1 beyond the capacity or
  // if the host has no room.
  int64_t Take(int64_t bytes);
  void Give(int64_t offset, int64_t bytes);

  int file() const { return file_; }
  int64_t capacity_bytes() const { return capacity_bytes_; }
  int64_t used_bytes() const { return used_bytes_; }

 private:
  PhysicalMemory(int file, int64_t capacity_bytes) : file_(file), capacity_bytes_(capacity_bytes) {}

  const int file_;
  const int64_t capacity_bytes_;
  int64_t next_offset_ = 0;
  int64_t used_bytes_ = 0;
};

}  // namespace coppice::emulator
