// A kernel without neighbours: SiLU of a scaled row plus its bias. elementwise.ptx is made of it by
//
//   nvcc -std=c++20 -O3 -arch=sm_80 -ptx elementwise.cu -o elementwise.ptx

extern "C" __global__ void __launch_bounds__(256)
    BiasSilu(const float* x, const float* bias, float* y, float scale, int rows, int columns) {
  const int count = rows * columns;
  const int stride = static_cast<int>(gridDim.x * blockDim.x);
  for (int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x); i < count; i += stride) {
    const float value = fmaf(x[i], scale, bias[i % columns]);
    y[i] = value / (1.0F + __expf(-value));
  }
}
