"""Messages of the framework use Python's names. Parts of an error that differ in Rust are replaced,
but words of the user are not."""

import pytest
from devices import other_device

import ternion

# Calls, the type of the exception, and the complete message of each.
CALLS = """
m.zeros(2, dtype=m.uint8) + 300 | ValueError | add: 300 does not fit uint8
m.tensor([1]).fill_(0.5) | ValueError | fill: 0.5 is not an integer, tensor is int64
m.tensor(300, dtype=m.uint8) | ValueError | tensor: the number 300 does not fit uint8
m.arange(0, 300, dtype=m.uint8) | ValueError | arange: from 0 to 300 by 1: not all numbers fit uint8
m.randint(0, 300, (2,), dtype=m.uint8) | ValueError | randint: 0..300 does not fit uint8
m.randperm(2**33) | ValueError | randperm: 8589934592 numbers, at most 2147483647 fit int32
m.addmm(i, i, i, alpha=0.5) | ValueError | addmm: alpha 0.5 for operands of int64, expected an integer
m.rand(2, dtype=m.int64) | TypeError | rand: output is int64, expected a floating dtype
i.requires_grad_() | TypeError | requires_grad_: tensor is int64, expected a floating dtype
x.gather(1, x.half()) | TypeError | gather: index is float16, expected int32 or int64: index.long() makes it one
x.masked_fill(x, 1.0) | TypeError | masked_fill: mask is float32, expected bool
x[x.half()] | TypeError | index: tensor is float16, expected int32, int64 or bool
F.scaled_dot_product_attention(q, q, q, attn_mask=i) | TypeError | scaled_dot_product_attention: mask is int64, expected bool or the query's dtype
m.einsum("ij,jk->ik", x, x.double()) | TypeError | einsum: dtypes float32 and float64 differ; cast one of them with .to(dtype)
m.cat([x, x[0]]) | ValueError | cat: expected 2 axes, got shape [2]
(x * w).backward() | RuntimeError | backward: of shape [2, 2]: only a single element has a gradient by itself; reduce it, or give backward() a gradient
m.autograd.grad((x * w).sum(), x) | RuntimeError | backward: no gradient flows to input 0: call requires_grad_() on it before it is used
m.autograd.grad((x * w).sum(), v) | RuntimeError | backward: the outputs do not depend on input 0 of shape [2, 2]; allow_unused=True gives None for it
hooked(w).sum().backward() | RuntimeError | backward: a hook turned a gradient of shape [2, 2] float32 into [2, 2] float64
m.einsum("u8, i8 -> i64", x, x) | ValueError | einsum: "u8, i8 -> i64": '8' is not a letter
m.ones(2, device="f32") | RuntimeError | device f32: no such device; expected auto, cpu, cuda, cuda:INDEX, wgpu or wgpu:ADAPTER
"""


def hooked(tensor):
    """Returns a product with `tensor`. A hook changes the dtype of its gradient."""
    product = tensor * 1.0
    product.register_hook(lambda grad: grad.double())
    return product


@pytest.mark.parametrize("case", [line for line in CALLS.splitlines() if line])
def test_messages_are_in_the_names_of_python(case):
    call, kind, message = case.split(" | ")
    names = {
        "m": ternion,
        "F": ternion.nn.functional,
        "hooked": hooked,
        "x": ternion.ones(2, 2),
        "i": ternion.ones(2, 2, dtype=ternion.int64),
        "q": ternion.ones(1, 1, 2, 2),
        "w": ternion.ones(2, 2, requires_grad=True),
        "v": ternion.ones(2, 2, requires_grad=True),
    }
    with pytest.raises(Exception) as raised:
        eval(call, names)
    assert (type(raised.value).__name__, str(raised.value)) == (kind, message)


def test_tensors_of_two_devices():
    other = other_device()
    message = f"matmul: tensors on cpu and {other}(:0)?; move one of them with .to\\(device\\)"
    with pytest.raises(ValueError, match=message):
        ternion.ones(2, 2).matmul(ternion.ones(2, 2, device=other))


def test_errors_of_rust_say_which_op_they_are_of():
    with pytest.raises(ValueError, match=r"^matmul: ") as raised:
        ternion.Tensor.matmul(ternion.ones(2, 3), ternion.ones(2, 3))
    assert raised.value._op == "matmul"
