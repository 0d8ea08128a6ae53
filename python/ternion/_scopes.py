"""Scopes in which ops are recorded, or are not recorded."""

import functools

from . import _ternion


class _GradMode:
    """Switches recording for the current thread, as a context manager and as a decorator, with or
    without parentheses.
    """

    _records: bool

    def __new__(cls, function=None):
        scope = super().__new__(cls)
        if callable(function):
            # ``@no_grad`` without parentheses.
            scope._previous = []
            return scope(function)
        return scope

    def __init__(self):
        self._previous = []

    def __enter__(self):
        self._previous.append(_ternion._set_recording(self._records))
        return self

    def __exit__(self, *_):
        _ternion._set_recording(self._previous.pop())
        return False

    def _clone(self):
        return type(self)()

    def __call__(self, function):
        @functools.wraps(function)
        def wrapper(*args, **kwargs):
            with self._clone():
                return function(*args, **kwargs)

        return wrapper

    def __repr__(self):
        return f"ternion.{type(self).__name__}()"


class no_grad(_GradMode):
    """Disables recording: ops are not recorded, and parameters may be changed in place. Use it as
    ``with no_grad():`` or ``@no_grad()``.
    """

    _records = False


class enable_grad(_GradMode):
    """Enables recording, also within `no_grad`."""

    _records = True


class _SwitchableGradMode(_GradMode):
    """A scope whose argument determines whether ops are recorded."""

    def __new__(cls, mode=True):
        if callable(mode):
            return super().__new__(cls, mode)
        return object.__new__(cls)


class inference_mode(_SwitchableGradMode):
    """Like `no_grad`, for programs that do not train: ``with inference_mode():``. With `mode=False`
    ops are recorded.
    """

    _records = False

    def __init__(self, mode=True):
        super().__init__()
        self._records = not mode

    def _clone(self):
        return inference_mode(not self._records)

    def __repr__(self):
        return f"ternion.inference_mode(mode={not self._records})"


class set_grad_enabled(_SwitchableGradMode):
    """Sets whether ops of this thread are recorded: from now on, or as a context manager or
    decorator, in a scope.
    """

    def __init__(self, mode):
        super().__init__()
        self._records = bool(mode)
        self._outer = _ternion._set_recording(self._records)

    def __enter__(self):
        self._previous.append(self._outer)
        _ternion._set_recording(self._records)
        return self

    def _clone(self):
        return set_grad_enabled(self._records)

    def __call__(self, function):
        # As a decorator, it affects only the decorated function.
        _ternion._set_recording(self._outer)
        return super().__call__(function)

    def __repr__(self):
        return f"ternion.set_grad_enabled(mode={self._records})"
