"""Which results share memory with what they were made of: as in PyTorch, so that a change in place is seen where it is there, and nowhere else."""

import pytest

import ternion

torch = pytest.importorskip("torch")

KINDS = {
    "floats": lambda m: m.arange(1.0, 7.0).reshape(2, 3),
    "integers": lambda m: m.arange(1, 7).reshape(2, 3),
    "row": lambda m: m.ones(1, 3),
    "single": lambda m: m.ones(1, 1),
    "image": lambda m: m.ones(1, 1, 2, 2),
}
ARGUMENTS = [(), (0,), (1,), (-1,), (0, 1), (1, 1), (1, 0), (2,), (0, 0, 1), ((0,),), (0, 0, 0), (1, 0, 1)]
PADS = [((0, 0),), ((0, 0), "reflect"), ((0, 0), "replicate"), ((0, 0), "circular"), ((2, 2),)]
OWNERS = {
    "Tensor": (ternion.Tensor, torch.Tensor),
    "ternion": (ternion, torch),
    "functional": (ternion.nn.functional, torch.nn.functional),
}

#: Told in docs/python.md, or of no weight.
OTHERWISE = {
    "diagonal": "a copy here",
    "BoolTensor FloatTensor LongTensor Tensor": "classes of one dtype here make tensors of numbers",
    "dropout dropout1d dropout2d": "with a probability of 0: PyTorch gives the input itself",
    "chain_matmul": "of a single matrix: the matrix itself",
    "pin_memory": "changes nothing here",
}
SKIPPED = {
    name for names in OTHERWISE for name in names.split()
} | {"backward", "register_hook", "asarray", "as_tensor", "save", "load", "set_default_dtype", "set_default_device", "manual_seed"}  # fmt: skip


def names(ours, theirs):
    both = [name for name in dir(ours) if not name.startswith("_") and not name.endswith("_") and name not in SKIPPED]
    return [name for name in both if callable(getattr(theirs, name, None))]


def shares(function, x, arguments):
    """For each result whether a change of it is seen in `x`; None if there is no such result."""
    before, made = x.tolist(), function(x, *arguments)
    found = []
    for result in made if isinstance(made, (tuple, list)) else [made]:
        if type(result).__name__ != "Tensor" or result.numel() == 0:
            return None
        result.copy_(~result if result.dtype in (ternion.bool, torch.bool) else result * 0 + 7)
        found.append(x.tolist() != before)
    return found


def answer(function, x, arguments):
    try:
        return shares(function, x, arguments)
    except Exception:
        # Not for these arguments: other tests tell of that.
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("owner, name", [(owner, name) for owner, pair in OWNERS.items() for name in names(*pair)])
def test_results_share_memory_as_pytorchs(owner, name):
    ours, theirs = (getattr(side, name) for side in OWNERS[owner])
    for kind, make in KINDS.items():
        for arguments in ARGUMENTS + (PADS if name == "pad" else []):
            expected, found = answer(theirs, make(torch), arguments), answer(ours, make(ternion), arguments)
            assert None in (expected, found) or found == expected, f"{name}{arguments} of {kind}"


def test_in_place_of_itself():
    """A source that is the tensor itself, or overlaps it, is read before it is changed."""
    places = ternion.tensor([3, 2, 1, 0])
    for name, want in (("scatter_", [4, 3, 2, 1]), ("scatter_add_", [5, 5, 5, 5]), ("index_add_", [5, 5, 5, 5]), ("index_copy_", [4, 3, 2, 1])):
        x = ternion.arange(1.0, 5.0)
        assert getattr(x, name)(0, places, x).tolist() == want, name
    for reduce, want in (("sum", [5, 5, 5, 5]), ("prod", [4, 6, 6, 4]), ("amax", [4, 3, 3, 4])):
        x = ternion.arange(1.0, 5.0)
        assert x.scatter_reduce_(0, places, x, reduce).tolist() == want, reduce
    x = ternion.arange(1.0, 9.0)
    x[:4].scatter_(0, places, x[2:6])
    assert x.tolist() == [6, 5, 4, 3, 5, 6, 7, 8]
    x = ternion.arange(6.0).reshape(3, 2)
    assert x.index_add_(0, ternion.tensor([2, 1, 0]), x).tolist() == [[4, 6]] * 3
