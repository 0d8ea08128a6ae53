"""Pages with generated tables: replacing the text between two markers, and the `write` command of
the scripts that generate them.
"""

import argparse
import pathlib


def split_at_markers(text, markers):
    """Splits a page into the text up to and including the first marker, the text between the
    markers, and the rest.
    """
    start, end = markers
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise SystemExit(f"error: expected {start} and, after it, {end} once each in the page")
    before, rest = text.split(start)
    content, after = rest.split(end)
    return before + start, content, end + after


def replace_between_markers(text, markers, content):
    """Returns the page with `content` between its markers. Each line of the content must end with a
    newline.
    """
    before, _, after = split_at_markers(text, markers)
    return f"{before}\n{content}{after}"


def provenance_lines(run):
    """Returns a line with the device, driver, commit and date of a run; no line if only the device
    is known.
    """
    if not any(run.get(key) for key in ("driver", "commit", "date")):
        return []
    parts = [
        run.get("device") or "unknown device",
        f"driver {run.get('driver') or 'unknown'}",
        f"commit {run.get('commit') or 'unknown'}",
        run.get("date") or "unknown date",
    ]
    return [", ".join(parts) + "."]


def run_sentence(lines):
    """Returns a sentence about the machine and versions of a results file of compare.py."""
    run = next((line["run"] for line in reversed(lines) if "run" in line), {})
    versions = next((line["versions"] for line in reversed(lines) if "versions" in line), {})
    parts = [run.get("device", "unknown device"), f"driver {run.get('driver', 'unknown')}", f"commit {run.get('commit', 'unknown')}"]
    parts += [f"PyTorch {versions['torch']} with CUDA {versions.get('cuda')}"] if "torch" in versions else []
    return ", ".join([*parts, run.get("date", "unknown date")]) + "."


def format_row(cells):
    """Returns a row of a Markdown table."""
    return "| " + " | ".join(cells) + " |"


def format_digits(value):
    """Formats a number with three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def run_write_command(doc, results, write):
    """Parses the command line `write RESULTS.. PAGE` and calls `write`. `doc` is the script's help,
    `results` the help of RESULTS. File errors exit with a message of one line.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    write_parser = parser.add_subparsers(dest="command", required=True).add_parser("write", help="write the tables")
    write_parser.add_argument("results", type=pathlib.Path, nargs="+", help=results)
    write_parser.add_argument("page", type=pathlib.Path)
    try:
        write(parser.parse_args())
    except OSError as error:
        raise SystemExit(f"error: {error}") from error
