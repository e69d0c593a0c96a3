/* load_package: runs a kernel package that a front end compiled, from C. Each size of a call shares
 * a bucket with others, and each bucket is recorded once as a CUDA graph.
 *
 *   load_package triton_kernels.zip
 */

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "coppice/coppice.h"

/* Prints what failed, and ends the program. */
static void check(coppice_status status) {
  if (status == COPPICE_OK) return;
  char message[1024];
  coppice_last_error(message, sizeof(message));
  fprintf(stderr, "load_package: %s: %s\n", coppice_status_name(status), message);
  exit(1);
}

/* A tensor of floats, row-major, of `shape`, which it borrows. */
static DLTensor floats_at(uint64_t address, int64_t shape[2], int32_t dl_device_type) {
  DLTensor tensor = {.data = (void*)(uintptr_t)address,
                     .device = {(DLDeviceType)dl_device_type, 0},
                     .ndim = 2,
                     .dtype = {kDLFloat, 32, 1},
                     .shape = shape};
  return tensor;
}

enum { kRowsMax = 100, kIn = 64, kOut = 40 };

int main(int argc, char** argv) {
  if (argc != 2) {
    fprintf(stderr, "usage: load_package triton_kernels.zip\n");
    return 2;
  }
  coppice_device* device = NULL;
  coppice_package* package = NULL;
  coppice_session* session = NULL;
  coppice_program* program = NULL;
  check(coppice_device_open(NULL, &device)); /* A GPU, or else the emulator. */
  check(coppice_package_load(device, argv[1], NULL, &package));
  check(coppice_session_create(device, NULL, &session));
  check(coppice_register_package(session, package, "main", NULL, &program));

  coppice_device_info info = {.struct_size = sizeof(info)};
  check(coppice_device_describe(device, &info));
  void* stream = NULL;
  check(coppice_stream_create(device, &stream));
  static float ones[kRowsMax * kIn];
  for (int i = 0; i < kRowsMax * kIn; ++i)
    ones[i] = 1.0f;
  uint64_t x = 0;
  uint64_t weights = 0;
  check(coppice_memory_allocate(device, sizeof(ones), &x));
  check(coppice_memory_allocate(device, sizeof(float) * kIn * kOut, &weights));
  check(coppice_copy_to_device(device, x, ones, sizeof(ones), stream));
  check(coppice_copy_to_device(device, weights, ones, sizeof(float) * kIn * kOut, stream));

  const int64_t sizes[] = {100, 65, 3, 91, 4};
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
    int64_t x_shape[2] = {sizes[i], kIn};
    int64_t weights_shape[2] = {kIn, kOut};
    const DLTensor x_tensor = floats_at(x, x_shape, info.dl_device_type);
    const DLTensor weights_tensor = floats_at(weights, weights_shape, info.dl_device_type);
    const DLTensor* inputs[] = {&x_tensor, &weights_tensor};
    const coppice_call call = {.struct_size = sizeof(call),
                               .program = program,
                               .inputs = inputs,
                               .input_count = 2,
                               .stream = stream};
    coppice_lease* lease = NULL;
    check(coppice_run(session, &call, &lease));

    /* The output is read in the order of the stream; nothing may write over it meanwhile. */
    coppice_read* scope = NULL;
    coppice_view shares = {.struct_size = sizeof(shares)};
    check(coppice_lease_read(lease, stream, &scope));
    check(coppice_read_output(scope, 0, &shares));
    float row[kOut];
    const uint64_t last = (uint64_t)(uintptr_t)shares.tensor.data +
                          (uint64_t)((sizes[i] - 1) * shares.strides[0]) * 4;
    check(coppice_copy_to_host(device, row, last, sizeof(row), stream));
    coppice_read_end(scope);

    float sum = 0;
    for (int column = 0; column < kOut; ++column)
      sum += row[column];
    coppice_lease_info ran = {.struct_size = sizeof(ran)};
    check(coppice_lease_describe(lease, &ran));
    printf("%3" PRId64 " rows  %-7s shares of the last row sum to %.3f\n", sizes[i],
           coppice_run_kind_name(ran.kind), (double)sum);
    coppice_lease_release(lease);
  }

  coppice_session_stats stats = {.struct_size = sizeof(stats)};
  check(coppice_stats(session, &stats));
  printf("%" PRId64 " graphs for %" PRId64 " calls\n", stats.recordings, stats.calls);
  coppice_session_release(session);
  coppice_package_release(package);
  coppice_device_release(device);
  return 0;
}
