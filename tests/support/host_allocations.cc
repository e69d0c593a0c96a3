// Operator new and delete of programs whose host memory may run out when they wish. In a file of
// their own, because compilers that see both bodies take the pair for a mismatch.

#include "tests/support/host_allocations.h"

#include <cstdlib>
#include <new>

void* operator new(size_t bytes) {
  if (coppice::host_allocations.Fails()) throw std::bad_alloc();
  if (void* const memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}
void* operator new(size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return coppice::host_allocations.Fails() ? nullptr : std::malloc(bytes);
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, size_t /*bytes*/) noexcept {
  std::free(memory);
}
