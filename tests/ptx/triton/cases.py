"""The launches of the kernels in kernels.py that are checked in as PTX: types, sizes, values.

fixture_parameters.py says what parameters are.
"""

from fixture_parameters import *

TILES = {"TILE_M": 32, "TILE_N": 32, "TILE_K": 32}


def case(name, parameters, grid=(1, 1, 1), kernel=None, warps=4, stages=3, arch=80, debug=False,
         **constants):
    """One fixture. `debug` keeps asserts."""
    grid = tuple(grid) + (1,) * (3 - len(grid))
    return {"name": name, "kernel": kernel or name, "parameters": parameters, "grid": grid,
            "warps": warps, "stages": stages, "arch": arch, "debug": debug,
            "constants": constants}


def product(name, left, right, result, size, draw=None, tolerance=(0.0, 0.0), arch=80, **options):
    """A fixture of the kernel `matmul`, of tiles of 32 by 32 by 32."""
    m, n, k = size
    sizes = [scalar("m", m), scalar("n", n), scalar("k", k)]
    options = {"SUM": "tl.float32", "PRECISION": "tf32", **TILES, **options}
    return case(name, [given("a", left, (m, k), draw), given("b", right, (k, n), draw),
                       made("c", result, (m, n), *tolerance), *sizes],
                grid=(-(-m // options["TILE_M"]), -(-n // options["TILE_N"])), kernel="matmul",
                arch=arch, **options)


def elementwise():
    n = 1000
    blocks = (4,)
    whole = ["integers", -100000, 100000]
    return [
        case("add_masked", [given("x", F32, (n,)), given("y", F32, (n,)),
                            made("out", F32, (n,)), scalar("n", n)], blocks, BLOCK=256),
        case("silu_mul", [given("gate_up", F16, (5, 2, 144)),
                          made("out", F16, (5, 144), 2e-3, 2e-3), scalar("columns", 144)],
             (5,), BLOCK=256),
        case("where_select", [given("condition", S8, (n,), ["integers", 0, 2]),
                              given("x", BF16, (n,)), given("y", BF16, (n,)),
                              made("out", F32, (n,)), scalar("n", n)], blocks, BLOCK=256),
        case("unary_math", [given("x", F32, (n,), ["uniform", -5.0, 5.0]),
                            made("out", F32, (8, n), 3e-6, 3e-6), scalar("n", n)],
             blocks, BLOCK=256),
        case("library_math", [given("x", F32, (200,), ["uniform", -5.0, 5.0]),
                              given("y", F32, (200,), ["uniform", 0.5, 3.0]),
                              made("out", F32, (5, 200), 1e-6, 4e-6), scalar("n", 200)],
             (2,), BLOCK=128),
        case("double_math", [given("x", F64, (n,)), given("y", F64, (n,)),
                             made("out", F64, (n,), 1e-6, 1e-6), scalar("n", n)],
             blocks, BLOCK=256),
        case("integer_math", [given("x", S32, (n,), whole), given("y", S32, (n,),
                                                                  ["nonzero", -90000, 90000]),
                              made("out", S32, (4, n)), made("wide", S64, (2, n)),
                              scalar("n", n)], blocks, BLOCK=256),
        case("rope", [given("q", F16, (6, 3, 64)), given("position", S32, (6,),
                                                         ["integers", 0, 500]),
                      made("out", F16, (6, 3, 64), 2e-3, 2e-3), scalar("heads", 3)],
             (6, 3), warps=1, DIM=64),
        case("embedding", [given("tokens", S64, (9,), ["integers", 0, 50]),
                           given("table", BF16, (50, 100)), made("out", BF16, (9, 100)),
                           scalar("columns", 100)], (9,), warps=2, BLOCK=128),
        case("transpose", [given("x", F32, (45, 70)), made("out", F32, (70, 45)),
                           scalar("rows", 45), scalar("columns", 70)], (2, 3), TILE=32),
        case("shuffle_shapes", [given("x", F32, (128,)), given("y", F32, (128,)),
                                made("out", F32, (256,)), made("picked", F32, (128,)),
                                given("index", S32, (128,), ["integers", 0, 128])], BLOCK=128),
        case("descriptor_copy", [given("x", F32, (40, 36)), made("out", F32, (40, 36)),
                                 scalar("rows", 40), scalar("columns", 36)], (2, 2), TILE=32),
        case("fp8_convert", [given("x", F32, (n,), ["normal", 100.0]), made("out_e5", E5M2, (n,)),
                             made("back_e5", F32, (n,)), scalar("n", n)], blocks, BLOCK=256),
        case("fp8_convert_e4", [given("x", F32, (n,), ["normal", 50.0]),
                                made("out_e4", E4M3, (n,)), made("back_e4", F32, (n,)),
                                scalar("n", n)], blocks, arch=89, BLOCK=256),
        case("quantise_int8", [given("x", F32, (6, 200)), made("out", S8, (6, 200), 1),
                               made("scales", F32, (6,), 0, 1e-6), scalar("columns", 200)],
             (6,), BLOCK=256),
        case("dropout", [given("x", F32, (n,)), made("out", F32, (n,), 0, 1e-6),
                         made("kept", S8, (n,)), scalar("n", n), scalar("seed", 1234567),
                         scalar("p", 0.375, F32)], blocks, BLOCK=256),
    ]


def reductions():
    return [
        case("softmax", [given("x", F32, (7, 200), ["normal", 3.0]),
                         made("out", F32, (7, 200), 1e-6, 1e-5), scalar("columns", 200)],
             (7,), BLOCK=256),
        case("layer_norm", [given("x", F16, (5, 250)), given("weight", F32, (250,)),
                            given("bias", F32, (250,)), made("out", F16, (5, 250), 2e-3, 2e-3),
                            scalar("columns", 250), scalar("epsilon", 1e-5, F32)],
             (5,), BLOCK=256),
        case("rms_norm", [given("x", BF16, (4, 300)), given("weight", BF16, (300,)),
                          made("out", BF16, (4, 300), 1e-2, 1e-2), scalar("columns", 300),
                          scalar("epsilon", 1e-5, F32)], (4,), BLOCK=128),
        case("group_norm", [given("x", F32, (6, 8, 50), ["uniform", -1.0, 3.0]),
                            made("out", F32, (6, 8, 50), 1e-5, 1e-5), scalar("pixels", 50),
                            scalar("epsilon", 1e-5, F32)], (6,), CHANNELS=8, BLOCK=64),
        case("reduce_2d", [given("x", F32, (32, 64)), made("rows_out", F32, (32,), 1e-5, 1e-5),
                           made("columns_out", F32, (64,)), made("low", S32, (32,)),
                           made("parity", S32, (64,))], ROWS=32, COLUMNS=64),
        case("argmax", [given("x", F32, (8, 300), ["integers", 0, 40]), made("out", S32, (8,)),
                        scalar("columns", 300)], (8,), BLOCK=512),
        case("cross_entropy", [given("logits", BF16, (5, 300), ["normal", 3.0]),
                               given("target", S64, (5,), ["integers", -1, 300]),
                               made("loss", F32, (5,), 1e-5, 1e-5), scalar("columns", 300)],
             (5,), BLOCK=128),
        case("cumsum", [given("x", S32, (4, 500), ["integers", -9, 10]),
                        made("out", S32, (4, 500)), scalar("columns", 500)], (4,), BLOCK=512),
        case("recurrence", [given("a", F32, (64, 4), ["uniform", 0.5, 1.0]),
                            given("b", F32, (64, 4)), made("out", F32, (64, 4), 1e-5, 1e-5)],
             STEPS=64, CHANNELS=4),
        case("sort_rows", [given("x", S32, (3, 64), ["integers", -500, 500]),
                           made("out", S32, (3, 64)), made("top", S32, (3, 8))], (3,), warps=2,
             COLUMNS=64, K=8),
        case("conv1d", [given("x", F32, (3, 200)), given("weight", F32, (3, 4)),
                        made("out", F32, (3, 200), 1e-5, 1e-5), scalar("length", 200)], (3, 2),
             TAPS=4, BLOCK=128),
    ]


def meetings():
    zero = ["fill", 0]
    return [
        case("histogram", [given("x", S32, (1000,), ["integers", 0, 32]),
                           changed("counts", S32, (32,), zero), scalar("n", 1000)], (4,),
             BINS=32, BLOCK=256),
        case("scatter_add", [given("x", F32, (300,)), given("index", S32, (300,),
                                                           ["integers", 0, 20]),
                             changed("sums", F32, (20,), zero, 1e-5, 1e-5),
                             changed("halves", F16, (20,), zero, 6e-2, 1e-2),
                             scalar("n", 300)], (3,), BLOCK=128),
        case("atomic_kinds", [given("x", S32, (500,), ["integers", -1000000, 1000000]),
                              changed("out", S32, (5,), ["fill", -7]),
                              changed("last", S32, (500,), zero), scalar("n", 500)], (4,),
             BLOCK=128),
        case("locked_sum", [given("x", F32, (12, 100)), changed("lock", S32, (1,), zero),
                            changed("total", F32, (100,), zero, 1e-5, 1e-5),
                            scalar("columns", 100)], (12,), BLOCK=128),
        case("last_block_sum", [given("x", F32, (1000,)), changed("partial", F32, (8,), zero,
                                                                 1e-5, 1e-5),
                                changed("arrived", S32, (1,), zero),
                                made("out", F32, (1,), 1e-4, 1e-5), scalar("n", 1000)], (8,),
             BLOCKS=8, BLOCK=128),
        case("chained_scan", [given("x", S32, (500,), ["integers", 0, 10]),
                              changed("flags", S32, (4,), zero), changed("carry", S32, (4,), zero),
                              made("out", S32, (500,)), scalar("n", 500)], (4,), BLOCK=128),
        case("collatz", [given("x", S32, (40,), ["integers", 1, 1000]), made("steps", S32, (40,)),
                         scalar("n", 40)], (40,), warps=1),
        case("print_values", [given("x", S32, (32,), ["integers", -99, 99]),
                              made("out", S32, (32,))], warps=1, debug=True, BLOCK=32),
    ]


def products():
    bytes_ = ["integers", -128, 128]
    n = 64
    return [
        product("matmul_f16", F16, F16, F16, (64, 64, 160), tolerance=(2e-2, 2e-3)),
        product("matmul_bf16", BF16, BF16, BF16, (50, 40, 96), tolerance=(1e-1, 1e-2)),
        product("matmul_tf32", F32, F32, F32, (64, 32, 160), tolerance=(5e-2, 2e-3)),
        product("matmul_ieee", F32, F32, F32, (16, 16, 40), tolerance=(1e-5, 1e-5),
                PRECISION="ieee", TILE_M=16, TILE_N=16, TILE_K=16),
        product("matmul_tf32x3", F32, F32, F32, (32, 32, 64), tolerance=(1e-4, 1e-5),
                PRECISION="tf32x3"),
        product("matmul_s8", S8, S8, S32, (64, 32, 320), bytes_, SUM="tl.int32", TILE_K=64),
        product("matmul_e4m3", E4M3, E4M3, F32, (64, 32, 320), tolerance=(1e-3, 1e-4), arch=89,
                TILE_K=64),
        case("linear_gelu", [given("x", BF16, (40, 64)), given("weight", BF16, (48, 64)),
                             given("bias", F32, (48,)), made("out", BF16, (40, 48), 1e-1, 1e-2),
                             scalar("m", 40), scalar("n", 48), scalar("k", 64)], (2, 2), **TILES),
        case("split_k_matmul", [given("a", F16, (32, 320)), given("b", F16, (320, 32)),
                                changed("c", F32, (32, 32), ["fill", 0], 1e-3, 1e-4),
                                scalar("n", 32), scalar("k", 320)], (1, 1, 2), TILE=32, SPLIT=2),
        case("matmul_int4", [given("a", F16, (32, n)), given("packed", U8, (64, n // 2),
                                                            ["integers", 0, 256]),
                             given("scales", F32, (64,), ["uniform", 0.01, 0.02]),
                             made("c", F32, (32, 64), 1e-3, 1e-3), scalar("n", 64),
                             scalar("k", n)], (2,), TILE=32),
    ]


def attention():
    heads, length, dim = 2, 80, 32
    shape = (heads, length, dim)
    return [
        case("flash_attention", [given("q", F16, shape), given("k", F16, shape),
                                 given("v", F16, shape), made("out", F16, shape, 4e-3, 4e-3),
                                 scalar("length", length), scalar("scale", 0.1767767, F32)],
             (3, heads), stages=2, TILE_M=32, TILE_N=32, DIM=dim),
        # Lanes that add a product of their own to one of a neighbour round differently, as both are
        # fused, and then store what each has to one place: which of them wins is open.
        case("paged_attention", [given("q", BF16, (3, heads, dim)),
                                 given("keys", BF16, (12, 16, heads, dim)),
                                 given("values", BF16, (12, 16, heads, dim)),
                                 given("pages", S32, (3, 4), ["distinct", 12]),
                                 given("lengths", S32, (3,), ["integers", 1, 65]),
                                 made("out", F32, (3, heads, dim), 1e-4, 1e-4),
                                 scalar("heads", heads), scalar("pages_max", 4),
                                 scalar("scale", 0.1767767, F32)], (3, heads),
             PAGE=16, DIM=dim),
    ]


def hopper():
    """Products of warpgroups, which tiles of 64 rows become for sm_90."""
    tiles = {"TILE_M": 64, "TILE_N": 64, "TILE_K": 64, "arch": 90}
    heads, length, dim = 2, 80, 32
    shape = (heads, length, dim)
    return [
        product("wgmma_f16", F16, F16, F16, (100, 72, 160), tolerance=(2e-2, 2e-3), **tiles),
        product("wgmma_bf16", BF16, BF16, BF16, (128, 130, 96), tolerance=(1e-1, 1e-2),
                **{**tiles, "TILE_M": 128, "TILE_N": 128, "TILE_K": 32}, warps=8),
        product("wgmma_tf32", F32, F32, F32, (64, 64, 96), tolerance=(5e-2, 2e-3),
                **{**tiles, "TILE_K": 32}),
        product("wgmma_e4m3", E4M3, E4M3, F32, (64, 64, 192), tolerance=(1e-3, 1e-4), **tiles),
        product("wgmma_s8", S8, S8, S32, (64, 64, 192), ["integers", -128, 128], SUM="tl.int32",
                **tiles),
        case("wgmma_attention", [given("q", F16, shape), given("k", F16, shape),
                                 given("v", F16, shape), made("out", F16, shape, 4e-3, 4e-3),
                                 scalar("length", length), scalar("scale", 0.1767767, F32)],
             (2, heads), kernel="flash_attention", stages=2, arch=90, TILE_M=64, TILE_N=64,
             DIM=dim),
    ]


def cases():
    return elementwise() + reductions() + meetings() + products() + attention() + hopper()
