"""Runs programs of kernel packages in sessions of libcoppice.so, on the emulator, where functions
that a package calls are PyTorch's operators on the CPU: each is work in the order of its stream,
whose accesses the emulator checks like a kernel's.
"""

import contextlib
import ctypes
import json
import pathlib

import numpy as np

import executor

POISONS = {"off": 0, "nan": 1, "pattern": 2, "noise": 3}
KINDS = ("replay", "record", "warm_up", "eager")
EMULATOR, ON_HOST, STANCE_EAGER, NEVER = 2, 1, 2, 2
EXT_DEVICE = 12
# DLPack's code and bits.
DTYPES = {"f64": (2, 64), "f32": (2, 32), "f16": (2, 16), "bf16": (4, 16), "i64": (0, 64),
          "i32": (0, 32), "i16": (0, 16), "i8": (0, 8), "u64": (1, 64), "u32": (1, 32),
          "u16": (1, 16), "u8": (1, 8), "bool": (6, 8)}
NAMES = {code: name for name, code in DTYPES.items()}


class LibraryFailure(AssertionError):
    """A call of the library failed, or the emulator found something; the text is what it said."""


class DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class Sized(ctypes.Structure):
    """A struct of coppice.h, as far as these tests need it: it says its size."""

    def __init__(self, **fields):
        super().__init__(ctypes.sizeof(type(self)), **fields)


class DeviceOptions(Sized):
    _fields_ = [("struct_size", ctypes.c_uint32), ("kind", ctypes.c_int32),
                ("ordinal", ctypes.c_int32), ("compute_capability", ctypes.c_int32),
                ("memory_bytes", ctypes.c_int64), ("seed", ctypes.c_uint64)]


class SessionOptions(Sized):
    _fields_ = [("struct_size", ctypes.c_uint32), ("stance", ctypes.c_int32)]


class FunctionCall(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("input_count", ctypes.c_int32),
                ("inputs", ctypes.POINTER(DLTensor)), ("outputs", ctypes.POINTER(DLTensor)),
                ("output_count", ctypes.c_int32), ("option_count", ctypes.c_int32),
                ("option_names", ctypes.POINTER(ctypes.c_char_p)),
                ("option_values", ctypes.POINTER(ctypes.c_char_p)), ("stream", ctypes.c_void_p)]


StepFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.POINTER(FunctionCall))


class Function(Sized):
    _fields_ = [("struct_size", ctypes.c_uint32), ("when", ctypes.c_int32),
                ("name", ctypes.c_char_p), ("run", StepFunction), ("user", ctypes.c_void_p),
                ("release", ctypes.c_void_p)]


class NamedTensor(Sized):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("name", ctypes.c_char_p), ("tensor", ctypes.POINTER(DLTensor))]


class ProgramOptions(Sized):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("name", ctypes.c_char_p), ("variant", ctypes.c_char_p),
                ("policies", ctypes.c_void_p), ("policy_count", ctypes.c_int64),
                ("claims", ctypes.c_void_p), ("claim_count", ctypes.c_int64),
                ("constants", ctypes.POINTER(NamedTensor)), ("constant_count", ctypes.c_int64),
                ("functions", ctypes.POINTER(Function)), ("function_count", ctypes.c_int64)]


class Call(Sized):
    _fields_ = [("struct_size", ctypes.c_uint32), ("lane", ctypes.c_int32),
                ("program", ctypes.c_void_p), ("binding", ctypes.c_void_p),
                ("inputs", ctypes.POINTER(ctypes.POINTER(DLTensor))),
                ("input_count", ctypes.c_int64), ("scalars", ctypes.c_void_p),
                ("scalar_count", ctypes.c_int64), ("extents", ctypes.c_void_p),
                ("extent_count", ctypes.c_int64), ("targets", ctypes.c_void_p),
                ("target_count", ctypes.c_int64), ("stream", ctypes.c_void_p),
                ("output_mode", ctypes.c_int32), ("poison", ctypes.c_int32)]


class LeaseInfo(Sized):
    _fields_ = [("struct_size", ctypes.c_uint32), ("kind", ctypes.c_int32)]


class View(Sized):
    _fields_ = [("struct_size", ctypes.c_uint32), ("reserved", ctypes.c_uint32),
                ("tensor", DLTensor), ("shape", ctypes.c_int64 * 8),
                ("strides", ctypes.c_int64 * 8)]


def array_of(tensor):
    """An array over the memory of a tensor, and its dtype's name."""
    dtype = NAMES[tensor.code, tensor.bits]
    item = np.dtype(executor.DTYPES[dtype])
    shape, strides = tensor.shape[:tensor.ndim], tensor.strides[:tensor.ndim]
    if 0 in shape:
        return np.empty(shape, item), dtype
    count = sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1
    memory = (ctypes.c_uint8 * (count * item.itemsize)).from_address(tensor.data)
    return np.lib.stride_tricks.as_strided(np.frombuffer(memory, item), shape,
                                           [stride * item.itemsize for stride in strides]), dtype


class Library:
    """An emulator with a package on it."""

    def __init__(self, path, package, seed=1):
        self.dll, self.stack = ctypes.CDLL(str(path)), contextlib.ExitStack()
        for name in ("device_findings", "last_error"):
            getattr(self.dll, f"coppice_{name}").restype = ctypes.c_size_t
        self.device = self.made("device", self.call("device_open", ctypes.byref(
            DeviceOptions(kind=EMULATOR, seed=seed))))
        self.stream = self.call("stream_create", self.device)
        self.package = self.made("package", self.call(
            "package_load", self.device, str(package).encode(), None))
        text, size = ctypes.c_void_p(), ctypes.c_int64()
        self.check(self.dll.coppice_package_manifest(self.package, ctypes.byref(text),
                                                     ctypes.byref(size)))
        self.manifest = json.loads(ctypes.string_at(text.value, size.value))
        self.calls = 0  # Of functions.
        self.kept = []  # What the library points to.

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.stack.close()

    def check(self, status):
        if status != 0:
            raise LibraryFailure(self.text(self.dll.coppice_last_error))

    def text(self, function, *arguments):
        """What a function writes that is told a buffer and returns how much there is."""
        size = function(*arguments, None, ctypes.c_size_t(0))
        buffer = ctypes.create_string_buffer(size + 1)
        function(*arguments, buffer, ctypes.c_size_t(size + 1))
        return buffer.value.decode()

    def call(self, name, *arguments):
        """Calls a function that gives a handle as its last argument."""
        made = ctypes.c_void_p()
        self.check(getattr(self.dll, f"coppice_{name}")(*arguments, ctypes.byref(made)))
        return made

    def made(self, what, handle):
        """A handle that is released in the end."""
        self.stack.callback(getattr(self.dll, f"coppice_{what}_release"), handle)
        return handle

    def findings(self):
        return self.text(self.dll.coppice_device_findings, self.device).splitlines()

    def upload(self, array, dtype):
        """An array on the device, as a tensor that lives as long as this."""
        array, address = np.asarray(array, order="C"), ctypes.c_uint64()
        size = ctypes.c_int64(max(array.nbytes, 1))
        self.check(self.dll.coppice_memory_allocate(self.device, size, ctypes.byref(address)))
        self.check(self.dll.coppice_copy_to_device(
            self.device, address, array.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_int64(array.nbytes), self.stream))
        shape = (ctypes.c_int64 * max(array.ndim, 1))(*array.shape)
        code, bits = DTYPES[dtype]
        tensor = DLTensor(data=address.value, device_type=EXT_DEVICE, ndim=array.ndim, code=code,
                          bits=bits, lanes=1, shape=shape)
        self.kept.append((shape, tensor))
        return tensor

    def function(self, name):
        """A function of the package, as PyTorch's operator."""
        def run(_, pointer):
            call = pointer.contents
            self.calls += 1
            try:
                options = {call.option_names[i].decode(): call.option_values[i].decode()
                           for i in range(call.option_count)}
                inputs = [executor.widened(*array_of(call.inputs[i]))
                          for i in range(call.input_count)]
                outputs = [array_of(call.outputs[i]) for i in range(call.output_count)]
                results = executor.call_torch(name, inputs, options)
                for (output, dtype), result in zip(outputs, results, strict=True):
                    output[...] = executor.narrowed(result, dtype)
            except Exception as error:  # No exception passes C.
                self.dll.coppice_set_error(f"{type(error).__name__}: {error}".encode())
                return 12  # COPPICE_UNKNOWN
            return 0

        return Function(when=ON_HOST, name=name.encode(), run=StepFunction(run))

    def functions(self):
        names = {step["function"] for program in self.manifest["programs"].values()
                 for step in program["steps"] if step["op"] == "call"} - {"gemm"}
        return [self.function(name) for name in sorted(names)]

    def session(self, constants, stance=0):
        """A session that has the program `main`."""
        handle = self.made("session", self.call(
            "session_create", self.device, ctypes.byref(SessionOptions(stance=stance))))
        functions = self.functions()
        tensors = [NamedTensor(name=name.encode(), tensor=ctypes.pointer(tensor))
                   for name, tensor in constants.items()]
        options = ProgramOptions(constants=(NamedTensor * len(tensors))(*tensors),
                                 constant_count=len(tensors),
                                 functions=(Function * len(functions))(*functions),
                                 function_count=len(functions))
        self.kept.append((functions, tensors, options))
        program = self.call("register_package", handle, self.package, b"main",
                            ctypes.byref(options))
        return Session(self, handle, program)


class Session:
    def __init__(self, library, handle, program):
        self.library, self.handle, self.program = library, handle, program

    def buckets(self):
        """Of each bucket its figures, by its sizes."""
        size, dll = ctypes.c_size_t(), self.library.dll
        self.library.check(dll.coppice_buckets(self.handle, None, ctypes.c_size_t(0),
                                               ctypes.byref(size)))
        buffer = ctypes.create_string_buffer(size.value + 1)
        self.library.check(dll.coppice_buckets(self.handle, buffer,
                                               ctypes.c_size_t(size.value + 1), None))
        return {tuple(bucket["bucket"]): bucket for bucket in json.loads(buffer.value)}

    def run(self, tensors, names, poison="off"):
        """Outputs by name, how the call ran, and its bucket; None without a graph."""
        library, before = self.library, self.buckets()
        pointers = (ctypes.POINTER(DLTensor) * len(tensors))(*map(ctypes.pointer, tensors))
        call = Call(program=self.program, inputs=pointers, input_count=len(tensors),
                    stream=library.stream, poison=POISONS[poison])
        info = LeaseInfo()
        with contextlib.ExitStack() as held:  # Of what keeps the device.
            lease = library.call("run", self.handle, ctypes.byref(call))
            held.callback(library.dll.coppice_lease_release, lease)
            library.check(library.dll.coppice_lease_describe(lease, ctypes.byref(info)))
            scope = library.call("lease_read", lease, library.stream)
            held.callback(library.dll.coppice_read_end, scope)
            library.check(library.dll.coppice_stream_synchronize(library.device, library.stream))
            outputs = {name: self.output(scope, index) for index, name in enumerate(names)}
        used = [sizes for sizes, bucket in self.buckets().items()
                if bucket["replays"] > before.get(sizes, {"replays": 0})["replays"]]
        return outputs, KINDS[info.kind], list(used[0]) if used else None

    def output(self, scope, index):
        library, view = self.library, View()
        library.check(library.dll.coppice_read_output(scope, ctypes.c_int32(index),
                                                      ctypes.byref(view)))
        item = np.dtype(executor.DTYPES[NAMES[view.tensor.code, view.tensor.bits]])
        shape = view.tensor.shape[:view.tensor.ndim]
        strides = view.tensor.strides[:view.tensor.ndim]
        count = sum((size - 1) * stride for size, stride in zip(shape, strides)) + 1
        memory = np.empty(count, item)
        library.check(library.dll.coppice_copy_to_host(
            library.device, memory.ctypes.data_as(ctypes.c_void_p),
            ctypes.c_uint64(view.tensor.data), ctypes.c_int64(memory.nbytes), library.stream))
        return np.lib.stride_tricks.as_strided(
            memory, shape, [stride * item.itemsize for stride in strides]).copy()


def library_of(coppice):
    """The library that was built with a command."""
    return pathlib.Path(coppice).resolve().parent.parent / "capi" / "libcoppice.so"


def run(coppice, package, sets, constants, close, seed=1):
    """As emulator.run: of each set of arrays by name the outputs by name, and a report. Each set is
    called twice, without a graph, and with poison of all kinds; `close(got, right)` says whether an
    array is as the one without a graph, bit for bit or as far as the program's claims say."""
    with Library(library_of(coppice), package, seed) as library:
        program = library.manifest["programs"]["main"]
        dtypes = {name: buffer.get("dtype") for name, buffer in program["buffers"].items()}
        declared = library.manifest["constants"]
        weights = {name: library.upload(array, declared[name]["dtype"])
                   for name, array in constants.items() if name in declared}
        reference = library.session(weights, STANCE_EAGER)
        padded = {poison: library.session(weights) for poison in POISONS}
        results, report = [], {"calls": [], "mismatches": []}
        for given in sets:
            tensors = [library.upload(given[name], dtypes[name]) for name in program["inputs"]]
            right, _, _ = reference.run(tensors, program["outputs"])
            for _ in range(2):
                for poison, session in padded.items():
                    got, kind, bucket = session.run(tensors, program["outputs"], poison)
                    report["mismatches"] += [f"{name} with poison {poison}" for name in right
                                             if not close(got[name], right[name])]
                    if poison == "off":
                        report["calls"].append({"kind": kind, "bucket": bucket,
                                                "extents": extents_of(program, given)})
                        results.append(got)
        report.update(findings=library.findings(), functions=library.calls)
    return results[1::2], report


def extents_of(program, given):
    """Of each symbol its size, from the axes of arrays that are it."""
    sizes = {size: given[name].shape[axis] for name in program["inputs"]
             for axis, size in enumerate(program["buffers"][name]["shape"])}
    return [sizes[symbol] for symbol in program["symbols"]]
