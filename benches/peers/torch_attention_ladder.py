"""PyTorch's attention at the sizes of the attention ladder: by cuDNN, and by the composition of its
ops, which stores all scores.
"""

import itertools

import torch
import torch.nn.functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

from torch_clock import DEVICE

TOKENS = (128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768)
# The maximum bytes of f32 scores that are stored, as in ternion-bench.
MOST_SCORES = 16 << 30
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
PEERS = {"math": SDPBackend.MATH, "cudnn": SDPBackend.CUDNN_ATTENTION}


class Rung:
    """16,384 tokens in total, or one longer sequence, and 2,048 columns of all heads."""

    def __init__(self, dtype, width, causal, peer, tokens):
        self.dtype, self.causal, self.backend = DTYPES[dtype], causal, PEERS[peer]
        self.shape = self.batch, self.heads, self.tokens, _ = max(16384 // tokens, 1), 2048 // width, tokens, width
        self.operations = 4 * self.batch * self.heads * tokens * tokens * width * (0.5 if causal else 1.0)
        self.name = f"attention_ladder/{dtype}/d{width}/{'causal' if causal else 'full'}/{peer}/{tokens}"
        self.impl = f"torch/{peer}"

    def scores(self):
        """Returns the bytes of all scores in f32."""
        return 4 * self.batch * self.heads * self.tokens * self.tokens

    def measure(self, clock):
        """Returns the milliseconds of a call, and additional values: PyTorch's peak memory,
        including the inputs, and tokens per second.
        """
        torch.backends.cuda.matmul.allow_tf32 = False
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        q, k, v = (torch.randn(*self.shape, device=DEVICE, dtype=self.dtype) for _ in range(3))

        def attend():
            return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)

        with sdpa_kernel(self.backend), torch.no_grad():
            attend()
            torch.cuda.synchronize()
            memory = torch.cuda.max_memory_allocated() - before
            milliseconds = clock.median(attend)
        return milliseconds, dict(memory_bytes=memory, tokens_per_second=round(self.batch * self.tokens / milliseconds * 1e3))


def rungs():
    """Yields the rungs. cuDNN does not support f32, and the composition's scores must fit."""
    for dtype, peer in (("f32", "math"), ("bf16", "math"), ("bf16", "cudnn")):
        for width, causal, tokens in itertools.product((64, 128), (False, True), TOKENS):
            rung = Rung(dtype, width, causal, peer, tokens)
            if peer != "math" or rung.scores() <= MOST_SCORES:
                yield rung
