"""`gradcheck`: gradients against central differences."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import _tree
from .._scopes import enable_grad, no_grad
from .._ternion import Tensor, _trust, float64, tensor


class GradcheckError(RuntimeError):
    """A gradient is not that of its function."""


def gradcheck(
    function: Any, inputs: Any, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3, raise_exception: bool = True,
    nondet_tol: float = 0.0,
) -> bool:  # fmt: skip
    """Whether the gradient of `function` at `inputs` is that of central differences, for each output and each input that asks for a gradient.

    Every partial derivative is compared: `|analytical - numerical| <= atol + rtol * |numerical|`. Inputs keep their strides, so that gradients of views are checked, too.

    Args:
        function: of tensors; gives a tensor, or tuples, lists and dicts of them. Outputs that no gradient flows to are left out.
        inputs: a tensor or a tuple of arguments; those that ask for a gradient are float64.
        eps: how far elements are moved to either side.
        nondet_tol: by how much a gradient may differ when the function is called again.

    Raises:
        GradcheckError: a derivative is another, and which one; the function is not the same when it is called again. With `raise_exception=False` the result is False.
        ValueError: no input asks for a gradient, or none of the outputs depends on one.
        TypeError: an input that asks for one is not float64.
    """
    arguments = tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    tensors, rebuild = _tree.flatten(arguments)
    asking = [number for number, value in enumerate(tensors) if value.requires_grad]
    if not asking:
        raise ValueError("gradcheck: no input asks for a gradient: requires_grad_() at least one")
    for number in asking:
        if tensors[number].dtype != float64:
            raise TypeError(f"gradcheck: input {number} is {tensors[number].dtype}, expected float64: differences of narrower types show nothing")
    checked = _Checked(function, rebuild, tensors, eps)
    try:
        for number in asking:
            checked.check(number, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


class _Checked:
    """A function at a point."""

    def __init__(self, function, rebuild, tensors, eps):
        self._function, self._rebuild, self._tensors, self._eps = function, rebuild, tensors, eps
        self._outputs = self._run()
        if not self._outputs:
            raise ValueError("gradcheck: no output depends on an input that asks for a gradient")
        for number, output in enumerate(self._outputs):
            if output.dtype != float64:
                raise TypeError(f"gradcheck: output {number} is {output.dtype}, expected float64")
        # All of them before elements are moved, which changes what the graphs have saved. Twice, of two calls of the function.
        asking = [number for number, value in enumerate(tensors) if value.requires_grad]
        second = self._run()
        self._found = {number: (self._analytical(self._outputs, number), self._analytical(second, number)) for number in asking}

    def _run(self):
        """The outputs that a gradient flows to."""
        with enable_grad():
            outputs, _ = _tree.flatten(self._function(*self._rebuild(self._tensors)))
        return [output for output in outputs if output.requires_grad]

    def check(self, number, atol, rtol, nondet_tol):
        found, again = self._found[number]
        wanted = self._numerical(number)
        for output, (first, second, want) in enumerate(zip(found, again, wanted)):
            if first.size and not np.abs(first - second).max() <= nondet_tol:
                told = f"the gradient of output {output} for input {number} is another when it is formed again: by {np.abs(first - second).max():g}"
                raise GradcheckError(f"gradcheck: {told}")
            self._compare(output, number, first, want, atol, rtol)

    def _analytical(self, outputs, number):
        """For each output its Jacobian, [elements of the output, elements of the input]: a row for each vector-Jacobian product."""
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
        """The same by differences: a column for each element that is moved."""
        point = self._tensors[number]
        sizes = [output.numel() for output in self._outputs]
        tables = [np.zeros((size, point.numel())) for size in sizes]
        for column, at in enumerate(np.ndindex(*point.shape)):
            high, low = self._moved(point, at, self._eps), self._moved(point, at, -self._eps)
            for table, up, down in zip(tables, high, low):
                table[:, column] = (up - down) / (2 * self._eps)
        return tables

    def _moved(self, point, at, by):
        """The outputs with one element moved, in its place: views keep their strides."""
        # Of what asks for a gradient, the memory is changed, and changed back.
        memory = point.detach()
        before = memory[at].item()
        try:
            with no_grad():
                memory[at] = before + by
            outputs = self._run()
        finally:
            with no_grad():
                memory[at] = before
        return [_flat(output) for output in outputs]

    def _compare(self, output, number, found, want, atol, rtol):
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(found - want) <= atol + rtol * np.abs(want))
        if not wrong.any():
            return
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        of = np.unravel_index(row, self._outputs[output].shape)
        by = np.unravel_index(column, self._tensors[number].shape)
        raise GradcheckError(
            f"gradcheck: Jacobian mismatch for output {output} with respect to input {number}: {int(wrong.sum())} of {wrong.size} derivatives differ; "
            f"first that of output{_index(of)} by input{_index(by)}: numerical {want[row, column]:.9g}, analytical {found[row, column]:.9g}"
        )


def _index(at):
    return f"[{', '.join(str(int(number)) for number in at)}]" if len(at) else ""


def _flat(value: Tensor) -> np.ndarray:
    return value.detach().cpu().reshape(-1).numpy()
