"""The device that PyTorch's CPU tensors report while CUDA is pretended."""

import contextlib
from threading import get_ident
from unittest import mock

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode, _get_current_function_mode_stack
from torch.utils._device import _device_constructors

CUDA = torch.device("cuda", 0)
# What makes tensors of memory of the host, unseen by modes.
OF_HOST = ("from_numpy", "frombuffer", "from_dlpack")
MARKED_MAX = 1024  # Storages, before those that are gone are forgotten.


class Generator(torch.Generator):
    """A generator on the CPU, for any requested device."""

    def __new__(cls, device="cpu"):
        return super().__new__(cls, device=without_cuda(device))


def is_cuda(device):
    return isinstance(device, int) or type_of(device) == "cuda"


def type_of(device):
    return str(device).partition(":")[0]


def without_cuda(device):
    return "cpu" if device is not None and is_cuda(device) else device


def tensors_in(value):
    """Tensors in nested tuples, lists and dicts."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (tuple, list)):
        for member in value:
            yield from tensors_in(member)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def storage_of(tensor):
    return tensor.untyped_storage() if torch._C._has_storage(tensor) else None


@contextlib.contextmanager
def saying_cuda():
    """Inside the scope, tensors report on this thread that they are on CUDA. Yields Tensors."""
    mode, thread, run_backward = Tensors(), get_ident(), torch.autograd._engine_run_backward

    def run_in_mode(*args, **kwargs):
        """Runs an operator in this mode. PyTorch leaves the mode when it calls Tensor.backward;
        this enters it again for what that calls."""
        if get_ident() != thread or mode in _get_current_function_mode_stack():
            return run_backward(*args, **kwargs)
        with mode:
            return run_backward(*args, **kwargs)

    made = {name: mode.made_of_host(getattr(torch, name)) for name in OF_HOST}
    with mock.patch.multiple(torch, Generator=Generator,
                             set_default_device=mode.set_default_device, **made), \
            mock.patch.object(torch.autograd, "_engine_run_backward", run_in_mode), mode:
        yield mode


class Tensors(TorchFunctionMode):
    """The mode in which tensors report CUDA. Tensors that the code made on the CPU, or moved there,
    are recognised by their memory. All others report CUDA."""

    def __init__(self):
        super().__init__()
        self.on_host, self.marked_max = {}, MARKED_MAX  # By addresses of storages, which they keep.
        self.default = None  # Of torch.set_default_device.
        tensor = torch.Tensor
        self.answers = {
            tensor.device.__get__: self.device_of,
            tensor.is_cuda.__get__: lambda one: self.device_of(one).type == "cuda",
            tensor.is_cpu.__get__: lambda one: self.device_of(one).type == "cpu",
            tensor.get_device: lambda one: 0 if self.device_of(one).type == "cuda" else -1,
            tensor.to: self.moved, tensor.cpu: lambda one, **more: self.moved(one, "cpu", **more),
            tensor.cuda: lambda one, device=None, *more, **named:
                self.moved(one, "cuda", None, *more, **named),
            tensor.pin_memory: lambda one, device=None: one,
            tensor.record_stream: lambda one, stream: None,
            torch.as_tensor: self.as_tensor, torch.asarray: self.as_tensor,
        }

    def __torch_function__(self, func, types, args=(), kwargs=None):
        answer = self.answers.get(func)
        return answer(*args, **kwargs or {}) if answer else self.called(func, args, kwargs or {})

    def called(self, func, args, kwargs):
        """A call. Its results are on the device that it names, or on that of its tensors."""
        device, given = kwargs.get("device"), [*tensors_in(args), *tensors_in(kwargs)]
        if device is None and self.default is not None and func in _device_constructors():
            device = self.default
        if device is not None and is_cuda(device):
            kwargs = {**kwargs, "device": "cpu"}
        if kwargs.get("pin_memory"):
            kwargs = {**kwargs, "pin_memory": False}
        result = self.run(func, args, kwargs)
        on_host = all(map(self.is_on_host, given)) if device is None else not is_cuda(device)
        known = [storage_of(tensor) for tensor in given]
        for tensor in tensors_in(result):
            storage = storage_of(tensor)
            if storage is not None and all(storage is not one for one in known):
                self.mark(storage, on_host)
        return result

    def run(self, func, args, kwargs):
        """A call without this mode. An operator keeps the mode, because it may contain code like
        its caller's."""
        if isinstance(func, torch._ops.OpOverloadPacket) and func.overloads() == ["default"]:
            func = func.default
        if not isinstance(func, torch._ops.OpOverload):
            return func(*args, **kwargs)
        with self:
            return torch._C._dispatch_call_boxed(func._handle, *args, **kwargs)

    def moved(self, tensor, *args, **kwargs):
        """Tensor.to: a copy, if the device is another."""
        target, args = kwargs.pop("device", None), list(args)
        names = ("dtype", "non_blocking", "copy")
        if args and isinstance(args[0], torch.Tensor):
            kwargs["other"] = args.pop(0)
            names = names[1:]
        elif args and isinstance(args[0], (str, int, torch.device)) and type(args[0]) is not bool:
            target = args.pop(0)
        elif args and args[0] is None:
            args.pop(0)
        kwargs.update(zip(names, args))
        if "other" in kwargs:
            other = kwargs.pop("other")
            target = self.device_of(other)
            kwargs["dtype"] = other.dtype
        kwargs["dtype"] = kwargs.get("dtype") or tensor.dtype
        if target is None:
            return self.called(torch.Tensor.to, (tensor,), kwargs)
        if not is_cuda(target) and type_of(target) != "cpu":
            return tensor.to(device=target, **kwargs)
        if is_cuda(target) == self.is_on_host(tensor):
            kwargs["copy"] = True
        result = tensor.to(**kwargs)
        if result is not tensor:
            self.mark(storage_of(result), not is_cuda(target))
        return result

    def as_tensor(self, data, *args, device=None, **kwargs):
        """Copies host data, because the result is on CUDA."""
        tensor = self.called(torch.as_tensor, (data, *args), kwargs)
        device = self.default if device is None else device
        if device is None:
            return tensor
        if not isinstance(data, torch.Tensor):
            self.mark(storage_of(tensor), True)
        return self.moved(tensor, device)

    def made_of_host(self, function):
        def make(*args, **kwargs):
            tensor = function(*args, **kwargs)
            self.mark(storage_of(tensor), True)
            return tensor

        return make

    def set_default_device(self, device):
        self.default = device

    def device_of(self, tensor):
        real = tensor.device
        return CUDA if real.type == "cpu" and not self.is_on_host(tensor) else real

    def is_on_host(self, tensor):
        storage = storage_of(tensor)
        return storage is not None and storage._cdata in self.on_host

    def mark(self, storage, on_host):
        if not on_host:
            self.on_host.pop(storage._cdata, None)
            return
        self.on_host[storage._cdata] = StorageWeakRef(storage)
        if len(self.on_host) > self.marked_max:
            self.on_host = {address: reference for address, reference in self.on_host.items()
                            if not reference.expired()}
            self.marked_max = max(MARKED_MAX, 2 * len(self.on_host))
