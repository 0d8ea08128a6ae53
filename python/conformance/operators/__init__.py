"""The functions that run operators of ONNX by Ternion, by topic; TABLE has them by operator."""

from . import (  # noqa: F401  Each module enters its functions into the table.
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
