// Turns a memory fault inside emulated device work into a value.
//
// Threads: RunGuarded on any thread; handlers are installed and removed by one thread at a time.

#pragma once

#include <cstdint>
#include <optional>

namespace coppice::emulator {

// Installs SIGSEGV and SIGBUS handlers while it lives. A fault outside RunGuarded goes to the
// handler that was there before, with a word on standard error if `is_device(address)`.
class FaultHandlers {
 public:
  explicit FaultHandlers(bool (*is_device)(uint64_t address));
  ~FaultHandlers();
  FaultHandlers(const FaultHandlers&) = delete;
  FaultHandlers& operator=(const FaultHandlers&) = delete;
};

// Calls `body(argument)`; returns the address of the access that faulted, or nullopt if none did.
// What `body` holds at a fault is not destroyed. Requires: FaultHandlers exist.
std::optional<uint64_t> RunGuarded(void (*body)(const void*), const void* argument);

}  // namespace coppice::emulator
