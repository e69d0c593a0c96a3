"""Random numbers of graphs: seeds that the backward graph uses again, and numbers that PyTorch
draws from a seed in place of a kernel.

Inductor's random operators draw from a seed, with Philox of ten rounds, like Triton's tl.rand.
Their eager form ignores the seed, so a backward graph that PyTorch runs would not get the mask of
its forward graph.
"""

import math
import operator

import numpy as np
import torch

hops, prims = torch.ops.higher_order, torch.ops.prims
MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
ROUNDS = 10
LOW, WORD = np.uint64(0xFFFFFFFF), np.uint64(32)


def keep_seeds(module, inputs, mode):
    """If a forward graph saves the generator's state, from which the backward graph would draw the
    same seeds, lets it save the seeds instead. Changes the module, and returns its fake inputs."""
    graph, inputs = module.graph, list(inputs)
    for node in list(graph.nodes):
        saves = node.target is hops.run_and_save_rng_state
        if not saves and node.target is not hops.run_with_rng_state:
            continue
        called, *rest = node.args if saves else node.args[1:]
        if called is not prims.inductor_seeds.default:
            continue
        with mode:
            seeds = torch.empty(rest[0], dtype=torch.int64, device=rest[1])
        if saves:
            with graph.inserting_before(node):
                drawn = graph.call_function(called, tuple(rest))
            drawn.meta["val"] = seeds
            for user in list(node.users):
                assert user.target is operator.getitem
                user.replace_all_uses_with(drawn)
                graph.erase_node(user)
        else:
            state = node.args[0]
            state.meta["val"] = seeds
            node.replace_all_uses_with(state)
            inputs[graph.find_nodes(op="placeholder").index(state)] = seeds
        graph.erase_node(node)
    module.recompile()
    return inputs


def draw_by_seeds(module):
    """Lets PyTorch draw from the seeds, as kernels do."""
    for node in module.graph.nodes:
        if node.target is prims.inductor_random.default:
            node.target = uniform_or_normal
        elif node.target is prims.inductor_randint.default:
            node.target = integers
    module.recompile()
    return module


def uniform_or_normal(size, seed, mode, *, align_dtype=None):
    first, second, *_ = words(int(seed), math.prod(size))
    result = uniform(first)
    if mode == "randn":
        radius = np.sqrt(-2 * np.log(np.maximum(np.float32(1e-7), result)))
        result = radius * np.cos(np.float32(6.283185307179586) * uniform(second))
    return torch.from_numpy(result.astype(np.float32).reshape(tuple(size)))


def integers(low, high, size, seed):
    first, second, *_ = words(int(seed), math.prod(size))
    result = (first | second << WORD) % np.uint64(high - low)
    return torch.from_numpy((result.astype(np.int64) + low).reshape(tuple(size)))


def uniform(word):
    """Floats in [0, 1) from words of 32 bits."""
    whole = word.astype(np.uint32).view(np.int32)
    whole = np.where(whole < 0, -whole - 1, whole)
    return whole.astype(np.float32) * np.float32(4.6566127342e-10)


def words(seed, count):
    """Four arrays of words of 32 bits, with a word for each offset below `count`."""
    result = [np.arange(count, dtype=np.uint64), *(np.zeros(count, np.uint64) for _ in "123")]
    keys = [seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF]
    for _ in range(ROUNDS):
        first = result[0] * np.uint64(MULTIPLIERS[0])
        second = result[2] * np.uint64(MULTIPLIERS[1])
        result = [second >> WORD ^ result[1] ^ np.uint64(keys[0]), second & LOW,
                  first >> WORD ^ result[3] ^ np.uint64(keys[1]), first & LOW]
        keys = [key + step & 0xFFFFFFFF for key, step in zip(keys, KEY_STEPS)]
    return result
