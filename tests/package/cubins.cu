// Kernels whose cubins have every note that the reader of cubins reads: make_cubins.py compiles
// them.

struct Settings {
  int first;
  double second;
  char third[20];
};

struct Large {
  int values[1500];
};

struct alignas(64) TensorMap {
  char bytes[128];
};

extern "C" __global__ void Plain(const float* x, float* y, int count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) y[i] = 2 * x[i];
}

extern "C" __global__ void Nothing() {}

extern "C" __global__ void __launch_bounds__(256, 2) Bounded(float* y, Settings s, short add) {
  __shared__ float row[300];
  row[threadIdx.x] = s.first + s.second;
  __syncthreads();
  y[threadIdx.x] = row[255 - threadIdx.x] + add;
}

extern "C" __global__ void MapFirst(const __grid_constant__ TensorMap map, int* y, int i) {
  *y = map.bytes[i];
}

extern "C" __global__ void ManyBytes(const __grid_constant__ Large large, int* y, char add) {
  *y = large.values[*y] + add;
}

template <int kPlace>
__global__ void Template(float* y) {
  extern __shared__ float dynamic[];
  dynamic[threadIdx.x] = kPlace;
  __syncthreads();
  y[threadIdx.x] = dynamic[kPlace];
}
template __global__ void Template<3>(float*);

// Holds more than 64 values at once, so that 1,024 threads do not fit.
extern "C" __global__ void ManyRegisters(float* y) {
  float values[96];
#pragma unroll
  for (int i = 0; i < 96; ++i)
    values[i] = y[i * 32 + threadIdx.x % 32];
  __syncthreads();
#pragma unroll
  for (int i = 0; i < 96; ++i)
    y[i * 32 + threadIdx.x] = values[95 - i];
}

#if __CUDA_ARCH__ >= 900
extern "C" __global__ void __cluster_dims__(2, 1, 1) Clustered(float* y) {
  y[threadIdx.x] = 1;
}

extern "C" __global__ void __block_size__((64, 2, 1)) Sized(float* y) {
  y[threadIdx.x] = 1;
}
#endif
