"""The programs in python/examples: seeds of any sign, and invalid settings that are reported on one
line before anything is computed."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"
SMALL_GPT = ["--layers", "1", "--heads", "1", "--width", "8", "--context", "8", "--batch", "2"]


def run(name, *arguments):
    return subprocess.run([sys.executable, str(EXAMPLES / f"{name}.py"), "--device", "cpu", *arguments], capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    "name, arguments",
    [
        ("mnist", ["--data", "synthetic", "--limit", "64", "--hidden", "4", "--epochs", "1", "--seed", "-1"]),
        ("housing", ["--hidden", "4", "--epochs", "1", "--seed", "-3"]),
        ("tiny_gpt", [*SMALL_GPT, "--text", str(EXAMPLES / "housing.py"), "--steps", "1", "--seed", "-2"]),
    ],
)
def test_seeds_below_0(name, arguments):
    program = run(name, *arguments)
    assert program.returncode == 0 and not program.stderr
    # A single step has no throughput to report.
    assert "0 tokens/s" not in program.stdout


@pytest.mark.parametrize("name", ["mnist", "housing", "tiny_gpt"])
def test_a_seed_that_is_none(name):
    program = run(name, "--seed", str(2**70))
    assert program.returncode == 1 and program.stderr.strip() == f"{name}: a seed of {2**70}, expected -2**63 to 2**64 - 1"


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["--top-k", "0"], "--top-k: 0, expected an integer above 0"),
        (["--top-p", "1.5"], "--top-p: 1.5, expected a number above 0, at most 1"),
        (["--top-p", "much"], "--top-p: much, expected a number above 0, at most 1"),
        (["--temperature", "-1"], "--temperature: -1, expected a number of at least 0"),
    ],
)
def test_settings_of_what_is_written(arguments, message):
    program = run("tiny_gpt", *SMALL_GPT, "--steps", "0", "--generate", "a prompt", *arguments)
    assert program.returncode == 2 and not program.stdout and program.stderr.strip().endswith(message)


def test_weights_that_cannot_be_written(tmp_path):
    for file, message in [(tmp_path / "none" / "weights", f"there is no folder {tmp_path / 'none'}"), (tmp_path, f"{tmp_path} is a folder")]:
        program = run("from_pytorch", "--weights", str(file))
        assert program.returncode == 2 and not program.stdout and program.stderr.strip().endswith(message)
