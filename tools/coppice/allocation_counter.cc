// The global allocation functions, on top of malloc; the array and nothrow forms end here too.

#include "tools/coppice/allocation_counter.h"

#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocation_count = 0;

}  // namespace

namespace coppice {

int64_t AllocationCount() {
  return allocation_count;
}

}  // namespace coppice

void* operator new(size_t bytes) {
  ++allocation_count;
  if (void* memory = std::malloc(bytes > 0 ? bytes : 1)) return memory;
  std::abort();
}

void* operator new(size_t bytes, std::align_val_t alignment) {
  ++allocation_count;
  const size_t step = static_cast<size_t>(alignment);
  if (void* memory = std::aligned_alloc(step, (bytes + step - 1) / step * step)) return memory;
  std::abort();
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
