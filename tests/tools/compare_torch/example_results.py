#!/usr/bin/env python3
"""Draws what compare_torch.py would write, for tests; no machine has seen it.

  example_results.py FOLDER [SEED]    writes FOLDER/compare.json

Medians are what the constants below say, up to noise of a few percent.
"""

import json
import pathlib
import random
import sys

SAMPLES = 100
KERNELS = (10, 100, 300, 1000)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BUCKETS = [1, 2, 4] + [8 * i for i in range(1, 65)]
LARGEST_BYTES = 512 << 20
MODEL = {"layers": 4, "d_model": 1024, "heads": 16, "kv_heads": 4, "head_dim": 64, "ffn": 2816,
         "vocab": 32000, "slots": 512, "max_context": 1024, "rope_theta": 10000.0, "rms_eps": 1e-5}

# Host microseconds per call at no kernels and per kernel.
STEP_HOST = {"coppice": {"launch": (3.0, 0.004), "run": (3.15, 0.004), "run_staged": (5.7, 0.004),
                         "run_staged_calls": (5.5, 0.004), "eager": (0.3, 2.6)},
             "torch": {"cuda_graph": (4.2, 0.004), "reduce_overhead": (31.0, 0.006),
                       "reduce_overhead_static": (27.0, 0.006), "eager": (2.0, 4.6)}}
STEP_GPU = {"coppice": (1.0, 1.3), "torch": (1.1, 1.3)}
# Microseconds of a decode step at batch 1; a step grows with the batch.
DECODE = {"coppice": {"eager": 140.0, "replay": 52.0},
          "torch": {"eager": 420.0, "reduce_overhead": 78.0}}
KERNELS_OF_A_STEP = {"Embed": 1, "Norm": 9, "Project": 17, "Rotate": 4, "Attend": 4, "Gate": 4,
                     "Sample": 1}


class Draw:
    """Noise around a median, skewed upwards as times are."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def times(self, median, count=SAMPLES, spread=0.03):
        return [round(median * (1 + spread * (self.random.expovariate(1) - 0.69)), 4)
                for _ in range(count)]

    def way(self, name, host, gpu, calls=10):
        return {"name": name, "calls": calls, "host_us": self.times(host),
                "gpu_us": self.times(gpu)}


def steps(draw, side):
    cases = []
    for kernels in KERNELS:
        ways = []
        for name, (base, each) in STEP_HOST[side].items():
            host = base + each * kernels
            start, per_kernel = STEP_GPU[side]
            ways.append(draw.way(name, host, max(host, start + per_kernel * kernels),
                                 1000 // max(kernels, 100) if name == "eager" else 10))
        nodes = {way["name"]: kernels for way in ways if way["name"] != "eager"}
        case = {"kernels": kernels, "nodes": nodes, "ways": ways}
        if side == "torch":
            case["copied_inputs"] = {"cuda_graph": 0, "reduce_overhead": 1,
                                     "reduce_overhead_static": 0}
        cases.append(case)
    return {"section": "steps", "device": "synthetic example", "cases": cases}


def bucket_case(draw, torch, order, outputs, pool_bytes, recorded):
    """coppice says of what kind its bytes are, and estimates what graphs take."""
    nodes = 41 * len(recorded)
    case = {"order": order, "outputs": outputs, "buckets": len(recorded), "nodes": nodes,
            "own_bytes": pool_bytes, "recorded": recorded,
            "driver_bytes": pool_bytes + nodes * (19_800 if torch else 15_900),
            "record_ms": draw.times(7.5 if torch else 1.9, len(recorded), 0.2)}
    if torch:
        return case
    held = pool_bytes - LARGEST_BYTES
    usage = {"nodes": LARGEST_BYTES, "eager": 4 << 20, "staging": 2 << 20, "copy_out": held,
             "graphs": nodes * 16_000}
    case["driver_bytes"] += 6 << 20
    return {**case, "usage": usage, "own_bytes": sum(usage.values()), "mismatches": 0,
            "height_bytes": LARGEST_BYTES - 4096}


def buckets(draw, side):
    cases = []
    torch = side == "torch"
    ratios = {"asc": 6.4, "desc": 1.12, "random:1": 2.3} if torch else {}
    for outputs in ("dropped", "held"):
        for order in ("asc", "desc", "random:1"):
            own = int(LARGEST_BYTES * ratios.get(order, 1.0))
            if outputs == "held":
                own += 90 << 20
            cases.append(bucket_case(draw, torch, order, outputs, own, BUCKETS))
    cases.append(bucket_case(draw, torch, "largest", "dropped", LARGEST_BYTES, [512]))
    stall = {"idle_us": draw.times(11, 3000, 0.05), "beside_us": draw.times(13, 3000, 0.4)}
    for at in range(40):
        stall["beside_us"][at * 70] = draw.times(9000 if torch else 900, 1, 0.5)[0]
    if torch:
        stall["control_us"] = draw.times(15, 3000, 0.6)
    # Of the rounds of a side, only so many of their quantiles are kept.
    stall["rounds"] = {key.removesuffix("_us"): 20 * len(values) for key, values in stall.items()}
    return {"section": "buckets", "model": MODEL, "batches": BUCKETS, "cases": cases,
            "stall": stall}


def decode(draw, side):
    cases = []
    for batch in BATCHES:
        grown = 0.6 * (batch - 1)
        ways = []
        for name, first in DECODE[side].items():
            own = first if name == "eager" else first + grown
            ways.append(draw.way(name, own if name == "eager" else 0.1 * first,
                                 max(own, DECODE[side].get("replay", 70) + grown)))
        case = {"batch": batch, "nodes": {ways[1]["name"]: 41}, "ways": ways}
        if side == "coppice":
            case.update({"gate": "replay", "tokens_equal": True})
        cases.append(case)
    return {"section": "decode", "model": MODEL, "cases": cases}


def kernels(draw):
    count = sum(KERNELS_OF_A_STEP.values())
    return {"section": "kernels", "batch": 1, "steps": 12, "kernels": count, "launched": count,
            "sum_us": draw.times(46, 12, 0.01),
            "by_name": [{"name": name, "launches": launches, "us": round(46 / count, 3)}
                        for name, launches in KERNELS_OF_A_STEP.items()]}


def suspend(draw, side):
    own = LARGEST_BYTES + (64 << 20)
    head = {"graphs": 64, "bytes": own, "driver_bytes": own}
    if side == "torch":
        return {"section": "recapture", **head, "drop_us": draw.times(5200),
                "recapture_us": draw.times(640_000)}
    return {"section": "suspend", **head, "suspend_us": draw.times(2900),
            "resume_us": draw.times(4100), "first_replay_us": draw.times(61)}


def dispatch():
    return {"cases": [
        {"name": name, "inputs": inputs, "staged": staged, "siblings": siblings,
         "overhead_ns_p50": ns, "overhead_ns_p10": ns * 0.97, "overhead_ns_p90": ns * 1.1,
         "instructions": instructions, "heap_allocs": 0, "driver_calls": 2.0 if staged else 1.0,
         "run_ns_p50": ns + 2, "raw_ns_p50": 2.0}
        for name, inputs, staged, siblings, ns, instructions in (
            ("all_static", 8, 0, 1, 57.0, 619), ("two_staged", 8, 2, 1, 60.0, 989),
            ("siblings_1000", 8, 0, 1000, 106.0, 977), ("static_200", 200, 0, 1, 39.0, None))],
        "guards": {"count": 6, "operations": 20, "ns_p50": 70.0},
        "trace": {"event_ns_p50": 12.7, "event_off_ns_p50": 0.01}, "iterations": 200000}


def soak():
    memory = [{"replays": 50_000 * i, "records": 500 * i, "own_bytes": (20 if i else 18) << 20,
               "driver_free_bytes": (140 << 30) - ((40 if i else 36) << 20),
               "host_rss_bytes": (310 if i else 290) << 20} for i in range(21)]
    return {"section": "soak", "replays": 1_000_000, "records": 10_000, "evictions": 10_000,
            "mismatches": 0, "checked": 5000, "memory": memory, "flat": True}


def example(seed=1, mode="cuda"):
    """What compare.json would hold."""
    draw = Draw(seed)

    def part(report, *command):
        return {"command": list(command), "seconds": 9.5, "report": report}

    def both(ours, theirs, make):
        return {side: part(make(draw, side), *words) for side, words in
                (("coppice", ("coppice", "bench", ours)), ("torch", ("torch_side.py", theirs)))}

    return {
        "mode": mode, "date": "2000-01-01", "built_from": "example", "finished": True,
        "seconds": 321.0,
        "sections": {
            "info": {
                "coppice": part({"version": "0.1.0", "driver": mode, "driver_version": 13000,
                                 "device": "synthetic example"}, "coppice", "info"),
                "host": {"report": {"cpu": "no processor", "cores": 16}},
                "smi": part({"name": "synthetic example", "driver_version": "0.0"}, "nvidia-smi"),
                "torch": part({"torch": "0.0", "cuda": "13.0", "python": "3.12"}, "python3")},
            "dispatch": {"coppice": part(dispatch(), "coppice", "bench", "dispatch")},
            "record": {"coppice": part(
                {"nodes": 100, "record_us_p50": 180.0, "driver_us_p50": 158.0, "device_syncs": 0,
                 "maybe_syncs": 33,
                 "own_us_p50": 22.0, "recordings": 64}, "coppice", "bench", "record")},
            "steps": both("steps", "steps", steps),
            "buckets": both("buckets", "buckets", buckets),
            "decode": both("decode", "decode", decode),
            "kernels": {"coppice": part(kernels(draw), "ncu")},
            "suspend": both("suspend", "recapture", suspend),
            "soak": {"coppice": part(soak(), "coppice", "soak")}}}


def write(folder, result):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "compare.json").write_text(json.dumps(result) + "\n")
    return folder


if __name__ == "__main__":
    write(sys.argv[1], example(int(sys.argv[2]) if len(sys.argv) > 2 else 1))
