"""`F.linear_cross_entropy` compared with `F.linear` and `F.cross_entropy`: values and gradients, in
chunks of any number of rows."""

import pytest

import ternion
from ternion.nn import functional as F

ROWS, WIDTH, CLASSES = 11, 6, 7
LABELS = [3, 0, 6, 2, 2, 5, 1, 4, 0, 6, 3]
IGNORING = [3, -100, 6, 2, -100, 5, 1, 4, 0, -100, 3]


def parameters(dtype):
    ternion.manual_seed(5)
    shapes = [(ROWS, WIDTH), (CLASSES, WIDTH), (CLASSES,)]
    return [ternion.randn(*shape).to(dtype).requires_grad_() for shape in shapes]


def composed(x, weight, bias, target, class_weights=None, **options):
    return F.cross_entropy(F.linear(x, weight, bias), target, class_weights, **options)


def chunked(x, weight, bias, target, class_weights=None, **options):
    return F.linear_cross_entropy(x, weight, target, linear_bias=bias, weight=class_weights, **options)


def answers(f, inputs, target, *rest, **options):
    """Returns a loss and the gradients of its inputs. For several losses, the gradients are those
    of a weighted sum."""
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    loss = f(*leaves, target, *rest, **options)
    weighed = loss if loss.ndim == 0 else (loss * ternion.arange(1, loss.numel() + 1).to(loss.dtype).reshape(loss.shape)).sum()
    (3 * weighed).backward()
    return [loss.detach(), *(leaf.grad for leaf in leaves)]


def assert_close(actual, expected, tolerance):
    for own, right in zip(actual, expected):
        assert own.shape == right.shape
        assert (own.double() - right.double()).abs().max().item() <= tolerance * max(1.0, right.double().abs().max().item())


@pytest.mark.parametrize("chunk_rows", [None, 1, 4, ROWS, 100])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"reduction": "sum"}, {"reduction": "none"}, {"label_smoothing": 0.2}, {"label_smoothing": 0.2, "reduction": "sum"}, {"ignore_index": 2}, {"ignore_index": 2, "label_smoothing": 0.1},
    ],
)  # fmt: skip
def test_it_is_cross_entropy_of_linear(options, chunk_rows):
    for labels in (LABELS, [label if label >= 0 else options.get("ignore_index", label) for label in IGNORING]):
        inputs, target = parameters(ternion.float64), ternion.tensor(labels)
        expected = answers(composed, inputs, target, **options)
        assert_close(answers(chunked, inputs, target, chunk_rows=chunk_rows, **options), expected, 1e-12)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_weights_of_classes_and_probabilities(reduction):
    inputs, class_weights = parameters(ternion.float64), ternion.linspace(0.5, 2.0, CLASSES).double()
    probabilities = ternion.randn(ROWS, CLASSES).double().softmax(1)
    for target in (ternion.tensor(IGNORING), probabilities):
        expected = answers(composed, inputs, target, class_weights, reduction=reduction)
        assert_close(answers(chunked, inputs, target, class_weights, reduction=reduction, chunk_rows=4), expected, 1e-12)


@pytest.mark.parametrize("dtype", [ternion.float32, ternion.bfloat16, ternion.float16])
def test_lower_precision(dtype):
    inputs, target = parameters(dtype), ternion.tensor(IGNORING)
    result = answers(chunked, inputs, target, chunk_rows=4)
    assert [tensor.dtype for tensor in result] == [dtype] * 4
    # bf16 has eight significant bits, and there are a few roundings.
    tolerance = {ternion.float32: 1e-6, ternion.float16: 2e-3, ternion.bfloat16: 1.6e-2}[dtype]
    assert_close(result, answers(composed, [tensor.double() for tensor in inputs], target), tolerance)


def test_inside_autocast():
    inputs, target = parameters(ternion.float32), ternion.tensor(IGNORING)
    with ternion.amp.autocast("cpu", ternion.bfloat16):
        result = answers(chunked, inputs, target, chunk_rows=4)
    assert [tensor.dtype for tensor in result] == [ternion.float32] * 4
    assert_close(result, answers(composed, inputs, target), 1.6e-2)


def test_tokens_of_several_sequences_and_of_none():
    x, weight, _ = parameters(ternion.float64)
    target = ternion.tensor(LABELS[:10], dtype=ternion.uint8)
    full = F.linear_cross_entropy(x[:10], weight, target)
    assert F.linear_cross_entropy(x[:10].reshape(2, 5, WIDTH), weight, target.reshape(2, 5)).item() == pytest.approx(full.item())
    assert F.linear_cross_entropy(x[:10].reshape(2, 5, WIDTH), weight, target.reshape(2, 5), reduction="none").shape == (2, 5)
    assert F.linear_cross_entropy(x[0], weight, target[0].long()).item() == pytest.approx(composed(x[:1], weight, None, target[:1]).item())


def test_without_gradients_and_of_a_frozen_layer():
    x, weight, bias = parameters(ternion.float64)
    target = ternion.tensor(LABELS)
    loss = F.linear_cross_entropy(x.detach(), weight.detach(), target, linear_bias=bias.detach(), chunk_rows=3)
    assert not loss.requires_grad and loss.item() == pytest.approx(composed(x, weight, bias, target).item())
    F.linear_cross_entropy(x, weight.detach(), target, linear_bias=bias.detach(), chunk_rows=3).backward()
    result = x.grad.clone()
    x.grad = None
    composed(x, weight.detach(), bias.detach(), target).backward()
    assert_close([result], [x.grad], 1e-12)
    assert weight.grad is None and bias.grad is None


@pytest.mark.parametrize(
    "call, kind, message",
    [
        (lambda x, w, t: F.linear_cross_entropy(x, w, t, chunk_rows=0), ValueError, "linear_cross_entropy: chunk_rows 0, expected at least 1"),
        (lambda x, w, t: F.linear_cross_entropy(x, w, t + 7), IndexError, r"linear_cross_entropy: index \d+ is out of range for size 7"),
        (lambda x, w, t: F.linear_cross_entropy(x, w, t, reduction="max"), ValueError, 'linear_cross_entropy: reduction "max"'),
        (lambda x, w, t: F.linear_cross_entropy(x, w, t[:3]), ValueError, r"linear_cross_entropy: target has shape \[3\], expected \[11\]"),
        (lambda x, w, t: F.linear_cross_entropy(x, w[:, :3], t), ValueError, "inner sizes 6 and 3 differ"),
        (lambda x, w, t: F.linear_cross_entropy(x, w, t, chunk_rows=1.5), TypeError, "linear_cross_entropy: "),
        (lambda x, w, t: F.linear_cross_entropy(x, [1.0], t), TypeError, "linear_cross_entropy: "),
    ],
)
def test_what_is_wrong(call, kind, message):
    x, weight, _ = parameters(ternion.float32)
    with pytest.raises(kind, match=message):
        call(x, weight, ternion.tensor(LABELS))
