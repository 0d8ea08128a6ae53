"""Pages with tables that scripts write: the text between a page's markers, and the command line
that names results and a page.
"""

import argparse
import pathlib


def parts_between(text, markers):
    """Returns the page in three parts: up to and including the first marker, the text between the
    markers, and the rest.
    """
    start, end = markers
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise SystemExit(f"error: expected {start} and, after it, {end} once each in the page")
    before, rest = text.split(start)
    body, after = rest.split(end)
    return before + start, body, end + after


def between_markers(text, markers, body):
    """Returns the page with `body` between its markers; each of its lines must end with a newline.
    """
    before, _, after = parts_between(text, markers)
    return f"{before}\n{body}{after}"


def provenance(run):
    """Returns device, driver, commit and date of a run, as a sentence; empty if only the device is
    known.
    """
    if not any(run.get(key) for key in ("driver", "commit", "date")):
        return []
    parts = [run.get("device") or "unknown device", f"driver {run.get('driver') or 'unknown'}", f"commit {run.get('commit') or 'unknown'}", run.get("date") or "unknown date"]
    return [", ".join(parts) + "."]


def about(lines):
    """Returns the machine of a results file of compare.py, and PyTorch's version, as a sentence."""
    run = next((line["run"] for line in reversed(lines) if "run" in line), {})
    versions = next((line["versions"] for line in reversed(lines) if "versions" in line), {})
    parts = [run.get("device", "unknown device"), f"driver {run.get('driver', 'unknown')}", f"commit {run.get('commit', 'unknown')}"]
    parts += [f"PyTorch {versions['torch']} with CUDA {versions.get('cuda')}"] if "torch" in versions else []
    return ", ".join([*parts, run.get("date", "unknown date")]) + "."


def row_of(cells):
    """Returns a row of a table."""
    return "| " + " | ".join(cells) + " |"


def digits(value):
    """Returns a figure with three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def write_of(doc, results, write):
    """Runs the command `write RESULTS.. PAGE` of a script with this description; `results`
    describes what it reads. A file error ends it with one line.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    written = parser.add_subparsers(dest="command", required=True).add_parser("write", help="tables and picture")
    written.add_argument("results", type=pathlib.Path, nargs="+", help=results)
    written.add_argument("page", type=pathlib.Path)
    try:
        write(parser.parse_args())
    except OSError as error:
        raise SystemExit(f"error: {error}") from error
