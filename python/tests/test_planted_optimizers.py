"""Small trainings, each with a fault of the model and its optimizer planted, as those of test_planted_trainings.py."""

import copy
import pickle

from planted import checks_of, mlp, names, scaled, watched

import ternion
from ternion import nn, optim

test_a_planted_fault_is_named, test_the_same_training_without_the_fault_reports_nothing = checks_of(__name__)


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


@names("SGD: none of its own parameters has a gradient, but gradients come to ", "weight of a layer [16, 8]", "which no optimizer has")
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


class Dropping(nn.Module):
    """Layers that drop within themselves, and a slope that is drawn."""

    def __init__(self):
        super().__init__()
        self.attention = nn.MultiheadAttention(8, 2, dropout=0.2, batch_first=True)
        self.recurrent = nn.LSTM(8, 4, num_layers=2, dropout=0.2, batch_first=True)
        self.single = nn.GRU(4, 4, batch_first=True)
        self.slope = nn.RReLU()

    def forward(self, x):
        x = self.recurrent(self.attention(x, x, x)[0])[0]
        return self.slope(self.single(x)[0])


@names("EvaluationMode attention, recurrent and slope: in evaluation mode during a training step")
def a_training_in_evaluation_mode_of_layers_that_drop_within(planted):
    """The same of attention, of a recurrent layer of several and of a slope that is drawn; a single recurrent layer has nothing to drop."""
    return watched(Dropping().train(not planted), steps=2, x=ternion.randn(4, 5, 8))


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
