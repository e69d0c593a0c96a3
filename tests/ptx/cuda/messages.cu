// What a kernel says: printf, and an assert.

#include <cassert>
#include <cstdio>

extern "C" __global__ void prints(const int* x, const float* y) {
  const int i = threadIdx.x;
  printf("thread %d: %5d, %.2f, %s\n", i, x[i], y[i], x[i] < 0 ? "below" : "above");
}

extern "C" __global__ void asserts(const int* x, int* out) {
  const int i = threadIdx.x;
  assert(x[i] >= 0);
  out[i] = x[i];
}
