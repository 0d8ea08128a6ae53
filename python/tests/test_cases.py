"""Cases from users' reports, each with its correct value."""

import copy
import errno
import math
import os
import pickle
import signal
import stat
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import ternion
from ternion import data, models, nn, optim
from ternion.utils.data import DataLoader, Dataset

F = nn.functional

# ---- Norms and standard deviations whose squares overflow or underflow float32


@pytest.mark.parametrize("size", [1e18, 1e20, 1e30, 1e38, 1e-18, 1e-23, 1e-30, 1e-38])
def test_lengths_and_deviations_over_the_whole_range(size):
    x = ternion.tensor([size, -size], requires_grad=True)
    want = size * math.sqrt(2)
    for actual in (x.std(), x.norm(), x.norm(2, 0), F.pairwise_distance(x, ternion.zeros(2), eps=0.0), ternion.dist(x, ternion.zeros(2))):
        assert math.isclose(actual.item(), want, rel_tol=1e-6), actual
    assert math.isclose(x.std(0, correction=0).item(), size, rel_tol=1e-6)
    (grad,) = ternion.autograd.grad(x.std(), x)
    assert np.allclose(grad.tolist(), [math.sqrt(0.5), -math.sqrt(0.5)], rtol=1e-5)
    if size > 1e-8:
        assert np.allclose(F.normalize(x, dim=0).tolist(), [math.sqrt(0.5), -math.sqrt(0.5)], rtol=1e-5)
        assert math.isclose(F.cosine_similarity(x, x, dim=0).item(), 1.0, rel_tol=1e-5)
        F.normalize(x, dim=0)[0].backward()
        assert np.allclose(np.array(x.grad.tolist()) * size, [math.sqrt(0.125), math.sqrt(0.125)], rtol=1e-4)


@pytest.mark.parametrize("size", [1e20, 1e30, 1e-25])
def test_gradients_are_clipped_over_the_whole_range(size):
    for order in (2.0, 3.0):
        p = nn.Parameter(ternion.zeros(2))
        p.grad = ternion.full((2,), size)
        norm = nn.utils.clip_grad_norm_([p], size / 2, norm_type=order)
        assert math.isclose(norm.item(), size * 2 ** (1 / order), rel_tol=1e-5)
        # PyTorch adds 1e-6 to the norm.
        want = size * min(1.0, size / 2 / (size * 2 ** (1 / order) + 1e-6))
        # Subnormal numbers have fewer digits.
        assert np.allclose(p.grad.tolist(), [want, want], rtol=1e-5, atol=1e-44)
    p, q = nn.Parameter(ternion.zeros(2)), nn.Parameter(ternion.zeros(1))
    p.grad, q.grad = ternion.full((2,), 1e30), ternion.full((1,), 1e30)
    assert math.isclose(nn.utils.clip_grad_norm_([p, q], 1.0).item(), math.sqrt(3) * 1e30, rel_tol=1e-6)
    assert np.allclose([*p.grad.tolist(), *q.grad.tolist()], [math.sqrt(1 / 3)] * 3, rtol=1e-5)


@pytest.mark.parametrize("dtype", [ternion.float16, ternion.bfloat16])
def test_half_precision_is_summed_in_float32(dtype):
    x = ternion.tensor([[10.0, -20.0, 30.0]], dtype=dtype)
    powers = (10.0**4 + 20.0**4 + 30.0**4) ** 0.25
    assert np.allclose(F.normalize(x, p=4).tolist(), [[10 / powers, -20 / powers, 30 / powers]], rtol=1e-2)
    assert math.isclose(x.norm(4).item(), powers, rel_tol=1e-2) and math.isclose(ternion.dist(x, x * 0, 4).item(), powers, rel_tol=1e-2)
    assert math.isclose(F.pairwise_distance(x, x * 0, 4).item(), powers, rel_tol=1e-2)
    large = ternion.full((1, 4), 6e4, dtype=dtype)
    assert F.cosine_similarity(large, large).item() == 1 and F.normalize(large).tolist() == [[0.5] * 4]
    assert ternion.full((2,), 1e4, dtype=dtype).norm(3).item() == pytest.approx(1e4 * 2 ** (1 / 3), rel=1e-2)


@pytest.mark.parametrize("order", [-3.0, -1.0, 0.5, 1.5, 3.0, 7.0])
def test_norms_of_other_orders_over_the_whole_range(order):
    values = np.array([3.0, -4.0, 12.0, 0.5])
    for size in (1.0, 1e30, 1e-30):
        x = ternion.tensor((values * size).tolist(), requires_grad=True)
        want = (np.abs(values) ** order).sum() ** (1 / order)
        assert math.isclose(x.norm(order).item() / size, want, rel_tol=1e-5)
        (grad,) = ternion.autograd.grad(x.norm(order), x)
        assert np.allclose(grad.tolist(), np.sign(values) * (np.abs(values) / want) ** (order - 1), rtol=1e-4)
    assert ternion.tensor([0.0, 0.0]).norm(order).item() == 0 and math.isinf(ternion.tensor([1.0, math.inf]).norm(3).item())


# ---- Tables


def csv(folder, text, **options):
    file = folder / "t.csv"
    file.write_text(text)
    return data.read_csv(file, **options)


def test_numbers_of_a_table_do_not_become_others(tmp_path):
    table = csv(tmp_path, "time,id,huge\n1700000001,16777217,1e39\n1700000002,16777216,1e38\n")
    with pytest.raises(ValueError, match=r"t.csv: line 3, column 1 \(time\): 1700000002 becomes infinite, 0 or equal to another number"):
        table.tensor()
    with pytest.raises(ValueError, match=r"line 2, column 1 \(huge\): 1000000000000000000000000000000000000000 becomes"):
        table.select(["huge"]).tensor()
    exact = table.tensor(dtype="float64")
    assert exact.dtype is ternion.float64 and exact.tolist() == [[1700000001, 16777217, 1e39], [1700000002, 16777216, 1e38]]
    with pytest.raises(ValueError, match="infinite"):
        csv(tmp_path, "a\n70000\n").tensor(dtype=ternion.float16)
    with pytest.raises((TypeError, ValueError), match="floating"):
        table.tensor(dtype=ternion.int64)
    assert csv(tmp_path, "a\n1e99\n").tensor(dtype="float64").item() == 1e99
    # Digits after the point are rounded, as everywhere.
    assert csv(tmp_path, "a\n0.1\n0.10000000001\n16777216\n33554433\n").tensor().shape == (4, 1)
    times = table.select(["time"])
    scale = data.StandardScaler(times)
    assert scale.restore(scale.apply(times).tensor(dtype="float64")).tolist() == [[1700000001], [1700000002]]
    with pytest.raises(ValueError, match="column time of mean 1700000001.5 .*float64"):
        scale.restore(scale.apply(times).tensor())


@pytest.mark.parametrize("size", [1e-300, 1e-200, 1e200, 1.7e308])
def test_columns_whose_squares_overflow_or_vanish_are_standardised(size):
    table = data.Table(["a"], [[size], [-size], [size], [-size]])
    scale = data.StandardScaler(table)
    assert scale.stds == pytest.approx([size], rel=1e-15) and abs(scale.means[0]) <= size * 1e-15
    assert scale.apply(table).tensor().tolist() == [[1], [-1], [1], [-1]]
    assert scale.restore(scale.apply(table).tensor(dtype="float64")).tolist() == [[size], [-size], [size], [-size]]


def test_what_a_csv_file_looks_like(tmp_path):
    for first in ("1,2,3", "-1.5,1e3,nan", "inf,-inf,nan"):
        with pytest.raises(ValueError, match="line 1, column 1 .*the header is a line of numbers"):
            csv(tmp_path, f"{first}\n3,4,5\n")
        numbers = first.replace("nan", "0").replace("inf", "9")
        assert csv(tmp_path, f"{numbers}\n3,4,5\n", names=["a", "b", "c"]).tensor().shape == (2, 3)
    assert csv(tmp_path, "1;2\n3;4\n", delimiter=";", names=["a", "b"]).tensor().tolist() == [[1, 2], [3, 4]]
    texts = "name,x,y\nAda,1,2\nBob,,4\nEve,5,6\n"
    assert csv(tmp_path, texts, columns=["y"]).tensor().tolist() == [[2], [4], [6]]
    with pytest.raises(ValueError, match=r"line 3, column 2 \(x\): expected a number, found an empty cell"):
        csv(tmp_path, texts, columns=["x", "y"])
    assert csv(tmp_path, texts, columns=["x", "y"], missing="drop").tensor().tolist() == [[1, 2], [5, 6]]
    assert csv(tmp_path, texts, columns=["x", "y"], missing=-1).tensor().tolist() == [[1, 2], [-1, 4], [5, 6]]
    for missing in ("mean", math.nan):
        with pytest.raises(ValueError, match="missing .*expected a finite number"):
            csv(tmp_path, texts, columns=["x"], missing=missing)


def test_copies_for_other_processes(tmp_path):
    table = csv(tmp_path, "a,b\n1,2\n3,5\n")
    scale = data.StandardScaler(table)
    for copied in (lambda value: pickle.loads(pickle.dumps(value)), copy.deepcopy):
        assert copied(table).columns == ["a", "b"] and copied(table).tensor().tolist() == table.tensor().tolist()
        assert copied(scale).means == scale.means and copied(scale).stds == scale.stds
        words = copied(data.CharVocabulary("hello"))
        assert words.characters == "ehlo" and words.encode("hole").tolist() == data.CharVocabulary("hello").encode("hole").tolist()
        generator = ternion.Generator().manual_seed(7)
        ternion.rand(5, generator=generator)
        twin = copied(generator)
        assert twin.get_state() == generator.get_state() and ternion.rand(3, generator=twin).tolist() == ternion.rand(3, generator=generator).tolist()
    vocabulary, merges = tmp_path / "vocab.json", tmp_path / "merges.txt"
    import json

    base = {chr(code): number for number, code in enumerate([*range(33, 127), *range(161, 173), *range(174, 256), *range(256, 324)])}
    vocabulary.write_text(json.dumps(base))
    merges.write_text("#version: 0.2\n")
    tokenizer = data.BpeTokenizer(vocabulary, merges)
    assert pickle.loads(pickle.dumps(tokenizer)).encode("ab").tolist() == tokenizer.encode("ab").tolist()


# ---- Arrays


class Picture:
    """The array interface of PIL images."""

    __array_interface__ = {"shape": (1, 2, 3), "typestr": "|u1", "data": bytes(range(6)), "version": 3}


def test_objects_that_numpy_takes():
    for create in (ternion.tensor, ternion.as_tensor):
        assert create(Picture()).tolist() == [[[0, 1, 2], [3, 4, 5]]] and create(Picture()).dtype is ternion.uint8
    table = np.arange(6).reshape(3, 2)
    assert table[ternion.tensor([1])].tolist() == [[2, 3]] and table[ternion.tensor([1, 2])].shape == (2, 2)
    assert table[ternion.tensor(1)].tolist() == [2, 3] and [7, 8, 9][ternion.tensor(1)] == 8
    assert np.ones(1)[ternion.tensor([False])].tolist() == [] and np.ones(1)[ternion.tensor([True])].tolist() == [1.0]
    with pytest.raises(TypeError, match=r"integers without axes is an index, got one of int64 and shape \[1\]"):
        [7, 8, 9][ternion.tensor([1])]


# ---- Checkpoints


def test_running_statistics_move_once_in_a_checkpoint():
    x = ternion.arange(8.0).reshape(8, 1)
    result = []
    for segment in (lambda norm, x: norm(x), ternion.checkpoint):
        norm = nn.BatchNorm1d(1)
        segment(norm, x.clone().requires_grad_()).square().sum().backward()
        result.append((norm.running_mean.item(), norm.running_var.item(), norm.num_batches_tracked.item(), norm.weight.grad.item()))
    assert result[0] == result[1] and result[0][2] == 1


# ---- Robustness


def test_memory_that_a_number_asks_for():
    with pytest.raises(MemoryError):
        F.sinusoidal(2**40, 4)
    with pytest.raises(MemoryError):
        F.sinusoidal(3, 2**62)
    with pytest.raises(ValueError, match="sinusoidal: a table of 8 positions and 4611686018427387904 columns is too large"):
        F.sinusoidal(8, 2**62)
    with pytest.raises(ValueError, match="sinusoidal: a count of -1, expected 0 or more"):
        F.sinusoidal(-1, 2)
    with pytest.raises(MemoryError):
        nn.Rotary(2**40, 4)(ternion.ones(1, 4))


def test_a_saved_device_that_is_not_available(tmp_path):
    file = tmp_path / "state"
    ternion.save(file, {"w": ternion.ones(2), "device": ternion.device("cpu")})
    content = file.read_bytes().replace(b'{\\"device\\": \\"cpu\\"}', b'{\\"device\\": \\"xpu\\"}')
    assert b"xpu" in content
    file.write_bytes(content)
    with pytest.raises(OSError, match=r"^[^:]*: the device xpu is not available: map_location"):
        ternion.load(file)
    result = ternion.load(file, map_location="cpu")
    assert result["device"] == ternion.device("cpu") and result["w"].tolist() == [1, 1]


def test_a_save_keeps_permissions_and_clears_what_killed_ones_left(tmp_path):
    file = tmp_path / "w"
    ternion.save(file, {"w": ternion.ones(2)})
    file.chmod(0o600)
    left = [tmp_path / f".w.{number}.0.tmp" for number in (1, 999999999)]
    others = [tmp_path / name for name in (".w.x.0.tmp", ".v.1.0.tmp", ".w.1.tmp", "w.1.0.tmp")]
    for path in (*left, *others):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - 60,) * 2)
    fresh = tmp_path / ".w.2.0.tmp"
    fresh.write_bytes(b"another process")
    ternion.save(file, {"w": ternion.zeros(2)})
    if os.name == "posix":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not any(path.exists() for path in left) and all(path.exists() for path in (*others, fresh))
    assert ternion.load(file)["w"].tolist() == [0, 0]


def test_a_key_that_the_format_takes(tmp_path):
    with pytest.raises(ValueError, match="__metadata__"):
        ternion.save(tmp_path / "w", {"__metadata__": ternion.ones(1)})
    assert not (tmp_path / "w").exists()


@pytest.mark.skipif(os.name != "posix", reason="files of Unix")
def test_errors_of_files_have_numbers(tmp_path):
    with pytest.raises(FileNotFoundError) as absent:
        ternion.load(tmp_path / "none")
    assert absent.value.errno == errno.ENOENT and absent.value.filename == str(tmp_path / "none")
    assert str(absent.value) == f"[Errno 2] cannot be read: No such file or directory: {str(tmp_path / 'none')!r}"
    loop = tmp_path / "loop"
    loop.symlink_to(loop)
    with pytest.raises(OSError) as circle:
        ternion.load(loop)
    assert circle.value.errno == errno.ELOOP and not isinstance(circle.value, FileNotFoundError)
    with pytest.raises(IsADirectoryError):
        ternion.load(tmp_path)
    with pytest.raises(FileNotFoundError) as table:
        data.read_csv(tmp_path / "none.csv")
    assert (table.value.errno, table.value.filename) == (errno.ENOENT, str(tmp_path / "none.csv"))
    with pytest.raises(NotADirectoryError):
        ternion.save(tmp_path / "f" / "w", {"w": ternion.ones(1)}) if (tmp_path / "f").write_text("") == 0 else None
    with pytest.raises((OSError, ValueError)) as nul:
        ternion.load("a\0b")
    assert not isinstance(nul.value, FileNotFoundError)


def safetensors(file, header, size):
    import json

    text = json.dumps(header).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + bytes(size))


def test_tensors_that_are_none_here(tmp_path):
    file = tmp_path / "w.safetensors"
    safetensors(file, {"a": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}, "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}}, 4)
    # An unknown dtype, as in a file written by a newer version.
    safetensors(tmp_path / "younger", {"a": {"dtype": "NEW9", "shape": [5, 7], "data_offsets": [0, 2]}, "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}}, 4)
    with pytest.warns(UserWarning, match="younger: left out, as there are no tensors of these dtypes: a NEW9"):
        assert list(ternion.load(tmp_path / "younger")) == ["b"]
    safetensors(tmp_path / "gap", {"a": {"dtype": "NEW9", "shape": [2], "data_offsets": [0, 1]}, "b": {"dtype": "U8", "shape": [2], "data_offsets": [2, 4]}}, 4)
    with pytest.raises(OSError, match="gap: corrupt safetensors header"):
        ternion.load(tmp_path / "gap")
    with pytest.warns(UserWarning, match="w.safetensors: left out, as there are no tensors of these dtypes: a F8_E4M3"):
        assert list(ternion.load(file)) == ["b"]
    safetensors(file, {"deep": {"dtype": "U8", "shape": [1] * 9, "data_offsets": [0, 1]}}, 1)
    with pytest.raises(OSError, match="w.safetensors: tensor deep: "):
        ternion.load(file)


def test_files_of_other_formats_are_named(tmp_path):
    file = tmp_path / "w"
    np.save(tmp_path / "a.npy", np.ones(2))
    np.savez(tmp_path / "a.npz", a=np.ones(2))
    for content, message in [
        ((tmp_path / "a.npy").read_bytes(), "an array of NumPy"), ((tmp_path / "a.npz").read_bytes(), "npz"),
        (b"\x89HDF\r\n\x1a\n" + bytes(64), "HDF5"), (b"GGUF" + bytes(64), "GGUF"), (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "Git LFS"),
    ]:  # fmt: skip
        file.write_bytes(content)
        with pytest.raises(OSError, match=message):
            ternion.load(file)


READERS = {
    "load": "ternion.load(pipe)", "read_text": "ternion.data.read_text(pipe)", "read_csv": "ternion.data.read_csv(pipe)",
    "BpeTokenizer": "ternion.data.BpeTokenizer(pipe, pipe)", "from_gpt2": "ternion.models.GPT.from_gpt2(pipe)", "Checkpoint": "ternion.train.Checkpoint(pipe)",
    "resume": "ternion.train.TrainingState().model('model', ternion.nn.Linear(2, 2)).resume(pipe)",
}  # fmt: skip


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes of Unix")
@pytest.mark.parametrize("name", READERS)
def test_an_interrupt_ends_a_read_that_waits(tmp_path, name):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    # Background processes of a shell ignore Ctrl-C.
    program = f"""
import signal, ternion
signal.signal(signal.SIGINT, signal.default_int_handler)
pipe = {str(pipe)!r}
print('ready', flush=True)
{READERS[name]}
"""
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.5)
    child.send_signal(signal.SIGINT)
    try:
        _, stderr = child.communicate(timeout=20)
    finally:
        child.kill()
    assert "KeyboardInterrupt" in stderr


def test_numbers_out_of_range_are_reported_in_the_name_of_the_function():
    x = ternion.randn(3, 4)
    calls = [
        lambda: F.cross_entropy(x, ternion.tensor([0, 1, 2]), ignore_index=2**63), lambda: x.round(decimals=400),
        lambda: nn.init.kaiming_normal_(ternion.empty(3, 3), a=1e300), lambda: nn.init.dirac_(ternion.empty(3, 3, 3), 0), lambda: nn.Bilinear(0, 3, 1),
        lambda: F.pixel_shuffle(ternion.ones(3), 2), lambda: F.pixel_unshuffle(ternion.ones(3), 2), lambda: ternion.rot90(x, 1, (0,)),
        lambda: ternion.tensordot(x, x, ((0,),)),
    ]  # fmt: skip
    names = ["cross_entropy", "round", "kaiming_normal_", "dirac_", "Bilinear", "pixel_shuffle", "pixel_unshuffle", "rot90", "tensordot"]
    for call, name in zip(calls, names):
        with pytest.raises(ValueError, match=rf"^{name}: ") as error:
            call()
        assert "unpack" not in str(error.value) and "expected" in str(error.value) or name == "cross_entropy", error.value


def test_messages_have_an_end():
    x = ternion.randn(3, 4)
    for call in (
        lambda: F.cross_entropy(x, ternion.tensor([0, 1, 2]), reduction="x" * 100_000), lambda: ternion.device("x" * 100_000),
        lambda: ternion.zeros(3, dtype="x" * 100_000), lambda: ternion.einsum("a" * 100_000, x), lambda: x + 10**10_000,
    ):  # fmt: skip
        with pytest.raises((ValueError, TypeError, RuntimeError)) as error:
            call()
        assert len(str(error.value)) < 5000


def test_generators_draw_while_another_thread_records():
    model = nn.Linear(4, 4)
    sgd = optim.SGD(model.parameters(), lr=0.01)
    x, result, failed = ternion.randn(2, 4), [], []
    stop = threading.Event()

    def draw():
        generator = ternion.Generator().manual_seed(3)
        while not stop.is_set():
            try:
                result.append(ternion.rand(4, generator=generator).sum().item())
            except Exception as error:  # noqa: BLE001
                failed.append(error)
                return

    def step():
        sgd.zero_grad()
        loss = F.dropout(model(x), 0.5).square().mean()
        loss.backward()
        sgd.step()
        time.sleep(0.2)
        return loss

    step()
    thread = threading.Thread(target=draw)
    thread.start()
    captured = ternion.capture(step)
    captured.replay() if hasattr(captured, "replay") else captured()
    stop.set()
    thread.join()
    assert result and not failed, failed


# ---- Warnings for settings without effect


def test_words_for_settings_that_do_nothing():
    with pytest.warns(UserWarning, match=r"LSTM: dropout=0.5 of one layer drops nothing"):
        nn.LSTM(3, 4, dropout=0.5)
    clippings = {"clip_grad_norm_": (1.0,), "clip_grad_value_": (1.0,), "get_total_norm": (), "clip_grads_with_norm_": (1.0, ternion.tensor(2.0))}
    for name, arguments in clippings.items():
        parameters = nn.Linear(3, 2).parameters()
        list(parameters)
        with pytest.warns(UserWarning, match=f"{name}: an iterator without tensors"):
            getattr(nn.utils, name)(parameters, *arguments)
    with pytest.warns(UserWarning, match=r"Linear.requires_grad = False sets an attribute that nothing reads: requires_grad_\(False\)"):
        nn.Linear(3, 2).requires_grad = False


def test_classes_may_be_bytes():
    x, classes = ternion.tensor([[0.0, 0, 0], [-1, -2, -4]]), ternion.tensor([1, 2], dtype=ternion.uint8)
    assert F.nll_loss(x, classes).item() == 2.0 and nn.NLLLoss(reduction="none")(x, classes).tolist() == [0.0, 4.0]
    assert F.cross_entropy(x[:1], classes[:1]).item() == nn.CrossEntropyLoss(ignore_index=2)(x, classes).item() == pytest.approx(math.log(3))
    assert F.nll_loss(ternion.arange(512.0).reshape(2, 256), ternion.tensor([255, 128], dtype=ternion.uint8)).item() == -(255 + 384) / 2
    with pytest.raises(IndexError, match="cross_entropy: "):
        F.cross_entropy(x, classes + 1)
    with pytest.raises(TypeError, match="nll_loss: target is int16, expected int32 or int64"):
        F.nll_loss(x, classes.short())


def test_targets_of_another_kind_are_reported():
    x = ternion.randn(3, 4)
    with pytest.raises(ValueError, match=r"cross_entropy: target has shape \[3\].*target.long\(\)"):
        F.cross_entropy(x, ternion.tensor([0.0, 1.0, 2.0]))
    with pytest.raises(TypeError, match=r"binary_cross_entropy: target is bool, expected a floating dtype: target.float\(\)"):
        F.binary_cross_entropy(x.sigmoid(), x > 0)
    with pytest.raises(TypeError, match=r"format .\.1f. of a tensor of shape \[1\], expected one without axes: item\(\)"):
        f"{ternion.tensor([1.5]):.1f}"
    assert f"{ternion.tensor(1.55):.1f}" == "1.5" or f"{ternion.tensor(1.55):.1f}" == "1.6"


# ---- Data sets in other file layouts


def idx(file, array):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(bytes([0, 0, 8, array.ndim]) + b"".join(size.to_bytes(4, "big") for size in array.shape) + array.astype(np.uint8).tobytes())


@pytest.mark.parametrize("form", ["MNIST/raw/{}-idx{}-ubyte", "raw/{}-idx{}-ubyte", "{}.idx{}-ubyte", "mnist/{}.idx{}-ubyte"])
def test_mnist_in_the_folders_of_others(tmp_path, form):
    for part in ("train", "t10k"):
        idx(tmp_path / form.format(f"{part}-images", 3), np.full((2, 28, 28), 7))
        idx(tmp_path / form.format(f"{part}-labels", 1), np.array([3, 9]))
    result = data.mnist(tmp_path)
    assert result.train.labels.tolist() == [3, 9] and result.test.images.shape == (2, 1, 28, 28)


def emnist(folder, size, labels):
    for part in ("train", "t10k"):
        idx(folder / f"{part}-images-idx3-ubyte", np.full((len(labels), size, size), 7))
        idx(folder / f"{part}-labels-idx1-ubyte", np.array(labels))


@pytest.mark.parametrize(("size", "count"), [(32, 26), (16, 47), (28, 62), (28, 5)])
def test_the_files_of_mnist_tell_sizes_and_classes(tmp_path, size, count):
    emnist(tmp_path, size, [0, count - 1])
    result = data.mnist(tmp_path)
    assert result.train.images.shape == result.test.images.shape == (2, 1, size, size)
    assert len(result.classes) == count and result.classes[-1] == str(count - 1)
    assert data.mnist(tmp_path, classes=100).classes == [str(number) for number in range(100)]
    for classes in (2, 0, True, 2.5):
        with pytest.raises(ValueError, match="classes"):
            data.mnist(tmp_path, classes=classes)


def test_the_only_data_set_of_torchvision_is_taken(tmp_path, capfd):
    emnist(tmp_path / "FashionMNIST/raw", 28, [0, 9])
    result = data.mnist(tmp_path)
    assert result.classes[9] == "Ankle boot" and "FashionMNIST" in result.origin and "FashionMNIST" in capfd.readouterr().err
    emnist(tmp_path / "KMNIST/raw", 28, [0, 9])
    with pytest.raises(FileNotFoundError, match=r"no complete MNIST here.*FashionMNIST.raw, .*KMNIST.raw"):
        data.mnist(tmp_path)


def test_cifar_of_python(tmp_path):
    folder = tmp_path / "cifar-10-batches-py"
    folder.mkdir()
    for number, name in enumerate([*(f"data_batch_{number}" for number in range(1, 6)), "test_batch"]):
        batch = {b"data": np.full((2, 3072), number, np.uint8), b"labels": [number, 9], b"batch_label": b"x", b"filenames": [b"a", b"b"]}
        (folder / name).write_bytes(pickle.dumps(batch, protocol=2))
    for source in (tmp_path, folder, str(folder)):
        result = data.cifar10(source)
        assert result.train.labels.tolist() == [0, 9, 1, 9, 2, 9, 3, 9, 4, 9] and result.test.images.shape == (2, 3, 32, 32)
        assert result.test.images.float().mean().item() == 5 and str(folder) in result.origin

    class Runs:
        def __reduce__(self):
            return os.system, ("false",)

    (folder / "test_batch").write_bytes(pickle.dumps({b"data": Runs(), b"labels": []}))
    with pytest.raises(ValueError, match="test_batch: no batch of CIFAR-10: .*system in it, expected only images and labels"):
        data.cifar10(tmp_path)
