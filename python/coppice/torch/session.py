"""The session that all compiled functions of a device share: one pool, one budget.

On an emulator it also keeps *mirrors*. Tensors that stay at their address (weights, buffers,
caches) are in CPU memory there. Their bytes are copied to a mirror on the device once, and again
when they have changed, for example after a step of an optimizer.

Threads: `lock` is held from the copying of inputs until outputs are copied.
"""

import collections
import contextlib
import ctypes
import threading
import weakref

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._pytree import tree_leaves

from coppice import devices
from coppice.errors import InvalidArgument, after_faults, raise_findings
from coppice.export.tensors import DTYPES
from coppice.torch.calls import AWAITED, operator_waits

INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # By their bytes.
LOOK_SECONDS = 0.01  # Between two looks at what a call waits for.
memcmp = ctypes.CDLL(None).memcmp
memcmp.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)


class Mirror:
    """Device memory with the same bytes as a storage on the CPU."""

    def __init__(self, device, storage):
        self.storage, self.address = StorageWeakRef(storage), storage.data_ptr()
        self.copied = torch.empty(storage.nbytes(), dtype=torch.uint8)
        self.memory = device.upload(self.fill(storage))
        self.written = False  # By the device, by a call that has not ended, or failed.

    def fill(self, storage):
        return self.copied.copy_(bytes_of(storage))

    def upload(self, storage):
        size = storage.nbytes()
        if self.written or memcmp(storage.data_ptr(), self.copied.data_ptr(), size) != 0:
            self.memory.copy_from(self.fill(storage))
            self.written = False

    def download(self, storage):
        """Copies back what the device wrote."""
        self.copied.copy_(torch.from_dlpack(self.memory.to_host()))
        bytes_of(storage).copy_(self.copied)
        self.written = False

    def view(self, device, tensor):
        """The tensor's part of the mirror, as a coppice.Tensor."""
        address = self.memory.data_ptr() + tensor.storage_offset() * tensor.element_size()
        return device.view(address, list(tensor.shape), DTYPES[tensor.dtype],
                           strides=list(tensor.stride()), owner=self.memory)


def bytes_of(storage):
    return torch.empty(0, dtype=torch.uint8).set_(storage)


def bits_of(tensor):
    """The elements of a tensor as integers, so that elements with different bits differ, also NaNs
    and zeros."""
    return tensor.detach().view(INTEGERS[tensor.element_size()])


class Kept:
    """An output that a later call reads in place, and may write over. It has the part of the lease,
    and the caller's copy. The caller may have changed the copy, even through `.data` or NumPy."""

    def __init__(self, tensor, output, part):
        self.storage = StorageWeakRef(tensor.untyped_storage())
        self.layout = (tensor.shape, tensor.stride(), tensor.dtype)
        self.output, self.part = output, part

    def serves(self, tensor):
        """Whether it has the same bits as the tensor. Copies it to compare. Errors: StaleOutput."""
        if self.storage.expired() or self.layout != (tensor.shape, tensor.stride(), tensor.dtype):
            return False
        return torch.equal(bits_of(torch.from_dlpack(self.output.to_host())), bits_of(tensor))


class SharedSession:
    def __init__(self, device, options):
        self.device = device
        self.session, self.options = devices.session(self.device, **options), options
        self.emulated = self.device.kind == "emulator"
        self.lock, self.busy = threading.RLock(), False
        self.mirrors, self.kept = {}, {}
        self.dead = collections.deque()  # What ended while a call ran.

    def mirror(self, tensor):
        """The mirror of a tensor's storage, with its current bytes. Empty storages have none."""
        storage = tensor.untyped_storage()
        known = self.mirrors.get(storage.data_ptr())
        if known is None or known.storage.expired() or known.copied.numel() != storage.nbytes():
            self.forget()
            known = self.mirrors[storage.data_ptr()] = Mirror(self.device, storage)
        else:
            known.upload(storage)
        return known

    def forget(self):
        """Drops everything that can no longer be used."""
        for address, mirror in list(self.mirrors.items()):
            if mirror.storage.expired():
                del self.mirrors[address]
        for address, kept in list(self.kept.items()):
            if kept.storage.expired():
                del self.kept[address]

    @contextlib.contextmanager
    def held(self):
        """Inside the scope, the lock is this thread's. Errors: InvalidArgument if its holder runs
        an operator that waits for another thread, which may be this one."""
        while not self.lock.acquire(timeout=LOOK_SECONDS):
            if operator_waits():
                raise InvalidArgument(AWAITED)
        try:
            yield
        finally:
            self.lock.release()

    def end(self, program, bindings):
        """Ends a program of a function that died. If a call is running, ends it later."""
        self.dead.append((program, bindings))
        if self.lock.acquire(blocking=False):
            try:
                if not self.busy:
                    self.bury()
            finally:
                self.lock.release()

    def bury(self):
        while self.dead:
            program, bindings = self.dead.popleft()
            if program.session.closed:  # Which has ended it, as coppice.prof.trace does.
                continue
            with after_faults():
                for binding in bindings.values():
                    program.unbind(binding)
                program.unregister()
        self.forget()

    def finish(self, since):
        """Waits for a call. Errors: those that an operator of the call raised; Error with the
        emulator's findings after `since`."""
        self.device.synchronize()
        raise_findings(self.device, since)


sessions, making = {}, threading.Lock()  # By device.
known_by_session = weakref.WeakValueDictionary()  # By id of the session, as long as it is used.


def shared_by(session):
    """The state of a session, which is the shared one of its device."""
    return shared(session.device, {})


def place_of(wanted, module, inputs):
    """Kind and ordinal of the device that a graph of Dynamo's runs on: "auto" is where its tensors
    are. Errors: RuntimeError if there is no CUDA device that was asked for."""
    if wanted == "cuda" and not torch.cuda.is_available():
        raise RuntimeError('coppice: device is "cuda", but PyTorch has no CUDA device; use '
                           '"emulator" or "auto"')
    ordinals = cuda_ordinals(module, inputs)
    if wanted == "emulator" or wanted == "auto" and not ordinals:
        return "emulator", 0
    return "cuda", min(ordinals) if ordinals else torch.cuda.current_device()


def cuda_ordinals(module, inputs):
    """Ordinals of the GPUs that tensors of a graph are on."""
    values = [*inputs, *(value for node in module.graph.nodes
                         for value in tree_leaves(node.meta.get("example_value")))]
    found = {value.device for value in values if isinstance(value, torch.Tensor)}
    return {torch.cuda.current_device() if device.index is None else device.index
            for device in found if device.type == "cuda"}


def shared(device, options):
    """The session of a device, which the first caller makes. Errors: ValueError if the options
    differ from those that it was made with."""
    with making:
        known, current = sessions.get(device), devices.find_session(device)
        if known is None or known.session is not current:  # As within coppice.prof.trace.
            known = known_by_session.get(id(current)) or SharedSession(device, options)
            sessions[device] = known_by_session[id(known.session)] = known
        different = sorted(name for name, value in options.items()
                           if known.options.get(name) != value)
        if different:
            raise ValueError(f"coppice: the session already has different options "
                             f"({', '.join(different)}); give session options where the first "
                             "function is compiled")
        return known
