"""Messages of the framework in Python's names: the parts of an error that read otherwise in Rust, and the words of users, which nobody touches."""

import pytest

import ternion
from ternion import nn

# Calls, the kind of exception, and the whole message of each.
CALLS = """
m.zeros(2, dtype=m.uint8) + 300 | ValueError | add: 300 does not fit uint8
m.zeros(2, dtype=m.int32).fill_(2**40) | ValueError | fill_: 1099511627776 does not fit int32
m.arange(0, 300, dtype=m.uint8) | ValueError | arange: from 0 to 300 by 1: not all numbers fit uint8
m.randint(0, 300, (2,), dtype=m.uint8) | ValueError | randint: 0..300 does not fit uint8
x.matmul(x.double()) | TypeError | matmul: dtypes float32 and float64 differ; cast one of them with .to(dtype)
m.nn.functional.one_hot(x) | TypeError | one_hot: index is float32, expected int32 or int64
x.gather(1, x.half()) | TypeError | gather: index is float16, expected int32 or int64
m.tensor([1, 2]).requires_grad_() | RuntimeError | only tensors of floating dtypes can require gradients, got int64
(x * w).backward() | RuntimeError | backward: of shape [2, 2]: only a single element has a gradient by itself; reduce it, or give backward() a gradient
(x * w).backward(m.ones(2, 2, dtype=m.float64)) | RuntimeError | backward: gradient 0 is [2, 2] float64, its output [2, 2] float32
m.autograd.grad((x * w).sum(), x) | RuntimeError | backward: no gradient flows to input 0: call requires_grad_() on it before it is used
m.autograd.grad((x * w).sum(), v) | RuntimeError | backward: the outputs do not depend on input 0 of shape [2, 2]; allow_unused=True gives None for it
"""
