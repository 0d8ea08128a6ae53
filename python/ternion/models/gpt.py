"""The transformer that predicts the next token, and texts from it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import _ternion, nn
from .._random import get_rng_state, set_rng_state
from .._scopes import no_grad
from .._ternion import Parameter, Tensor

# Standard deviation of the first weights, as of GPT-2.
_INIT_STD = 0.02


class TextLoss(NamedTuple):
    """How well a text is predicted: the mean loss of so many tokens."""

    loss: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """`e^loss`: among how many equally likely tokens the model was in doubt."""
        return math.exp(self.loss)


class GPT(nn.Module):
    """A decoder-only transformer (Radford et al. 2019); by default the smallest GPT-2, of 124 million parameters.

    Weights start normal with standard deviation 0.02, those that lead back to the sum of a block at `0.02 / sqrt(2 layers)`, biases at 0.

    Shapes: [batch, length] (int32 or int64) -> [batch, length, vocabulary]

    Args:
        vocabulary: different tokens.
        context: the most tokens that are seen at once.
        layers: blocks; `heads`, `kv_heads`, `width`, `hidden`, `form`, `norm`, `bias`: see `nn.TransformerBlock`.
        positions: "learned", "sinusoidal" or "rotary"; for other settings of the last an `nn.Rotary` of `context` positions.
        tied: whether the output layer has the weight of the embedding (Press and Wolf 2017), and none of its own.
        dropout: in training, the probability that a number becomes 0: within the blocks, and of the embedded tokens.

    Raises:
        ValueError: sizes below 1, other positions, heads that do not divide the width, another form; when called, more tokens than `context`.
        IndexError: when called, a token that is none.
        TypeError: when called, tokens of a floating dtype.
    """

    def __init__(
        self, vocabulary: int = 50_257, context: int = 1024, layers: int = 12, heads: int = 12, kv_heads: int | None = None,
        width: int = 768, hidden: int | None = None, form: str = "gelu_tanh", norm: str = "layer_norm",
        positions: str | nn.Rotary = "learned", bias: bool = True, tied: bool = True, dropout: float = 0.0, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        if min(vocabulary, context, width) < 1:
            raise ValueError(f"GPT: vocabulary {vocabulary}, context {context}, width {width}: expected at least 1")
        if not isinstance(positions, nn.Rotary) and positions not in ("learned", "sinusoidal", "rotary"):
            raise ValueError(f"GPT: positions {positions!r}, expected \"learned\", \"sinusoidal\", \"rotary\" or an nn.Rotary")
        self.vocabulary, self.context, self.width, self.positions = vocabulary, context, width, positions
        self._settings = dict(
            vocabulary=vocabulary, context=context, layers=layers, heads=heads, kv_heads=kv_heads, width=width, hidden=hidden, form=form,
            norm=norm, bias=bias,
        )  # fmt: skip
        made = dict(device=device, dtype=dtype)
        self.wte = _table(vocabulary, width, made)
        self.wpe = _table(context, width, made) if positions == "learned" else None
        self.dropout = nn.Dropout(dropout)
        if positions == "rotary" and heads > 0:
            positions = nn.Rotary(context, width // heads)
        rotary = positions if isinstance(positions, nn.Rotary) else None
        block = dict(kv_heads=kv_heads, hidden=hidden, form=form, norm=norm, bias=bias, dropout=dropout, rotary=rotary, **made)
        self.h = [_block(width, heads, layers, block, made) for _ in range(layers)]
        self.ln_f = nn.LayerNorm(width, bias=bias, **made) if norm == "layer_norm" else nn.RMSNorm(width, eps=1e-5, **made)
        self.lm_head = None if tied else _head(width, vocabulary, made)
        self._sines: Tensor | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        """Scores of the tokens that may follow each of these: [batch, length] (int32 or int64) -> [batch, length, vocabulary].

        Raises:
            ValueError: more tokens than `context`.
            IndexError: a token that is none.
        """
        return self._scores(self._hidden(tokens, None))

    def loss(
        self, tokens: Tensor, targets: Tensor, *, ignore_index: int = -100, label_smoothing: float = 0.0, chunk_rows: int | None = None,
    ) -> Tensor:  # fmt: skip
        """The mean cross-entropy of the tokens that follow these, without the scores of all of them at once: of a large vocabulary those are the largest tensor.

        Their gradient is computed in the memory of the scores, and a vocabulary of any size, as GPT-2's of 50,257 tokens, has nearly the speed of an even one. Of an output layer
        of its own (`tied=False`) the parameters are used, not its hooks.

        Shapes: [batch, length], targets [batch, length] (int32 or int64) -> []

        Args:
            ignore_index, label_smoothing, chunk_rows: as of `nn.functional.linear_cross_entropy`.

        Raises:
            ValueError: more tokens than `context`, targets of another shape, chunks of 0 rows.
            IndexError: a token that is none.
        """
        hidden = self._hidden(tokens, None)
        weight, bias = (self.wte.weight, None) if self.lm_head is None else (self.lm_head.weight, self.lm_head.bias)
        return nn.functional.linear_cross_entropy(
            hidden, weight, targets, linear_bias=bias, ignore_index=ignore_index, label_smoothing=label_smoothing, chunk_rows=chunk_rows
        )

    @classmethod
    def from_gpt2(cls, path: Any, heads: int | None = None, dropout: float = 0.0, device: Any = None, dtype: Any = None) -> GPT:
        """A GPT-2 of Hugging Face's `transformers`: a folder with `model.safetensors` and `config.json`, or the first of them.

        Args:
            heads: where no configuration tells them; by default as many as are 64 wide.

        Raises:
            OSError: a file cannot be read, is damaged, or is no GPT-2, in words that name it.
            FileNotFoundError: there is no such file.
        """
        settings, state = _ternion._load_gpt2(path, heads, dtype)
        before = get_rng_state(device)
        model = cls(dropout=dropout, device=device, dtype=dtype, **settings)
        set_rng_state(before, device)
        model.load_state_dict(state)
        return model

    def save_gpt2(self, folder: Any) -> None:
        """Writes `config.json` and `model.safetensors`, so that `GPT2LMHeadModel.from_pretrained(folder)` reads them.

        Raises:
            ValueError: a model that GPT-2's names cannot tell: other positions than learned ones, other norms, shared heads, SwiGLU, no biases.
        """
        told, learned = self._settings, self.wpe is not None
        is_gpt2 = learned and told["norm"] == "layer_norm" and told["kv_heads"] in (None, told["heads"]) and told["bias"]
        if not is_gpt2 or told["form"] == "swiglu":
            raise ValueError(f"save_gpt2: a model of {told} and positions {self.positions!r}, which GPT-2's names cannot tell")
        _ternion._save_gpt2(folder, told, self.state_dict())

    def caches(self) -> list[nn.KeyValueCache]:
        """Empty memory of earlier tokens, one for each block."""
        return [nn.KeyValueCache(self.context) for _ in self.h]

    def next_logits(self, tokens: Tensor, caches: list[nn.KeyValueCache]) -> Tensor:
        """Scores of what follows the last of `tokens`, which follow those that the caches keep: [batch, length] -> [batch, vocabulary].

        Raises:
            ValueError: no token, more than the context, caches of another model.
            RuntimeError: a gradient would have to flow through the caches: call it under no_grad().
        """
        if tokens.shape[1] == 0:
            raise ValueError("GPT: no token, expected at least 1")
        return self._scores(self._hidden(tokens, caches)[:, -1])

    def _hidden(self, tokens, caches):
        if tokens.ndim != 2:
            raise ValueError(f"GPT: tokens of shape {tuple(tokens.shape)}, expected [batch, length]")
        if caches is not None and len(caches) != len(self.h):
            raise ValueError(f"GPT: {len(caches)} caches, expected one for each of {len(self.h)} blocks")
        first, length = len(caches[0]) if caches else 0, tokens.shape[1]
        if first + length > self.context:
            raise ValueError(f"GPT: {length} tokens behind {first}, expected at most {self.context} in all")
        x = self.dropout(self._embedded(tokens, first))
        for block, cache in zip(self.h, caches or [None] * len(self.h)):
            x = block(x, is_causal=True, cache=cache)
        return self.ln_f(x)

    def _embedded(self, tokens, first):
        x, end = self.wte(tokens), first + tokens.shape[1]
        if self.wpe is not None:
            return x + self.wpe.weight[first:end]
        if self.positions != "sinusoidal":
            return x
        if self._sines is None or self._sines.device != x.device:
            self._sines = nn.functional.sinusoidal(self.context, self.width, x.device)
        return x + self._sines[first:end].to(x.dtype)

    def _scores(self, hidden):
        return nn.functional.linear(hidden, self.wte.weight) if self.lm_head is None else self.lm_head(hidden)

    # ---- Texts

    def generate(
        self, prompt: Any, count: int, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
        seed: int | None = None, each: Any = None,
    ) -> Any:  # fmt: skip
        """`count` tokens that follow `prompt`: a list of numbers for a list, a tensor for a tensor [length] or [batch, length].

        Keys and values of earlier tokens are kept, so that a step computes one token. Beyond the context, as in nanoGPT, each step sees the last
        `context` tokens at new positions, and computes them all. Layers must be in use (`eval()`), or dropout takes part.

        Args:
            temperature: what scores are divided by; at 0 the likeliest is taken.
            top_k: how many of the likeliest are chosen from; all by default.
            top_p: the likeliest are chosen from whose probabilities together reach this (Holtzman et al. 2020); all by default.
            seed: decides the choice; otherwise the device's random numbers do. They go on afterwards as if nothing had been drawn.
            each: called with every token, or the list of those of a batch, as soon as it is chosen.

        Raises:
            ValueError: an empty prompt, settings out of range, scores that are no numbers, a seed that is not from -2**63 to 2**64 - 1.
            TypeError: a seed that is no whole number.
            IndexError: a token outside the vocabulary.
        """
        device = self.wte.weight.device
        rows = _rows(prompt)
        # Settings are looked at before anything is computed.
        _ternion._choose(_ternion.zeros(1, 1), [0.0], temperature, top_k, top_p)
        before = _ternion._random_position(device)
        if seed is not None:
            _ternion._set_random_position((seed, 0), device)
        try:
            with no_grad():
                written = self._written(rows, count, (temperature, top_k, top_p), each, device)
        finally:
            if seed is not None:
                _ternion._set_random_position(before, device)
        if not isinstance(prompt, Tensor):
            return written[0]
        told = _ternion.tensor(written, dtype=_ternion.int64, device=prompt.device).reshape(len(rows), count)
        return told[0] if prompt.ndim == 1 else told

    def _written(self, rows, count, settings, each, device):
        caches, begun = self.caches(), len(rows[0])
        for _ in range(count):
            logits = self._next(rows, caches, device)
            chances = _ternion.rand(len(rows), device=device).tolist()
            chosen = _ternion._choose(logits, chances, *settings)
            for row, token in zip(rows, chosen):
                row.append(token)
            if each is not None:
                each(chosen[0] if len(chosen) == 1 else chosen)
        return [row[begun:] for row in rows]

    def _next(self, rows, caches, device):
        """Scores of what follows `rows`, of which the caches keep the first tokens."""
        length, kept = len(rows[0]), len(caches[0]) if caches else 0
        seen = [row[-self.context :] for row in rows]
        if length > self.context or kept >= len(seen[0]):
            for cache in caches:
                cache.clear()
            kept = 0
        new = _ternion.tensor([row[kept:] for row in seen], dtype=_ternion.int64, device=device)
        return self.next_logits(new, caches)

    def text_loss(self, tokens: Any, stride: int | None = None) -> TextLoss:
        """Predicts each token but the first from those before it, of which windows of `context` tokens see the last ones.

        Args:
            tokens: a list of numbers, or a tensor [tokens].
            stride: tokens between the beginnings of windows, each of which counts what no earlier one has predicted; the context by default.

        Raises:
            ValueError: fewer than 2 tokens, a stride of 0 or beyond the context.
        """
        stride = self.context if stride is None else stride
        if not 1 <= stride <= self.context:
            raise ValueError(f"text_loss: stride {stride}, expected 1 to the context, {self.context}")
        text = _ternion.as_tensor(tokens).to(_ternion.int64).to(self.wte.weight.device)
        if text.ndim != 1 or len(text) < 2:
            raise ValueError(f"text_loss: tokens of shape {tuple(text.shape)}, expected [tokens], at least 2")
        total, begin, predicted, last = 0.0, 0, 0, len(text) - 1
        while predicted < last:
            end = min(last, begin + self.context)
            total += self._window_loss(text[begin : end + 1], end - predicted)
            predicted = end
            begin += stride
        return TextLoss(total / last, last)

    def _window_loss(self, window, count):
        """The summed loss of the last `count` tokens."""
        with no_grad():
            logits = self(window[:-1].unsqueeze(0))[0, -count:]
            return nn.functional.cross_entropy(logits, window[-count:]).item() * count


def _rows(prompt):
    """A prompt as lists of tokens, one for each row of a batch."""
    rows = prompt.tolist() if isinstance(prompt, Tensor) else [int(token) for token in prompt]
    rows = rows if rows and isinstance(rows[0], list) else [rows]
    if not rows[0]:
        raise ValueError("generate: an empty prompt, expected at least 1 token")
    return [list(row) for row in rows]


def _normal(shape, std, made):
    return Parameter(_ternion._initial(shape, "normal", [0.0, std], **made))


def _table(rows, width, made):
    # Not by Embedding(..), which would draw other first values before.
    table = nn.Embedding.__new__(nn.Embedding)
    table.num_embeddings, table.embedding_dim, table.padding_idx = rows, width, None
    table.weight = _normal((rows, width), _INIT_STD, made)
    return table


def _head(width, vocabulary, made):
    head = nn.Linear.__new__(nn.Linear)
    head.in_features, head.out_features = width, vocabulary
    head.weight, head.bias = _normal((vocabulary, width), _INIT_STD, made), None
    return head


def _block(width, heads, layers, settings, made):
    block = nn.TransformerBlock(width, heads, **settings)
    back = _INIT_STD / math.sqrt(2 * layers)
    deviations = {
        "self_attn.in_proj_weight": _INIT_STD, "linear1.weight": _INIT_STD, "linear_gate.weight": _INIT_STD,
        "self_attn.out_proj.weight": back, "linear2.weight": back,
    }  # fmt: skip
    with no_grad():
        for key, parameter in block.named_parameters():
            if not key.startswith("norm"):
                parameter.copy_(_normal(parameter.shape, deviations.get(key, 0.0), made).detach())
    return block
