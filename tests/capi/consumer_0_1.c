/* A caller who was compiled with coppice.h of 0.1: its structs and functions, as they were, stand
 * here and do not change. Later libraries have to serve it.
 *
 *   consumer_0_1 triton_kernels.zip
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "dlpack/dlpack.h"

typedef int32_t coppice_status;
typedef struct coppice_device coppice_device;
typedef struct coppice_package coppice_package;
typedef struct coppice_session coppice_session;
typedef struct coppice_program coppice_program;
typedef struct coppice_binding coppice_binding;
typedef struct coppice_lease coppice_lease;
typedef struct coppice_read coppice_read;

typedef struct coppice_view {
  uint32_t struct_size;
  uint32_t reserved;
  DLTensor tensor;
  int64_t shape[8];
  int64_t strides[8];
} coppice_view;

typedef struct coppice_session_options {
  uint32_t struct_size;
  int32_t stance;
  int32_t lanes;
  int32_t warmup_runs;
  int32_t record_in_background;
  int32_t gate;

  int32_t graphs_per_program_max;
  int32_t rerecords_per_bucket_max;
  int32_t static_moves_max;
  int32_t on_limit;
  int32_t on_budget;
  int32_t keep_drawings;

  int64_t window_bytes;
  int64_t workspace_bytes;
  int64_t copy_out_bytes;
  int64_t budget_bytes;

  int32_t audit_keys;
  int32_t check_addresses;
  int32_t fill_expired;
  int32_t trace_wait_when_full;
  const char* trace_path;
  int64_t trace_events_per_lane;

  void (*log)(void* user, const char* line);
  coppice_status (*vote)(void* user, void* vote);
  coppice_status (*barrier)(void* user);
  void* user;
} coppice_session_options;

typedef struct coppice_call {
  uint32_t struct_size;
  int32_t lane;
  coppice_program* program;
  coppice_binding* binding;
  const DLTensor* const* inputs;
  int64_t input_count;
  const int64_t* scalars;
  int64_t scalar_count;
  const int64_t* extents;
  int64_t extent_count;
  const DLTensor* const* targets;
  int64_t target_count;
  void* stream;
  int32_t output_mode;
  int32_t poison;
} coppice_call;

typedef struct coppice_lease_info {
  uint32_t struct_size;
  int32_t kind;
  int32_t reason;
  int32_t output_count;
  uint64_t call_number;
} coppice_lease_info;

typedef struct coppice_session_stats {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t calls;
  int64_t runs[8];
  int64_t reasons[24];
  int64_t recordings;
  int64_t evictions;
  int64_t remaps;
  int64_t inputs_in_place;
  int64_t real_elements;
  int64_t padded_elements;
} coppice_session_stats;

coppice_status coppice_device_open(const void* options, coppice_device** out);
void coppice_device_release(coppice_device* device);
size_t coppice_device_findings(coppice_device* device, char* buffer, size_t buffer_bytes);
coppice_status coppice_memory_allocate(coppice_device* device, int64_t bytes, uint64_t* address);
coppice_status coppice_copy_to_device(
    coppice_device* device, uint64_t to, const void* from, int64_t bytes, void* stream);
coppice_status coppice_copy_to_host(
    coppice_device* device, void* to, uint64_t from, int64_t bytes, void* stream);
coppice_status coppice_stream_create(coppice_device* device, void** stream);
coppice_status coppice_package_load(coppice_device* device,
                                    const char* path,
                                    const void* options,
                                    coppice_package** out);
void coppice_package_release(coppice_package* package);
coppice_status coppice_session_create(coppice_device* device,
                                      const coppice_session_options* options,
                                      coppice_session** out);
void coppice_session_release(coppice_session* session);
coppice_status coppice_register_package(coppice_session* session,
                                        coppice_package* package,
                                        const char* program,
                                        const void* options,
                                        coppice_program** out);
coppice_status coppice_run(coppice_session* session, const coppice_call* call, coppice_lease** out);
coppice_status coppice_lease_read(coppice_lease* lease, void* stream, coppice_read** out);
coppice_status coppice_read_output(coppice_read* scope, int32_t index, coppice_view* out);
void coppice_read_end(coppice_read* scope);
void coppice_lease_release(coppice_lease* lease);
coppice_status coppice_stats(coppice_session* session, coppice_session_stats* out);

static void check(coppice_status status) {
  if (status == 0) return;
  fprintf(stderr, "consumer_0_1: status %d\n", (int)status);
  exit(1);
}

enum { kRows = 5, kIn = 64, kOut = 40, kEmulator = 2 };

int main(int argc, char** argv) {
  struct {
    uint32_t struct_size;
    int32_t kind;
  } device_options = {sizeof(device_options), kEmulator};
  coppice_device* device = NULL;
  coppice_package* package = NULL;
  coppice_session* session = NULL;
  coppice_program* program = NULL;
  void* stream = NULL;
  if (argc != 2) return 2;
  check(coppice_device_open(&device_options, &device));
  check(coppice_stream_create(device, &stream));
  check(coppice_package_load(device, argv[1], NULL, &package));
  const coppice_session_options options = {.struct_size = sizeof(options), .lanes = 1};
  check(coppice_session_create(device, &options, &session));
  check(coppice_register_package(session, package, "main", NULL, &program));

  static float ones[kIn * kIn];
  for (int i = 0; i < kIn * kIn; ++i)
    ones[i] = 1.0f;
  uint64_t address = 0;
  check(coppice_memory_allocate(device, sizeof(ones), &address));
  check(coppice_copy_to_device(device, address, ones, sizeof(ones), stream));
  int64_t x_shape[2] = {kRows, kIn};
  int64_t weights_shape[2] = {kIn, kOut};
  DLTensor x = {.data = (void*)(uintptr_t)address,
                .device = {kDLExtDev, 0},
                .ndim = 2,
                .dtype = {kDLFloat, 32, 1},
                .shape = x_shape};
  DLTensor weights = x;
  weights.shape = weights_shape;
  const DLTensor* inputs[] = {&x, &weights};
  float row[kOut];
  for (int i = 0; i < 3; ++i) {
    const coppice_call call = {.struct_size = sizeof(call),
                               .program = program,
                               .inputs = inputs,
                               .input_count = 2,
                               .stream = stream};
    coppice_lease* lease = NULL;
    coppice_read* scope = NULL;
    coppice_view view = {.struct_size = sizeof(view)};
    check(coppice_run(session, &call, &lease));
    check(coppice_lease_read(lease, stream, &scope));
    check(coppice_read_output(scope, 0, &view));
    check(coppice_copy_to_host(device, row, (uint64_t)(uintptr_t)view.tensor.data, sizeof(row),
                               stream));
    coppice_read_end(scope);
    coppice_lease_release(lease);
  }
  float sum = 0;
  for (int column = 0; column < kOut; ++column)
    sum += row[column];
  coppice_session_stats stats = {.struct_size = sizeof(stats)};
  check(coppice_stats(session, &stats));
  printf("row sum %.3f, replayed %d of %d calls\n", (double)sum, (int)stats.runs[0],
         (int)stats.calls);
  const int found = coppice_device_findings(device, NULL, 0) != 0;
  coppice_session_release(session);
  coppice_package_release(package);
  coppice_device_release(device);
  return found;
}
