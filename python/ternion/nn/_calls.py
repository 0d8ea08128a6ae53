"""Types that give a module's `__call__` the signature of its `forward`. Used by type checkers only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    from typing_extensions import ParamSpec

    P = ParamSpec("P")
    R = TypeVar("R", covariant=True)

    class Forwards(Protocol[P, R]):
        """An object with a `forward` method. Calling it takes the same arguments and returns the
        same type.
        """

        def forward(self, *args: P.args, **kwargs: P.kwargs) -> R: ...
