"""The functions that run operators of ONNX with Ternion, by topic. TABLE maps operators to
functions."""

from . import (  # noqa: F401  Each module adds its functions to the table.
    activations,
    attention,
    comparisons,
    control,
    convolutions,
    elementwise,
    indexing,
    losses,
    norms,
    optimizers,
    pools,
    products,
    quantisation,
    recurrent,
    reductions,
    resize,
    shapes,
    types,
)
from .table import TABLE  # noqa: F401
