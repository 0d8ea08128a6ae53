"""Scopes in which ops are recorded, or are not."""

import functools

from . import _ternion


class _Recording:
    """Switches recording for the thread that enters, as a context manager and as a decorator."""

    _on: bool

    def __init__(self):
        self._before = []

    def __enter__(self):
        self._before.append(_ternion._set_recording(self._on))
        return self

    def __exit__(self, *_):
        _ternion._set_recording(self._before.pop())
        return False

    def __call__(self, function):
        @functools.wraps(function)
        def within(*args, **kwargs):
            with type(self)():
                return function(*args, **kwargs)

        return within


class no_grad(_Recording):
    """Ops inside are not recorded, and parameters may be changed in place: ``with no_grad():`` or ``@no_grad()``."""

    _on = False


class enable_grad(_Recording):
    """Ops inside are recorded, also within `no_grad`."""

    _on = True


class set_grad_enabled(_Recording):
    """Ops inside are recorded if `mode` is true."""

    def __init__(self, mode: bool):
        super().__init__()
        self._on = bool(mode)

    def __call__(self, function):
        raise TypeError("set_grad_enabled is no decorator: use no_grad or enable_grad")
