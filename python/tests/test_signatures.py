"""Functions and classes have PyTorch's arguments at the same positions and under the same names: a
program that passes arguments by position runs in both libraries."""

import importlib
import inspect

import pytest

torch = pytest.importorskip("torch")

import ternion  # noqa: E402

MODULES = [
    "", "amp", "autograd", "linalg", "nn", "nn.functional", "nn.init", "nn.utils", "nn.utils.rnn", "nn.utils.fusion", "optim", "optim.lr_scheduler", "optim.swa_utils",
    "signal.windows", "special", "utils.checkpoint", "utils.data",
]  # fmt: skip

#: Functions with other names or positions of arguments, and why.
OTHERS = {
    "nn.RNNBase": "a base class, made by its subclasses", "nn.RNNCellBase": "a base class, made by its subclasses",
    "from_dlpack": "its only argument, given by position", "load": "the file is `path`; `device` stands for map_location",
    "save": "takes (obj, f) and (path, state), whichever is the file", "norm": "`out` is rejected everywhere",
}  # fmt: skip

#: Missing arguments, and why.
MISSING = {
    "out": "rejected everywhere: a result is a new tensor", "mode": "of a base class", "num_chunks": "of a base class", "ext_tensor": "given by position", "f": "given by position",
    "obj": "given by position", "pickle_load_args": "nothing is pickled", "_disable_byteorder_record": "nothing is pickled",
}  # fmt: skip

BY_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def parameters(function):
    return list(inspect.signature(function.__init__ if isinstance(function, type) else function).parameters.values())


def both():
    """Yields the names that both packages have and whose signatures Python knows, with the
    parameters of Ternion and of PyTorch."""
    for module in MODULES:
        ternion_module, torch_module = (importlib.import_module(".".join(filter(None, (package, module)))) for package in ("ternion", "torch"))
        for name in sorted(set(dir(ternion_module)) & set(dir(torch_module))):
            own, theirs = getattr(ternion_module, name), getattr(torch_module, name)
            if name.startswith("_") or not callable(own) or name.endswith("Tensor"):
                continue
            try:
                yield ".".join(filter(None, (module, name))), parameters(own), parameters(theirs)
            except (TypeError, ValueError):
                continue


FOUND = {name: (own, theirs) for name, own, theirs in both()}


def test_hundreds_are_compared():
    assert len(FOUND) > 300 and not OTHERS.keys() - FOUND.keys()


@pytest.mark.parametrize("name", FOUND)
def test_arguments_are_at_their_positions(name):
    own, theirs = ([parameter.name for parameter in side if parameter.kind in BY_PLACE] for side in FOUND[name])
    is_open = any(parameter.kind is parameter.VAR_POSITIONAL for parameter in FOUND[name][1])
    if not is_open and theirs:
        assert (own[: len(theirs)] == theirs[: len(own)]) != (name in OTHERS)


@pytest.mark.parametrize("name", FOUND)
def test_arguments_have_their_names(name):
    own, theirs = FOUND[name]
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in own):
        return
    stars = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    missing = {parameter.name for parameter in theirs if parameter.kind not in stars} - {parameter.name for parameter in own}
    assert missing - {"tensor"} <= MISSING.keys()


def test_arguments_of_before_pytorch_1():
    F, x, y = ternion.nn.functional, ternion.tensor([0.5, 2.0]), ternion.tensor([1.0, 0.0])
    tx, ty = torch.tensor([0.5, 2.0]), torch.tensor([1.0, 0.0])
    with pytest.warns(UserWarning, match="size_average and reduce"):
        for flags in ((True, True), (False, True), (None, False), (False, False)):
            assert F.mse_loss(x, y, *flags).tolist() == torch.nn.functional.mse_loss(tx, ty, *flags).tolist()
            assert F.soft_margin_loss(x, y, *flags).tolist() == pytest.approx(torch.nn.functional.soft_margin_loss(tx, ty, *flags).tolist())
            assert F.poisson_nll_loss(x, y, True, False, flags[0], 1e-8, flags[1]).tolist() == pytest.approx(
                torch.nn.functional.poisson_nll_loss(tx, ty, True, False, flags[0], 1e-8, flags[1]).tolist()
            )
            assert ternion.nn.L1Loss(*flags)(x, y).tolist() == torch.nn.L1Loss(*flags)(tx, ty).tolist()
    # Without flags, positional arguments are not interpreted in the legacy way.
    assert F.cross_entropy(x[None], ternion.tensor([0]), None, None, -100, None, "sum").item() == pytest.approx(1.7014132)
    for call in (lambda: F.mse_loss(x, y, "none"), lambda: F.kl_div(x, y, "sum"), lambda: ternion.nn.MSELoss("none")):
        with pytest.raises(TypeError, match="str"):
            call()


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name, options", [("mse_loss", {}), ("l1_loss", {}), ("huber_loss", {"delta": 0.5})])
def test_weights_of_elements(name, options, reduction):
    values = [[0.5, 2.0, -1.0], [1.0, 0.0, 3.0], [0.5, 2.0, 0.25]]
    results = []
    for T in (ternion, torch):
        x, y, weight = (T.tensor(row) for row in values)
        x.requires_grad_()
        loss = getattr(T.nn.functional, name)(x, y, reduction=reduction, weight=weight, **options)
        loss.sum().backward()
        results.append((loss.tolist(), x.grad.tolist()))
    assert results[0][0] == pytest.approx(results[1][0]) and results[0][1] == pytest.approx(results[1][1])
    with pytest.raises(ValueError, match=f"{name}: weight has shape \\[1\\], expected \\[3\\]"):
        getattr(ternion.nn.functional, name)(ternion.ones(3), ternion.ones(3), weight=ternion.ones(1))


@pytest.mark.parametrize("name", ["uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "xavier_normal_", "kaiming_uniform_", "kaiming_normal_", "orthogonal_"])
def test_first_values_of_a_generator(name):
    draw, tensors = getattr(ternion.nn.init, name), [ternion.zeros(3, 4) for _ in range(3)]
    before = ternion.get_rng_state()
    for tensor, seed in zip(tensors, (1, 1, 2)):
        draw(tensor, generator=ternion.Generator().manual_seed(seed))
    assert tensors[0].tolist() == tensors[1].tolist() != tensors[2].tolist() and ternion.get_rng_state() == before


def test_sparse_values_of_a_generator():
    first, second = (ternion.nn.init.sparse_(ternion.zeros(4, 3), 0.5, generator=ternion.Generator().manual_seed(5)) for _ in range(2))
    assert first.tolist() == second.tolist() and (first == 0).sum(0).tolist() == [2, 2, 2]


def test_arguments_that_change_nothing():
    x = ternion.tensor([2.0], requires_grad=True)
    assert ternion.autograd.grad(x * x, x, None, None, False, True, None)[0].tolist() == [4.0]
    with pytest.warns(UserWarning, match="grad_variables"):
        ternion.autograd.backward([x * x], grad_variables=[ternion.tensor([2.0])])
    assert x.grad.tolist() == [8.0]
    with ternion.autocast("cpu", cache_enabled=False):
        pass
    with pytest.warns(UserWarning, match="min_value is deprecated"):
        assert ternion.nn.Hardtanh(min_value=-0.5)(ternion.tensor([-2.0, 2.0])).tolist() == [-0.5, 1.0]


def test_rows_of_an_embedding():
    rows = ternion.arange(6.0).reshape(3, 2)
    layer = ternion.nn.Embedding(3, 2, _weight=rows, _freeze=True)
    assert layer.weight.tolist() == rows.tolist() and not layer.weight.requires_grad
    assert ternion.nn.EmbeddingBag(3, 2, mode="sum", _weight=rows)(ternion.tensor([[0, 2]])).tolist() == [[4.0, 6.0]]
    bag = ternion.nn.EmbeddingBag.from_pretrained(rows, True, 1.0, 2.0, False, "sum", False, False, 0)
    assert (bag.max_norm, bag.mode, bag.padding_idx) == (1.0, "sum", 0)
    with pytest.raises(ValueError, match=r"Embedding: _weight of shape \[2, 2\], expected a tensor of shape \[3, 2\]"):
        ternion.nn.Embedding(3, 2, _weight=ternion.ones(2, 2))


@pytest.mark.parametrize("settings", [dict(ns_steps=3), dict(eps=1.0), dict(ns_coefficients=(2.0, -1.5, 0.5)), dict(adjust_lr_fn="match_rms_adamw")])
def test_settings_of_muon(settings):
    sides = []
    for T in (ternion, torch):
        weight = T.nn.Parameter(T.tensor([[1.0, -2.0, 0.5], [0.25, 3.0, -1.0]]))
        optimizer = T.optim.Muon([weight], 0.1, 0.1, 0.95, True, **settings)
        for _ in range(3):
            optimizer.zero_grad()
            (weight**2).sum().backward()
            optimizer.step()
        sides.append(weight.detach().reshape(-1).tolist())
    # PyTorch iterates in bfloat16.
    assert sides[0] == pytest.approx(sides[1], abs=2e-2)
    with pytest.raises(ValueError, match='Muon: adjust_lr_fn "other"'):
        ternion.optim.Muon([ternion.nn.Parameter(ternion.ones(2, 2))], adjust_lr_fn="other").step()
