"""Calls that PyTorch accepts: with a number as the first argument, without channels, with sources
larger than their indices, with different dtypes, and with arguments that have no effect."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from pytorch_reference import torch_of

import ternion
from ternion import nn

CALLS = """
m.float_power(2, x) | m.float_power(0.1, x) | m.float_power(x, 0.1) | m.float_power(2.0, x.double()) | m.float_power(3, i)
m.randint(0, 1, (3,), dtype=m.bool) | m.randint(1, (2, 2), dtype=m.bool)
F.group_norm(m.zeros(2, 0, 3), 2) | F.group_norm(m.zeros(0, 4, 3), 2) | F.group_norm(m.zeros(2, 4, 0), 2) | F.group_norm(m.zeros(2, 0, 3), 2, m.ones(0), m.ones(0))
F.adaptive_avg_pool1d(m.zeros(2, 0, 4), 2) | F.adaptive_avg_pool2d(m.zeros(2, 0, 4, 4), 2) | F.adaptive_avg_pool2d(m.zeros(0, 4, 4), (2, None)) | F.adaptive_max_pool2d(m.zeros(0, 2, 4, 4), 2)
F.fold(m.ones(1, 4, 1).bool(), (2, 2), (2, 2)) | F.fold(m.ones(1, 4, 4).bool(), (3, 3), (2, 2)) | F.fold(m.zeros(1, 4, 4).bool(), (3, 3), (2, 2))
m.addr(x, m.ones(2).double(), m.ones(3)) | m.addr(x.long(), m.ones(2), m.ones(3)) | m.addr(x, m.ones(2).long(), m.ones(3).long()) | m.addmv(m.ones(2).double(), x, m.ones(3)) | m.addmv(m.ones(2), x.double(), m.ones(3).double())
m.hann_window(4, layout=m.strided, pin_memory=False) | m.kaiser_window(4, True, 12.0, layout=m.strided) | m.hamming_window(4, layout=m.strided, device="cpu") | m.signal.windows.hann(4, layout=m.strided)
m.tril_indices(3, 3, 0, layout=m.strided, pin_memory=False, device="cpu") | m.triu_indices(3, 3, dtype=m.int32, layout=m.strided)
x.scatter(0, i[:1, :2], x * 3) | x.scatter_add(0, i[:1, :2], x) | x.clone().scatter_(0, i[:1, :2], x * 3) | x.clone().scatter_add_(1, i[:, :1], x) | x.scatter(1, i[:, :2], m.ones(4, 5)) | x.scatter(0, i[:1], value=5)
"""


@pytest.mark.parametrize("call", [call.strip() for line in CALLS.strip().splitlines() for call in line.split(" | ")])
def test_an_answer_as_pytorch_gives(call):
    answers = []
    for m in (ternion, torch_of()):
        x, i = m.tensor([[0.5, -1.5, 2.0], [3.0, 0.25, 1.0]]), m.zeros(2, 3, dtype=m.int64)
        answers.append(eval(call, {"m": m, "F": m.nn.functional, "x": x, "i": i}))
    ours, theirs = answers
    assert (tuple(ours.shape), str(ours.dtype).split(".")[-1]) == (tuple(theirs.shape), str(theirs.dtype).split(".")[-1])
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-6)


@pytest.mark.parametrize("call", ["m.float_power(2, 3)", "m.randint(0, 3, (3,), dtype=m.bool)", "m.randint(-1, 1, (3,), dtype=m.bool)", "x.scatter(0, i[:1], m.ones(1, 1))", "m.hann_window(4, layout='other')", "F.group_norm(m.zeros(2, 0, 3), 0)"])  # fmt: skip
def test_what_neither_answers(call):
    for m in (ternion, torch_of()):
        with pytest.raises((TypeError, ValueError, RuntimeError, ZeroDivisionError)):
            eval(call, {"m": m, "F": m.nn.functional, "x": m.ones(2, 3), "i": m.zeros(2, 3, dtype=m.int64)})


def test_bools_are_drawn_evenly():
    ternion.manual_seed(0)
    share = ternion.randint(0, 2, (10_000,), dtype=ternion.bool).float().mean().item()
    assert abs(share - 0.5) < 0.03 and ternion.randint(1, 2, (9,), dtype=ternion.bool).all()


def test_gradients_of_a_part_of_a_source():
    result = {}
    for m in (ternion, torch_of()):
        x, source = m.ones(2, 3).requires_grad_(), m.ones(4, 3).requires_grad_()
        # In PyTorch, the gradient of a larger source is an error, so it receives only the part that
        # is used.
        part = (lambda source: source) if m is ternion else (lambda source: source[:1, :2])
        for name in ("scatter", "scatter_add"):
            (getattr(x, name)(0, m.tensor([[1, 0]]), part(source * 2)) ** 2).sum().backward()
        result[m] = x.grad.tolist(), source.grad.tolist()
    assert result[ternion] == result[torch_of()] and np.array(result[ternion][1]).any()


def test_gradients_without_channels():
    for call in (lambda x: nn.functional.group_norm(x, 2), lambda x: nn.functional.adaptive_avg_pool1d(x, 2)):
        x = ternion.zeros(2, 0, 3, requires_grad=True)
        call(x).sum().backward()
        assert x.grad.shape == (2, 0, 3)


def test_powers_of_a_number_have_gradients():
    x = ternion.tensor([0.5, 1.0, 2.0], dtype="float64", requires_grad=True)
    ternion.float_power(3, x).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.log(3) * 3 ** x.detach().numpy(), rtol=1e-12)


class TestBatchNormWithoutMomentum:
    def test_within_a_checkpoint(self):
        data = [ternion.tensor(np.random.default_rng(seed).normal(size=(8, 3)).astype("float32")).requires_grad_() for seed in range(3)]
        plain, checkpointed = (nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None)) for _ in range(2))
        checkpointed.load_state_dict(plain.state_dict())
        for x in data:
            plain(x).square().sum().backward()
            own = x.grad.clone()
            x.grad = None
            ternion.checkpoint(checkpointed, x).square().sum().backward()
            np.testing.assert_allclose(x.grad.numpy(), own.numpy(), rtol=1e-6, atol=1e-7)
            x.grad = None
        assert checkpointed[1].num_batches_tracked.item() == 3
        assert checkpointed[1].running_mean.equal(plain[1].running_mean) and checkpointed[1].running_var.equal(plain[1].running_var)

    def test_means_of_all_batches(self):
        torch = torch_of()
        ours, theirs = nn.BatchNorm1d(4, momentum=None), torch.nn.BatchNorm1d(4, momentum=None)
        for seed in range(5):
            values = np.random.default_rng(seed).normal(size=(8, 4)).astype("float32")
            ours(ternion.tensor(values))
            theirs(torch.tensor(values))
        np.testing.assert_allclose(ours.running_mean.numpy(), theirs.running_mean.numpy(), rtol=1e-5, atol=1e-7)
        np.testing.assert_allclose(ours.running_var.numpy(), theirs.running_var.numpy(), rtol=1e-5)


class TestStates:
    def test_a_single_number_in_one_axis(self):
        norm = nn.BatchNorm1d(4)
        norm.load_state_dict({**norm.state_dict(), "num_batches_tracked": ternion.tensor([5])})
        assert norm.num_batches_tracked.item() == 5
        with pytest.raises(RuntimeError, match="size mismatch for num_batches_tracked"):
            norm.load_state_dict({**norm.state_dict(), "num_batches_tracked": ternion.zeros(0)})

    def test_many_keys_are_counted(self):
        layers = nn.ModuleList([nn.Linear(2, 2) for _ in range(300)])
        with pytest.raises(RuntimeError) as raised:
            layers.load_state_dict({f"w{number}": ternion.ones(1) for number in range(400)})
        message = str(raised.value)
        assert len(message) < 400 and "and 590 more; unexpected: w0, " in message and message.endswith("w9, and 390 more")
        with pytest.raises(RuntimeError, match=r"size mismatch for 4.bias: .*; and 590 more$"):
            layers.load_state_dict({key: ternion.ones(7) for key in layers.state_dict()})


class TestInterrupts:
    HEAD = "import signal, ternion; signal.signal(signal.SIGINT, signal.default_int_handler); "

    def interrupted(self, program):
        child = subprocess.Popen([sys.executable, "-c", self.HEAD + program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert child.stdout.readline() == "ready\n"
            time.sleep(0.5)
            child.send_signal(signal.SIGINT)
            begun = time.monotonic()
            _, stderr = child.communicate(timeout=30)
            return stderr, time.monotonic() - begun
        finally:
            child.kill()

    @pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
    @pytest.mark.parametrize("call", ["ternion.cdist(x, x, p=3.0)", "ternion.nn.functional.pdist(x, 3.0)"])
    def test_ends_long_distances(self, call):
        """Without the interrupt it takes minutes."""
        stderr, passed = self.interrupted(f"x = ternion.rand(6000, 128); print('ready', flush=True); {call}")
        assert "KeyboardInterrupt" in stderr and passed < 15

    @pytest.mark.skipif(sys.platform == "win32", reason="pipes of Unix")
    def test_ends_a_write_that_waits(self, tmp_path):
        import os

        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        stderr, passed = self.interrupted(f"print('ready', flush=True); ternion.save({str(pipe)!r}, {{'a': ternion.ones(9)}})")
        assert "KeyboardInterrupt" in stderr and passed < 15


class TestOrthogonal:
    @pytest.mark.parametrize("shape", [(3, 3), (5, 3), (3, 5), (4, 2, 3)])
    def test_rows_or_columns(self, shape):
        matrix = nn.init.orthogonal_(ternion.empty(*shape), gain=2.0).reshape(shape[0], -1).double().numpy()
        product = matrix @ matrix.T if shape[0] <= matrix.shape[1] else matrix.T @ matrix
        np.testing.assert_allclose(product, 4 * np.eye(min(matrix.shape)), atol=1e-5)

    def test_signs_are_even(self):
        """Under the Haar measure, the trace of an orthogonal matrix has mean 0 and variance 1."""
        ternion.manual_seed(0)
        traces = [nn.init.orthogonal_(ternion.empty(4, 4)).trace().item() for _ in range(2000)]
        assert abs(np.mean(traces)) < 0.1 and abs(np.var(traces) - 1) < 0.15


class TestTemperature:
    def test_a_gradient_flows_to_it(self):
        logits, tau = ternion.randn(500, 4, requires_grad=True), ternion.tensor(0.7, requires_grad=True)
        ternion.manual_seed(0)
        soft = nn.functional.gumbel_softmax(logits, tau)
        weights = ternion.randn(500, 4)
        (soft * weights).sum().backward()
        result = tau.grad.item()
        step, ends = 1e-3, []
        for end in (0.7 + step, 0.7 - step):
            ternion.manual_seed(0)
            ends.append((nn.functional.gumbel_softmax(logits.detach(), ternion.tensor(end, requires_grad=True)) * weights).sum().item())
        assert abs(result - (ends[0] - ends[1]) / (2 * step)) < 2e-2 * max(1, abs(result)) and logits.grad is not None

    def test_a_hard_choice(self):
        logits, tau = ternion.randn(50, 4, requires_grad=True), ternion.tensor(0.7, requires_grad=True)
        hard = nn.functional.gumbel_softmax(logits, tau, hard=True)
        assert ((hard - hard.round()).abs() < 1e-6).all() and (hard.round().sum(-1) == 1).all()
        (hard * ternion.arange(4)).sum().backward()
        assert tau.grad.item() != 0


OLDER = """
F.mse_loss(x, y, reduce=False) | F.mse_loss(x, y, size_average=False) | F.l1_loss(x, y, size_average=False, reduce=True) | F.kl_div(x, y, reduce=False) | F.smooth_l1_loss(x, y, size_average=False)
F.cross_entropy(x, c, size_average=False) | F.nll_loss(x, c, reduce=False) | F.binary_cross_entropy_with_logits(x, y, size_average=False) | F.poisson_nll_loss(x, y, size_average=True)
F.multi_margin_loss(x, c, size_average=False) | F.soft_margin_loss(x, y, reduce=False) | nn.MSELoss(size_average=False)(x, y) | nn.CrossEntropyLoss(reduce=False)(x, c) | nn.BCELoss(size_average=False)(y, y)
F.triplet_margin_loss(x, y, x, reduce=False) | nn.KLDivLoss(size_average=False)(x, y)
"""


@pytest.mark.parametrize("call", [call.strip() for line in OLDER.strip().splitlines() for call in line.split(" | ")])
def test_older_names_of_reductions(call):
    answers = []
    for m in (ternion, torch_of()):
        x, y = m.tensor([[0.5, -1.5, 2.0], [3.0, 0.25, 1.0]]), m.tensor([[0.1, 0.2, 0.7], [0.5, 0.25, 0.25]])
        with pytest.warns(UserWarning, match="size_average and reduce"):
            answers.append(eval(call, {"F": m.nn.functional, "nn": m.nn, "x": x, "y": y, "c": m.tensor([2, 0])}))
    assert answers[0].shape == answers[1].shape
    np.testing.assert_allclose(answers[0].numpy(), answers[1].numpy(), rtol=1e-5, atol=1e-6)


class TestEmbeddings:
    @pytest.mark.parametrize("padding_idx", [None, 3, -5])
    @pytest.mark.parametrize("mode", [0, 1, 2])
    @pytest.mark.parametrize("dtypes", ["float32 int64 int64", "float64 int32 int32", "bfloat16 int32 int64"])
    @pytest.mark.parametrize("with_gradient", [False, True])
    @pytest.mark.parametrize("with_last", [False, True])
    def test_bags_with_what_belongs_to_them(self, mode, padding_idx, dtypes, with_gradient, with_last):
        answers = []
        for m in (ternion, torch_of()):
            floats, index_dtype, ends = (getattr(m, name) for name in dtypes.split())
            weight = m.arange(15.0).reshape(5, 3).to(floats).requires_grad_(with_gradient)
            offsets = m.tensor([0, 1, 1, 4] if with_last else [0, 1, 1], dtype=ends)
            actual = m.embedding_bag(weight, m.tensor([4, 3, 0, 2], dtype=index_dtype), offsets, False, mode, False, None, with_last, padding_idx)
            if with_gradient:
                actual[0].square().sum().backward()
            parts = [*actual, weight.grad] if with_gradient else actual
            answers.append([(part.detach().float().numpy(), str(part.dtype).split(".")[-1]) for part in parts])
        for (ours, dtype), (theirs, expected) in zip(*answers, strict=True):
            assert (ours.shape, dtype) == (theirs.shape, expected)
            # PyTorch also rounds intermediate gradients of means to half precision.
            np.testing.assert_allclose(ours, theirs, rtol=1e-2 if dtype == "bfloat16" else 1e-6)

    def test_weights_and_a_last_offset(self):
        answers = []
        for m in (ternion, torch_of()):
            weight, shares = m.arange(15.0).reshape(5, 3), m.tensor([1.0, 2.0, 3.0, 4.0])
            answers.append(m.embedding_bag(weight, m.tensor([4, 3, 0, 2]), m.tensor([0, 1, 4]), False, 0, False, shares, True)[0].tolist())
        assert answers[0] == answers[1]

    def test_rows(self):
        for m in (ternion, torch_of()):
            assert m.embedding(m.arange(6.0).reshape(3, 2), m.tensor([2, 0])).tolist() == [[4.0, 5.0], [0.0, 1.0]]

    @pytest.mark.parametrize("norm_type", [2.0, 1.0, float("inf")])
    def test_rows_are_shortened(self, norm_type):
        answers = []
        for m in (ternion, torch_of()):
            F, weight = m.nn.functional, m.tensor([[3.0, 4.0], [1.0, 0.5], [0.0, 0.0], [6.0, 8.0], [9.0, 9.0]]).requires_grad_()
            result = F.embedding(m.tensor([[0, 0], [3, 2]]), weight, max_norm=1.0, norm_type=norm_type)
            bags = F.embedding_bag(m.tensor([[0, 1], [1, 2]]), weight, max_norm=0.5, norm_type=norm_type)
            (result.square().sum() + bags.square().sum()).backward()
            answers.append([part.detach().numpy() for part in (result, bags, weight, weight.grad)])
        for ours, theirs in zip(*answers):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-7)

    @pytest.mark.parametrize("padding_idx", [None, 3])
    def test_gradients_by_frequency(self, padding_idx):
        answers = []
        for m in (ternion, torch_of()):
            weight, indices = m.arange(8.0).reshape(4, 2).requires_grad_(), m.tensor([[0, 0, 3], [2, 0, 3]])
            result = m.nn.functional.embedding(indices, weight, padding_idx, scale_grad_by_freq=True)
            (result * m.arange(12.0).reshape(2, 3, 2)).sum().backward()
            answers.append((result.detach().numpy(), weight.grad.numpy()))
        for ours, theirs in zip(*answers):
            np.testing.assert_allclose(ours, theirs, rtol=1e-6)

    def test_layers(self):
        for m in (ternion, torch_of()):
            layer = m.nn.Embedding.from_pretrained(m.tensor([[3.0, 4.0], [1.0, 0.0]]), freeze=False, max_norm=1.0, scale_grad_by_freq=True)
            layer(m.tensor([0, 0, 1])).sum().backward()
            assert layer.weight.detach().allclose(m.tensor([[0.6, 0.8], [1.0, 0.0]])) and layer.weight.grad.tolist() == [[1.0, 1.0], [1.0, 1.0]]
            assert repr(layer) == "Embedding(2, 2, max_norm=1.0, scale_grad_by_freq=True)"
            bag = m.nn.EmbeddingBag(3, 2, max_norm=0.25, mode="sum")
            bag(m.tensor([[0, 2]]))
            lengths = bag.weight.detach().norm(2, 1)
            assert (lengths[m.tensor([0, 2])] <= 0.2501).all() and repr(bag) == "EmbeddingBag(3, 2, mode='sum', max_norm=0.25)" or m is not ternion


class TestScatteredProducts:
    def test_values(self):
        for m in (ternion, torch_of()):
            x, i = m.arange(6.0).reshape(2, 3) + 1, m.tensor([[0, 0, 1], [0, 1, 1]])
            assert x.scatter(0, i, 2.0, reduce="multiply").tolist() == [[4.0, 4.0, 3.0], [4.0, 10.0, 24.0]]
            assert x.clone().scatter_(0, i, x, reduce="multiply").tolist() == x.scatter(0, i, x, reduce="multiply").tolist()

    def test_gradients(self):
        x, source = (ternion.rand(2, 3, dtype="float64") + 0.5 for _ in range(2))
        i = ternion.tensor([[0, 0, 1], [0, 1, 1]])
        assert ternion.testing.gradcheck(lambda x, source: x.scatter(0, i, source, reduce="multiply"), (x.requires_grad_(), source.requires_grad_()))


class TestMoreKeys:
    @pytest.mark.parametrize("need_weights", [False, True])
    @pytest.mark.parametrize("masked", ["no", "padding", "bool", "float", "causal"])
    @pytest.mark.parametrize("settings", [dict(add_bias_kv=True), dict(add_zero_attn=True), dict(add_bias_kv=True, add_zero_attn=True, kdim=6, vdim=5)])
    def test_against_pytorch(self, settings, masked, need_weights):
        torch = torch_of()
        ours, theirs = nn.MultiheadAttention(8, 2, **settings), torch.nn.MultiheadAttention(8, 2, **settings)
        assert list(dict(ours.named_parameters())) and set(ours.state_dict()) == set(theirs.state_dict())
        theirs.load_state_dict({key: torch.tensor(value.numpy()) for key, value in ours.state_dict().items()})
        draw, answers = np.random.default_rng(0), []
        values = [draw.normal(size=(4, 3, width)).astype("float32") for width in (8, settings.get("kdim", 8), settings.get("vdim", 8))]
        hidden = np.triu(np.ones((4, 4), bool), 1)
        for m, layer in ((ternion, ours), (torch, theirs)):
            inputs = [m.tensor(each).requires_grad_() for each in values]
            masks = {}
            if masked == "padding":
                masks["key_padding_mask"] = m.tensor(np.array([[False] * 4, [False, False, True, True], [False, True, False, True]]))
            if masked in ("bool", "causal"):
                masks["attn_mask"] = m.tensor(hidden)
            if masked == "float":
                masks["attn_mask"] = m.tensor(np.where(hidden, -2.0, 0.5).astype("float32"))
            if masked == "causal" and m is ternion:
                # PyTorch's is_causal also masks later keys, but only without weights. PyTorch
                # therefore receives the mask itself.
                masks = dict(is_causal=True)
            output, weights = layer(*inputs, need_weights=need_weights, **masks)
            output.square().sum().backward()
            results = [output, *([weights] if need_weights else []), *(each.grad for each in inputs), *(layer.get_parameter(name).grad for name in sorted(ours.state_dict()))]
            answers.append([each.detach().numpy() for each in results])
        for mine, other in zip(*answers):
            np.testing.assert_allclose(mine, other, rtol=2e-4, atol=2e-6)

    def test_rejected(self):
        with pytest.raises(ValueError, match="attend_self: add_bias_kv or add_zero_attn, expected neither"):
            nn.MultiheadAttention(4, 2, add_zero_attn=True).attend_self(ternion.ones(1, 2, 4))


X = "ternion.ones(3, 4)"


@pytest.mark.parametrize("call, message", [
    (f"ternion.histogram({X}, -1)", "histogram: -1 intervals, expected at least 1"),
    (f"ternion.histogram({X}, 0)", "histogram: 0 intervals, expected at least 1"),
    (f"nn.functional.ctc_loss({X}[:, None], ternion.ones(1, 2, dtype='int64'), [3], [2], blank=-1)", "ctc_loss: blank -1, expected a class"),
    (f"nn.functional.multi_margin_loss({X}, ternion.zeros(3, dtype='int64'), p=-1)", "multi_margin_loss: p of -1, expected 1 or 2"),
    (f"ternion.gradient({X}, edge_order=-1)", "gradient: edge_order of -1, expected 1 or 2"),
])  # fmt: skip
def test_numbers_below_0_are_rejected_by_the_rule_of_the_function(call, message):
    with pytest.raises(ValueError) as raised:
        eval(call)
    assert str(raised.value) == message
