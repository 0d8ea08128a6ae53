"""Reasons for intentional differences from PyTorch's results: for an entry, a kind, devices and
dtypes, and for no others."""

from collections import namedtuple

Reason = namedtuple("Reason", "entry kind devices dtypes why")

ALL = ("cpu", "cuda", "wgpu")

REASONS = [
    Reason("__rdiv__", "wrong gradient", ALL, ("bf16",), "a sum of infinite parts of both signs: PyTorch multiplies by a reciprocal, and sums before"),
    Reason("cdist", "wrong gradient", ALL, ("f32",), "distances by a matrix product, as asked for: both lose digits where points are near, each others"),
    Reason(
        "nn.functional.scaled_dot_product_attention",
        "wrong gradient",
        ALL,
        ("bf16",),
        "the backward pass reads the output in bfloat16, as that of FlashAttention does (Dao et al. 2022, algorithm 4)",
    ),
    Reason(
        "nn.functional.scaled_dot_product_attention",
        "wrong gradient",
        ("wgpu",),
        ("f32",),
        "the gradient of a probability minus the mean of its row cancels digits: PyTorch's float32 is 3e-6 from the exact gradient, this 7e-6",
    ),
]


def reason_of(entry, kind, device, dtype):
    """Returns why samples of this entry, device and dtype are wrong in this way, or None if no
    reason is listed."""
    fits = (each.why for each in REASONS if (each.entry, each.kind) == (entry, kind) and device in each.devices and dtype in each.dtypes)
    return next(fits, None)
