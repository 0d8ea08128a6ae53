"""A decoder-only transformer that predicts the next token, and text generation with it."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import _ternion, nn
from .._random import get_rng_state, set_rng_state
from .._scopes import no_grad
from .._ternion import Parameter, Tensor

# Standard deviation of the initial weights, as in GPT-2.
_INIT_STD = 0.02


class TextLoss(NamedTuple):
    """The quality of the prediction of a text: the mean loss over a number of tokens."""

    loss: float
    tokens: int

    @property
    def perplexity(self) -> float:
        """`e^loss`: the number of equally likely tokens that corresponds to the uncertainty of the
        model.
        """
        return math.exp(self.loss)


class GPT(nn.Module):
    """A decoder-only transformer (Radford et al. 2019). The default is the smallest GPT-2 with 124
    million parameters.

    Weights are initialized from a normal distribution with standard deviation 0.02, those that
    project back to the residual stream with `0.02 / sqrt(2 layers)`. Biases are initialized to 0.

    Shapes: [batch, length] (int32 or int64) -> [batch, length, vocabulary]

    Args:
        vocabulary: The number of different tokens.
        context: The maximum number of tokens in one pass.
        layers: The number of blocks. For `heads`, `kv_heads`, `width`, `hidden`, `feed_forward`,
            `norm` and `bias` see `nn.TransformerBlock`.
        positions: "learned", "sinusoidal" or "rotary"; or, for other settings of rotary embeddings,
            an `nn.Rotary` with `context` positions.
        tied: Whether the output layer shares the weight of the embedding (Press and Wolf 2017).
        dropout: The dropout probability in training, within the blocks and for the embedded tokens.

    Raises:
        ValueError: If a size is below 1, if `positions` or `feed_forward` is unknown, or if `heads`
            does not divide the width; when called, if there are more tokens than `context`.
        IndexError: When called, if a token is out of range.
        TypeError: When called, if the tokens have a floating-point dtype.
    """

    def __init__(
        self, vocabulary: int = 50_257, context: int = 1024, layers: int = 12, heads: int = 12, kv_heads: int | None = None,
        width: int = 768, hidden: int | None = None, feed_forward: str = "gelu_tanh", norm: str = "layer_norm",
        positions: str | nn.Rotary = "learned", bias: bool = True, tied: bool = True, dropout: float = 0.0, device: Any = None,
        dtype: Any = None,
    ):  # fmt: skip
        if min(vocabulary, context, width) < 1:
            raise ValueError(f"GPT: vocabulary {vocabulary}, context {context}, width {width}: expected at least 1")
        if not isinstance(positions, nn.Rotary) and positions not in ("learned", "sinusoidal", "rotary"):
            raise ValueError(f"GPT: positions {positions!r}, expected \"learned\", \"sinusoidal\", \"rotary\" or an nn.Rotary")
        self.vocabulary, self.context, self.width, self.positions = vocabulary, context, width, positions
        self._settings = dict(
            vocabulary=vocabulary, context=context, layers=layers, heads=heads, kv_heads=kv_heads, width=width, hidden=hidden,
            feed_forward=feed_forward, norm=norm, bias=bias,
        )  # fmt: skip
        factory_kwargs = dict(device=device, dtype=dtype)
        self.wte = _embedding(vocabulary, width, factory_kwargs)
        self.wpe = _embedding(context, width, factory_kwargs) if positions == "learned" else None
        self.dropout = nn.Dropout(dropout)
        if positions == "rotary" and heads > 0:
            positions = nn.Rotary(context, width // heads)
        rotary = positions if isinstance(positions, nn.Rotary) else None
        block = dict(
            kv_heads=kv_heads, hidden=hidden, feed_forward=feed_forward, norm=norm, bias=bias, dropout=dropout, rotary=rotary, **factory_kwargs,
        )  # fmt: skip
        self.h = [_block(width, heads, layers, block, factory_kwargs) for _ in range(layers)]
        self.ln_f = nn.LayerNorm(width, bias=bias, **factory_kwargs) if norm == "layer_norm" else nn.RMSNorm(width, eps=1e-5, **factory_kwargs)
        self.lm_head = None if tied else _head(width, vocabulary, factory_kwargs)
        self._sinusoids: Tensor | None = None

    def forward(self, tokens: Tensor) -> Tensor:
        """Returns the logits of the next token after each of the tokens: [batch, length] (int32 or
        int64) -> [batch, length, vocabulary].

        Raises:
            ValueError: If there are more tokens than `context`.
            IndexError: If a token is out of range.
        """
        return self._logits(self._hidden(tokens, None))

    def loss(
        self, tokens: Tensor, targets: Tensor, *, ignore_index: int = -100, label_smoothing: float = 0.0, chunk_rows: int | None = None,
    ) -> Tensor:  # fmt: skip
        """Returns the mean cross-entropy of the next tokens without computing all logits at once,
        which would be the largest tensor for a large vocabulary.

        The gradient of the logits is computed in the memory of the logits. A vocabulary of any
        size, such as GPT-2's 50,257 tokens, is nearly as fast as one of a round size. For a
        separate output layer (`tied=False`), the parameters are used, but not its hooks.

        Shapes: [batch, length], targets [batch, length] (int32 or int64) -> []

        Args:
            ignore_index, label_smoothing, chunk_rows: As in `nn.functional.linear_cross_entropy`.

        Raises:
            ValueError: If there are more tokens than `context`, if the targets have a different
                shape, or if `chunk_rows` is 0.
            IndexError: If a token is out of range.
        """
        hidden = self._hidden(tokens, None)
        weight, bias = (self.wte.weight, None) if self.lm_head is None else (self.lm_head.weight, self.lm_head.bias)
        return nn.functional.linear_cross_entropy(
            hidden, weight, targets, linear_bias=bias, ignore_index=ignore_index, label_smoothing=label_smoothing, chunk_rows=chunk_rows
        )

    @classmethod
    def from_gpt2(cls, path: Any, heads: int | None = None, dropout: float = 0.0, device: Any = None, dtype: Any = None) -> GPT:
        """Loads a GPT-2 in the format of Hugging Face's `transformers`: a folder with
        `model.safetensors` and `config.json`, or the path of the former.

        Args:
            heads: The number of heads, if there is no configuration file. Default: such that the
                head dimension is 64.

        Raises:
            OSError: If a file cannot be read, is corrupt, or is not a GPT-2. The message names the
                file.
            FileNotFoundError: If the file does not exist.
        """
        settings, state = _ternion._load_gpt2(path, heads, dtype)
        rng_state = get_rng_state(device)
        model = cls(dropout=dropout, device=device, dtype=dtype, **settings)
        set_rng_state(rng_state, device)
        model.load_state_dict(state)
        return model

    def save_gpt2(self, folder: Any) -> None:
        """Writes `config.json` and `model.safetensors`, which
        `GPT2LMHeadModel.from_pretrained(folder)` can read.

        Raises:
            ValueError: If the model cannot be represented in GPT-2's format: with positions that
                are not learned, another norm, grouped-query attention, SwiGLU, or without biases.
        """
        settings, learned = self._settings, self.wpe is not None
        is_gpt2 = learned and settings["norm"] == "layer_norm" and settings["kv_heads"] in (None, settings["heads"]) and settings["bias"]
        if not is_gpt2 or settings["feed_forward"] == "swiglu":
            raise ValueError(f"save_gpt2: a model of {settings} and positions {self.positions!r}, which GPT-2's names cannot express")
        _ternion._save_gpt2(folder, settings, self.state_dict())

    def caches(self) -> list[nn.KeyValueCache]:
        """Returns empty KV caches, one for each block."""
        return [nn.KeyValueCache(self.context) for _ in self.h]

    def next_logits(self, tokens: Tensor, caches: list[nn.KeyValueCache]) -> Tensor:
        """Returns the logits of the token after the last of `tokens`, which follow the tokens in
        the caches: [batch, length] -> [batch, vocabulary].

        Raises:
            ValueError: If there are no tokens or more than the context, or if the caches belong to
                another model.
            RuntimeError: If a gradient would have to flow through the caches. Call it under
                no_grad().
        """
        if tokens.shape[1] == 0:
            raise ValueError("GPT: no token, expected at least 1")
        return self._logits(self._hidden(tokens, caches)[:, -1])

    def _hidden(self, tokens, caches):
        if tokens.ndim != 2:
            raise ValueError(f"GPT: tokens of shape {tuple(tokens.shape)}, expected [batch, length]")
        if caches is not None and len(caches) != len(self.h):
            raise ValueError(f"GPT: {len(caches)} caches, expected one for each of {len(self.h)} blocks")
        first, length = len(caches[0]) if caches else 0, tokens.shape[1]
        if first + length > self.context:
            raise ValueError(f"GPT: {length} tokens behind {first}, expected at most {self.context} in all")
        x = self.dropout(self._embed(tokens, first))
        for block, cache in zip(self.h, caches or [None] * len(self.h)):
            x = block(x, is_causal=True, cache=cache)
        return self.ln_f(x)

    def _embed(self, tokens, first):
        x, end = self.wte(tokens), first + tokens.shape[1]
        if self.wpe is not None:
            return x + self.wpe.weight[first:end]
        if self.positions != "sinusoidal":
            return x
        if self._sinusoids is None or self._sinusoids.device != x.device:
            self._sinusoids = nn.functional.sinusoidal(self.context, self.width, x.device)
        return x + self._sinusoids[first:end].to(x.dtype)

    def _logits(self, hidden):
        return nn.functional.linear(hidden, self.wte.weight) if self.lm_head is None else self.lm_head(hidden)

    # ---- Text generation

    def generate(
        self, prompt: Any, count: int, temperature: float = 1.0, top_k: int | None = None, top_p: float | None = None,
        seed: int | None = None, each: Any = None,
    ) -> Any:  # fmt: skip
        """Generates `count` tokens that follow `prompt`. Returns a list of integers for a list, and
        a tensor for a tensor [length] or [batch, length].

        Keys and values of earlier tokens are cached, so that a step computes one token. Beyond the
        context, as in nanoGPT, each step computes the last `context` tokens at new positions. The
        model must be in evaluation mode (`eval()`), otherwise dropout is active.

        Args:
            temperature: The divisor of the scores. At 0, the most likely token is chosen.
            top_k: Samples from this number of most likely tokens. Default: all.
            top_p: Samples from the most likely tokens whose probabilities sum to at least this
                value (Holtzman et al. 2020). Default: all.
            seed: Seed of the sampling. By default the random numbers of the device are used. With a
                seed, the state of the device's generator is unchanged afterward.
            each: Called with every token, or with the list of the tokens of a batch, as soon as it
                is chosen.

        Raises:
            ValueError: If the prompt is empty, if a setting is out of range, if scores are NaN, or
                if the seed is not from -2**63 to 2**64 - 1.
            TypeError: If the seed is not an integer.
            IndexError: If a token is outside the vocabulary.
        """
        device = self.wte.weight.device
        rows = _rows(prompt)
        # Checks the settings before anything is computed.
        _ternion._choose(_ternion.zeros(1, 1), [0.0], temperature, top_k, top_p)
        rng_state = _ternion._random_position(device)
        if seed is not None:
            _ternion._set_random_position((seed, 0), device)
        try:
            with no_grad():
                generated = self._generate_tokens(rows, count, (temperature, top_k, top_p), each, device)
        finally:
            if seed is not None:
                _ternion._set_random_position(rng_state, device)
        if not isinstance(prompt, Tensor):
            return generated[0]
        result = _ternion.tensor(generated, dtype=_ternion.int64, device=prompt.device).reshape(len(rows), count)
        return result[0] if prompt.ndim == 1 else result

    def _generate_tokens(self, rows, count, settings, each, device):
        caches, prompt_length = self.caches(), len(rows[0])
        for _ in range(count):
            logits = self._next(rows, caches, device)
            uniform = _ternion.rand(len(rows), device=device).tolist()
            chosen = _ternion._choose(logits, uniform, *settings)
            for row, token in zip(rows, chosen):
                row.append(token)
            if each is not None:
                each(chosen[0] if len(chosen) == 1 else chosen)
        return [row[prompt_length:] for row in rows]

    def _next(self, rows, caches, device):
        """Returns the logits of the token after `rows`, of which the caches contain the first
        tokens.
        """
        length, cached = len(rows[0]), len(caches[0]) if caches else 0
        visible = [row[-self.context :] for row in rows]
        if length > self.context or cached >= len(visible[0]):
            for cache in caches:
                cache.clear()
            cached = 0
        new = _ternion.tensor([row[cached:] for row in visible], dtype=_ternion.int64, device=device)
        return self.next_logits(new, caches)

    def text_loss(self, tokens: Any, stride: int | None = None) -> TextLoss:
        """Predicts each token except the first from the preceding ones, in windows of at most
        `context` tokens.

        Args:
            tokens: A list of integers, or a tensor [tokens].
            stride: The distance between the starts of windows in tokens. Each window counts only
                the tokens that no earlier one has predicted. Default: the context.

        Raises:
            ValueError: If there are fewer than 2 tokens, or if the stride is 0 or larger than the
                context.
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
        """Returns the summed loss of the last `count` tokens."""
        with no_grad():
            logits = self(window[:-1].unsqueeze(0))[0, -count:]
            return nn.functional.cross_entropy(logits, window[-count:]).item() * count


def _rows(prompt):
    """Returns a prompt as lists of tokens, one for each row of a batch."""
    rows = prompt.tolist() if isinstance(prompt, Tensor) else [int(token) for token in prompt]
    rows = rows if rows and isinstance(rows[0], list) else [rows]
    if not rows[0]:
        raise ValueError("generate: an empty prompt, expected at least 1 token")
    return [list(row) for row in rows]


def _normal(shape, std, factory_kwargs):
    return Parameter(_ternion._initial(shape, "normal", [0.0, std], **factory_kwargs))


def _embedding(rows, width, factory_kwargs):
    # Does not use Embedding(..), which would draw other initial values first.
    table = nn.Embedding.__new__(nn.Embedding)
    table.num_embeddings, table.embedding_dim, table.padding_idx = rows, width, None
    table.weight = _normal((rows, width), _INIT_STD, factory_kwargs)
    return table


def _head(width, vocabulary, factory_kwargs):
    head = nn.Linear.__new__(nn.Linear)
    head.in_features, head.out_features = width, vocabulary
    head.weight, head.bias = _normal((vocabulary, width), _INIT_STD, factory_kwargs), None
    return head


def _block(width, heads, layers, settings, factory_kwargs):
    block = nn.TransformerBlock(width, heads, **settings)
    residual_std = _INIT_STD / math.sqrt(2 * layers)
    stds = {
        "self_attn.in_proj_weight": _INIT_STD, "linear1.weight": _INIT_STD, "linear_gate.weight": _INIT_STD,
        "self_attn.out_proj.weight": residual_std, "linear2.weight": residual_std,
    }  # fmt: skip
    with no_grad():
        for key, parameter in block.named_parameters():
            if not key.startswith("norm"):
                parameter.copy_(_normal(parameter.shape, stds.get(key, 0.0), factory_kwargs).detach())
    return block
