"""Triton's own launcher for CUDA, over a driver that notes what it is to launch.

The C code that Triton ships for its launches is compiled as Triton compiles it, against a
libcuda.so.1 made here: an oracle of what a kernel is passed, without a GPU. Needs a C compiler.
"""

import contextlib
import ctypes
import dataclasses
import pathlib
import re
import subprocess
import types
from unittest import mock

import triton
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import driver as cuda
from triton.compiler import ASTSource
from triton.runtime.jit import JITFunction

PARAMETERS_MAX, PARAMETER_BYTES_MAX = 256, 8
# Of a parameter as PTX has it; the launcher writes more for truth values.
TYPE_BYTES = {"i1": 1, "u1": 1, "i8": 1, "u8": 1, "i16": 2, "u16": 2, "i32": 4, "u32": 4,
              "i64": 8, "u64": 8, "fp16": 2, "bf16": 2, "fp32": 4, "f32": 4, "fp64": 8}
# Notes a launch in its function, of which Python says before how large each parameter is.
NOTING = """
#include <string.h>
#include <cuda.h>

typedef struct {
  int count;
  int sizes[PARAMETERS_MAX];
  unsigned char values[PARAMETERS_MAX][PARAMETER_BYTES_MAX];
  int launches, grid[3], threads, shared, cluster, cooperative, programmatic;
  unsigned long long stream;
} Function;

CUresult cuLaunchKernelEx(const CUlaunchConfig* config, CUfunction f, void** parameters,
                          void** extra) {
  Function* function = (Function*)f;
  for (int i = 0; i < function->count; ++i)
    memcpy(function->values[i], parameters[i], function->sizes[i]);
  ++function->launches;
  function->grid[0] = config->gridDimX;
  function->grid[1] = config->gridDimY;
  function->grid[2] = config->gridDimZ;
  function->threads = config->blockDimX;
  function->shared = config->sharedMemBytes;
  function->stream = (unsigned long long)config->hStream;
  function->cluster = 1;
  function->cooperative = function->programmatic = 0;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute* attribute = config->attrs + i;
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      function->cluster = attribute->value.clusterDim.x;
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE)
      function->cooperative = attribute->value.cooperative;
    if (attribute->id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      function->programmatic = attribute->value.programmaticStreamSerializationAllowed;
  }
  return CUDA_SUCCESS;
}

unsigned long long host_begin, host_end;

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  return address >= host_begin && address < host_end ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = "an error of the driver";
  return CUDA_SUCCESS;
}
"""


class Function(ctypes.Structure):
    """As above."""

    _fields_ = [("count", ctypes.c_int), ("sizes", ctypes.c_int * PARAMETERS_MAX),
                ("values", (ctypes.c_ubyte * PARAMETER_BYTES_MAX) * PARAMETERS_MAX),
                ("launches", ctypes.c_int), ("grid", ctypes.c_int * 3), ("threads", ctypes.c_int),
                ("shared", ctypes.c_int), ("cluster", ctypes.c_int),
                ("cooperative", ctypes.c_int), ("programmatic", ctypes.c_int),
                ("stream", ctypes.c_ulonglong)]


@dataclasses.dataclass
class Launch:
    """What a driver is told to launch."""

    values: list  # Bytes of each parameter.
    grid: tuple
    threads: int
    shared: int
    cluster: int
    cooperative: bool
    programmatic: bool
    stream: int


def make_driver_library(folder):
    """libcuda.so.1 in a folder: what Triton's launcher calls, most of which does nothing."""
    source = pathlib.Path(cuda.dirname, "driver.c").read_text()
    named = set(re.findall(r"\b(cu[A-Z]\w+)\(", source)) - set(re.findall(r"\b(cu\w+)\(", NOTING))
    nothing = "".join(f"int {name}{version}() {{ return 0; }}\n"
                      for name in sorted(named) for version in ("", "_v2"))
    sizes = [f"-DPARAMETERS_MAX={PARAMETERS_MAX}", f"-DPARAMETER_BYTES_MAX={PARAMETER_BYTES_MAX}"]
    for name, text in (("noting.c", NOTING), ("nothing.c", nothing)):
        (folder / name).write_text(text)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "libcuda.so.1", *sizes,
                    *(f"-I{path}" for path in cuda.include_dirs), "-Wl,-soname,libcuda.so.1",
                    folder / "noting.c", folder / "nothing.c"], check=True)
    return ctypes.CDLL(folder / "libcuda.so.1", mode=ctypes.RTLD_GLOBAL)


class TritonDriver:
    """The driver that Triton has where a GPU is, as far as it launches. `kinds` are the types that
    the last kernel is passed."""

    def __init__(self, folder, target):
        self.library = make_driver_library(folder)
        with mock.patch.object(triton.knobs.nvidia, "libcuda_path", str(folder)):
            known = cuda.CudaUtils()
        self.utils = types.SimpleNamespace(launch=known.launch, build_signature_metadata=self.note)
        self.build_signature_metadata, self.kinds = known.build_signature_metadata, []
        self.launcher_cls, self.target = cuda.CudaLauncher, GPUTarget("cuda", target, 32)

    def note(self, kinds):
        self.kinds = kinds
        return self.build_signature_metadata(kinds)

    def set_host(self, address, size):
        """Says what memory is none of the device's."""
        ctypes.c_ulonglong.in_dll(self.library, "host_begin").value = address
        ctypes.c_ulonglong.in_dll(self.library, "host_end").value = address + size

    def get_current_target(self):
        return self.target

    def get_current_device(self):
        return 0

    def get_current_stream(self, device):
        return 1234


class NotingDevice:
    """A coppice.Device that notes what coppice.triton launches."""

    stream = 1234

    def __init__(self, device):
        self.device, self.launches = device, []

    def empty(self, shape, dtype):
        return self.device.empty(shape, dtype)

    def holds(self, address):
        return self.device.holds(address)

    def launch(self, kernel, grid, block, values, stream, *, shared_bytes, cluster, cooperative,
               programmatic):
        self.launches.append(Launch(values, tuple(grid), block[0], shared_bytes, cluster[0],
                                    bool(cooperative), bool(programmatic), stream))


class Compiled:
    """A kernel that nobody compiled, to be launched by the driver's launcher."""

    def __init__(self, source, metadata, function):
        self.src, self.metadata = source, metadata
        self.packed_metadata = (metadata.num_warps, metadata.num_ctas, metadata.shared)
        self.run = triton.runtime.driver.active.launcher_cls(source, metadata)
        self.function = function()

    def launch_metadata(self, grid, stream, *arguments):
        return None


@contextlib.contextmanager
def uncompiled(function, **metadata):
    """Within, @triton.jit compiles nothing: what its kernels launch is what `function` returns."""
    known = types.SimpleNamespace(**{
        "name": "kernel", "num_warps": 4, "num_ctas": 1, "shared": 0, "global_scratch_size": 0,
        "global_scratch_align": 1, "profile_scratch_size": 0, "profile_scratch_align": 1,
        "launch_cooperative_grid": False, "launch_pdl": False, "tensordesc_meta": None,
        "instrumentation_mode": "", **metadata})

    def compile_nothing(self, key, signature, device, constexprs, options, attrs, warmup):
        return Compiled(ASTSource(self, signature, constexprs, attrs), known, function)

    with mock.patch.object(JITFunction, "_do_compile", compile_nothing):
        yield


def launch_by_triton(driver, launch, **metadata):
    """What Triton's launcher passes to the driver if `launch` launches a kernel; None if nothing.
    Errors: what it raises."""
    function = Function()

    def made():
        sizes = [8 if kind.startswith("*") else TYPE_BYTES[kind] for kind in driver.kinds]
        sizes += [8, 8]  # Scratch memory, and what profiles.
        function.count, function.sizes[:len(sizes)] = len(sizes), sizes
        return ctypes.addressof(function)

    with uncompiled(made, **metadata), mock.patch.object(triton.runtime.driver, "_active", driver):
        launch()
    if function.launches == 0:
        return None
    sizes = function.sizes[:function.count]
    return Launch([bytes(value[:size]) for value, size in zip(function.values, sizes)],
                  tuple(function.grid), function.threads, function.shared, function.cluster,
                  bool(function.cooperative), bool(function.programmatic), function.stream)
