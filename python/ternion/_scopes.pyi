"""Types of the scopes in which ops are recorded, or are not recorded."""

from collections.abc import Callable
from types import TracebackType
from typing import Any, TypeVar, overload

from typing_extensions import Self

F = TypeVar("F", bound=Callable[..., Any])

class _GradMode:
    def __enter__(self) -> Self: ...
    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None: ...
    def __call__(self, function: F) -> F: ...

class no_grad(_GradMode):
    @overload
    def __new__(cls) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]

class enable_grad(_GradMode):
    @overload
    def __new__(cls) -> Self: ...
    @overload
    def __new__(cls, function: F) -> F: ...  # type: ignore[misc]

class inference_mode(_GradMode):
    @overload
    def __new__(cls, mode: bool = True) -> Self: ...
    @overload
    def __new__(cls, mode: F) -> F: ...  # type: ignore[misc]

class set_grad_enabled(_GradMode):
    def __init__(self, mode: bool) -> None: ...
