"""The generating transformer: its architecture, its generated texts, and its equivalence to that of
the Rust crate."""

import json
from pathlib import Path

import numpy as np
import pytest

import ternion
from ternion import models, nn
from ternion.nn import functional as F

SMALL = dict(vocabulary=11, context=8, layers=2, heads=2, width=16)


def small(**settings):
    ternion.manual_seed(1)
    return models.GPT(**{**SMALL, **settings})


FORMS = [
    dict(), dict(positions="sinusoidal"), dict(positions="rotary", norm="rms_norm", feed_forward="swiglu", bias=False, kv_heads=1), dict(tied=False),
    dict(positions=nn.Rotary(8, 8, 500.0, "interleaved")),
]  # fmt: skip


@pytest.mark.parametrize("settings", FORMS)
class TestForms:
    def test_later_tokens_change_nothing(self, settings):
        model = small(**settings).eval()
        tokens = ternion.randint(0, 11, (2, 6))
        changed = tokens.clone()
        changed[:, 4:] = (changed[:, 4:] + 1) % 11
        one, two = model(tokens), model(changed)
        assert one.shape == (2, 6, 11)
        assert one[:, :4].equal(two[:, :4]) and not one[:, 4:].allclose(two[:, 4:])

    def test_steps_with_what_is_kept_are_the_whole(self, settings):
        model = small(**settings).eval()
        tokens, caches = ternion.randint(0, 11, (3, 8)), model.caches()
        with ternion.no_grad():
            full = model(tokens)
            for begin, end in ((0, 3), (3, 4), (4, 8)):
                step = model.next_logits(tokens[:, begin:end], caches)
                assert step.allclose(full[:, end - 1], atol=1e-5)
        assert len(caches[0]) == 8

    def test_the_loss_is_that_of_the_scores(self, settings):
        model = small(**settings)
        tokens, targets = ternion.randint(0, 11, (2, 6)), ternion.randint(0, 11, (2, 6))
        targets[0, 0] = -100
        actual = []
        for chunk_rows in (None, 5):
            model.zero_grad()
            model.loss(tokens, targets, label_smoothing=0.1, chunk_rows=chunk_rows).backward()
            actual.append([parameter.grad for parameter in model.parameters()])
        model.zero_grad()
        expected = F.cross_entropy(model(tokens).reshape(-1, 11), targets.reshape(-1), label_smoothing=0.1)
        expected.backward()
        assert model.loss(tokens, targets, label_smoothing=0.1).allclose(expected, atol=1e-6)
        for gradients in actual:
            for gradient, parameter in zip(gradients, model.parameters()):
                assert gradient.allclose(parameter.grad, atol=1e-6)
        with pytest.raises(ValueError, match="chunk_rows 0"):
            model.loss(tokens, targets, chunk_rows=0)
        with pytest.raises(ValueError, match="target"):
            model.loss(tokens, targets[:, 1:])

    def test_it_learns_by_heart(self, settings):
        model = small(**settings)
        tokens = ternion.tensor([[1, 5, 2, 9, 3, 3, 7, 0]])
        adam = ternion.optim.AdamW(model.named_parameters(), lr=1e-2)
        for _ in range(60):
            adam.zero_grad()
            loss = F.cross_entropy(model(tokens)[0, :-1], tokens[0, 1:])
            loss.backward()
            adam.step()
        assert loss.item() < 0.05
        assert model.eval().generate([1], 7, temperature=0) == [5, 2, 9, 3, 3, 7, 0]


def test_first_values():
    model = small(layers=3, width=64, vocabulary=500)
    state = model.state_dict()
    assert list(state)[:3] == ["wte.weight", "wpe.weight", "h.0.self_attn.in_proj_weight"] and "lm_head.weight" not in state
    stds = {key: value.std().item() for key, value in state.items() if value.ndim == 2}
    for key, std in stds.items():
        expected = 0.02 / 6**0.5 if key.endswith(("out_proj.weight", "linear2.weight")) else 0.02
        assert std == pytest.approx(expected, rel=0.1), key
    assert state["h.1.linear1.bias"].abs().max().item() == 0 and state["ln_f.weight"].equal(ternion.ones(64))


class TestGenerate:
    def test_beyond_the_context(self):
        model = small().eval()
        written = model.generate([3, 1], 20, seed=4)
        assert len(written) == 20 and all(0 <= token < 11 for token in written)
        # The last token depends only on the 8 tokens before it.
        with ternion.no_grad():
            logits = model(ternion.tensor([([3, 1] + written)[-9:-1]]))[0, -1]
        greedy = model.generate(([3, 1] + written)[:-1], 1, temperature=0)
        assert greedy == [logits.argmax().item()]

    def test_seeds_decide_and_leave_no_trace(self):
        model = small().eval()
        before = ternion.get_rng_state()
        one = model.generate([1], 12, seed=5)
        assert ternion.get_rng_state() == before
        assert model.generate([1], 12, seed=5) == one != model.generate([1], 12, seed=6)
        ternion.manual_seed(5)
        assert model.generate([1], 12) == one
        assert ternion.get_rng_state() == (5, 12)

    def test_kinds_of_prompts(self):
        model = small().eval()
        reported = []
        written = model.generate([1, 2], 4, seed=1, each=reported.append)
        assert reported == written and isinstance(written, list)
        assert model.generate(ternion.tensor([1, 2]), 4, seed=1).tolist() == written
        rows = model.generate(ternion.tensor([[1, 2], [3, 4]]), 5, temperature=0)
        assert rows.shape == (2, 5) and rows.dtype is ternion.int64
        assert rows[1].tolist() == model.generate([3, 4], 5, temperature=0)
        assert model.generate([1], 0) == []

    def test_top_k_and_top_p(self):
        model = small().eval()
        greedy = model.generate([1], 6, temperature=0)
        assert model.generate([1], 6, top_k=1, seed=2) == greedy == model.generate([1], 6, top_p=1e-9, seed=2)
        with ternion.no_grad():
            likely = model(ternion.tensor([[1]]))[0, -1].topk(2).indices.tolist()
        firsts = {model.generate([1], 1, top_k=2, temperature=5.0, seed=seed)[0] for seed in range(30)}
        assert firsts == set(likely)

    @pytest.mark.parametrize(
        "options, message",
        [
            (dict(temperature=-1.0), "temperature -1, expected a finite number of at least 0"),
            (dict(top_k=0), "top_k 0, expected at least 1"),
            (dict(top_p=0.0), "top_p 0, expected above 0 and at most 1"),
        ],
    )
    def test_settings_are_rejected(self, options, message):
        with pytest.raises(ValueError, match=message):
            small().generate([1], 2, **options)

    def test_prompts_are_rejected(self):
        model = small()
        with pytest.raises(ValueError, match="an empty prompt"):
            model.generate([], 2)
        with pytest.raises(IndexError, match="11"):
            model.generate([11], 2)
        with pytest.raises(ValueError, match="9 tokens behind 0, expected at most 8"):
            model(ternion.zeros(1, 9, dtype="int64"))
        with pytest.raises(ValueError, match="1 caches, expected one for each of 2 blocks"):
            model.next_logits(ternion.tensor([[1]]), model.caches()[:1])
        with pytest.raises(RuntimeError, match="no gradient flows through what a KeyValueCache keeps"):
            model.next_logits(ternion.tensor([[1]]), model.caches())
        with pytest.raises(ValueError, match="context 0"):
            small(context=0)
        with pytest.raises(ValueError, match="positions 'none'"):
            small(positions="none")


class TestCache:
    def test_what_does_not_fit(self):
        cache = nn.KeyValueCache(4)
        token = ternion.ones(1, 2, 3, 5)
        cache.append(token, token)
        with pytest.raises(ValueError, match="3 tokens behind 3, expected at most 4 in all"):
            cache.append(token, token)
        with pytest.raises(ValueError, match=r"tokens of shape \(2, 2, 1, 5\) behind tokens kept in \(1, 2, 4, 5\)"):
            cache.append(ternion.ones(2, 2, 1, 5), ternion.ones(2, 2, 1, 5))
        cache.clear()
        assert len(cache) == 0


def test_how_well_a_text_is_predicted():
    model = small().eval()
    text = ternion.randint(0, 11, (20,))
    with ternion.no_grad():
        windows = [(0, 8), (8, 16), (16, 19)]
        sums = [F.cross_entropy(model(text[a:b].unsqueeze(0))[0], text[a + 1 : b + 1], reduction="sum").item() for a, b in windows]
    result = model.text_loss(text)
    assert result.tokens == 19 and result.loss == pytest.approx(sum(sums) / 19, rel=1e-5)
    assert result.perplexity == pytest.approx(2.718281828**result.loss, rel=1e-6)
    assert model.text_loss(text.tolist(), stride=1).tokens == 19
    with pytest.raises(ValueError, match="stride 9, expected 1 to the context, 8"):
        model.text_loss(text, 9)
    with pytest.raises(ValueError, match="at least 2"):
        model.text_loss([1])


GPT2 = Path(__file__).parents[2] / "tests" / "reference" / "gpt2"


class TestGpt2:
    """Files of `transformers`, and the values that it computed from them."""

    def test_it_computes_what_transformers_does(self):
        case = json.loads((GPT2 / "case.json").read_text())
        model = models.GPT.from_gpt2(GPT2).eval()
        with ternion.no_grad():
            logits = model(ternion.tensor(case["tokens"]))
        np.testing.assert_allclose(logits.flatten().numpy(), case["logits"], rtol=1e-3, atol=1e-3)
        assert model.generate(case["prompt"], 20, temperature=0) == case["generated"]
        for stride, expected in case["text_loss"].items():
            assert model.text_loss(case["text"], int(stride)).loss == pytest.approx(expected, rel=1e-4)

    def test_what_is_written_comes_back(self, tmp_path):
        model = small(vocabulary=13, hidden=20, feed_forward="gelu")
        model.save_gpt2(tmp_path / "folder")
        position = ternion.get_rng_state()
        again = models.GPT.from_gpt2(tmp_path / "folder")
        assert ternion.get_rng_state() == position
        assert {key: value.shape for key, value in again.state_dict().items()} == {key: value.shape for key, value in model.state_dict().items()}
        tokens = ternion.randint(0, 13, (2, 6))
        assert again.eval()(tokens).equal(model.eval()(tokens))
        assert "transformer.h.0.attn.c_attn.weight" in ternion.load(tmp_path / "folder" / "model.safetensors")
        half = models.GPT.from_gpt2(tmp_path / "folder" / "model.safetensors", dtype=ternion.bfloat16)
        assert half.wte.weight.dtype is ternion.bfloat16

    def test_what_gpt2_cannot_tell(self, tmp_path):
        for settings in (dict(positions="rotary"), dict(norm="rms_norm"), dict(kv_heads=1), dict(feed_forward="swiglu"), dict(bias=False)):
            with pytest.raises(ValueError, match="which GPT-2's names cannot express"):
                small(**settings).save_gpt2(tmp_path / "folder")
        assert not (tmp_path / "folder").exists()

    def test_what_is_no_gpt2(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="nowhere"):
            models.GPT.from_gpt2(tmp_path / "nowhere")
        ternion.save(tmp_path / "weights", {"wte.weight": ternion.ones(3, 64), "wpe.weight": ternion.ones(4, 64)})
        with pytest.raises(OSError, match="weights: this is not a GPT-2; missing: ln_f.weight, ln_f.bias"):
            models.GPT.from_gpt2(tmp_path / "weights")


def test_seeds_below_0():
    ternion.manual_seed(1)
    model = models.GPT(vocabulary=9, context=8, layers=1, heads=1, width=4).eval()
    assert model.generate([1], 20, seed=-1) == model.generate([1], 20, seed=2**64 - 2) != model.generate([1], 20, seed=0)
    with pytest.raises(ValueError, match="a seed of .*, expected"):
        model.generate([1], 3, seed=2**64)
