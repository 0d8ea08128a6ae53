"""`compare_devices`: a function on two devices, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._scopes import enable_grad
from .._ternion import Tensor, _trust, device as _device, tensor
from ._agreement import Item, compare, must_say_something, nudged, tensors_given, tensors_within


def values_of(value: Tensor) -> tuple[str, np.ndarray]:
    """The name of the dtype, and the elements on the host."""
    name = str(value.dtype).split(".")[-1]
    host = value.detach().cpu()
    return name, (host.double() if host.is_floating_point() else host).numpy().astype(np.float64 if host.is_floating_point() else np.int64)


def weights_for(output: Tensor, rng: np.random.Generator) -> Tensor:
    """Random weights of an output's elements: those of its gradient."""
    return tensor(rng.uniform(-1.0, 1.0, size=output.shape)).to(output.dtype).to(output.device)


def compare_devices(function: Any, inputs: Any, devices: Any = ("cpu", "cuda"), seed: int = 0) -> int:
    """That `function` gives the same on two devices, forward and backward.

    Compared are the outputs, then the gradients of all floating inputs under the same random weights, element by element. The first device is the reference. A difference
    is allowed relative to the element (1e-4 in float32, 1e-10 in float64, two units of rounding in halves), some units of rounding relative to the root mean square of the
    tensor, and, if that is not enough, 16 times what moving every input by one unit of rounding changes. So `function` may run several times, and must give the same each time.

    Args:
        function: of tensors; gives a tensor, or tuples, lists and dicts of them.
        inputs: a tensor, or a tuple of arguments; tensors go to each device.
        devices: the reference, and the device that is tested; or that one alone, for which the processor is the reference.
        seed: of the random weights.

    Returns:
        how many elements were compared.

    Raises:
        AssertionError: the first output or gradient that differs, where, and both numbers.
        ValueError: nothing was compared, a function that does not repeat itself, or other than two devices.
        TypeError: no function, or no tensor among what it takes and gives.
        RuntimeError: a device is not there.
    """
    reference, tested = _two(devices)
    tensors, rebuild = tensors_within(function, inputs, "compare_devices")

    def run(where, rng=None):
        return _computed(function, tensors, rebuild, where, seed, rng)

    first, second = run(tested), run(reference)
    if len(first) != len(second):
        raise AssertionError(f"compare_devices: {len(first)} outputs and gradients on {tested}, {len(second)} on {reference}")
    compared = compare(first, second, (str(tested), str(reference)), lambda rng: run(reference, rng))
    must_say_something(second, "compare_devices")
    return compared


def _two(devices):
    """The reference, and the device that is tested."""
    if not isinstance(devices, (tuple, list)):
        tested = _device(devices)
        if tested.type == "cpu":
            raise ValueError("compare_devices: device cpu alone, which is the reference itself: name another, or two")
        return _device("cpu"), tested
    if len(devices) != 2:
        raise ValueError(f"compare_devices: {len(devices)} devices, expected two, the reference first, or the one that is tested")
    return _device(devices[0]), _device(devices[1])


def _computed(function, tensors, rebuild, where, seed, rng) -> list[Item]:
    """Outputs, then the gradients of floating inputs, on a device; with `rng` of inputs that are nudged."""
    leaves = [_leaf(value, where, rng) for value in tensors]
    with enable_grad():
        outputs = tensors_given(function(*rebuild(leaves)), "compare_devices")
    items: list[Item] = [(f"output {number}", *values_of(output)) for number, output in enumerate(outputs)]
    roots = [output for output in outputs if output.requires_grad]
    draw = np.random.default_rng(seed % 2**64)
    asking = [leaf for leaf in leaves if leaf.requires_grad]
    found = iter(_trust.grad(roots, asking, [weights_for(root, draw) for root in roots], False, False))
    for number, leaf in enumerate(leaves):
        if leaf.requires_grad:
            grad = next(found)
            name = f"gradient of input {number}"
            items.append((name, "none", None) if grad is None else (name, *values_of(grad)))
    return items


def _leaf(value, where, rng):
    moved = value.detach()
    if rng is not None and moved.is_floating_point():
        name, values = values_of(moved)
        moved = tensor(nudged(values, name, rng)).to(moved.dtype)
    moved = moved.to(where)
    # A tensor of its own, which asks for a gradient without the caller's being changed.
    return moved.detach().requires_grad_() if moved.is_floating_point() else moved
