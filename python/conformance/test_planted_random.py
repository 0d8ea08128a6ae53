"""Functions that draw wrong random numbers: the suite of PyTorch's database reports each as wrong,
and Ternion's as correct."""

import pytest

torch = pytest.importorskip("torch")

import ternion  # noqa: E402
from ternion.nn import functional as F  # noqa: E402
from torch_database import checks, names, run, samples  # noqa: E402


@pytest.fixture(scope="module")
def entries():
    return {names.name_of(entry): entry for entry in run.database()}


def failures_of(entries, name, function=None, short="f32", where=lambda sample: True):
    """Returns the failures of the first sample that fits, with `function` instead of Ternion's."""
    entry = entries[name]
    subject = checks.Subject(entry, names.function_of(entry), "cpu")
    subject.function = function or subject.function
    return checks.run_sample(subject, next(sample for sample in samples.samples_of(entry, short).values() if where(sample)))


def _seeds(*size, **kwargs):
    """Returns the same numbers for each draw."""
    ternion.manual_seed(4)
    return ternion.randn(*size, **kwargs)


def _one_number(*size, **kwargs):
    """Returns the same number for all elements."""
    return ternion.randn(1, **kwargs).expand(*size).clone()


def _kept(x, p=0.5, training=True, inplace=False):
    return x * (1 / (1 - p)) if p < 1 else x * 0


def _dropped(x, p=0.5, training=True, inplace=False):
    return x * 0


def _dropped_without_factor(x, p=0.5, training=True, inplace=False):
    return x * (ternion.rand(*x.shape) >= p).to(x.dtype)


def _all_or_none(x, p=0.5, training=True, inplace=False):
    return F.dropout(x, 0.0) * 2 * (ternion.rand(1) < 0.5).to(x.dtype)


def _too_few_dropped(x, p=0.5, training=True, inplace=False):
    return x * (1 / (1 - p)) * (ternion.rand(*x.shape) >= p / 2).to(x.dtype)


def _elements_dropped(x, p=0.5, training=True, inplace=False):
    return F.dropout(x, p)


def _alpha_without_affine(x, p=0.5, training=True, inplace=False):
    mask = (ternion.rand(*x.shape) >= p).to(x.dtype)
    return x * mask + (1 - mask) * -1.7580993408473766


def _first_category(weights, count, replacement=False):
    return ternion.zeros(*weights.shape[:-1], count, dtype=ternion.int64)


def _uniform_categories(weights, count, replacement=False):
    return ternion.multinomial(ternion.ones_like(weights), count, replacement)


def _repeated_categories(weights, count, replacement=False):
    return ternion.multinomial(weights, count, True)


def _attention_without_dropout(query, key, value, **kwargs):
    return F.scaled_dot_product_attention(query, key, value, **{**kwargs, "dropout_p": 0.0})


def _attention_without_scale(query, key, value, dropout_p=0.0, **kwargs):
    return F.scaled_dot_product_attention(query, key, value, dropout_p=dropout_p, **kwargs) * (1 - dropout_p)


def _attention_with_more_dropout(query, key, value, dropout_p=0.0, **kwargs):
    return F.scaled_dot_product_attention(query, key, value, dropout_p=1 - (1 - dropout_p) / 2, **kwargs)


def _rows_dropped(query, key, value, dropout_p=0.0, **kwargs):
    return F.dropout(F.scaled_dot_product_attention(query, key, value, **kwargs), dropout_p)


def _pool_at_one_distance(x, *args, **kwargs):
    samples = ternion.full((*x.shape[:2], x.ndim - 2), 0.8)
    return F.fractional_max_pool2d(x, *args, **{**kwargs, "_random_samples": samples})


def _pool_with_wrong_indices(x, *args, **kwargs):
    values, indices = F.fractional_max_pool2d(x, *args, **kwargs)
    return values, indices * 0


def _pool_of_means(x, *args, **kwargs):
    result = F.fractional_max_pool2d(x, *args, **kwargs)
    return (result[0] * 0.9, result[1]) if isinstance(result, tuple) else result * 0.9


def _drops(sample):
    return sample.input.numel() >= 5 and sample.kwargs.get("p", 0.5) == 0.5 and sample.kwargs.get("training", True)


def _drops_attention(sample):
    return sample.kwargs["dropout_p"] > 0


def _returns_indices(sample):
    return sample.kwargs.get("return_indices") and sample.kwargs.get("_random_samples") is None


def _moves_windows(sample):
    """In most samples the distance between windows is constant, an integer."""
    return sample.args == ((4, 4),) and sample.kwargs.get("output_size") == (2, 3)


def _is_several(sample):
    return sample.input.numel() >= 3


def _is_not_replaced(sample):
    return sample.input.shape[-1] > 3 and not (sample.args[1:] and sample.args[1]) and not sample.kwargs.get("replacement")


def _anything(sample):
    return True


FAULTS = [
    ("randn", lambda *size, **kwargs: ternion.randn(*size, **kwargs) * 0.1, _anything),
    ("randn", lambda *size, **kwargs: ternion.randn(*size, **kwargs) + 0.5, _anything),
    ("randn", lambda *size, **kwargs: ternion.rand(*size, **kwargs), _anything),
    ("randn", _seeds, _anything),
    ("randn", _one_number, _anything),
    ("randn_like", lambda x, **kwargs: ternion.zeros_like(x, **kwargs), _is_several),
    ("normal", lambda mean, std, **kwargs: mean + ternion.randn(*mean.shape) * std.mean() * 2, _is_several),
    ("rand_like", lambda x, **kwargs: ternion.rand_like(x, **kwargs) * 0.5, _is_several),
    ("rand_like", lambda x, **kwargs: ternion.rand_like(x, **kwargs) + 0.5, _is_several),
    ("uniform", lambda x, low, high: x.uniform_(low, (low + high) / 2), _is_several),
    ("exponential", lambda x, rate: x.exponential_(rate * 2), _is_several),
    ("log_normal", lambda x, mean, std: x.log_normal_(mean, std * 3), _is_several),
    ("cauchy", lambda x, median, scale: x.cauchy_(median, scale * 3), _is_several),
    ("geometric", lambda x, chance: x.geometric_(chance / 2), _is_several),
    ("randint", lambda *args, **kwargs: ternion.randint(*args, **kwargs) * 0 + 5, lambda sample: sample.args[-1] == (5, 5)),
    ("bernoulli", lambda x, **kwargs: x * 0, _is_several),
    ("bernoulli", lambda x, **kwargs: x * 0 + 1, _is_several),
    ("bernoulli", lambda x, **kwargs: ternion.bernoulli(x * 0 + 0.5, **kwargs), lambda sample: sample.input.numel() > 20),
    ("bernoulli", lambda x, **kwargs: ternion.bernoulli(x, **kwargs) * 0.5, _is_several),
    ("multinomial", _first_category, _is_several),
    ("multinomial", _uniform_categories, lambda sample: sample.input.shape[-1] > 3),
    ("multinomial", _repeated_categories, _is_not_replaced),
    ("nn.functional.dropout", _kept, _drops),
    ("nn.functional.dropout", _dropped, _drops),
    ("nn.functional.dropout", _dropped_without_factor, _drops),
    ("nn.functional.dropout", _all_or_none, _drops),
    ("nn.functional.dropout", _too_few_dropped, _drops),
    ("nn.functional.dropout2d", _elements_dropped, _drops),
    ("nn.functional.dropout3d", _dropped, _drops),
    ("nn.functional.alpha_dropout", _alpha_without_affine, _drops),
    ("nn.functional.alpha_dropout", lambda x, *args, **kwargs: x * 1, _drops),
    ("nn.functional.feature_alpha_dropout.with_train", lambda x, *args, **kwargs: F.alpha_dropout(x, 0.5, True), _drops),
    ("nn.functional.rrelu", lambda x, **kwargs: ternion.where(x > 0, x, x * 0.5), lambda sample: sample.kwargs.get("training") and sample.input.numel() > 5),
    ("nn.functional.scaled_dot_product_attention", _attention_without_dropout, _drops_attention),
    ("nn.functional.scaled_dot_product_attention", _attention_without_scale, _drops_attention),
    ("nn.functional.scaled_dot_product_attention", _attention_with_more_dropout, _drops_attention),
    ("nn.functional.scaled_dot_product_attention", _rows_dropped, _drops_attention),
    ("nn.functional.fractional_max_pool2d", _pool_at_one_distance, _moves_windows),
    ("nn.functional.fractional_max_pool2d", _pool_with_wrong_indices, _returns_indices),
    ("nn.functional.fractional_max_pool2d", _pool_of_means, _returns_indices),
]


@pytest.mark.parametrize("name, function, where", FAULTS, ids=[f"{name}-{number}" for number, (name, _, _) in enumerate(FAULTS)])
def test_wrong_random_numbers_are_found(entries, name, function, where):
    result = failures_of(entries, name, function, where=where)
    assert [(failure.form, failure.kind) for failure in result][:1] == [("function", "wrong value")], result


@pytest.mark.parametrize("name, where", dict.fromkeys((name, where) for name, _, where in FAULTS))
def test_those_of_ternion_are_right(entries, name, where):
    assert failures_of(entries, name, where=where) == []


def test_a_wrong_method_is_found(entries, monkeypatch):
    monkeypatch.setattr(ternion.Tensor, "bernoulli", lambda x, *args, **kwargs: x * 0)
    result = failures_of(entries, "bernoulli", where=_is_several)
    assert [(failure.form, failure.kind) for failure in result] == [("method", "wrong value")]


def test_a_wrong_form_in_place_is_found(entries):
    def function(x, p=0.5, training=True, inplace=False):
        return x.zero_() if inplace else F.dropout(x, p, training)

    result = failures_of(entries, "nn.functional.dropout", function, where=_drops)
    assert [(failure.form, failure.kind) for failure in result] == [("in place", "wrong value")]


def test_a_function_that_draws_in_dense_memory_alone_is_found(entries):
    function = lambda x, *args, **kwargs: F.dropout(x, *args, **kwargs) if x.is_contiguous() else x * 0  # noqa: E731
    result = failures_of(entries, "nn.functional.dropout", function, where=lambda sample: _drops(sample) and sample.input.ndim == 2)
    assert ("not contiguous", "wrong value") in [(failure.form, failure.kind) for failure in result]


@pytest.mark.parametrize("short", ["f32", "f64"])
def test_a_wrong_gradient_of_numbers_that_are_drawn_is_found(entries, short):
    def function(x, *args, **kwargs):
        result = F.dropout(x, *args, **kwargs)
        return result * 2 - result.detach()

    assert failures_of(entries, "nn.functional.dropout", short=short, where=_drops) == []
    result = failures_of(entries, "nn.functional.dropout", function, short, _drops)
    assert ("gradient", "wrong gradient") in [(failure.form, failure.kind) for failure in result]


def test_a_gradient_of_what_is_no_function_of_the_input_is_found(entries):
    function = lambda x: ternion.bernoulli(x) + x - x.detach()  # noqa: E731
    result = failures_of(entries, "bernoulli", function, where=_is_several)
    assert ("gradient", "wrong gradient") in [(failure.form, failure.kind) for failure in result]


def test_a_gradient_that_is_missing_is_found(entries):
    result = failures_of(entries, "nn.functional.dropout", lambda x, *args, **kwargs: F.dropout(x, *args, **kwargs).detach(), where=_drops)
    assert ("gradient", "wrong gradient") in [(failure.form, failure.kind) for failure in result]
