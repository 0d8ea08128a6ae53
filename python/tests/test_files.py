"""State dicts on disk: what is written comes back, here and in PyTorch's safetensors; what is broken is told."""

import os

import numpy as np
import pytest

import ternion
from ternion import nn

DTYPES = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "uint8", "bool"]


def of_every_dtype():
    values = ternion.tensor([[0.0, 1.0, 2.0], [3.0, 100.0, 7.0]])
    return {f"layer.{name}": values.to(getattr(ternion, name)) for name in DTYPES} | {"scalar": ternion.tensor(1.5), "none": ternion.zeros(0, 3)}


def same(found, expected):
    assert set(found) == set(expected)
    for key, value in expected.items():
        assert found[key].dtype == value.dtype and found[key].equal(value), key


def test_what_is_written_comes_back(tmp_path):
    state = of_every_dtype()
    ternion.save(tmp_path / "a.safetensors", state)
    same(ternion.load(tmp_path / "a.safetensors"), state)
    ternion.save(state, str(tmp_path / "b.safetensors"))  # PyTorch's order
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
    there = safetensors.load_file(tmp_path / "here")
    assert set(there) == set(state)
    for key, value in state.items():
        assert str(there[key].dtype).removeprefix("torch.") == str(value.dtype).removeprefix("ternion.")
        np.testing.assert_array_equal(there[key].double().numpy(), value.double().numpy())
    safetensors.save_file({key: value.contiguous() for key, value in there.items()}, tmp_path / "there")
    same(ternion.load(tmp_path / "there"), state)
    safetensors.save_file({"a": torch.ones(2, dtype=torch.int16)}, tmp_path / "foreign")
    with pytest.raises(OSError, match="foreign: dtypes that tensors do not have: a I16"):
        ternion.load(tmp_path / "foreign")


class TestBroken:
    def test_a_file_that_is_not_there(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="nowhere.safetensors: cannot be read"):
            ternion.load(tmp_path / "nowhere.safetensors")

    @pytest.mark.parametrize("cut", [0, 4, 20, -1])
    def test_a_file_that_is_cut_off(self, tmp_path, cut):
        ternion.save(tmp_path / "a", {"x": ternion.ones(10)})
        (tmp_path / "broken").write_bytes((tmp_path / "a").read_bytes()[:cut])
        with pytest.raises(OSError, match="broken: "):
            ternion.load(tmp_path / "broken")

    def test_a_header_that_is_none(self, tmp_path):
        (tmp_path / "broken").write_bytes((5).to_bytes(8, "little") + b"hello")
        with pytest.raises(OSError, match="broken: damaged safetensors header"):
            ternion.load(tmp_path / "broken")

    def test_a_folder_that_is_not_there_leaves_nothing(self, tmp_path):
        with pytest.raises(OSError, match="nowhere"):
            ternion.save(tmp_path / "nowhere" / "a", {"x": ternion.ones(1)})
        assert os.listdir(tmp_path) == []

    def test_what_is_no_state(self, tmp_path):
        with pytest.raises(TypeError, match="save: x is of type list, expected a tensor"):
            ternion.save(tmp_path / "a", {"x": [1.0]})
        with pytest.raises(TypeError, match="save: the key 3, expected a str"):
            ternion.save(tmp_path / "a", {3: ternion.ones(1)})
        with pytest.raises(TypeError, match="the state is of type list"):
            ternion.save(tmp_path / "a", [ternion.ones(1)])
        assert os.listdir(tmp_path) == []
