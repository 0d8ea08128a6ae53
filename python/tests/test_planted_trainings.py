"""Small trainings, each with a fault planted: what the user meets (a warning, an error, a sentence of StatsMonitor) names the op, layer or parameter, and without the fault there is nothing.

Each function makes a training with its fault, or without it, and returns what StatsMonitor says, if it watches.
"""

import copy
import math
import pickle
import warnings

import pytest

import ternion
from ternion import amp, autograd, nn, optim, testing

F = nn.functional
FAULTS = []


def names(*words):
    """Registers a training: with its fault, what is told has these words."""

    def register(training):
        FAULTS.append(pytest.param(training, words, id=training.__name__))
        return training

    return register


def told(training, planted):
    """All that a user meets: warnings, what the monitor says, and the error that ends the training."""
    ternion.manual_seed(7)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            said = training(planted) or []
        except (RuntimeError, ValueError, IndexError, TypeError) as error:
            said = [str(error)]
    return "\n".join([str(warning.message) for warning in caught] + said)


@pytest.mark.parametrize("training, words", FAULTS)
def test_a_planted_fault_is_named(training, words):
    found = told(training, True)
    for word in words:
        assert word in found, found


@pytest.mark.parametrize("training, words", FAULTS)
def test_the_same_training_without_the_fault_is_told_nothing(training, words):
    assert told(training, False) == ""


def test_there_are_at_least_twenty():
    assert len(FAULTS) >= 20 and all(fault.values[0].__doc__ for fault in FAULTS)


def watched(model, steps=1, rate=0.01, parameters=None, loss_of=None, x=None, optimizer=optim.SGD, **settings):
    """What a StatsMonitor says of a training by the mean square of what the model gives, or another loss of it."""
    x = ternion.randn(16, 8) if x is None else x
    monitor = nn.utils.StatsMonitor(model, every=1)
    made, said = optimizer(list(model.parameters() if parameters is None else parameters), lr=rate, **settings), []
    for step in range(steps):
        made.zero_grad()
        with monitor.watch(step):
            output = model(x)
            loss = output.square().mean() if loss_of is None else loss_of(output)
        loss.backward()
        said += [f"{warning.fault} {warning.text}" for warning in monitor.step(made).warnings]
    return said


def mlp(*widths, activation=nn.ReLU):
    layers = [layer for sizes in zip(widths, widths[1:]) for layer in (nn.Linear(*sizes), activation())]
    return nn.Sequential(*layers[:-1])


def scaled(parameters, factor):
    """Multiplies parameters by a factor."""
    with ternion.no_grad():
        for parameter in parameters:
            parameter.mul_(factor)


# ---- The model and its optimizer


class Handwritten(nn.Module):
    """A `parameters()` of its own, which may leave out a layer."""

    def __init__(self, is_forgetful):
        self.first, self.second, self.is_forgetful = nn.Linear(8, 8), nn.Linear(8, 8), is_forgetful

    def parameters(self, recurse=True):
        return iter([*self.first.parameters(), *([] if self.is_forgetful else self.second.parameters())])

    def forward(self, x):
        return self.second(self.first(x).tanh())


@names("SGD: second.weight [8, 8], second.bias [8]: gradients come to them, but no optimi", "NotUpdated second.weight: its gradient is not 0")
def a_layer_that_parameters_forgets(planted):
    """A `parameters()` written by hand leaves out a layer: it never learns."""
    return watched(Handwritten(planted))


@names("second.weight [8, 8]", "an error, as the optimi")
def a_layer_that_parameters_forgets_with_strict(planted):
    """The same, at the first step of an optimizer that is strict."""
    return watched(Handwritten(planted), strict=True)


@names("Linear.weight of a layer [8, 8]", "gradients come to them, but no optimi")
def a_layer_in_a_function(planted):
    """A layer is kept in a function, where the walk over the module does not find it."""

    class Hidden(nn.Module):
        def __init__(self):
            layer = nn.Linear(8, 8)
            self.first, self.rest = nn.Linear(8, 8), (lambda x: layer(x)) if planted else layer

        def forward(self, x):
            return self.rest(self.first(x).tanh())

    return watched(Hidden())


@names("2.weight [4, 16], 2.bias [4]", "NotUpdated 2.weight")
def an_optimizer_without_a_layer(planted):
    """The optimizer is given the parameters of one layer of two."""
    model = mlp(8, 16, 4)
    return watched(model, parameters=model[0].parameters() if planted else None)


@names("Linear.weight of a layer [4, 8], Linear.bias of a layer [4]: gradients come to them", "no gradient for head.weight, head.bias")
def an_optimizer_that_was_made_before_a_layer_was_replaced(planted):
    """A head is replaced for another task after the optimizer was made, which goes on with the old one."""

    class Headed(nn.Module):
        def __init__(self):
            self.body, self.head = nn.Linear(8, 8), nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.body(x).relu())

    model = Headed()
    sgd = optim.SGD(model.parameters(), lr=0.1)
    if planted:
        model.head = nn.Linear(8, 4)
    sgd.zero_grad()
    model(ternion.randn(4, 8)).square().mean().backward()
    sgd.step()


@names("SGD: none of its own parameters has a gradient, but gradients come to ", "weight of a layer [16, 8]", "which no optimiser has")
def an_optimizer_of_a_model_that_was_replaced(planted):
    """The model is made anew after the optimizer was made, which goes on with the first one."""
    model = mlp(8, 16, 4)
    sgd = optim.SGD(model.parameters(), lr=0.1)
    if planted:
        model = mlp(8, 16, 4)
    for _ in range(2):
        sgd.zero_grad()
        model(ternion.randn(4, 8)).square().mean().backward()
        sgd.step()


def by_pickle(model):
    return pickle.loads(pickle.dumps(model))


def copied_after(copied, planted):
    """A training of a copy of a body, of which the optimizer knows if nothing is planted."""
    body, head = copied(nn.Sequential(nn.Linear(8, 8), nn.Tanh())), nn.Linear(8, 4)
    parameters = [*([] if planted else body.parameters()), *head.parameters()]
    sgd = optim.SGD(parameters, lr=0.1, strict=True)
    head(body(ternion.randn(4, 8))).square().mean().backward()
    sgd.step()


@names("Linear.weight of a layer [8, 8], Linear.bias of a layer [8]: gradients come to them", "an error, as the optimi")
def a_copied_body_without_an_optimizer(planted):
    """The body is a deep copy, and the optimizer has the head alone."""
    copied_after(copy.deepcopy, planted)


@names("Linear.weight of a layer [8, 8], Linear.bias of a layer [8]: gradients come to them", "an error, as the optimi")
def an_unpickled_body_without_an_optimizer(planted):
    """The body comes out of a pickle, and the optimizer has the head alone."""
    copied_after(by_pickle, planted)


@names("in_proj_weight of a layer", "gradients come to them, but no optimi")
def an_encoder_without_an_optimizer(planted):
    """An encoder, which copies the layer that it is given, and the optimizer has the head alone."""
    encoder, head = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), nn.Linear(8, 4)
    sgd = optim.SGD([*([] if planted else encoder.parameters()), *head.parameters()], lr=0.1)
    head(encoder(ternion.randn(4, 3, 8))[:, 0]).square().mean().backward()
    sgd.step()


class Shifted(nn.Module):
    """A layer with a bias of its own, which may be a plain tensor that asks for a gradient."""

    def __init__(self, is_plain):
        self.layer, bias = nn.Linear(8, 4, bias=False), ternion.zeros(4, requires_grad=True)
        self.b = bias if is_plain else nn.Parameter(bias.detach())

    def forward(self, x):
        return self.layer(x) + self.b


@names("SGD: b of Shifted [4]: a tensor that asks for a gradient but is no nn.Parameter, so parameters() does not have it")
def a_bias_that_is_no_parameter(planted):
    """A tensor with requires_grad as an attribute: it gets gradients, and never moves."""
    return watched(Shifted(planted), steps=3)


@names("b of Shifted [4]: a tensor that asks for a gradient but is no nn.Parameter", "an error, as the optimi")
def a_bias_that_is_no_parameter_with_strict(planted):
    """The same in a copy of the model, at the first step of an optimizer that is strict."""
    return watched(copy.deepcopy(Shifted(planted)), strict=True)


@names("0.weight [16, 8], 0.bias [16]", "freeze them by requires_grad_(False)")
def a_frozen_layer_that_still_gets_gradients(planted):
    """A layer is taken from the optimizer to freeze it, but it still gets gradients."""
    model = mlp(8, 16, 4)
    if not planted:
        model[0].requires_grad_(False)
    return watched(model, parameters=model[2].parameters())


@names("Linear.requires_grad = False sets an attribute that nothing reads")
def a_layer_that_is_frozen_by_an_attribute(planted):
    """`layer.requires_grad = False` freezes nothing: it is a parameter that has it."""
    model = mlp(8, 16, 4)
    if planted:
        model[0].requires_grad = False
    else:
        model[0].requires_grad_(False)
    return watched(model)


@names("0, 2, 4 are one Linear: its parameters are used 3 times")
def a_layer_that_is_repeated(planted):
    """`[layer] * 3` is one layer, whose parameters are used three times."""
    layers = [nn.Linear(8, 8)] * 3 if planted else [nn.Linear(8, 8) for _ in range(3)]
    return watched(nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]))


@names("a parameter is given twice")
def a_parameter_that_is_given_twice(planted):
    """A parameter is in the optimizer twice, and would be moved twice in a step."""
    model = mlp(8, 16, 4)
    return watched(model, parameters=[*model.parameters(), *([model[0].weight] if planted else [])])


class Branches(nn.Module):
    def __init__(self, of_other):
        self.one, self.other, self.of_other = nn.Linear(8, 8), nn.Linear(8, 8), of_other

    def forward(self, x):
        return self.one(x) + self.of_other(self.other, x)


@names("MissingGradient other: no gradient came to other.weight and other.bias: the layer was computed")
def a_branch_that_is_detached(planted):
    """The output of a branch is detached: its layer computes, and gets no gradient."""
    return watched(Branches(lambda layer, x: layer(x).detach() if planted else layer(x)))


@names("MissingGradient other: no gradient came to other.weight and other.bias: the layer was computed", "NumPy")
def a_branch_by_way_of_numpy(planted):
    """A branch takes a way through NumPy, where no gradient follows."""
    return watched(Branches(lambda layer, x: ternion.tensor(layer(x).detach().numpy()) if planted else layer(x)))


@names("MissingGradient other: ", "the loss does not depend on this layer")
def a_layer_that_is_not_used(planted):
    """A layer is made, and forward does without it."""
    return watched(Branches(lambda layer, x: 0.0 if planted else layer(x)))


@names("no gradient for 0.weight, 0.bias")
def a_backward_that_is_missing(planted):
    """A step without a backward before it."""
    model = mlp(8, 4)
    sgd = optim.SGD(model.parameters(), lr=0.1)
    loss = model(ternion.randn(16, 8)).square().mean()
    if not planted:
        loss.backward()
    sgd.step()


@names("AdamW: 0.weight, 0.bias, 2.weight, 2.bias: gradients were added to those that the step before has used: call zero_grad()")
def gradients_that_are_never_reset(planted):
    """`zero_grad()` is missing: each step goes by the gradients of all batches so far."""
    model = mlp(8, 16, 4)
    adam = optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        if not planted:
            adam.zero_grad()
        model(ternion.randn(16, 8)).square().mean().backward()
        adam.step()


@names("EvaluationMode 1 and 3: in evaluation mode during a training step")
def a_training_in_evaluation_mode(planted):
    """The model stays in evaluation mode after a validation: dropout drops nothing, batch norm does not follow."""
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    model.train(not planted)
    return watched(model, steps=2)


@names("0.weight", "0.bias", "2.weight")
def a_state_that_does_not_belong_to_the_model(planted):
    """A checkpoint of a model of other widths."""
    model = mlp(8, 16, 4)
    model.load_state_dict(mlp(8, 32 if planted else 16, 4).state_dict())
    return watched(model)


@names("EqualWeights 0.weight: all of its numbers are 1", "stay the same")
def first_weights_that_are_all_the_same(planted):
    """All first weights of a hidden layer are 0.1: its units are one unit."""
    model = mlp(8, 16, 4)
    if planted:
        nn.init.constant_(model[0].weight, 0.1)
    return watched(model)


@names("EqualWeights 0.weight: all of its numbers are 0", "EqualWeights 2.weight")
def first_weights_that_are_all_zero(planted):
    """All first weights are 0: nothing comes through, neither forward nor back."""
    model = mlp(8, 16, 4)
    if planted:
        scaled([model[0].weight, model[2].weight], 0.0)
    return watched(model)


# ---- Sizes of outputs, gradients and steps


@names("ExplodingOutputs 4: outputs explode from layer to layer")
def outputs_that_explode(planted):
    """The weights of one layer are a million times too large."""
    model = mlp(16, 16, 16, 16, 16)
    scaled([model[4].weight], 1e6 if planted else 1.0)
    return watched(model, rate=1e-15, x=ternion.randn(16, 16))


@names("ExplodingGradients 0: gradients explode on their way back: at 0")
def gradients_that_explode(planted):
    """First weights of a standard deviation of 1 in each of eight layers."""
    model = mlp(*[32] * 9)
    for layer in model if planted else []:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight)
    return watched(model, rate=1e-15, x=ternion.randn(16, 32))


@names("VanishingGradients 0: gradients vanish on their way back")
def gradients_that_vanish(planted):
    """Eight sigmoids in a row."""
    model = mlp(*[16] * 9, activation=nn.Sigmoid if planted else nn.ReLU)
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.kaiming_normal_(layer.weight)
    return watched(model, x=ternion.randn(16, 16), loss_of=lambda output: (output - 1).square().mean())


@names("DeadReLU 1: all its outputs are 0")
def units_that_are_dead(planted):
    """Biases so far below 0 that no unit of a ReLU gives anything."""
    model = mlp(8, 16, 4)
    if planted:
        nn.init.constant_(model[0].bias, -50.0)
    return watched(model, steps=2)


@names("Saturated 1: ", "where sigmoid is flat")
def a_sigmoid_that_is_saturated(planted):
    """First weights so large that a sigmoid is flat for each example."""
    model = mlp(8, 16, 4, activation=nn.Sigmoid)
    scaled(model[0].parameters(), 300.0 if planted else 1.0)
    return watched(model, steps=5, rate=1e-3)


@names("Saturated softmax after key: 100 % of its outputs are", "one of size 1 gives 1 for everything")
def a_softmax_along_the_wrong_axis(planted):
    """The softmax of attention is along the axis of heads, of which there is one: all weights are 1."""

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
    """A rounding behind a layer, whose gradient is 0."""

    class Rounds(nn.Module):
        def __init__(self):
            self.first, self.last = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, x):
            x = self.first(x)
            return self.last(x.round() if planted else x)

    return watched(Rounds(), steps=5)


@names("LargeUpdates ", ".weight: the step changed it by", "divide the learning rate by about")
def a_sum_in_place_of_a_mean(planted):
    """The loss is a sum over the batch where a mean was meant."""
    target = ternion.randn(512, 4)
    return watched(mlp(8, 16, 4), rate=0.05, x=ternion.randn(512, 8), loss_of=lambda output: F.mse_loss(output, target, reduction="sum" if planted else "mean"))


@names("SmallUpdates ", "the learning rate, or the gradients, are too small")
def a_loss_that_is_too_small(planted):
    """A loss that is divided by the size of the data once more."""
    return watched(mlp(8, 16, 4), steps=5, loss_of=lambda output: output.square().mean() * (1e-7 if planted else 1.0))


@names("LargeUpdates 2.weight: the step changed it by")
def a_learning_rate_that_is_too_large(planted):
    """A learning rate a thousand times too large for Adam."""
    return watched(mlp(8, 16, 4), rate=1.0 if planted else 1e-3, optimizer=optim.AdamW)


@names("SGD: the gradients are those of a loss times 1024, by a GradScaler: call its step(optimizer)")
def a_scaled_loss_without_its_scaler(planted):
    """The loss is scaled for half precision, and the optimizer steps by itself."""
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
    """The backward pass is that of the loss itself, and the scaler divides its gradients."""
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
def a_softmax_in_front_of_the_cross_entropy(planted):
    """The model ends with a softmax, and cross_entropy applies another."""
    layers = [nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4), *([nn.Softmax(dim=1)] if planted else [])]
    labels = ternion.randint(0, 4, (16,))
    return watched(nn.Sequential(*layers), loss_of=lambda output: F.cross_entropy(output, labels))


@names("DoubleActivation sigmoid", "bce_with_logits applies sigmoid itself")
def a_sigmoid_in_front_of_the_loss_of_logits(planted):
    """A sigmoid in front of a loss that applies one itself."""
    target = (ternion.randn(16, 1) > 0).float()

    def loss_of(output):
        return F.binary_cross_entropy_with_logits(output.sigmoid() if planted else output, target)

    return watched(mlp(8, 16, 1), loss_of=loss_of)


@names("cross_entropy: index 4 is out of range for size 4")
def labels_that_start_at_1(planted):
    """Labels from 1 on, of classes from 0 on."""
    labels = ternion.arange(16) % 4 + (1 if planted else 0)
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.cross_entropy(output, labels))


@names("cross_entropy", "[16, 4]", "[16]")
def one_hot_labels_as_indices(planted):
    """One-hot labels of whole numbers, where class indices belong."""
    labels = ternion.arange(16) % 4
    labels = F.one_hot(labels, 4) if planted else labels
    return watched(mlp(8, 16, 4), loss_of=lambda output: F.cross_entropy(output, labels))


@names("mse_loss: input has shape [16, 1] and target [16]: they are broadcast")
def a_target_of_another_shape(planted):
    """Predictions of shape [n, 1] against targets of shape [n]: each is compared with each."""
    target = ternion.randn(16) if planted else ternion.randn(16, 1)
    return watched(mlp(8, 16, 1), loss_of=lambda output: F.mse_loss(output, target))


@names("NotFinite input: 1 of 128 numbers are infinite; clean the data")
def data_that_are_not_finite(planted):
    """An infinite number among the inputs."""
    x = ternion.randn(16, 8)
    x[3, 4] = math.inf if planted else 0.0
    return watched(mlp(8, 16, 4), x=x)


@names("UnscaledInput input: its root mean square is 1", "divide bytes by 255")
def images_that_are_not_normalized(planted):
    """Images of bytes, as they are in a file."""
    model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 4))
    images = ternion.rand(8, 1, 8, 8)
    return watched(model, rate=1e-6, x=images * 255 if planted else images)


@names("UnscaledInput input: all of its 128 numbers are 1e0")
def an_input_that_is_constant(planted):
    """A loader that gives the same number everywhere."""
    return watched(mlp(8, 16, 4), x=ternion.ones(16, 8) if planted else None)


@names("embedding", "index 10 is out of range for size 10")
def a_token_beyond_the_vocabulary(planted):
    """A token that the vocabulary does not have."""
    model = nn.Sequential(nn.Embedding(10, 8), nn.Linear(8, 4))
    return watched(model, x=ternion.tensor([1, 9, 10 if planted else 0]))


# ---- Ops


@names("log: NaN in")
def the_logarithm_of_a_negative_number(planted):
    """A logarithm of what may be negative."""
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
def a_mask_that_hides_a_whole_row(planted):
    """A mask that hides all keys of a row from its softmax."""
    hidden = ternion.ones(4, 4).triu(0 if planted else 1) > 0
    with autograd.detect_anomaly():
        return watched(mlp(8, 4), x=ternion.randn(4, 8), loss_of=lambda output: output.masked_fill(hidden, -math.inf).softmax(1).square().mean())


@names("sqrt: NaN in", "of the gradient of its input 0", "the gradients that came to it had none")
def a_gradient_that_is_nan(planted):
    """The root of 0, whose derivative is infinite, and 0 times that: the loss is finite, its gradient is not."""

    def loss_of(output):
        return ((output * (0.0 if planted else 1.0)).square().sqrt() * (output * 0 if planted else 1)).sum() * 1e-3

    with autograd.detect_anomaly():
        return watched(mlp(8, 16, 4), loss_of=loss_of)


@names("NotFinite 2: ", "though all outputs are finite")
def a_gradient_that_is_infinite(planted):
    """The root of 0 again, as StatsMonitor sees it."""
    return watched(mlp(8, 16, 4), loss_of=lambda output: (output.square() * (0 if planted else 1) + (0 if planted else 1e-3)).sqrt().mean())


@names("NotFinite 2: ", "2.weight holds such numbers already")
def a_weight_that_is_not_finite(planted):
    """A weight is NaN."""
    model = mlp(8, 16, 4)
    with ternion.no_grad():
        model[2].weight[0, 0] = math.nan if planted else 0.0
    return watched(model)


@names("NotFinite 2: ", "numbers too large for the dtype")
def an_overflow_of_half_precision(planted):
    """Numbers beyond what half precision holds."""
    model = mlp(8, 16, 4).half()
    scaled([model[2].weight], 6e4 if planted else 1.0)
    return watched(model, x=ternion.randn(16, 8).half() * (20 if planted else 1))


@names("square", "changed in place")
def a_tensor_that_is_changed_after_it_was_saved(planted):
    """What backward needs is overwritten before it."""

    def loss_of(output):
        loss = output.square().mean()
        if planted:
            with ternion.no_grad():
                output.zero_()
        return loss

    return watched(mlp(8, 16, 4), loss_of=loss_of)


@names("output 0", "input 0", "gradients that were given: that of Cube")
def a_gradient_of_ones_own_that_is_wrong(planted):
    """A Function with a backward that lacks a factor."""

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
