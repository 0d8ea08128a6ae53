"""How the types of a module's call are those of its `forward`; for type checkers alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    from typing_extensions import ParamSpec

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

    class Forwards(Protocol[P, R]):
        """Whatever has a `forward`: a call takes what that takes, and gives what that gives."""

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
