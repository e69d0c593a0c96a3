"""The programs of a lifted graph in a session: one, and on CUDA perhaps a second, "in_place".

The first program copies inputs that it writes, such as KV caches, to its own memory, and copies
them back after its kernels. So its graphs are right for inputs at any address. When such inputs
stay at an address, there is a second program with the same kernels. For it the inputs are static,
like weights: its graphs read and write them in place.

    call  caches at  runs
    1     A          the first program
    2     A          the second: caches that are at A twice are bound
    3     B          the first: caches that move are copied, as before
    4, 5  B, A       the second, which has both bound

Threads: calls of one graph take turns.
"""

import weakref

from torch.multiprocessing.reductions import StorageWeakRef

from coppice.errors import InvalidArgument, OutOfRange, ResourceExhausted
from coppice.export.tensors import DTYPES
from coppice.learning import Learner
from coppice.torch import reports

ALIGNMENT = 16  # Bytes, which kernels are compiled for.
BINDINGS_MAX = 16  # Of one program; the oldest goes.
MOVES_MAX = 32  # Bindings of caches that one graph makes: each records its buckets again.


class Registered:
    """A program and its bindings, until the graph dies or `end` is called."""

    def __init__(self, graph, shared, package, learned, options):
        self.program = shared.session.register_package(package, "main", **options)
        self.learner, self.bindings = Learner(self.program, learned), {}
        self.end = weakref.finalize(graph, shared.end, self.program, self.bindings)

    def bound(self, key, tensors):
        """The binding of the tensors that stay at their address; None if there are none. If these
        addresses are new, `tensors` returns the tensors to bind."""
        if not key:
            return None
        if key not in self.bindings:
            if len(self.bindings) >= BINDINGS_MAX:
                self.unbind(next(iter(self.bindings)))
            self.bindings[key] = self.program.bind(tensors())
        return self.bindings[key]

    def unbind(self, key):
        self.program.unbind(self.bindings.pop(key))


class InPlace:
    """The inputs of a graph that stay at their address, and the program for which they are static.
    A binding keeps no tensor: caches that the caller drops are freed, and their binding ends at the
    next call. A graph runs only for tensors at the addresses that it writes.

    written  {index among the program's inputs: its name there} of inputs that may become static
    statics  indices of the inputs that are static anyway
    package  a function that makes the package in which inputs of these names are static, too
    """

    def __init__(self, written, statics, package):
        self.written, self.statics, self.package = written, statics, package
        self.stay, self.indices = [], []  # What became static; with what always was.
        self.copied = []  # All other inputs.
        self.registered, self.moves = None, 0
        self.recent = {}  # Storages by where they lay in the last calls, the oldest first.
        self.storages = {}  # Weak references to the caches that are bound, by the binding's key.

    def fresh(self):
        """A copy of this object as it was before any call."""
        return InPlace(self.written, self.statics, self.package)

    def end(self):
        if self.registered is not None:
            self.registered.end()

    def find(self, graph, tensors):
        """The binding for a call of the graph with these inputs; None: the first program runs it.
        Errors: none. If something fails, the graph runs as before."""
        try:
            if self.registered is None:
                return self.register(graph, tensors)
            return self.find_bound(graph, tensors)
        except (InvalidArgument, OutOfRange, ResourceExhausted) as error:
            self.written = {} if self.registered is None else self.written
            reports.tell(graph.report, "each call copies the inputs that could be used in place: "
                         f"{error}", False)
            return None

    def register(self, graph, tensors):
        """Makes the program if some inputs are at the same address as before. A tensor that was
        freed and allocated again at the same address does not count, because it will move."""
        places = {index: place_of(tensors[index]) for index in self.written}
        stay = [index for index, place in places.items() if place and any(
            before.get(index) == place and not storages[index].expired()
            for before, storages in self.recent.values())]
        self.note(tuple(places.values()), (places, storages_of(tensors, self.written)))
        if not stay or graph.session.stance != "record":
            return None
        package, learned, options = graph.registration
        package = self.package({self.written[index] for index in stay})
        self.registered = Registered(graph, graph.shared, package, learned,
                                     {**options, "variant": "in_place"})
        self.registered.learner.outcomes = graph.registered.learner.outcomes
        self.stay, self.indices = stay, sorted({*self.statics, *stay})
        self.copied = [index for index in graph.copied if index not in stay]
        graph.report.in_place = graph.called(stay)
        self.recent = {
            tuple(before.get(index, tensors[index].data_ptr()) for index in self.indices):
            {index: storages[index] for index in stay}
            for before, storages in self.recent.values() if all(before[index] for index in stay)}
        return self.bind(self.key(tensors), tensors)

    def find_bound(self, graph, tensors):
        key = self.key(tensors)
        storages = self.storages.get(key)
        if len(self.storages) > (storages is not None):
            self.unbind_gone(key)
        if storages is not None:
            if is_gone(storages):  # Others came to lie there.
                self.storages[key] = storages_of(tensors, self.stay)
            return self.registered.bindings[key]
        before = self.recent.get(key)
        if (before is not None and not is_gone(before) and self.moves < MOVES_MAX
                and graph.session.stance == "record"):
            return self.bind(key, tensors)
        if all(place_of(tensors[index]) for index in self.stay):
            self.note(key, storages_of(tensors, self.stay))
        return None

    def key(self, tensors):
        return tuple(tensors[index].data_ptr() for index in self.indices)

    def note(self, key, known):
        self.recent.pop(key, None)
        self.recent[key] = known
        if len(self.recent) > BINDINGS_MAX:
            del self.recent[next(iter(self.recent))]

    def bind(self, key, tensors):
        self.moves += 1
        binding = self.registered.bound(key, lambda: [
            view_of(self.registered.program.session.device, tensors[index])
            if index in self.stay else tensors[index] for index in self.indices])
        self.storages[key] = storages_of(tensors, self.stay)
        for other in self.storages.keys() - self.registered.bindings.keys():
            del self.storages[other]
        return binding

    def unbind_gone(self, key):
        """Ends the bindings of caches that no longer exist, except that of the key."""
        for other, storages in list(self.storages.items()):
            if other != key and is_gone(storages):
                del self.storages[other]
                self.registered.unbind(other)


def place_of(tensor):
    """The address of a tensor. 0 if it is not aligned as kernels expect, or has no elements."""
    address = 0 if tensor.is_neg() else tensor.data_ptr()
    return 0 if address % ALIGNMENT else address


def storages_of(tensors, indices):
    return {index: StorageWeakRef(tensors[index].untyped_storage()) for index in indices}


def is_gone(storages):
    return any(one.expired() for one in storages.values())


def view_of(device, tensor):
    """A tensor's memory, without owning it."""
    return device.view(tensor.data_ptr(), list(tensor.shape), DTYPES[tensor.dtype],
                       strides=list(tensor.stride()))
