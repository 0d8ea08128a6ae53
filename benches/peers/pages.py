"""Pages whose tables scripts write: what is between a page's markers, and the command line that names results and a page."""

import argparse
import pathlib


def parts_between(text, markers):
    """The page in three parts: up to and including the first marker, what is between the markers, and the rest."""
    start, end = markers
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise SystemExit(f"error: expected {start} and, after it, {end} once each in the page")
    before, rest = text.split(start)
    body, after = rest.split(end)
    return before + start, body, end + after


def between_markers(text, markers, body):
    """The page with `body` in place of what is between its markers; its lines end, as every line does."""
    before, _, after = parts_between(text, markers)
    return f"{before}\n{body}{after}"


def provenance(run):
    """Device, driver, commit and date of a run, as a sentence; none where only the device is known."""
    if not any(run.get(key) for key in ("driver", "commit", "date")):
        return []
    parts = [run.get("device") or "unknown device", f"driver {run.get('driver') or 'unknown'}", f"commit {run.get('commit') or 'unknown'}", run.get("date") or "unknown date"]
    return [", ".join(parts) + "."]


def about(lines):
    """The machine that a results file of compare.py is of, and PyTorch's version, as a sentence."""
    run = next((line["run"] for line in reversed(lines) if "run" in line), {})
    versions = next((line["versions"] for line in reversed(lines) if "versions" in line), {})
    parts = [run.get("device", "unknown device"), f"driver {run.get('driver', 'unknown')}", f"commit {run.get('commit', 'unknown')}"]
    parts += [f"PyTorch {versions['torch']} with CUDA {versions.get('cuda')}"] if "torch" in versions else []
    return ", ".join([*parts, run.get("date", "unknown date")]) + "."


def row_of(cells):
    """A row of a table."""
    return "| " + " | ".join(cells) + " |"


def digits(value):
    """A figure with three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def write_of(doc, results, write):
    """The command `write RESULTS.. PAGE` of a script with this text, whose `results` are what it reads. An error of a file ends it in a line."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    written = parser.add_subparsers(dest="command", required=True).add_parser("write", help="tables and picture")
    written.add_argument("results", type=pathlib.Path, nargs="+", help=results)
    written.add_argument("page", type=pathlib.Path)
    try:
        write(parser.parse_args())
    except OSError as error:
        raise SystemExit(f"error: {error}") from error
