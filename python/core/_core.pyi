"""The C surface of coppice, as objects."""

from collections.abc import Sequence
from typing import Any

import coppice.figures


class HostTensor:
    """
    Memory of the host. Consumers of DLPack share it: torch.from_dlpack(t),
    numpy.from_dlpack(t).
    """

    @property
    def shape(self) -> tuple:
        """Sizes."""

    @property
    def strides(self) -> tuple:
        """Strides, in elements."""

    @property
    def dtype(self) -> str:
        """The element type, as packages name it: "f32", "bf16", "i64"."""

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last."""

    def __bool__(self) -> bool: ...

    def __eq__(self, other: object | None) -> bool: ...

    def __ne__(self, other: object | None) -> bool: ...

    def __dlpack__(self, *, stream: object | None = None, max_version: object | None = None, dl_device: object | None = None, copy: object | None = None) -> object: ...

    def __dlpack_device__(self) -> tuple: ...

    def __repr__(self) -> str: ...

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Tensor:
    """
    Memory of a device, with a type, sizes and strides. On CUDA, other libraries use it
    in place through DLPack; from the emulator they get a copy on the CPU.
    """

    @property
    def shape(self) -> tuple:
        """Sizes."""

    @property
    def strides(self) -> tuple:
        """Strides, in elements."""

    @property
    def dtype(self) -> str:
        """The element type, as packages name it: "f32", "bf16", "i64"."""

    @property
    def nbytes(self) -> int:
        """Bytes from the first element to the end of the last."""

    def numpy(self) -> object:
        """A copy as a NumPy array."""

    def __array__(self, dtype: object | None = None, *, copy: object | None = None) -> object: ...

    def __bool__(self) -> bool: ...

    def __eq__(self, other: object | None) -> bool: ...

    def __ne__(self, other: object | None) -> bool: ...

    @property
    def device(self) -> object:
        """The device that the tensor is on."""

    def data_ptr(self) -> int:
        """The address of the first element."""

    def copy_from(self, array: object, stream: int = 0) -> None:
        """
        Copies a CPU tensor of the same sizes and type into this one, in the order of the
        stream (0: the device's own). Waits for the stream.
        """

    def to_host(self, stream: int = 0) -> HostTensor:
        """
        A copy on the host, after the work of the stream. Waits for the stream.
        """

    def __dlpack__(self, *, stream: object | None = None, max_version: object | None = None, dl_device: object | None = None, copy: object | None = None) -> object: ...

    def __dlpack_device__(self) -> tuple: ...

    def __repr__(self) -> str: ...

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Package:
    """A kernel package, loaded on a device."""

    @property
    def manifest(self) -> str:
        """manifest.json, as canonical JSON."""

    @property
    def device(self) -> object:
        """The device that the package is loaded on."""

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Device:
    """A GPU, or the emulator. A process has at most one emulator at a time."""

    def __init__(self, kind: str = 'auto', ordinal: int = 0, *, compute_capability: int = 0, memory_bytes: int = 0, seed: int = 0, uninitialized_read: bool = False, harmless_races: bool = False) -> None:
        """
        Opens "cuda", "emulator", or "auto": CUDA if it has a device, else the emulator.

        The other options are for the emulator: its compute capability, 80, 86, 89 or 90 (0:
        90), the bytes of its memory (0: 4 GiB), the seed of the order in which it runs
        work, and whether two things are findings: reads of unwritten bytes, and races that
        change no bit of what a kernel writes. Raises Unavailable if there is no such device,
        FailedPrecondition if the process already has an emulator.
        """

    def findings(self, since: int = 0) -> list[str]:
        """
        The findings of the emulator so far, such as races and accesses out of bounds: one
        line each, without duplicates. `since`: an earlier finding_count(); only later
        findings are returned.
        """

    def finding_count(self) -> int:
        """The number of findings so far, including duplicates."""

    @property
    def kind(self) -> str:
        """"cuda" or "emulator"."""

    @property
    def ordinal(self) -> int:
        """The number of the CUDA device; 0 for the emulator."""

    @property
    def name(self) -> str:
        """Its name in the driver."""

    @property
    def total_bytes(self) -> int:
        """Bytes of its memory."""

    @property
    def stream(self) -> int:
        """The device's own stream, made at its first use."""

    def make_current(self) -> None:
        """Makes the device's context current on this thread."""

    def synchronize(self) -> None:
        """Waits for all work. If that work failed, raises its error (only once)."""

    def create_stream(self) -> int:
        """Creates a stream, which belongs to the caller."""

    def destroy_stream(self, stream: int) -> None: ...

    def synchronize_stream(self, stream: int = 0) -> None:
        """Waits for a stream; 0 is the device's own."""

    def empty(self, shape: Sequence[int], dtype: str) -> Tensor:
        """A dense tensor in memory of its own."""

    def upload(self, array: object, stream: int = 0) -> Tensor:
        """A copy of a CPU tensor, with its strides."""

    def view(self, address: int, shape: Sequence[int], dtype: str, strides: object | None = None, owner: object | None = None) -> Tensor:
        """A tensor in memory that `owner` keeps alive."""

    def load_package(self, package: object, *, allow_ptx: bool = False, trusted_keys: Sequence[bytes] = ()) -> Package:
        """
        Loads a kernel package: the path of a folder or zip file, or the bytes of a zip file.
        `allow_ptx`: whether a GPU may compile PTX, which takes seconds. `trusted_keys`:
        Ed25519 keys of 32 bytes, one of which must have signed the package.
        """

    def load_kernels(self, image: bytes) -> Kernels:
        """
        Loads kernels from a cubin, a fatbin or PTX text, as bytes. The emulator executes
        PTX. Raises InvalidArgument or Unimplemented with the message of the driver's
        compiler.
        """

    def launch(self, kernel: Kernel, grid: object, block: object, arguments: list, stream: int = 0, *, shared_bytes: int = 0, cluster: object = (1, 1, 1), cooperative: bool = False, programmatic: bool = False) -> None:
        """
        Launches on `stream` (0: the device's own), or into its capture if it is capturing.

        `grid`: blocks, `block`: threads, `cluster`: blocks, along one to three axes.
        `arguments`: a bytes object per parameter, copied. Raises InvalidArgument if the
        arguments do not fit the kernel's parameters, or if the kernel or the device does
        not allow the shape.
        """

    def copy(self, to: int, source: int, bytes: int, stream: int = 0) -> None:
        """
        Copies bytes between two addresses of the device, ordered after earlier work on
        `stream` (0: the device's own), or into its capture if it is capturing.
        """

    def fill(self, to: int, bytes: int, value: int = 0, stream: int = 0) -> None:
        """
        Sets bytes at an address of the device to `value`, in the same order as copy().
        """

    def driver_function(self, name: str) -> int:
        """
        The address of a function of the CUDA driver, for ctypes, on a GPU or the emulator.
        Raises NotFound.
        """

    def holds(self, address: int) -> bool:
        """
        Whether the device has memory at an address. Also works while a stream is capturing.
        """

    def lend_memory(self, lend: bool = True) -> None:
        """
        Makes this the device from which coppice_external_allocate takes memory when no
        callable is running. With False, no device is. coppice.torch.allocator() calls this.
        """

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Kernel:
    """A kernel of an image. It keeps the image."""

    @property
    def name(self) -> str: ...

    @property
    def kernels(self) -> object:
        """The image."""

    @property
    def parameter_bytes(self) -> object:
        """
        Size of each parameter in bytes, in order; None if the driver is older than CUDA
        12.4.
        """

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Kernels:
    """An image of kernels, loaded on a device."""

    @property
    def device(self) -> object: ...

    def get(self, name: str) -> Kernel:
        """
        A kernel by its name in the image. Raises NotFound, whose message lists the kernels.
        """

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Lease:
    """
    The right to read the outputs of one call. While it exists, calls that build on the
    outputs do not write over them. Any other call may; the outputs are stale from then
    on.
    """

    @property
    def kind(self) -> str:
        """How the call ran: "replay", "record", "warm_up" or "eager"."""

    @property
    def reason(self) -> str:
        """Why the call did not replay, such as "new_bucket"; "none" if it did."""

    @property
    def call_number(self) -> int:
        """The call's number on its lane."""

    def __len__(self) -> int: ...

    def __getitem__(self, arg: int, /) -> Output: ...

    def release(self) -> None:
        """Gives the outputs up."""

    def split(self) -> list:
        """
        One lease per output, each of which can be kept, donated or dropped separately:
        output i is part[i]. This lease is empty afterwards.
        """

    def detach(self, stream: int = 0) -> list:
        """
        Copies the outputs into memory of their own, and gives the lease up. Returns a list
        of tensors.
        """

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Output:
    """
    One output of a call, which keeps its lease. Other libraries read it through DLPack.
    On CUDA they read it in place, and calls that would write over it are refused until
    the consumer drops it. On the emulator they get a copy on the CPU. Reading it after
    it was overwritten raises StaleOutput.
    """

    def numpy(self) -> object:
        """A copy as a NumPy array."""

    def __array__(self, dtype: object | None = None, *, copy: object | None = None) -> object: ...

    def __bool__(self) -> bool: ...

    def __eq__(self, other: object | None) -> bool: ...

    def __ne__(self, other: object | None) -> bool: ...

    @property
    def lease(self) -> object:
        """Its lease."""

    @property
    def index(self) -> int:
        """The index of this output."""

    @property
    def device(self) -> object: ...

    @property
    def shape(self) -> tuple:
        """Sizes."""

    @property
    def strides(self) -> tuple:
        """Strides, in elements."""

    @property
    def dtype(self) -> str:
        """The element type, as packages name it."""

    @property
    def count(self) -> Tensor:
        """
        The tensor to which the device writes the real size of the output, for `counts` of
        Program.run. Later calls may overwrite it, like the output.
        """

    def data_ptr(self) -> int:
        """The address of the first element."""

    def to_host(self, stream: int = 0) -> HostTensor:
        """A copy on the host. Waits for the copy."""

    def to_host_sized(self, stream: int = 0) -> HostTensor:
        """
        A copy on the host, of the size that the device counted. Waits for the
        copy.
        """

    def __dlpack__(self, *, stream: object | None = None, max_version: object | None = None, dl_device: object | None = None, copy: object | None = None) -> object: ...

    def __dlpack_device__(self) -> tuple: ...

    def __repr__(self) -> str: ...

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Context:
    """
    The argument of a callable of Session.register_callable, valid during its run. The
    callable must launch only on `stream` and allocate through this object.
    """

    @property
    def phase(self) -> str:
        """"warm_up", "record" (the stream is capturing) or "eager"."""

    @property
    def stream(self) -> int:
        """The stream."""

    @property
    def parameters(self) -> int:
        """Address of the parameter block, which has the real extents."""

    @property
    def workspace(self) -> int:
        """
        Address of the workspace for libraries; 0 if there is none. Each lane and each
        included call have a workspace of their own.
        """

    @property
    def workspace_bytes(self) -> int:
        """Size of the workspace in bytes."""

    @property
    def device(self) -> object: ...

    def extent(self, symbol: int) -> int:
        """The padded extent of a symbol by its number, in elements."""

    def scalar(self, scalar: int) -> int:
        """The value of a scalar by its number."""

    def input(self, index: int) -> Tensor:
        """An input, at padded extents."""

    def offsets(self, ragged: int) -> Tensor:
        """
        The offsets of ragged sequences, by their number in the spec: where each sequence
        begins, and where the last one ends.
        """

    def output(self, index: int) -> Tensor:
        """Allocates an output, once."""

    def add_break(self, step: object) -> None:
        """
        Ends the graph recorded so far, and begins another after step(stream). A call
        without a graph runs `step` at once, and every replay runs it between the two
        graphs.
        """

    def alias_output(self, index: int, address: int) -> None:
        """Declares that an output lies in an input."""

    def allocate(self, bytes: int, label: str | None = None) -> int:
        """Memory of this run; profilers call it `label`."""

    def free(self, address: int) -> None:
        """Gives back memory of `allocate`, or an input that was donated."""

    def add_graph(self, graph: int) -> None:
        """
        Adds a CUgraph, by its address, to the run. The caller must keep alive whatever its
        nodes use. Raises InvalidArgument for nodes that allocate or branch.
        """

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

def external_stats() -> dict:
    """
    Numbers of blocks that other libraries have allocated: run_blocks, in runs of
    callables; left_blocks, the part of run_blocks that the run did not free;
    device_blocks, outside of runs. late_frees: frees that did nothing.
    """

def metrics_content_type(format: str) -> str:
    """The Content-Type of a page of metrics."""

class Chain:
    """
    Inside `with`, calls on the lane build on each other: none writes over the leased
    outputs of earlier ones.
    """

    def __enter__(self) -> object: ...

    def __exit__(self, *args) -> None: ...

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Loan:
    """
    The idle memory of a lane of a session. Calls of the lane are refused until the loan
    ends: at the end of `with` (in the order of the device's own stream), with
    give_back(), or when this object is destroyed. By then, all work on the memory must
    have run.
    """

    @property
    def data(self) -> int:
        """Its address; its contents are undefined."""

    @property
    def bytes(self) -> int:
        """Its size in bytes."""

    def give_back(self, stream: int = 0) -> None:
        """
        Ends the loan; the lane's next call waits for the work queued on `stream` so far.
        """

    def __enter__(self) -> object: ...

    def __exit__(self, *args) -> None: ...

class Session:
    """Programs that replay the graph of their shape bucket, all in one pool."""

    def __init__(self, device: Device, *, stance: str | None = 'record', lanes: int | None = 1, warmup_runs: int | None = 1, record_in_background: bool | None = False, gate: bool | None = False, graphs_per_program_max: int | None = 1024, rerecords_per_bucket_max: int | None = 128, static_moves_max: int | None = 32, on_limit: str | None = 'eager', on_budget: str | None = 'evict', keep_drawings: bool | None = False, window_bytes: int | None = 0, workspace_bytes: int | None = 0, copy_out_bytes: int | None = 0, budget_bytes: int | None = 0, audit_keys: bool | None = False, check_addresses: bool | None = False, fill_expired: bool | None = False, trace_wait_when_full: bool | None = False, trace_path: str | None = '', trace_events_per_lane: int | None = 65536, log: object | None = None, vote: object | None = None, barrier: object | None = None, variant_timing: str | None = 'on_device', now_ns: object | None = None, recorder_ring_bytes: int | None = 0, recorder_calls_max: int | None = 65536, recorder_outputs: bool | None = False, recorder_static_bytes_max: int | None = 0, recorder_copy_ns_max: int | None = 0) -> None:
        """
        Makes a session on a device. Its options are given by name, with these defaults. An
        option that is None or the number 0 has its default.

        stance="record"
            What calls may do about graphs: "record", "replay_only", "eager" or "strict".
        lanes=1
            Calls on different lanes may run at the same time. 1 to 1,024.
        warmup_runs=1
            Warm-up calls of a bucket before it is recorded.
        record_in_background=False
            Records programs that are `thread_safe` on a thread of the session; calls run
            eagerly meanwhile.
        gate=False
            Times live calls with and without their graph, and stops using graphs that are not
            faster.
        graphs_per_program_max=1024
            Graphs of a program on a lane. -1: none.
        rerecords_per_bucket_max=128
            How often a bucket may be recorded again because a static input moved; after that,
            `on_limit` says what the call does. -1: none.
        static_moves_max=32
            How often a static input may move in one bucket; after one more move, every call
            copies it. -1: none.
        on_limit="eager"
            What a call does if it would need one graph too many: "eager", "error" or "evict".
        on_budget="evict"
            What a recording does if it lacks room: "eager", "error" or "evict".
        keep_drawings=False
            Keeps a drawing of every recording, so that it can be dumped.
        window_bytes=0
            Virtual size of a lane's windows; 0: device memory.
        workspace_bytes=0
            For libraries, per lane; 0: none.
        copy_out_bytes=0
            For outputs that are copied out, per lane; 0: none.
        budget_bytes=0
            Bytes that the session may hold at once: its windows, its graphs (an estimate) and
            the bytes that the application reports; 0: no budget.
        audit_keys=False
            Refuses buckets whose kernels' parameters depend on values that are not in the key.
        check_addresses=False
            Asks the driver at every call whether tensors lie in live memory of the device.
        fill_expired=False
            Fills all that a graph writes with 0xCB bytes before each call, so that a read
            through an old pointer is noticed.
        trace_wait_when_full=False
            If the ring is full, a call waits until its events are written, instead of dropping
            its own event and counting it.
        trace_path=""
            The file that a trace is written to, which replaces an older one; empty: no trace.
        trace_events_per_lane=65536
            Events that a lane's ring buffer holds, 64 bytes each, rounded up to a power of two.
            16 to 67,108,864.
        log(line)
            Receives one line per program and reason that keeps its calls from replaying.
        vote(bucket, kind, unanimous)
            Called before each call runs, with this rank's vote, to agree with the other ranks.
            Returns the same three, as all agreed.
        barrier()
            Called before a call that ranks agreed to record, even on ranks that have the graph.
        variant_timing="on_device"
            Whether kernels of packages that have several variants are timed: "on_device",
            "always" or "never".
        now_ns()
            The clock for recordings: nanoseconds that never go back; None: a steady clock.
        recorder_ring_bytes=0
            Host memory that the ring of each lane has; 0: nothing is recorded. 0 to
            1,099,511,627,776.
        recorder_calls_max=65536
            Maximum number of calls in a ring.
        recorder_outputs=False
            Whether outputs are copied to the ring, too, so that a replay can compare them.
        recorder_static_bytes_max=0
            Static inputs up to this size are copied to the ring with each call; 0: none are.
        recorder_copy_ns_max=0
            Mean time per call that copies to the ring may take, in nanoseconds; 0: no limit. 0
            to 1,000,000,000.
        """

    def __del__(*args, **kwargs) -> Any: ...

    @property
    def device(self) -> object: ...

    def chain(self, lane: int = 0) -> Chain:
        """A scope of calls that build on each other."""

    def close(self) -> None:
        """
        Waits for the work in flight and gives everything back. If another call of the
        session is running, on any thread, the session closes when that call ends.
        """

    def __enter__(self) -> object: ...

    def __exit__(self, *args) -> None: ...

    @property
    def closed(self) -> bool:
        """Whether close() was called."""

    @property
    def stance(self) -> str:
        """What calls may do: "record", "replay_only", "eager" or "strict"."""

    @stance.setter
    def stance(self, arg: str, /) -> None: ...

    def set_seed(self, seed: int) -> None:
        """Restarts the generator of random numbers."""

    def evict(self, program: object | None = None) -> int:
        """Drops the graphs of a program, or all graphs. Returns their number."""

    def trim(self) -> None:
        """Gives back memory that no lease holds."""

    def suspend(self, constants: str = 'save', *, refuse_leases: bool = False, drop_graphs: bool = False) -> None:
        """
        Gives the session's memory back. `constants`: "save", "keep" or "reload".
        """

    def resume(self) -> None:
        """Takes the memory again."""

    def set_external_bytes(self, bytes: int) -> None:
        """Tells the budget how many bytes the application itself holds."""

    def lend(self, lane: int = 0) -> Loan:
        """
        Lends the idle memory of a lane, as a Loan. Raises FailedPrecondition while outputs
        there are leased, or work of the lane is in flight.
        """

    def scrub(self, stream: int = 0, lane: int = 0) -> None:
        """
        Zeroes all memory of a lane, ordered after earlier work on `stream` and the lane's
        earlier calls. Raises FailedPrecondition while outputs there are leased.
        """

    def stats(self) -> coppice.figures.SessionStats:
        """
        Counts of calls by kind and by reason, and counts of graph and input events.
        """

    def memory(self) -> coppice.figures.MemoryUsage:
        """Bytes by kind of use, and the height of the pool."""

    def buckets(self) -> object:
        """
        For each bucket: program, variant, bucket, lane, recorded, plan_height, live_bytes,
        serial, graph_nodes, family, record_ns, replays.
        """

    def metrics_text(self, format: str = 'prometheus') -> str:
        """
        All figures as a page for Prometheus. `format`: "prometheus" or "openmetrics".
        """

    def save_profile(self, path: str) -> None:
        """Writes the buckets that traffic used, for load_profile."""

    def load_profile(self, path: str, *, bindings: list = [], graphs_max: int = 0, bytes_max: int = 0) -> dict:
        """
        Records the buckets of a profile, the most useful first. Returns how many buckets
        were recorded, how many were recorded already, and how many were left out.
        """

    def save_case(self, path: str, why: str = '', *, lane: int = 0, values: str = 'keep') -> None:
        """
        Saves the calls of a lane that the flight recorder holds, as a file for `coppice
        replay`. Needs recorder_ring_bytes. Also works after a fault of the device. `values`:
        "keep" keeps the values; "noise" replaces them; "special" replaces them, but
        keeps zeros, infinities and NaNs.
        """

    def dump(self, lane: int, number: int) -> str:
        """
        A recording that buckets() lists, in Graphviz's DOT; needs keep_drawings.
        """

    def mark(self, name: str) -> None:
        """Adds a mark to the trace."""

    def note_request(self, id: int, *, first_token_ns: int, last_token_ns: int, input_tokens: int, output_tokens: int) -> None:
        """
        Adds the times of one server request to the trace, starting at the request's
        arrival.
        """

    def flush_trace(self) -> None:
        """Waits until the trace is written."""

    def wait_for_recordings(self) -> None:
        """Waits for recordings in the background."""

    def register_package(self, package: Package, program: str = 'main', *, name: object | None = None, variant: object | None = None, exact: str = 'never', policies: dict = {}, claims: dict = {}, constants: dict = {}, functions: dict = {}) -> Program:
        """
        Adds a program of a package. `exact`: whether replays compute at the sizes of their
        call: "never", "auto" (if the call before it had the same sizes) or "always".
        `policies`: {symbol: ladder or (ladder, maximum)}, or for two symbols {(symbol,
        symbol): pairs or (ladders, (maximum, maximum))}. `claims`: {symbol: (padding,
        absolute, relative)}. `constants`: {name: tensor}, which stay at their address as
        long as the session exists. `functions`: {name: fn} for `call` steps, which call
        fn(inputs, outputs, options, stream); or {name: ("launches" or "on_host", fn)}.
        """

    def register_callable(self, spec: dict, fn: object) -> Program:
        """
        Adds a callable fn(context) that launches on context.stream. The spec describes
        ragged sequences as {"ragged": [{"name": ..., "count": symbol, "total":
        symbol, "length": symbol or None, "lengths": input, "by": "lengths" or
        "offsets"}]}. For a tensor of such sequences, give the entry's "name" as the
        first size.
        """

    def find(self, name: str, variant: str = '') -> Program:
        """The program that is registered with that name and variant, or None."""

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Binding:
    """Static inputs and outputs that are bound to a program."""

    @property
    def tensors(self) -> object: ...

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

class Program:
    """A program of a session."""

    @property
    def name(self) -> str: ...

    @property
    def variant(self) -> str: ...

    @property
    def session(self) -> object: ...

    def bind(self, tensors: object) -> Binding:
        """
        Binds the static inputs, in spec order, then the static outputs. They stay where
        they are until the binding ends.
        """

    def unbind(self, binding: Binding) -> None:
        """Ends a binding: drops the graphs that no other binding can use. Waits."""

    def reset(self) -> None:
        """Forgets everything that was recorded and learned about the program."""

    def unregister(self) -> None:
        """Ends the program. Waits."""

    def warm(self, buckets: Sequence[Sequence[int]], binding: object | None = None, scalars: object = (), scratch: object | None = None, progress: object | None = None, lane: int = 0) -> None:
        """
        Records buckets ahead of traffic. `buckets`: for each bucket, a list of padded
        extents. progress(done, total) is called after each bucket.
        """

    def plan(self, buckets: Sequence[Sequence[int]], scalars: object = ()) -> list:
        """
        Plans buckets of a package's program without mapping or running anything. Returns
        plan_height and live_bytes, in bytes, and plan_method for each bucket.
        """

    def __call__(self, inputs: object, binding: object | None = None, stream: int = 0) -> object:
        """
        Like run, but returns the output, or a tuple if there are several outputs, each of
        which keeps the lease.
        """

    def run(self, inputs: object, scalars: object = (), extents: object = (), binding: object | None = None, stream: int = 0, lane: int = 0, output_mode: object | None = None, targets: object = (), donated: object = (), poison: object | None = None, counts: object = ()) -> Lease:
        """
        Runs the program on `stream` (0: the device's own) and returns a Lease.

        `inputs`: the copied inputs in spec order, at real sizes. They are outputs of
        earlier calls, which are read in place, or tensors of any library with __dlpack__ or
        __cuda_array_interface__; on the emulator, CPU tensors are copied to it. `scalars`:
        the values of all scalars, in spec order. `extents`: one per symbol that is `given`
        in the spec. `output_mode`: a word of OutputMode; "write_into" needs one of `targets`
        per output. `donated`: leases that the call may use up. `poison`: "nan", "pattern"
        or "noise" in the padding, for tests. `counts`: for each symbol that is counted,
        where the device finds its extent, such as Output.count; None: the host's count is
        used.
        """

    def include(self, inputs: object, scalars: object = (), extents: object = (), binding: object | None = None, stream: int = 0, lane: int = 0, output_mode: object | None = None, targets: object = (), donated: object = (), poison: object | None = None, counts: object = ()) -> Lease:
        """
        Like run, but adds the program to the capture of `stream`, as a child graph; the
        bucket must be warm. The Lease is for the outputs, which every launch of the
        caller's graph writes.
        """

    def explain(self, inputs: object, scalars: object = (), extents: object = (), binding: object | None = None, stream: int = 0, lane: int = 0, output_mode: object | None = None, targets: object = (), donated: object = (), poison: object | None = None, counts: object = ()) -> str:
        """What `run` would do with this call, in words."""

    def rebucket(self, symbol: str, *, dry_run: bool = False, period: int | None = None, buckets: int | None = None, added_max: int | None = None, gain_min: float | None = None, max_ratio: float | None = None, max_gap: int = 0, graphs_max: int | None = None, graphs_per_minute: int | None = None, cost_per_byte: float = 0.0, binding: object | None = None, scratch: object | None = None) -> dict:
        """
        Learns the buckets of an observed symbol again from its calls, and swaps them in if
        that saves enough. Records the graphs of new buckets first; if it records any, it
        waits for the device.

        period: calls before it learns again (2000). buckets: the maximum number of buckets,
        not counting those above the largest call (the current number). added_max: how many
        buckets may be new (4). gain_min: percentage points of waste that a swap must save
        (1). max_ratio, max_gap: caps on the padding of a call; 0: no cap (1.25 and 2 if the
        largest bucket is at most 512, otherwise 1.5 and 1). graphs_max, graphs_per_minute:
        the maximum number of graphs to record (16 and 64). cost_per_byte: the price of a
        byte of graphs, in elements of padding per call (0); with a price, a ladder that pads
        more may win if it has fewer graphs.

        Returns outcome ("not due", "kept", "limited", "not recorded", "would swap",
        "swapped"), calls, graphs, added, dropped, waste_before_pct, waste_after_pct and
        why.
        """

    def policy(self, symbol: str) -> str:
        """The current policy of a symbol, as JSON."""

    def set_policy(self, symbol: str, policy: object) -> None:
        """
        Replaces the policy of a symbol, up to the same maximum. Waits for calls.
        """

    def observed(self, symbol: str) -> str:
        """The observed sizes of a symbol, as JSON."""

    def set_observed(self, symbol: str, text: str) -> None:
        """Continues from sizes that were observed elsewhere."""

    def __copy__(self) -> object:
        """The object itself."""

    def __reduce_ex__(self, protocol: int) -> object:
        """Raises TypeError."""

def policy_buckets(policy: object, most: int = 4096) -> tuple:
    """
    The number of buckets of a policy, and the first `most` of them. A policy is a
    string, or (string, maximum). Raises InvalidArgument for an unknown policy.
    """

def joint_policy_buckets(policy: object, most: int = 4096) -> tuple:
    """
    Like policy_buckets, but takes a policy for two sizes: a string, or (string, (maximum,
    maximum)). Its buckets are pairs.
    """

def learn_policy(sizes: Sequence[int], counts: Sequence[float], *, limit: int, buckets: int, price: float, align: int, forced: Sequence[int], prior: float, max_ratio: float, max_gap: int) -> str:
    """Calls coppice_learn_policy, and returns its JSON: see coppice.learn."""
