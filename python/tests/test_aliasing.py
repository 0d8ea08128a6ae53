"""Which results share memory with their inputs. As in PyTorch, an in-place change is visible in
every tensor that shares the memory, and in no other."""

import itertools
import math

import numpy as np
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

#: Differences that are documented in docs/python.md, or do not matter.
OTHERWISE = {
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
    """Returns, for each result, whether changing it changes `x`. Returns None if a result is not a
    tensor, or is empty."""
    original, results = x.tolist(), function(x, *arguments)
    found = []
    for result in results if isinstance(results, (tuple, list)) else [results]:
        if type(result).__name__ != "Tensor" or result.numel() == 0:
            return None
        result.copy_(~result if result.dtype in (ternion.bool, torch.bool) else result * 0 + 7)
        found.append(x.tolist() != original)
    return found


def answer(function, x, arguments):
    try:
        return shares(function, x, arguments)
    except Exception:
        # The function rejects these arguments, which other tests cover.
        return None


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("owner, name", [(owner, name) for owner, pair in OWNERS.items() for name in names(*pair)])
def test_results_share_memory_as_pytorchs(owner, name):
    ours, theirs = (getattr(side, name) for side in OWNERS[owner])
    for kind, make in KINDS.items():
        for arguments in ARGUMENTS + (PADS if name == "pad" else []):
            expected, actual = answer(theirs, make(torch), arguments), answer(ours, make(ternion), arguments)
            assert None in (expected, actual) or actual == expected, f"{name}{arguments} of {kind}"


def test_in_place_of_itself():
    """A source that is the tensor itself, or overlaps it, is read before the tensor is changed."""
    indices = ternion.tensor([3, 2, 1, 0])
    for name, want in (("scatter_", [4, 3, 2, 1]), ("scatter_add_", [5, 5, 5, 5]), ("index_add_", [5, 5, 5, 5]), ("index_copy_", [4, 3, 2, 1])):
        x = ternion.arange(1.0, 5.0)
        assert getattr(x, name)(0, indices, x).tolist() == want, name
    for reduce, want in (("sum", [5, 5, 5, 5]), ("prod", [4, 6, 6, 4]), ("amax", [4, 3, 3, 4])):
        x = ternion.arange(1.0, 5.0)
        assert x.scatter_reduce_(0, indices, x, reduce).tolist() == want, reduce
    x = ternion.arange(1.0, 9.0)
    x[:4].scatter_(0, indices, x[2:6])
    assert x.tolist() == [6, 5, 4, 3, 5, 6, 7, 8]
    x = ternion.arange(6.0).reshape(3, 2)
    assert x.index_add_(0, ternion.tensor([2, 1, 0]), x).tolist() == [[4, 6]] * 3


#: Functions that return views, by the shape of their input. Where PyTorch returns a copy (a reshape
#: that must copy, `diag`), Ternion returns a copy too.
VIEWS = {
    (4,): {
        "as_strided in row-major order": lambda m, x: x.as_strided((2, 2), (2, 1)),
        "as_strided apart": lambda m, x: m.as_strided(x, (2,), (2,), x.storage_offset() + 1),
        "as_strided reversed axes": lambda m, x: x.as_strided((2, 2), (1, 2)),
        "unfold": lambda m, x: x.unfold(0, 2, 2),
        "view": lambda m, x: x.view(2, -1),
        "unflatten": lambda m, x: x.unflatten(0, (2, 2)),
        "atleast_2d": lambda m, x: m.atleast_2d(x),
        "diag_embed": lambda m, x: m.diag_embed(x),
        "slice": lambda m, x: x[1::2],
        "None": lambda m, x: x[None],
        "broadcast_to itself": lambda m, x: x.broadcast_to((4,)),
        "expand by 1": lambda m, x: x.expand(1, 4),
        "ravel": lambda m, x: x.ravel(),
    },
    (3, 4): {
        "diagonal": lambda m, x: x.diagonal(),
        "diagonal above": lambda m, x: m.diagonal(x, 2),
        "diagonal below": lambda m, x: x.diagonal(-1, -1, -2),
        "diagonal outside": lambda m, x: x.diagonal(9),
        "linalg.diagonal": lambda m, x: m.linalg.diagonal(x, offset=1),
        "diagonal of transposed": lambda m, x: x.t().diagonal(1),
        "diagonal of a part": lambda m, x: x[1:, ::2].diagonal(),
        "row of diagonal": lambda m, x: x.diagonal().unsqueeze(0)[:, 1:],
        "diag": lambda m, x: m.diag(x),
        "einsum of axes": lambda m, x: m.einsum("ij->ji", x),
        "T": lambda m, x: x.T,
        "t": lambda m, x: x.t(),
        "mT": lambda m, x: x.mT,
        "swapaxes": lambda m, x: x.swapaxes(0, 1),
        "swapdims": lambda m, x: m.swapdims(x, 0, -1),
        "movedim": lambda m, x: x.movedim(0, 1),
        "moveaxis": lambda m, x: m.moveaxis(x, 0, 1),
        "permute": lambda m, x: x.permute(1, 0),
        "transpose": lambda m, x: m.transpose(x, 0, 1),
        "select": lambda m, x: x.select(1, -1),
        "index": lambda m, x: x[1],
        "narrow": lambda m, x: x.narrow(1, 1, 2),
        "chunk": lambda m, x: x.chunk(2, 1)[1],
        "split": lambda m, x: x.split(3, 1)[1],
        "split of sizes": lambda m, x: m.split(x, [1, 3], 1)[1],
        "split_with_sizes": lambda m, x: x.split_with_sizes([1, 2])[1],
        "tensor_split": lambda m, x: x.tensor_split(3, 1)[0],
        "hsplit": lambda m, x: x.hsplit(2)[1],
        "vsplit": lambda m, x: m.vsplit(x, [1])[1],
        "unbind": lambda m, x: x.unbind(1)[2],
        "iteration": lambda m, x: list(x)[1],
        "unsqueeze": lambda m, x: x.unsqueeze(1),
        "view_as": lambda m, x: x.view_as(m.zeros(2, 6)),
        "reshape": lambda m, x: x.reshape(6, 2),
        "reshape_as": lambda m, x: x.reshape_as(m.zeros(12)),
        "flatten": lambda m, x: x.flatten(),
        "ravel": lambda m, x: m.ravel(x),
        "contiguous": lambda m, x: x.contiguous(),
        "expand_as": lambda m, x: x.expand_as(m.zeros(1, 3, 4)),
        "real": lambda m, x: m.real(x),
        "as_strided": lambda m, x: x.as_strided((2, 3), (4, 1), x.storage_offset() + 1),
        "flip": lambda m, x: x.flip(0),
        "clone": lambda m, x: x.clone(),
    },
    (3, 2, 3): {
        "diagonal of the outer axes": lambda m, x: x.diagonal(0, 0, 2),
        "diagonal of diagonal": lambda m, x: x.diagonal(1, 2, 0).diagonal(),
        "einsum diagonal": lambda m, x: m.einsum("iji->ij", x),
        "einsum of a list": lambda m, x: m.einsum("iji->ji", [x]),
        "dsplit": lambda m, x: x.dsplit(3)[1],
        "squeeze": lambda m, x: x.narrow(1, 1, 1).squeeze(),
        "squeeze of an axis": lambda m, x: x[:, :1].squeeze(1),
        "unfold": lambda m, x: x.unfold(0, 1, 2),
        "atleast_3d": lambda m, x: m.atleast_3d(x),
        "...": lambda m, x: x[..., 1:, 0],
        "as_strided of volumes": lambda m, x: x.as_strided((3, 3), (6, 1), x.storage_offset() + 3),
    },
}  # fmt: skip
#: How a tensor is stored in its buffer: row-major, at an offset, with transposed axes, with gaps.
#: Each entry has the number of elements before the tensor, the number of buffer elements per
#: element, and the function that creates the tensor from the buffer.
BASES = {
    "dense": (0, 1, lambda row, sizes: row.reshape(sizes)),
    "behind others": (10, 1, lambda row, sizes: row[10:].view(sizes)),
    "transposed": (0, 1, lambda row, sizes: row.view(sizes[::-1]).permute(*range(len(sizes))[::-1])),
    "gaps": (0, 2, lambda row, sizes: row.view(*sizes, 2)[..., 1]),
}
WRITES = {
    "add_": lambda m, v: v.add_(5.0),
    "mul_ of a tensor": lambda m, v: v.mul_(m.arange(1.0, 1 + v.numel()).reshape(v.shape)),
    "fill_": lambda m, v: v.fill_(7.0),
    "copy_": lambda m, v: v.copy_(m.arange(float(v.numel())).reshape(v.shape)),
    "[:]": lambda m, v: v.__setitem__(slice(None), 3.0),
    "[...]": lambda m, v: v.__setitem__(..., m.tensor(4.0)),
    "+=": lambda m, v: v.__iadd__(2.0),
    "zero_": lambda m, v: v.zero_(),
}
CASES = [(sizes, name) for sizes, views in VIEWS.items() for name in views]


def written(m, sizes, name, base, write, is_recorded):
    """Returns the whole buffer and the view after a write through the view, and the gradient if it
    is recorded."""
    before, factor, lie = BASES[base]
    count = before + factor * math.prod(sizes)
    leaf = m.arange(1.0, 1 + count)
    row = leaf.requires_grad_() * 2 if is_recorded else leaf
    view = VIEWS[sizes][name](m, lie(row, sizes))
    WRITES[write](m, view)
    if not is_recorded:
        return row.tolist(), view.tolist()
    # If everything was overwritten, only its own sum connects the leaf to the loss.
    ((row * m.arange(1.0, 1 + count)).sum() + leaf.sum()).backward()
    return row.tolist(), view.tolist(), leaf.grad.tolist()


@pytest.mark.parametrize("sizes, name", CASES)
def test_a_write_through_a_view_is_seen(sizes, name):
    every = itertools.product(["dense"], WRITES, [False, True])
    some = itertools.product(list(BASES)[1:], ["mul_ of a tensor", "[...]"], [False, True])
    for base, write, is_recorded in itertools.chain(every, some):
        case = (sizes, name, base, write, is_recorded)
        try:
            expected = written(torch, *case)
        except RuntimeError as error:
            # Such a layout has no view.
            assert "view" in str(error), (case, error)
            continue
        if name.startswith("as_strided") and base in ("transposed", "gaps")[len(sizes) == 1 :]:
            with pytest.raises(ValueError, match="as_strided: a tensor that is not contiguous"):
                written(ternion, *case)
            continue
        assert written(ternion, *case) == expected, case


def test_a_dtype_of_the_same_memory_is_a_view():
    x = ternion.zeros(3)
    x.view(ternion.int32).fill_(0x3F800000)
    assert x.tolist() == [1, 1, 1]


def test_elements_that_share_memory_are_not_written():
    """Ternion rejects writes to all of them. PyTorch rejects an expanded tensor, and writes an
    element of the others once for each time it occurs."""
    x = ternion.arange(4.0)
    overlapping = {
        "expand": x.expand(2, 4), "broadcast_to": x.broadcast_to((3, 4)), "unfold": x.unfold(0, 2, 1), "as_strided": x.as_strided((3, 2), (1, 1)),
        "as_strided expanded": x.as_strided((2, 4), (0, 1)), "diagonal of expanded": x[:1].expand(4, 4).diagonal(),
    }  # fmt: skip
    for name, view in overlapping.items():
        for write in WRITES.values():
            with pytest.raises(ValueError, match="whose elements share memory"):
                write(ternion, view)
        assert x.tolist() == [0, 1, 2, 3], name
    assert overlapping["as_strided"].tolist() == [[0, 1], [1, 2], [2, 3]]
    recorded = x.requires_grad_() * 1
    with pytest.raises(RuntimeError, match="whose elements share memory"):
        recorded.as_strided((3, 2), (1, 1)).mul_(2.0)
    recorded.as_strided((3, 2), (1, 1)).sum().backward()
    assert x.grad.tolist() == [1, 2, 2, 1]


@pytest.mark.parametrize("offset", [None, 2, 3, 4])
def test_strides_count_from_the_start_of_the_memory(offset):
    of_memory = []
    for m in (ternion, torch):
        x = m.arange(10.0)[2:8]
        of_memory.append([x.as_strided((2, 2), (2, 1), offset).tolist(), m.as_strided_scatter(x, m.zeros(2), (2,), (2,), offset).tolist()])
    assert of_memory[0] == of_memory[1]
    with pytest.raises(ValueError, match="as_strided: storage_offset 1, expected at least 2, where the tensor begins"):
        ternion.arange(10.0)[2:8].as_strided((2,), (1,), 1)
    with pytest.raises(ValueError, match="reach beyond 6 elements"):
        ternion.arange(10.0)[2:8].as_strided((2,), (1,), 7)


def test_as_strided_in_place_takes_the_form():
    for m in (ternion, torch):
        x = m.arange(6.0)
        flat = x.view(6)
        assert x.as_strided_((2, 2), (3, 1), 1) is x and x.shape == (2, 2)
        x.add_(10.0)
        assert (x.tolist(), flat.tolist()) == ([[11, 12], [14, 15]], [0, 11, 12, 3, 14, 15])


OVERWRITING = {
    "zero_": (), "fill_": (2.0,), "copy_": None, "normal_": (), "uniform_": (), "exponential_": (), "bernoulli_": (0.5,), "random_": (), "cauchy_": (), "log_normal_": (), "geometric_": (0.5,),
}  # fmt: skip


@pytest.mark.parametrize("name", OVERWRITING)
def test_what_is_overwritten_has_a_gradient_of_0_and_no_influence(name):
    x = ternion.tensor([1.0, math.inf, math.nan, 3.0], requires_grad=True)
    y = x * 2
    getattr(y, name)(*(OVERWRITING[name] if OVERWRITING[name] is not None else [ternion.arange(4.0)]))
    assert y.requires_grad and not y.isnan().any()
    y.sum().backward()
    assert x.grad.tolist() == [0.0] * 4


def test_in_place_forms_of_python_keep_history_and_views():
    """In-place methods that are implemented in Python store their result in the tensor, also for
    rows of a tensor, with another dtype, and if the result has no history."""
    gradients = []
    for library in (ternion, torch):
        x = library.tensor([[0.1, 0.2], [0.3, 0.4]], requires_grad=True)
        y = x * 1
        rows = y[1]
        assert rows.asin_() is rows
        y.lerp_(library.ones(2, 2), 0.25)
        y[0].add_(library.tensor([1.0, 2.0], dtype=library.float64))
        (y * y).sum().backward()
        plain = library.zeros(2)
        plain.heaviside_(library.tensor([0.5, 1.0]))
        gradients.append((x.grad.tolist(), y.tolist(), plain.tolist()))
    np.testing.assert_allclose(np.array(gradients[0][0]), np.array(gradients[1][0]), rtol=1e-6)
    np.testing.assert_allclose(np.array(gradients[0][1]), np.array(gradients[1][1]), rtol=1e-6)
    assert gradients[0][2] == gradients[1][2]
