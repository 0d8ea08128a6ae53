"""The interface that scikit-learn requires of an estimator: parameters by name, tags, and whether
it is fitted. It does not depend on scikit-learn.
"""

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
    """Raised if a model is used before `fit`. If scikit-learn is imported, its class of the same
    name is raised instead, which has the same base classes.
    """


def not_fitted(message: str) -> NoReturn:
    """Raises the error that users of scikit-learn expect."""
    known = sys.modules.get("sklearn.exceptions")
    raise (NotFittedError if known is None else known.NotFittedError)(message)


class Estimator(nn.Module):
    """A module with parameters that scikit-learn reads and sets: the named arguments of `__init__`,
    each stored as an attribute of the same name.
    """

    @classmethod
    def _get_param_names(cls) -> list[str]:
        """Returns the parameters in the order of their names."""
        parameters = list(inspect.signature(cls.__init__).parameters.values())[1:]
        return sorted(parameter.name for parameter in parameters if parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD))

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Returns the arguments with which the model was created, by name. `deep` applies to models
        that contain others, and has no effect here.
        """
        return {name: getattr(self, name) for name in self._get_param_names()}

    def __repr__(self) -> str:
        defaults = {name: parameter.default for name, parameter in inspect.signature(type(self)).parameters.items()}
        params = [(name, getattr(self, name)) for name in defaults if name in self._get_param_names()]
        settings = [f"{name}={value!r}" for name, value in params if repr(value) != repr(defaults[name])]
        return f"{type(self).__name__}({', '.join(settings)})"

    def set_params(self, **params: Any) -> Self:
        """Sets arguments of `__init__` by name, and returns the model. Other widths, or another
        device, create new layers: the trained weights are lost.

        Raises:
            ValueError: If a name is not an argument of `__init__`.
        """
        names = self._get_param_names()
        for name in params:
            if name not in names:
                raise ValueError(f"Invalid parameter {name!r} for estimator {type(self).__name__}. Valid parameters are: {names!r}.")
        previous = self.get_params()
        for name, value in params.items():
            setattr(self, name, value)
        self._on_params_changed({name for name, value in params.items() if previous[name] is not value and previous[name] != value})
        return self

    def _on_params_changed(self, changed: set[str]) -> None:
        """Handles parameters that have changed."""

    @property
    def _estimator_type(self) -> str:
        """Returns "classifier" or "regressor"."""
        raise NotImplementedError

    @property
    def _is_fitted(self) -> bool:
        raise NotImplementedError

    def __sklearn_is_fitted__(self) -> bool:
        return self._is_fitted

    def __sklearn_tags__(self) -> Any:
        # Only scikit-learn calls this method, so it is installed.
        utils = importlib.import_module("sklearn.utils")
        is_classifier = self._estimator_type == "classifier"
        return utils.Tags(
            estimator_type=self._estimator_type,
            target_tags=utils.TargetTags(required=True, multi_output=not is_classifier),
            classifier_tags=utils.ClassifierTags() if is_classifier else None,
            regressor_tags=None if is_classifier else utils.RegressorTags(),
            input_tags=utils.InputTags(three_d_array=True),
        )


class _ClassifierMethod:
    """A method that a regressor does not have."""

    def __init__(self, method: Any):
        self._method = method
        functools.update_wrapper(cast(Any, self), method)

    def __get__(self, model: Any, owner: Any = None) -> Any:
        if model is not None and model._estimator_type != "classifier":
            name = self._method.__name__
            raise AttributeError(f"{name}: this {type(model).__name__} is a regressor, which predicts numbers and has no {name}")
        return self._method.__get__(model, owner)


def classifier_only(method: Method) -> Method:
    """Removes a method from regressors: `hasattr` returns False, as scikit-learn expects."""
    return cast(Method, _ClassifierMethod(method))


def seed_of(random_state: Any, name: str = "random_state") -> int | None:
    """Returns the seed for a `random_state` of scikit-learn: the number itself, None, or a number
    drawn from a NumPy generator.

    Raises:
        ValueError: If the number is negative.
        TypeError: If it is anything else.
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
