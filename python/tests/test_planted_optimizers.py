"""Small training runs, each with a planted fault of the model and its optimizer, as in
test_planted_trainings.py."""

import copy
import pickle

from planted import checks_of, mlp, names, scaled, watched

import ternion
from ternion import amp, nn, optim

test_a_planted_fault_is_named, test_the_same_training_without_the_fault_reports_nothing = checks_of(__name__)


class Handwritten(nn.Module):
    """A custom `parameters()`, which may omit a layer."""

    def __init__(self, is_forgetful):
        self.first, self.second, self.is_forgetful = nn.Linear(8, 8), nn.Linear(8, 8), is_forgetful

    def parameters(self, recurse=True):
        return iter([*self.first.parameters(), *([] if self.is_forgetful else self.second.parameters())])

    def forward(self, x):
        return self.second(self.first(x).tanh())


@names("SGD: second.weight [8, 8], second.bias [8]: gradients come to them, but no optimi", "NotUpdated second.weight: its gradient is not 0")
def a_layer_that_parameters_forgets(planted):
    """A custom `parameters()` omits a layer, which never learns."""
    return watched(Handwritten(planted))


@names("second.weight [8, 8]", "an error, as the optimi")
def a_layer_that_parameters_forgets_with_strict(planted):
    """The same, at the first step of a strict optimizer."""
    return watched(Handwritten(planted), strict=True)


@names("UnvisitedLayer Linear after first: computes inside of the model", "SGD: rest.layer.weight of Hidden 'model' [8, 8], rest.layer.bias of Hidden 'model' [8]: gradients come to them, but no optimi")
def a_layer_in_a_function(planted):
    """A layer is stored in a function, where the traversal of the module does not find it."""

    class Hidden(nn.Module):
        def __init__(self):
            layer = nn.Linear(8, 8)
            self.first, self.rest = nn.Linear(8, 8), (lambda x: layer(x)) if planted else layer

        def forward(self, x):
            return self.rest(self.first(x).tanh())

    return watched(Hidden())


@names("2.weight [4, 16], 2.bias [4]", "NotUpdated 2.weight")
def an_optimizer_without_a_layer(planted):
    """The optimizer receives the parameters of one of two layers."""
    model = mlp(8, 16, 4)
    return watched(model, parameters=model[0].parameters() if planted else None)


@names("SGD: head.weight of Headed 'model' [4, 8], head.bias of Headed 'model' [4]: gradients come to them", "no gradient for head.weight, head.bias")
def an_optimizer_that_was_made_before_a_layer_was_replaced(planted):
    """A head is replaced for another task after the optimizer was created, which still has the old
    one."""

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


@names("SGD: none of its parameters has a gradient, but gradients come to 0.weight of Sequential 'model' [16, 8], ", "2.bias of Sequential 'model' [4], which no optimizer has")
def an_optimizer_of_a_model_that_was_replaced(planted):
    """The model is created again after the optimizer was created, which still has the first one."""
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
    """Trains with a copy of a body. The optimizer has the parameters of the copy unless the fault
    is planted."""
    body, head = copied(nn.Sequential(nn.Linear(8, 8), nn.Tanh())), nn.Linear(8, 4)
    parameters = [*([] if planted else body.parameters()), *head.parameters()]
    sgd = optim.SGD(parameters, lr=0.1, strict=True)
    head(body(ternion.randn(4, 8))).square().mean().backward()
    sgd.step()


@names("SGD: 0.weight of Sequential 'body' [8, 8], 0.bias of Sequential 'body' [8]: gradients come to them", "an error, as the optimi")
def a_copied_body_without_an_optimizer(planted):
    """The body is a deep copy, and the optimizer has only the head."""
    copied_after(copy.deepcopy, planted)


@names("SGD: 0.weight of Sequential 'body' [8, 8], 0.bias of Sequential 'body' [8]: gradients come to them", "an error, as the optimi")
def an_unpickled_body_without_an_optimizer(planted):
    """The body was unpickled, and the optimizer has only the head."""
    copied_after(by_pickle, planted)


@names("SGD: layers.0.self_attn.out_proj.weight of TransformerEncoder 'encoder' [8, 8], ", "gradients come to them, but no optimi")
def an_encoder_without_an_optimizer(planted):
    """An encoder, which copies the layer that it receives; the optimizer has only the head."""
    encoder, head = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2), nn.Linear(8, 4)
    sgd = optim.SGD([*([] if planted else encoder.parameters()), *head.parameters()], lr=0.1)
    head(encoder(ternion.randn(4, 3, 8))[:, 0]).square().mean().backward()
    sgd.step()


class Shifted(nn.Module):
    """A layer with a separate bias, which may be a plain tensor that requires a gradient."""

    def __init__(self, is_plain):
        self.layer, bias = nn.Linear(8, 4, bias=False), ternion.zeros(4, requires_grad=True)
        self.b = bias if is_plain else nn.Parameter(bias.detach())

    def forward(self, x):
        return self.layer(x) + self.b


@names("SGD: b of Shifted [4]: a tensor that requires a gradient but is not an nn.Parameter, so parameters() does not have it")
def a_bias_that_is_no_parameter(planted):
    """An attribute with requires_grad that is not a parameter: it receives gradients, but is never
    updated."""
    return watched(Shifted(planted), steps=3)


@names("b of Shifted [4]: a tensor that requires a gradient but is not an nn.Parameter", "an error, as the optimi")
def a_bias_that_is_no_parameter_with_strict(planted):
    """The same in a copy of the model, at the first step of a strict optimizer."""
    return watched(copy.deepcopy(Shifted(planted)), strict=True)


@names("0.weight [16, 8], 0.bias [16]", "freeze them by requires_grad_(False)")
def a_frozen_layer_that_still_gets_gradients(planted):
    """A layer is removed from the optimizer to freeze it, but it still receives gradients."""
    model = mlp(8, 16, 4)
    if not planted:
        model[0].requires_grad_(False)
    return watched(model, parameters=model[2].parameters())


@names("Linear.requires_grad = False sets an attribute that nothing reads")
def a_layer_that_is_frozen_by_an_attribute(planted):
    """`layer.requires_grad = False` freezes nothing, because requires_grad belongs to
    parameters."""
    model = mlp(8, 16, 4)
    if planted:
        model[0].requires_grad = False
    else:
        model[0].requires_grad_(False)
    return watched(model)


@names("StatsMonitor: 0, 2, 4 are one Linear: its parameters are used 3 times")
def a_layer_that_is_repeated(planted):
    """`[layer] * 3` is a single layer, whose parameters are used three times."""
    layers = [nn.Linear(8, 8)] * 3 if planted else [nn.Linear(8, 8) for _ in range(3)]
    return watched(nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2]))


@names("SGD: 0, 2, 4 of Sequential are one Linear, whose parameters are used 3 times: create a layer for each use", "an error, as the optimi")
def a_layer_that_is_repeated_with_strict(planted):
    """The same, at the first step of a strict optimizer, without a monitor."""
    one = nn.Linear(8, 8)
    layers = [one if planted else nn.Linear(8, 8) for _ in range(3)]
    model = nn.Sequential(layers[0], nn.ReLU(), layers[1], nn.ReLU(), layers[2])
    sgd = optim.SGD(model.parameters(), lr=0.1, strict=True)
    model(ternion.randn(16, 8)).square().mean().backward()
    sgd.step()


@names("SGD: parameter 4 is given twice: it is 0.weight already")
def a_parameter_that_is_passed_twice(planted):
    """A parameter is in the optimizer twice, and would be updated twice per step."""
    model = mlp(8, 16, 4)
    return watched(model, parameters=[*model.parameters(), *([model[0].weight] if planted else [])])


class Branches(nn.Module):
    def __init__(self, of_other):
        self.one, self.other, self.of_other = nn.Linear(8, 8), nn.Linear(8, 8), of_other

    def forward(self, x):
        return self.one(x) + self.of_other(self.other, x)


@names("MissingGradient other: no gradient came to other.weight and other.bias: the layer was computed")
def a_branch_that_is_detached(planted):
    """The output of a branch is detached: its layer is computed, but receives no gradient."""
    return watched(Branches(lambda layer, x: layer(x).detach() if planted else layer(x)))


@names("MissingGradient other: no gradient came to other.weight and other.bias: the layer was computed", "NumPy")
def a_branch_by_way_of_numpy(planted):
    """A branch goes through NumPy, where no gradient flows."""
    return watched(Branches(lambda layer, x: ternion.tensor(layer(x).detach().numpy()) if planted else layer(x)))


@names("MissingGradient other: ", "the loss does not depend on this layer")
def a_layer_that_is_not_used(planted):
    """A layer is created, but forward does not use it."""
    return watched(Branches(lambda layer, x: 0.0 if planted else layer(x)))


@names("no gradient for 0.weight, 0.bias")
def a_backward_that_is_missing(planted):
    """A step without a backward pass before it."""
    model = mlp(8, 4)
    sgd = optim.SGD(model.parameters(), lr=0.1)
    loss = model(ternion.randn(16, 8)).square().mean()
    if not planted:
        loss.backward()
    sgd.step()


@names("AdamW: 0.weight, 0.bias, 2.weight, 2.bias: gradients were added to those that the step before has used: call zero_grad()")
def gradients_that_are_never_reset(planted):
    """`zero_grad()` is missing: each step uses the gradients of all batches so far."""
    model = mlp(8, 16, 4)
    adam = optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(3):
        if not planted:
            adam.zero_grad()
        model(ternion.randn(16, 8)).square().mean().backward()
        adam.step()


@names("EvaluationMode 1 and 3: in evaluation mode during a training step")
def training_in_evaluation_mode(planted):
    """The model remains in evaluation mode after validation: dropout is inactive, and batch norm
    does not update its statistics."""
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 4))
    model.train(not planted)
    return watched(model, steps=2)


class Dropping(nn.Module):
    """Layers with internal dropout, and a random negative slope."""

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
    """The same with attention, a multi-layer recurrent network and a random negative slope. A
    single recurrent layer has no dropout."""
    return watched(Dropping().train(not planted), steps=2, x=ternion.randn(4, 5, 8))


@names("0.weight", "0.bias", "2.weight")
def a_state_that_does_not_belong_to_the_model(planted):
    """A checkpoint of a model with other widths."""
    model = mlp(8, 16, 4)
    model.load_state_dict(mlp(8, 32 if planted else 16, 4).state_dict())
    return watched(model)


@names("EqualWeights 0.weight: all of its numbers are 1", "stay the same")
def initial_weights_that_are_all_equal(planted):
    """All initial weights of a hidden layer are 0.1: its units are identical."""
    model = mlp(8, 16, 4)
    if planted:
        nn.init.constant_(model[0].weight, 0.1)
    return watched(model)


@names("EqualWeights 0.weight: all of its numbers are 0", "EqualWeights 2.weight")
def initial_weights_that_are_all_zero(planted):
    """All initial weights are 0: no signal passes, neither forward nor backward."""
    model = mlp(8, 16, 4)
    if planted:
        scaled([model[0].weight, model[2].weight], 0.0)
    return watched(model)


class Anew(nn.Module):
    """A layer, or a parameter, that is created at each call."""

    def __init__(self, kind=None):
        self.first, self.last, self.kind = nn.Linear(8, 8), nn.Linear(8, 8), kind

    def forward(self, x):
        x = self.first(x).relu()
        if self.kind == "layer":
            x = nn.Linear(8, 8)(x).relu()
        elif self.kind == "parameter":
            x = x * nn.Parameter(ternion.ones(8))
        return self.last(x)


@names(
    "SGD: Linear.weight [8, 8], Linear.bias [8]: gradients came to parameters that are gone by now, so that no optimizer trains them",
    "UnvisitedLayer Linear after first: computes inside of the model", "[8, 8], [8] belong to no parameter", "create layers once, not at each call",
)  # fmt: skip
def a_layer_that_is_created_in_each_call(planted):
    """`nn.Linear(..)` in forward: a new layer at each call, which is never trained."""
    return watched(Anew("layer" if planted else None), steps=3)


@names("Linear.weight [8, 8]", "create layers and parameters once, in __init__", "an error, as the optimi")
def a_layer_that_is_made_at_each_call_with_strict(planted):
    """The same, at the first step of a strict optimizer."""
    return watched(Anew("layer" if planted else None), strict=True)


@names("SGD: a parameter [8]: gradients came to parameters that are gone by now")
def a_parameter_that_is_made_at_each_call(planted):
    """`nn.Parameter(..)` in forward."""
    return watched(Anew("parameter" if planted else None))


@names("UnvisitedLayer Linear after first: ", "MissingGradient head: ", "look for an assignment that replaces it in forward", "head.weight [4, 8]")
def a_head_that_is_replaced_at_each_call(planted):
    """`self.head = nn.Linear(..)` in forward."""

    class Replaces(nn.Module):
        def __init__(self):
            self.first, self.head = nn.Linear(8, 8), nn.Linear(8, 4)

        def forward(self, x):
            if planted:
                self.head = nn.Linear(8, 4)
            return self.head(self.first(x).relu())

    return watched(Replaces())


@names("SGD: w[0] of Listed [8, 8]: a tensor that requires a gradient but is not an nn.Parameter")
def tensors_in_a_list(planted):
    """A list of tensors with requires_grad instead of an nn.ParameterList."""

    class Listed(nn.Module):
        def __init__(self):
            weights = [ternion.randn(8, 8, requires_grad=True)]
            self.layer, self.w = nn.Linear(8, 4), weights if planted else nn.ParameterList(weights)

        def forward(self, x):
            return self.layer((x @ self.w[0]).relu())

    return watched(Listed(), steps=3)


def clipped(planted, clip):
    """A training run with a scaled loss, whose gradients are clipped before or after unscaling."""
    model = mlp(8, 4)
    scaler, sgd = amp.GradScaler("cpu", init_scale=1024.0), optim.SGD(model.parameters(), lr=1e-3)
    for _ in range(2):
        sgd.zero_grad()
        scaler.scale(model(ternion.randn(3, 8)).square().mean()).backward()
        if not planted:
            scaler.unscale_(sgd)
        clip(list(model.parameters()))
        scaler.step(sgd)
        scaler.update()


@names("clip_grad_norm_: the gradients are those of a loss times 1024, by a GradScaler: call its unscale_(optimizer) before")
def a_norm_that_is_clipped_before_it_is_unscaled(planted):
    """clip_grad_norm_ before unscale_: the limit is compared with gradients that are 1024 times too
    large."""
    clipped(planted, lambda parameters: nn.utils.clip_grad_norm_(parameters, 1.0))


@names("clip_grad_value_: the gradients are those of a loss times 1024")
def values_that_are_clipped_before_they_are_unscaled(planted):
    """The same with clip_grad_value_."""
    clipped(planted, lambda parameters: nn.utils.clip_grad_value_(parameters, 1.0))


@names("clip_grads_with_norm_: the gradients are those of a loss times 1024")
def gradients_that_are_clipped_by_a_norm_before_they_are_unscaled(planted):
    """The same with clip_grads_with_norm_."""
    clipped(planted, lambda parameters: nn.utils.clip_grads_with_norm_(parameters, 1.0, nn.utils.get_total_norm([each.grad for each in parameters])))


def raised(planted, every):
    """Returns the report of a monitor on a training run whose learning rate is raised at the third
    step."""
    model, x, messages = mlp(8, 16, 4), ternion.randn(16, 8), []
    monitor, sgd = nn.utils.StatsMonitor(model, every=every), optim.SGD(model.parameters(), lr=1e-3)
    for step in range(5):
        sgd.param_groups[0]["lr"] = 1e4 if planted and step >= 2 else 1e-3
        sgd.zero_grad()
        with monitor.watch(step):
            loss = model(x).square().mean()
        loss.backward()
        report = monitor.step(sgd)
        messages += [f"{step} {warning.fault} {warning.message}" for warning in (report.warnings if report else [])]
    return messages


@names(
    "StatsMonitor: the learning rate of SGD is 10000 in param_groups[0], where 0.001 was the largest before",
    "2 LargeUpdates 2.weight: the step changed it by", "divide the learning rate by about 1e6 (it is 10000)", "rose from 0.001 to 10000 since the reading before",
)  # fmt: skip
def a_learning_rate_that_is_raised_later(planted):
    """A huge number is written to param_groups during training."""
    return raised(planted, 1)


@names("StatsMonitor: the learning rate of SGD is 10000", "4 ExplodingOutputs 0: ", "go back to saved weights and to a smaller learning rate; the learning rate rose from 0.001 to 10000 since the reading before")
def a_learning_rate_that_is_raised_between_two_readings(planted):
    """The same, and the next reading finds exploding outputs."""
    return raised(planted, 4)


@names("SmallUpdates 2.weight: no weight changed by more than 0.000001 of its size", "the learning rate is 0")
def a_learning_rate_of_0(planted):
    """A learning rate of 0."""
    return watched(mlp(8, 16, 4), steps=5, rate=0.0 if planted else 0.01)


def one_step(optimizer, change=None, **settings):
    """Runs one step of a model with an optimizer of these settings, which `change` may modify."""
    model = mlp(8, 16, 4)
    created = optimizer(model.parameters(), **{"lr": 1e-3, **settings})
    if change is not None:
        change(created)
    model(ternion.randn(4, 8)).square().mean().backward()
    created.step()


@names("SGD: momentum 1.5: the steps of all gradients so far add up and never fade, expected below 1")
def a_momentum_that_never_fades(planted):
    """A momentum above 1."""
    one_step(optim.SGD, momentum=1.5 if planted else 0.9)


@names("Adam: betas (0.999, 0.9): the first, of the mean, is larger than the second", "swapped")
def betas_that_are_swapped(planted):
    """The two betas are swapped."""
    one_step(optim.Adam, betas=(0.999, 0.9) if planted else (0.9, 0.999))


@names("AdamW: weight_decay 1000 with lr 0.001 takes 100% off each weight in a step")
def a_weight_decay_that_takes_all(planted):
    """A weight decay that removes a weight completely."""
    one_step(optim.AdamW, weight_decay=1000.0 if planted else 0.1)


@names("LargeUpdates 2.weight: the step changed it by", "it goes straight to 0, as weight decay goes: divide weight_decay or the learning rate by about 1000 (it is 0.001)")
def a_weight_decay_that_takes_all_as_a_monitor_sees_it(planted):
    """The same, as reported by StatsMonitor."""
    return watched(mlp(8, 16, 4), optimizer=optim.AdamW, rate=1e-3, weight_decay=1000.0 if planted else 0.1)


@names("Adam: weight_decay 100 is added to gradients as that many times the weights, and covers them")
def a_weight_decay_that_covers_gradients(planted):
    """A weight decay that dominates the gradient."""
    one_step(optim.Adam, weight_decay=100.0 if planted else 1e-2)


@names("SGD.lr = 1.0 sets an attribute that nothing reads: group['lr'] counts, for each group of param_groups")
def a_learning_rate_as_an_attribute(planted):
    """`optimizer.lr = ..` has no effect."""
    one_step(optim.SGD, lambda sgd: setattr(sgd, "lr", 1.0) if planted else sgd.param_groups[0].update(lr=0.1))


@names("SGD: param_groups[0]['learning_rate'] is a setting that nothing reads: it is called 'lr'")
def a_setting_of_another_name(planted):
    """A group setting with a wrong name."""
    one_step(optim.SGD, lambda sgd: sgd.param_groups[0].update({"learning_rate" if planted else "name": 1.0}))


@names("SGD: lr '1e-3' in param_groups, expected a number")
def a_learning_rate_that_is_text(planted):
    """A learning rate from a file, as text."""
    one_step(optim.SGD, lambda sgd: sgd.param_groups[0].update(lr="1e-3" if planted else 1e-3))


@names("SGD: none of its parameters requires a gradient, so that a step changes nothing: requires_grad_(True) makes them train")
def a_model_that_is_frozen_as_a_whole(planted):
    """All parameters are frozen by mistake, and only the input receives a gradient."""
    model = mlp(8, 16, 4).requires_grad_(not planted)
    sgd = optim.SGD(model.parameters(), lr=0.1)
    model(ternion.randn(4, 8, requires_grad=True)).square().mean().backward()
    sgd.step()


@names("Adam: 0.weight, 0.bias, 2.weight, 2.bias: a step of another optimizer, SGD, has moved them by the same gradients")
def two_optimizers_of_the_same_parameters(planted):
    """Two optimizers update the same parameters."""
    model = mlp(8, 16, 4)
    sgd = optim.SGD(model[0].parameters() if not planted else model.parameters(), lr=0.1)
    adam = optim.Adam(model[2].parameters() if not planted else model.parameters(), lr=0.1)
    for _ in range(2):
        sgd.zero_grad(), adam.zero_grad()
        model(ternion.randn(4, 8)).square().mean().backward()
        sgd.step(), adam.step()


@names("no gradient for 0.weight, 0.bias, 2.weight, 2.bias", "or zero_grad() was called after it")
def gradients_that_are_forgotten_before_the_step(planted):
    """zero_grad() between backward and step."""
    model = mlp(8, 16, 4)
    sgd = optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        if not planted:
            sgd.zero_grad()
        model(ternion.randn(4, 8)).square().mean().backward()
        if planted:
            sgd.zero_grad()
        sgd.step()


@names("adam: 0.weight is [16, 8] float64 on cpu now, but its state [16, 8] float32 on cpu: make the optimi")
def an_optimizer_that_was_made_before_the_model_was_cast(planted):
    """A model is cast after steps of its optimizer."""
    model = mlp(8, 16, 4)
    adam = optim.Adam(model.parameters(), lr=0.1)
    for dtype in (ternion.float32, ternion.float64 if planted else ternion.float32):
        model.to(dtype)
        adam.zero_grad()
        model(ternion.randn(4, 8, dtype=dtype)).square().mean().backward()
        adam.step()


@names("MissingActivation 1: a linear layer that takes the output of the linear layer 0 unchanged")
def an_activation_that_is_missing(planted):
    """Two consecutive linear layers, which are equivalent to one."""
    return watched(nn.Sequential(nn.Linear(8, 16), *([] if planted else [nn.ReLU()]), nn.Linear(16, 4)))


@names("were freed by an earlier backward", "or detach what is carried from one step to the next")
def a_state_that_goes_on_from_step_to_step(planted):
    """The state of a recurrent layer is passed from batch to batch, with the graph of all earlier
    batches."""
    layer, state = nn.LSTM(8, 4, batch_first=True), None
    sgd = optim.SGD(layer.parameters(), lr=0.1)
    for _ in range(2):
        sgd.zero_grad()
        output, state = layer(ternion.randn(2, 3, 8), state)
        state = state if planted else tuple(each.detach() for each in state)
        output.mean().backward()
        sgd.step()


@names("ZeroGradient 0: ", "a dropout of 1 or a norm of one number")
def a_norm_of_one_number(planted):
    """A layer norm over a single number returns 0 for every input."""
    width = 1 if planted else 4
    return watched(nn.Sequential(nn.Linear(8, width), nn.LayerNorm(width), nn.Linear(width, 4)), steps=5, loss_of=lambda output: (output - 1).square().mean())
