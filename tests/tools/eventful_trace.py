"""Writes traces in which everything happens that a report shows, and whose names try to be HTML."""

import json
import random

HOSTILE = "</script><img src=x onerror=alert(1)>"
NAMES = ("prefill", "decode", HOSTILE)
SIZES = (8, 16, 32, 64)


def definitions(lanes):
    """Three programs with a bucket per size on each lane, and a graph for each of those."""
    yield {"schema": "coppice.trace/6", "options": {}, "device": "coppice emulator", "lanes": lanes,
           "granularity": 2097152, "budget": 64 << 20}
    for number, name in enumerate(NAMES):
        yield {"program": number, "name": name, "variant": "", "symbols": ["batch"], "scalars": [],
               "spec": {}, "policies": [], "joint": []}
    for number, (lane, program, size) in enumerate(places(lanes)):
        yield {"bucket": number, "program": program, "lane": lane, "extents": [size],
               "scalars": []}
        unit = size * 1024 * (program + 1)
        buffers = [[0, unit, 0, [10, 40], HOSTILE]]
        buffers += [[unit + unit * (k % 4), unit // (1 + k % 3), -1, [3 * k, 3 * k + 5],
                     f"layer.{k}" if k % 2 else ""] for k in range(12)]
        yield {"node": number, "bucket": number, "height": 5 * unit, "live": 4 * unit,
               "method": "size", "graph_nodes": 20, "exec_bytes": 225280,
               "record_ns": 90000 + 1000 * number, "reason": "new_bucket", "around": [],
               "kernels": [["Attend<128>", [size, 4, 1], [64, 1, 1], 2048],
                           [HOSTILE, [size, 1, 1], [128, 1, 1], 0]], "buffers": buffers}
    yield {"failure": 0, "driver_call": "cuMemAlloc_v2",
           "code": "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "message": HOSTILE}
    yield {"mark": 0, "name": HOSTILE}


def places(lanes):
    return [(lane, program, size) for lane in range(lanes) for program in range(len(NAMES))
            for size in SIZES]


def happenings(calls, lanes):
    """Graphs are recorded; then calls replay, fail to, read each other, are kept and let go."""
    draw = random.Random(1)
    buckets = places(lanes)
    time = 1000
    for program in range(len(NAMES)):
        yield [time, "statics", -1, program, 1 << 19, (program + 1) << 19]
    for number, (lane, _, _) in enumerate(buckets):
        time += 500000
        yield [time, "bytes", lane, "nodes", (number + 1) << 20, (number + 1) << 20]
        yield [time, "record", lane, number]
    made = [0] * lanes
    for step in range(calls):
        time += draw.randrange(2000, 30000)
        lane = draw.randrange(lanes)
        made[lane] += 1
        number = lane * len(NAMES) * len(SIZES) + draw.randrange(len(NAMES) * len(SIZES))
        size = buckets[number][2]
        if step == calls // 2:
            yield from ([time, "mark", -1, 0], [time, "suspend", -1], [time + 1000, "resume", -1])
        if step % 97 == 0:
            yield [time, "fail", lane, number, 0]
            yield [time, "call", lane, made[lane], number, -1, "eager", "not_capturable", size,
                   size, buckets[number][1], [size], draw.randrange(50000, 90000), "borrow"]
            continue
        if step % 5 == 0 and made[lane] > 1:
            yield [time, "use", lane, made[lane], made[lane] - 1, 0, 0, 0]
        real = draw.randrange(1, size + 1)
        yield [time, "call", lane, made[lane], number, number, "replay", "none", real, size,
               buckets[number][1], [real], -1 if step % 16 else draw.randrange(5000, 9000),
               "borrow"]
        if step % 40 == 1:
            first = draw.randrange(10**7, 10**9)
            yield [time, "request", -1, step, first, first + 10**7 * real, 100, 1 + real]
        if step % 50 == 0:
            yield [time, "outputs", lane, made[lane], number]
            yield [time + 1500, "release", lane, made[lane]]
    yield [time + 2000, "end", -1]


def write_trace(path, calls, lanes=2):
    with open(path, "w", encoding="ascii") as file:
        for lines in (definitions(lanes), happenings(calls, lanes)):
            for line in lines:
                file.write(json.dumps(line, separators=(",", ":")) + "\n")
