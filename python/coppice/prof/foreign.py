"""Reads the allocations of another allocator as lifetimes of buffers, with a step per event."""

import io
import json
import pickle
import re
import resource

from coppice.prof.command import Refused
from coppice.prof.tables import RMM_HEADER

FILE_BYTES_MAX = 256 << 20
# What reading may take, as a pickle of few bytes may want any number: so much, and for each byte of
# the file so many, which is more than lists and dicts of a few bytes need.
READING_BYTES, READING_BYTES_PER_BYTE = 256 << 20, 100
ALLOCATIONS_MAX = 1_000_000  # More take a planner minutes, ...
PAIRS_MAX = 4_000_000_000  # ... and so do more that are there at the same time, two by two.
ENTRIES_MAX = 16_000_000  # Of a file in all: a list of it may stand at many places.
BYTES_MAX = 1 << 50  # No allocation has more.
DEVICES_MAX = 4096

ACTIVE = ("active_allocated", "active_pending_free", "active_awaiting_free")
RESERVES = {"segment_alloc": 1, "segment_map": 1, "segment_free": -1, "segment_unmap": -1}
SNAPSHOT = "give a file that torch.cuda.memory._dump_snapshot wrote"


class Lifetimes:
    """Lifetimes of the allocations of one device."""

    def __init__(self, name, device=0):
        self.name, self.device = name, device
        self.rows = []  # First step, the one behind the last, bytes.
        self.steps = 0  # Events. What happens before the first was there at the beginning.
        self.reserved_peak = None  # What the allocator had of the device at most.
        self.live_before = 0  # Allocations from before the first event ...
        self.live_after = 0  # ... and those that no event frees.
        self.refused = 0  # Requests that the allocator could not serve.
        self.empty = 0  # Allocations of no bytes, which are left out.
        self.open = {}  # Since when, and bytes, by address.

    def alloc(self, address, bytes):
        """Begins an allocation. If the address is in use, that use ends."""
        if address in self.open:
            self._close(*self.open[address], self.steps)
        self.open[address] = self.steps, bytes

    def free(self, address, bytes):
        """Ends an allocation. If the address is not in use, its `bytes` count as in use from the
        beginning of the log until now."""
        if address in self.open:
            since, bytes = self.open.pop(address)
            self.empty += not bytes
            self._close(since, bytes, self.steps)
        else:
            self.live_before += bytes > 0
            self._close(0, bytes, self.steps)

    def there_all_along(self, bytes):
        self.live_before += 1
        self.live_after += 1
        self._close(0, bytes, self.steps + 1)

    def finish(self):
        """Ends all allocations that are in use."""
        for since, bytes in self.open.values():
            self.empty += not bytes
            self.live_after += bytes > 0
            self._close(since, bytes, self.steps + 1)
        self.open = {}
        return self

    def pairs(self):
        """How many pairs of allocations exist at the same time."""
        begins, ends = (sorted(row[side] for row in self.rows) for side in (0, 1))
        ended = pairs = 0
        for begun, begin in enumerate(begins):
            while ends[ended] <= begin:
                ended += 1
            pairs += begun - ended
        return pairs

    def _close(self, since, bytes, end):
        if bytes:
            self.rows.append((since, max(end, since + 1), bytes))
        if len(self.rows) > ALLOCATIONS_MAX:
            raise Refused(f"{self.name}: device {self.device}: there are more than "
                          f"{ALLOCATIONS_MAX} allocations; record less")


class PlainUnpickler(pickle.Unpickler):
    """Reads only lists, dicts, numbers and texts, because any name in a pickle could run code."""

    def find_class(self, module, name):
        raise pickle.UnpicklingError(f"it names {module}.{name}, which could run code")


def read_bytes(path):
    try:
        with open(path, "rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}; give a file that another allocator "
                      "wrote") from error
    if len(data) > FILE_BYTES_MAX:
        raise Refused(f"{path}: the file has more than {FILE_BYTES_MAX} bytes; record less")
    return data


def within_memory(load, data):
    """What `load` returns for the data. Any kind of exception may be raised."""
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        bound = int(file.read().split()[0]) * resource.getpagesize()
    bound += READING_BYTES + READING_BYTES_PER_BYTE * len(data)
    if soft == resource.RLIM_INFINITY or bound < soft:
        resource.setrlimit(resource.RLIMIT_AS, (bound, hard))
    try:
        return load(data)
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def read_snapshot(path):
    """Reads a memory snapshot: a pickle if it begins as one, otherwise JSON. Returns lifetimes for
    each device that has events or blocks."""
    data = read_bytes(path)
    kind, load = "JSON", json.loads
    if data.startswith(b"\x80"):
        kind, load = "pickle", lambda data: PlainUnpickler(io.BytesIO(data)).load()
    try:
        value = within_memory(load, data)
    except MemoryError as error:
        raise Refused(f"{path}: its values take too much memory; record less: set max_entries "
                      "in _record_memory_history") from error
    except Exception as error:  # Whatever nonsense makes of a reader.
        why = " ".join(str(error).split())[:200] or type(error).__name__
        raise Refused(f"{path}: this is not the {kind} of a snapshot: {why}; {SNAPSHOT}") from error
    return Snapshot(path).read(value)


class Snapshot:
    """Walks segments and traces of a snapshot, device by device."""

    def __init__(self, name):
        self.name = name
        self.walked = 0

    def read(self, value):
        segments, traces = (value.get(key) if isinstance(value, dict) else None
                            for key in ("segments", "device_traces"))
        if not isinstance(segments, list) or not isinstance(traces, list):
            raise self.error("the file",
                             "it is not a dict with lists 'segments' and 'device_traces'")
        if len(traces) > DEVICES_MAX:
            raise self.error("device_traces", f"it has more than {DEVICES_MAX} devices")
        there = self.read_segments(segments)
        devices = []
        for device in range(max([len(traces), *(number + 1 for number in there)])):
            trace = traces[device] if device < len(traces) else []
            if not isinstance(trace, list):
                raise self.error(f"device_traces[{device}]", "it is not a list")
            lifetimes = self.read_device(device, trace, *there.get(device, (0, [])))
            if lifetimes.steps or lifetimes.rows or lifetimes.reserved_peak:
                devices.append(lifetimes)
        return devices

    def error(self, where, what):
        return Refused(f"{self.name}: {where}: {what}; {SNAPSHOT}")

    def walk(self, items):
        """The items with their numbers. Counts them, because references may repeat items until
        there are more than in the file."""
        for number, item in enumerate(items):
            self.walked += 1
            if self.walked > ENTRIES_MAX:
                raise Refused(f"{self.name}: there are more than {ENTRIES_MAX} events and blocks; "
                              "record less: set max_entries in _record_memory_history")
            yield number, item if isinstance(item, dict) else {}

    def read_segments(self, segments):
        """The bytes that each device had reserved at the end, and its blocks in use: address,
        bytes."""
        there = {}
        for number, segment in self.walk(segments):
            where = f"segments[{number}]"
            device, address, bytes, blocks = map(
                segment.get, ("device", "address", "total_size", "blocks"))
            if not (whole(device, DEVICES_MAX - 1) and type(address) is int and whole(bytes)
                    and isinstance(blocks, list)):
                raise self.error(where, "device, address, total_size or blocks is missing or not "
                                        "valid")
            reserved, used = there.get(device, (0, []))
            for place, block in self.walk(blocks):
                size, state = block.get("size"), block.get("state")
                if not whole(size) or not isinstance(state, str):
                    raise self.error(f"{where}.blocks[{place}]", "it has no valid size or state")
                if state in ACTIVE:
                    used.append((address, size))
                address += size
            there[device] = reserved + bytes, used
        return there

    def read_device(self, device, trace, reserved, blocks):
        lifetimes = Lifetimes(self.name, device)
        seen = set()  # Addresses that events tell of.
        grown = most = 0  # What is reserved beyond what was there before the events.
        reserves = False  # An event tells of it.
        for number, entry in self.walk(trace):
            action, address, bytes = map(entry.get, ("action", "addr", "size"))
            if action is None:
                raise self.error(f"device_traces[{device}][{number}]", "it has no action")
            lifetimes.steps += 1
            lifetimes.refused += action == "oom"
            if action not in ("alloc", "free", "free_completed", *RESERVES):
                continue
            if type(address) is not int or not whole(bytes):
                raise self.error(f"device_traces[{device}][{number}]",
                                 "its addr or size is missing or not valid (a size is from 0 to "
                                 "2^50)")
            if action in RESERVES:
                grown += RESERVES[action] * bytes
                most, reserves = max(most, grown), True
                continue
            seen.add(address)
            (lifetimes.alloc if action == "alloc" else lifetimes.free)(address, bytes)
        lifetimes.finish()
        for address, bytes in blocks:  # What no event tells was there all along.
            if bytes and address not in seen:
                lifetimes.there_all_along(bytes)
        if reserves or reserved:
            lifetimes.reserved_peak = max(reserved - grown, 0) + most
        return lifetimes


def whole(value, most=BYTES_MAX):
    return type(value) is int and 0 <= value <= most


def read_rmm(path):
    """Reads a log of RMM, with the columns that RMM writes and that its own reader takes."""
    lifetimes = Lifetimes(path)
    header, *rows = read_bytes(path).decode("latin-1").rstrip("\r\n").split("\n")
    if header.rstrip("\r") != ",".join(RMM_HEADER):
        raise Refused(f"{path}:1: the header is {quoted(header)}; it must be "
                      f"{','.join(RMM_HEADER)!r}")
    for line, row in enumerate(rows, 2):
        try:
            take_row(row.rstrip("\r").split(","), lifetimes)
        except ValueError as error:
            raise Refused(f"{path}:{line}: {error}") from error
    return [lifetimes.finish()]


def quoted(text):
    return ascii(text.rstrip("\r")[:80])


def take_row(fields, lifetimes):
    """Raises ValueError, which says what is wrong with the row, and what to do."""
    if len(fields) != len(RMM_HEADER):
        raise ValueError(f"the number of fields is {len(fields)}, but the header has "
                         f"{len(RMM_HEADER)}; give a log of RMM's logging adaptor")
    _, _, action, pointer, size, _ = fields
    if not re.fullmatch("[0-9]{1,16}", size) or not whole(int(size)):
        raise ValueError(f"the size is {quoted(size)}; give a whole number from 0 to 2^50")
    if not re.fullmatch("(0x)?[0-9a-fA-F]{1,16}|[(]nil[)]", pointer):
        raise ValueError(f"the pointer is {quoted(pointer)}; give one such as 0x7f00, or (nil)")
    address = 0 if pointer == "(nil)" else int(pointer, 16)
    lifetimes.steps += 1
    if action == "allocate failure":
        lifetimes.refused += 1
    elif action == "allocate":
        # RMM gives a null pointer for no bytes, as often as it is asked.
        if address and address in lifetimes.open:
            raise ValueError(f"{address:#x} is allocated twice without a free in between; give the "
                             "whole log of one resource")
        lifetimes.alloc(address, int(size))
    elif action == "free":
        lifetimes.free(address, int(size))
    else:
        raise ValueError(f"the action is {quoted(action)}; it must be 'allocate', 'allocate "
                         "failure' or 'free'")
