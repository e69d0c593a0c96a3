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
 * The C++ headers explain each function: coppice_run is Session::Run of coppice/graphs/session.h,
 * and so on. This file says what is different in C.
 *
 * Errors. Functions return a coppice_status. coppice_last_error, on the same thread, says what
 * failed and what to do. No exception leaves the library, and no argument ends the process: a null
 * handle or a struct without its size is COPPICE_INVALID_ARGUMENT. After an error `out` is null or
 * 0. Releasing null does nothing.
 *
 * Structs begin with `struct_size`, which the caller sets to sizeof; coppice reads and fills in no
 * more than that. A field that the caller's struct lacks, or that is 0, has its default; each field
 * says what 0 means. If a struct is larger than this library's, only the known part is read. A null
 * pointer to a struct of options means all zeros.
 *
 * Handles are opaque. Each is released once, in any order: a handle keeps what it needs alive, such
 * as a session its device. Programs and bindings are not released; they live as long as their
 * session. Kernels are not released either; they live as long as their image.
 *
 * Tensors are passed in as borrowed DLTensors, which are read during the call only. Strides may be
 * null (row-major without gaps), and byte_offset is used. The device is kDLCUDA with the ordinal of
 * the session's device, kDLCUDAManaged or, on the emulator, kDLExtDev. Tensors are returned as
 * coppice_view. Its DLTensor points into the view itself, so copy the parts, not the struct.
 *
 * Threads. Any thread may use any handle; a lease or scope is used by one thread at a time. A call
 * that uses a device makes its context current on the thread, and restores the earlier one before
 * it returns, because other libraries take their device from it. Callbacks run on the calling
 * thread, unless they say otherwise, and must not throw or jump out. A call that they make to their
 * session, or to a lease of it, returns COPPICE_FAILED_PRECONDITION; releasing a lease is allowed.
 *
 * Streams are CUstream, as void*. CUDA's legacy stream is passed as its handle, CU_STREAM_LEGACY;
 * null and the per-thread stream are refused. Functions that wait for the device say so; the others
 * do not.
 *
 * Units: bytes, nanoseconds; sizes and strides in elements. Texts are UTF-8 and end with NUL. */

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

/* The version of this header's interface. A library of the same major version, and of this minor
 * version or a later one, has everything declared here. */
#define COPPICE_API_MAJOR 0
#define COPPICE_API_MINOR 7

/* The version of the library's interface, as major * 1000 + minor. */
COPPICE_API int32_t coppice_api_version(void);
/* The version of the library: "0.1.0". */
COPPICE_API const char* coppice_version(void);

/* ---- Status ------------------------------------------------------------------------------------
 * Numbers never change. A caller treats a number that it does not know as an error. */

typedef int32_t coppice_status;
enum {
  COPPICE_OK = 0,
  COPPICE_INVALID_ARGUMENT = 1,    /* This argument can never be right. */
  COPPICE_OUT_OF_RANGE = 2,        /* Beyond a configured limit. */
  COPPICE_FAILED_PRECONDITION = 3, /* Wrong order of calls: a stale input, a call that the stance
                                    * forbids. */
  COPPICE_RESOURCE_EXHAUSTED = 4,  /* Device memory, a budget, or the host's memory. */
  COPPICE_NOT_FOUND = 5,
  COPPICE_UNAVAILABLE = 6,   /* No driver, no device. */
  COPPICE_UNIMPLEMENTED = 7, /* The driver, or this library, does not support it. */
  COPPICE_ABORTED = 8,       /* A capture was broken; try again. */
  COPPICE_PERMISSION_DENIED = 9,
  COPPICE_ALREADY_EXISTS = 10,
  COPPICE_INTERNAL = 11, /* A driver's error without another code, or a bug. */
  COPPICE_UNKNOWN = 12,  /* A code that a callback returned. */
};

/* The status in words: "invalid argument"; "unknown" for a number that is not a status. */
COPPICE_API const char* coppice_status_name(coppice_status status);

/* Writes the message of this thread's last failure and a NUL, cut off to fit, and returns the bytes
 * of the whole message without the NUL. Nothing is written if the buffer is null or has 0 bytes.
 * The message stays until the thread's next failure. */
COPPICE_API size_t coppice_last_error(char* buffer, size_t buffer_bytes);

/* The CUresult of that failure, or 0 if no driver call was the cause. */
COPPICE_API int32_t coppice_last_driver_result(void);

/* Sets the message of a callback that fails. When the callback returns an error, coppice adds this
 * message to its own. */
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
typedef struct coppice_context coppice_context; /* One run of a callable; valid only during it. */
typedef struct coppice_kernels coppice_kernels; /* A loaded image. */
typedef struct coppice_kernel coppice_kernel;   /* Of coppice_kernels. */

/* A tensor that a function returns. `tensor.shape` and `tensor.strides` are this struct's own
 * arrays. */
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

/* An allocator that replaces cuMemAlloc for the memory of coppice_memory_allocate,
 * coppice_external_allocate and coppice_lease_detach. A session's own memory does not come from it:
 * its windows, whose pages it maps and unmaps, its constants and parameters, and what
 * coppice_include keeps.
 *
 * Both functions are called with the device's context current, on any thread, and by several
 * threads at once. Of coppice they may only call coppice_set_error. `user` must stay valid until
 * the device has ended. */
typedef struct coppice_memory_provider {
  uint32_t struct_size;
  uint32_t reserved;
  void* user;
  /* Sets `address` to a multiple of 256. `stream` is the one whose copies first use the memory, or
   * null: any. */
  coppice_status (*allocate)(void* user, int64_t bytes, void* stream, uint64_t* address);
  /* Called after copies of coppice_lease_detach into the memory are complete. Callers of
   * coppice_memory_free and coppice_external_free make sure that all other work with it has run. */
  void (*free)(void* user, uint64_t address, int64_t bytes);
} coppice_memory_provider;

typedef struct coppice_device_options {
  uint32_t struct_size;
  int32_t kind;    /* COPPICE_DEVICE_... */
  int32_t ordinal; /* Number of the CUDA device. */
  /* For the emulator; see coppice/runtime/emulator.h. */
  int32_t compute_capability; /* 80, 86, 89 or 90; 0: 90. */
  int64_t memory_bytes;       /* A multiple of 2 MiB; 0: 4 GiB. */
  uint64_t seed;              /* Seed of the execution order; 0: 1. */
  int32_t compiled_kernels;   /* Not 0: the library's own kernels run as PTX, too. */
  int32_t uninitialized_read; /* Not 0: reports reads of bytes that were never written. */
  /* For both kinds of device. */
  const coppice_memory_provider* provider; /* Copied. Null: cuMemAlloc. */
  /* For the emulator. Not 0: also reports races that change no bit of what a kernel writes. */
  int32_t harmless_races;
  int32_t reserved;
} coppice_device_options;

typedef struct coppice_device_info {
  uint32_t struct_size;
  int32_t kind;           /* COPPICE_DEVICE_CUDA or COPPICE_DEVICE_EMULATOR. */
  int32_t dl_device_type; /* The DLDevice type of its tensors. */
  int32_t ordinal;
  int64_t total_bytes;
  char name[64];
} coppice_device_info;

/* Opens a device. Makes its context current on this thread if no context is. Errors: unavailable:
 * there is no such device; failed precondition: the process already has an emulator. */
COPPICE_API coppice_status coppice_device_open(const coppice_device_options* options,
                                               coppice_device** out);
/* coppice_device_release releases the handle. coppice_device_make_current makes the device's
 * context current on this thread; only direct calls of the driver need that.
 * coppice_device_describe fills in `out`. */
COPPICE_API void coppice_device_release(coppice_device* device);
COPPICE_API coppice_status coppice_device_make_current(coppice_device* device);
COPPICE_API coppice_status coppice_device_describe(coppice_device* device,
                                                   coppice_device_info* out);

/* Waits for all work of the device. Errors: those of that work: a fault, or a COPPICE_ON_HOST
 * function that failed. Each is reported once. */
COPPICE_API coppice_status coppice_device_synchronize(coppice_device* device);

/* What the emulator found wrong so far: races, undeclared accesses, functions of COPPICE_ON_HOST
 * that failed, and so on. Each finding is a line, and equal ones are one line; the last 100, and a
 * fault, are kept. Writes and returns text like coppice_last_error. Returns 0 on CUDA, and if
 * nothing was found. */
COPPICE_API size_t coppice_device_findings(coppice_device* device,
                                           char* buffer,
                                           size_t buffer_bytes);

/* coppice_device_finding_count: how many findings there were so far; equal ones count each time. To
 * get the findings of a call, read the count before it. After the device is synchronised, get the
 * findings since that count:
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

/* Resets an emulator after a fault, which otherwise stays. Its memory, streams and kernels are
 * gone, and packages and kernels must be loaded again; old handles may be released. Makes its
 * context current on this thread. Requires: no other thread uses the device. Errors: failed
 * precondition: it still has sessions, or reads of their outputs (release them first);
 * unimplemented: the device is CUDA, where the process has to end. */
COPPICE_API coppice_status coppice_device_reset(coppice_device* device);

/* A function of the driver by CUDA's name, such as "cuGraphCreate", for functions that this header
 * lacks. It works on the emulator and on a GPU. coppice/runtime/driver_entries.inc lists the names
 * and their versions. Cast the function to its real type, and call it while the device lives, with
 * its context current. Errors: not found: the list has no such name. */
typedef void (*coppice_driver_function)(void);
COPPICE_API coppice_status coppice_driver_entry(coppice_device* device,
                                                const char* name,
                                                coppice_driver_function* out);

/* Memory and streams, for programs that have no other library for them. Copies wait for the stream,
 * and so for the work queued on it before. Memory that is not freed ends with the device. */
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
  int32_t allow_ptx;           /* Not 0: a GPU may compile PTX, which takes seconds. */
  const uint8_t* trusted_keys; /* Ed25519 keys, 32 bytes each; one of them must have signed. Null:
                                * not checked. */
  int64_t trusted_key_count;
} coppice_package_options;

/* Opens a folder or a zip file and loads its kernels. Not allowed during a capture. */
COPPICE_API coppice_status coppice_package_load(coppice_device* device,
                                                const char* path,
                                                const coppice_package_options* options,
                                                coppice_package** out);
/* The same for a zip file in memory, which is copied. `name` is for messages. */
COPPICE_API coppice_status coppice_package_load_memory(coppice_device* device,
                                                       const void* zip,
                                                       int64_t zip_bytes,
                                                       const char* name,
                                                       const coppice_package_options* options,
                                                       coppice_package** out);
COPPICE_API void coppice_package_release(coppice_package* package);

/* manifest.json, as canonical JSON, without a NUL at the end. Lives as long as the package. */
COPPICE_API coppice_status coppice_package_manifest(coppice_package* package,
                                                    const char** text,
                                                    int64_t* text_bytes);

/* ---- Kernels of the caller's own ----------------------------------------------------------------
 * Callables launch these, and so may any code on its own stream: by name, on a GPU and on the
 * emulator.
 *
 *   coppice_kernels_load(device, ptx, ptx_bytes, &kernels);
 *   coppice_kernel_get(kernels, "Scale", &scale);
 *   void* arguments[] = {&x, &y, &count, &factor};
 *   coppice_launch_shape shape = {.struct_size = sizeof(shape), .grid = {blocks}, .block = {128}};
 *   coppice_launch(scale, &shape, arguments, 4, stream);
 */

/* KernelLibrary::Load of a cubin, a fatbin or the text of PTX, which is copied. The emulator
 * executes PTX, including PTX in a fatbin. The message of an error contains that of the driver's
 * compiler. */
COPPICE_API coppice_status coppice_kernels_load(coppice_device* device,
                                                const void* image,
                                                int64_t image_bytes,
                                                coppice_kernels** out);
/* If a program of a session launched kernels of the image, the session keeps the image until that
 * program is unregistered. Other launches of its kernels must have run. */
COPPICE_API void coppice_kernels_release(coppice_kernels* kernels);

/* Equal names give the same kernel. Errors: not found: the message lists the kernels there are. */
COPPICE_API coppice_status coppice_kernel_get(coppice_kernels* kernels,
                                              const char* name,
                                              coppice_kernel** out);

typedef struct coppice_kernel_info {
  uint32_t struct_size;
  int32_t parameter_count; /* -1: the driver is older than CUDA 12.4 and cannot tell. */
  const char* name;
  /* Offset and size of each parameter, in order. Arrays and name live as long as the image. Null if
   * there are no parameters. */
  const int64_t* parameter_offsets;
  const int64_t* parameter_bytes;
} coppice_kernel_info;
COPPICE_API coppice_status coppice_kernel_describe(coppice_kernel* kernel,
                                                   coppice_kernel_info* out);

/* As LaunchShape of coppice/runtime/launch.h. */
typedef struct coppice_launch_shape {
  uint32_t struct_size;
  uint32_t shared_bytes; /* Dynamic, as much as the device has. */
  uint32_t grid[3];      /* Blocks. The first is at least 1; 0 for the others means 1. */
  uint32_t block[3];     /* Threads, likewise. */
  /* Blocks that share a cluster. No clusters if the first is 0; 0 for the others means 1. */
  uint32_t cluster[3];
  int32_t cooperative;
  int32_t programmatic; /* May start before the stream's last kernel has ended. */
} coppice_launch_shape;

/* Launches on `stream`. If the stream captures, as it does while a callable is recorded, the launch
 * becomes part of the capture. `arguments` are pointers to the values, one per parameter; they are
 * copied before this returns. A kernel's first launch may do what a capture forbids, but a callable
 * launches it first in a warm-up run. Errors: invalid argument: another number of parameters, a
 * null pointer, or a shape beyond what the kernel or the device allows; unimplemented: the emulator
 * does not execute it. */
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
  /* Replay; a call that cannot replay fails, says why and runs nothing. */
  COPPICE_STANCE_STRICT = 3,
};
/* What a call does if it would need one graph too many. */
enum {
  COPPICE_ON_LIMIT_DEFAULT = 0, /* Each field says its default. */
  COPPICE_ON_LIMIT_EAGER = 1,   /* Runs without a graph. */
  COPPICE_ON_LIMIT_ERROR = 2,   /* Fails. */
  /* Drops the graph that is worth least: long unused, large in bytes and cheap to record again. */
  COPPICE_ON_LIMIT_EVICT = 3,
};

/* Whether kernels of packages that have several variants are timed before a bucket is recorded, so
 * that each bucket launches the fastest variant of each. */
enum {
  COPPICE_VARIANTS_ON_DEVICE = 0, /* On a GPU, but not on the emulator, where time means nothing. */
  COPPICE_VARIANTS_ALWAYS = 1,    /* On a GPU and on the emulator. */
  COPPICE_VARIANTS_NEVER = 2,     /* The first variants are launched. */
};

/* What the ranks of a program that launches collectives agree on; see RankVote of
 * coppice/graphs/session_options.h. The function sets the extents and the kind to what all ranks
 * agreed. */
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
  int32_t warmup_runs; /* Warm-up calls of a bucket before it is recorded. 0: 1. */
  /* Records programs that are `thread_safe` on a thread of the session; calls run eagerly
   * meanwhile. */
  int32_t record_in_background;
  /* Times live calls with and without their graph, and stops using graphs that are not faster. */
  int32_t gate;
  int32_t graphs_per_program_max; /* Graphs of a program on a lane. 0: 1,024, -1: none. */
  /* How often a bucket may be recorded again because a static input moved; after that, `on_limit`
   * says what the call does. 0: 128, -1: none. */
  int32_t rerecords_per_bucket_max;
  /* How often a static input may move in one bucket; after one more move, every call copies it. 0:
   * 32, -1: none. */
  int32_t static_moves_max;
  /* What a call does if it would need one graph too many: COPPICE_ON_LIMIT_...; 0: eager. */
  int32_t on_limit;
  /* What a recording does if it lacks room: COPPICE_ON_LIMIT_...; 0: evict. */
  int32_t on_budget;
  int32_t keep_drawings;   /* Keeps a drawing of every recording, so that it can be dumped. */
  int64_t window_bytes;    /* Virtual size of a lane's windows; 0: device memory. */
  int64_t workspace_bytes; /* For libraries, per lane; 0: none. */
  int64_t copy_out_bytes;  /* For outputs that are copied out, per lane; 0: none. */
  /* Bytes that the session may hold at once: its windows, its graphs (an estimate) and the bytes
   * that the application reports; 0: no budget. */
  int64_t budget_bytes;
  /* Refuses buckets whose kernels' parameters depend on values that are not in the key. */
  int32_t audit_keys;
  /* Asks the driver at every call whether tensors lie in live memory of the device. */
  int32_t check_addresses;
  /* Fills all that a graph writes with 0xCB bytes before each call, so that a read through an old
   * pointer is noticed. */
  int32_t fill_expired;
  /* If the ring is full, a call waits until its events are written, instead of dropping its own
   * event and counting it. */
  int32_t trace_wait_when_full;
  /* The file that a trace is written to, which replaces an older one; null or empty: no trace. */
  const char* trace_path;
  /* Events that a lane's ring buffer holds, 64 bytes each, rounded up to a power of two. 16 to
   * 67,108,864; 0: 65,536. */
  int64_t trace_events_per_lane;
  /* Receives one line per program and reason that keeps its calls from replaying. */
  void (*log)(void* user, const char* line);
  /* Called before each call runs, with this rank's vote, to agree with the other ranks. */
  coppice_status (*vote)(void* user, coppice_vote* vote);
  /* Called before a call that ranks agreed to record, even on ranks that have the graph. */
  coppice_status (*barrier)(void* user);
  void* user; /* Passed to the functions. */
  /* Whether kernels of packages that have several variants are timed: COPPICE_VARIANTS_... */
  int32_t variant_timing;
  int32_t reserved;
  /* The clock for recordings: nanoseconds that never go back; null: a steady clock. */
  int64_t (*now_ns)(void* user);
  /* Host memory that the ring of each lane has; 0: nothing is recorded. */
  int64_t recorder_ring_bytes;
  int64_t recorder_calls_max; /* Maximum number of calls in a ring. 0: 65,536. */
  /* Whether outputs are copied to the ring, too, so that a replay can compare them. */
  int32_t recorder_outputs;
  /* Static inputs up to this size are copied to the ring with each call; 0: none are. */
  int64_t recorder_static_bytes_max;
  /* Mean time per call that copies to the ring may take, in nanoseconds; 0: no limit. */
  int64_t recorder_copy_ns_max;
} coppice_session_options;

COPPICE_API coppice_status coppice_session_create(coppice_device* device,
                                                  const coppice_session_options* options,
                                                  coppice_session** out);
/* Waits for recordings and for work in flight. Remaining leases become empty. If a scope, chain or
 * loan is still open, the session ends with the last of them. */
COPPICE_API void coppice_session_release(coppice_session* session);

/* Session::SetStance and Session::SetSeed. */
COPPICE_API coppice_status coppice_set_stance(coppice_session* session, int32_t stance);
COPPICE_API coppice_status coppice_set_seed(coppice_session* session, uint64_t seed);

/* ---- Programs -----------------------------------------------------------------------------------
 */

/* How a symbol's sizes become buckets. `text` is a ladder in the words of PaddingPolicy::Parse
 * ("pow2", "linear:16", "geometric:1.25:8", "1,2,4,8", "exact", or a preset such as "vllm"), up to
 * `maximum`; 0 is the default maximum of a preset. Or `text` is JSON, if it begins with "{":
 * {"version": 1, "ladder": "pow2", "maximum": 64} or {"version": 1, "buckets": [1, 2, 4, 8]}, also
 * with a guard (coppice/padding/policy_document.h), as coppice_learn_policy and `coppice tune`
 * write it. Then `maximum` must be 0 or that of the text. */
typedef struct coppice_policy {
  uint32_t struct_size;
  uint32_t reserved;
  const char* symbol; /* For a package's program, the symbol's name there; otherwise ignored. */
  const char* text;
  int64_t maximum;
  /* Calls after which a call counts half as much in what coppice_rebucket learns from; infinite: no
   * call is forgotten; 0: calls are not counted. */
  double observe_half_life;
} coppice_policy;

/* Writes the first `capacity` buckets of a policy to `buckets`, in order, and the number of all its
 * buckets to `out`. The last bucket is the maximum. With "exact" every size is a bucket. */
COPPICE_API coppice_status coppice_policy_buckets(const coppice_policy* policy,
                                                  int64_t* buckets,
                                                  int64_t capacity,
                                                  int64_t* out);

/* How the sizes of two symbols become buckets together; see JointSpec of coppice/graphs/program.h.
 * `text` has the words of JointPolicy::Parse: pairs ("1x512,4x128") or a ladder for each symbol
 * ("pow2/linear:64"), also with a rule ("pow2/pow2/budget:2048"), up to the maxima; 0 is the
 * default maximum of a ladder that is a preset. Or `text` is JSON, if it begins with "{":
 * {"version": 1, "buckets": [[1, 512], [4, 128]]} or {"version": 1, "grid": "pow2/pow2", "limit":
 * [4, 512]} (coppice/padding/joint_document.h), as `coppice tune` writes it for two columns. Then
 * the maxima must be 0 or those of the text. Neither symbol may have its own policy. */
typedef struct coppice_joint_policy {
  uint32_t struct_size;
  uint32_t reserved;
  const char* a; /* Names of the symbols: the one whose size a bucket names first, */
  const char* b; /* and second. */
  const char* text;
  int64_t a_maximum;
  int64_t b_maximum;
} coppice_joint_policy;

/* The same for a joint policy, whose names are ignored. Writes two numbers per bucket, up to
 * `capacity` buckets. Errors: invalid argument: `capacity` is not 0, and the policy has more than
 * 65,536 buckets. With a capacity of 0 only their number is written. */
COPPICE_API coppice_status coppice_joint_policy_buckets(const coppice_joint_policy* policy,
                                                        int64_t* buckets,
                                                        int64_t capacity,
                                                        int64_t* out);

/* As LearnOptions of coppice/padding/learn_buckets.h. A bucket count or a price must be given. */
typedef struct coppice_learn_options {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t limit;         /* The last bucket; 0: the largest size. */
  int64_t bucket_count;  /* The most, without those that double; 0: as many as are worth their
                          * price. */
  double price;          /* Price of a bucket, in elements of padding. */
  int64_t align;         /* 0: 1. */
  const int64_t* forced; /* Sizes that are always buckets. */
  int64_t forced_count;
  double prior;     /* Share of weight on sizes that nobody called; 0: 0.05; negative: none. */
  double max_ratio; /* 0: no cap. */
  int64_t max_gap;
} coppice_learn_options;

/* LearnBuckets: the policy with the least padding for these sizes, as JSON for coppice_policy.text.
 * The text is written as by coppice_explain. `counts` are the calls of each size, and a size may
 * occur twice; null: one call each. Cost: seconds for limits of millions. */
COPPICE_API coppice_status coppice_learn_policy(const int64_t* sizes,
                                                const double* counts,
                                                int64_t size_count,
                                                const coppice_learn_options* options,
                                                char* buffer,
                                                size_t buffer_bytes,
                                                size_t* text_bytes);

/* What the padding of a symbol may hold; the words of coppice/base/padding_claim.h. */
enum {
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
  /* Called once per recording and in each run without a graph; it launches on the stream. */
  COPPICE_LAUNCHES = 0,
  /* Only on the emulator: called in every run and replay. It computes on the host, at its place in
   * the order of the stream, and the emulator checks that order. It may only read `inputs` and
   * write `outputs` of the device's memory, and must not call coppice. `stream` is null. */
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
  /* The value of each option as text, integers in decimal. */
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
  /* Called once the function will not run again, perhaps on another thread; may be null. */
  void (*release)(void* user);
} coppice_function;

typedef struct coppice_named_tensor {
  uint32_t struct_size;
  uint32_t reserved;
  const char* name;
  const DLTensor* tensor;
} coppice_named_tensor;

/* Whether replays compute at the sizes of their call. */
enum {
  COPPICE_EXACT_NEVER = 0, /* Replays compute at the bucket's sizes. */
  /* At the call's own sizes if they are equal to those of the call before it. */
  COPPICE_EXACT_AUTO = 1,
  COPPICE_EXACT_ALWAYS = 2, /* Always at the call's own sizes. */
};

/* In an array of structs, elements are as far apart as the first one's `struct_size` says. */
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
  const coppice_joint_policy* joint; /* Like `policies`, they replace the package's own buckets. */
  int64_t joint_count;
  int32_t exact; /* COPPICE_EXACT_... */
  int32_t reserved_end;
} coppice_package_program_options;

/* Session::Register of a program of a package. */
COPPICE_API coppice_status coppice_register_package(coppice_session* session,
                                                    coppice_package* package,
                                                    const char* program,
                                                    const coppice_package_program_options* options,
                                                    coppice_program** out);

/* What the padding of symbols that have no claim of their own may hold; live outputs are then equal
 * bit for bit. The words are those of COPPICE_PADDING_..., the numbers are not. */
enum {
  COPPICE_CLAIM_EXACT = 0, /* These symbols are never padded. */
  COPPICE_CLAIM_ROW_INDEPENDENT = 1,
  COPPICE_CLAIM_ANY = 2,
  COPPICE_CLAIM_FINITE = 3,
  COPPICE_CLAIM_FILL = 4,
};
/* How a symbol's extents become buckets. */
enum {
  COPPICE_SYMBOL_AUTO = 0,    /* Static until a call brings a second extent, then maybe dynamic. */
  COPPICE_SYMBOL_DYNAMIC = 1, /* Padded as its policy says. */
  /* Padded by its policy if a claim allows it; else every extent is its own bucket. */
  COPPICE_SYMBOL_MAYBE_DYNAMIC = 2,
  COPPICE_SYMBOL_STATIC = 3, /* Never padded: every extent is part of the key as it is. */
};
/* The value of an element of the padding. */
enum {
  COPPICE_FILL_ZERO = 0,        /* 0 in the input's dtype. */
  COPPICE_FILL_VALUE = 1,       /* A number, converted to the input's dtype. */
  COPPICE_FILL_SENTINEL = 2,    /* All bits set: -1 in signed integers, NaN in floats. */
  COPPICE_FILL_REPEAT_LAST = 3, /* The last real element along each axis. */
  COPPICE_FILL_UNDEFINED = 4,   /* Any bits: nothing is written. */
};

typedef struct coppice_symbol_spec {
  uint32_t struct_size;
  int32_t kind; /* COPPICE_SYMBOL_... */
  const char* name;
  const coppice_policy* policy; /* Null: "exact", every size is its own bucket. */
  int64_t min;
  int64_t max; /* 0: none. */
  int64_t multiple_of;
  int32_t exclude_01;
  int32_t given;
  int32_t over_maximum_is_error;
  int32_t counted;
  const char* scalar;         /* The scalar whose value is its extent; null: none. */
  const coppice_claim* claim; /* Null: the claim of the program. */
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
  /* For inputs. */
  int32_t mutated;
  int32_t fill; /* COPPICE_FILL_... */
  double fill_value;
  int64_t alignment; /* 0: 16. */
  /* For outputs: the name of the output that has its count along `count_axis`; null: none. */
  const char* count;
  int32_t count_axis;
  int32_t reserved;
} coppice_tensor_spec;

typedef struct coppice_scalar_spec {
  uint32_t struct_size;
  int32_t device_resident;
  const char* name;
} coppice_scalar_spec;

/* How the input of lengths says which rows belong to which sequence. */
enum {
  COPPICE_RAGGED_LENGTHS = 0, /* The number of rows of each sequence. */
  COPPICE_RAGGED_OFFSETS = 1, /* Where each sequence begins, and where the last one ends. */
};
/* Sequences whose rows callers pack; see RaggedSpec of coppice/graphs/program.h. A tensor has them
 * if its first size is `name`. */
typedef struct coppice_ragged_spec {
  uint32_t struct_size;
  int32_t by;          /* COPPICE_RAGGED_... */
  const char* name;    /* Must not be the name of a symbol. */
  const char* count;   /* Names of symbols: the number of sequences, */
  const char* total;   /* the rows of all of them, */
  const char* length;  /* and the rows of the longest, for a rectangle; null: packed. */
  const char* lengths; /* The name of the input of lengths or offsets. */
} coppice_ragged_spec;

/* Whether a program's graphs are kept only if they are faster; see SessionOptions::gate. */
enum {
  COPPICE_GATE_SESSION = 0, /* As SessionOptions::gate says. */
  COPPICE_GATE_OFF = 1,     /* Every recorded graph is replayed. */
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
  const coppice_joint_policy* joint; /* Pairs of symbols that are padded together. */
  int64_t joint_count;
  const coppice_ragged_spec* ragged;
  int64_t ragged_count;
  int32_t gate; /* COPPICE_GATE_... */
  int32_t reserved;
} coppice_program_spec;

/* Launches the program's kernels on the context's stream; see Callable of coppice/graphs/program.h.
 * A status other than OK fails the run with that code. */
typedef coppice_status (*coppice_callable)(void* user, coppice_context* context);

/* Session::Register of a callable. `release` is called with `user` when the callable will not run
 * again, perhaps on another thread, and also if this fails; it may be null. */
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

/* What a callable sees of its run: see CallContext of coppice/graphs/program.h. */
COPPICE_API coppice_status coppice_context_describe(coppice_context* context,
                                                    coppice_context_info* out);
/* The padded extent of a symbol, a scalar, and an input, each by its index. */
COPPICE_API coppice_status coppice_context_extent(coppice_context* context,
                                                  int32_t symbol,
                                                  int64_t* out);
COPPICE_API coppice_status coppice_context_scalar(coppice_context* context,
                                                  int32_t scalar,
                                                  int64_t* out);
COPPICE_API coppice_status coppice_context_input(coppice_context* context,
                                                 int32_t input,
                                                 coppice_view* out);
/* CallContext::offsets: where each sequence begins and the last one ends, for ragged sequences
 * `ragged`. */
COPPICE_API coppice_status coppice_context_offsets(coppice_context* context,
                                                   int32_t ragged,
                                                   coppice_view* out);
/* Allocate each output once, or make it an alias once. */
COPPICE_API coppice_status coppice_context_output(coppice_context* context,
                                                  int32_t output,
                                                  coppice_view* out);
COPPICE_API coppice_status coppice_context_alias_output(coppice_context* context,
                                                        int32_t output,
                                                        uint64_t address);
/* CallContext::Allocate: memory for a temporary of the run. */
COPPICE_API coppice_status coppice_context_allocate(coppice_context* context,
                                                    int64_t bytes,
                                                    uint64_t* address);
/* The same, for bytes that traces, maps and drawings show as `label`. */
COPPICE_API coppice_status coppice_context_allocate_labelled(coppice_context* context,
                                                             int64_t bytes,
                                                             const char* label,
                                                             uint64_t* address);
/* CallContext::Free: ends a temporary. */
COPPICE_API coppice_status coppice_context_free(coppice_context* context, uint64_t address);

/* Adds a graph of the caller, a CUgraph, to the run at this point of the stream: a recording adds a
 * copy as a child graph, any other run instantiates it and launches it on the stream. The graph may
 * be changed or destroyed once this returns, but every replay uses the memory and kernels of its
 * nodes, so the caller must keep these. Errors: invalid argument: the graph has a node that a child
 * graph must not have: one that allocates or frees memory, or is conditional. */
COPPICE_API coppice_status coppice_context_add_graph(coppice_context* context, void* graph);

/* Host code between two graphs of a program; it may enqueue work on the call's stream and wait for
 * it. A status other than OK fails the call with that code. In a run without a graph,
 * coppice_context_break returns it, and the callable passes it on. */
typedef coppice_status (*coppice_eager_step)(void* user, void* stream);
/* CallContext::Break: ends the graph recorded so far, and begins another one after `step`, which is
 * never captured. Runs without a graph call it at once; every replay calls it between the two
 * graphs, on the thread that calls the session. `release` is called with `user` when the step will
 * not be called again, perhaps on another thread, and also if this fails; it may be null. */
COPPICE_API coppice_status coppice_context_break(coppice_context* context,
                                                 coppice_eager_step step,
                                                 void* user,
                                                 void (*release)(void* user));

/* Finds a program by its name and variant. If there is none, `out` is null and the status is
 * COPPICE_NOT_FOUND. */
COPPICE_API coppice_status coppice_find(coppice_session* session,
                                        const char* name,
                                        const char* variant,
                                        coppice_program** out);
/* Session::Reset and Session::Unregister. */
COPPICE_API coppice_status coppice_reset(coppice_session* session, coppice_program* program);
COPPICE_API coppice_status coppice_unregister(coppice_session* session, coppice_program* program);
/* Session::Bind and Session::Unbind. `statics` are the static inputs in spec order, then the static
 * outputs. */
COPPICE_API coppice_status coppice_bind(coppice_session* session,
                                        coppice_program* program,
                                        const DLTensor* const* statics,
                                        int64_t static_count,
                                        coppice_binding** out);
COPPICE_API coppice_status coppice_unbind(coppice_session* session, coppice_binding* binding);

/* ---- Calls --------------------------------------------------------------------------------------
 */

/* What is written instead of each fill, if the claim allows it. */
enum {
  COPPICE_POISON_OFF = 0, /* The fill stays. */
  /* A quiet NaN in floats and in both parts of complex numbers; the lowest finite number if they
   * must be finite. */
  COPPICE_POISON_NAN = 1,
  /* 0x5A in every byte: a large finite float, a large positive integer. */
  COPPICE_POISON_PATTERN = 2,
  COPPICE_POISON_NOISE = 3, /* Different bits in each element, and in each call of a session. */
};
/* Where a call's outputs go. */
enum {
  COPPICE_BORROW = 0,     /* They stay in the lane's window; see lease.h. */
  COPPICE_COPY_OUT = 1,   /* Copied after the graph to memory of the lane; needs copy_out_bytes. */
  COPPICE_WRITE_INTO = 2, /* Copied after the graph into Call::targets. */
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
  const int64_t* extents; /* Extents of the symbols that are `given`. */
  int64_t extent_count;
  const DLTensor* const* targets; /* For COPPICE_WRITE_INTO, one per output. */
  int64_t target_count;
  void* stream;
  int32_t output_mode; /* COPPICE_BORROW or another of the modes above. */
  int32_t poison;      /* COPPICE_POISON_...: for tests. */
  /* For the symbols that are counted, or none: where the device finds the extent; see Call::counts.
   * For a null element the host's extent is used. */
  const DLTensor* const* counts;
  int64_t count_count;
  /* Leases that the call may use up; see Call::donated. They are empty after it has run, and must
   * still be released. A call that is refused leaves them unchanged. */
  coppice_lease* const* donated;
  int64_t donated_count;
} coppice_call;

/* Session::Run. Cost of a replay, in addition to that of Session::Run: it reads the DLTensors, and
 * allocates the lease on the host. */
COPPICE_API coppice_status coppice_run(coppice_session* session,
                                       const coppice_call* call,
                                       coppice_lease** out);
/* Session::Include: adds the program to what `call.stream` captures. The lease is of the outputs
 * that every launch of the caller's graph writes. */
COPPICE_API coppice_status coppice_include(coppice_session* session,
                                           const coppice_call* call,
                                           coppice_lease** out);
/* Session::Chain: until the chain ends, no call on the lane writes over leased outputs of earlier
 * calls of the chain. One chain per lane at a time, used by one thread at a time. */
COPPICE_API coppice_status coppice_chain_begin(coppice_session* session,
                                               int32_t lane,
                                               coppice_chain** out);
COPPICE_API void coppice_chain_end(coppice_chain* chain);
/* Session::Explain, in words. A call that would be refused is explained, too. Writes the text and a
 * NUL, cut off to fit; `text_bytes` gets the bytes of the whole text without the NUL. */
COPPICE_API coppice_status coppice_explain(coppice_session* session,
                                           const coppice_call* call,
                                           char* buffer,
                                           size_t buffer_bytes,
                                           size_t* text_bytes);

/* SessionWarming::Warm: `buckets` are rows of `symbol_count` padded extents. A program without
 * symbols has one bucket, an empty row, and `buckets` may be null. */
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
 * in WarmStep::Feed. */
typedef struct coppice_feed {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t input;
  int64_t step;
  int64_t output;
} coppice_feed;
/* As WarmStep of coppice/graphs/session_warming.h. */
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
/* SessionWarming::Warm of steps that read each other's outputs. Only lane, progress and user of the
 * options are used. */
COPPICE_API coppice_status coppice_warm_steps(coppice_session* session,
                                              const coppice_warm_step* steps,
                                              int64_t step_count,
                                              const coppice_warm_options* options);

typedef struct coppice_planned_bucket {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t plan_height;     /* Bytes. */
  int64_t live_bytes;      /* The most bytes live at once; no plan can be lower. */
  const char* plan_method; /* "size"; lives as long as the library. */
} coppice_planned_bucket;
/* SessionWarming::Plan for a package's program: fills in an element of `out` per bucket. Maps and
 * runs nothing. Buckets are as in coppice_warm. */
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
  /* The bucket is recorded, but with other addresses of its static inputs. */
  COPPICE_REASON_STATIC_INPUT_MOVED = 2,
  /* The bucket is recorded, but around other live outputs. */
  COPPICE_REASON_OTHER_LIVE_REGIONS = 3,
  COPPICE_REASON_EVICTED = 4, /* The bucket was recorded and evicted. */
  /* An extent, or a pair of extents that are padded jointly, is in no bucket. */
  COPPICE_REASON_OVER_LARGEST_BUCKET = 5,
  /* An expression of extents has no value in the bucket, or a smaller one. */
  COPPICE_REASON_UNPADDED_EXTENT = 6,
  COPPICE_REASON_GRAPH_LIMIT = 7, /* The program has as many graphs as its limit allows. */
  /* There is no room for the plan, or for the staged inputs at the bucket. */
  COPPICE_REASON_BYTE_LIMIT = 8,
  COPPICE_REASON_CAPTURE_INVALIDATED = 9, /* Other code broke the recording; it is retried once. */
  /* The program cannot be recorded, or its allocations differ from those of the warm-up. */
  COPPICE_REASON_NOT_CAPTURABLE = 10,
  COPPICE_REASON_GATE_SAYS_EAGER = 11, /* Measured: eager is faster in this bucket. */
  /* The stance, the program or the vote of the ranks forbids graphs. */
  COPPICE_REASON_USER_DISABLED = 12,
  /* A guard of a policy keeps an extent, or a pair of extents, out of its bucket. */
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
/* The names of a kind of run and of a reason: "replay", "new_bucket"; "unknown" for other numbers.
 */
COPPICE_API const char* coppice_run_kind_name(int32_t kind);
COPPICE_API const char* coppice_reason_name(int32_t reason);

typedef struct coppice_lease_info {
  uint32_t struct_size;
  int32_t kind; /* COPPICE_RUN_... */
  int32_t reason;
  int32_t output_count; /* 0 once its session is gone, or the lease empty. */
  uint64_t call_number;
  int32_t is_part; /* Not 0: only output `part` can be read; output_count includes the others. */
  int32_t part;
} coppice_lease_info;

COPPICE_API coppice_status coppice_lease_describe(coppice_lease* lease, coppice_lease_info* out);
/* Gives up the outputs when the last scope on them has ended. Any thread may call this. */
COPPICE_API void coppice_lease_release(coppice_lease* lease);
/* The same, but work that is queued on `stream` so far may still read the outputs: the lane's next
 * use waits for it. Releases the lease even if it fails. Errors: as Lease::Release; failed
 * precondition: a scope is open; its end then gives up the outputs. */
COPPICE_API coppice_status coppice_lease_release_after(coppice_lease* lease, void* stream);

/* Lease::Split: writes a lease for each output to `out`; `out_count` must be the lease's
 * output_count. The lease is empty afterwards, and must still be released; after an error it is
 * unchanged. Errors: also failed precondition: a scope is open. */
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
/* The same, with as many elements as the device counted. Waits for the scope's stream. */
COPPICE_API coppice_status coppice_read_sized_output(coppice_read* scope,
                                                     int32_t index,
                                                     coppice_view* out);
/* ReadScope::count: where the device writes the count of output `index`, for coppice_call.counts.
 * Errors: not found: the output has no count. */
COPPICE_API coppice_status coppice_read_count(coppice_read* scope,
                                              int32_t index,
                                              coppice_view* out);
/* Ends the scope. The lane's next use waits for the work queued on the stream so far. */
COPPICE_API void coppice_read_end(coppice_read* scope);

/* Lease::Detach: copies the outputs on `stream` into their own memory, and writes one tensor per
 * output to `out`. Call the deleter of each, on any thread, when the work that reads it has run.
 * Outputs in the caller's own targets are not copied. The lease is empty afterwards. `out_count`
 * must be the lease's output_count, or 1 for a part. */
COPPICE_API coppice_status coppice_lease_detach(coppice_lease* lease,
                                                void* stream,
                                                DLManagedTensorVersioned** out,
                                                int64_t out_count);

/* ---- Buckets that follow traffic ----------------------------------------------------------------
 * For symbols whose policy has an observe_half_life; see coppice/graphs/rebucket.h. `symbol` is the
 * symbol's name in its program. */

/* A field that is 0 has the default of RebucketOptions and RelearnFor. */
typedef struct coppice_rebucket_options {
  uint32_t struct_size;
  int32_t dry_run; /* Not 0: only learns and reports. */
  int64_t period;  /* Calls before learning is due again; negative: always due. */
  /* The most, without those beyond all calls; 0: as many as the current policy has, or, with a
   * cost_per_byte, as the registered one has, if that is more. */
  int64_t bucket_count;
  int64_t added_max;         /* The most new buckets; negative: none. */
  double gain_min;           /* Points of waste and price that a swap must save; negative: none. */
  double max_ratio;          /* Negative: no cap. */
  int64_t max_gap;           /* Used if max_ratio is above 0. */
  int32_t graphs_max;        /* Graphs recorded per swap; negative: none. */
  int32_t graphs_per_minute; /* Negative: none. */
  coppice_binding* binding;  /* As in coppice_warm_options. */
  coppice_binding* scratch;
  double cost_per_byte; /* Cost of a byte of a bucket's graphs, per call, in elements. */
} coppice_rebucket_options;

enum {
  COPPICE_REBUCKET_NOT_DUE = 0,      /* Fewer calls than the period. */
  COPPICE_REBUCKET_KEPT = 1,         /* No policy saves enough. */
  COPPICE_REBUCKET_LIMITED = 2,      /* A policy saves enough, but needs more graphs than may be
                                      * recorded. */
  COPPICE_REBUCKET_NOT_RECORDED = 3, /* A graph could not be recorded, so nothing changed; see
                                      * `why`. */
  COPPICE_REBUCKET_WOULD_SWAP = 4,   /* A dry run found a policy that saves enough. */
  COPPICE_REBUCKET_SWAPPED = 5,
};
typedef struct coppice_rebucket_report {
  uint32_t struct_size;
  int32_t outcome;         /* COPPICE_REBUCKET_... */
  int64_t calls;           /* Observed in all. */
  int64_t graphs;          /* Graphs recorded; in a dry run, graphs that would be recorded. */
  int64_t added;           /* New buckets; in a dry run, those that it would add. */
  int64_t dropped;         /* Dropped buckets, likewise. */
  double waste_before_pct; /* Points, for the observed calls. */
  double waste_after_pct;
  char why[160]; /* What prevented new buckets, cut off to fit; empty: nothing. */
} coppice_rebucket_report;
/* The name of an outcome: "swapped"; "unknown" for other numbers. */
COPPICE_API const char* coppice_rebucket_outcome_name(int32_t outcome);

/* SessionPolicies::Rebucket. May record, and wait for the device. */
COPPICE_API coppice_status coppice_rebucket(coppice_session* session,
                                            coppice_program* program,
                                            const char* symbol,
                                            const coppice_rebucket_options* options,
                                            coppice_rebucket_report* out);
/* SessionPolicies::SetPolicy: its symbol and observe_half_life are ignored. */
COPPICE_API coppice_status coppice_set_policy(coppice_session* session,
                                              coppice_program* program,
                                              const char* symbol,
                                              const coppice_policy* policy);
/* The current policy, as JSON for coppice_policy.text. The text is written as by coppice_explain.
 */
COPPICE_API coppice_status coppice_get_policy(coppice_session* session,
                                              coppice_program* program,
                                              const char* symbol,
                                              char* buffer,
                                              size_t buffer_bytes,
                                              size_t* text_bytes);
/* The observed sizes, as JSON for coppice_set_observed. The text is written as by coppice_explain.
 */
COPPICE_API coppice_status coppice_get_observed(coppice_session* session,
                                                coppice_program* program,
                                                const char* symbol,
                                                char* buffer,
                                                size_t buffer_bytes,
                                                size_t* text_bytes);
/* SessionPolicies::SetObserved: replaces the observed sizes by `text`. */
COPPICE_API coppice_status coppice_set_observed(coppice_session* session,
                                                coppice_program* program,
                                                const char* symbol,
                                                const char* text);

/* ---- Memory for other libraries -----------------------------------------------------------------
 * An allocator for other libraries. Its two functions have the types that PyTorch's
 * CUDAPluggableAllocator takes.
 *
 * On a thread that runs a callable, in any phase, a block is a temporary of that run, as from
 * coppice_context_allocate. It is planned into the lane's window, so runs must allocate the same
 * blocks in the same order. It ends when that thread frees it during the run; other blocks may then
 * use its bytes, in the order of the stream.
 *
 * A block that is not freed when the callable returns keeps its bytes to the end of the run, and in
 * the recorded graph to the end of each replay. The lane's next calls write there, so the block
 * must not be used after that. Freeing it later, on any thread, does nothing and is counted.
 * The same holds for freeing a block on a thread other than that of its run. Avoid one case: on a
 * thread that is in another run, the call would free that run's own block at the same address. So a
 * library that keeps blocks for reuse, like PyTorch's caching allocator, needs a pool per run (a
 * MemPool), which it drops before the next run.
 *
 * On every other thread, and in functions of `call` steps, a block is memory of the device that
 * coppice_external_allocator_use named. Freeing it waits for all work of the device, as cuMemFree
 * does, unless the device has a memory provider. */

/* Returns null and sets coppice_last_error if there is no room, no device was named, or the named
 * device is not number `device`. Returns null for 0 bytes. Only a memory provider uses `stream`:
 * blocks are ordered with the stream of the run, or with no stream. */
COPPICE_API void* coppice_external_allocate(ptrdiff_t bytes, int32_t device, void* stream);
/* Freeing null does nothing. If a run allocates other blocks than its warm-up, and a block can then
 * not be freed, the run fails. */
COPPICE_API void coppice_external_free(void* block, ptrdiff_t bytes, int32_t device, void* stream);

/* Names the device for blocks outside runs, for all threads; null: none. The device is kept while
 * it is named, and while any of its blocks exist. */
COPPICE_API coppice_status coppice_external_allocator_use(coppice_device* device);

/* Counts for the process so far. */
typedef struct coppice_external_stats {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t run_blocks;    /* Blocks allocated in runs of callables. */
  int64_t left_blocks;   /* Blocks that were not freed when their callable returned. */
  int64_t device_blocks; /* Blocks allocated from the named device. */
  int64_t late_frees;    /* Frees that did nothing, because the block no longer existed. */
} coppice_external_stats;
COPPICE_API coppice_status coppice_external_allocator_stats(coppice_external_stats* out);

/* ---- Memory, statistics, profiles
 * ---------------------------------------------------------------- */

/* Drops the graphs of a program, or of all if null. `dropped` may be null. */
COPPICE_API coppice_status coppice_evict(coppice_session* session,
                                         coppice_program* program,
                                         int64_t* dropped);
/* SessionMemory::Trim: releases memory that no lease holds. */
COPPICE_API coppice_status coppice_trim(coppice_session* session);

/* What happens to constants while a session is suspended. */
enum {
  COPPICE_CONSTANTS_SAVE = 0,   /* They are copied to the host, and back by Resume. */
  COPPICE_CONSTANTS_KEEP = 1,   /* They stay on the device. */
  COPPICE_CONSTANTS_RELOAD = 2, /* They are dropped; Resume fills them again from their sources. */
};
typedef struct coppice_suspend_options {
  uint32_t struct_size;
  int32_t constants; /* COPPICE_CONSTANTS_... */
  int32_t refuse_leases;
  int32_t drop_graphs;
} coppice_suspend_options;
/* SessionMemory::Suspend: gives the session's memory back. Waits for the device. */
COPPICE_API coppice_status coppice_suspend(coppice_session* session,
                                           const coppice_suspend_options* options);
/* SessionMemory::Resume: takes the memory again. */
COPPICE_API coppice_status coppice_resume(coppice_session* session);
/* Reports to the budget how many bytes the application itself holds. */
COPPICE_API coppice_status coppice_set_external_bytes(coppice_session* session, int64_t bytes);

/* SessionMemory::Lend: the idle memory of a lane, whose calls are refused until the loan ends.
 * `address` and `bytes` (either may be null) get its place and size; its contents are undefined. */
COPPICE_API coppice_status coppice_lend(
    coppice_session* session, int32_t lane, uint64_t* address, int64_t* bytes, coppice_loan** out);
/* Loan::Return: ends the loan; the lane's next call waits for the work queued on `stream` so far.
 * The loan must still be released. */
COPPICE_API coppice_status coppice_loan_return(coppice_loan* loan, void* stream);
/* Releases the loan, and ends it if it has not ended; work that uses the memory must have run. */
COPPICE_API void coppice_loan_release(coppice_loan* loan);
/* SessionMemory::Scrub: zeroes all memory of a lane, ordered after earlier work on `stream` and
 * the lane's earlier calls. */
COPPICE_API coppice_status coppice_scrub(coppice_session* session, int32_t lane, void* stream);

/* SessionStats of coppice/graphs/session_stats.h. */
typedef struct coppice_session_stats {
  uint32_t struct_size;
  uint32_t reserved;
  int64_t calls;            /* Calls that ran. */
  int64_t runs[8];          /* Calls, by how they ran: COPPICE_RUN_... */
  int64_t reasons[24];      /* Calls that did not replay, by reason: COPPICE_REASON_... */
  int64_t recordings;       /* Graphs recorded, including those recorded before calls. */
  int64_t evictions;        /* Graphs dropped to make room. */
  int64_t remaps;           /* Replays that had to map their memory again. */
  int64_t inputs_in_place;  /* Inputs read where an earlier call left them. */
  int64_t real_elements;    /* Staged elements that callers passed. */
  int64_t padded_elements;  /* Staged elements, including padding. */
  int64_t captures_retried; /* Recordings that were broken from outside and retried. */
  int64_t recordings_empty; /* Recordings without a graph node or a break. */
  int64_t inputs_filled;    /* Inputs staged only to fill their padding. */
  int64_t inputs_demoted;   /* Static inputs that moved too often and have been copied since. */
  int64_t stream_switches;  /* Calls that had to wait for the lane's last stream. */
  int64_t exact_replays;    /* Replays at the call's own sizes, in a bucket's memory. */
  int64_t patched_nodes;    /* Graph nodes that were set to the sizes of a call. */
} coppice_session_stats;
COPPICE_API coppice_status coppice_stats(coppice_session* session, coppice_session_stats* out);

/* What device memory is for. */
enum {
  /* Mapped under the plan windows, where all nodes of a lane share the same bytes. */
  COPPICE_MEMORY_NODES = 0,
  /* Mapped under the eager windows: warm-up and eager runs, and their leases. */
  COPPICE_MEMORY_EAGER = 1,
  /* Mapped under the staging windows: padded inputs and parameter blocks. */
  COPPICE_MEMORY_STAGING = 2,
  COPPICE_MEMORY_COPY_OUT = 3,  /* Mapped under the copy-out windows. */
  COPPICE_MEMORY_WORKSPACE = 4, /* Mapped under the workspace windows, for libraries. */
  COPPICE_MEMORY_CONSTANTS = 5, /* Mapped under the constants window. */
  /* Physical handles that no window has mapped, kept for later growth. */
  COPPICE_MEMORY_SPARE = 6,
  COPPICE_MEMORY_INCLUDED = 7, /* Memory of graphs that the caller's captures include. */
  COPPICE_MEMORY_GRAPHS = 8,   /* Executable graphs, as the driver keeps them: an estimate. */
  COPPICE_MEMORY_EXTERNAL = 9, /* Memory that the application itself holds and has reported. */
};
/* MemoryUsage of coppice/graphs/memory_usage.h. */
typedef struct coppice_memory_usage {
  uint32_t struct_size;
  int32_t kind_count;
  int64_t bytes[16];  /* Held, by kind: COPPICE_MEMORY_... */
  int64_t peak[16];   /* The most ever held, by kind: COPPICE_MEMORY_... */
  int64_t total;      /* The sum over all kinds. */
  int64_t total_peak; /* The highest total so far. */
  int64_t budget;     /* The most that the total may be; 0: no budget. */
  int64_t height;     /* Largest end offset in the plan of any recorded graph, over all lanes. */
  int64_t eager_live; /* Bytes in use in the eager windows. */
  int64_t eager_peak; /* Highest top of any eager window so far. */
} coppice_memory_usage;
COPPICE_API coppice_status coppice_memory(coppice_session* session, coppice_memory_usage* out);
/* The name of a kind: "nodes"; "unknown" for other numbers. */
COPPICE_API const char* coppice_memory_kind_name(int32_t kind);

/* Session::nodes, as a JSON array with an object per bucket: program, variant, bucket, lane,
 * recorded, retired, number, plan_height, live_bytes, serial, graph_nodes, family, record_ns and
 * replays; see NodeInfo of coppice/graphs/session_stats.h. The text is written as by
 * coppice_explain. */
COPPICE_API coppice_status coppice_buckets(coppice_session* session,
                                           char* buffer,
                                           size_t buffer_bytes,
                                           size_t* text_bytes);

/* Session::Dump: the drawing, in Graphviz's DOT, of recording `number` of a lane; coppice_buckets
 * has both numbers. The session must have keep_drawings. The text is written as by coppice_explain.
 * Errors: not found: the graph was dropped. */
COPPICE_API coppice_status coppice_dump(coppice_session* session,
                                        int32_t lane,
                                        int64_t number,
                                        char* buffer,
                                        size_t buffer_bytes,
                                        size_t* text_bytes);

/* How the page is written. */
enum {
  COPPICE_METRICS_PROMETHEUS = 0, /* Prometheus' text format 0.0.4. */
  /* OpenMetrics 1.0: with units, and a last line that shows that the page is complete. */
  COPPICE_METRICS_OPENMETRICS = 1,
};
/* Session::MetricsText: a page of all figures in a format COPPICE_METRICS_..., with the names and
 * bounds of coppice/graphs/metrics.h. The text is written as by coppice_explain. Calls of other
 * threads may make the page longer, so use a buffer with room to spare, or try again until the page
 * fits. */
COPPICE_API coppice_status coppice_session_metrics_text(coppice_session* session,
                                                        int32_t format,
                                                        char* buffer,
                                                        size_t buffer_bytes,
                                                        size_t* text_bytes);
/* The Content-Type header for such a page; "unknown" if there is no such format. */
COPPICE_API const char* coppice_metrics_content_type(int32_t format);

/* SessionWarming::SaveProfile. */
COPPICE_API coppice_status coppice_save_profile(coppice_session* session, const char* path);

/* What happens to values in a case. */
enum {
  COPPICE_CASE_KEEP = 0, /* They stay. */
  /* Floats become noise of either sign, from 0.5 up to 1; other numbers become noise between the
   * least and the largest value of their tensor. */
  COPPICE_CASE_NOISE = 1,
  COPPICE_CASE_SPECIAL = 2, /* The same, but zeros, infinities and NaNs stay where they are. */
};
/* SessionRecorder::Save: writes the calls that the flight recorder has of a lane to the file
 * `path`, which `coppice replay` runs. Needs coppice_session_options.recorder_ring_bytes. `why` is
 * a text for people, the reason for the case; null: none. `values` is COPPICE_CASE_.... Works even
 * after a fault of the device. Other options have the defaults of C++. */
COPPICE_API coppice_status coppice_save_case(
    coppice_session* session, const char* path, const char* why, int32_t lane, int32_t values);
typedef struct coppice_profile_options {
  uint32_t struct_size;
  int32_t lane;
  coppice_binding* const* bindings;
  coppice_binding* const* scratches; /* One per binding, each of which may be null; null: no
                                      * scratches. */
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
/* SessionWarming::LoadProfile. */
COPPICE_API coppice_status coppice_load_profile(coppice_session* session,
                                                const char* path,
                                                const coppice_profile_options* options,
                                                coppice_loaded_profile* out);

/* SessionTrace::Mark: adds a mark to the trace. */
COPPICE_API coppice_status coppice_mark(coppice_session* session, const char* name);
/* How long one request to a server took, by the server's clock; see RequestTimes. */
typedef struct coppice_request_times {
  uint32_t struct_size;
  int32_t input_tokens;
  int32_t output_tokens; /* >= 1. */
  uint32_t reserved;
  int64_t id;             /* 0 to 2^53. */
  int64_t first_token_ns; /* From its arrival. */
  int64_t last_token_ns;  /* From its arrival; >= first_token_ns. */
} coppice_request_times;
/* Adds the times to the trace. Does nothing without a trace. */
COPPICE_API coppice_status coppice_note_request(coppice_session* session,
                                                const coppice_request_times* times);
/* SessionTrace::Flush: waits until the trace is in its file. */
COPPICE_API coppice_status coppice_flush_trace(coppice_session* session);
/* Session::WaitForRecordings: waits for recordings in the background. */
COPPICE_API coppice_status coppice_wait_for_recordings(coppice_session* session);

/* ---- The same as a table ------------------------------------------------------------------------
 * For programs that load the library at run time: one look-up instead of one per function. New
 * functions are added at the end and functions never move, so in a table of this major version, all
 * functions within its size are valid. */

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
  X(loan_return) X(loan_release) X(scrub) X(save_case)
/* clang-format on */

typedef struct coppice_api {
  uint32_t struct_size; /* The library's size; members beyond it do not exist. */
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
