"""The package exposes only its own names: no standard modules, no types of `typing`, no internal
helper functions."""

import importlib
import types
from typing import Any

import pytest

import ternion

MODULES = """
ternion ternion.amp ternion.autograd ternion.cuda ternion.cuda.nvtx ternion.data ternion.formats ternion.linalg ternion.models ternion.nn ternion.nn.attention.varlen ternion.nn.functional ternion.nn.init
ternion.nn.utils ternion.nn.utils.rnn ternion.optim ternion.optim.lr_scheduler ternion.optim.swa_utils ternion.signal ternion.signal.windows ternion.special ternion.testing ternion.train ternion.utils
ternion.utils.checkpoint ternion.utils.data ternion.utils.tensorboard ternion.metrics
""".split()

#: Names that the PyTorch module of the same name does not have.
OWN = {
    "ternion": """
        CapturedStep HookHandle Parameter Stats capture check checkpoint data devices elu formats gelu leaky_relu metrics models softplus stats train
    """,
    "ternion.nn": "FeedForward KeyValueCache LayerSummary ResidualBlock Rotary Summary Timeline TransformerBlock summary trace",
    "ternion.nn.modules": "FeedForward ResidualBlock Rotary TransformerBlock",
    "ternion.nn.functional": "accuracy add_relu bias_activation linear_cross_entropy sinusoidal",
    "ternion.nn.utils": "StatsMonitor",
    "ternion.optim": "Ema Lion",
    "ternion.optim.swa_utils": "Ema",
    "ternion.cuda": "nvrtc_version",
    "ternion.testing": "GradcheckError compare_devices compare_models gradcheck gradgradcheck",
    "ternion.amp": "is_autocast_enabled",
    "ternion.autograd": "is_grad_enabled to_dot",
    "ternion.utils": "tensorboard",
}

#: Names that PyTorch has only in `torch.optim.lr_scheduler`.
SCHEDULES = set(ternion.optim.lr_scheduler.__all__)


def visible_names(module):
    return {name for name in dir(module) if not name.startswith("_")}


def is_own(thing):
    if isinstance(thing, types.ModuleType):
        return thing.__name__.startswith("ternion.")
    # Native functions have a module name; numbers, dtypes and None do not.
    home = getattr(thing, "__module__", None) or "ternion"
    return home.split(".")[0] in ("ternion", "_ternion", "_data", "_functional", "_train", "builtins")


@pytest.mark.parametrize("name", MODULES)
def test_a_module_shows_what_is_its_own(name):
    module = importlib.import_module(name)
    assert [entry for entry in sorted(visible_names(module)) if not is_own(getattr(module, entry))] == []


@pytest.mark.parametrize("name", MODULES)
def test_a_star_imports_what_is_shown(name):
    result = {}
    exec(f"from {name} import *", result)
    del result["__builtins__"]
    assert set(result) == visible_names(importlib.import_module(name))


@pytest.mark.parametrize("name", MODULES)
def test_what_pytorch_lacks_is_meant_to_be_shown(name):
    pytest.importorskip("torch")
    try:
        other = importlib.import_module(name.replace("ternion", "torch"))
    except ModuleNotFoundError:
        pytest.skip("PyTorch has no such module")
    extra = {entry for entry in visible_names(importlib.import_module(name)) if not hasattr(other, entry)}
    if name == "ternion":
        # Functions of the op table are intentionally public, even if PyTorch has them only in
        # torch.nn.functional.
        extra -= set(ternion._ternion._ELEMENTWISE_METHODS)
    assert extra - (SCHEDULES if name == "ternion.optim" else set()) == set(OWN.get(name, "").split())


def test_what_is_not_its_own_is_seen():
    for stranger in (types, Any, importlib.import_module, pytest.fixture):
        assert not is_own(stranger)
