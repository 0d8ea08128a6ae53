"""`models.MLP` follows the conventions of scikit-learn. Tested with scikit-learn itself, if it is
installed, and with inputs that users pass."""

import copy
import os
import pickle
import threading

import numpy as np
import pytest

import ternion
from ternion import models, optim
from ternion.models import _progress


def rings(count=120, classes=2):
    """Returns points in the plane, and the index of each point's ring."""
    rng = np.random.default_rng(7)
    ring = rng.integers(0, classes, count)
    angle = rng.uniform(0, 2 * np.pi, count)
    return np.stack([(ring + 1) * np.cos(angle), (ring + 1) * np.sin(angle)], 1) + rng.normal(0, 0.1, (count, 2)), ring


def quiet(*widths, **settings):
    return models.MLP(*widths, **{"verbose": False, "random_state": 1, "learning_rate": 0.03, **settings})


X, RING = rings()
WORDS = np.array(["inner", "outer"])[RING]


# ---- Labels and values


@pytest.mark.parametrize(
    "labels",
    [WORDS, list(WORDS), RING + 1, RING.astype(np.int8), RING.astype(np.uint8), RING == 1, RING * 10 - 5, RING[:, None], ternion.tensor(RING)],
    ids=["words", "list", "from 1", "int8", "uint8", "bool", "far apart", "column", "tensor"],
)
def test_labels_of_every_kind(labels):
    model = quiet(2, 32, 2, epochs=40).fit(X, labels)
    plain = np.ravel(labels.numpy() if isinstance(labels, ternion.Tensor) else labels)
    result = model.predict(X)
    assert result.dtype == plain.dtype and result.shape == (120,)
    assert (result == plain).mean() > 0.95 and model.score(X, labels) == (result == plain).mean()
    assert list(model.classes_) == sorted(set(plain.tolist()))
    assert (model.classes_[model.predict_proba(X).argmax(1)] == result).all()


def test_integers_below_the_outputs_are_indices():
    """So that a subset of the digits trains the same outputs as all of them."""
    model = quiet(2, 8, 5).fit(X, RING + 2, validation_data=(X, RING + 1))
    assert model.classes_.tolist() == [0, 1, 2, 3, 4] and model.predict_proba(X).shape == (120, 5)
    words = quiet(2, 8, 5).fit(X, WORDS)
    assert words.classes_.tolist() == ["inner", "outer"] and words.predict_proba(X).shape == (120, 2)


@pytest.mark.parametrize(
    "widths, labels, message",
    [
        ((2, 2), np.array(["a", "b", "c"] * 40), "3 different labels ('a', 'b', 'c'), but the model has 2 outputs"),
        ((2, 1), RING, "the model has 1 output; values are numbers with a point, or task='regression'"),
        ((2, 2), RING.astype(float), "y has shape (120,), expected [examples, 2]: numbers with a point are values of the 2 outputs; labels"),
        ((2, 2), np.stack([RING, RING], 1), "y has shape (120, 2), expected one label for each example"),
        ((2, 2), np.array(["a", None] * 60, dtype=object), "a label is missing"),
        ((2, 1), np.where(RING, np.nan, 1.0), "Input y contains NaN"),
        ((2, 2), None, "requires y to be passed"),
        ((2, 2), RING[:-1], "120 examples and 119 targets"),
    ],
)
def test_targets_that_do_not_fit(widths, labels, message):
    with pytest.raises(ValueError) as error:
        quiet(*widths).fit(X, labels)
    assert message in str(error.value)


def test_labels_without_an_order():
    with pytest.raises(TypeError, match="labels of the kinds int, str, which have no order"):
        quiet(2, 2).fit(X, np.array(["a", 1] * 60, dtype=object))


def test_the_task_can_be_given():
    assert quiet(2, 8, 1, task="regression").fit(X, RING).predict(X).dtype.kind == "f"
    assert quiet(2, 8, 2, task="classification").fit(X, RING.astype(float)).score(X, RING) > 0
    with pytest.raises(ValueError, match="numbers with a point"):
        quiet(2, 8, 2, task="classification").fit(X, X[:, 0])
    with pytest.raises(ValueError, match="task 'guess', expected one of 'auto'"):
        quiet(2, 2, task="guess").fit(X, RING)


def test_evaluate_leaves_a_model_what_it_is():
    classifier = quiet(2, 16, 2).fit(X, RING)
    with pytest.raises(ValueError, match="evaluate: Unknown label type: continuous"):
        classifier.evaluate(X, X[:, 0])
    assert classifier.predict(X).dtype.kind == "i"
    with pytest.raises(ValueError, match="labels that are not among the classes: 4, 5; the classes are 0, 1"):
        classifier.score(X, RING + 4)
    with pytest.raises(ValueError, match="y holds labels of <U5, but the classes are 0, 1"):
        classifier.score(X, WORDS)
    regressor = quiet(2, 16, 1).fit(X, X.sum(1))
    assert set(regressor.evaluate(X, RING)) == {"loss", "r2"} and regressor.predict(X).dtype.kind == "f"


def test_a_regressor_has_no_probabilities():
    regressor = quiet(2, 8, 1).fit(X, X.sum(1))
    assert not hasattr(regressor, "predict_proba") and hasattr(quiet(2, 8, 2), "predict_proba")
    with pytest.raises(AttributeError, match="predict_proba: this MLP is a regressor, which predicts numbers"):
        regressor.predict_proba(X)


def test_values_have_the_shape_of_the_targets_and_r2_is_that_of_scikit_learn():
    y = np.stack([X[:, 0] * 2, np.full(120, 3.0)], 1)
    assert quiet(2, 1).fit(X, y[:, 0]).predict(X).shape == (120,)
    assert quiet(2, 1).fit(X, y[:, :1]).predict(X).shape == (120, 1)
    model = quiet(2, 2).fit(X, y)
    assert model.predict(X).shape == (120, 2)
    # The constant output, which is not predicted exactly, has score 0.
    residual = 1 - ((model.predict(X) - y)[:, 0] ** 2).sum() / ((y[:, 0] - y[:, 0].mean()) ** 2).sum()
    assert model.score(X, y) == pytest.approx(residual / 2, rel=1e-4)


# ---- Features


def test_features_that_do_not_fit():
    model = quiet(2, 4, 2).fit(X, RING)
    for wrong, message in [
        (X[0], "Expected 2D array, got 1D array instead: X has shape (2,). Reshape your data"),
        (X[:, :1], "X has 1 features, but MLP is expecting 2 features as input: X has shape (120, 1)"),
        (np.where(X > 1, np.nan, X), "Input X contains NaN or infinity"),
        (ternion.tensor(X) / 0.0, "Input X contains NaN or infinity"),
        (X * 1e300, "a number beyond ternion.float32"),
        (X * 1j, "Complex data not supported"),
        ([["a", "b"]], "X holds text, expected numbers"),
        ([[1.0, 2.0], [3.0]], "X is not an array"),
        (np.zeros((3, 0)), "0 feature(s) (shape=(3, 0))"),
        (None, "MLP requires X to be passed"),
    ]:
        for ask in (model.predict, model.predict_proba, lambda X: model.fit(X, RING), lambda X: model.evaluate(X, RING)):
            with pytest.raises(ValueError) as error:
                ask(wrong)
            assert message in str(error.value)
    with pytest.raises(ValueError, match="no examples: Found array with 0 sample"):
        model.fit(X[:0], RING[:0])


def test_features_of_every_kind():
    model = quiet(2, 16, 2, epochs=3).fit(X, RING)
    want = model.predict_proba(X)
    for features in (X.tolist(), ternion.tensor(X), X.astype(object), np.asfortranarray(X), X[:, ::-1][:, ::-1], X.astype(np.longdouble)):
        np.testing.assert_allclose(model.predict_proba(features), want, atol=1e-6)
    integers = np.array([[0, 1], [1, 0]])
    for dtype in (np.int8, np.uint8, np.uint16, np.uint32, np.int64, np.float16, bool):
        np.testing.assert_allclose(model.predict_proba(integers.astype(dtype)), model.predict_proba(integers.astype(float)), atol=1e-6)
    read_only = X.copy()
    read_only.flags.writeable = False
    np.testing.assert_array_equal(model.predict(read_only), model.predict(X))
    assert model.predict(X[:0]).shape == (0,) and model.predict_proba(X[:0]).shape == (0, 2)
    assert model.predict(X[:1]).shape == (1,)
    images = quiet(4, 2).fit(np.zeros((3, 2, 2)), [0, 1, 1])
    assert images.predict(np.zeros((5, 2, 2))).shape == (5,)


def test_tables_and_sparse_matrices():
    class Sparse:
        nnz = 1

        def toarray(self):
            return X

    with pytest.raises(TypeError, match="X is a sparse matrix .Sparse., which is not taken: give X.toarray"):
        quiet(2, 2).fit(Sparse(), RING)

    class Table:
        """The parts of a DataFrame that are used."""

        columns = ["width", "height"]

        def __array__(self, dtype=None, copy=None):
            return np.asarray(X, dtype)

    table = Table()
    model = quiet(2, 4, 2).fit(table, RING)
    assert model.feature_names_in_.tolist() == ["width", "height"]
    model.predict(table), model.predict(X)
    table.columns = ["height", "width"]
    with pytest.raises(ValueError, match="fitted on the columns width, height, got height, width"):
        model.predict(table)
    assert not hasattr(model.fit(X, RING), "feature_names_in_")


def test_tables_of_pandas():
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(X, columns=["a", "b"])
    model = quiet(2, 16, 2, epochs=30).fit(table, pandas.Series(WORDS))
    assert model.score(table, pandas.Series(WORDS)) > 0.9 and model.classes_.tolist() == ["inner", "outer"]
    with pytest.raises(ValueError, match="X holds a value that is not a number"):
        model.predict(table.assign(b="x"))


# ---- Settings, seeds, continued training


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"epochs": 0}, "epochs 0, expected an integer, at least 1"),
        ({"epochs": 1.5}, "epochs 1.5"),
        ({"batch_size": 0}, "batch_size 0"),
        ({"batch_size": True}, "batch_size True"),
        ({"learning_rate": -1.0}, "learning_rate -1.0, expected a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate nan"),
        ({"validation_data": X}, r"validation_data is one ndarray of shape \(120, 2\), expected a pair \(X, y\)"),
        ({"validation_data": (X, RING, RING)}, "validation_data is one tuple with 3 parts, expected a pair"),
        ({"validation_data": (X, RING + 7)}, "validation_data: y holds labels that are not among the classes"),
        ({"validation_data": (X[:5], RING)}, "validation_data: 5 examples and 120 targets"),
        ({"seed": -1}, "seed -1, expected a number from 0 on"),
    ],
)
def test_settings_out_of_range(settings, message):
    with pytest.raises(ValueError, match=message):
        quiet(2, 2).fit(X, RING, **settings)


def test_arguments_out_of_range():
    with pytest.raises(ValueError, match=r"MLP: widths \(3,\), expected integers above 0"):
        models.MLP(widths=3)
    with pytest.raises(ValueError, match=r"widths \(2, 0, 1\)"):
        models.MLP(2, 0, 1)
    with pytest.raises(TypeError, match="widths are given twice"):
        models.MLP(2, 1, widths=[2, 1])
    with pytest.raises(TypeError, match="random_state of type str"):
        quiet(2, 2, random_state="x").fit(X, RING)
    with pytest.raises(ValueError, match="batch_size 0"):
        quiet(2, 2).fit(X, RING).predict(X, batch_size=0)


def weights(model):
    return [parameter.detach().numpy().copy() for parameter in model.parameters()]


def same(one, other):
    return all((left == right).all() for left, right in zip(weights(one), weights(other)))


def test_a_seed_decides_the_whole_of_a_fit():
    before = ternion.get_rng_state()
    one = quiet(2, 8, 2, random_state=None)
    drawn = ternion.get_rng_state()
    one.fit(X, RING, seed=5)
    assert ternion.get_rng_state() == drawn != before
    ternion.randn(10)
    other = quiet(2, 8, 2, random_state=5).fit(X, RING)
    assert same(one, other)
    assert same(other.fit(X, RING), one), "a second fit starts again"
    assert not same(quiet(2, 8, 2, random_state=6).fit(X, RING), one)
    assert same(quiet(2, 8, 2, random_state=np.random.RandomState(3)).fit(X, RING), quiet(2, 8, 2, random_state=np.random.RandomState(3)).fit(X, RING))


def test_threads_with_seeds_do_not_disturb_one_another():
    want = quiet(2, 8, 2, random_state=5).fit(X, RING)
    actual = [quiet(2, 8, 2, random_state=5) for _ in range(4)]
    threads = [threading.Thread(target=model.fit, args=(X, RING)) for model in actual]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(same(model, want) for model in actual)


def test_fit_begins_anew_unless_it_continues():
    model = quiet(2, 16, 2, random_state=None, epochs=2)
    first = model.fit(X, RING).history["loss"][0]
    assert model.fit(X, RING).history["loss"][0] > 0.7 * first
    model.set_params(warm_start=True)
    for _ in range(20):
        model.fit(X, RING)
    assert model.history["loss"][0] < 0.3 * first and model.n_iter_ == 2


def test_partial_fit():
    model = quiet(2, 16, 2)
    for number in range(60):
        half = slice(60 * (number % 2), 60 * (number % 2) + 60)
        assert model.partial_fit(X[half], WORDS[half], classes=["outer", "inner"]) is model
    assert model.score(X, WORDS) > 0.95 and model.n_iter_ == len(model.history["loss"]) == 60
    with pytest.raises(ValueError, match="not among the classes: 'other'; the classes are 'inner', 'outer'"):
        model.partial_fit(X[:1], ["other"])
    with pytest.raises(ValueError, match="not among the classes"):
        quiet(2, 2).partial_fit(X, WORDS, classes=["inner", "elsewhere"])
    assert same(quiet(2, 2).partial_fit(X, RING), quiet(2, 2).fit(X, RING, epochs=1))


def test_a_loss_that_is_lost_is_reported():
    with pytest.raises(RuntimeError, match="the loss of epoch 1 is (nan|inf): try a smaller learning_rate, or features of similar size"):
        quiet(2, 8, 1).fit(X, X[:, 0] * 1e30)


def test_an_optimizer_of_ones_own():
    model = quiet(2, 16, 2, random_state=None)
    sgd = optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    assert model.fit(X, RING, epochs=30, optimizer=sgd).score(X, RING) > 0.9


def test_fit_learns_within_no_grad():
    with ternion.no_grad():
        model = quiet(2, 8, 2).fit(X, RING)
        assert not ternion.is_grad_enabled()
    assert same(model, quiet(2, 8, 2).fit(X, RING))


def test_an_interrupted_fit_keeps_what_it_has_learned():
    class Interrupted(models.MLP):
        def forward(self, x):
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 8:
                raise KeyboardInterrupt
            return super().forward(x)

    model = Interrupted(2, 8, 2, verbose=False)
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, RING, epochs=10, batch_size=40)
    assert not model.training and len(model.history["loss"]) == model.n_iter_ == 2
    assert model.predict(X).shape == (120,)


# ---- Before and after a fit


def test_before_fit():
    for ask in (lambda model: model.predict(X), lambda model: model.evaluate(X, RING), lambda model: model.predict_proba(X)):
        with pytest.raises(models.NotFittedError if "sklearn.exceptions" not in __import__("sys").modules else ValueError, match="not fitted yet: call fit"):
            ask(models.MLP(2, 2))
    assert issubclass(models.NotFittedError, ValueError) and issubclass(models.NotFittedError, AttributeError)
    assert not hasattr(models.MLP(2, 2), "classes_")


def test_copies_keep_what_was_learned():
    model = quiet(2, 8, 2).fit(X, WORDS).partial_fit(X, WORDS)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        np.testing.assert_array_equal(other.predict(X), model.predict(X))
        assert other.history == model.history and other.get_params() == model.get_params()
        other.partial_fit(X, WORDS)
        assert not same(other, model)


def test_weights_of_a_file_predict_with_a_task():
    model = quiet(2, 8, 2).fit(X, RING)
    other = models.MLP(2, 8, 2, task="classification")
    other.load_state_dict(model.state_dict())
    np.testing.assert_array_equal(other.predict(X), model.predict(X))
    untold = models.MLP(2, 8, 2)
    untold.load_state_dict(model.state_dict())
    with pytest.raises(ValueError, match="give the model its task"):
        untold.predict(X)


def test_parameters_by_name():
    model = models.MLP(2, 8, 2, epochs=3)
    assert model.get_params()["widths"] == (2, 8, 2) and model.get_params()["epochs"] == 3
    assert model.set_params(widths=[2, 4, 4, 2], learning_rate=0.1) is model and len(model.layers) == 3
    with pytest.raises(ValueError, match="Invalid parameter 'depth' for estimator MLP. Valid parameters are: .'batch_size', 'device'"):
        model.set_params(depth=3)


# ---- The progress line


class Terminal:
    def __init__(self):
        self.text = ""

    def write(self, text):
        self.text += text

    def flush(self):
        pass

    def isatty(self):
        return True


def test_the_line_on_a_terminal_and_in_a_file(monkeypatch, capsys):
    quiet(2, 2).fit(X, RING, epochs=2, verbose=True)
    written = capsys.readouterr().err
    assert written.count("\n") == 2 and "\r" not in written
    monkeypatch.setattr("sys.stderr", Terminal())
    monkeypatch.setattr("ternion.models._progress._PAUSE_S", -1.0)
    quiet(2, 2).fit(X, RING, epochs=2, batch_size=40, verbose=True)
    import sys

    lines = sys.stderr.text.split("\n")
    assert len(lines) == 3 and lines[2] == ""
    updates = lines[0].split("\r")
    assert len(updates) == 5 and "] 3/3  loss " in updates[3] and "steps/s" in updates[4]
    assert len(updates[4]) >= len(updates[3]), "what was longer is written over"
    monkeypatch.setattr("sys.stderr", None)
    quiet(2, 2).fit(X, RING, verbose=True)


@pytest.mark.parametrize("columns, shown", [
    (120, "epoch 1/1  loss 0.5000  validation loss 0.2500  validation accuracy 0.7500  7 steps/s"),
    (80, "epoch 1/1  loss 0.5000  validation loss 0.2500  validation accuracy 0.7500"),
    (60, "epoch 1/1  loss 0.5000  validation accuracy 0.7500"),
    (40, "epoch 1/1  loss 0.5000"),
    (10, "epoch 1/1"),
    (5, "epoc"),
])  # fmt: skip
def test_what_does_not_fit_into_the_line_is_left_out_as_a_whole(monkeypatch, columns, shown):
    terminal, line = Terminal(), None
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((columns, 24)))
    monkeypatch.setattr("time.monotonic", iter([0.0, 100.0]).__next__)
    line = _progress.ProgressLine("epoch 1/1", 700, True)
    line._done = 700
    line.end({"loss": 0.5, "validation loss": 0.25, "validation accuracy": 0.75})
    assert terminal.text == f"\r{shown}\n"


def test_it_is_shown_by_its_arguments():
    assert repr(models.MLP(2, 8, 2)) == "MLP(widths=(2, 8, 2))"
    assert repr(models.MLP(widths=[2, 2], learning_rate=0.1, verbose=False)) == "MLP(widths=[2, 2], learning_rate=0.1, verbose=False)"


def test_losses_of_epochs():
    model = quiet(2, 2)
    assert not hasattr(model, "loss_") and not hasattr(model, "loss_curve_")
    model.fit(X, RING, epochs=3)
    assert len(model.loss_curve_) == 3 and model.loss_curve_ == model.history["loss"] and model.loss_ == model.loss_curve_[-1]


@pytest.mark.parametrize("y", [RING, X.sum(1)], ids=["classes", "numbers"])
def test_weights_of_examples_count_in_the_loss(y):
    """An example of weight 0 has the same effect as no example, and one of weight 2 as two: if a
    batch has all examples, the steps are the same."""
    weights = np.arange(len(X)) % 3
    outputs = 2 if y is RING else 1
    weighted = quiet(2, 8, outputs, epochs=5, random_state=1, batch_size=10**6).fit(X, y, sample_weight=weights)
    repeated = quiet(2, 8, outputs, epochs=5, random_state=1, batch_size=10**6).fit(X.repeat(weights, 0), y.repeat(weights))
    plain = quiet(2, 8, outputs, epochs=5, random_state=1, batch_size=10**6).fit(X, y)
    assert weighted.loss_curve_ == pytest.approx(repeated.loss_curve_, rel=1e-5) and weighted.loss_ != pytest.approx(plain.loss_, rel=1e-5)
    for actual, expected in zip(weighted.parameters(), repeated.parameters()):
        np.testing.assert_allclose(actual.detach().numpy(), expected.detach().numpy(), atol=1e-5)
    quiet(2, 8, outputs, batch_size=1).fit(X[:9], y[:9], sample_weight=list(weights[:9]))
    for wrong, message in [(weights[1:], "sample_weight has shape"), (weights - 1, "numbers below 0"), (weights * 0, "only zeros"), (weights / 0.0, "sample_weight")]:
        with pytest.raises(ValueError, match=message), np.errstate(all="ignore"):
            quiet(2, 8, outputs).fit(X, y, sample_weight=wrong)


# ---- scikit-learn itself


def test_scikit_learn_takes_it():
    base = pytest.importorskip("sklearn.base")
    from sklearn.exceptions import NotFittedError
    from sklearn.model_selection import GridSearchCV, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.utils.validation import check_is_fitted

    model = quiet(2, 16, 2, epochs=15)
    copied = base.clone(model)
    assert copied.get_params() == model.get_params() and copied is not model
    assert base.is_classifier(model) and not base.is_regressor(model)
    assert base.is_regressor(quiet(2, 1)) and base.is_classifier(quiet(2, 1, task="classification"))
    with pytest.raises(NotFittedError):
        check_is_fitted(model)
    with pytest.raises(NotFittedError):
        model.predict(X)
    assert cross_val_score(model, X, WORDS, cv=3).min() > 0.9
    assert cross_val_score(model, X, RING, cv=3, scoring="roc_auc").min() > 0.9
    assert cross_val_score(quiet(2, 1, epochs=30), X, X.sum(1), cv=3).min() > 0.9
    search = GridSearchCV(model, {"widths": [(2, 2), (2, 16, 2)], "learning_rate": [0.03]}, cv=3).fit(X, WORDS)
    assert search.best_params_["widths"] == (2, 16, 2) and search.predict(X).dtype.kind == "U"
    assert make_pipeline(StandardScaler(), model).fit(X, RING).score(X, RING) > 0.9


class Adaptive(models.MLP):
    """Takes its widths from the examples, because scikit-learn's checks fit one model to data of
    many sizes."""

    def __init__(self, task="classification", random_state=None, epochs=15, learning_rate=0.1, verbose=False):
        super().__init__(1, 2, task=task, random_state=random_state, epochs=epochs, learning_rate=learning_rate, verbose=verbose)

    def fit(self, X, y, **settings):
        try:
            features, targets = np.asarray(X).shape[1], np.ones(1) if y is None else np.asarray(y)
            outputs = max(len(np.unique(targets)), 2) if self.task == "classification" else 1 if targets.ndim == 1 else targets.shape[1]
            self.widths = (max(features, 1), 16, outputs)
            self._build()
        except (TypeError, ValueError, IndexError):
            pass  # fit reports the error.
        return super().fit(X, y, **settings)

    partial_fit = property()  # The widths are known only in fit.


# Checks that an nn.Module cannot pass (its attributes are public), and checks of other conventions:
# a warning for labels in a column, float64.
NOT_MET = {
    "check_no_attributes_set_in_init", "check_dont_overwrite_parameters", "check_do_not_raise_errors_in_init_or_set_params",
    "check_supervised_y_2d", "check_regressor_multioutput",
}  # fmt: skip


@pytest.mark.filterwarnings("ignore:Estimator Adaptive does not inherit:UserWarning")
@pytest.mark.parametrize("task", ["classification", "regression"])
def test_the_checks_of_scikit_learn(task):
    checks = pytest.importorskip("sklearn.utils.estimator_checks")
    results = checks.check_estimator(Adaptive(task), on_fail=None, on_skip=None)
    failed = {result["check_name"]: result["exception"] for result in results if result["status"] == "failed"}
    assert not set(failed) - NOT_MET, failed
    assert sum(result["status"] == "passed" for result in results) >= 45


# ---- Widths, and labels that are probabilities


def test_no_widths():
    with pytest.raises(ValueError, match=r"^MLP: no widths, expected those of input, hidden layers and output: MLP\(8, 16, 3\)"):
        models.MLP()
    with pytest.raises(ValueError, match="no widths"):
        models.MLP(widths=[])


def smoothed(dtype="float32"):
    """Returns inputs, their labels, and the smoothed labels."""
    inputs = np.random.default_rng(0).normal(size=(90, 4)).astype("float32")
    labels = inputs[:, :3].argmax(1)
    return inputs, labels, (0.9 * np.eye(3)[labels] + 0.1 / 3).astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("kind", [models.MLP, models.NeuralNetwork])
def test_rows_of_probabilities_are_learned_as_such(kind, dtype):
    inputs, labels, targets = smoothed(dtype)
    model = kind(4, 16, 3, verbose=False, random_state=0, learning_rate=0.03)
    model.fit(inputs, targets, epochs=30, validation_data=(inputs, labels))
    classes = model.predict(inputs) if kind is models.MLP else model.predict_classes(inputs)
    assert (classes == labels).mean() > 0.95 and model.score(inputs, labels) > 0.95
    assert list(model.classes_) == [0, 1, 2]
    # The loss is the cross-entropy with the probabilities, not a regression error, and is at least
    # their entropy.
    entropy = -(targets.astype("float64") * np.log(targets.astype("float64"))).sum(1).mean()
    assert entropy < model.loss_ < entropy + 0.3
    assert model.score(inputs, targets) == model.score(inputs, labels)


def test_rows_of_probabilities_as_tensors_weighted_and_as_numbers():
    inputs, labels, targets = smoothed()
    model = models.MLP(4, 16, 3, verbose=False, random_state=0)
    model.fit(ternion.tensor(inputs), ternion.tensor(targets), epochs=2, sample_weight=np.ones(90))
    unweighted = models.MLP(4, 16, 3, verbose=False, random_state=0).fit(inputs, targets, epochs=2)
    np.testing.assert_allclose(model.loss_curve_, unweighted.loss_curve_, rtol=1e-5)
    assert model._estimator_type == "classifier"
    # Rows are regression targets if the task says so, or if they are not distributions.
    assert models.MLP(4, 3, task="regression", verbose=False).fit(inputs, targets, epochs=1)._estimator_type == "regressor"
    assert models.MLP(4, 3, verbose=False).fit(inputs, targets * 1.1, epochs=1)._estimator_type == "regressor"
    assert models.MLP(4, 3, verbose=False).fit(inputs, targets - targets.mean(1, keepdims=True), epochs=1)._estimator_type == "regressor"
