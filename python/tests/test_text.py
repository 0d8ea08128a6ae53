"""Texts as tokens and windows, in-place random numbers, and sums with a fused scale or
activation."""

import copy
import json

import numpy as np
import pytest

import ternion
from ternion import data, nn
from ternion.nn import functional as F


class TestText:
    def test_characters_are_tokens(self):
        vocabulary = data.CharVocabulary("hello, wörld\n")
        assert len(vocabulary) == 11 and vocabulary.characters == "\n ,dehlorwö"
        tokens = vocabulary.encode("hö\n")
        assert tokens.dtype is ternion.int64 and tokens.tolist() == [5, 10, 0]
        assert vocabulary.decode(tokens) == vocabulary.decode([5, 10, 0]) == "hö\n"
        with pytest.raises(ValueError, match=r"character 'x' at position 1 \(line 1, column 2\) is not among the 11"):
            vocabulary.encode("hx")
        with pytest.raises(ValueError, match="token 11 at position 1: expected 0 to 10"):
            vocabulary.decode([0, 11])
        with pytest.raises(ValueError, match="0 characters"):
            data.CharVocabulary("")

    def test_files_and_parts(self, tmp_path):
        file = tmp_path / "text.txt"
        file.write_text("to be or not\r\n to be", encoding="utf-8", newline="")
        assert data.read_text(file) == "to be or not\r\n to be"
        assert data.train_validation("0123456789") == ("012345678", "9")
        file.write_bytes(b"ab\ncd\xff")
        with pytest.raises(ValueError, match="text.txt: .*line 2"):
            data.read_text(file)
        with pytest.raises(FileNotFoundError, match="nowhere"):
            data.read_text(tmp_path / "nowhere")
        with pytest.raises(ValueError, match="train and validation"):
            data.train_validation("a")

    def test_windows_are_those_of_rust(self):
        windows = data.Windows(ternion.arange(1000), 4)
        random = windows.random(4, 0)
        first = [next(random)[0][:, 0].tolist() for _ in range(2)]
        # The starts that are pinned in the Rust tests.
        assert first == [[909, 84, 760, 127], [205, 727, 398, 316]] and random.position == 2
        random.position = 1
        inputs, targets = next(random)
        assert inputs[:, 0].tolist() == first[1] and (targets - inputs).tolist() == [[1] * 4] * 4

    def test_windows_side_by_side(self):
        windows = data.Windows(ternion.arange(24), 5)
        batches = windows.sequential(3)
        assert (len(windows), len(batches)) == (4, 2)
        assert ternion.cat([inputs for inputs, _ in batches]).flatten().tolist() == list(range(20))
        with pytest.raises(ValueError, match="context 24 of 24 tokens"):
            data.Windows(ternion.arange(24), 24)
        with pytest.raises(ValueError, match="batch"):
            windows.random(0, 1)


class TestDraws:
    def test_in_place(self):
        x = ternion.zeros(5000)
        assert x.uniform_(2.0, 3.0) is x and 2 <= x.min().item() < 2.1 and 2.9 < x.max().item() < 3
        assert x.normal_(1.0, 2.0).mean().item() == pytest.approx(1, abs=0.2) and x.std().item() == pytest.approx(2, abs=0.1)
        assert set(x.bernoulli_(0.25).tolist()) == {0, 1} and x.mean().item() == pytest.approx(0.25, abs=0.03)

    def test_what_is_rejected(self):
        with pytest.raises(ValueError, match="uniform_: from 3 to 2"):
            ternion.zeros(2).uniform_(3.0, 2.0)
        with pytest.raises(ValueError, match="std -1"):
            ternion.zeros(2).normal_(0.0, -1.0)
        with pytest.raises(ValueError, match="probability 1.5, expected 0 to 1"):
            ternion.zeros(2).bernoulli_(1.5)
        with pytest.raises(RuntimeError, match="do it within no_grad"):
            ternion.zeros(2, requires_grad=True).uniform_()
        with pytest.raises(TypeError, match="bernoulli"):
            ternion.bernoulli(ternion.tensor([1]))

    def test_states_bring_back_the_same_numbers(self):
        ternion.manual_seed(3)
        ternion.rand(5)
        state = ternion.get_rng_state()
        one = ternion.rand(4)
        ternion.set_rng_state(state)
        assert state[0] == 3 and ternion.rand(4).equal(one)


class TestSums:
    @pytest.mark.parametrize("alpha", [2, 2.5, -1])
    @pytest.mark.parametrize("function", ["add", "sub"])
    def test_scaled_are_pytorchs(self, function, alpha):
        torch = pytest.importorskip("torch")
        x, y = np.array([[1.0, 2, 3]], np.float32), np.array([[4.0], [5.0]], np.float32)
        expected = getattr(torch, function)(torch.tensor(x), torch.tensor(y), alpha=alpha).numpy()
        actual = getattr(ternion, function)(ternion.tensor(x), ternion.tensor(y), alpha=alpha)
        np.testing.assert_allclose(actual.numpy(), expected)
        a, b = ternion.tensor(x, requires_grad=True), ternion.tensor(y, requires_grad=True)
        getattr(a, function)(b, alpha=alpha).sum().backward()
        assert a.grad.tolist() == [[2, 2, 2]] and b.grad.flatten().tolist() == [3 * alpha * (1 if function == "add" else -1)] * 2

    def test_scaled_of_other_operands(self):
        integers = ternion.tensor([1, 2])
        assert integers.add(integers, alpha=3).tolist() == [4, 8] and integers.add(integers, alpha=3).dtype is ternion.int64
        assert integers.sub(2, alpha=3).tolist() == [-5, -4]
        assert integers.clone().add_(integers, alpha=2).tolist() == [3, 6]
        assert ternion.tensor([1.0]).sub_(ternion.tensor([2.0]), alpha=0.5).tolist() == [0]
        with pytest.raises(TypeError):
            integers.add(integers, 3)

    def test_activated_at_once(self):
        x, bias = ternion.randn(4, 3), ternion.randn(3)
        for name, function in dict(relu=F.relu, gelu=F.gelu, silu=F.silu, sigmoid=F.sigmoid, softplus=F.softplus, leaky_relu=F.leaky_relu).items():
            assert F.bias_activation(x, bias, name).allclose(function(x + bias), atol=1e-6)
        assert F.bias_activation(x, bias, "gelu_tanh").allclose(F.gelu(x + bias, "tanh"), atol=1e-6)
        with pytest.raises(ValueError, match='activation "swish", expected one of relu'):
            F.bias_activation(x, bias, "swish")
        with pytest.raises(ValueError, match="bias_activation"):
            F.bias_activation(x, ternion.ones(4), "relu")
        with pytest.raises(ValueError, match="add_relu"):
            F.add_relu(x, ternion.ones(4))

    def test_products_added_in_place(self):
        x = ternion.ones(2, 2)
        assert x.addmm_(ternion.eye(2), ternion.eye(2), alpha=3.0) is x and x.tolist() == [[4, 1], [1, 4]]
        with pytest.raises(ValueError, match="addmm"):
            x.addmm_(ternion.ones(2, 3), ternion.ones(2, 3))

    def test_accuracy(self):
        logits = ternion.tensor([[1.0, 2.0], [3.0, 0.0], [0.0, 1.0]])
        assert F.accuracy(logits, ternion.tensor([1, 1, 1])).item() == pytest.approx(2 / 3)
        with pytest.raises(IndexError, match="accuracy"):
            F.accuracy(logits, ternion.tensor([0, 1, 2]))


def test_copies_of_parameters_are_parameters():
    parameter = nn.Parameter(ternion.ones(2), requires_grad=False)
    other = copy.deepcopy(parameter)
    assert type(other) is nn.Parameter and not other.requires_grad
    other.fill_(3.0)
    assert parameter.tolist() == [1, 1]


def test_words_are_merged_from_bytes(tmp_path):
    """A small vocabulary in GPT-2's format: every byte as the character that represents it,
    followed by merged tokens."""
    printable = [byte for byte in range(256) if 33 <= byte <= 126 or 161 <= byte <= 172 or 174 <= byte]
    characters = [chr(byte) for byte in printable] + [chr(256 + number) for number in range(256 - len(printable))]
    tokens = [*characters, "th", "the", "\u0120the", "<|endoftext|>"]
    (tmp_path / "vocab.json").write_text(json.dumps({token: number for number, token in enumerate(tokens)}))
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h\nth e\n\u0120 the\n", encoding="utf-8")
    tokenizer = data.BpeTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt")
    result = tokenizer.encode("the the t\u00f6")
    assert result.tolist()[:2] == [257, 258] and len(tokenizer) == 260 and tokenizer.end_of_text == 259
    assert tokenizer.decode(result) == "the the t\u00f6" and tokenizer.decode([257]) == "the"
    with pytest.raises(ValueError, match="token 260 at position 0"):
        tokenizer.decode([260])
    with pytest.raises(FileNotFoundError, match="nowhere"):
        data.BpeTokenizer(tmp_path / "nowhere", tmp_path / "merges.txt")
    (tmp_path / "merges.txt").write_text("#version: 0.2\nt h x\n")
    with pytest.raises(ValueError, match="merges.txt: line 2"):
        data.BpeTokenizer(tmp_path / "vocab.json", tmp_path / "merges.txt")
