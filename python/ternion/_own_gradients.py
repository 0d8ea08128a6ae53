"""Functions whose gradients are given by their users: `autograd.Function`."""

from __future__ import annotations

from typing import Any

from . import _ternion
from ._scopes import no_grad
from ._ternion import Tensor, _trust, is_grad_enabled

__all__ = ["Function", "FunctionCtx"]


class FunctionCtx:
    """What `forward` of a `Function` leaves for `backward`, which may set attributes of its own here, too."""

    #: For each argument, whether a gradient flows to it.
    needs_input_grad: tuple[bool, ...] = ()

    def __init__(self) -> None:
        self._to_save: tuple[Any, ...] = ()
        self._saved: tuple[Tensor | None, ...] | None = None
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors, of which `backward` is told if they were changed in place meanwhile.

        Raises:
            TypeError: something else than tensors and None.
        """
        for tensor in tensors:
            if tensor is not None and not isinstance(tensor, Tensor):
                raise TypeError(f"save_for_backward: expected tensors or None, got {type(tensor).__name__}; set other things as attributes of ctx")
        self._to_save = tensors

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """What was kept, as it was given; a gradient flows to it if gradients of gradients are asked for.

        Raises:
            RuntimeError: outside of `backward`.
        """
        if self._saved is None:
            raise RuntimeError("saved_tensors: is there in backward alone")
        return self._saved

    def mark_non_differentiable(self, *outputs: Tensor) -> None:
        """No gradient flows to these outputs."""
        self._constant = outputs

    def set_materialize_grads(self, value: bool) -> None:
        """Whether `backward` is given zeros, rather than None, for outputs that nothing depends on."""
        self._materialize = value

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Not there: arguments are not changed in place.

        Raises:
            ValueError: always.
        """
        raise ValueError("mark_dirty: a Function changes none of its arguments in place: return a new tensor")


class Function:
    """A function with a gradient of its own: subclasses have static methods `forward` and `backward`, and are called by `apply`.

    `forward(ctx, *args)` computes outputs, of which nothing is recorded. Or `forward(*args)` does, and `setup_context(ctx, inputs, output)` keeps what is
    needed. `backward(ctx, *grads)` is given a gradient for each output and returns one for each argument, None for those that are no tensors or
    need none. It is recorded itself where gradients of gradients are asked for.

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
            NotImplementedError: unless a subclass has it.
        """
        raise NotImplementedError("forward: a Function needs this static method")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        """Keeps in `ctx` what `backward` needs, for a `forward` that has no `ctx`."""
        raise NotImplementedError("setup_context: a subclass may have this static method")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> Any:
        """The gradients of the arguments.

        Raises:
            NotImplementedError: unless a subclass has it.
        """
        raise NotImplementedError("backward: a Function needs this static method")

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """What `forward` gives for these arguments, of which tensors may be trained.

        Raises:
            RuntimeError: in the backward pass: another number of gradients than of arguments, or a gradient for what is no tensor.
            ValueError: in the backward pass: a gradient of another shape than its argument.
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
        recorded = _recorded(cls, ctx, args, outputs)
        return recorded if isinstance(output, tuple) else recorded[0]


def _recorded(cls: Any, ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The outputs, to which a gradient flows by `backward`."""
    numbers = [number for number, value in enumerate(outputs) if _is_trained(value) and not _is_among(value, ctx._constant)]
    tensors = [value for value in args if isinstance(value, Tensor)]
    chosen = [outputs[number] for number in numbers]
    rule = _Rule(cls, ctx, args, outputs, numbers)
    # A tensor that is an output is named by its number: the graph would hold itself.
    saved = [_place(value, chosen) for value in ctx._to_save if value is not None]
    found = iter(_trust.with_gradient(f"{cls.__name__}Backward", tensors, chosen, saved, rule))
    # From here on the graph has them.
    ctx._to_save, ctx._constant = (), ()
    return tuple(next(found) if number in numbers else value for number, value in enumerate(outputs))


def _is_trained(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()


def _is_among(value: Any, others: Any) -> bool:
    return any(value is other for other in others)


def _place(value: Tensor, outputs: list[Tensor]) -> Any:
    return next((number for number, output in enumerate(outputs) if output is value), value)


class _Rule:
    """Calls `backward` of a class, and looks over what it returns."""

    def __init__(self, cls: Any, ctx: FunctionCtx, args: tuple[Any, ...], outputs: tuple[Any, ...], numbers: list[int]) -> None:
        self.cls, self.ctx, self.numbers = cls, ctx, numbers
        self.kinds = [(value.shape, value.dtype) if isinstance(value, Tensor) else None for value in args]
        self.is_saved = tuple(value is not None for value in ctx._to_save)
        self.outputs = [(value.shape, value.dtype, value.device) if isinstance(value, Tensor) else None for value in outputs]

    def __call__(self, grads: list[Tensor | None], saved: list[Tensor]) -> list[Tensor | None]:
        of_outputs = dict(zip(self.numbers, grads))
        given = [self._given(kind, of_outputs.get(number)) for number, kind in enumerate(self.outputs)]
        found = iter(saved)
        self.ctx._saved = tuple(next(found) if is_there else None for is_there in self.is_saved)
        try:
            results = self.cls.backward(self.ctx, *given)
        finally:
            self.ctx._saved = None
        return self._checked(results if isinstance(results, (tuple, list)) else (results,))

    def _given(self, kind: Any, grad: Tensor | None) -> Tensor | None:
        """The gradient of an output, or zeros."""
        if grad is not None or kind is None or not self.ctx._materialize:
            return grad
        shape, dtype, device = kind
        return _ternion.zeros(shape, dtype=dtype, device=device)

    def _checked(self, results: Any) -> list[Tensor | None]:
        name = self.cls.__name__
        expected = len(self.kinds)
        if len(results) < expected or any(result is not None for result in results[expected:]):
            raise RuntimeError(f"{name}.backward returned {len(results)} gradients, expected {expected}, one for each argument of forward")
        checked: list[Tensor | None] = []
        for number, (kind, result) in enumerate(zip(self.kinds, results)):
            if kind is not None:
                checked.append(None if result is None else self._fitting(number, result, *kind))
            elif result is not None:
                raise RuntimeError(f"{name}.backward returned a gradient for argument {number}, which is no tensor; expected None")
        return checked

    def _fitting(self, number: int, grad: Any, shape: Any, dtype: Any) -> Tensor | None:
        """The gradient in the dtype of its argument; summed where the argument was broadcast."""
        name = self.cls.__name__
        if not isinstance(grad, Tensor):
            raise TypeError(f"{name}.backward returned {type(grad).__name__} for argument {number}, expected a tensor or None")
        if not self.ctx.needs_input_grad[number]:
            return None
        if grad.shape != shape:
            try:
                grad = grad.sum_to_size(shape)
            except ValueError:
                told = f"{name}.backward returned a gradient of shape {list(grad.shape)} for argument {number}, which has shape {list(shape)}"
                raise ValueError(told) from None
        return grad if grad.dtype == dtype else grad.to(dtype)
