// Functions of CUDA's mathematical library.

extern "C" __global__ void library_floats(const float* x, float* out) {
  const int n = blockDim.x * gridDim.x;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float v = x[i];
  out[i] = sinf(v);
  out[n + i] = cosf(v);
  out[2 * n + i] = expf(v);
  out[3 * n + i] = logf(fabsf(v));
  out[4 * n + i] = powf(fabsf(v), 1.7f);
  out[5 * n + i] = erff(v);
  out[6 * n + i] = tgammaf(fabsf(v) + 0.5f);
}

extern "C" __global__ void library_doubles(const double* x, double* out) {
  const int n = blockDim.x * gridDim.x;
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const double v = x[i];
  out[i] = sin(v);
  out[n + i] = exp(v);
  out[2 * n + i] = log(fabs(v));
  out[3 * n + i] = pow(fabs(v), 1.7);
  out[4 * n + i] = erf(v);
}
