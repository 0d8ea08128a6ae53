"""What newcomers try first, and layers with empty inputs, each with its correct result."""

import math
import pickle
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import ternion
from ternion import models, nn
from ternion.utils.data import DataLoader, Dataset

F = nn.functional

# ---- Empty inputs: no examples, no sequence, no keys


def test_layers_of_no_examples():
    mha = nn.MultiheadAttention(4, 2, batch_first=True)
    for batch, length in ((0, 3), (2, 0), (0, 0)):
        x = ternion.zeros(batch, length, 4, requires_grad=True)
        for need in (True, False):
            output, weights = mha(x, x, x, need_weights=need)
            assert output.shape == (batch, length, 4) and (weights is None or weights.shape == (batch, length, length))
        output.sum().backward()
        assert x.grad.shape == x.shape and mha.in_proj_weight.grad.isfinite().all().item()
    output, _ = mha(ternion.zeros(2, 3, 4), ternion.zeros(2, 0, 4), ternion.zeros(2, 0, 4))
    assert output.tolist() == mha.out_proj.bias.expand(2, 3, 4).tolist()
    empty = ternion.zeros(0, 3, 4)
    assert nn.TransformerEncoderLayer(4, 2, 8, batch_first=True)(empty).shape == (0, 3, 4)
    assert nn.TransformerDecoderLayer(4, 2, 8, batch_first=True)(empty, ternion.zeros(0, 5, 4)).shape == (0, 3, 4)
    assert nn.TransformerBlock(4, 2)(empty).shape == (0, 3, 4)
    assert models.GPT(vocabulary=5, context=8, layers=1, heads=2, width=4)(ternion.zeros(0, 3, dtype=ternion.int64)).shape == (0, 3, 5)
    norms = [(nn.InstanceNorm1d(2), (0, 2, 4)), (nn.InstanceNorm2d(2), (0, 2, 4, 4)), (nn.GroupNorm(1, 2), (0, 2, 4)), (nn.BatchNorm1d(2), (0, 2))]
    for layer, shape in (*norms, (nn.LayerNorm(4), (0, 4))):
        assert layer(ternion.zeros(*shape)).shape == shape
    with pytest.raises(ValueError, match="more than 1 value in each channel"):
        nn.InstanceNorm1d(2)(ternion.zeros(3, 2, 1))
    assert F.pixel_shuffle(ternion.zeros(0, 4, 0, 2), 2).shape == (0, 1, 0, 4) and F.pixel_unshuffle(ternion.zeros(0, 1, 0, 2), 2).shape == (0, 4, 0, 1)
    assert F.bilinear(ternion.zeros(0, 3), ternion.zeros(0, 2), ternion.zeros(5, 3, 2)).shape == (0, 5)
    assert ternion.inner(ternion.zeros(2, 0), ternion.zeros(3, 0)).tolist() == [[0.0] * 3] * 2


# ---- A loader that waits for an item


class Slow(Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, index):
        if index >= 1:
            time.sleep(3)
        return index


def test_a_loader_does_not_wait_for_an_item_that_does_not_come():
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match="no batch after 0.3 seconds"):
        for _ in DataLoader(Slow(), num_workers=2, timeout=0.3):
            pass
    for batch in DataLoader(Slow(), num_workers=2):
        assert batch.tolist() == [0]
        break
    assert time.monotonic() - begun < 2


PROGRAM = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # Ignored in the background of a shell.
from ternion.utils.data import DataLoader, Dataset
class Slow(Dataset):
    def __len__(self): return 10
    def __getitem__(self, i):
        if i >= 1: time.sleep(60)
        return i
for batch in DataLoader(Slow(), num_workers=2): print(batch.item(), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals of Unix")
def test_an_interrupt_ends_a_loader_and_its_program():
    child = subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "0\n"
    begun = time.monotonic()
    child.send_signal(signal.SIGINT)
    _, stderr = child.communicate(timeout=20)
    assert "KeyboardInterrupt" in stderr and time.monotonic() - begun < 10


# ---- The oldest interface, and other kinds of labels


def points(count=200):
    labels = np.arange(count) % 3
    noise = np.random.default_rng(0).normal(size=(count, 4))
    return (np.eye(3, 4)[labels] * 4 + noise).astype(np.float32), labels


def test_the_oldest_interface(capsys):
    x, labels = points()
    network = models.NeuralNetwork(input_size=4, hidden_size=16, output_size=3, batch_size=16, random_state=1)
    assert network.fit(x, labels, epochs=20, validation_data=(x, labels)) is network
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 22 and lines[0].split("  ") == ["epoch", "loss", "accuracy", "validation loss", "validation accuracy", "seconds"]
    assert set(lines[1]) == {"-", " "} and lines[-1].split()[0] == "20" and float(lines[-1].split()[2]) == float(f"{network.evaluate(x, labels):.4f}")
    chances = network.predict(x)
    assert chances.shape == (200, 3) and np.allclose(chances.sum(1), 1, atol=1e-5)
    assert network.evaluate(x, labels) == (chances.argmax(1) == labels).mean() > 0.9 and (network.predict_classes(x) == chances.argmax(1)).all()
    network.fit(x, np.eye(3)[labels], epochs=2, verbose=False)
    assert capsys.readouterr().out == "" and network.evaluate(x, np.eye(3)[labels]) == network.evaluate(x, labels)
    assert models.NeuralNetwork().layers[0].weight.shape == (128, 784) and models.NeuralNetwork(4, 8, 3, 32).batch_size == 32
    with pytest.raises(ValueError, match="output_size 1"):
        models.NeuralNetwork(4, 8, 1)
    twin = pickle.loads(pickle.dumps(network))
    assert (twin.predict(x) == network.predict(x)).all()


@pytest.mark.parametrize("labels", [[1, 2, 10], [0, 2, 12], [-1, 0, 1], [0.0, 10.0], ["a", "b", "c"]])
def test_labels_of_the_oldest_interface_are_output_indices(labels):
    """For other labels, the probabilities would be at other indices than argmax returns, in rows
    shorter than output_size."""
    x, y = points(30)[0], np.array(labels)[np.arange(30) % len(labels)]
    network = models.NeuralNetwork(4, 8, 10, verbose=False)
    for call in (lambda: network.fit(x, y, epochs=1), lambda: network.fit(x, y.tolist(), epochs=1), lambda: network.partial_fit(x, y), lambda: network.partial_fit(x, y, classes=labels)):
        with pytest.raises(ValueError, match=f"y has the labels {labels[0]!r}, .*{labels[-1]!r}, expected integers 0 to 9, the indices of the 10 outputs"):
            call()
    # Labels that are output indices need not use all of them.
    chances = network.fit(x, np.array([0, 4, 9])[np.arange(30) % 3], epochs=30, learning_rate=0.02).predict(x)
    assert chances.shape == (30, 10) and set(chances.argmax(1).tolist()) == {0, 4, 9} == set(network.predict_classes(x).tolist())


def test_bools_are_labels_of_two_outputs():
    x, y = points(60)
    network = models.NeuralNetwork(4, 8, 2, verbose=False, random_state=0).fit(x, y > 0, epochs=40, learning_rate=0.02)
    assert network.predict(x).shape == (60, 2) and network.predict_classes(x).dtype == bool
    assert network.evaluate(x, y > 0) == ((network.predict(x).argmax(1) == 1) == (y > 0)).mean() > 0.9
    with pytest.raises(ValueError, match="y has the labels False, True, expected integers 0 to 9"):
        models.NeuralNetwork(4, 8, 10, verbose=False).fit(x, y > 0)


def test_rows_with_a_one_may_be_lists():
    x, labels = points()
    rows = np.eye(3)[labels]
    for kind in (models.MLP, models.NeuralNetwork):
        make = lambda: kind(4, 16, 3, random_state=1, verbose=False)  # noqa: B023, E731
        model, of_arrays = make().fit(x, rows.tolist(), epochs=5, validation_data=(x, rows.astype(int).tolist())), make().fit(x, rows, epochs=5)
        assert model.score(x, rows.tolist()) == of_arrays.score(x, labels) and (model.predict(x) == of_arrays.predict(x)).all()
    with pytest.raises(ValueError, match="y is not an array"):
        models.MLP(4, 16, 3).fit(x[:2], [[1, 0, 0], [0, 1]])


@pytest.mark.parametrize("kind", [np.float32, np.float64, np.int64, bool])
def test_rows_with_a_one_are_labels(kind):
    x, labels = points()
    model = models.MLP(4, 16, 3, random_state=1, verbose=False).fit(x, np.eye(3)[labels].astype(kind), epochs=20)
    assert model.classes_.tolist() == [0, 1, 2] and model.score(x, np.eye(3)[labels].astype(kind)) == model.score(x, labels) > 0.9
    assert (model.predict(x) == model.predict_proba(x).argmax(1)).all()
    numbers = models.MLP(4, 16, 3, task="regression", verbose=False).fit(x, np.eye(3, dtype=np.float32)[labels], epochs=1)
    assert numbers.predict(x).shape == (200, 3) and not hasattr(numbers, "classes_")


def test_a_small_table_is_learned_by_default(capsys):
    x, labels = points(150)
    model = models.MLP(4, 32, 3, random_state=0).fit(x, labels)
    assert model.n_iter_ == 200 and model.score(x, labels) > 0.95 and "epoch 200/200" in capsys.readouterr().err
    large = models.MLP(4, 2, 3, random_state=0, verbose=False).fit(np.tile(x, (300, 1)), np.tile(labels, 300))
    assert large.n_iter_ == 5


def test_nothing_is_printed_while_scikit_learn_calls(capsys):
    selection = pytest.importorskip("sklearn.model_selection")
    x, labels = points(150)
    assert selection.cross_val_score(models.MLP(4, 16, 3, random_state=0), x, labels, cv=3).mean() > 0.9
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


# ---- Metrics, and logging them


def test_measures_of_classes():
    scores = ternion.tensor([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3], [0.2, 0.3, 0.5], [0.6, 0.3, 0.1]])
    target = ternion.tensor([1, 0, 1, 2])
    measures = ternion.metrics
    assert measures.accuracy(scores, target) == measures.accuracy(scores.argmax(1), target.numpy()) == 0.5
    assert measures.accuracy(scores, target, top_k=2) == 0.75 and measures.accuracy(scores, target, top_k=3) == 1
    assert measures.confusion_matrix(scores, target).tolist() == [[1, 0, 0], [0, 1, 1], [1, 0, 0]]
    precision, recall, f1 = measures.precision_recall_f1(scores, target)
    assert precision == [0.5, 1.0, 0.0] and recall == [1.0, 0.5, 0.0] and np.allclose(f1, [2 / 3, 2 / 3, 0])
    assert math.isclose(measures.f1_score(scores, target), 4 / 9)
    assert measures.confusion_matrix([0], [1], 4).shape == (4, 4)
    for call in (
        lambda: measures.accuracy([[0], [1]], [0, 1]), lambda: measures.f1_score([[0.1], [0.9]], [0, 1]), lambda: measures.confusion_matrix([[0], [1]], [0, 1]),
        lambda: measures.accuracy([0.5], [1]), lambda: measures.accuracy([], []), lambda: measures.accuracy(scores, target, top_k=4),
        lambda: measures.confusion_matrix([-1], [0]),
    ):  # fmt: skip
        with pytest.raises(ValueError, match="expected"):
            call()


def test_measures_of_numbers():
    result, right = [1.0, 2.0, 4.0], [1.0, 3.0, 2.0]
    measures = ternion.metrics
    assert measures.mean_squared_error(result, right) == 5 / 3 and measures.mean_absolute_error(result, right) == 1 and measures.r2_score(result, right) == -1.5
    assert measures.r2_score([1.0, 1.0], [1.0, 1.0]) == 1 and measures.r2_score([1.0, 2.0], [1.0, 1.0]) == 0
    with pytest.raises(ValueError, match="one shape"):
        measures.r2_score([1.0], [[1.0]])


def test_a_writer_of_tensorboard(tmp_path):
    import struct

    from ternion.utils.tensorboard import SummaryWriter, _masked_crc

    # The CRC-32C of the nine digits (RFC 3720), masked as in TensorFlow.
    crc = 0xE3069283
    assert _masked_crc(b"123456789") == struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
    with SummaryWriter(tmp_path / "run") as writer:
        writer.add_scalar("loss", ternion.tensor(0.5), 3, walltime=1.0)
        writer.add_scalars("both", {"a": 1, "b": 1e300}, -1)
        with pytest.raises(TypeError, match="add_scalar: loss is of type list"):
            writer.add_scalar("loss", [1])
    with pytest.raises(ValueError, match="closed"):
        writer.add_scalar("loss", 1.0)
    SummaryWriter(tmp_path / "run", purge_step=4).close()
    files = sorted((tmp_path / "run").iterdir())
    assert len(files) == 2 and all("tfevents" in file.name for file in files)
    content, events = files[0].read_bytes(), []
    while content:
        (length,) = struct.unpack("<Q", content[:8])
        assert content[8:12] == _masked_crc(content[:8]) and content[12 + length : 16 + length] == _masked_crc(content[12 : 12 + length])
        events.append(content[12 : 12 + length])
        content = content[16 + length :]
    assert b"brain.Event:2" in events[0] and len(events) == 4
    assert events[1] == b"\x09" + struct.pack("<d", 1.0) + b"\x10\x03\x2a\x0d\x0a\x0b\x0a\x04loss\x15" + struct.pack("<f", 0.5)
    assert b"both/b\x15" + struct.pack("<f", math.inf) in events[3] and b"\x10" + b"\xff" * 9 + b"\x01" in events[3]
    board = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = board.EventAccumulator(str(tmp_path / "run"))
    read.Reload()
    assert [(event.step, event.value) for event in read.Scalars("loss")] == [(3, 0.5)]
