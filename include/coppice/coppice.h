/* The C surface of coppice: programs and kernel packages in sessions, for C and for every language
 * that calls C.
 *
 *   coppice_device* device = NULL;
 *   coppice_device_open(NULL, &device);                        a GPU, or else the emulator
 *   coppice_package_load(device, "decoder.zip", NULL, &package);
 *   coppice_session_create(device, NULL, &session);
 *   coppice_register_package(session, package, "main", NULL, &program);
 *   coppice_run(session, &call, &lease);                       once per bucket, replayed later
 *   coppice_lease_read(lease, stream, &scope);
 *   coppice_read_output(scope, 0, &view);
 *
 * What things mean is said once, in the C++ headers: coppice_run is Session::Run of
 * coppice/graphs/session.h, and so on; this file says what is different in C.
 *
 * Errors. Functions return a coppice_status. What failed, and what to do, is told by
 * coppice_last_error on the same thread. No exception passes, and no argument ends the process: a
 * null handle or a struct without its size is COPPICE_INVALID_ARGUMENT. `out` is null or 0 after an
 * error. Releasing null does nothing.
 *
 * Structs begin with `struct_size`, which the caller sets to sizeof; coppice reads no more and
 * fills in no more. What a caller's struct has not, or has 0 in, is as if it were left out: each
 * field says what 0 means. A struct that is larger than this library's is read as far as it is
 * known. A null pointer to a struct of options is all zeros.
 *
 * Handles are opaque. One release each; what a handle needs lives as long as it does, so that
 * handles may be released in any order: a session whose device was released keeps it. Programs and
 * bindings have no release: they live as long as their session; so do kernels, with their image.
 *
 * Tensors come in as borrowed DLTensors, read during the call only: strides may be null (row-major
 * without gaps), byte_offset counts, and the device is kDLCUDA, kDLCUDAManaged or, on the emulator,
 * kDLExtDev. They go out as coppice_view, whose DLTensor points into itself: copy its parts, not
 * it.
 *
 * Threads. Any handle may be used by any thread, a lease or scope by one at a time. The calling
 * thread must have the device's context current: coppice_device_open makes it so on its thread,
 * coppice_device_make_current on another. Callbacks run on the thread that called, unless they say
 * otherwise, and must not throw or jump out; what they ask of their session, or of a lease of it
 * but its release, is COPPICE_FAILED_PRECONDITION.
 *
 * Streams are CUstream, as void*; null, the legacy stream, is refused. Functions that wait for the
 * device say so; the others do not.
 *
 * Units: bytes, nanoseconds; sizes and strides in elements. Texts are UTF-8 and end with NUL.
 */

#ifndef COPPICE_COPPICE_H_
#define COPPICE_COPPICE_H_

#include <stddef.h>
#include <stdint.h>

#include "dlpack/dlpack.h"

#if defined(_WIN32)
#error "coppice runs on Linux"
#endif
#define COPPICE_API __attribute__((visibility("default")))

#ifdef __cplusplus
extern "C" {
#endif

/* The surface of this header. A library of the same major version, and of this minor version or a
 * later one, has all that is here. */
#define COPPICE_API_MAJOR 0
#define COPPICE_API_MINOR 7

/* The library's own, as major * 1000 + minor. */
COPPICE_API int32_t coppice_api_version(void);
/* "0.1.0". */
COPPICE_API const char* coppice_version(void);

/* ---- Status ------------------------------------------------------------------------------------
 * Numbers never change; a caller takes one that he does not know for an error. */

typedef int32_t coppice_status;
enum {
  COPPICE_OK = 0,
  COPPICE_INVALID_ARGUMENT = 1,    /* This argument can never be right. */
  COPPICE_OUT_OF_RANGE = 2,        /* Beyond a configured limit. */
  COPPICE_FAILED_PRECONDITION = 3, /* The wrong order: a stale input, a guard of the stance. */
  COPPICE_RESOURCE_EXHAUSTED = 4,  /* Device memory, a budget, or the host's memory. */
  COPPICE_NOT_FOUND = 5,
  COPPICE_UNAVAILABLE = 6,   /* No driver, no device. */
  COPPICE_UNIMPLEMENTED = 7, /* The driver, or this library, cannot. */
  COPPICE_ABORTED = 8,       /* A capture was broken; try again. */
  COPPICE_PERMISSION_DENIED = 9,
  COPPICE_ALREADY_EXISTS = 10,
  COPPICE_INTERNAL = 11, /* A driver's error without another code, or a defect. */
  COPPICE_UNKNOWN = 12,  /* A callback's own. */
};

/* "invalid argument"; "unknown" for what is none. */
COPPICE_API const char* coppice_status_name(coppice_status status);

/* Writes the message of this thread's last failure, cut off to fit with its NUL, and returns the
 * bytes of all of it, without the NUL. Nothing is written to a null buffer or one of 0 bytes. It
 * stays until the thread's next failure. */
COPPICE_API size_t coppice_last_error(char* buffer, size_t buffer_bytes);

/* The CUresult of that failure, or 0 if no driver call was the cause. */
COPPICE_API int32_t coppice_last_driver_result(void);

/* Sets the message that a failing callback wants to be told. Of an error that the callback returns,
 * coppice adds it to its own. */
COPPICE_API void coppice_set_error(const char* message);

/* ---- Handles ------------------------------------------------------------------------------------
 */

typedef struct coppice_device coppice_device;
typedef struct coppice_package coppice_package;
typedef struct coppice_session coppice_session;
typedef struct coppice_program coppice_program; /* Of a session. */
typedef struct coppice_binding coppice_binding; /* Of a session. */
typedef struct coppice_lease coppice_lease;
typedef struct coppice_read coppice_read;
typedef struct coppice_chain coppice_chain;
typedef struct coppice_loan coppice_loan;
typedef struct coppice_context coppice_context; /* Of one run of a callable, during it only. */
typedef struct coppice_kernels coppice_kernels; /* A loaded image. */
typedef struct coppice_kernel coppice_kernel;   /* Of coppice_kernels. */

/* A tensor that goes out. `tensor.shape` and `tensor.strides` are this struct's own arrays. */
typedef struct coppice_view {
  uint32_t struct_size;
  uint32_t reserved;
  DLTensor tensor;
  int64_t shape[8];
  int64_t strides[8];
} coppice_view;

/* ---- Devices ------------------------------------------------------------------------------------
 */

enum {
  COPPICE_DEVICE_AUTO = 0, /* CUDA if it has a device, else the emulator. */
  COPPICE_DEVICE_CUDA = 1,
  COPPICE_DEVICE_EMULATOR = 2, /* At most one per process at a time. */
};

/* Where a device takes memory from, in place of cuMemAlloc: what coppice_memory_allocate and
 * coppice_external_allocate give out, and what coppice_lease_detach copies to. All else is a
 * session's own and does not come from here: its windows, of which it maps and unmaps pages, its
 * constants and parameters, and what coppice_include keeps.
 *
 * Both are called with the device's context current, on any thread, by several at once, and call
 * nothing of coppice but coppice_set_error. `user` stays until the device has ended. */
typedef struct coppice_memory_provider {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  /* Sets an address that is a multiple of 256. `stream` is that of the copies that come first, or
   * null: any. */
  coppice_status (*allocate)(void* user, int64_t bytes, void* stream, uint64_t* address);
  /* Copies of coppice_lease_detach have been made by then; who frees by coppice_memory_free or
   * coppice_external_free knows what else has run. */
  void (*free)(void* user, uint64_t address, int64_t bytes);
} coppice_memory_provider;

typedef struct coppice_device_options {
  uint32_t struct_size;
  int32_t kind;    /* COPPICE_DEVICE_... */
  int32_t ordinal; /* Of CUDA's devices. */
  /* The rest is the emulator's; see coppice/runtime/emulator.h. */
  int32_t compute_capability; /* 80, 86, 89 or 90; 0: 90. */
  int64_t memory_bytes;       /* A multiple of 2 MiB; 0: 4 GiB. */
  uint64_t seed;              /* Of the order of execution; 0: 1. */
  int32_t compiled_kernels;   /* Not 0: the library's own kernels run as PTX too. */
  int32_t uninitialized_read; /* Not 0: reports what reads bytes that nobody wrote. */
  /* Of both. */
  const coppice_memory_provider* provider; /* Copied. Null: cuMemAlloc. */
} coppice_device_options;

typedef struct coppice_device_info {
  uint32_t struct_size;
  int32_t kind;           /* COPPICE_DEVICE_CUDA or COPPICE_DEVICE_EMULATOR. */
  int32_t dl_device_type; /* Of its tensors. */
  int32_t ordinal;
  int64_t total_bytes;
  char name[64];
} coppice_device_info;

/* Opens a device and makes its context current on this thread. Errors: unavailable: there is no
 * such device; failed precondition: the process has an emulator. */
COPPICE_API coppice_status coppice_device_open(const coppice_device_options* options,
                                               coppice_device** out);
COPPICE_API void coppice_device_release(coppice_device* device);
COPPICE_API coppice_status coppice_device_make_current(coppice_device* device);
COPPICE_API coppice_status coppice_device_describe(coppice_device* device,
                                                   coppice_device_info* out);

/* Waits for all work of the device. Errors: what the device's work ran into: a fault, or a function
 * of COPPICE_ON_HOST that failed, each told once. */
COPPICE_API coppice_status coppice_device_synchronize(coppice_device* device);

/* What the emulator found wrong so far (races, undeclared accesses, functions of COPPICE_ON_HOST
 * that failed, ...), a line each, equal ones once, the last 100 and a fault: as coppice_last_error.
 * 0 on CUDA, and of a run that is in order. */
COPPICE_API size_t coppice_device_findings(coppice_device* device,
                                           char* buffer,
                                           size_t buffer_bytes);

/* How many findings there were so far, equal ones each. What a call runs into is what is found
 * behind those that there were before it, once the device has been synchronised:
 *
 *   coppice_device_finding_count(device, &before);
 *   ...
 *   coppice_device_synchronize(device);
 *   coppice_device_findings_since(device, before, text, sizeof(text), NULL);
 *
 * `written` (may be null) gets the bytes of the whole text, without the NUL. 0 on CUDA. */
COPPICE_API coppice_status coppice_device_finding_count(coppice_device* device, int64_t* count);
COPPICE_API coppice_status coppice_device_findings_since(
    coppice_device* device, int64_t since, char* buffer, size_t buffer_bytes, size_t* written);

/* Makes an emulator as new after a fault, which else stays: memory, streams and kernels of it are
 * gone, and what was loaded has to be loaded again; old handles may be released. Makes its context
 * current on this thread; other threads call coppice_device_make_current. Requires: no other thread
 * calls anything of the device. Errors: failed precondition: there are sessions of it, or reads of
 * their outputs: release them first; unimplemented: on CUDA, where the process has to end. */
COPPICE_API coppice_status coppice_device_reset(coppice_device* device);

/* The driver's function of CUDA's name, such as "cuGraphCreate", at the version that
 * coppice/runtime/driver_entries.inc gives it, which lists those there are: for what this header
 * has not, on the emulator as on a GPU. To be called as its real type, while the device lives.
 * Errors: not found: the list has no such name. */
typedef void (*coppice_driver_function)(void);
COPPICE_API coppice_status coppice_driver_entry(coppice_device* device,
                                                const char* name,
                                                coppice_driver_function* out);

/* Memory and streams, for programs that have no other library for these. Copies wait for the
 * stream, and with it for what was queued before. What is left goes with the device. */
COPPICE_API coppice_status coppice_memory_allocate(coppice_device* device,
                                                   int64_t bytes,
                                                   uint64_t* address);
COPPICE_API coppice_status coppice_memory_free(coppice_device* device, uint64_t address);
COPPICE_API coppice_status coppice_copy_to_device(
    coppice_device* device, uint64_t to, const void* from, int64_t bytes, void* stream);
COPPICE_API coppice_status
coppice_copy_to_host(coppice_device* device, void* to, uint64_t from, int64_t bytes, void* stream);
COPPICE_API coppice_status coppice_stream_create(coppice_device* device, void** stream);
COPPICE_API coppice_status coppice_stream_destroy(coppice_device* device, void* stream);
COPPICE_API coppice_status coppice_stream_synchronize(coppice_device* device, void* stream);

/* ---- Kernel packages ----------------------------------------------------------------------------
 */

typedef struct coppice_package_options {
  uint32_t struct_size;
  int32_t allow_ptx;           /* Not 0: a GPU may compile PTX, for seconds. */
  const uint8_t* trusted_keys; /* Ed25519, 32 bytes each: one of them must have signed. */
  int64_t trusted_key_count;
} coppice_package_options;

/* Opens a folder or a zip file and loads its kernels; not during a capture. */
COPPICE_API coppice_status coppice_package_load(coppice_device* device,
                                                const char* path,
                                                const coppice_package_options* options,
                                                coppice_package** out);
/* The same of a zip file in memory, which is copied. `name` is for messages. */
COPPICE_API coppice_status coppice_package_load_memory(coppice_device* device,
                                                       const void* zip,
                                                       int64_t zip_bytes,
                                                       const char* name,
                                                       const coppice_package_options* options,
                                                       coppice_package** out);
COPPICE_API void coppice_package_release(coppice_package* package);

/* manifest.json, as canonical JSON, without a NUL behind it. Lives as long as the package. */
COPPICE_API coppice_status coppice_package_manifest(coppice_package* package,
                                                    const char** text,
                                                    int64_t* text_bytes);

/* ---- Kernels of the caller's own ----------------------------------------------------------------
 * What callables launch, and anybody on a stream of his: by name, on a GPU and on the emulator.
 *
 *   coppice_kernels_load(device, ptx, ptx_bytes, &kernels);
 *   coppice_kernel_get(kernels, "Scale", &scale);
 *   void* arguments[] = {&x, &y, &count, &factor};
 *   coppice_launch_shape shape = {.struct_size = sizeof(shape), .grid = {blocks}, .block = {128}};
 *   coppice_launch(scale, &shape, arguments, 4, stream);
 */

/* KernelLibrary::Load of a cubin, a fatbin or the text of PTX, which is copied. The emulator
 * executes PTX, also out of a fatbin. Errors: the message has what the driver's compiler says. */
COPPICE_API coppice_status coppice_kernels_load(coppice_device* device,
                                                const void* image,
                                                int64_t image_bytes,
                                                coppice_kernels** out);
/* A session keeps an image whose kernels a program of its launched, until that is unregistered.
 * What was launched on streams otherwise must have run. */
COPPICE_API void coppice_kernels_release(coppice_kernels* kernels);

/* Equal names give the same kernel. Errors: not found: the message lists the kernels there are. */
COPPICE_API coppice_status coppice_kernel_get(coppice_kernels* kernels,
                                              const char* name,
                                              coppice_kernel** out);

typedef struct coppice_kernel_info {
  uint32_t struct_size;
  int32_t parameter_count; /* -1: the driver is older than CUDA 12.4 and cannot tell. */
  const char* name;
  /* Of each parameter, in order; arrays and name live as long as the image. Null if there are none.
   */
  const int64_t* parameter_offsets;
  const int64_t* parameter_bytes;
} coppice_kernel_info;
COPPICE_API coppice_status coppice_kernel_describe(coppice_kernel* kernel,
                                                   coppice_kernel_info* out);

/* As LaunchShape of coppice/runtime/launch.h. */
typedef struct coppice_launch_shape {
  uint32_t struct_size;
  uint32_t shared_bytes; /* Dynamic, as much as the device has. */
  uint32_t grid[3];      /* Blocks; the first at least 1, 0 for the others is 1. */
  uint32_t block[3];     /* Threads; the same. */
  uint32_t cluster[3];   /* Blocks that share a cluster; first 0: none; 0 for the others is 1. */
  int32_t cooperative;
  int32_t programmatic; /* May start before the stream's last kernel has ended. */
} coppice_launch_shape;

/* Launches on `stream`, into a capture if that captures, as it does while a callable is recorded.
 * `arguments` are pointers to the values, one per parameter, which are copied before this returns.
 * What was never launched before may not be what a capture allows: a warm-up run comes first.
 * Errors: invalid argument: another number of parameters, a null pointer, a shape beyond what the
 * kernel or the device allows; unimplemented: what the emulator does not execute. */
COPPICE_API coppice_status coppice_launch(coppice_kernel* kernel,
                                          const coppice_launch_shape* shape,
                                          void* const* arguments,
                                          int32_t argument_count,
                                          void* stream);

/* ---- Sessions -----------------------------------------------------------------------------------
 */

/* What a session may do about graphs. */
enum {
  COPPICE_STANCE_RECORD = 0,      /* Warm up, record and replay. */
  COPPICE_STANCE_REPLAY_ONLY = 1, /* Replay what is recorded; everything else runs eagerly. */
  COPPICE_STANCE_EAGER = 2,       /* No graphs. */
  /* Replay; a call that cannot is an error that says why, and runs nothing. */
  COPPICE_STANCE_STRICT = 3,
};
/* What a call does that would need one graph too many. */
enum {
  COPPICE_ON_LIMIT_DEFAULT = 0, /* As the field says. */
  COPPICE_ON_LIMIT_EAGER = 1,   /* Runs without a graph. */
  COPPICE_ON_LIMIT_ERROR = 2,   /* Fails. */
  /* Drops the graph that is worth least: long unused, large in bytes and cheap to record again. */
  COPPICE_ON_LIMIT_EVICT = 3,
};

/* Whether kernels of packages that have several variants are timed before a bucket is recorded, so
 * that each bucket launches the fastest of each. */
enum {
  COPPICE_VARIANTS_ON_DEVICE = 0, /* Not on the emulator, whose time says nothing. */
  COPPICE_VARIANTS_ALWAYS = 1,    /* On the emulator, too. */
  COPPICE_VARIANTS_NEVER = 2,     /* The first variants are launched. */
};

/* What the ranks of a program that launches collectives agree on; see RankVote of
 * coppice/graphs/session_options.h. Sets the extents and the kind to what all agreed. */
typedef struct coppice_vote {
  uint32_t struct_size;
  int32_t kind; /* COPPICE_RUN_...: replay, record, warm-up or eager. */
  coppice_program* program;
  int64_t* bucket;
  int32_t bucket_count;
  int32_t unanimous;
} coppice_vote;

/* SessionOptions of coppice/graphs/session_options.h. A flag that is not 0 is set; a
 * function that is null is not called. */
typedef struct coppice_session_options {
  uint32_t struct_size;
  int32_t stance;      /* What calls may do about graphs: COPPICE_STANCE_... */
  int32_t lanes;       /* Calls on different lanes may run at the same time. 1 to 1,024; 0: 1. */
  int32_t warmup_runs; /* Calls of a bucket that run before it is recorded. 0: 1. */
  /* Records programs that are `thread_safe` on a thread of the session; calls run eagerly
   * meanwhile. */
  int32_t record_in_background;
  /* Times live calls with and without their graph, and gives up graphs that are not faster. */
  int32_t gate;
  int32_t graphs_per_program_max; /* Graphs of a program on a lane. 0: 1,024, -1: none. */
  /* Recordings of a bucket because a static input moved; those beyond count as graphs over the
   * limit. 0: 128, -1: none. */
  int32_t rerecords_per_bucket_max;
  /* Recordings of one bucket in which a static input may have moved; one more, and every call
   * copies it. 0: 32, -1: none. */
  int32_t static_moves_max;
  /* What a call does that would need one graph too many: COPPICE_ON_LIMIT_...; 0: eager. */
  int32_t on_limit;
  /* What a recording does that lacks room: COPPICE_ON_LIMIT_...; 0: evict. */
  int32_t on_budget;
  int32_t keep_drawings;   /* Keeps a drawing of every recording, to be dumped. */
  int64_t window_bytes;    /* Virtual size of a lane's windows; 0: device memory. */
  int64_t workspace_bytes; /* For libraries, per lane; 0: none. */
  int64_t copy_out_bytes;  /* For outputs that are copied out, per lane; 0: none. */
  /* What the session may hold at once: its windows, its graphs (an estimate) and what the
   * application reports; 0: no budget. */
  int64_t budget_bytes;
  /* Refuses buckets whose kernels' parameters depend on what is not in the key. */
  int32_t audit_keys;
  /* Asks the driver at every call whether tensors lie in live memory of the device. */
  int32_t check_addresses;
  /* Fills all that a graph writes with 0xCB bytes before each call, so that whoever kept a pointer
   * to what lay there sees it. */
  int32_t fill_expired;
  /* A call that finds the ring full waits until the file has taken what is in it, in place of
   * dropping the event and counting it. */
  int32_t trace_wait_when_full;
  /* The file that a trace is written to, made anew; null or empty: no trace. */
  const char* trace_path;
  /* Events that a lane's ring holds, 64 bytes each, rounded up to 2^n. 16 to 67,108,864; 0:
   * 65,536. */
  int64_t trace_events_per_lane;
  /* Receives one line per program and reason that keeps its calls from replaying. */
  void (*log)(void* user, const char* line);
  /* What ranks agree by: called by every call before it runs, with this rank's vote. */
  coppice_status (*vote)(void* user, coppice_vote* vote);
  /* Called before a call that was agreed to record, also by ranks that have the graph. */
  coppice_status (*barrier)(void* user);
  void* user; /* Of the functions. */
  /* Whether kernels of packages that have several variants are timed: COPPICE_VARIANTS_... */
  int32_t variant_timing;
  int32_t reserved;
  /* What recordings are timed by: nanoseconds that never go back; null: a steady clock. */
  int64_t (*now_ns)(void* user);
} coppice_session_options;

COPPICE_API coppice_status coppice_session_create(coppice_device* device,
                                                  const coppice_session_options* options,
                                                  coppice_session** out);
/* Waits for recordings and for work in flight. Leases that are left are empty from then on; the
 * session ends when the last open scope, chain and loan do. */
COPPICE_API void coppice_session_release(coppice_session* session);

COPPICE_API coppice_status coppice_set_stance(coppice_session* session, int32_t stance);
COPPICE_API coppice_status coppice_set_seed(coppice_session* session, uint64_t seed);

/* ---- Programs -----------------------------------------------------------------------------------
 */

/* How a symbol's sizes become buckets: a ladder in words, as PaddingPolicy::Parse reads them
 * ("pow2", "linear:16", "geometric:1.25:8", "1,2,4,8", "exact", or a preset: "vllm"), up to
 * `maximum`, where 0 is a preset's own; or, where `text` begins with "{", as JSON: {"version": 1,
 * "ladder": "pow2", "maximum": 64} or {"version": 1, "buckets": [1, 2, 4, 8]}, perhaps with a guard
 * (coppice/padding/policy_document.h), as coppice_learn_policy and `coppice tune` write it, and
 * `maximum` must be 0 or the same. */
typedef struct coppice_policy {
  uint32_t struct_size;
  uint32_t reserved;
  const char* symbol; /* Of a package's program: its name there. Otherwise ignored. */
  const char* text;
  int64_t maximum;
  /* Calls after which a call counts half as much in what coppice_rebucket learns from; infinite:
   * none is forgotten; 0: nobody counts them. */
  double observe_half_life;
} coppice_policy;

/* Writes the first `capacity` buckets of a policy to `buckets`, in order, and how many there are to
 * `out`; the last one is the maximum. Of "exact" every size is one. */
COPPICE_API coppice_status coppice_policy_buckets(const coppice_policy* policy,
                                                  int64_t* buckets,
                                                  int64_t capacity,
                                                  int64_t* out);

/* How the sizes of two symbols become buckets together, as JointSpec of coppice/graphs/program.h
 * has it: in words, as JointPolicy::Parse reads them, pairs ("1x512,4x128") or a ladder for each
 * ("pow2/linear:64"), perhaps with a rule ("pow2/pow2/budget:2048"), up to the maxima, of which 0
 * is that of a ladder that is a preset; or, where `text` begins with "{", as JSON: {"version": 1,
 * "buckets": [[1, 512], [4, 128]]} or {"version": 1, "grid": "pow2/pow2", "limit": [4, 512]}
 * (coppice/padding/joint_document.h), as `coppice tune` writes it for two columns, and the maxima
 * must be 0 or the same. Neither symbol has a policy of its own. */
typedef struct coppice_joint_policy {
  uint32_t struct_size;
  uint32_t reserved;
  const char* a; /* Names of the symbols: of the sizes that a bucket names first, */
  const char* b; /* and second. */
  const char* text;
  int64_t a_maximum;
  int64_t b_maximum;
} coppice_joint_policy;

/* The same of a joint policy, whose names are ignored: two numbers are written per bucket, as far
 * as `capacity` buckets have room. Errors: invalid argument: there is room for some, and the policy
 * has more than 65,536: give none, and it tells how many. */
COPPICE_API coppice_status coppice_joint_policy_buckets(const coppice_joint_policy* policy,
                                                        int64_t* buckets,
                                                        int64_t capacity,
                                                        int64_t* out);

/* As LearnOptions of coppice/padding/learn_buckets.h. A bucket count or a price must be given. */
typedef struct coppice_learn_options {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t limit;         /* The last bucket; 0: the largest size. */
  int64_t bucket_count;  /* At most, but for those that double; 0: as many as pay their price. */
  double price;          /* Of a bucket, in elements of padding. */
  int64_t align;         /* 0: 1. */
  const int64_t* forced; /* Sizes that are buckets in every case. */
  int64_t forced_count;
  double prior;     /* Share of weight on sizes that nobody called; 0: 0.05; negative: none. */
  double max_ratio; /* 0: no cap. */
  int64_t max_gap;
} coppice_learn_options;

/* LearnBuckets: the policy that pads these sizes the least, as JSON for coppice_policy.text. As
 * coppice_explain. `counts` are the calls of each size, and a size may be there twice; null: one
 * call each. Cost: seconds for limits of millions. */
COPPICE_API coppice_status coppice_learn_policy(const int64_t* sizes,
                                                const double* counts,
                                                int64_t size_count,
                                                const coppice_learn_options* options,
                                                char* buffer,
                                                size_t buffer_bytes,
                                                size_t* text_bytes);

enum { /* What the padding of a symbol may hold; the words of coppice/base/padding_claim.h. */
       COPPICE_PADDING_NO_CLAIM = 0,
       COPPICE_PADDING_ANY = 1,
       COPPICE_PADDING_FINITE = 2,
       COPPICE_PADDING_FILL = 3,
       COPPICE_PADDING_ROW_INDEPENDENT = 4,
};
typedef struct coppice_claim {
  uint32_t struct_size;
  int32_t padding;    /* COPPICE_PADDING_... */
  const char* symbol; /* As coppice_policy. */
  double absolute;    /* How far live outputs may be apart; both 0: equal bit for bit. */
  double relative;
} coppice_claim;

/* How a function of a `call` step runs. */
enum {
  /* Once per recording and in each run without a graph: it launches on the stream. */
  COPPICE_LAUNCHES = 0,
  /* Of the emulator alone, in every run and replay: it computes on the host, at its place in the
   * order of the stream, and the emulator checks that order. It reads `inputs`, writes `outputs`
   * and nothing else of the device, and calls nothing of coppice. `stream` is null. */
  COPPICE_ON_HOST = 1,
};
typedef struct coppice_function_call {
  uint32_t struct_size;
  int32_t input_count;
  const DLTensor* inputs; /* An array. */
  const DLTensor* outputs;
  int32_t output_count;
  int32_t option_count;
  const char* const* option_names;
  /* Of each option its value as text, integers in decimals. */
  const char* const* option_values;
  void* stream;
} coppice_function_call;
typedef coppice_status (*coppice_step_function)(void* user, const coppice_function_call* call);

typedef struct coppice_function {
  uint32_t struct_size;
  int32_t when;     /* COPPICE_LAUNCHES or COPPICE_ON_HOST. */
  const char* name; /* As the package calls it. */
  coppice_step_function run;
  void* user;
  /* Called when nobody will run it any more, perhaps on another thread; null: nothing. */
  void (*release)(void* user);
} coppice_function;

typedef struct coppice_named_tensor {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name;
  const DLTensor* tensor;
} coppice_named_tensor;

/* Elements of an array of structs are `struct_size` of its first element apart. */
typedef struct coppice_package_program_options {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name;    /* Null: as in the package. */
  const char* variant; /* Null: none. */
  const coppice_policy* policies;
  int64_t policy_count;
  const coppice_claim* claims;
  int64_t claim_count;
  const coppice_named_tensor* constants; /* Their memory stays until the session has ended. */
  int64_t constant_count;
  const coppice_function* functions;
  int64_t function_count;
  const coppice_joint_policy* joint; /* In place of the package's own buckets, as `policies`. */
  int64_t joint_count;
} coppice_package_program_options;

/* Session::Register of a program of a package. */
COPPICE_API coppice_status coppice_register_package(coppice_session* session,
                                                    coppice_package* package,
                                                    const char* program,
                                                    const coppice_package_program_options* options,
                                                    coppice_program** out);

/* What the program promises about the elements beyond the real extents of the symbols that claim
 * nothing by themselves. */
enum {
  COPPICE_CLAIM_EXACT = 0, /* Nothing: they are never padded. */
  /* Padded rows compute something, but never reach a live row. */
  COPPICE_CLAIM_ROW_INDEPENDENT = 1,
  /* Kernels read the real extents from the parameter block and skip the padding. */
  COPPICE_CLAIM_MASKED = 2,
};
/* How a symbol's extents become buckets. */
enum {
  COPPICE_SYMBOL_AUTO = 0,    /* Static until a call brings a second extent, then maybe dynamic. */
  COPPICE_SYMBOL_DYNAMIC = 1, /* By its policy. */
  /* By its policy where the claim allows padding, else every extent by itself. */
  COPPICE_SYMBOL_MAYBE_DYNAMIC = 2,
  COPPICE_SYMBOL_STATIC = 3, /* Never padded: every extent is part of the key as it is. */
};
/* What an element of the padding is. */
enum {
  COPPICE_FILL_ZERO = 0,  /* 0 in the input's dtype. */
  COPPICE_FILL_VALUE = 1, /* A number, converted to the input's dtype. */
  /* All bits set: -1 in signed integers, NaN in floats; no kernel takes it for data. */
  COPPICE_FILL_SENTINEL = 2,
  COPPICE_FILL_REPEAT_LAST = 3, /* The last real element along each axis. */
  /* What was there, which may be any bits: no symbol of the input may claim less. */
  COPPICE_FILL_UNDEFINED = 4,
};

typedef struct coppice_symbol_spec {
  uint32_t struct_size;
  int32_t kind; /* COPPICE_SYMBOL_... */
  const char* name;
  const coppice_policy* policy; /* Null: every size by itself, "exact". */
  int64_t min;
  int64_t max; /* 0: none. */
  int64_t multiple_of;
  int32_t exclude_01;
  int32_t given;
  int32_t over_maximum_is_error;
  int32_t counted;
  const char* scalar;         /* Whose value is its extent; null: none. */
  const coppice_claim* claim; /* Null: what the program claims. */
} coppice_symbol_spec;

/* An input or an output. A size is a text: a number, a symbol, ragged sequences, or an expression
 * of symbols and key scalars, such as "2*n" (coppice/base/expression.h). */
typedef struct coppice_tensor_spec {
  uint32_t struct_size;
  DLDataType dtype;
  const char* name;
  const char* const* shape;
  const char* const* strides; /* Null: row-major without gaps. */
  int32_t rank;
  int32_t is_static; /* Bound once, by coppice_bind. */
  /* Of inputs. */
  int32_t mutated;
  int32_t fill; /* COPPICE_FILL_... */
  double fill_value;
  int64_t alignment; /* 0: 16. */
  /* Of outputs: the name of the output that counts it, along `count_axis`; null: none. */
  const char* count;
  int32_t count_axis;
  int32_t reserved;
} coppice_tensor_spec;

typedef struct coppice_scalar_spec {
  uint32_t struct_size;
  int32_t device_resident;
  const char* name;
} coppice_scalar_spec;

/* What says which rows are whose. */
enum {
  COPPICE_RAGGED_LENGTHS = 0, /* The rows of each sequence. */
  COPPICE_RAGGED_OFFSETS = 1, /* Where each begins, and where the last one ends. */
};
/* Sequences whose rows callers pack, as RaggedSpec of coppice/graphs/program.h has them: what a
 * tensor has whose first size is `name`. */
typedef struct coppice_ragged_spec {
  uint32_t struct_size;
  int32_t by;          /* COPPICE_RAGGED_... */
  const char* name;    /* That no symbol has. */
  const char* count;   /* Names of symbols: how many sequences there are, */
  const char* total;   /* rows of all of them, */
  const char* length;  /* and of the longest, for a rectangle; null: packed. */
  const char* lengths; /* The name of the input that says which rows are whose. */
} coppice_ragged_spec;

/* Whether a program's graphs must earn their keep; see SessionOptions::gate. */
enum {
  COPPICE_GATE_SESSION = 0, /* As the session's options say. */
  COPPICE_GATE_OFF = 1,     /* What is recorded is replayed. */
  /* Live calls are timed both ways, and each bucket keeps the faster one. */
  COPPICE_GATE_ON = 2,
  COPPICE_GATE_ALWAYS_EAGER = 3, /* Never recorded, never replayed. */
};

typedef struct coppice_program_spec {
  uint32_t struct_size;
  int32_t claim; /* COPPICE_CLAIM_... */
  const char* name;
  const char* variant;
  const coppice_symbol_spec* symbols;
  int64_t symbol_count;
  const coppice_tensor_spec* inputs;
  int64_t input_count;
  const coppice_tensor_spec* outputs;
  int64_t output_count;
  const coppice_scalar_spec* scalars;
  int64_t scalar_count;
  const char* const* guards;
  int64_t guard_count;
  int64_t random_numbers_per_call;
  int32_t one_stream;
  int32_t thread_safe;
  const coppice_joint_policy* joint; /* Of symbols that are padded two and two. */
  int64_t joint_count;
  const coppice_ragged_spec* ragged;
  int64_t ragged_count;
  int32_t gate; /* COPPICE_GATE_... */
  int32_t reserved;
} coppice_program_spec;

/* Launches the program's kernels on the context's stream; see Callable of coppice/graphs/program.h.
 * A status other than OK fails the run with that code. */
typedef coppice_status (*coppice_callable)(void* user, coppice_context* context);

/* Session::Register of a callable. `release` is called with `user` when nobody will run it any
 * more, perhaps on another thread, also if this fails; null: nothing. */
COPPICE_API coppice_status coppice_register_callable(coppice_session* session,
                                                     const coppice_program_spec* spec,
                                                     coppice_callable callable,
                                                     void* user,
                                                     void (*release)(void* user),
                                                     coppice_program** out);

enum { COPPICE_PHASE_WARM_UP = 0, COPPICE_PHASE_RECORD = 1, COPPICE_PHASE_EAGER = 2 };
typedef struct coppice_context_info {
  uint32_t struct_size;
  int32_t phase; /* COPPICE_PHASE_... */
  void* stream;
  uint64_t parameters; /* Address of the parameter block. */
  uint64_t workspace;
  int64_t workspace_bytes;
} coppice_context_info;

COPPICE_API coppice_status coppice_context_describe(coppice_context* context,
                                                    coppice_context_info* out);
/* Padded, of a symbol by its index. */
COPPICE_API coppice_status coppice_context_extent(coppice_context* context,
                                                  int32_t symbol,
                                                  int64_t* out);
COPPICE_API coppice_status coppice_context_scalar(coppice_context* context,
                                                  int32_t scalar,
                                                  int64_t* out);
COPPICE_API coppice_status coppice_context_input(coppice_context* context,
                                                 int32_t input,
                                                 coppice_view* out);
/* CallContext::offsets: where each sequence begins and the last one ends, of ragged sequences by
 * their index. */
COPPICE_API coppice_status coppice_context_offsets(coppice_context* context,
                                                   int32_t ragged,
                                                   coppice_view* out);
/* Each output is asked for, or made an alias, once. */
COPPICE_API coppice_status coppice_context_output(coppice_context* context,
                                                  int32_t output,
                                                  coppice_view* out);
COPPICE_API coppice_status coppice_context_alias_output(coppice_context* context,
                                                        int32_t output,
                                                        uint64_t address);
COPPICE_API coppice_status coppice_context_allocate(coppice_context* context,
                                                    int64_t bytes,
                                                    uint64_t* address);
/* The same of bytes that people call `label` in traces, maps and drawings. */
COPPICE_API coppice_status coppice_context_allocate_labelled(coppice_context* context,
                                                             int64_t bytes,
                                                             const char* label,
                                                             uint64_t* address);
COPPICE_API coppice_status coppice_context_free(coppice_context* context, uint64_t address);

/* Puts a graph of the caller's, a CUgraph, into the run at the stream's place: a recording takes a
 * copy as a child graph, any other run instantiates it and launches it on the stream. It may be
 * changed or destroyed once this returns, but what its nodes use, memory and kernels, is as it was
 * captured in every replay, and stays the caller's to keep. Errors: invalid argument: a node that
 * no child graph holds: one that allocates or frees memory, or has a condition. */
COPPICE_API coppice_status coppice_context_add_graph(coppice_context* context, void* graph);

/* Host code between two graphs of a program; it may enqueue work on the call's stream and wait for
 * it. A status other than OK fails the call with that code; of a run without a graph,
 * coppice_context_break returns it, and the callable passes it on. */
typedef coppice_status (*coppice_eager_step)(void* user, void* stream);
/* CallContext::Break: ends the graph recorded so far, and begins another after `step`, which is
 * never captured: runs without a graph call it at once, every replay calls it between the two
 * graphs, on the thread that calls the session. `release` is called with `user` when nobody will
 * call it any more, perhaps on another thread, also if this fails; null: nothing. */
COPPICE_API coppice_status coppice_context_break(coppice_context* context,
                                                 coppice_eager_step step,
                                                 void* user,
                                                 void (*release)(void* user));

/* Null in `out`, and COPPICE_NOT_FOUND, if there is none. */
COPPICE_API coppice_status coppice_find(coppice_session* session,
                                        const char* name,
                                        const char* variant,
                                        coppice_program** out);
COPPICE_API coppice_status coppice_reset(coppice_session* session, coppice_program* program);
COPPICE_API coppice_status coppice_unregister(coppice_session* session, coppice_program* program);
/* Static inputs in spec order, then static outputs. */
COPPICE_API coppice_status coppice_bind(coppice_session* session,
                                        coppice_program* program,
                                        const DLTensor* const* statics,
                                        int64_t static_count,
                                        coppice_binding** out);
COPPICE_API coppice_status coppice_unbind(coppice_session* session, coppice_binding* binding);

/* ---- Calls --------------------------------------------------------------------------------------
 */

/* What poison mode writes in place of every fill that the claim lets it. */
enum {
  COPPICE_POISON_OFF = 0, /* The fill stays. */
  COPPICE_POISON_NAN = 1, /* A quiet NaN for floats and both parts of complex numbers. */
  /* 0x5A in every byte: a large finite float, a large positive integer. */
  COPPICE_POISON_PATTERN = 2,
  COPPICE_POISON_NOISE = 3, /* Another one in each element; in each call of a session, too. */
};
/* Where a call's outputs go. */
enum {
  COPPICE_BORROW = 0, /* They stay in the lane's window; see lease.h. */
  /* Copied behind the graph to memory of the lane's own; needs copy_out_bytes. */
  COPPICE_COPY_OUT = 1,
  COPPICE_WRITE_INTO = 2, /* Copied behind the graph into Call::targets. */
};

typedef struct coppice_call {
  uint32_t struct_size;
  int32_t lane;
  coppice_program* program;
  coppice_binding* binding;      /* Null only if the program binds nothing. */
  const DLTensor* const* inputs; /* The copied ones, in spec order. */
  int64_t input_count;
  const int64_t* scalars;
  int64_t scalar_count;
  const int64_t* extents; /* Of the symbols that are given. */
  int64_t extent_count;
  const DLTensor* const* targets; /* For COPPICE_WRITE_INTO, one per output. */
  int64_t target_count;
  void* stream;
  int32_t output_mode; /* COPPICE_BORROW, COPPICE_COPY_OUT or COPPICE_WRITE_INTO. */
  int32_t poison;      /* COPPICE_POISON_...: for tests. */
  /* Of the symbols that are counted, or none: where the device finds the extent, as Call::counts
   * has it. A null element: the host's extent counts. */
  const DLTensor* const* counts;
  int64_t count_count;
  /* Leases that the call may use up, as Call::donated has it: they are empty once it has run, and
   * are released as ever; one that is refused leaves them as they were. */
  coppice_lease* const* donated;
  int64_t donated_count;
} coppice_call;

/* Session::Run. Cost of a replay, beyond Session::Run: the tensors are read, the lease is allocated
 * on the host. */
COPPICE_API coppice_status coppice_run(coppice_session* session,
                                       const coppice_call* call,
                                       coppice_lease** out);
/* Session::Include: adds the program to what `call.stream` captures. The lease is of the outputs
 * that every launch of the caller's graph writes. */
COPPICE_API coppice_status coppice_include(coppice_session* session,
                                           const coppice_call* call,
                                           coppice_lease** out);
/* Session::Chain: until the chain ends, calls on the lane build on each other, so that each leaves
 * the leased outputs of those before it alone. One chain per lane at a time, used by one thread at
 * a time. */
COPPICE_API coppice_status coppice_chain_begin(coppice_session* session,
                                               int32_t lane,
                                               coppice_chain** out);
COPPICE_API void coppice_chain_end(coppice_chain* chain);
/* Session::Explain, in words; as coppice_last_error. A call that would be refused is explained,
 * too. */
COPPICE_API coppice_status coppice_explain(coppice_session* session,
                                           const coppice_call* call,
                                           char* buffer,
                                           size_t buffer_bytes,
                                           size_t* text_bytes);

/* Session::Warm: `buckets` are rows of `symbol_count` padded extents; of a program without symbols
 * there is one, of none, and `buckets` may be null. */
typedef struct coppice_warm_options {
  uint32_t struct_size;
  int32_t lane;
  coppice_binding* binding;
  coppice_binding* scratch;
  const int64_t* scalars;
  int64_t scalar_count;
  void (*progress)(void* user, int64_t done, int64_t total);
  void* user;
} coppice_warm_options;
COPPICE_API coppice_status coppice_warm(coppice_session* session,
                                        coppice_program* program,
                                        const int64_t* buckets,
                                        int64_t bucket_count,
                                        int64_t symbol_count,
                                        const coppice_warm_options* options);

/* Element `input` of the inputs (or counts) of a step is output `output` of step `step`, as
 * WarmStep::Feed has it. */
typedef struct coppice_feed {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t input;
  int64_t step;
  int64_t output;
} coppice_feed;
/* As WarmStep of coppice/graphs/session_options.h. */
typedef struct coppice_warm_step {
  uint32_t struct_size;
  uint32_t reserved;
  coppice_program* program;
  coppice_binding* binding; /* Null only if the program binds nothing. */
  coppice_binding* scratch; /* As in coppice_warm_options. */
  const int64_t* bucket;    /* A padded extent per symbol. */
  int64_t symbol_count;
  const int64_t* scalars;
  int64_t scalar_count;
  const coppice_feed* feeds; /* Other inputs are the caller's own memory. */
  int64_t feed_count;
  const coppice_feed* counts;
  int64_t count_count;
} coppice_warm_step;
/* Session::Warm of steps that feed each other. Of the options lane, progress and user count. */
COPPICE_API coppice_status coppice_warm_steps(coppice_session* session,
                                              const coppice_warm_step* steps,
                                              int64_t step_count,
                                              const coppice_warm_options* options);

typedef struct coppice_planned_bucket {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t plan_height;     /* Bytes. */
  int64_t live_bytes;      /* Most that live at once: no plan is lower. */
  const char* plan_method; /* "size"; lives as long as the library. */
} coppice_planned_bucket;
/* Session::Plan, of a package's program: fills in an element of `out` per bucket, without mapping
 * or running anything. Buckets are as in coppice_warm. */
COPPICE_API coppice_status coppice_plan(coppice_session* session,
                                        coppice_program* program,
                                        const int64_t* buckets,
                                        int64_t bucket_count,
                                        int64_t symbol_count,
                                        const int64_t* scalars,
                                        int64_t scalar_count,
                                        coppice_planned_bucket* out);

/* Why a call did not replay. */
enum {
  COPPICE_REASON_NONE = 0,       /* It replayed. */
  COPPICE_REASON_NEW_BUCKET = 1, /* First calls in this bucket: warm-up, then record. */
  /* The bucket is recorded, but for other addresses of its static inputs. */
  COPPICE_REASON_STATIC_INPUT_MOVED = 2,
  /* The bucket is recorded, but around other live outputs. */
  COPPICE_REASON_OTHER_LIVE_REGIONS = 3,
  COPPICE_REASON_EVICTED = 4, /* The bucket was recorded and evicted. */
  /* An extent, or two that are padded jointly, are in no bucket. */
  COPPICE_REASON_OVER_LARGEST_BUCKET = 5,
  COPPICE_REASON_UNPADDED_EXTENT = 6, /* An expression of extents has no place in the bucket. */
  COPPICE_REASON_GRAPH_LIMIT = 7,     /* The program has as many graphs as it may. */
  COPPICE_REASON_BYTE_LIMIT = 8,      /* The plan, or what is staged at the bucket, has no room. */
  /* Somebody broke the recording from outside; it is retried once. */
  COPPICE_REASON_CAPTURE_INVALIDATED = 9,
  /* The program itself cannot be recorded, or departs from its script. */
  COPPICE_REASON_NOT_CAPTURABLE = 10,
  COPPICE_REASON_GATE_SAYS_EAGER = 11, /* Measured: eager is faster in this bucket. */
  /* The stance, the program or the vote of the ranks forbids graphs. */
  COPPICE_REASON_USER_DISABLED = 12,
  /* A guard of a policy keeps an extent, or two, out of their bucket. */
  COPPICE_REASON_PADDED_TOO_MUCH = 13,
};
/* What a call did. */
enum {
  COPPICE_RUN_REPLAY = 0, /* Launched a recorded graph. */
  COPPICE_RUN_RECORD = 1, /* Recorded the graph, then launched it. */
  /* Ran the program at the bucket without a graph, and noted its allocations. */
  COPPICE_RUN_WARM_UP = 2,
  COPPICE_RUN_EAGER = 3,   /* Ran the program at the call's own extents without a graph. */
  COPPICE_RUN_INCLUDE = 4, /* Put the program into the caller's own capture, as a child graph. */
};
/* "replay", and the reason of a call that did not replay: "new_bucket"; "unknown" for no such. */
COPPICE_API const char* coppice_run_kind_name(int32_t kind);
COPPICE_API const char* coppice_reason_name(int32_t reason);

typedef struct coppice_lease_info {
  uint32_t struct_size;
  int32_t kind; /* COPPICE_RUN_... */
  int32_t reason;
  int32_t output_count; /* 0 once its session is gone, or the lease empty. */
  uint64_t call_number;
  int32_t is_part; /* Not 0: of output `part` alone; the others count, but cannot be read. */
  int32_t part;
} coppice_lease_info;

COPPICE_API coppice_status coppice_lease_describe(coppice_lease* lease, coppice_lease_info* out);
/* Gives the outputs up, when the last scope on them has ended. Any thread. */
COPPICE_API void coppice_lease_release(coppice_lease* lease);
/* The same, where work that is queued on `stream` by now may still read the outputs: the lane's
 * next use comes behind it. Releases the lease even if it fails. Errors: as Lease::Release; failed
 * precondition: a scope is open, whose end alone decides. */
COPPICE_API coppice_status coppice_lease_release_after(coppice_lease* lease, void* stream);

/* Lease::Split: a lease for each output, in `out`, whose `out_count` is the lease's output_count.
 * The lease is empty afterwards, and released as ever; after an error it is as it was. Errors: also
 * failed precondition: a scope is open. */
COPPICE_API coppice_status coppice_lease_split(coppice_lease* lease,
                                               coppice_lease** out,
                                               int64_t out_count);

/* Opens a scope: Lease::Read. A call that would write over the outputs is refused until it ends. */
COPPICE_API coppice_status coppice_lease_read(coppice_lease* lease,
                                              void* stream,
                                              coppice_read** out);
/* Output `index` at the call's real sizes. */
COPPICE_API coppice_status coppice_read_output(coppice_read* scope,
                                               int32_t index,
                                               coppice_view* out);
/* The same as far as the device counted it: waits for the scope's stream. */
COPPICE_API coppice_status coppice_read_sized_output(coppice_read* scope,
                                                     int32_t index,
                                                     coppice_view* out);
/* ReadScope::count: where the device writes how much of output `index` there is, for
 * coppice_call.counts. Errors: not found: nothing counts the output. */
COPPICE_API coppice_status coppice_read_count(coppice_read* scope,
                                              int32_t index,
                                              coppice_view* out);
/* Ends the scope: the lane's next use comes behind the work queued on the stream so far. */
COPPICE_API void coppice_read_end(coppice_read* scope);

/* Lease::Detach: copies the outputs on `stream` into memory of their own, and fills in one tensor
 * per output, each of which its deleter gives back, on any thread, when the work that reads it has
 * run. What lies in the caller's own targets is not copied. The lease is empty afterwards.
 * `out_count` is the lease's output_count; of a part, 1. */
COPPICE_API coppice_status coppice_lease_detach(coppice_lease* lease,
                                                void* stream,
                                                DLManagedTensorVersioned** out,
                                                int64_t out_count);

/* ---- Buckets that follow traffic ----------------------------------------------------------------
 * Of symbols whose policy has an observe_half_life; see coppice/graphs/rebucket.h. `symbol` is the
 * symbol's name in its program. */

/* Where a field is 0, what RebucketOptions and RelearnFor say. */
typedef struct coppice_rebucket_options {
  uint32_t struct_size;
  int32_t dry_run;           /* Not 0: only learns, and reports. */
  int64_t period;            /* Calls between two times; negative: at any time. */
  int64_t bucket_count;      /* At most, but for those beyond all calls; 0: as many in all as the
                              * policy in force has, or, with a cost_per_byte, the one that was
                              * registered, if that has more. */
  int64_t added_max;         /* Buckets that the policy in force has not; negative: none. */
  double gain_min;           /* Points of waste and price that a swap saves; negative: any. */
  double max_ratio;          /* Negative: no cap. */
  int64_t max_gap;           /* Of a max_ratio above 0. */
  int32_t graphs_max;        /* Recorded per swap; negative: none. */
  int32_t graphs_per_minute; /* Negative: none. */
  coppice_binding* binding;  /* As in coppice_warm_options. */
  coppice_binding* scratch;
  double cost_per_byte; /* Of graphs, per call, in elements: what a bucket has to be worth. */
} coppice_rebucket_options;

enum {
  COPPICE_REBUCKET_NOT_DUE = 0,      /* Fewer calls than the period. */
  COPPICE_REBUCKET_KEPT = 1,         /* No policy saves enough. */
  COPPICE_REBUCKET_LIMITED = 2,      /* One does, but takes more graphs than may be recorded. */
  COPPICE_REBUCKET_NOT_RECORDED = 3, /* A graph could not be; all is as it was: `why`. */
  COPPICE_REBUCKET_WOULD_SWAP = 4,   /* A dry run. */
  COPPICE_REBUCKET_SWAPPED = 5,
};
typedef struct coppice_rebucket_report {
  uint32_t struct_size;
  int32_t outcome;         /* COPPICE_REBUCKET_... */
  int64_t calls;           /* Observed in all. */
  int64_t graphs;          /* Recorded; in a dry run, that would be. */
  int64_t added;           /* Buckets that came, or would come. */
  int64_t dropped;         /* And that went. */
  double waste_before_pct; /* Points, of the calls that are remembered. */
  double waste_after_pct;
  char why[160]; /* What stood in the way of new buckets, cut off to fit; empty: nothing. */
} coppice_rebucket_report;
/* "swapped"; "unknown" for no such. */
COPPICE_API const char* coppice_rebucket_outcome_name(int32_t outcome);

/* Session::Rebucket. May record, and wait for the device. */
COPPICE_API coppice_status coppice_rebucket(coppice_session* session,
                                            coppice_program* program,
                                            const char* symbol,
                                            const coppice_rebucket_options* options,
                                            coppice_rebucket_report* out);
/* Session::SetPolicy: its symbol and observe_half_life are ignored. */
COPPICE_API coppice_status coppice_set_policy(coppice_session* session,
                                              coppice_program* program,
                                              const char* symbol,
                                              const coppice_policy* policy);
/* The policy in force, as JSON that coppice_policy.text may be. As coppice_explain. */
COPPICE_API coppice_status coppice_get_policy(coppice_session* session,
                                              coppice_program* program,
                                              const char* symbol,
                                              char* buffer,
                                              size_t buffer_bytes,
                                              size_t* text_bytes);
/* What was observed, as JSON, and what to go on from. As coppice_explain. */
COPPICE_API coppice_status coppice_get_observed(coppice_session* session,
                                                coppice_program* program,
                                                const char* symbol,
                                                char* buffer,
                                                size_t buffer_bytes,
                                                size_t* text_bytes);
COPPICE_API coppice_status coppice_set_observed(coppice_session* session,
                                                coppice_program* program,
                                                const char* symbol,
                                                const char* text);

/* ---- Memory for other libraries -----------------------------------------------------------------
 * An allocator that another library can be pointed at, by two functions of the types that PyTorch's
 * CUDAPluggableAllocator takes.
 *
 * On a thread that is in a callable, in whatever phase, a block is a temporary of that run, as from
 * coppice_context_allocate: planned into the lane's window, so that runs ask for the same blocks in
 * the same order. It ends when that thread frees it during the run: its bytes may be another's
 * then, in the order of the stream.
 *
 * A block that is not freed when the callable returns keeps its bytes to the end of the run, and in
 * the graph that was recorded to the end of each replay, but no longer: the lane's next calls write
 * there, and nobody may touch it. Freeing it from then on, on any thread, does nothing and is
 * counted; so is freeing a block on another thread than its run's. One case is to be avoided: on a
 * thread that is in another run, which has a block of its own at that address, it would end that
 * one. So a library that keeps blocks to give them out again, as PyTorch's caching allocator does,
 * gets a pool per run (a MemPool), which it drops before the next run.
 *
 * On every other thread, and in functions of `call` steps, a block is memory of the device that was
 * named, until it is freed: which waits for all work of the device, as cuMemFree does, unless the
 * device has a memory provider. */

/* Null, and coppice_last_error, if there is no room, no device was named, or it is not number
 * `device`; null for 0 bytes. `stream` is for a memory provider alone: blocks are ordered with the
 * stream of the run, or with nothing. Makes the device's context current outside of callables. */
COPPICE_API void* coppice_external_allocate(ptrdiff_t bytes, int32_t device, void* stream);
/* Freeing null does nothing. What cannot be freed in a run, because it asked for other blocks than
 * its warm-up did, makes the run fail. */
COPPICE_API void coppice_external_free(void* block, ptrdiff_t bytes, int32_t device, void* stream);

/* Names the device of blocks that no run asks for, for all threads, which stays while it is named,
 * and while a block of it is left; null: none. */
COPPICE_API coppice_status coppice_external_allocator_use(coppice_device* device);

/* Of the process so far. */
typedef struct coppice_external_stats {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t run_blocks;    /* Given out in runs of callables. */
  int64_t left_blocks;   /* Of these, not freed when their callable returned. */
  int64_t device_blocks; /* Given out by the device that was named. */
  int64_t late_frees;    /* Frees that did nothing, because no block was there any more. */
} coppice_external_stats;
COPPICE_API coppice_status coppice_external_allocator_stats(coppice_external_stats* out);

/* ---- Memory, statistics, profiles
 * ---------------------------------------------------------------- */

/* Drops the graphs of a program, or of all if null. `dropped` may be null. */
COPPICE_API coppice_status coppice_evict(coppice_session* session,
                                         coppice_program* program,
                                         int64_t* dropped);
COPPICE_API coppice_status coppice_trim(coppice_session* session);

/* What becomes of constants while a session is suspended. */
enum {
  COPPICE_CONSTANTS_SAVE = 0,   /* They are copied to the host, and back. */
  COPPICE_CONSTANTS_KEEP = 1,   /* They stay on the device. */
  COPPICE_CONSTANTS_RELOAD = 2, /* They are dropped; their sources fill them again. */
};
typedef struct coppice_suspend_options {
  uint32_t struct_size;
  int32_t constants; /* COPPICE_CONSTANTS_... */
  int32_t refuse_leases;
  int32_t drop_graphs;
} coppice_suspend_options;
/* Gives the session's memory back; waits. */
COPPICE_API coppice_status coppice_suspend(coppice_session* session,
                                           const coppice_suspend_options* options);
COPPICE_API coppice_status coppice_resume(coppice_session* session);
/* Bytes that the application holds itself, for the budget. */
COPPICE_API coppice_status coppice_set_external_bytes(coppice_session* session, int64_t bytes);

/* SessionMemory::Lend: the idle memory of a lane, whose calls are refused until the loan ends.
 * `address` and `bytes` (either may be null) get where it is; its contents are undefined. */
COPPICE_API coppice_status coppice_lend(
    coppice_session* session, int32_t lane, uint64_t* address, int64_t* bytes, coppice_loan** out);
/* Loan::Return: ends the loan; the lane's next call waits for the work queued on `stream` so far.
 * The loan is released as ever. */
COPPICE_API coppice_status coppice_loan_return(coppice_loan* loan, void* stream);
/* Ends the loan unless it has ended: what the borrower did with the memory must have run. */
COPPICE_API void coppice_loan_release(coppice_loan* loan);
/* SessionMemory::Scrub: zeroes all memory of a lane in the order of `stream` and of its calls. */
COPPICE_API coppice_status coppice_scrub(coppice_session* session, int32_t lane, void* stream);

/* SessionStats of coppice/graphs/session_stats.h. */
typedef struct coppice_session_stats {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t calls;            /* Calls that ran. */
  int64_t runs[8];          /* Calls, by how they ran: COPPICE_RUN_... */
  int64_t reasons[24];      /* Calls that did not replay, by what kept them: COPPICE_REASON_... */
  int64_t recordings;       /* Graphs recorded, also ahead of calls. */
  int64_t evictions;        /* Graphs dropped for room. */
  int64_t remaps;           /* Replays that had to map their memory again. */
  int64_t inputs_in_place;  /* Inputs read where an earlier call left them. */
  int64_t real_elements;    /* Staged elements that callers brought. */
  int64_t padded_elements;  /* The same with their padding. */
  int64_t captures_retried; /* Recordings broken from outside, and tried again. */
  int64_t recordings_empty; /* Recordings without a graph node or a break. */
  int64_t inputs_filled;    /* Inputs staged only to fill their padding. */
  int64_t inputs_demoted;   /* Static inputs that moved too often, and are copied since. */
  int64_t stream_switches;  /* Calls that had to wait for the lane's last stream. */
} coppice_session_stats;
COPPICE_API coppice_status coppice_stats(coppice_session* session, coppice_session_stats* out);

/* What device memory is for. */
enum {
  /* Mapped under the plan windows, where the nodes of a lane lie on top of each other. */
  COPPICE_MEMORY_NODES = 0,
  /* Mapped under the eager windows: warm-up and eager runs, and their leases. */
  COPPICE_MEMORY_EAGER = 1,
  /* Mapped under the staging windows: padded inputs and parameter blocks. */
  COPPICE_MEMORY_STAGING = 2,
  COPPICE_MEMORY_COPY_OUT = 3,  /* Mapped under the copy-out windows. */
  COPPICE_MEMORY_WORKSPACE = 4, /* Mapped under the workspace windows, for libraries. */
  COPPICE_MEMORY_CONSTANTS = 5, /* Mapped under the constants window. */
  /* Physical handles that no window has mapped, kept for the next growth. */
  COPPICE_MEMORY_SPARE = 6,
  COPPICE_MEMORY_INCLUDED = 7, /* Memory of graphs that the caller's captures include. */
  COPPICE_MEMORY_GRAPHS = 8,   /* Executable graphs, as the driver keeps them: an estimate. */
  COPPICE_MEMORY_EXTERNAL = 9, /* What the application said that it holds itself. */
};
/* MemoryUsage of coppice/graphs/memory_usage.h. */
typedef struct coppice_memory_usage {
  uint32_t struct_size;
  int32_t kind_count;
  int64_t bytes[16];  /* Held, by kind: COPPICE_MEMORY_... */
  int64_t peak[16];   /* The most of each kind there ever was: COPPICE_MEMORY_... */
  int64_t total;      /* Sum of `bytes`, counted by itself. */
  int64_t total_peak; /* The most there ever was of it. */
  int64_t budget;     /* What the total may reach; 0: no budget. */
  int64_t height;     /* Highest end of any plan that a graph was recorded at, of all lanes. */
  int64_t eager_live; /* Live in the eager windows. */
  int64_t eager_peak; /* Highest top of any eager window so far. */
} coppice_memory_usage;
COPPICE_API coppice_status coppice_memory(coppice_session* session, coppice_memory_usage* out);
/* "nodes"; "unknown" for no such. */
COPPICE_API const char* coppice_memory_kind_name(int32_t kind);

/* What the session knows of its buckets, as JSON, an array of an object each: program, variant,
 * bucket, lane, recorded, retired, number, plan_height, live_bytes, serial, graph_nodes, record_ns
 * and replays, as NodeInfo of coppice/graphs/session_stats.h has them. As coppice_explain. */
COPPICE_API coppice_status coppice_buckets(coppice_session* session,
                                           char* buffer,
                                           size_t buffer_bytes,
                                           size_t* text_bytes);

/* Session::Dump: the drawing, in Graphviz's DOT, of recording `number` of a lane, as
 * coppice_buckets tells of both; of a session with keep_drawings. As coppice_explain. Errors: not
 * found: it was dropped. */
COPPICE_API coppice_status coppice_dump(coppice_session* session,
                                        int32_t lane,
                                        int64_t number,
                                        char* buffer,
                                        size_t buffer_bytes,
                                        size_t* text_bytes);

/* How the page is written. */
enum {
  COPPICE_METRICS_PROMETHEUS = 0, /* Prometheus' text format 0.0.4. */
  /* OpenMetrics 1.0: with units, and an end that a page cut short has not. */
  COPPICE_METRICS_OPENMETRICS = 1,
};
/* Session::MetricsText: a page of all figures in a format COPPICE_METRICS_..., with the names and
 * bounds of coppice/graphs/metrics.h. As coppice_explain; calls of other threads make the page
 * longer, so take it with room to spare, or again while it does not fit. */
COPPICE_API coppice_status coppice_session_metrics_text(coppice_session* session,
                                                        int32_t format,
                                                        char* buffer,
                                                        size_t buffer_bytes,
                                                        size_t* text_bytes);
/* What a server's Content-Type says of such a page; "unknown" for no such format. */
COPPICE_API const char* coppice_metrics_content_type(int32_t format);

COPPICE_API coppice_status coppice_save_profile(coppice_session* session, const char* path);
typedef struct coppice_profile_options {
  uint32_t struct_size;
  int32_t lane;
  coppice_binding* const* bindings;
  coppice_binding* const* scratches; /* One per binding, or null; null: none of them. */
  int64_t binding_count;
  int64_t graphs_max; /* 0: no limit. */
  int64_t bytes_max;
  void (*progress)(void* user, int64_t done, int64_t total);
  void* user;
} coppice_profile_options;
typedef struct coppice_loaded_profile {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t recorded;
  int64_t present;
  int64_t skipped;
} coppice_loaded_profile;
COPPICE_API coppice_status coppice_load_profile(coppice_session* session,
                                                const char* path,
                                                const coppice_profile_options* options,
                                                coppice_loaded_profile* out);

/* Puts a mark into the trace. */
COPPICE_API coppice_status coppice_mark(coppice_session* session, const char* name);
/* How long one request to a server took, by the clock of whoever serves; RequestTimes. */
typedef struct coppice_request_times {
  uint32_t struct_size;
  int32_t input_tokens;
  int32_t output_tokens; /* >= 1. */
  uint32_t reserved;
  int64_t id;             /* 0 to 2^53. */
  int64_t first_token_ns; /* From its arrival, as the next. */
  int64_t last_token_ns;  /* >= first_token_ns. */
} coppice_request_times;
/* Puts them into the trace. Does nothing without one. */
COPPICE_API coppice_status coppice_note_request(coppice_session* session,
                                                const coppice_request_times* times);
COPPICE_API coppice_status coppice_flush_trace(coppice_session* session);
COPPICE_API coppice_status coppice_wait_for_recordings(coppice_session* session);

/* ---- The same as a table ------------------------------------------------------------------------
 * For whoever loads the library at run time: one look-up in place of one per function. Functions
 * are appended and never move, so that a table of this major version is right as far as it reaches.
 */

/* clang-format off */
#define COPPICE_FUNCTIONS(X)                                                                      \
  X(api_version) X(version) X(status_name) X(last_error) X(last_driver_result) X(set_error)       \
  X(device_open) X(device_release) X(device_make_current) X(device_describe)                      \
  X(device_synchronize) X(device_findings) X(memory_allocate) X(memory_free) X(copy_to_device)    \
  X(copy_to_host) X(stream_create) X(stream_destroy) X(stream_synchronize) X(package_load)        \
  X(package_load_memory) X(package_release) X(package_manifest) X(session_create)                 \
  X(session_release) X(set_stance) X(set_seed) X(register_package) X(register_callable)           \
  X(context_describe) X(context_extent) X(context_scalar) X(context_input) X(context_output)      \
  X(context_alias_output) X(context_allocate) X(context_free) X(find) X(reset) X(unregister)      \
  X(bind) X(unbind) X(run) X(explain) X(warm) X(run_kind_name) X(reason_name) X(lease_describe)   \
  X(lease_release) X(lease_read) X(read_output) X(read_sized_output) X(read_end) X(lease_detach)  \
  X(evict) X(trim) X(suspend) X(resume) X(set_external_bytes) X(stats) X(memory)                  \
  X(memory_kind_name) X(buckets) X(save_profile) X(load_profile) X(mark) X(flush_trace)           \
  X(wait_for_recordings) X(kernels_load) X(kernels_release) X(kernel_get) X(kernel_describe)      \
  X(launch) X(include) X(chain_begin) X(chain_end) X(warm_steps) X(plan) X(lease_release_after)   \
  X(lease_split) X(read_count) X(dump) X(driver_entry) X(external_allocate)          \
  X(external_free) X(external_allocator_use) X(external_allocator_stats)                 \
  X(context_add_graph) X(policy_buckets) X(learn_policy) X(rebucket_outcome_name)          \
  X(rebucket) X(set_policy) X(get_policy) X(get_observed) X(set_observed)                  \
  X(joint_policy_buckets) X(session_metrics_text) X(metrics_content_type)                  \
  X(context_allocate_labelled) X(note_request) X(device_finding_count)                     \
  X(device_findings_since) X(device_reset) X(context_offsets) X(context_break) X(lend)     \
  X(loan_return) X(loan_release) X(scrub)
/* clang-format on */

typedef struct coppice_api {
  uint32_t struct_size; /* The library's own: what lies beyond is not there. */
  uint32_t reserved;
#define COPPICE_MEMBER(name) __typeof__(coppice_##name)* name;
  COPPICE_FUNCTIONS(COPPICE_MEMBER)
#undef COPPICE_MEMBER
} coppice_api;

/* Lives as long as the library; null unless it is of this major version. */
COPPICE_API const coppice_api* coppice_get_api(int32_t major);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* COPPICE_COPPICE_H_ */
