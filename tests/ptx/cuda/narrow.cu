// Numbers of 16 and 8 bits.

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

extern "C" __global__ void halves(const __half2* x, const __half2* y, __half2* out, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  out[i] = __hfma2(x[i], y[i], __float2half2_rn(0.5f));
  out[n + i] = __hmax2(x[i], y[i]);
  out[2 * n + i] = __hadd2(__habs2(x[i]), __hneg2(y[i]));
  out[3 * n + i] = __hgt2(x[i], y[i]);
}

extern "C" __global__ void bfloats(
    const __nv_bfloat16* x, const float* y, __nv_bfloat16* out, float* wide, int n) {
  const int i = threadIdx.x;
  if (i >= n) return;
  out[i] = __float2bfloat16_rn(y[i]);
  out[n + i] = __hfma(x[i], x[i], __float2bfloat16_rn(1.0f));
  wide[i] = __bfloat162float(x[i]);
}

extern "C" __global__ void fp8(const float* x, __nv_fp8_e4m3* e4, __nv_fp8_e5m2* e5, float* back) {
  const int i = threadIdx.x;
  e4[i] = __nv_fp8_e4m3(x[i]);
  e5[i] = __nv_fp8_e5m2(x[i]);
  back[i] = static_cast<float>(e4[i]) - static_cast<float>(e5[i]);
}
