"""`compare_devices`: runs a function on two devices, forward and backward."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._scopes import enable_grad
from .._ternion import Tensor, _trust, device as _device, tensor
from ._agreement import Item, compare, input_tensors, output_tensors, perturbed, require_comparable


def values_of(value: Tensor) -> tuple[str, np.ndarray]:
    """Returns the name of the dtype, and the elements on the host."""
    name = str(value.dtype).split(".")[-1]
    host = value.detach().cpu()
    return name, (host.double() if host.is_floating_point() else host).numpy().astype(np.float64 if host.is_floating_point() else np.int64)


def weights_for(output: Tensor, rng: np.random.Generator) -> Tensor:
    """Returns random weights for the elements of an output: the cotangent."""
    return tensor(rng.uniform(-1.0, 1.0, size=output.shape)).to(output.dtype).to(output.device)


def compare_devices(function: Any, inputs: Any, devices: Any = ("cpu", "cuda"), seed: int = 0) -> int:
    """Checks that `function` gives the same results on two devices, forward and backward.

    The outputs are compared elementwise, then the gradients of all floating-point inputs for the
    same random cotangents. The first device is the reference.

    The tolerance is relative to the element (1e-4 for float32, 1e-10 for float64, two machine
    epsilons for half precision), plus some machine epsilons relative to the root mean square of the
    tensor. If a difference exceeds it, 16 times the change that a perturbation of every input by
    one machine epsilon causes is allowed in addition. Therefore `function` may run several times,
    and must be deterministic.

    Args:
        function: A function of tensors that returns a tensor, or tuples, lists and dicts of
            tensors.
        inputs: A tensor, or a tuple of arguments. Tensors are copied to each device.
        devices: The reference and the tested device; or only the tested device, in which case the
            CPU is the reference.
        seed: The seed of the random weights.

    Returns:
        The number of compared elements.

    Raises:
        AssertionError: If an output or a gradient differs. The message names the first one, the
            index and both values.
        ValueError: If nothing was compared, if the function is not deterministic, or if there are
            not two devices.
        TypeError: If `function` is not callable, or if there is no tensor among its inputs or
            outputs.
        RuntimeError: If a device is not available.
    """
    reference, tested = _device_pair(devices)
    tensors, rebuild = input_tensors(function, inputs, "compare_devices")

    def run(device, rng=None):
        return _compute(function, tensors, rebuild, device, seed, rng)

    first, second = run(tested), run(reference)
    if len(first) != len(second):
        raise AssertionError(f"compare_devices: {len(first)} outputs and gradients on {tested}, {len(second)} on {reference}")
    compared = compare(first, second, (str(tested), str(reference)), lambda rng: run(reference, rng))
    require_comparable(second, "compare_devices")
    return compared


def _device_pair(devices):
    """Returns the reference and the tested device."""
    if not isinstance(devices, (tuple, list)):
        tested = _device(devices)
        if tested.type == "cpu":
            raise ValueError("compare_devices: only device cpu, which is the reference itself: name another, or two")
        return _device("cpu"), tested
    if len(devices) != 2:
        raise ValueError(f"compare_devices: {len(devices)} devices, expected two, the reference first, or the one that is tested")
    return _device(devices[0]), _device(devices[1])


def _compute(function, tensors, rebuild, device, seed, rng) -> list[Item]:
    """Returns the outputs, then the gradients of floating-point inputs, on a device. With `rng`,
    the inputs are perturbed.
    """
    leaves = [_leaf(value, device, rng) for value in tensors]
    with enable_grad():
        outputs = output_tensors(function(*rebuild(leaves)), "compare_devices")
    items: list[Item] = [(f"output {number}", *values_of(output)) for number, output in enumerate(outputs)]
    roots = [output for output in outputs if output.requires_grad]
    draw = np.random.default_rng(seed % 2**64)
    grad_leaves = [leaf for leaf in leaves if leaf.requires_grad]
    grads = iter(_trust.grad(roots, grad_leaves, [weights_for(root, draw) for root in roots], False, False))
    for number, leaf in enumerate(leaves):
        if leaf.requires_grad:
            grad = next(grads)
            name = f"gradient of input {number}"
            items.append((name, "none", None) if grad is None else (name, *values_of(grad)))
    return items


def _leaf(value, device, rng):
    leaf = value.detach()
    if rng is not None and leaf.is_floating_point():
        name, values = values_of(leaf)
        leaf = tensor(perturbed(values, name, rng)).to(leaf.dtype)
    leaf = leaf.to(device)
    # A separate tensor that requires a gradient, so that the caller's tensor is not changed.
    return leaf.detach().requires_grad_() if leaf.is_floating_point() else leaf
