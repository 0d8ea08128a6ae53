"""Parses every file of kernels/ as clangd does, by its compile_flags.txt. Prints the errors that
clang finds and fails if there are any."""

import pathlib
import sys

from clang.cindex import Diagnostic, Index

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "kernels"


def faults(path, flags):
    """What is wrong in a file, as lines of text."""
    unit = Index.create().parse(str(path), args=flags)
    return [str(found) for found in unit.diagnostics if found.severity >= Diagnostic.Error]


def main():
    flags = (FOLDER / "compile_flags.txt").read_text().split()
    flags = [f"-I{FOLDER}" if flag == "-I." else flag for flag in flags]
    files = sorted(path for path in FOLDER.rglob("*") if path.suffix in (".cu", ".cuh"))
    found = [line for path in files for line in faults(path, flags)]
    print("\n".join(found + [f"{len(files)} files parsed"]))
    sys.exit(bool(found) or not files)


main()
