"""Data sets and tables: the same results as the Rust crates, and errors that name the cause."""

import numpy as np
import pytest

import ternion
from ternion import data


@pytest.fixture(scope="module")
def digits():
    return data.mnist((300, 100))


def test_splits(digits):
    assert (len(digits.train), len(digits.test), len(digits.classes)) == (300, 100, 10)
    assert "SYNTHETIC" in digits.origin.upper() or "drawn" in digits.origin.lower()
    images, labels = digits.train.images, digits.train.labels
    assert images.shape == (300, 1, 28, 28) and images.dtype is ternion.uint8
    assert labels.shape == (300,) and labels.dtype is ternion.int64 and 0 <= labels.min() and labels.max() < 10


def test_a_table_of_rows():
    table = data.Table(["a", "b"], np.array([[1.0, 2.0], [3.0, 4.0]]))
    assert len(table) == 2 and table.columns == ["a", "b"] and table.tensor().tolist() == [[1, 2], [3, 4]]
    for columns, rows, message in [
        (["a", "b"], [[1.0]], "table: row 0 has 1 numbers, expected 2"), (["a", "a"], [[1.0, 2.0]], "a"), (["a"], [], "holds 0 examples"),
        (["a"], [[float("nan")]], "NaN"),
    ]:  # fmt: skip
        with pytest.raises(ValueError, match=message):
            data.Table(columns, rows)


def test_batches(digits):
    batches = digits.train.batches(64)
    pairs = [(images, labels) for images, labels in batches]
    assert len(batches) == len(pairs) == 5 and [len(labels) for _, labels in pairs] == [64, 64, 64, 64, 44]
    images = ternion.cat([images for images, _ in pairs])
    np.testing.assert_allclose(images.numpy(), digits.train.images.numpy() / np.float32(255), atol=1e-6)
    assert ternion.cat([labels for _, labels in pairs]).equal(digits.train.labels)
    assert len(digits.train.batches(64, drop_last=True)) == 4


def test_orders_follow_seed_and_epoch(digits):
    def labels(batches):
        return ternion.cat([labels for _, labels in batches]).tolist()

    one, two = digits.train.batches(64, shuffle=1), digits.train.batches(64, shuffle=1, prefetch=2)
    first, second = labels(one), labels(one)
    assert first != second and sorted(first) == sorted(second) == sorted(digits.train.labels.tolist())
    assert labels(two) == first and labels(two.epoch(1)) == second
    assert labels(digits.train.batches(64, shuffle=2)) != first


def test_wrong_sources_and_sizes(digits):
    with pytest.raises(FileNotFoundError, match="no/such/folder"):
        data.mnist("no/such/folder")
    with pytest.raises(TypeError, match="expected \"auto\", \"synthetic\", a directory, or two numbers"):
        data.mnist(3)
    with pytest.raises(ValueError, match="batch size of 0"):
        digits.train.batches(0)
    with pytest.raises(ValueError, match="^batches: mean without std, expected both or none$"):
        digits.train.batches(2, mean=[0.5])
    with pytest.raises(ValueError, match="^batches: std without mean, expected both or none$"):
        digits.train.batches(2, std=[0.5])


def test_tables(tmp_path):
    file = tmp_path / "table.csv"
    rows = [[number, number * 2.5, -number] for number in range(20)]
    file.write_text("a,b,c\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    table = data.read_csv(file)
    assert len(table) == 20 and table.columns == ["a", "b", "c"] and repr(table) == "Table(20 rows: a, b, c)"
    np.testing.assert_allclose(table.tensor().numpy(), np.array(rows, np.float32))
    train, test = table.train_test_split(1)
    assert (len(train), len(test)) == (16, 4)
    scale = data.StandardScaler(table.select(["b"]))
    standard = scale.apply(table.select(["b"])).tensor()
    assert abs(standard.mean().item()) < 1e-6 and abs(standard.std(correction=0).item() - 1) < 1e-5
    np.testing.assert_allclose(scale.restore(standard).numpy()[:, 0], [row[1] for row in rows], rtol=1e-5, atol=1e-5)
    with pytest.raises(ValueError, match="d"):
        table.select(["d"])
    file.write_text("a,b\n1,2\n3,x\n")
    with pytest.raises(ValueError, match="table.csv: line 3"):
        data.read_csv(file)
    with pytest.raises(FileNotFoundError, match="missing.csv"):
        data.read_csv(tmp_path / "missing.csv")


def test_seeds_below_0_are_those_of_manual_seed(digits):
    table, windows = data.Table(["a"], [[float(row)] for row in range(20)]), data.Windows(ternion.arange(100), 5)
    drawn = {
        "train_test_split": lambda seed: table.train_test_split(seed)[0].tensor().flatten().tolist(),
        "random": lambda seed: next(windows.random(2, seed=seed))[0].tolist(),
        "order": lambda seed: digits.train.order(0, seed).tolist(),
        "batches": lambda seed: next(iter(digits.train.batches(20, shuffle=seed)))[1].tolist(),
    }
    for name, draw in drawn.items():
        # As in PyTorch, -1 is equivalent to 2**64 - 2.
        assert draw(-1) == draw(2**64 - 2) != draw(0)
        with pytest.raises(ValueError, match=rf"{name}: a seed of {2**64}, expected -2\*\*63 to 2\*\*64 - 1"):
            draw(2**64)
        with pytest.raises(TypeError, match=f"{name}: a seed of type str, expected an integer"):
            draw("a")


def test_numbers_below_0_are_rejected_by_name(digits):
    windows = data.Windows(ternion.arange(100), 5)
    calls = {
        "order": lambda: digits.train.order(-1, 0),
        "first": lambda: digits.train.first(-1),
        "batches": lambda: digits.train.batches(-1),
        "epoch": lambda: digits.train.batches(2).epoch(-1),
        "random": lambda: windows.random(-1, 0),
        "sequential": lambda: windows.sequential(-1),
        "position": lambda: setattr(windows.random(2, 0), "position", -1),
        "Windows": lambda: data.Windows(ternion.arange(9), -1),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match=f"{name}: a count of -1, expected 0 or more"):
            call()
    with pytest.raises(TypeError, match="Windows: expected a tensor, got list"):
        data.Windows([1, 2, 3], 5)
