"""The samples of an entry: all of them, or a fixed choice."""

import random

import numpy as np
import torch

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "i64": torch.int64, "bool": torch.bool}

# How many samples of a dtype, and how many calls that must fail, the reduced run takes of an entry.
CHOSEN = {"f32": 12, "f64": 4, "bf16": 6, "i64": 6, "bool": 4, "error": 6}


class NoSamples(Exception):
    """The samples of an entry in a dtype cannot be made here: the entry is listed with the error."""


def _seed():
    torch.manual_seed(0)
    random.seed(0)
    np.random.seed(0)


def samples_of(entry, short, count=None):
    """The sample inputs of an entry in a dtype, by their numbers: all, or `count` of them, evenly apart. NoSamples if they cannot be made."""
    dtype = DTYPES[short]
    if dtype not in entry.dtypes:
        return {}
    _seed()
    with_gradients = entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")
    try:
        found = list(entry.sample_inputs("cpu", dtype, requires_grad=with_gradients))
    except Exception as error:  # Samples of some need what this machine lacks.
        raise NoSamples(f"{type(error).__name__}: {error}") from None
    return {number: found[number] for number in chosen(len(found), count)}


def errors_of(entry, count=None):
    """The calls of an entry that must be errors."""
    if entry.error_inputs_func is None:
        return {}
    _seed()
    found = list(entry.error_inputs("cpu"))
    return {number: found[number] for number in chosen(len(found), count)}


def chosen(total, count):
    """Which of `total` numbers a run takes: all, or `count` evenly apart, first and last among them."""
    if count is None or total <= count:
        return list(range(total))
    return sorted({round(step * (total - 1) / max(count - 1, 1)) for step in range(count)})


def described(sample):
    """The arguments of a sample in short."""
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
