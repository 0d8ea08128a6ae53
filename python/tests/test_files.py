"""State dicts on disk: written files can be read by Ternion and by PyTorch's safetensors, and
corrupt files are reported."""

import io
import os

import numpy as np
import pytest

import ternion
from ternion import nn

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]


def of_every_dtype():
    values = ternion.tensor([[0.0, 1.0, 2.0], [3.0, 100.0, 7.0]])
    return {f"layer.{name}": values.to(getattr(ternion, name)) for name in DTYPES} | {"scalar": ternion.tensor(1.5), "none": ternion.zeros(0, 3)}


def same(actual, expected):
    assert set(actual) == set(expected)
    for key, value in expected.items():
        assert actual[key].dtype == value.dtype and actual[key].equal(value), key


def test_what_is_written_comes_back(tmp_path):
    state = of_every_dtype()
    ternion.save(tmp_path / "a.safetensors", state)
    same(ternion.load(tmp_path / "a.safetensors"), state)
    ternion.save(state, str(tmp_path / "b.safetensors"))  # PyTorch's argument order
    assert (tmp_path / "a.safetensors").read_bytes() == (tmp_path / "b.safetensors").read_bytes()
    assert sorted(os.listdir(tmp_path)) == ["a.safetensors", "b.safetensors"]


def test_views_are_written_as_what_they_show(tmp_path):
    x = ternion.arange(6).reshape(2, 3)
    ternion.save(tmp_path / "a", {"t": x.T, "row": x[1]})
    same(ternion.load(tmp_path / "a"), {"t": x.T.contiguous(), "row": ternion.tensor([3, 4, 5])})


def test_modules_go_to_other_models(tmp_path):
    one, two = (nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3)) for _ in range(2))
    one(ternion.randn(5, 2))
    ternion.save(tmp_path / "a", one)
    two.load_state_dict(ternion.load(tmp_path / "a"))
    x = ternion.randn(4, 2)
    assert two.eval()(x).equal(one.eval()(x))


def test_pytorch_reads_and_is_read(tmp_path):
    torch = pytest.importorskip("torch")
    safetensors = pytest.importorskip("safetensors.torch")
    state = of_every_dtype()
    ternion.save(tmp_path / "here", state)
    loaded = safetensors.load_file(tmp_path / "here")
    assert set(loaded) == set(state)
    for key, value in state.items():
        assert str(loaded[key].dtype).removeprefix("torch.") == str(value.dtype).removeprefix("ternion.")
        np.testing.assert_array_equal(loaded[key].double().numpy(), value.double().numpy())
    safetensors.save_file({key: value.contiguous() for key, value in loaded.items()}, tmp_path / "there")
    same(ternion.load(tmp_path / "there"), state)
    safetensors.save_file({"a": torch.ones(2).to(torch.float8_e4m3fn)}, tmp_path / "foreign")
    with pytest.raises(OSError, match="foreign: dtypes that tensors do not have: a F8_E4M3"):
        ternion.load(tmp_path / "foreign")


class TestBroken:
    def test_a_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="cannot be read: .*nowhere.safetensors"):
            ternion.load(tmp_path / "nowhere.safetensors")

    @pytest.mark.parametrize("cut", [0, 4, 20, -1])
    def test_a_file_that_is_cut_off(self, tmp_path, cut):
        ternion.save(tmp_path / "a", {"x": ternion.ones(10)})
        (tmp_path / "broken").write_bytes((tmp_path / "a").read_bytes()[:cut])
        with pytest.raises(OSError, match="broken: "):
            ternion.load(tmp_path / "broken")

    def test_a_header_that_is_none(self, tmp_path):
        (tmp_path / "broken").write_bytes((5).to_bytes(8, "little") + b"hello")
        with pytest.raises(OSError, match="broken: corrupt safetensors header"):
            ternion.load(tmp_path / "broken")

    def test_a_missing_folder_leaves_nothing(self, tmp_path):
        with pytest.raises(OSError, match="nowhere"):
            ternion.save(tmp_path / "nowhere" / "a", {"x": ternion.ones(1)})
        assert os.listdir(tmp_path) == []

    def test_what_is_no_state(self, tmp_path):
        endless: list = []
        endless.append(endless)
        for state, error, message in [
            ({"x": [object()]}, TypeError, "save: x.0 is of type object, expected tensors, numbers, texts"),
            ({"x": {(1, 2): 3}}, TypeError, r"save: the key \(1, 2\) of x is of type tuple"),
            ({"x": print}, TypeError, "save: x is of type builtin_function_or_method"),
            ({"x": 1 + 2j}, TypeError, "save: x is of type complex"),
            ({"x": endless}, ValueError, "save: x.0 holds itself"),
        ]:
            with pytest.raises(error, match=message):
                ternion.save(tmp_path / "a", state)
        with pytest.raises(TypeError, match="save: a file of type list, expected its name"):
            ternion.save([1], [ternion.ones(1)])
        assert os.listdir(tmp_path) == []


class TestObjects:
    def checkpoint(self):
        model = nn.Linear(2, 3)
        adam = ternion.optim.AdamW(model.parameters())
        model(ternion.ones(1, 2)).sum().backward()
        adam.step()
        weight = ternion.arange(3)
        return {
            "model": model.state_dict(), "optimizer": adam.state_dict(), "epoch": 3, "loss": 0.1, "best": float("inf"), "name": "first \"run\"\n", "done": False, "none": None,
            "history": [1, 2.5, [ternion.ones(2), "x"]], "pair": (1, ternion.zeros(1)), 7: "seven", True: 1.0, "dtype": ternion.float16, "device": ternion.device("cpu"),
            "shape": weight.shape, "twice": [weight, weight], "empty": {}, "big": 2**80, "numpy": np.float32(0.5), "model.weight": ternion.ones(1),
        }  # fmt: skip

    def same(self, actual, expected):
        if isinstance(expected, ternion.Tensor):
            assert actual.dtype is expected.dtype and actual.equal(expected.detach())
        elif isinstance(expected, dict):
            assert list(actual) == list(expected)
            for key in expected:
                self.same(actual[key], expected[key])
        elif isinstance(expected, (list, tuple)):
            assert type(actual) is type(expected) and len(actual) == len(expected)
            for one, other in zip(actual, expected):
                self.same(one, other)
        else:
            assert actual == expected

    def test_dicts_of_everything_come_back(self, tmp_path):
        state = self.checkpoint()
        ternion.save(state, tmp_path / "a")
        result = ternion.load(tmp_path / "a", map_location="cpu", weights_only=True)
        self.same(result, state)
        assert result["twice"][0] is result["twice"][1] and type(result["epoch"]) is int and type(result["done"]) is bool and type(result["shape"]) is ternion.Size
        for single in ([ternion.ones(2)], 5, "text", ternion.ones(1), (1, 2), {}):
            ternion.save(single, tmp_path / "b")
            self.same(ternion.load(tmp_path / "b"), single)

    def test_others_read_its_tensors(self, tmp_path):
        safetensors = pytest.importorskip("safetensors.torch")
        ternion.save(self.checkpoint(), tmp_path / "a")
        assert safetensors.load_file(tmp_path / "a")["model.bias"].shape == (3,)

    @pytest.mark.parametrize("tree", ['{"tensor": "gone"}', '{"dtype": "_save"}', '{"exec": "print"}', "[", '{"dict": 3}', '{"a": 1, "b": 2}', "[" * 100_000, '{"device": "nowhere"}'])
    def test_a_tree_that_is_none(self, tmp_path, tree):
        """Whatever the tree contains, no code is executed."""
        ternion._ternion._save(tmp_path / "a", {"x": ternion.ones(1)}, {"ternion.tree": tree})
        with pytest.raises((OSError, RuntimeError), match="corrupt|device nowhere"):
            ternion.load(tmp_path / "a")

    def test_an_old_file_stays_where_writing_fails(self, tmp_path):
        ternion.save({"a": 1}, tmp_path / "a")
        with pytest.raises(TypeError):
            ternion.save({"a": object()}, tmp_path / "a")
        assert ternion.load(tmp_path / "a") == {"a": 1} and os.listdir(tmp_path) == ["a"]


class TestOpenFiles:
    """Objects with `write` and `read` instead of file names."""

    @pytest.mark.parametrize("order", [lambda state, file: (state, file), lambda state, file: (file, state)])
    def test_bytes_in_memory(self, tmp_path, order):
        state = of_every_dtype()
        buffer = io.BytesIO()
        ternion.save(*order(state, buffer))
        ternion.save(state, tmp_path / "a")
        assert buffer.getvalue() == (tmp_path / "a").read_bytes()
        buffer.seek(0)
        same(ternion.load(buffer), state)

    def test_open_files(self, tmp_path):
        layer = nn.Linear(2, 3)
        with open(tmp_path / "a", "wb") as file:
            ternion.save({"model": layer.state_dict(), "epoch": 3}, file)
        with open(tmp_path / "a", "rb") as file:
            result = ternion.load(file, map_location="cpu")
        assert result["epoch"] == 3 and result["model"]["weight"].equal(layer.weight) and os.listdir(tmp_path) == ["a"]
        buffer = io.BytesIO()
        ternion.save(layer, buffer)
        assert set(ternion.load(io.BytesIO(buffer.getvalue()))) == {"weight", "bias"}

    def test_what_is_rejected(self, tmp_path):
        with pytest.raises(TypeError, match="save: a file of text, expected one for bytes"):
            ternion.save({"a": ternion.ones(1)}, io.StringIO())
        with pytest.raises(TypeError, match="load: a file of str, expected one of bytes"):
            ternion.load(io.StringIO("text"))
        with pytest.raises(TypeError, match="save: a file of type int, expected its name or an open file"):
            ternion.save({"a": ternion.ones(1)}, 5)
        with pytest.raises(TypeError, match="load: a file of type int, expected its name or an open file"):
            ternion.load(5)
        with pytest.raises(OSError, match="^BytesIO: no safetensors file"):
            ternion.load(io.BytesIO(b"no safetensors"))
        with open(tmp_path / "broken", "wb+") as file, pytest.raises(OSError, match="broken: no safetensors file"):
            file.write(b"no safetensors")
            file.seek(0)
            ternion.load(file)


@pytest.mark.parametrize("settings", [dict(), dict(_use_new_zipfile_serialization=False)])
def test_files_of_torch_save_are_reported_as_such(tmp_path, settings):
    torch = pytest.importorskip("torch")
    torch.save({"weight": torch.ones(2)}, tmp_path / "model.pt", **settings)
    message = "a pickle of PyTorch, which would run code: save it there with safetensors.torch.save_file"
    with pytest.raises(OSError, match=f"model.pt: {message}"):
        ternion.load(tmp_path / "model.pt")
    with open(tmp_path / "model.pt", "rb") as file, pytest.raises(OSError, match=message):
        ternion.load(file)
    np.savez(tmp_path / "arrays.npz", np.ones(2))
    with pytest.raises(OSError) as raised:
        ternion.load(tmp_path / "arrays.npz")
    assert "pickle" not in str(raised.value)
