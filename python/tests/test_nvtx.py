"""Ranges in NVIDIA's profilers: PyTorch's names, and a library that records the ranges passed to
it."""

import inspect
import os
import shutil
import subprocess
import sys

import pytest

import ternion
from ternion.cuda import nvtx

#: A library with NVTX's functions, which writes the calls it receives to a file.
LIBRARY = r"""
#include <stdio.h>
#include <stdlib.h>
static _Thread_local int depth = 0;
static void record(const char *kind, const char *message) {
    FILE *file = fopen(getenv("NVTX_HEARD"), "a");
    fprintf(file, "%s %s\n", kind, message);
    fclose(file);
}
int nvtxRangePushA(const char *message) { record("push", message); return depth++; }
int nvtxRangePop(void) { record("pop", ""); return depth == 0 ? -2 : --depth; }
void nvtxMarkA(const char *message) { record("mark", message); }
"""

PROGRAM = """
from ternion.cuda import nvtx
depths = [nvtx.range_push("outer"), nvtx.range_push("inner"), nvtx.range_pop(), nvtx.range_pop(), nvtx.range_pop()]
nvtx.mark("here")
with nvtx.range("epoch {} of {all}", 3, all=7):
    pass
try:
    with nvtx.range("fails"):
        raise ValueError
except ValueError:
    pass
@nvtx.range("decorated")
def step():
    return 5
print(depths, step())
"""

TRACED = """
import ternion
from ternion import nn, optim
model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
sgd = optim.SGD(model.parameters(), lr=0.1)
def step():
    with ternion.cuda.nvtx.range("step"):
        loss = model(ternion.ones(4, 3)).sum()
        loss.backward()
        sgd.step()
nn.trace(model, step)
print(len(nn.trace(model, step, nvtx=True)))
"""


def test_names_are_those_of_pytorch():
    torch_nvtx = pytest.importorskip("torch.cuda.nvtx")
    for name in nvtx.__all__:
        assert list(inspect.signature(getattr(nvtx, name)).parameters) == list(inspect.signature(getattr(torch_nvtx, name)).parameters), name
    assert ternion.cuda.nvtx is nvtx


def test_where_nobody_listens_nothing_happens():
    depth = nvtx.range_push("a range")
    assert isinstance(depth, int) and isinstance(nvtx.range_pop(), int)
    assert nvtx.mark("here\0and there") is None
    with nvtx.range("step {}", 1):
        pass
    for call in (nvtx.range_push, nvtx.mark):
        with pytest.raises(TypeError, match=rf"nvtx.{call.__name__}: msg is int, expected str"):
            call(3)
    with pytest.raises(TypeError, match=r"nvtx.range: msg is NoneType, expected str"), nvtx.range(None):
        pass


def heard_of(program, tmp_path):
    """Returns the output of a program, and the calls that the library recorded meanwhile."""
    (tmp_path / "nvtx.c").write_text(LIBRARY)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(tmp_path / "libnvToolsExt.so.1"), str(tmp_path / "nvtx.c")], check=True)
    heard = tmp_path / "heard"
    heard.touch()
    environment = {**os.environ, "LD_LIBRARY_PATH": str(tmp_path), "NVTX_HEARD": str(heard)}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout, heard.read_text().split("\n")


in_c = pytest.mark.skipif(sys.platform != "linux" or shutil.which("cc") is None, reason="makes a library in C")


@in_c
def test_a_library_hears_ranges_and_marks(tmp_path):
    printed, heard = heard_of(PROGRAM, tmp_path)
    if printed.split() == ["[-2,", "-2,", "-2,", "-2,", "-2]", "5"] and heard == [""]:
        pytest.skip("built without CUDA")
    assert printed == "[0, 1, 1, 0, -2] 5\n"
    assert heard == [
        "push outer", "push inner", "pop ", "pop ", "pop ", "mark here", "push epoch 3 of 7", "pop ", "push fails", "pop ", "push decorated", "pop ", "",
    ]  # fmt: skip


@in_c
def test_a_library_hears_of_layers_backward_passes_and_steps(tmp_path):
    printed, heard = heard_of(TRACED, tmp_path)
    assert int(printed) > 10
    if heard == [""]:
        pytest.skip("built without CUDA")
    # Once by hand only, and once within the traced run.
    assert heard[:2] == ["push step", "pop "]
    ranges = [line.removeprefix("push ") for line in heard[2:] if line.startswith("push ")]
    for name in ("step", "0 (Linear)", "1 (ReLU)", "backward", "sgd"):
        assert ranges.count(name) == 1, (name, ranges)
    assert heard.count("pop ") == len(ranges) + 1 and "linear" in " ".join(ranges).lower()


def test_whether_profilers_hear_is_a_bool():
    with pytest.raises(TypeError, match="trace: nvtx is int, expected bool"):
        ternion.nn.trace(ternion.nn.Linear(1, 1), lambda: None, nvtx=1)
    assert len(ternion.nn.trace(ternion.nn.Linear(1, 1), lambda: None, nvtx=True)) == 0
