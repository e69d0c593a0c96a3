"""What compare_torch.py would write of a GPU that meets every bar, for tests; none has seen it."""

KERNELS = (10, 100, 300, 1000)
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
BUCKETS = [1, 2, 4, *range(8, 513, 8)]
LARGEST_BYTES = 512 << 20

# Host microseconds per call at no kernels and per kernel.
STEP_HOST = {"coppice": {"launch": (3.0, 0.004), "run": (3.15, 0.004), "run_staged": (5.7, 0.004),
                         "run_staged_calls": (5.5, 0.004), "eager": (0.3, 2.6)},
             "torch": {"cuda_graph": (4.2, 0.004), "reduce_overhead": (31.0, 0.006),
                       "reduce_overhead_static": (27.0, 0.006), "eager": (2.0, 4.6)}}
# Microseconds of a decode step at batch 1; a step grows with the batch.
DECODE = {"coppice": {"eager": 140.0, "replay": 52.0},
          "torch": {"eager": 420.0, "reduce_overhead": 78.0}}


def times(median, count=25):
    """Around a median, up to one percent."""
    return [median * (1 + (i * 7 % count - count // 2) / (50 * count)) for i in range(count)]


def way(name, host, gpu):
    return {"name": name, "calls": 10, "host_us": times(host), "gpu_us": times(gpu)}


def steps(side):
    cases = []
    for kernels in KERNELS:
        ways = [way(name, base + each * kernels, 1 + 1.3 * kernels)
                for name, (base, each) in STEP_HOST[side].items()]
        cases.append({"kernels": kernels, "ways": ways, "nodes": {
            one["name"]: kernels for one in ways if one["name"] != "eager"}})
        if side == "torch":
            cases[-1]["copied_inputs"] = {"reduce_overhead": 1, "reduce_overhead_static": 0}
    return {"cases": cases}


def bucket_case(side, order, outputs, pool_bytes, buckets):
    """coppice says of what kind its bytes are, and estimates what graphs take."""
    nodes = 41 * buckets
    case = {"order": order, "outputs": outputs, "buckets": buckets, "nodes": nodes,
            "own_bytes": pool_bytes, "driver_bytes": pool_bytes + nodes * 15_900,
            "record_ms": times(7.5 if side == "torch" else 1.9)}
    if side == "torch":
        return case
    usage = {"nodes": LARGEST_BYTES, "copy_out": pool_bytes - LARGEST_BYTES, "graphs": nodes * 16}
    return {**case, "usage": usage, "own_bytes": sum(usage.values()), "mismatches": 0,
            "height_bytes": LARGEST_BYTES - 4096}


def buckets(side):
    ratios = {"asc": 6.4, "desc": 1.12, "random:1": 2.3} if side == "torch" else {}
    cases = [bucket_case(side, order, outputs,
                         int(LARGEST_BYTES * ratios.get(order, 1.0)) + held, 67)
             for outputs, held in (("dropped", 0), ("held", 90 << 20))
             for order in ("asc", "desc", "random:1")]
    cases.append(bucket_case(side, "largest", "dropped", LARGEST_BYTES, 1))
    stall = {"idle_us": times(11), "beside_us": times(13), "control_us": times(15)}
    return {"batches": BUCKETS, "cases": cases, "stall": {
        **stall, "rounds": {key.removesuffix("_us"): 20 * len(stall[key]) for key in stall}}}


def decode(side):
    cases = []
    for batch in BATCHES:
        ways = [way(name, 0.1 * first, first + 0.6 * (batch - 1))
                for name, first in DECODE[side].items()]
        cases.append({"batch": batch, "nodes": {ways[1]["name"]: 41}, "ways": ways,
                      "gate": "replay", "tokens_equal": True})
    return {"cases": cases}


def suspend(side):
    keys = {"coppice": {"suspend_us": 2900, "resume_us": 4100, "first_replay_us": 61},
            "torch": {"drop_us": 5200, "recapture_us": 640_000}}[side]
    return {"graphs": 64, "bytes": LARGEST_BYTES, "driver_bytes": LARGEST_BYTES,
            **{key: times(us) for key, us in keys.items()}}


def alone():
    """Reports that PyTorch has nothing to hold against."""
    cases = [{"name": name, "staged": 0, "siblings": 1, "overhead_ns_p50": 57.0,
              "overhead_ns_p10": 55.0, "overhead_ns_p90": 63.0, "instructions": 619,
              "heap_allocs": 0, "driver_calls": 1.0}
             for name in ("all_static", "two_staged", "siblings_1000", "static_200")]
    memory = [{"own_bytes": 20 << 20, "driver_free_bytes": 140 << 30, "host_rss_bytes": 310 << 20}]
    return {"dispatch": {"cases": cases},
            "record": {"nodes": 100, "recordings": 64, "own_us_p50": 22.0, "driver_us_p50": 158.0,
                       "device_syncs": 0, "maybe_syncs": 33},
            "soak": {"replays": 1_000_000, "records": 10_000, "evictions": 10_000,
                     "mismatches": 0, "checked": 5000, "memory": 8 * memory, "flat": True},
            "kernels": {"kernels": 40, "launched": 40, "sum_us": times(46),
                        "by_name": [{"name": "Norm", "launches": 9, "us": 1.1}]}}


def example(mode="cuda"):
    """What summary.json would hold."""
    def stage(name, **reports):
        return {"name": name, "status": "ok", "seconds": 9.5, "note": "", "steps": [
            {"name": side, "status": "ok", "seconds": 9.5, "note": "", "report": report}
            for side, report in reports.items()]}

    both = {"steps": steps, "buckets": buckets, "decode": decode, "suspend": suspend}
    return {"mode": mode, "stages": [
        *(stage(name, coppice=report) for name, report in alone().items()),
        *(stage(name, coppice=make("coppice"), torch=make("torch"))
          for name, make in both.items())]}
