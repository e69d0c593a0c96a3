// The global allocation functions, on top of malloc. All of them: a sanitizer brings its own for
// each form that is left out, and then finds memory of one kind freed as the other.

#include "tools/bench/allocation_counter.h"

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

thread_local int64_t allocation_count = 0;

void* Allocate(size_t bytes, std::align_val_t alignment) {
  ++allocation_count;
  const size_t step = std::max(static_cast<size_t>(alignment), alignof(std::max_align_t));
  return std::aligned_alloc(step, (std::max<size_t>(bytes, 1) + step - 1) / step * step);
}

void* Allocate(size_t bytes) {
  ++allocation_count;
  return std::malloc(std::max<size_t>(bytes, 1));
}

// As the language has it: the handler ends the process, finds memory or leaves by an exception.
template <typename... Args>
void* AllocateOrThrow(Args... args) {
  while (true) {
    if (void* const memory = Allocate(args...)) return memory;
    const std::new_handler handler = std::get_new_handler();
    if (handler == nullptr) throw std::bad_alloc();
    handler();
  }
}

}  // namespace

namespace coppice {

int64_t AllocationCount() {
  return allocation_count;
}

}  // namespace coppice

void* operator new(size_t bytes) {
  return AllocateOrThrow(bytes);
}
void* operator new[](size_t bytes) {
  return AllocateOrThrow(bytes);
}
void* operator new(size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, alignment);
}
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return AllocateOrThrow(bytes, alignment);
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes);
}
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept {
  return Allocate(bytes);
}
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(bytes, alignment);
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return Allocate(bytes, alignment);
}

void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t, const std::nothrow_t&) noexcept {
  std::free(memory);
}
