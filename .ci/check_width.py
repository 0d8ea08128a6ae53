"""Checks that no line of a comment is longer than 100 columns.

check_width.py              checks all files of the repository
check_width.py PATH ..      checks these files and folders

Python docstrings count as comments. May be longer: code with a directive for a tool (noqa, type:
ignore, fmt: skip), code blocks in the documentation of Rust, which rustfmt wraps, and a line that
ends in a URL or continues a C macro. In stubs, which are generated from documentation that is
indented less, the indentation does not count.
"""

import argparse
import ast
import pathlib
import re
import sys

from check_words import LEXERS, ROOT, files, is_under

LIMIT = 100
COMMENT = re.compile(r"\A(?://|/\*|#(?!!?\[))")
EXEMPT = re.compile(r"https?://\S+\Z|\s\\\Z|# (?:noqa|type: ignore|fmt: skip)\b")
FENCE = re.compile(r"\s*//[/!] *```")
SUFFIXES = {".rs", ".cu", ".cuh", ".h", ".wgsl", ".py", ".pyi", ".sh", ".toml", ""}


def comment_lines(suffix, text):
    """Returns the numbers of the lines on which a comment is written, from 1 on."""
    numbers = set()
    for token in LEXERS[suffix].finditer(text):
        if COMMENT.match(token[0]):
            first = text.count("\n", 0, token.start()) + 1
            numbers.update(range(first, first + token[0].count("\n") + 1))
    if suffix in {".py", ".pyi"}:
        numbers.update(docstring_lines(text))
    return numbers - set(example_lines(suffix, text))


def example_lines(suffix, text):
    """Returns the numbers of the lines of code blocks in the documentation of Rust."""
    is_example = False
    for number, line in enumerate(text.split("\n") if suffix == ".rs" else [], 1):
        is_example ^= bool(FENCE.match(line))
        if is_example:
            yield number


def docstring_lines(text):
    """Returns the numbers of the lines of all docstrings of a Python file."""
    nodes = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, nodes) and ast.get_docstring(node, clean=False) is not None:
            yield from range(node.body[0].lineno, node.body[0].end_lineno + 1)


def wide(path, text):
    """Returns (line number, columns) of each line of a comment that is too long."""
    suffix = pathlib.PurePosixPath(path).suffix
    lines = text.split("\n")
    columns = {number: len(lines[number - 1].lstrip() if suffix == ".pyi" else lines[number - 1]) for number in comment_lines(suffix, text)}
    return [(number, count) for number, count in sorted(columns.items()) if count > LIMIT and not EXEMPT.search(lines[number - 1])]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", help="files and folders to check instead of all")
    wanted = parser.parse_args().paths
    paths = [path for path in files() if pathlib.PurePosixPath(path).suffix in SUFFIXES]
    paths = [path for path in paths if not wanted or is_under(path, wanted)]
    found = [(path, *line) for path in paths for line in wide(path, (ROOT / path).read_text())]
    for path, number, columns in found:
        print(f"{path}:{number}: a comment of {columns} columns, expected at most {LIMIT}")
    print(f"{len(paths)} files checked, {len(found)} lines too long")
    sys.exit(bool(found))


if __name__ == "__main__":
    main()
