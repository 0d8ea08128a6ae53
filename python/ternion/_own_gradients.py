"""Functions with user-defined gradients: `autograd.Function`."""

from __future__ import annotations

from typing import Any

from . import _ternion
from ._scopes import no_grad
from ._ternion import Tensor, _trust, is_grad_enabled

__all__ = ["Function", "FunctionCtx"]


class FunctionCtx:
    """The context of a `Function`: passes data from `forward` to `backward`. Both may set
    attributes on it.
    """

    #: For each argument, whether it requires a gradient.
    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._to_save: tuple[Any, ...] = ()
        self._saved: tuple[Tensor | None, ...] | None = None
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Saves tensors for `backward`, which raises an error if they were changed in place in the
        meantime.

        Raises:
            TypeError: If an argument is neither a tensor nor None.
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"save_for_backward: expected tensors or None, got {type(tensor).__name__}; set other things as attributes of ctx")
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """The saved tensors, in the order in which they were given. They are part of the graph for
        double backward.

        Raises:
            RuntimeError: If it is used outside of `backward`.
        """
        if self._saved is None:
            raise RuntimeError("saved_tensors: available only in backward")
        return self._saved

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """Marks outputs that do not require gradients."""
        self._constant = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Sets whether `backward` gets zeros, rather than None, for outputs without a gradient."""
        self._materialize = value

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Not supported: arguments cannot be changed in place.

        Raises:
            ValueError: Always.
        """
        raise ValueError("mark_dirty: a Function changes none of its arguments in place: return a new tensor")


class Function:
    """A function with a custom gradient. Subclasses define the static methods `forward` and
    `backward`, and are called by `apply`.

    `forward(ctx, *args)` computes the outputs; its ops are not recorded. Alternatively
    `forward(*args)` computes them, and `setup_context(ctx, inputs, output)` saves what is needed.
    `backward(ctx, *grads)` gets a gradient for each output and returns one for each argument, None
    for those that are not tensors or need none. It is itself recorded for double backward.

    ```python
    class Exp(ternion.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, grad):
            (y,) = ctx.saved_tensors
            return grad * y

    y = Exp.apply(x)
    ```
    """

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Computes the output, a tensor or a tuple.

        Raises:
            NotImplementedError: If a subclass does not define it.
        """
        raise NotImplementedError("forward: a Function needs this static method")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Saves in `ctx` what `backward` needs, for a `forward` without `ctx`."""
        raise NotImplementedError("setup_context: a subclass may have this static method")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """Returns the gradients of the arguments.

        Raises:
            NotImplementedError: If a subclass does not define it.
        """
        raise NotImplementedError("backward: a Function needs this static method")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Calls `forward` with these arguments, and records the gradient.

        Raises:
            RuntimeError: In the backward pass, if the number of gradients differs from that of the
                arguments, or if there is a gradient for an argument that is not a tensor.
            ValueError: In the backward pass, if the shape of a gradient does not match its
                argument.
        """
        ctx = FunctionCtx()
        flows = is_grad_enabled()
        ctx.needs_input_grad = tuple(flows and isinstance(value, Tensor) and value.requires_grad for value in args)
        with no_grad():
            if cls.setup_context is Function.setup_context:
                output = cls.forward(ctx, *args)
            else:
                output = cls.forward(*args)
                cls.setup_context(ctx, args, output)
        if not any(ctx.needs_input_grad):
            return output
        outputs = output if isinstance(output, tuple) else (output,)
        recorded = _record_outputs(cls, ctx, args, outputs)
        return recorded if isinstance(output, tuple) else recorded[0]


def _record_outputs(cls: Any, ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Returns the outputs with `backward` as their gradient rule."""
    indices = [index for index, value in enumerate(outputs) if _is_differentiable(value) and not _is_any_of(value, ctx._constant)]
    tensors = [value for value in args if isinstance(value, Tensor)]
    chosen = [outputs[index] for index in indices]
    rule = _Rule(cls, ctx, args, outputs, indices)
    # A saved tensor that is an output is represented by its index: otherwise the graph would
    # reference itself.
    saved = [_index_or_tensor(value, chosen) for value in ctx._to_save if value is not None]
    recorded = iter(_trust.with_gradient(f"{cls.__name__}Backward", tensors, chosen, saved, rule))
    # From here on the graph owns them.
    ctx._to_save, ctx._constant = (), ()
    return tuple(next(recorded) if index in indices else value for index, value in enumerate(outputs))


def _is_differentiable(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _is_any_of(value: Any, others: Any) -> bool:
    return any(value is other for other in others)


def _index_or_tensor(value: Tensor, outputs: list[Tensor]) -> Any:
    return next((index for index, output in enumerate(outputs) if output is value), value)


class _Rule:
    """Calls `backward` of a class, and checks its result."""

    def __init__(self, cls: Any, ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...], output_indices: list[int]) -> None:
        self.cls, self.ctx, self.output_indices = cls, ctx, output_indices
        self.input_specs = [(value.shape, value.dtype) if isinstance(value, Tensor) else None for value in args]
        self.is_saved = tuple(value is not None for value in ctx._to_save)
        self.outputs = [(value.shape, value.dtype, value.device) if isinstance(value, Tensor) else None for value in outputs]

    def __call__(self, grads: list[Tensor | None], saved: list[Tensor]) -> list[Tensor | None]:
        by_output = dict(zip(self.output_indices, grads))
        grad_outputs = [self._grad_or_zeros(spec, by_output.get(index)) for index, spec in enumerate(self.outputs)]
        remaining = iter(saved)
        self.ctx._saved = tuple(next(remaining) if is_saved else None for is_saved in self.is_saved)
        try:
            results = self.cls.backward(self.ctx, *grad_outputs)
        finally:
            self.ctx._saved = None
        return self._check_grads(results if isinstance(results, (tuple, list)) else (results,))

    def _grad_or_zeros(self, spec: Any, grad: Tensor | None) -> Tensor | None:
        """Returns the gradient of an output, or zeros."""
        if grad is not None or spec is None or not self.ctx._materialize:
            return grad
        shape, dtype, device = spec
        return _ternion.zeros(shape, dtype=dtype, device=device)

    def _check_grads(self, results: Any) -> list[Tensor | None]:
        name = self.cls.__name__
        expected = len(self.input_specs)
        if len(results) < expected or any(result is not None for result in results[expected:]):
            raise RuntimeError(f"{name}.backward returned {len(results)} gradients, expected {expected}, one for each argument of forward")
        checked: list[Tensor | None] = []
        for index, (spec, result) in enumerate(zip(self.input_specs, results)):
            if spec is not None:
                checked.append(None if result is None else self._match_input(index, result, *spec))
            elif result is not None:
                raise RuntimeError(f"{name}.backward returned a gradient for argument {index}, which is not a tensor; expected None")
        return checked

    def _match_input(self, index: int, grad: Any, shape: Any, dtype: Any) -> Tensor | None:
        """Returns the gradient in the dtype of its argument, summed over axes along which the
        argument was broadcast.
        """
        name = self.cls.__name__
        if not isinstance(grad, Tensor):
            raise TypeError(f"{name}.backward returned {type(grad).__name__} for argument {index}, expected a tensor or None")
        if not self.ctx.needs_input_grad[index]:
            return None
        if grad.shape != shape:
            try:
                grad = grad.sum_to_size(shape)
            except ValueError:
                message = f"{name}.backward returned a gradient of shape {list(grad.shape)} for argument {index}, which has shape {list(shape)}"
                raise ValueError(message) from None
        return grad if grad.dtype == dtype else grad.to(dtype)
