// Operations of a warp.

extern "C" __global__ void warp_operations(const int* x, int* out) {
  const int i = threadIdx.x;
  const int n = blockDim.x;
  const int lane = i % 32;
  const int value = x[i];
  out[i] = __shfl_sync(~0u, value, lane * 5, 8);
  out[n + i] = __shfl_up_sync(~0u, value, 3);
  out[2 * n + i] = __shfl_down_sync(~0u, value, 5, 16);
  out[3 * n + i] = __shfl_xor_sync(~0u, value, 9);
  out[4 * n + i] = __ballot_sync(~0u, value > 0);
  out[5 * n + i] = __any_sync(~0u, value > 90) * 2 + __all_sync(~0u, value > -90);
  out[6 * n + i] = __match_any_sync(~0u, value & 3);
  int same;
  const unsigned all = __match_all_sync(~0u, value >> 20, &same);
  out[7 * n + i] = all != 0 && same ? 1 : 0;
  out[8 * n + i] = __reduce_add_sync(~0u, value);
  out[9 * n + i] = __reduce_min_sync(~0u, value);
  out[10 * n + i] = __reduce_xor_sync(~0u, static_cast<unsigned>(value));
  out[11 * n + i] = value & 1 ? __popc(__activemask()) : 0;
}
