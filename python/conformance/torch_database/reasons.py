"""Why results differ from PyTorch's, where they do on purpose: (entry, kind) -> reason."""

REASONS = {
    ("__rdiv__", "wrong gradient"): "a sum of infinite parts of both signs: PyTorch multiplies by a reciprocal, and sums before",
    ("cdist", "wrong gradient"): "distances by a matrix product, as asked for: both lose digits where points are near, each others",
    ("matrix_exp", "wrong value"): "squared as often in float32 as PyTorch does, in other products: both are about 3e-6 from the exact one",
    ("nn.functional.scaled_dot_product_attention", "wrong gradient"): "the backward pass reads the output in bfloat16, as that of FlashAttention does (Dao et al. 2022, algorithm 4)",
}
