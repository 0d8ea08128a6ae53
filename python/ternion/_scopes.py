"""Scopes in which ops are recorded, or are not recorded."""

import functools

from . import _ternion


class _Recording:
    """Switches recording for the current thread, as a context manager and as a decorator, with or
    without parentheses.
    """

    _on: bool

    def __new__(cls, function=None):
        scope = super().__new__(cls)
        if callable(function):
            # ``@no_grad`` without parentheses.
            scope._before = []
            return scope(function)
        return scope

    def __init__(self):
        self._before = []

    def __enter__(self):
        self._before.append(_ternion._set_recording(self._on))
        return self

    def __exit__(self, *_):
        _ternion._set_recording(self._before.pop())
        return False

    def _again(self):
        return type(self)()

    def __call__(self, function):
        @functools.wraps(function)
        def within(*args, **kwargs):
            with self._again():
                return function(*args, **kwargs)

        return within

    def __repr__(self):
        return f"ternion.{type(self).__name__}()"


class no_grad(_Recording):
    """Disables recording: ops are not recorded, and parameters may be changed in place. Use it as
    ``with no_grad():`` or ``@no_grad()``.
    """

    _on = False


class enable_grad(_Recording):
    """Enables recording, also within `no_grad`."""

    _on = True


class _Switch(_Recording):
    """A scope whose argument determines whether ops are recorded."""

    def __new__(cls, mode=True):
        if callable(mode):
            return super().__new__(cls, mode)
        return object.__new__(cls)


class inference_mode(_Switch):
    """Like `no_grad`, for programs that do not train: ``with inference_mode():``. With `mode=False`
    ops are recorded.
    """

    _on = False

    def __init__(self, mode=True):
        super().__init__()
        self._on = not mode

    def _again(self):
        return inference_mode(not self._on)

    def __repr__(self):
        return f"ternion.inference_mode(mode={not self._on})"


class set_grad_enabled(_Switch):
    """Sets whether ops of this thread are recorded: from now on, or as a context manager or
    decorator, in a scope.
    """

    def __init__(self, mode):
        super().__init__()
        self._on = bool(mode)
        self._outside = _ternion._set_recording(self._on)

    def __enter__(self):
        self._before.append(self._outside)
        _ternion._set_recording(self._on)
        return self

    def _again(self):
        return set_grad_enabled(self._on)

    def __call__(self, function):
        # As a decorator, it affects only the decorated function.
        _ternion._set_recording(self._outside)
        return super().__call__(function)

    def __repr__(self):
        return f"ternion.set_grad_enabled(mode={self._on})"
