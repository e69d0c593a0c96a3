"""Results of packages beside those of eager PyTorch, and a record of how far apart they were."""

import json
import os
import warnings

import numpy as np
import torch


def bits_of(value):
    """A tensor as the array that packages take; bfloat16 as u16. An integer as it is."""
    if not isinstance(value, torch.Tensor):
        return value
    value = value.detach().contiguous()
    if value.dtype == torch.bfloat16:
        return value.view(torch.int16).numpy().view(np.uint16).copy()
    return value.numpy().copy()


def tensor_of(array, like):
    """What bits_of gave back, as a tensor of another's type. Errors: AssertionError."""
    if like.dtype == torch.bfloat16:
        assert array.dtype == np.uint16, array.dtype
        tensor = torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    else:
        tensor = torch.from_numpy(array)
    assert (tensor.dtype, tensor.shape) == (like.dtype, like.shape), (tensor, like)
    return tensor


def error_of(got, right):
    """The largest difference, of the largest value that is right. NaN is infinitely wrong."""
    got, right = got.double(), right.double()
    difference = float((got - right).abs().max()) / (float(right.abs().max()) or 1.0)
    return difference if difference == difference else float("inf")


def error_of_picks(got, right):
    """How much less than the best is what an argmax picked, of the largest value."""
    right = right.double()
    best, picked = right.amax(-1), right.gather(-1, got.long()[..., None])[..., 0]
    return float((best - picked).max()) / float(right.abs().max())


def errors_of(case, got, right):
    """Of each output by name, which `got` has as arrays and `right` as tensors."""
    tensors = {name: tensor_of(got[name], tensor) for name, tensor in right.items()}
    return {name: error_of_picks(tensor, right[case.picks[name]]) if name in case.picks
            else error_of(tensor, right[name]) for name, tensor in tensors.items()}


def run_eagerly(case, names, sets, static, outputs):
    """Of each set the outputs by name, and the static inputs as they are in the end; they begin as
    in the first set."""
    kept = {name: value.clone() for name, value in zip(names, sets[0]) if name in static}
    results = []
    for drawn in sets:
        arguments = [kept.get(name, value) for name, value in zip(names, drawn)]
        with torch.no_grad(), warnings.catch_warnings():
            warnings.filterwarnings("ignore", "flex_attention called without")
            result = case.model(*arguments)
        result = result if isinstance(result, tuple) else (result,)
        results.append({name: value.clone() for name, value in zip(outputs, result, strict=True)})
    return results, kept


def record(case, by, sizes, errors, **more):
    """Appends a line to the file that COPPICE_TEST_RESULTS names, if it names one."""
    path = os.environ.get("COPPICE_TEST_RESULTS")
    if not path:
        return
    import triton

    line = {"torch": torch.__version__.split("+")[0], "triton": triton.__version__,
            "model": case.name, "dtype": case.dtype, "by": by, "sizes": sizes,
            "max_error": max(errors), "mismatches": sum(one > case.tolerance for one in errors),
            **more}
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")
