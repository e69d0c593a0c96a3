"""Results of packages beside those of eager PyTorch, and a record of how far apart they were."""

import json
import os
import warnings

import numpy as np
import torch

import models


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


class Errors:
    """Of results of one case: `all` as norms of differences, of the norm that is right; `one` the
    largest difference, of the largest value. NaN is infinitely wrong."""

    def __init__(self, case):
        self.case, self.all, self.one = case, [], []

    def add(self, got, right):
        got, right = got.double(), right.double()
        difference = (got - right).nan_to_num(float("inf")).abs()
        self.all.append(float(difference.norm()) / (float(right.norm()) or 1.0))
        self.one.append(float(difference.max()) / (float(right.abs().max()) or 1.0))

    def add_picks(self, got, right):
        """How much less than the best is what an argmax picked."""
        right = right.double()
        best, picked = right.amax(-1), right.gather(-1, got.long()[..., None])[..., 0]
        self.one.append(float((best - picked).max()) / float(right.abs().max()))

    def add_outputs(self, got, right):
        """Of each output by name, which `got` has as arrays and `right` as tensors."""
        for name, tensor in right.items():
            found = tensor_of(got[name], tensor)
            if name in self.case.picks:
                self.add_picks(found, right[self.case.picks[name]])
            else:
                self.add(found, tensor)

    def too_large(self):
        """Those beyond the tolerances."""
        of_all = models.TOLERANCES[self.case.dtype]
        of_one = models.TOLERANCES_OF_ONE[self.case.dtype]
        return ([error for error in self.all if not error <= of_all]
                + [error for error in self.one if not error <= of_one])


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
            "error": max(errors.all), "error_of_one": max(errors.one),
            "mismatches": len(errors.too_large()), **more}
    with open(path, "a") as file:
        file.write(json.dumps(line) + "\n")
