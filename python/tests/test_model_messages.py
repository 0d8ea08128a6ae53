"""Errors of MLP and NeuralNetwork, each triggered by a call: they name the class, the argument and
the method that the program used."""

import numpy as np
import pytest

import ternion
from ternion.models import MLP, NeuralNetwork

X = np.random.default_rng(0).normal(size=(12, 4)).astype("float32")
Y = np.arange(12) % 3


def create(kind, **settings):
    return kind(4, 8, 3, **{"verbose": False, **({} if "epochs" in settings else {"epochs": 1}), **settings})


@pytest.fixture(params=[MLP, NeuralNetwork])
def kind(request):
    return request.param


def error_of(kind, call):
    """Returns the error of a call, and checks that it does not name the other class."""
    with pytest.raises((TypeError, ValueError, AttributeError)) as error:
        call()
    text, other = str(error.value), {MLP: "NeuralNetwork", NeuralNetwork: "MLP"}[kind]
    assert other not in text, text
    return text


SETTINGS = [(name, value) for name in ("batch_size", "epochs") for value in (0, -1, True, 3.0, "8")]
SETTINGS += [("learning_rate", value) for value in (0, -1.0, True, "x", float("nan"), float("inf"))]
SETTINGS += [("random_state", value) for value in (-1, 1.5, "a", True)] + [("verbose", value) for value in ("yes", 0.5, -1)]


@pytest.mark.parametrize("name, value", SETTINGS)
def test_settings_that_cannot_be(kind, name, value):
    text = error_of(kind, lambda: create(kind, **{name: value}).fit(X, Y))
    assert text.startswith(f"{kind.__name__}: {name} ") and "expected" in text, text


@pytest.mark.parametrize("name, value", [*(pair for pair in SETTINGS if pair[0] not in ("random_state",)), ("seed", -1), ("seed", 1.5), ("seed", True)])
def test_arguments_of_fit_that_cannot_be(kind, name, value):
    text = error_of(kind, lambda: create(kind).fit(X, Y, **{name: value}))
    assert text.startswith(f"{kind.__name__}: {name} ") and "expected" in text, text


@pytest.mark.parametrize("value", ["yes", 1, 0.5, None])
def test_a_warm_start_is_true_or_false(value):
    for call in ("fit", "partial_fit"):
        assert error_of(MLP, lambda: getattr(create(MLP, warm_start=value), call)(X, Y)) == f"MLP: warm_start {value!r}, expected True or False"
    assert create(MLP, warm_start=np.True_).fit(X, Y).n_iter_ == 1 and create(MLP, verbose=0).fit(X, Y).n_iter_ == 1


@pytest.mark.parametrize("size", [0, -2, True, 8.0, "8", None, [8]])
@pytest.mark.parametrize("at, name", list(enumerate(["input_size", "hidden_size", "output_size"])))
def test_sizes_that_cannot_be(size, at, name):
    sizes = [4, 8, 3]
    sizes[at] = size
    message = f"NeuralNetwork: {name} {size!r}, expected an integer above 0"
    assert error_of(NeuralNetwork, lambda: NeuralNetwork(*sizes)) == message
    assert error_of(NeuralNetwork, lambda: NeuralNetwork().set_params(**{name: size})) == message
    assert error_of(MLP, lambda: MLP(*sizes)).startswith("MLP: widths (")


def test_a_single_output_is_no_classifier():
    for call in (lambda: NeuralNetwork(4, 8, 1), lambda: NeuralNetwork().set_params(output_size=1)):
        assert error_of(NeuralNetwork, call) == "NeuralNetwork: output_size 1, expected an output for each of at least 2 classes"
    assert "a list is given as widths=[..]" in error_of(MLP, lambda: MLP([4, 8, 3]))


def test_names_that_are_no_arguments(kind):
    assert error_of(kind, lambda: create(kind, foo=1)).startswith(f"{kind.__name__}.__init__() got an unexpected keyword argument 'foo'")
    assert error_of(kind, lambda: create(kind).fit(X, Y, foo=1)).startswith(f"{kind.__name__}.fit() got an unexpected keyword argument 'foo'")
    assert f"for estimator {kind.__name__}" in error_of(kind, lambda: create(kind).set_params(foo=1))


@pytest.mark.parametrize(
    "features, target, message",
    [
        (None, Y, "fit: {} requires X to be passed, but the input X is None"),
        (X, None, "fit: {} requires y to be passed, but the target y is None"),
        (X[:, :2], Y, "fit: X has 2 features, but {} is expecting 4 features as input: X has shape (12, 2)"),
        (X[0], Y, "fit: Expected 2D array, got 1D array instead"),
        (X * np.nan, Y, "fit: Input X contains NaN or infinity"),
        (X.astype(str), Y, "fit: X holds text, expected numbers"),
        (X, Y[:3], "fit: 12 examples and 3 targets"),
        (X, np.arange(12), "fit: y has 12 different labels (0, 1, 2, 3, 4, ..), but the model has 3 outputs"),
        (X[:0], Y[:0], "fit: no examples"),
    ],
)
def test_data_that_cannot_be_learned(kind, features, target, message):
    assert error_of(kind, lambda: create(kind).fit(features, target)).startswith(message.format(kind.__name__))


def test_other_arguments_of_fit(kind):
    for arguments, message in [
        (dict(optimizer="adam"), "fit: optimizer of type str, expected an optimizer of the model's parameters"),
        (dict(validation_data=3), "fit: validation_data is one int, expected a pair (X, y)"),
        (dict(validation_data=(X[:, :2], Y)), f"validation_data: X has 2 features, but {kind.__name__} is expecting 4"),
        (dict(sample_weight=Y[:2]), "fit: sample_weight has shape (2,), expected (12,)"),
        (dict(sample_weight=["a"] * 12), "fit: sample_weight holds text, expected numbers"),
    ]:
        assert error_of(kind, lambda: create(kind).fit(X, Y, **arguments)).startswith(message)


METHODS = {MLP: ["predict", "predict_proba", "evaluate", "score"], NeuralNetwork: ["predict", "predict_proba", "predict_classes", "evaluate", "score"]}


def test_the_method_that_was_called_is_named(kind):
    for method in METHODS[kind]:
        rest = (Y,) if method in ("evaluate", "score") else ()
        message = error_of(kind, lambda: getattr(create(kind), method)(X, *rest))
        assert message.startswith(f"{method}: this {kind.__name__} instance is not fitted yet: call fit() first"), message
        learned = create(kind).fit(X, Y)
        message = error_of(kind, lambda: getattr(learned, method)(X[:, :2], *rest))
        assert message.startswith(f"{method}: X has 2 features, but {kind.__name__} is expecting 4"), message
        for size in (0, True, 2.0, "3") if method != "score" else ():
            message = error_of(kind, lambda: getattr(learned, method)(X, *rest, batch_size=size))
            assert message == f"{kind.__name__}: batch_size {size!r}, expected an integer, at least 1"
    assert error_of(kind, lambda: learned.score(X, Y + 7)).startswith("score: y holds labels that are not among the classes: 7, 8, 9")
    assert error_of(kind, lambda: learned.partial_fit(X, Y + 7)).startswith("partial_fit: y holds labels")


def test_calls_and_devices_that_cannot_be(kind):
    model = create(kind)
    assert error_of(kind, lambda: model(X)) == f"{kind.__name__}: called with ndarray, expected a tensor: ternion.as_tensor() makes one; predict() takes arrays"
    assert error_of(kind, lambda: model(ternion.ones(4))).startswith(f"{kind.__name__}: called with a tensor of shape (4,), expected [batch, ..]")
    assert error_of(kind, lambda: create(kind, device=3)) == f"{kind.__name__}: device of type int, expected a ternion.device or its name"


def test_a_table_is_learned_from(kind):
    table = ternion.data.Table(["a", "b", "c", "d", "label"], np.column_stack([X, Y]).tolist())
    inputs, target = table.without(["label"]), table.select(["label"])
    model = create(kind, **({"task": "classification"} if kind is MLP else {}), random_state=1).fit(inputs, target)
    assert list(model.feature_names_in_) == ["a", "b", "c", "d"] and model.predict(inputs).shape[0] == 12
    arrays = create(kind, random_state=1).fit(X, Y)
    assert model.score(inputs, target) == arrays.score(X, Y) and model.loss_ == pytest.approx(arrays.loss_, rel=1e-5)
    message = error_of(kind, lambda: create(kind).fit(table))
    assert message == (
        f"fit: {kind.__name__} requires y to be passed, but the target y is None: fit(table.without(['label']), table.select(['label'])) learns one of its columns from the others"
    )
    assert error_of(kind, lambda: model.predict(table)).startswith("predict: The feature names should match those that were passed during fit")
