"""Small training runs, each with a planted fault of its inputs, targets or loss, as in
test_planted_trainings.py."""

import warnings

import pytest
from planted import FAULTS, checks_of, mlp, names, reported, watched

import ternion
from ternion import nn

F = nn.functional


test_a_planted_fault_is_named, test_the_same_training_without_the_fault_reports_nothing = checks_of(__name__)


@pytest.mark.parametrize("training, words", FAULTS[__name__])
def test_an_input_that_is_at_fault_is_not_taken_for_a_layer_that_is(training, words):
    result = reported(training, True)
    assert "Exploding" not in result and "Vanishing" not in result, result


# ---- Inputs


@names("UnscaledInput input: its root mean square is 1.0e-6", "subtract the mean and divide by the standard deviation")
def inputs_that_are_too_small(planted):
    """The unit of the inputs is a million times too large: the output of the first layer is its
    bias."""
    return watched(mlp(8, 16, 4), x=ternion.randn(16, 8) * (1e-6 if planted else 1.0))


@names("UnscaledInput input: its root mean square is 1.0e-6")
def inputs_that_are_too_small_for_layers_without_bias(planted):
    """The same before a first layer without a bias: the bias of the second layer dominates."""
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.ReLU(), nn.Linear(16, 4))
    return watched(model, x=ternion.randn(16, 8) * (1e-6 if planted else 1.0))


@names("UnscaledInput input: its root mean square is 1.0e-6", "far less than the eps of the norm that takes it, 1e-5")
def inputs_that_are_too_small_for_a_norm(planted):
    """The same before a batch norm, whose eps dominates."""
    model = nn.Sequential(nn.BatchNorm1d(8), nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return watched(model, x=ternion.randn(16, 8) * (1e-6 if planted else 1e-2))


@names("UnscaledInput input: its root mean square is ", "divide bytes by 255")
def a_feature_that_is_far_too_large(planted):
    """One column has another unit than the others."""
    x = ternion.randn(16, 8)
    x[:, 3] *= 1e5 if planted else 1.0
    return watched(mlp(8, 16, 4), x=x, rate=1e-9)


@names("UnscaledInput input: all of its 16 examples were the same in each of the last 5 readings")
def examples_that_are_all_the_same(planted):
    """A data loader that returns the same example repeatedly."""
    x = ternion.randn(1, 8).expand(16, 8).clone() if planted else ternion.randn(16, 8)
    return watched(mlp(8, 16, 4), x=x, steps=5)


@names("UnscaledInput input: its root mean square is 1", "divide bytes by 255")
def bytes_that_the_model_casts(planted):
    """Images of bytes, which the model converts to floats but does not divide."""

    class Casts(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(8, 4)

        def forward(self, x):
            return self.layer(x.float() if planted else x.float() / 255)

    return watched(Casts(), x=ternion.randint(0, 256, (16, 8)).to(ternion.uint8), rate=1e-9)


@names("NotFinite 2: ", "a target that is NaN")
def a_target_that_is_nan(planted):
    """A target is NaN: all outputs are finite, the gradient is not."""
    target = ternion.randn(16, 4)
    target[1, 1] = float("nan") if planted else 0.0
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.mse_loss(output, target))


# ---- Losses

LABELS = ternion.arange(16) % 4


@names("nll_loss: its input is the output of softmax; nll_loss takes log-probabilities", "NoLogProbabilities 2: its output is taken for log-probabilities by nll_loss")
def probabilities_as_log_probabilities(planted):
    """nll_loss is given the output of softmax."""
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.nll_loss(output.softmax(1) if planted else output.log_softmax(1), LABELS))


@names("nll_loss: rows of its input are not log-probabilities", "NoLogProbabilities 2: ")
def logits_as_log_probabilities(planted):
    """nll_loss is given logits."""
    return watched(mlp(8, 16, 4), loss_of=lambda output: nn.NLLLoss()(output if planted else output.log_softmax(1), LABELS))


@names("nll_loss: rows of its input are not log-probabilities", "dim=1", "NoLogProbabilities 3: ")
def a_log_softmax_over_the_batch(planted):
    """The log-softmax is along the axis of examples."""
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), nn.LogSoftmax(0 if planted else 1))
    return watched(model, loss_of=lambda output: F.nll_loss(output, LABELS))


@names("kl_div: its input is the output of softmax; kl_div takes log-probabilities as input")
def probabilities_in_a_divergence(planted):
    """kl_div is given the output of softmax."""
    target = ternion.randn(16, 4).softmax(1)
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.kl_div(output.softmax(1) if planted else output.log_softmax(1), target, reduction="batchmean"))


@names("cross_entropy: its input is the output of softmax; cross_entropy applies softmax itself: give it the logits")
def a_softmax_in_front_of_the_cross_entropy_without_a_monitor(planted):
    """A softmax before the cross-entropy, without a monitor."""
    logits = mlp(8, 16, 4)(ternion.randn(16, 8))
    F.cross_entropy(logits.softmax(1) if planted else logits, LABELS).backward()


@names("cross_entropy: its input is the output of sigmoid; cross_entropy applies softmax to logits")
def a_sigmoid_in_front_of_the_cross_entropy(planted):
    """A sigmoid before the cross-entropy."""
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.cross_entropy(output.sigmoid() if planted else output, LABELS))


@names("binary_cross_entropy_with_logits: its input is the output of sigmoid; binary_cross_entropy_with_logits applies sigmoid itself")
def a_sigmoid_in_front_of_the_loss_of_logits_without_a_monitor(planted):
    """A sigmoid before a loss that applies one itself, without a monitor."""
    logits, target = mlp(8, 16, 1)(ternion.randn(16, 8)), (LABELS % 2).float().unsqueeze(1)
    F.binary_cross_entropy_with_logits(logits.sigmoid() if planted else logits, target).backward()


@names("binary_cross_entropy_with_logits: target has numbers from 0 to 3, expected 0 to 1")
def classes_in_the_loss_of_two(planted):
    """Indices of four classes as targets of the binary cross-entropy."""
    target = (LABELS if planted else LABELS % 2).float().unsqueeze(1)
    return watched(mlp(8, 16, 1), loss_of=lambda output: nn.BCEWithLogitsLoss()(output, target))


@names("multilabel_soft_margin_loss: target has numbers from -1 to 1, expected 0 to 1")
def signs_in_a_loss_of_probabilities(planted):
    """-1 and 1 as targets of a loss that expects 0 and 1."""
    target = (ternion.randn(16, 4) > 0).float()
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.multilabel_soft_margin_loss(output, 2 * target - 1 if planted else target))


@names("soft_margin_loss: target has 0 where the loss takes -1 and 1")
def labels_in_a_loss_of_signs(planted):
    """0 and 1 as targets of a loss that expects -1 and 1."""
    target = (ternion.randn(16, 4) > 0).float()
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.soft_margin_loss(output, target if planted else 2 * target - 1))


@names("binary_cross_entropy: input has numbers outside 0 to 1")
def logits_in_a_loss_of_probabilities(planted):
    """Logits instead of probabilities."""
    target = (LABELS % 2).float().unsqueeze(1)
    return watched(mlp(8, 16, 1), loss_of=lambda output: F.binary_cross_entropy(output if planted else output.sigmoid(), target))


@names("BroadcastTarget 2: its outputs [16, 1] meet numbers of shape [16] in sub, and are broadcast to [16, 16]")
def a_target_that_is_broadcast(planted):
    """Predictions `[n, 1]` minus targets `[n]`, without a loss function."""
    target = ternion.randn(16) if planted else ternion.randn(16, 1)
    return watched(mlp(8, 16, 1), loss_of=lambda output: ((output - target) ** 2).mean())


@names("BroadcastTarget 2: its outputs [16] meet numbers of shape [16, 1] in sub")
def a_target_that_is_broadcast_the_other_way(planted):
    """Targets `[n, 1]` minus predictions `[n]`."""
    target = ternion.randn(16, 1) if planted else ternion.randn(16)
    return watched(mlp(8, 16, 1), loss_of=lambda output: (target - output.squeeze(1)).abs().mean())


@names("BroadcastTarget 2: its outputs [16, 1] meet numbers of shape [16] in mul")
def a_weight_that_is_broadcast(planted):
    """Outputs `[n, 1]` times a weight `[n]` for each, like the advantages of a policy."""
    weight = ternion.randn(16) if planted else ternion.randn(16, 1)
    return watched(mlp(8, 16, 1), loss_of=lambda output: (output * weight).mean())


def test_what_losses_compute_is_what_it_was():
    """A warning changes no result: PyTorch programs still run. Nothing is reported for tensors that
    are not outputs of a model, or that are read without a gradient."""
    logits, target = ternion.randn(16, 4, requires_grad=True), (ternion.randn(16, 4) > 0).float()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        F.nll_loss(logits, LABELS), F.cross_entropy(logits.detach().softmax(1), LABELS), F.soft_margin_loss(logits, target)
        F.binary_cross_entropy_with_logits(logits, 3 * target)
        assert F.cross_entropy((logits * 1).log_softmax(1), LABELS).item() == pytest.approx(F.cross_entropy(logits, LABELS).item(), rel=1e-6)
    with pytest.warns(UserWarning, match="nll_loss: rows"):
        assert F.nll_loss(logits * 1, LABELS).item() == F.nll_loss(logits, LABELS).item()


@pytest.mark.parametrize(
    "loss, input, target, hint",
    [
        (F.binary_cross_entropy_with_logits, ternion.randn(4), ternion.tensor([0, 1, 0, 1]), "target is int64, expected a floating dtype: target.float() makes it one"),
        (F.binary_cross_entropy_with_logits, ternion.tensor([0, 1]), ternion.rand(2), "input is int64, expected a floating dtype: input.float() makes it one"),
        (F.binary_cross_entropy, ternion.rand(4), ternion.tensor([0, 1, 0, 1]), "target is int64, expected a floating dtype: target.float() makes it one"),
        (F.multilabel_soft_margin_loss, ternion.randn(2, 3), ternion.ones(2, 3).bool(), "target is bool, expected a floating dtype: target.float() makes it one"),
        (F.kl_div, ternion.randn(4), ternion.tensor([0, 1, 0, 1]), "target is int64, expected a floating dtype: target.float() makes it one"),
        (F.nll_loss, ternion.randn(4, 3), ternion.tensor([0.0, 1, 0, 1]), "target is float32, expected int32 or int64: target.long() makes it one"),
        (F.nll_loss, ternion.ones(4, 3).long(), ternion.tensor([0, 1, 0, 1]), "input is int64, expected a floating dtype: input.float() makes it one"),
        (F.cross_entropy, ternion.randn(2, 3), ternion.tensor([True, False]), "target is bool, expected int32 or int64: target.long() makes it one"),
        (F.cross_entropy, ternion.ones(2, 3).long(), ternion.tensor([0, 1]), "is int64, expected a floating dtype: input.float() makes it one"),
        (F.multi_margin_loss, ternion.randn(2, 3), ternion.tensor([0.0, 1]), "target is float32, expected int32 or int64: target.long() makes it one"),
        (F.embedding, ternion.tensor([0.0, 1]), ternion.randn(4, 3), "float32, expected int32 or int64: indices.long() makes it one"),
    ],
)  # fmt: skip
def test_a_rejected_dtype_is_reported_with_its_cast(loss, input, target, hint):
    with pytest.raises(TypeError) as raised:
        loss(input, target)
    assert str(raised.value).startswith(f"{loss.__name__}: ") and hint in str(raised.value)
