// Host addresses of freed device memory, which stay without access for a while, so that a stale
// pointer faults.
//
// Of 47 bits of addresses a process that reserves and frees for long would run out. So what is
// freed joins the newer of two halves; when that is full, the older one goes back to the host:
//
//   freed ─► newer half ─► older half ─► the host
//
// Units: bytes. Threads: guarded by the emulator's mutex.

#pragma once

#include <cstdint>
#include <map>
#include <utility>

#include "coppice/base/units.h"

namespace coppice::emulator {

class AddressQuarantine {
 public:
  // What the newer half holds at most, unless one range is larger: no address goes back before so
  // much was freed after it.
  static constexpr int64_t kHalfBytes = 16 * 1024 * kGiB;

  AddressQuarantine() = default;
  ~AddressQuarantine() { Release(); }
  AddressQuarantine(const AddressQuarantine&) = delete;
  AddressQuarantine& operator=(const AddressQuarantine&) = delete;

  // Takes over a range without access.
  void Add(void* start, int64_t bytes);
  // Gives all of them back to the host. False: there were none.
  bool Release();

 private:
  // Start to end, joined where they touch, so that what comes and goes costs no memory.
  using Ranges = std::map<uintptr_t, uintptr_t>;

  static void Unmap(Ranges ranges);

  Ranges newer_;
  Ranges older_;
  int64_t newer_bytes_ = 0;
};

}  // namespace coppice::emulator
