"""The programs of the documents run as they stand."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = [
    (page, number, text)
    for page in ["docs/python.md", "README.md"]
    for number, text in enumerate(re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S))
]


def test_there_are_programs():
    assert PROGRAMS


@pytest.mark.parametrize("page, number, text", PROGRAMS)
def test_programs(page, number, text, capsys):
    exec(compile(text, page, "exec"), {"__name__": page})
    if (page, number) == ("docs/python.md", 0):
        assert float(capsys.readouterr().out) < 0.1
