"""What scikit-learn asks of an estimator: parameters by name, tags, and whether it has learned. Nothing of scikit-learn is needed for it."""

from __future__ import annotations

import functools
import importlib
import inspect
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, cast

import numpy as np

from .. import nn

if TYPE_CHECKING:
    from typing_extensions import Self

Method = TypeVar("Method", bound=Callable[..., Any])


class NotFittedError(ValueError, AttributeError):
    """A model was asked before `fit`. Where scikit-learn is in use, its own class of this name is raised, which has the same bases."""


def not_fitted(message: str) -> NoReturn:
    """Raises the error that those who use scikit-learn expect."""
    known = sys.modules.get("sklearn.exceptions")
    raise (NotFittedError if known is None else known.NotFittedError)(message)


class Estimator(nn.Module):
    """A module with parameters that scikit-learn reads and sets: the named arguments of `__init__`, each kept as an attribute of its name."""

    @classmethod
    def _names(cls) -> list[str]:
        """The parameters in order of their names."""
        given = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return sorted(one.name for one in given if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The arguments that the model was made with, by name. `deep` is for models that hold others, and does nothing here."""
        return {name: getattr(self, name) for name in self._names()}

    def __repr__(self) -> str:
        defaults = {name: one.default for name, one in inspect.signature(type(self)).parameters.items()}
        given = [(name, getattr(self, name)) for name in defaults if name in self._names()]
        told = [f"{name}={value!r}" for name, value in given if repr(value) != repr(defaults[name])]
        return f"{type(self).__name__}({', '.join(told)})"

    def set_params(self, **params: Any) -> Self:
        """Sets arguments of `__init__` by name; the model itself. Other widths, or another device, make new layers: what was learned is forgotten.

        Raises:
            ValueError: a name that is no argument.
        """
        names = self._names()
        for name in params:
            if name not in names:
                raise ValueError(f"Invalid parameter {name!r} for estimator {type(self).__name__}. Valid parameters are: {names!r}.")
        before = self.get_params()
        for name, value in params.items():
            setattr(self, name, value)
        self._parameters_set({name for name, value in params.items() if before[name] is not value and before[name] != value})
        return self

    def _parameters_set(self, changed: set[str]) -> None:
        """What follows from parameters that have other values now."""

    @property
    def _estimator_type(self) -> str:
        """ "classifier" or "regressor"."""
        raise NotImplementedError

    @property
    def _is_fitted(self) -> bool:
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted

    def __sklearn_tags__(self) -> Any:
        # Whoever asks has it.
        its = importlib.import_module("sklearn.utils")
        is_classifier = self._estimator_type == "classifier"
        return its.Tags(
            estimator_type=self._estimator_type,
            target_tags=its.TargetTags(required=True, multi_output=not is_classifier),
            classifier_tags=its.ClassifierTags() if is_classifier else None,
            regressor_tags=None if is_classifier else its.RegressorTags(),
            input_tags=its.InputTags(three_d_array=True),
        )


class _OfClassifiers:
    """A method that a regressor does not have."""

    def __init__(self, method: Any):
        self._method = method
        functools.update_wrapper(cast(Any, self), method)

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is not None and model._estimator_type != "classifier":
            name = self._method.__name__
            raise AttributeError(f"{name}: this {type(model).__name__} is a regressor, which predicts numbers and has no {name}")
        return self._method.__get__(model, owner)


def of_classifiers(method: Method) -> Method:
    """Makes a method one that a regressor does not have: `hasattr` tells, as scikit-learn asks."""
    return cast(Method, _OfClassifiers(method))


def seed_of(random_state: Any, name: str = "random_state") -> int | None:
    """The number that a `random_state` of scikit-learn stands for: itself, None, or one that a generator of NumPy draws.

    Raises:
        ValueError: a negative number.
        TypeError: anything else.
    """
    if random_state is None:
        return None
    if isinstance(random_state, np.random.RandomState):
        return int(random_state.randint(2**31 - 1))
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31 - 1))
    if isinstance(random_state, (int, np.integer)) and not isinstance(random_state, bool):
        if random_state < 0:
            raise ValueError(f"{name} {random_state}, expected a number from 0 on")
        return int(random_state)
    raise TypeError(f"{name} of type {type(random_state).__name__}, expected a number, None, or a generator of NumPy")
