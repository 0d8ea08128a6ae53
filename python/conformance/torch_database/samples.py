"""The samples of an entry: all of them, or a fixed selection."""

import random

import numpy as np
import torch

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i64": torch.int64, "bool": torch.bool}

# How many samples of each dtype, and how many calls that must fail, the reduced run selects per
# entry.
CHOSEN = {"f32": 12, "f64": 4, "bf16": 6, "i64": 6, "bool": 4, "error": 6}


class NoSamples(Exception):
    """The samples of an entry in a dtype cannot be created on this machine. The entry is listed
    with the error."""


def _seed():
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def samples_of(entry, short, count=None):
    """Returns the sample inputs of an entry in a dtype, by number: all, or `count` of them, evenly
    spaced. Raises NoSamples if they cannot be created."""
    dtype = DTYPES[short]
    if dtype not in entry.dtypes:
        return {}
    _seed()
    with_gradients = entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")
    try:
        result = list(entry.sample_inputs("cpu", dtype, requires_grad=with_gradients))
    except Exception as error:  # Some samples need something that this machine lacks.
        raise NoSamples(f"{type(error).__name__}: {error}") from None
    return {number: result[number] for number in chosen(len(result), count)}


def errors_of(entry, count=None):
    """Returns the calls of an entry that must raise an error."""
    if entry.error_inputs_func is None:
        return {}
    _seed()
    result = list(entry.error_inputs("cpu"))
    return {number: result[number] for number in chosen(len(result), count)}


def chosen(total, count):
    """Returns which of `total` numbers a run selects: all, or `count` of them, evenly spaced,
    including the first and the last."""
    if count is None or total <= count:
        return list(range(total))
    return sorted({round(step * (total - 1) / max(count - 1, 1)) for step in range(count)})


def described(sample):
    """Returns a short description of the arguments of a sample."""
    parts = [_described(value) for value in (sample.input, *sample.args)]
    parts += [f"{key}={_described(value)}" for key, value in sample.kwargs.items()]
    text = ", ".join(parts)
    return text if len(text) <= 200 else text[:197] + "..."


def _described(value):
    if isinstance(value, torch.Tensor):
        name = str(value.dtype).rpartition(".")[2]
        return f"{name}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        inner = ", ".join(_described(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)
