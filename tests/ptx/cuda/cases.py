"""The launches of the kernels in the .cu files that are checked in as PTX, and how each file is
compiled. fixture_parameters.py says what parameters are.
"""

from fixture_parameters import *

# A fixture's file: the source, the architecture, and how far it is optimised.
BUILDS = {
    "atomics": ("atomics", 80, 3), "block_scan": ("block_scan", 80, 3), "calls": ("calls", 80, 3),
    "calls_O0": ("calls", 80, 0), "grid_sync": ("grid_sync", 80, 3), "library": ("library", 80, 3),
    "look_back": ("look_back", 80, 3), "look_back_sm75_O0": ("look_back", 75, 0),
    "messages": ("messages", 80, 3), "narrow": ("narrow", 80, 3), "narrow_sm89": ("narrow", 89, 3),
    "radix_sort": ("radix_sort", 80, 3), "tiles": ("tiles", 80, 3),
    "warp_operations": ("warp_operations", 80, 3), "warp_operations_O0": ("warp_operations", 80, 0),
}


def case(kernel, build, parameters, grid=1, block=128, shared=0, cooperative=False):
    """One launch, of a kernel in each file whose name is that of `build` and a suffix."""
    return {"kernel": kernel, "build": build, "parameters": parameters, "grid": [grid, 1, 1],
            "block": [block, 1, 1], "shared_bytes": shared, "cooperative": cooperative}


def blocks():
    small = ["integers", -100, 101]
    return [
        case("block_scan", "block_scan", [given("x", S32, (4, 128), small),
                                          made("sums", S32, (4, 128)),
                                          made("total", S32, (4,))], 4),
        case("block_reduce", "block_scan", [given("x", S32, (300,), ["integers", -9999, 9999]),
                                            made("largest", S32, (3,)), scalar("n", 300)], 3),
        case("radix_sort", "radix_sort", [given("keys", S16, (3, 64), ["integers", -300, 300]),
                                          made("sorted", S16, (3, 64)),
                                          made("origin", S32, (3, 64))], 3, 64),
        case("look_back", "look_back", [given("x", S32, (40 * 64,), small),
                                        made("sums", S32, (40 * 64,)),
                                        changed("states", U64, (40,), ["fill", 0]),
                                        changed("ticket", S32, (1,), ["fill", 0])], 40, 64),
        case("grid_sync", "grid_sync", [changed("x", S32, (6, 64), small), scalar("rounds", 5)], 6,
             64, cooperative=True),
        case("dynamic_shared", "tiles", [given("x", F32, (3, 96)), made("out", F32, (3, 96))],
             3, 96, shared=96 * 4),
        case("pipeline", "tiles", [given("x", F32, (5, 64, 4)),
                                   made("out", F32, (64, 4), 1e-5, 1e-5), scalar("stages", 5)],
             1, 64),
        case("wmma_product", "tiles", [given("a", F16, (16, 64)), given("b", F16, (16, 64)),
                                       made("c", F32, (16, 16), 1e-3, 1e-3), scalar("k", 64)],
             1, 32),
        case("block_barrier", "tiles", [given("x", S32, (6, 32), small), made("out", S32, (96,)),
                                        scalar("rounds", 6)], 1, 96),
    ]


def threads():
    return [
        case("warp_operations", "warp_operations", [given("x", S32, (64,), ["integers", -99, 100]),
                                                    made("out", S32, (12, 64))], 1, 64),
        case("recursion", "calls", [given("x", S32, (32,), ["integers", 0, 10]),
                                    made("out", S32, (32,))], 1, 32),
        case("indirect_calls", "calls", [given("which", S32, (64,), ["integers", 0, 3]),
                                         given("a", F32, (64,)), given("b", F32, (64,)),
                                         made("out", F32, (64,))], 1, 64),
        case("switch_table", "calls", [given("which", S32, (64,), ["integers", 0, 10]),
                                       given("x", S32, (64,), ["integers", -9999, 9999]),
                                       changed("out", S32, (64,), ["integers", -99, 99])], 1, 64),
        case("prints", "messages", [given("x", S32, (40,), ["integers", -99, 99]),
                                    given("y", F32, (40,))], 1, 40),
        case("asserts", "messages", [given("x", S32, (40,), ["integers", 0, 99]),
                                     made("out", S32, (40,))], 1, 40),
        case("library_floats", "library", [given("x", F32, (256,), ["uniform", -6.0, 6.0]),
                                           made("out", F32, (7, 256), 3e-7, 1e-6)], 2),
        case("library_doubles", "library", [given("x", F64, (256,), ["uniform", -6.0, 6.0]),
                                            made("out", F64, (5, 256), 1e-15, 1e-14)], 2),
        case("halves", "narrow", [given("x", F16, (50, 2)), given("y", F16, (50, 2)),
                                  made("out", F16, (4, 50, 2)), scalar("n", 50)], 1, 64),
        case("bfloats", "narrow", [given("x", BF16, (50,)), given("y", F32, (50,)),
                                   made("out", BF16, (2, 50)), made("wide", F32, (50,)),
                                   scalar("n", 50)], 1, 64),
        case("fp8", "narrow", [given("x", F32, (64,), ["normal", 9.0]), made("e4", E4M3, (64,)),
                               made("e5", E5M2, (64,)), made("back", F32, (64,))], 1, 64),
        case("atomics", "atomics", [given("x", S32, (3, 64), ["integers", 1, 9999]),
                                    changed("out", S32, (24,), ["fill", 0]),
                                    changed("sum", F32, (1,), ["fill", 0], 0, 1e-5),
                                    changed("wide_sum", F64, (1,), ["fill", 0]),
                                    changed("wide", U64, (1,), ["fill", 7])], 3, 64),
    ]


def launches():
    """What launches.json says of each: a case for every build of its source."""
    made_of = []
    for each in blocks() + threads():
        case_ = dict(each)
        source = case_.pop("build")
        for build, (name, arch, _) in BUILDS.items():
            if name == source:
                suffix = build[len(source):]
                made_of.append({"name": case_["kernel"] + suffix, "file": build + ".ptx",
                                "entry": case_["kernel"], "target": f"sm_{arch}", **case_})
    return made_of
