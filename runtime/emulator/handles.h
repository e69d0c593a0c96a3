// Handles of the emulator: serial numbers in the shape of pointers.
//
// A handle is never reused in a process, so a stale one is always found out, and never an address,
// so whoever dereferences one faults.
//
// Threads: a table is guarded by its owner.

#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace coppice::emulator {

// One counter per process: a handle of an earlier emulator is stale in the next.
inline std::atomic<uint64_t> g_handle_count = 0;

template <typename Handle>
Handle MakeHandle() {
  constexpr uint64_t kNotCanonical = uint64_t{0xC0} << 48;
  constexpr uint64_t kStep = 16;
  const uint64_t value = kNotCanonical + kStep * g_handle_count.fetch_add(1);
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<Handle>(value);  // NOLINT(performance-no-int-to-ptr)
  } else {
    return value;
  }
}

// Owns objects by handle.
template <typename Handle, typename Object>
class HandleTable {
 public:
  // Adds `object` under a fresh handle.
  Handle Insert(std::unique_ptr<Object> object) {
    const Handle handle = MakeHandle<Handle>();
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  // The object of `handle`, or null if there is none.
  Object* Find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.get();
  }

  // Removes and returns the object of `handle`, or null.
  std::unique_ptr<Object> Take(Handle handle) {
    const auto found = objects_.find(handle);
    if (found == objects_.end()) return nullptr;
    std::unique_ptr<Object> object = std::move(found->second);
    objects_.erase(found);
    return object;
  }

  // Destroys every object but keeps counting it: whoever left it behind is still to be told.
  void Abandon() {
    abandoned_ += static_cast<int64_t>(objects_.size());
    objects_.clear();
  }

  // Counts an object that was taken from somebody who should have destroyed it.
  void CountAbandoned() { ++abandoned_; }

  // Destroys every object, and counts none.
  void Clear() {
    objects_.clear();
    abandoned_ = 0;
  }

  // Objects that were inserted and not taken.
  int64_t count() const { return static_cast<int64_t>(objects_.size()) + abandoned_; }

  auto begin() const { return objects_.begin(); }
  auto end() const { return objects_.end(); }

 private:
  absl::flat_hash_map<Handle, std::unique_ptr<Object>> objects_;
  int64_t abandoned_ = 0;
};

}  // namespace coppice::emulator
