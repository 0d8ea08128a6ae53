"""Lists every public function with a numeric argument, from stubs and signatures, and calls each of
them, for test_number_gradients."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import ternion
from ternion import nn, optim

from test_public_names import MODULES

PACKAGE = Path(ternion.__file__).parent
#: Annotations of numbers.
NUMBERS = re.compile(r"\b(_?float|Number|Operand|Other)\b")
#: Arguments that accept numbers, although their annotation (`Any`, or none) does not say so.
OTHERS = """
    rsub.other rsub.alpha float_power.exponent copysign.other lerp.weight normal.mean normal.std quantile.q nanquantile.q fill.value clamp_min.min clamp_max.max
    fill_diagonal_.fill_value new_full.fill_value index_fill.value index_add.alpha index_add_.alpha index_put.values gradient.spacing scalar_tensor.s xlogy.other
    xlog1py.other zeta.other isin.elements interpolate.scale_factor fractional_max_pool2d.output_ratio calculate_gain.param matrix_norm.ord norm.ord cond.p OneCycleLR.max_lr
    ReduceLROnPlateau.min_lr SWALR.swa_lr general_cosine.a histogram.range
""".split()
OUTSIDE = ("ternion.testing", "ternion.models", "ternion.utils.data", "ternion.optim.lr_scheduler", "ternion.nn.modules")


def is_number(annotation):
    return bool(NUMBERS.search(annotation)) and not annotation.startswith(("Callable", "dict", "Sequence", "tuple"))


def in_stubs(path):
    """Yields the functions of a stub file, each with the name of its class."""
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef):
            yield None, node
        if isinstance(node, ast.ClassDef) and node.name == "Tensor":
            yield from (("Tensor", method) for method in node.body if isinstance(method, ast.FunctionDef))


def of_stubs():
    for module, file in (("ternion", "__init__.pyi"), ("ternion", "_ternion.pyi"), ("ternion.nn.functional", "nn/functional.pyi")):
        for owner, function in in_stubs(PACKAGE / file):
            arguments = function.args
            for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                annotation = "" if argument.annotation is None else ast.unparse(argument.annotation)
                if is_number(annotation) or f"{function.name}.{argument.arg}" in OTHERS:
                    yield (f"{module}.Tensor" if owner else module), function.name, argument.arg


def of_signatures():
    for module in MODULES:
        home = importlib.import_module(module)
        for name in (name for name in dir(home) if not name.startswith("_")):
            result = getattr(home, name)
            try:
                parameters = inspect.signature(result.__init__ if isinstance(result, type) else result).parameters.values()
            except (TypeError, ValueError):
                continue
            for each in parameters:
                is_told = isinstance(each.annotation, str) and is_number(each.annotation)
                is_shown = each.annotation is each.empty and isinstance(each.default, float)
                if is_told or is_shown or f"{name}.{each.name}" in OTHERS:
                    yield module, name, each.name


def number_parameters():
    """Returns module or class, function and argument of all numeric arguments, without duplicates.
    Arguments of tests, models and data loaders, and the limits of a monitor, are excluded: they are
    settings of programs."""
    result = dict.fromkeys([*of_stubs(), *of_signatures()])
    return [each for each in result if each[0] not in OUTSIDE and each[1] != "StatsMonitor" and not each[1].startswith("__")]


def x(*shape):
    return ternion.rand(*(shape or (3, 3))) * 0.8 + 0.1


def weights():
    parameter = nn.Parameter(x())
    parameter.grad = x()
    return [parameter]


def sgd():
    return optim.SGD(weights(), lr=0.1, momentum=0.5)


INDEX = {"dim": lambda: 0, "index": lambda: ternion.tensor([0, 1, 2])}
VECTORS = {"input1": x, "input2": x, "target": lambda: ternion.tensor([1.0, -1.0, 1.0])}
TRIPLET = {"anchor": x, "positive": x, "negative": x}
NORM = {name: lambda: x(3) for name in ("running_mean", "running_var", "weight", "bias")}
CONV = {"kernel_size": lambda: 2}
FUSED = {"conv_w": lambda: x(2, 3, 1, 1), "conv_b": lambda: x(2), "bn_rm": lambda: x(2), "bn_rv": lambda: x(2), "bn_w": lambda: x(2), "bn_b": lambda: x(2)}
FUSED_LINEAR = {"linear_w": x, "linear_b": lambda: x(3), "bn_rm": lambda: x(3), "bn_rv": lambda: x(3), "bn_w": lambda: x(3), "bn_b": lambda: x(3)}
LENGTHS = {name: lambda: ternion.tensor([0, 1, 3], dtype=ternion.int32) for name in ("cu_seq_q", "cu_seq_k")}
PACKED = {**{name: lambda: x(3, 2, 4) for name in ("query", "key", "value")}, **LENGTHS, "max_q": lambda: 2, "max_k": lambda: 2}

#: Arguments by function, if they differ from those by name below.
ARGUMENTS = {
    "addbmm": {"batch1": lambda: x(2, 3, 3), "batch2": lambda: x(2, 3, 3)},
    "baddbmm": {"input": lambda: x(2, 3, 3), "self": lambda: x(2, 3, 3), "batch1": lambda: x(2, 3, 3), "batch2": lambda: x(2, 3, 3)},
    "addmv": {"input": lambda: x(3), "self": lambda: x(3), "vec": lambda: x(3)}, "addr": {"vec1": lambda: x(3), "vec2": lambda: x(3)},
    "index_fill": INDEX, "index_add": INDEX, "index_add_": INDEX, "index_copy": INDEX,
    "scatter": {"dim": lambda: 0, "index": lambda: ternion.zeros(3, 3, dtype=ternion.int64)},
    "scatter_": {"dim": lambda: 0, "index": lambda: ternion.zeros(3, 3, dtype=ternion.int64)},
    "masked_fill": {"mask": lambda: x() > 0.5}, "masked_fill_": {"mask": lambda: x() > 0.5}, "index_put": {"indices": lambda: (ternion.tensor([0, 1]),)},
    "bitwise_and": {"input": lambda: ternion.tensor([1, 2]), "self": lambda: ternion.tensor([1, 2])},
    "linspace": {"start": lambda: 0.0, "end": lambda: 1.0, "steps": lambda: 3}, "logspace": {"start": lambda: 0.0, "end": lambda: 1.0, "steps": lambda: 3},
    "group_norm": {"num_groups": lambda: 3}, "layer_norm": {"normalized_shape": lambda: (3,)}, "rms_norm": {"normalized_shape": lambda: (3,)},
    "batch_norm": {**NORM, "training": lambda: True}, "instance_norm": {"input": lambda: x(2, 3, 4), **NORM},
    "embedding": {"input": lambda: ternion.tensor([0, 1])}, "embedding_bag": {"input": lambda: ternion.tensor([[0, 1]])},
    "cross_entropy": {"target": lambda: ternion.tensor([0, 1, 2])}, "multi_margin_loss": {"target": lambda: ternion.tensor([0, 1, 2])},
    "pad": {"pad": lambda: (1, 1)}, "scaled_dot_product_attention": {"query": x, "key": x, "value": x},
    "cosine_embedding_loss": VECTORS, "margin_ranking_loss": {**VECTORS, "target": x}, "gaussian_nll_loss": {"var": x},
    "triplet_margin_loss": TRIPLET, "triplet_margin_with_distance_loss": TRIPLET, "local_response_norm": {"input": lambda: x(2, 3, 4), "size": lambda: 2},
    "lp_pool1d": {"input": lambda: x(1, 2, 4), **CONV}, "lp_pool2d": {"input": lambda: x(1, 2, 4, 4), **CONV}, "lp_pool3d": {"input": lambda: x(1, 2, 4, 4, 4), **CONV},
    "dropout1d": {"input": lambda: x(2, 3, 4)}, "dropout2d": {"input": lambda: x(2, 3, 4, 4)}, "dropout3d": {"input": lambda: x(2, 3, 4, 4, 4)},
    "feature_alpha_dropout": {"input": lambda: x(2, 3, 4)}, "interpolate": {"input": lambda: x(1, 2, 4)}, "upsample": {"input": lambda: x(1, 2, 4)},
    "fractional_max_pool2d": {"input": lambda: x(1, 2, 4, 4), **CONV}, "threshold": {"threshold": lambda: 0.5, "value": lambda: 0.5}, "threshold_": {"threshold": lambda: 0.5, "value": lambda: 0.5},
    "renorm": {"p": lambda: 2.0, "dim": lambda: 0, "maxnorm": lambda: 1.0}, "new_full": {"size": lambda: (2,), "fill_value": lambda: 1.0},
    "full": {"size": lambda: (2,), "fill_value": lambda: 1.0}, "scalar_tensor": {}, "hamming_window": {"window_length": lambda: 4}, "kaiser_window": {"window_length": lambda: 4},
    "vector_norm": {"input": x}, "histogram": {"bins": lambda: 3}, "gradient": {}, "lstsq": {"A": x, "B": x}, "normal": {"mean": x}, "isin": {"test_elements": x},
    "get_total_norm": {"tensors": lambda: [x()]}, "clip_grads_with_norm_": {"total_norm": lambda: ternion.tensor(3.0)}, "pad_sequence": {"sequences": lambda: [x(2), x(3)]},
    "pad_packed_sequence": {"sequence": lambda: nn.utils.rnn.pack_sequence([x(3, 2), x(2, 2)])}, "fuse_conv_bn_weights": FUSED, "fuse_linear_bn_weights": FUSED_LINEAR,
    "calculate_gain": {"nonlinearity": lambda: "leaky_relu"}, "general_cosine": {"M": lambda: 3}, "check": {}, "random_split": {"dataset": lambda: [1, 2], "lengths": lambda: [1, 1]},
    "Muon": {}, "Threshold": {"threshold": lambda: 0.5, "value": lambda: 0.5}, "GroupNorm": {"num_groups": lambda: 3, "num_channels": lambda: 3},
    "ConstantPad1d": {"padding": lambda: 1, "value": lambda: 0.5}, "ConstantPad2d": {"padding": lambda: 1, "value": lambda: 0.5},
    "ConstantPad3d": {"padding": lambda: 1, "value": lambda: 0.5}, "Rotary": {"head_dim": lambda: 4, "positions": lambda: 4}, "LocalResponseNorm": {"size": lambda: 2},
    "StepLR": {"step_size": lambda: 1}, "MultiStepLR": {"milestones": lambda: [1]}, "ExponentialLR": {"gamma": lambda: 0.5}, "Ema": {"parameters": weights},
    "OneCycleLR": {"max_lr": lambda: 0.1, "total_steps": lambda: 5}, "CosineAnnealingLR": {"T_max": lambda: 3}, "CosineAnnealingWarmRestarts": {"T_0": lambda: 3},
    "DataLoader": {"dataset": lambda: [1, 2], "num_workers": lambda: 1}, "StatsMonitor": {"model": lambda: nn.Linear(2, 2)}, "arange": {"start": lambda: 0.0},
    "where": {"condition": lambda: x() > 0.5, "self": lambda: x() > 0.5, "input": lambda: 0.5, "other": lambda: 0.5}, "sparse_": {"sparsity": lambda: 0.5},
    "clip_grad_norm_": {"max_norm": lambda: 1.0}, "exponential": {"M": lambda: 4, "sym": lambda: False}, "normal": {"mean": x, "std": x},
    "varlen_attn": PACKED,
}  # fmt: skip
for _name in ("or", "xor", "left_shift", "right_shift"):
    ARGUMENTS[f"bitwise_{_name}"] = ARGUMENTS["bitwise_and"]

#: Arguments by name.
NAMED = {
    "params": weights, "parameters": weights, "optimizer": sgd, "M": lambda: 4, "num_features": lambda: 3, "embed_dim": lambda: 4, "num_heads": lambda: 2, "d_model": lambda: 4,
    "nhead": lambda: 2, "input_size": lambda: 3, "hidden_size": lambda: 3, "num_layers": lambda: 2, "num_embeddings": lambda: 3, "embedding_dim": lambda: 2, "width": lambda: 4,
    "heads": lambda: 2, "normalized_shape": lambda: (3,), "norm_type": lambda: 2.0, "kernel_size": lambda: 2, "dim": lambda: 0, "ord": lambda: 2.0, "device": lambda: "cpu",
    "mode": lambda: "RNN", "anneal_strategy": lambda: "cos", "use_input_stats": lambda: True, "cudnn_enabled": lambda: True, "momentum": lambda: 0.1, "eps": lambda: 1e-5,
    "log_input": lambda: True, "full": lambda: False, "reduction": lambda: 1,
}  # fmt: skip


def function_of(home, name):
    if home.endswith(".Tensor"):
        return getattr(ternion.Tensor, name)
    return getattr(importlib.import_module(home), name)


def call_of(home, name, argument):
    """Returns the function and all its arguments except one, each newly created."""
    function, own = function_of(home, name), ARGUMENTS.get(name, {})
    parameters = inspect.signature(function.__init__ if isinstance(function, type) else function).parameters
    arguments = {}
    for each in parameters.values():
        if each.name in own or (each.default is each.empty and each.kind not in (each.VAR_POSITIONAL, each.VAR_KEYWORD)):
            arguments[each.name] = own[each.name]() if each.name in own else NAMED[each.name]() if each.name in NAMED else x()
    if isinstance(function, type):
        arguments.pop("self")
    arguments.pop(argument, None)
    positional = [each.name for each in parameters.values() if each.kind is each.POSITIONAL_ONLY and each.name in arguments]
    return function, [arguments.pop(key) for key in positional], arguments
