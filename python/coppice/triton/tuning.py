"""What @triton.autotune does in a scope: it measures no times, because times on an emulator mean
nothing.

The choice is forgotten when the scope ends, so that Triton tunes for a GPU separately.
"""

import contextlib
import math
import threading
from unittest import mock

import triton
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError

from coppice.errors import Error, Unimplemented
from coppice.running import find_run
from coppice.triton.mirrors import as_it_is, find_host_tensor, kept

# What says that a configuration does not compile, or does not fit.
UNFIT = (CompileTimeAssertionFailure, OutOfResources, PTXASError, Unimplemented)
# Of the largest value of an argument, how far two configurations may be apart by the order of their
# sums; other types have to be equal.
TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "float16": 1e-2, "bfloat16": 5e-2}

bench = Autotuner._bench


class First:
    """Takes the first configuration that compiles and fits. Launches nothing."""

    def __init__(self):
        self.found = False

    def time(self, tuner, args, config, meta):
        """A number in place of a configuration's time. Triton takes the configuration with the
        smallest."""
        if self.found:
            return 1.0
        current = {**meta, **config.all_kwargs(), "warmup": True}
        if config.pre_hook is not None:
            config.pre_hook({**tuner.nargs, **current})
        kernel = tuner.fn.run(*args, **current)
        if kernel is not None and kernel.run:  # Which looks whether it fits.
            triton.runtime.driver.active.kernel(kernel.function)
        self.found = True
        return 0.0


class Compare:
    """Runs all configurations, and compares their results with those of the first one. Undoes what
    they write."""

    def __init__(self):
        self.first = None

    def time(self, tuner, args, config, meta):
        named = {name: find_host_tensor(value) for name, value in {**tuner.nargs, **meta}.items()}
        tensors = {name: tensor for name, tensor in named.items() if tensor is not None}
        results, leave = {}, tuner.post_hook

        def note(arguments, exception):
            with as_it_is():
                results.update((name, tensor.clone()) for name, tensor in tensors.items())
            leave(arguments, exception=exception)

        def launch_once(launch, quantiles):
            launch()
            return [0.0] * len(quantiles)

        with kept(tensors.values()), mock.patch.dict(vars(tuner), do_bench=launch_once,
                                                     post_hook=note):
            if math.isinf(bench(tuner, *args, config=config, **meta)[0]):
                return math.inf
        if self.first is None:
            self.first = config, results
            return 0.0
        for name, tensor in results.items():
            apart = difference(self.first[1][name], tensor)
            if apart:
                raise Error(f"{tuner.base_fn.__name__}: {name} differs between configurations "
                            f"in {apart}: ({self.first[0]}) and ({config})")
        return 1.0


WAYS = {"first": First, "compare": Compare}


def difference(first, second):
    """Says how far apart two tensors are; empty if another order of sums explains the
    difference."""
    with as_it_is():
        if not first.is_floating_point():
            count = int((first != second).sum())
            return f"{count} of {first.numel()} elements" if count else ""
        bound = TOLERANCE.get(str(first.dtype).removeprefix("torch."), 1 / 8)
        one, other = first.double(), second.double()
        apart = ((one != other) & ~(one.isnan() & other.isnan())).nonzero()
        if len(apart) == 0:
            return ""
        finite = one[one.isfinite()].abs()
        scale = float(finite.max()) if len(finite) else 0.0
        largest = (one - other).abs()[tuple(apart.T)].nan_to_num(math.inf, math.inf).max()
        return f"{len(apart)} of {first.numel()} elements by up to {float(largest):.3g}" \
            if float(largest) > bound * scale else ""


@contextlib.contextmanager
def tuning(way):
    """Inside the scope, Triton tunes by a class of this module. In wrapped callables, it is First,
    because their launches may be recorded."""
    prune, chosen, before = Autotuner.prune_configs, threading.local(), {}

    def prune_configs(self, kwargs):
        """Called at the beginning of a tuning."""
        before.setdefault(self, dict(self.cache))
        chosen.way = First() if find_run() else way()
        return prune(self, kwargs)

    def bench_tuned(self, *args, config, **meta):
        try:
            return [chosen.way.time(self, args, config, meta)] * 3
        except UNFIT:
            return [math.inf] * 3

    try:
        with mock.patch.multiple(Autotuner, prune_configs=prune_configs, _bench=bench_tuned):
            yield
    finally:
        for tuner, cache in before.items():
            tuner.cache = cache
