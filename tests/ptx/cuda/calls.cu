// Calls: recursion, pointers to functions, and a table of targets.

__device__ __noinline__ int Fibonacci(int n) {
  return n < 2 ? n : Fibonacci(n - 1) + Fibonacci(n - 2);
}

extern "C" __global__ void recursion(const int* x, int* out) {
  out[threadIdx.x] = Fibonacci(x[threadIdx.x]);
}

using Operation = float (*)(float, float);

__device__ __noinline__ float Sum(float a, float b) {
  return a + b;
}
__device__ __noinline__ float Difference(float a, float b) {
  return a - b;
}
__device__ __noinline__ float Product(float a, float b) {
  return a * b;
}

__device__ Operation operations[] = {Sum, Difference, Product};

extern "C" __global__ void indirect_calls(const int* which,
                                          const float* a,
                                          const float* b,
                                          float* out) {
  const int i = threadIdx.x;
  out[i] = operations[which[i]](a[i], b[i]);
}

extern "C" __global__ void switch_table(const int* which, const int* x, int* out) {
  const int i = threadIdx.x;
  int value = x[i];
  switch (which[i]) {
    case 0:
      value = value * value;
      break;
    case 1:
      value = value / 7;
      break;
    case 2:
      value = __brev(value);
      break;
    case 3:
      value = __popc(value) + out[i];
      break;
    case 4:
      value = value % 13;
      break;
    case 5:
      value = __clz(value);
      break;
    case 6:
      atomicAdd(&out[i], value);
      return;
    case 7:
      value = min(value, out[i]);
      break;
    default:
      break;
  }
  out[i] = value;
}
