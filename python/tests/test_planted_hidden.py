"""Small training runs with planted faults, as in test_planted_trainings.py: parameters or gradients
that are invisible to the code that trains them."""

from planted import checks_of, mlp, names, watched

import ternion
from ternion import nn

test_a_planted_fault_is_named, test_the_same_training_without_the_fault_reports_nothing = checks_of(__name__)


class Holder:
    """Not a module, but it contains one."""

    def __init__(self):
        self.layer = nn.Linear(8, 8)


class Holds(nn.Module):
    """A layer in an object, or a tensor that requires a gradient, in a function or as an
    attribute."""

    def __init__(self, kind, planted):
        super().__init__()
        weight = ternion.randn(8, 8, requires_grad=planted)
        self.first, self.last, self.kind = nn.Linear(8, 8), nn.Linear(8, 4), kind
        if kind == "object":
            self.rest = Holder() if planted else nn.Linear(8, 8)
        elif kind == "function":
            self.rest = lambda x: x @ weight
        else:
            self.weight = weight

    def forward(self, x):
        x = self.first(x).relu()
        if self.kind == "attribute":
            return self.last((x @ self.weight).relu())
        rest = self.rest.layer if isinstance(self.rest, Holder) else self.rest
        return self.last(rest(x).relu())


@names("UnvisitedLayer Linear after first: computes inside of the model", "[8, 8], [8] belong to no parameter", "SGD: rest.layer.weight of Holds 'model' [8, 8], rest.layer.bias")
def a_layer_in_an_object(planted):
    """A layer is stored in an object that is not a module."""
    return watched(Holds("object", planted))


@names("UnvisitedLayer a tensor [8, 8] in matmul after first: computes inside of the model", "SGD: rest.weight of Holds [8, 8]: a tensor that requires a gradient but is not an nn.Parameter")
def a_tensor_in_a_function(planted):
    """A tensor that requires a gradient is stored in a function."""
    return watched(Holds("function", planted), steps=3)


@names("UnvisitedLayer a tensor [8, 8] in matmul after first: ", "SGD: weight of Holds [8, 8]: a tensor that requires a gradient but is not an nn.Parameter")
def a_tensor_as_an_attribute(planted):
    """A tensor that requires a gradient is stored as an attribute."""
    return watched(Holds("attribute", planted), steps=2)


@names("ZeroGradient 0.weight: its gradient was 0 in each of the last 5 readings, and that of 0.bias was not", "look for a hook")
def a_hook_that_takes_a_gradient_away(planted):
    """A hook sets the gradient of a weight to 0, but not that of the bias."""
    model = mlp(8, 16, 4)
    if planted:
        model[0].weight.register_hook(lambda grad: grad * 0)
    return watched(model, steps=6)
