"""`gradcheck` and `gradgradcheck`: first and second derivatives against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _tree
from .._scopes import enable_grad, no_grad
from .._ternion import Tensor, _trust, float64, tensor
from ._agreement import input_tensors, output_tensors


class GradcheckError(RuntimeError):
    """A gradient does not match its function."""


def gradcheck(
    func: Any, inputs: Any, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0,
    check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False, check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None,
) -> bool:  # fmt: skip
    """Checks the gradient of `func` at `inputs` against central differences, for each output and
    each input that requires a gradient.

    Every partial derivative is compared: `|analytical - numerical| <= atol + rtol * |numerical|`.
    Inputs keep their strides, so that gradients of views are checked, too.

    Args:
        func: A function of tensors that returns a tensor, or tuples, lists and dicts of tensors.
            Outputs that do not require gradients are ignored.
        inputs: A tensor or a tuple of arguments. Those that require gradients must be float64.
        eps: The perturbation of an element to either side.
        nondet_tol: The tolerance for the difference between the gradients of two calls.
        check_undefined_grad, check_grad_dtypes, fast_mode, masked: Accepted for compatibility with
            PyTorch. All derivatives are always compared, one by one.
        check_batched_grad, check_batched_forward_grad, check_forward_ad: Not supported: True raises
            an error, as does `check_backward_ad=False`.

    Raises:
        GradcheckError: If a derivative differs or is NaN (the message names it), if an output is
            NaN, or if the function is not deterministic. With `raise_exception=False`, False is
            returned instead.
        ValueError: If no input requires a gradient, if no output depends on such an input, if
            elements of an input share memory, if `eps` is not positive, or if a check is not
            supported.
        TypeError: If an input that requires a gradient is not float64, if `func` is not callable,
            or if there is no tensor among its inputs or outputs.
    """
    unsupported = dict(check_batched_grad=check_batched_grad, check_batched_forward_grad=check_batched_forward_grad, check_forward_ad=check_forward_ad)
    _reject_unsupported("gradcheck", unsupported, check_backward_ad=check_backward_ad)
    if not eps > 0:
        raise ValueError(f"gradcheck: eps {eps}, expected a number above 0")
    tensors, rebuild = input_tensors(func, inputs, "gradcheck")
    grad_indices = [index for index, value in enumerate(tensors) if value.requires_grad]
    if not grad_indices:
        raise ValueError("gradcheck: no input requires a gradient: requires_grad_() at least one")
    for index in grad_indices:
        if tensors[index].dtype != float64:
            raise TypeError(f"gradcheck: input {index} is {tensors[index].dtype}, expected float64: differences of narrower types show nothing")
        if any(size > 1 and step == 0 for size, step in zip(tensors[index].shape, tensors[index].stride())):
            raise ValueError(f"gradcheck: input {index} has elements that share memory (strides {tensors[index].stride()}): give a copy, x.contiguous()")
    checked = _CheckedFunction(func, rebuild, tensors, eps)
    try:
        checked.check_values(nondet_tol)
        for index in grad_indices:
            checked.check(index, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Any, inputs: Any, grad_outputs: Any = None, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True, nondet_tol: float = 0.0, check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False, check_batched_grad: bool = False, check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True,
    fast_mode: bool = False, masked: bool | None = False,
) -> bool:  # fmt: skip
    """Like `gradcheck`, for the gradients of `func` as a function of its inputs and of the
    cotangents of its outputs.

    Args:
        func: A function of tensors that returns a tensor, or tuples, lists and dicts of tensors.
        inputs: A tensor or a tuple of arguments. Those that require gradients must be float64.
        grad_outputs: The cotangents of the outputs that require gradients. Default: random, the
            same in each call.
        gen_non_contig_grad_outputs: Whether the random cotangents have a stride of 2.
        check_batched_grad, check_fwd_over_rev: Not supported: True raises an error, as does
            `check_rev_over_rev=False`.

    Raises:
        GradcheckError: If a derivative differs; see `gradcheck`.
        ValueError: As in `gradcheck`; also if the number of cotangents differs from that of the
            outputs.
        TypeError: As in `gradcheck`.
    """
    _reject_unsupported("gradgradcheck", dict(check_batched_grad=check_batched_grad, check_fwd_over_rev=check_fwd_over_rev), check_rev_over_rev=check_rev_over_rev)
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    input_tensors(func, arguments, "gradgradcheck")
    outputs = _differentiable(func, arguments, "gradgradcheck")
    if grad_outputs is None:
        draw = np.random.default_rng(0)
        weights = [_weights_of(output, draw, gen_non_contig_grad_outputs) for output in outputs]
    else:
        weights = list(grad_outputs) if isinstance(grad_outputs, (tuple, list)) else [grad_outputs]
    if len(weights) != len(outputs):
        raise ValueError(f"gradgradcheck: {len(weights)} grad_outputs for {len(outputs)} outputs that a gradient flows to")

    def gradients(*values: Any) -> tuple[Tensor, ...]:
        func_arguments, weights = values[: len(arguments)], list(values[len(arguments) :])
        grad_inputs = [value for value in _tree.flatten(func_arguments)[0] if value.requires_grad]
        grads = _trust.grad(_differentiable(func, func_arguments, "gradgradcheck"), grad_inputs, weights, True, True)
        return tuple(grad for grad in grads if grad is not None)

    try:
        return gradcheck(gradients, (*arguments, *weights), eps, atol, rtol, raise_exception, nondet_tol)
    except (GradcheckError, ValueError, TypeError) as error:
        raise type(error)(f"gradgradcheck: of the gradients: {str(error).removeprefix('gradcheck: ')}") from None


def _reject_unsupported(name: str, unsupported: dict[str, bool], **required: bool) -> None:
    """Raises an error if an unsupported check is enabled, or if a required one is disabled."""
    for setting, value in {**unsupported, **required}.items():
        if value is not (setting in required):
            raise ValueError(f"{name}: {setting}={value!r}, expected {setting in required}: gradients flow backward, one at a time")


def _differentiable(function: Any, arguments: Any, caller: str) -> list[Tensor]:
    """Returns the outputs that require gradients."""
    with enable_grad():
        outputs = [output for output in output_tensors(function(*arguments), caller) if output.requires_grad]
    if not outputs:
        raise ValueError(f"{caller}: no output depends on an input that requires a gradient, by operations that have one")
    return outputs


def _weights_of(output: Tensor, draw: Any, is_strided: bool) -> Tensor:
    """Returns a cotangent of an output that requires a gradient."""
    is_strided = is_strided and output.ndim > 0
    shape = (*output.shape[:-1], 2 * output.shape[-1]) if is_strided else tuple(output.shape)
    samples = tensor(draw.uniform(-1.0, 1.0, shape), dtype=output.dtype, device=output.device)
    return (samples[..., 1::2] if is_strided else samples).requires_grad_()


class _CheckedFunction:
    """A function at given inputs."""

    def __init__(self, function, rebuild, tensors, eps):
        self._function, self._rebuild, self._tensors, self._eps = function, rebuild, tensors, eps
        self._outputs = self._run()
        if not self._outputs:
            raise ValueError("gradcheck: no output depends on an input that requires a gradient, by operations that have one")
        for number, output in enumerate(self._outputs):
            if output.dtype != float64:
                raise TypeError(f"gradcheck: output {number} is {output.dtype}, expected float64")
        # Copies: an output may be a view of an input, which is perturbed.
        self._values = [_flat(output).copy() for output in self._outputs]
        # All gradients are computed before elements are perturbed, which changes saved tensors of
        # the graphs. They are computed twice, from two calls of the function.
        grad_indices = [number for number, value in enumerate(tensors) if value.requires_grad]
        second = self._second = self._run()
        self._jacobians = {number: (self._analytical(self._outputs, number), self._analytical(second, number)) for number in grad_indices}

    def _run(self):
        """Returns the outputs that require gradients."""
        with enable_grad():
            outputs = output_tensors(self._function(*self._rebuild(self._tensors)), "gradcheck")
        return [output for output in outputs if output.requires_grad]

    def check_values(self, nondet_tol):
        """Checks that the outputs are not NaN, and the same in a second call of the function."""
        for number, values in enumerate(self._values):
            if np.isnan(values).any():
                raise GradcheckError(f"gradcheck: output {number} is nan at output{self._element_index(number, np.isnan(values).argmax())}: nothing can be compared there")
        hint = "switch dropout off, or seed the device within the function"
        if len(self._second) != len(self._outputs):
            raise GradcheckError(f"gradcheck: the function gave {len(self._outputs)} outputs, and {len(self._second)} when it was called again: {hint}")
        for number, (first, second) in enumerate(zip(self._values, (_flat(output) for output in self._second))):
            if first.shape != second.shape:
                raise GradcheckError(f"gradcheck: output {number} has another shape when the function is called again: {hint}")
            differences = np.abs(first - second)[~((first == second) | (np.isnan(first) & np.isnan(second)))]
            if differences.size and not differences.max() <= nondet_tol:
                raise GradcheckError(f"gradcheck: output {number} is another when the function is called again, by {differences.max():g}: {hint}")

    def check(self, number, atol, rtol, nondet_tol):
        first_jacobians, second_jacobians = self._jacobians[number]
        numerical = self._numerical(number)
        for output, (first, second, want) in enumerate(zip(first_jacobians, second_jacobians, numerical)):
            if np.isnan(first).any():
                row, column = (int(index) for index in np.argwhere(np.isnan(first))[0])
                location = f"output{self._element_index(output, row)} by input{_index(np.unravel_index(column, self._tensors[number].shape))}"
                message = f"the gradient of output {output} for input {number} is nan, first that of {location}: numerical {want[row, column]:.9g}"
                raise GradcheckError(f"gradcheck: {message}")
            if first.size and not np.abs(first - second).max() <= nondet_tol:
                message = f"the gradient of output {output} for input {number} differs when it is computed again: by {np.abs(first - second).max():g}"
                raise GradcheckError(f"gradcheck: {message}")
            self._compare(output, number, first, want, atol, rtol)

    def _element_index(self, output, element):
        """Returns the index of an element of an output."""
        return _index(np.unravel_index(int(element), self._outputs[output].shape))

    def _analytical(self, outputs, number):
        """Returns the Jacobian of each output, [elements of the output, elements of the input]: one
        row for each vector-Jacobian product.
        """
        tables = []
        for output in outputs:
            rows = np.zeros((output.numel(), self._tensors[number].numel()))
            for element in range(output.numel()):
                weights = np.zeros(output.numel())
                weights[element] = 1.0
                weight = tensor(weights.reshape(output.shape), device=output.device)
                (grad,) = _trust.grad([output], [self._tensors[number]], [weight], False, True)
                if grad is not None:
                    rows[element] = _flat(grad)
            tables.append(rows)
        return tables

    def _numerical(self, number):
        """Returns the same Jacobians by central differences: one column for each perturbed element.
        """
        point = self._tensors[number]
        sizes = [output.numel() for output in self._outputs]
        tables = [np.zeros((size, point.numel())) for size in sizes]
        for column, at in enumerate(np.ndindex(*point.shape)):
            high, low = self._perturbed_outputs(point, at, self._eps), self._perturbed_outputs(point, at, -self._eps)
            for table, up, down in zip(tables, high, low):
                table[:, column] = (up - down) / (2 * self._eps)
        return tables

    def _perturbed_outputs(self, point, at, by):
        """Returns the outputs with one element changed in place: views keep their strides."""
        # For a tensor that requires a gradient, the memory is changed, and restored afterward.
        memory = point.detach()
        original = memory[at].item()
        try:
            with no_grad():
                memory[at] = original + by
            # Copies: an output may be the input itself, or a view of it, which is restored.
            return [_flat(output).copy() for output in self._run()]
        finally:
            with no_grad():
                memory[at] = original

    def _compare(self, output, number, analytical, numerical, atol, rtol):
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(analytical - numerical) <= atol + rtol * np.abs(numerical))
        if not wrong.any():
            return
        row, column = (int(index) for index in np.argwhere(wrong)[0])
        by = np.unravel_index(column, self._tensors[number].shape)
        set_gradients = ", ".join(_trust.custom_gradient_names(self._outputs))
        raise GradcheckError(
            f"gradcheck: Jacobian mismatch for output {output} with respect to input {number}: {int(wrong.sum())} of {wrong.size} derivatives differ; "
            f"first that of output{self._element_index(output, row)} by input{_index(by)}: numerical {numerical[row, column]:.9g}, analytical {analytical[row, column]:.9g}"
            + (f"; gradients that were given: that of {set_gradients}" if set_gradients else "")
        )


def _index(at):
    return f"[{', '.join(str(int(number)) for number in at)}]" if len(at) else ""


def _flat(value: Tensor) -> np.ndarray:
    return value.detach().cpu().reshape(-1).numpy()
