"""The models with scikit-learn's conventions, and the example programs."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import ternion
from ternion import models

EXAMPLES = Path(__file__).parents[1] / "examples"


def spirals(count):
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 3, count)
    radius = rng.uniform(0.1, 1, count)
    angle = 4 * radius + 2 * np.pi / 3 * labels + rng.normal(0, 0.1, count)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle)], 1), labels


def test_a_classifier():
    X, y = spirals(600)
    model = models.MLP(2, 64, 64, 3)
    assert model.fit(X[:500], y[:500], epochs=60, batch_size=50, learning_rate=1e-2, validation_data=(X[500:], y[500:]), verbose=False) is model
    assert model.score(X[500:], y[500:]) > 0.9
    assert len(model.history["loss"]) == len(model.history["validation accuracy"]) == 60
    result = model.predict(X[500:])
    assert result.shape == (100,) and (result == y[500:]).mean() > 0.9
    np.testing.assert_allclose(model.predict_proba(X).sum(1), 1, atol=1e-5)


def test_a_regression():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(400, 3)).astype(np.float32)
    y = X @ [1.0, -2.0, 0.5] + 3
    model = models.MLP(3, 32, 1).fit(X[:300], y[:300], epochs=60, learning_rate=1e-2, verbose=False, seed=1)
    assert model.evaluate(X[300:], y[300:])["r2"] > 0.98
    assert model.predict(X[300:]).shape == (100,)


def test_seeds_repeat_a_training():
    X, y = spirals(100)

    def trained():
        ternion.manual_seed(3)
        return models.MLP(2, 8, 3).fit(X, y, epochs=2, verbose=False, seed=4).predict_proba(X)

    np.testing.assert_array_equal(trained(), trained())


def test_what_is_reported_and_rejected(capsys):
    X, y = spirals(60)
    model = models.MLP(2, 4, 3).fit(X, y, epochs=2, validation_data=(X, y))
    lines = capsys.readouterr().err.replace("\r", "").splitlines()
    assert len(lines) == 2 and lines[1].startswith("epoch 2/2  loss ") and "validation accuracy" in lines[1]
    with pytest.raises(ValueError, match="60 examples and 59 targets"):
        model.fit(X, y[:59])
    with pytest.raises(ValueError, match="MLP: widths \\(3,\\)"):
        models.MLP(3)
    with pytest.raises(ValueError, match="this MLP instance is not fitted yet"):
        models.MLP(2, 3).predict(X)


def example(name, *arguments):
    environment = {**os.environ, "TERNION_OFFLINE": "1"}
    command = [sys.executable, EXAMPLES / name, "--device", "cpu", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_mnist_learns(tmp_path):
    printed = example("mnist.py", "--data", "synthetic", "--limit", 3000, "--epochs", 5, "--json", tmp_path / "r.json")
    assert "epoch 5/5" in printed and "test accuracy" in printed
    assert json.loads((tmp_path / "r.json").read_text())["test_accuracy"] > 0.8


def test_housing_learns(tmp_path):
    rng = np.random.default_rng(3)
    rows = rng.uniform(-1, 1, (400, 2))
    lines = "".join(f"{a},{b},{3 * a - b * b}\n" for a, b in rows)
    (tmp_path / "prices.csv").write_text("a,b,price\n" + lines)
    arguments = ["--data", tmp_path / "prices.csv", "--target", "price", "--hidden", 32, "--epochs", 60, "--batch", 32]
    printed = example("housing.py", *arguments, "--json", tmp_path / "r.json")
    assert re.search(r"first \(Linear\) +output", printed) and printed.count("weight.grad") == 3 and printed.count("predicted ") == 5
    assert json.loads((tmp_path / "r.json").read_text())["test_r2"] > 0.9


def test_housing_needs_nothing(tmp_path):
    printed = example("housing.py", "--epochs", 12, "--json", tmp_path / "r.json")
    assert "synthetic" in printed and json.loads((tmp_path / "r.json").read_text())["test_r2"] > 0.9


@pytest.mark.parametrize(
    "name, arguments, message",
    [
        ("housing.py", ["--data", "/nowhere.csv"], "housing: .*/nowhere.csv"),
        ("housing.py", ["--target", "price"], "housing: --target price: no such column; there are MedInc"),
        ("mnist.py", ["--data", "/nowhere"], "mnist: /nowhere: no complete MNIST here"),
        ("mnist.py", ["--batch", "0"], "argument --batch: 0, expected an integer above 0"),
        ("tiny_gpt.py", ["--text", "/nowhere.txt"], r"tiny_gpt: \[Errno 2\] .*/nowhere.txt"),
    ],
)
def test_examples_tell_what_is_wrong_without_a_traceback(name, arguments, message):
    command = [sys.executable, EXAMPLES / name, "--device", "cpu", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "Traceback" not in done.stderr
    assert re.search(message, done.stderr), done.stderr


def test_tiny_gpt_learns_writes_and_loads(tmp_path):
    (tmp_path / "text.txt").write_text("the dog runs. the cat sits. " * 100)
    sizes = ["--layers", 1, "--heads", 2, "--width", 32, "--context", 16, "--batch", 8]
    learning = ["--text", tmp_path / "text.txt", "--steps", 150, "--eval-every", 100, "--save", tmp_path / "w.st", "--json", tmp_path / "r.json"]
    printed = example("tiny_gpt.py", *sizes, *learning)
    assert "step 100  loss " in printed
    results = json.loads((tmp_path / "r.json").read_text())
    # The results of the Rust example with the same text and options.
    assert results["steps"] == 150
    assert results["train_loss"] == pytest.approx(0.25398, rel=1e-3) and results["validation_loss"] == pytest.approx(0.17596, rel=1e-3)
    writing = ["--load", tmp_path / "w.st", "--generate", "the ", "--tokens", 30, "--temperature", 0, "--json", tmp_path / "g.json"]
    assert "the " in example("tiny_gpt.py", *writing)
    written = json.loads((tmp_path / "g.json").read_text())["generation"]
    assert len(written["tokens"]) == 30 and written["text"][:3] in ("dog", "cat")


def test_weights_come_from_pytorch(tmp_path):
    pytest.importorskip("safetensors.torch")
    arguments = ["--data", "synthetic", "--limit", 300, "--steps", 40, "--json", tmp_path / "r.json", "--weights", tmp_path / "w.safetensors"]
    printed = example("from_pytorch.py", *arguments)
    results = json.loads((tmp_path / "r.json").read_text())
    assert "largest difference of the logits" in printed and results["difference"] < 1e-4
    assert results["accuracies"][0] == results["accuracies"][1] > 0.3
    assert ternion.load(tmp_path / "w.safetensors")["0.weight"].shape == (8, 1, 3, 3)


def test_without_pytorch_it_says_what_is_missing(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('no torch here')\n")
    (tmp_path / "safetensors").mkdir()
    (tmp_path / "safetensors" / "__init__.py").write_text("")
    (tmp_path / "safetensors" / "torch.py").write_text("import torch\n")
    command = [sys.executable, EXAMPLES / "from_pytorch.py", "--device", "cpu"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 1 and "Traceback" not in done.stderr
    assert "from_pytorch needs PyTorch and safetensors (pip install torch safetensors): no torch here" in done.stderr
