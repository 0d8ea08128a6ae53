"""Small training runs, each with a planted fault. What the user sees (a warning, an error, a
sentence of StatsMonitor) names the op, layer or parameter. Without the fault, nothing is reported.

Each function runs training with or without its fault, and returns the report of StatsMonitor if it
uses one.
"""

import math

import pytest
from planted import FAULTS, checks_of, mlp, names, scaled, watched

import ternion
from ternion import amp, autograd, nn, optim, testing

F = nn.functional

test_a_planted_fault_is_named, test_the_same_training_without_the_fault_reports_nothing = checks_of(__name__)


def test_there_are_at_least_twenty():
    assert len(FAULTS[__name__]) >= 20 and all(fault.values[0].__doc__ for faults in FAULTS.values() for fault in faults)


# ---- Magnitudes of outputs, gradients and steps


@names("ExplodingOutputs 4: outputs explode from layer to layer")
def outputs_that_explode(planted):
    """The weights of one layer are a million times too large."""
    model = mlp(16, 16, 16, 16, 16)
    scaled([model[4].weight], 1e6 if planted else 1.0)
    return watched(model, rate=1e-15, x=ternion.randn(16, 16))


@names("ExplodingGradients 0: gradients explode in the backward pass: at 0")
def gradients_that_explode(planted):
    """Initial weights with a standard deviation of 1 in each of eight layers."""
    model = mlp(*[32] * 9)
    for layer in model if planted else []:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight)
    return watched(model, rate=1e-15, x=ternion.randn(16, 32))


@names("VanishingGradients 0: gradients vanish in the backward pass")
def gradients_that_vanish(planted):
    """Eight consecutive sigmoids."""
    model = mlp(*[16] * 9, activation=nn.Sigmoid if planted else nn.ReLU)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
    return watched(model, x=ternion.randn(16, 16), loss_of=lambda output: (output - 1).square().mean())


@names("DeadReLU 1: all its outputs are 0")
def units_that_are_dead(planted):
    """Biases so far below 0 that no ReLU unit is active."""
    model = mlp(8, 16, 4)
    if planted:
        nn.init.constant_(model[0].bias, -50.0)
    return watched(model, steps=2)


@names("Saturated 1: ", "where sigmoid is flat")
def a_sigmoid_that_is_saturated(planted):
    """Initial weights so large that a sigmoid saturates for each example."""
    model = mlp(8, 16, 4, activation=nn.Sigmoid)
    scaled(model[0].parameters(), 300.0 if planted else 1.0)
    return watched(model, steps=5, rate=1e-3)


@names("Saturated softmax after key: 100 % of its outputs are", "one of size 1 gives 1 for everything")
def a_softmax_along_the_wrong_axis(planted):
    """The softmax of attention is along the axis of heads, of which there is only one: all weights
    are 1."""

    class Attends(nn.Module):
        def __init__(self):
            self.query, self.key, self.value = nn.Linear(8, 8), nn.Linear(8, 8), nn.Linear(8, 8)

        def forward(self, x):
            query, key = self.query(x).unsqueeze(1), self.key(x).unsqueeze(1)
            weights = (query @ key.transpose(2, 3) / math.sqrt(8)).softmax(1 if planted else 3)
            return self.value((weights @ key).squeeze(1))

    return watched(Attends(), x=ternion.randn(4, 6, 8))


@names("ZeroGradient first: all gradients of its parameters", "a rounding")
def a_rounding_that_stops_gradients(planted):
    """A rounding after a layer, whose gradient is 0."""

    class Rounds(nn.Module):
        def __init__(self):
            self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, x):
            x = self.first(x)
            return self.last(x.round() if planted else x.relu())

    return watched(Rounds(), steps=5)


@names("LargeUpdates 2.weight: the step changed it by", "divide the learning rate by about")
def a_sum_instead_of_a_mean(planted):
    """The loss is the sum over the batch instead of the mean."""
    target = ternion.randn(512, 4)
    return watched(mlp(8, 16, 4), rate=0.05, x=ternion.randn(512, 8), loss_of=lambda output: F.mse_loss(output, target, reduction="sum" if planted else "mean"))


@names("SmallUpdates 2.weight: no weight changed by more than 0.000001 of its size", "the learning rate, or the gradients, are too small")
def a_loss_that_is_too_small(planted):
    """A loss that is divided by the size of the data once too often."""
    return watched(mlp(8, 16, 4), steps=5, loss_of=lambda output: output.square().mean() * (1e-7 if planted else 1.0))


@names("LargeUpdates 2.weight: the step changed it by")
def a_learning_rate_that_is_too_large(planted):
    """A learning rate a thousand times too large for Adam."""
    return watched(mlp(8, 16, 4), rate=1.0 if planted else 1e-3, optimizer=optim.AdamW)


@names("SGD: the gradients are those of a loss times 1024, by a GradScaler: call its step(optimizer)")
def a_scaled_loss_without_its_scaler(planted):
    """The loss is scaled for half precision, but the optimizer steps without the scaler."""
    model = mlp(8, 4)
    scaler, sgd = amp.GradScaler("cpu", init_scale=1024.0), optim.SGD(model.parameters(), lr=1e-3)
    scaler.scale(model(ternion.randn(3, 8)).square().mean()).backward()
    if planted:
        sgd.step()
    else:
        scaler.step(sgd)
    scaler.update()


@names("GradScaler: no loss was scaled since the last update(), but the gradients of SGD are divided by 1024")
def a_scaler_without_a_scaled_loss(planted):
    """The backward pass starts from the unscaled loss, but the scaler divides its gradients."""
    model = mlp(8, 4)
    scaler, sgd = amp.GradScaler("cpu", init_scale=1024.0), optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(2):
        sgd.zero_grad()
        loss = model(ternion.randn(3, 8)).square().mean()
        (loss if planted else scaler.scale(loss)).backward()
        scaler.step(sgd)
        scaler.update()


@names("StepLR: its step() was called before that of AdamW, which skips the first learning rate")
def a_schedule_before_its_optimizer(planted):
    """The schedule steps before the optimizer does."""
    model = mlp(8, 4)
    adam = optim.AdamW(model.parameters(), lr=1e-3)
    schedule = optim.lr_scheduler.StepLR(adam, 2)
    for _ in range(3):
        adam.zero_grad()
        model(ternion.randn(3, 8)).square().mean().backward()
        for each in (schedule, adam) if planted else (adam, schedule):
            each.step()


# ---- The loss and its data


@names("DoubleActivation 3: its output goes into", "give them the logits")
def a_softmax_before_the_cross_entropy(planted):
    """The model ends with a softmax, and cross_entropy applies another one."""
    layers = [nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), *([nn.Softmax(dim=1)] if planted else [])]
    labels = ternion.randint(0, 4, (16,))
    return watched(nn.Sequential(*layers), loss_of=lambda output: F.cross_entropy(output, labels))


@names("DoubleActivation sigmoid", "the cross-entropy of logits applies sigmoid itself", "the softplus of a cross-entropy of logits")
def a_sigmoid_before_the_loss_of_logits(planted):
    """A sigmoid before a loss that applies one itself."""
    target = (ternion.randn(16, 1) > 0).float()

    def loss_of(output):
        return F.binary_cross_entropy_with_logits(output.sigmoid() if planted else output, target)

    return watched(mlp(8, 16, 1), loss_of=loss_of)


@names("cross_entropy: index 4 is out of range for size 4")
def labels_that_start_at_1(planted):
    """Labels that start at 1 for classes that start at 0."""
    labels = ternion.arange(16) % 4 + (1 if planted else 0)
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.cross_entropy(output, labels))


@names("cross_entropy: target is ternion.int64 of the input's shape (16, 4), as one-hot labels are", "target.argmax(1)", "target.float()")
def one_hot_labels_as_indices(planted):
    """Integer one-hot labels instead of class indices."""
    labels = ternion.arange(16) % 4
    labels = F.one_hot(labels, 4) if planted else labels
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.cross_entropy(output, labels))


@names("mse_loss: input has shape [16, 1] and target [16]: they are broadcast")
def a_target_of_another_shape(planted):
    """Predictions of shape [n, 1] and targets of shape [n]: all pairs are compared."""
    target = ternion.randn(16) if planted else ternion.randn(16, 1)
    return watched(mlp(8, 16, 1), loss_of=lambda output: F.mse_loss(output, target))


@names("NotFinite input: 1 of 128 numbers are infinite; clean the data")
def data_that_are_not_finite(planted):
    """An infinite number in the inputs."""
    x = ternion.randn(16, 8)
    x[3, 4] = math.inf if planted else 0.0
    return watched(mlp(8, 16, 4), x=x)


@names("UnscaledInput input: its root mean square is 1", "divide bytes by 255")
def images_that_are_not_normalized(planted):
    """Images of bytes, unmodified from the file."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
    images = ternion.rand(8, 1, 8, 8)
    return watched(model, rate=1e-6, x=images * 255 if planted else images)


@names("UnscaledInput input: all of its 128 numbers are 1e0")
def an_input_that_is_constant(planted):
    """A data loader that returns the same number everywhere."""
    return watched(mlp(8, 16, 4), x=ternion.ones(16, 8) if planted else None)


@names("embedding", "index 10 is out of range for size 10")
def a_token_beyond_the_vocabulary(planted):
    """A token that is not in the vocabulary."""
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 4))
    return watched(model, x=ternion.tensor([1, 9, 10 if planted else 0]))


# ---- Ops


@names("log: NaN in")
def the_logarithm_of_a_negative_number(planted):
    """The logarithm of numbers that may be negative."""
    with autograd.detect_anomaly():
        return watched(mlp(8, 16, 4), loss_of=lambda output: (output if planted else output.square() + 1e-3).log().mean())


@names("div: NaN in 64 of 64 elements", "its inputs had none")
def a_division_of_0_by_0(planted):
    """Rows are divided by their sum, which is 0."""

    def loss_of(output):
        output = output * (0 if planted else 1)
        return (output.square() / output.square().sum(1, keepdim=True)).mean()

    with autograd.detect_anomaly():
        return watched(mlp(8, 16, 4), loss_of=loss_of)


@names("softmax: NaN in 4 of 16 elements")
def a_mask_that_excludes_a_whole_row(planted):
    """A mask that excludes all keys of a row from the softmax."""
    hidden = ternion.ones(4, 4).triu(0 if planted else 1) > 0
    with autograd.detect_anomaly():
        return watched(mlp(8, 4), x=ternion.randn(4, 8), loss_of=lambda output: output.masked_fill(hidden, -math.inf).softmax(1).square().mean())


@names("matmul: NaN in ", "its inputs had none, but ", " of 128 elements of its input 0 are infinite")
def a_nan_that_results_from_infinity(planted):
    """An exponential that overflows, and a product that turns infinity into NaN."""
    with autograd.detect_anomaly():
        return watched(mlp(8, 4), x=(ternion.randn(16, 8) * (1e4 if planted else 0.1)).exp(), rate=1e-9)


FUNCTIONS = {
    "acos": (lambda x: x.acos(), 2.0), "asin": (lambda x: x.asin(), 2.0), "acosh": (lambda x: x.acosh(), 0.5), "atanh": (lambda x: x.atanh(), 2.0),
    "logit": (lambda x: x.logit(), 2.0), "log2": (lambda x: x.log2(), -1.0), "log10": (lambda x: x.log10(), -1.0), "erfinv": (lambda x: x.erfinv(), 2.0),
    "fmod": (lambda x: x.fmod(0.0), 1.0), "floor_divide": (lambda x: x // 0.0, 0.0), "remainder": (lambda x: x % 0.0, 1.0), "std": (lambda x: x.std(), 1.0),
    "sinc": (lambda x: x.sinc(), math.inf), "tan": (lambda x: x.tan(), math.inf),
    "kl_div": (lambda x: F.kl_div(x, -x), math.inf),
    "mul": (lambda x: x * 0.0, math.inf), "sub": (lambda x: x - math.inf, math.inf),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_makes_nan_is_named_as_it_was_called(name):
    function, value = FUNCTIONS[name]
    with autograd.detect_anomaly(), pytest.raises(RuntimeError, match=f"^{name}: NaN in 1 of 1 elements of output 0"):
        function(ternion.tensor([value]))


def test_what_a_function_does_not_give_is_no_nan():
    x = ternion.tensor([math.inf, 1.0])
    with autograd.detect_anomaly():
        assert x.isclose(x).tolist() == [True, True] and ternion.tensor([1e30]).asinh().isfinite().item()


@names("sqrt: NaN in", "of the gradient of its input 0", "the gradients that came to it had none")
def a_gradient_that_is_nan(planted):
    """The square root of 0, whose derivative is infinite, times 0: the loss is finite, its gradient
    is not."""

    def loss_of(output):
        return ((output * (0.0 if planted else 1.0)).square().sqrt() * (output * 0 if planted else 1)).sum() * 1e-3

    with autograd.detect_anomaly():
        return watched(mlp(8, 16, 4), loss_of=loss_of)


@names("NotFinite 2: ", "though all outputs are finite")
def a_gradient_that_is_infinite(planted):
    """The square root of 0 again, as reported by StatsMonitor."""
    return watched(mlp(8, 16, 4), loss_of=lambda output: (output.square() * (0 if planted else 1) + (0 if planted else 1e-3)).sqrt().mean())


@names("NotFinite 2: ", "2.weight holds such numbers already")
def a_weight_that_is_not_finite(planted):
    """A weight is NaN."""
    model = mlp(8, 16, 4)
    with ternion.no_grad():
        model[2].weight[0, 0] = math.nan if planted else 0.0
    return watched(model)


class Between(nn.Module):
    """Two layers, and an op between them."""

    def __init__(self, op, last=None):
        self.a, self.b, self.op = nn.Linear(8, 8), nn.Linear(8, 4) if last is None else last, op

    def forward(self, x):
        return self.b(self.op(self.a(x)))


@names("NotFinite log after a: it made the first NaN in the order of computation, of finite numbers (b: 64 of 64 outputs are NaN)")
def a_logarithm_between_layers(planted):
    """The logarithm of numbers that may be negative, in forward: the next layer receives NaN."""
    return watched(Between(ternion.log if planted else ternion.relu))


@names("NotFinite sqrt after a: it made the first NaN")
def a_root_between_layers(planted):
    """The square root of numbers that may be negative."""
    return watched(Between(ternion.sqrt if planted else ternion.relu))


@names("NotFinite div after a: it made the first infinite number in the order of computation, of finite ones (b: 64 of 64 outputs are NaN)")
def a_division_between_layers(planted):
    """A division by 0."""
    return watched(Between(lambda x: x / (x * 0 if planted else 2)))


@names("NotFinite acos after a: it made the first NaN")
def an_angle_between_layers(planted):
    """The arccosine of numbers outside its domain: the report names the function, not the ops it is
    composed of."""
    return watched(Between(lambda x: (9 * x).acos() if planted else x.cos()))


@names("NotFinite std after a: it made the first NaN")
def a_deviation_of_one_between_layers(planted):
    """The standard deviation of a single row."""
    return watched(Between(lambda x: x.relu() + x[: 1 if planted else 16].std(0)))


@names("NotFinite exp after a: it made the first infinite number")
def an_exponential_between_layers(planted):
    """An exponential that overflows, which the next layer turns into NaN."""
    return watched(Between(lambda x: (x * (1e4 if planted else 0.1)).exp()))


@names("NotFinite log after a: it made the first infinite number")
def a_logarithm_of_0_between_layers(planted):
    """A logarithm of 0."""
    return watched(Between(lambda x: x.relu().log() if planted else x.relu()))


@names("NotFinite log after a: it made the first NaN in the order of computation, of finite numbers (b: ")
def a_logarithm_in_front_of_an_identity(planted):
    """A logarithm, followed by a layer that computes nothing."""
    return watched(Between(ternion.log if planted else ternion.relu, nn.Identity()))


@names("NotFinite op: ", "its log made them")
def a_logarithm_in_a_layer(planted):
    """A logarithm in a custom layer: the report names the layer and the op."""

    class Logarithm(nn.Module):
        def forward(self, x):
            return x.log() * 2 if planted else x.relu()

    return watched(Between(Logarithm()))


@names("NotFinite softmax after a: 128 of 128 outputs are NaN", "look for a mask that hides a whole row")
def a_mask_between_layers(planted):
    """A mask that excludes whole rows: its infinities are intended, but the softmax produces
    NaN."""
    hidden = ternion.arange(8) < (8 if planted else 2)
    return watched(Between(lambda x: x.masked_fill(hidden, -math.inf).softmax(1)))


@names("NotFinite scale: it holds such numbers already (b: 64 of 64 outputs are NaN)", "an earlier step made them")
def a_parameter_between_layers_that_is_nan(planted):
    """A parameter that belongs to no layer is NaN."""
    model = Between(lambda x: x.relu() * model.scale)
    model.scale = nn.Parameter(ternion.full((8,), math.nan if planted else 1.0))
    return watched(model)


@names("NotFinite add after a: add was given numbers that are NaN (b: 64 of 64 outputs are NaN); clean the data")
def a_second_input_that_is_nan(planted):
    """Another input of the model than the first one is NaN."""
    second = ternion.tensor([math.nan if planted else 0.5] * 8)
    return watched(Between(lambda x: x.relu() + second))


@names("NotFinite 2: ", "its matmul made them", "numbers too large for the dtype")
def an_overflow_of_half_precision(planted):
    """Numbers outside the range of half precision."""
    model = mlp(8, 16, 4).half()
    scaled([model[2].weight], 6e4 if planted else 1.0)
    return watched(model, x=ternion.randn(16, 8).half() * (20 if planted else 1))


@names("square", "changed in place")
def a_tensor_that_is_changed_after_it_was_saved(planted):
    """A tensor that backward needs is overwritten before it."""

    def loss_of(output):
        loss = output.square().mean()
        if planted:
            with ternion.no_grad():
                output.zero_()
        return loss

    return watched(mlp(8, 16, 4), loss_of=loss_of)


@names("output 0", "input 0", "gradients that were given: that of Cube")
def a_custom_gradient_that_is_wrong(planted):
    """A Function whose backward lacks a factor."""

    class Cube(autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(ctx, grad):
            (x,) = ctx.saved_tensors
            return (1 if planted else 3) * x**2 * grad

    testing.gradcheck(lambda x: Cube.apply(x.tanh()).sum(), ternion.randn(3, dtype=ternion.float64, requires_grad=True))
