#!/usr/bin/env python3
"""Compares two commits of Ternion on one machine: the host's time of an eager op, and the time from
the start of a process to its first result.

    commits.py run --before DIR --bundle DIR --out commits.jsonl [--turns 5]
        on the GPU machine; both folders are bundles (`cargo xtask bundle`)
    commits.py write commits.jsonl docs/benchmarks.md
        anywhere: writes the table between the page's markers

Each turn runs both programs, with the order reversed in every second turn, so that a machine that
slows down slows both. A figure is the median of all turns, with its minimum and maximum. Cases that
only one commit has are omitted. `write` needs only Python's standard library.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from compare import header, output_of, parsed, positive, read_one_run, replace, seconds_to_first_line
from pages import between_markers, row_of, write_of

MARKERS = ("<!-- commits:start -->", "<!-- commits:end -->")
STARTS = ("context", "result")
# The maximum ratio of the times of a single op: 1, and the difference between medians of several
# turns on one machine.
MOST = 1.05


def host_times(program):
    """Returns case -> microseconds of the host's cases, or why there are none."""
    text, error = output_of(program, "--only", "host/", timeout=600)
    if error is not None:
        return None, error
    lines = [line for line in map(parsed, text.splitlines()) if line and "case" in line and "ms" in line]
    # The time of the driver itself does not depend on the commit.
    return {line["case"]: line["ms"] * 1e3 for line in lines if line["impl"] == "ternion"}, None


def start_times(program, cache):
    """Returns case -> microseconds to the first line of output, for a context only and for a first
    result by kernels that are cached on disk.
    """
    found = {}
    for what in STARTS:
        seconds, error = seconds_to_first_line([program, "start", what], {"TERNION_CACHE": cache})
        if error is not None:
            return None, error
        found[f"start/{what}"] = seconds * 1e6
    return found, None


def measure(programs, turns, cache):
    """Yields (case, commit, turn, microseconds) of both programs alternately. The first turn is
    ignored, because it fills caches.
    """
    for turn in range(-1, turns):
        for commit, program in list(programs.items())[:: -1 if turn % 2 else 1]:
            for times, error in (host_times(program), start_times(program, f"{cache}/{commit}")):
                if error is not None:
                    raise SystemExit(f"error: {program}: {error}")
                if turn >= 0:
                    yield from ((case, commit, turn, us) for case, us in times.items())


def run(given):
    about = {"before": header(given.before), "now": header(given.bundle)}
    programs = {commit: str((folder / "ternion-bench").absolute()) for commit, folder in (("before", given.before), ("now", given.bundle))}
    lines = [dict(run=dict(about["now"], before=about["before"]["commit"]))]
    with tempfile.TemporaryDirectory() as cache:
        for case, commit, turn, us in measure(programs, given.turns, cache):
            lines.append(dict(case=case, commit=commit, turn=turn, us=round(us, 4)))
    replace(given.out, "".join(json.dumps(line) + "\n" for line in lines))


def gathered(lines):
    """Returns case -> commit -> its times, for cases that both have."""
    found = {}
    for line in lines:
        if "us" in line:
            found.setdefault(line["case"], {}).setdefault(line["commit"], []).append(line["us"])
    return {case: times for case, times in found.items() if set(times) == {"before", "now"}}


def cell(case, times):
    """Returns a median with the minimum and the maximum: of a start in milliseconds, of an op in
    microseconds.
    """
    scale, unit = (1e3, "ms") if case.startswith("start/") else (1, "us")
    median, least, most = (f"{number / scale:.2f}" for number in (statistics.median(times), min(times), max(times)))
    return f"{median} {unit} ({least} to {most})"


def above_context(found):
    """Returns the time of a first result beyond a bare context, turn by turn: the driver's part
    does not depend on the commit.
    """
    context, result = found.get("start/context"), found.get("start/result")
    if not context or not result:
        return {}
    return {"start/result above start/context": {commit: [whole - bare for whole, bare in zip(result[commit], context[commit])] for commit in result}}


def table(lines):
    about = next(line["run"] for line in lines if "run" in line)
    found = gathered(lines)
    if not found:
        raise SystemExit("error: no case that both commits have")
    what = f"{about['device']}, driver {about['driver']}, {about['cores']} cores, {about['date']}: commit {about['before']} and commit {about['commit']} in turn, medians (least to most)."
    rows = [row_of(["case", about["before"], about["commit"], "ratio"]), row_of(["---", "---:", "---:", "---:"])]
    differences = above_context(found)
    for case, times in {**found, **differences}.items():
        before, now = statistics.median(times["before"]), statistics.median(times["now"])
        ratio = f"{(now - before) / 1e3:+.1f} ms" if case in differences else f"{now / before:.2f}"
        rows.append(row_of([case, cell(case, times["before"]), cell(case, times["now"]), ratio]))
    return "\n".join([what, "", *rows, "", worst(found), ""])


def worst(found):
    """Returns the ratios of single ops, and of many in a row until the last has run, in a sentence.
    """
    ratios = {case: statistics.median(times["now"]) / statistics.median(times["before"]) for case, times in found.items() if case.startswith("host/")}
    in_a_row = {case: ratio for case, ratio in ratios.items() if case.endswith("_sustained")}
    single = {case: ratio for case, ratio in ratios.items() if case not in in_a_row}
    told = []
    for name, some in (("a single op", single), ("20,000 in a row", in_a_row)):
        if some:
            most = max(some, key=some.get)
            told.append(f"of {name} {statistics.geometric_mean(some.values()):.2f} in the mean and {some[most]:.2f} at most ({most})")
    verdict = f" A single op may take {MOST} times as long: {'holds' if max(single.values()) <= MOST else '**does not hold**'}." if single else ""
    return f"Host time over that of the earlier commit: {', '.join(told)}.{verdict}" if told else ""


def write(given):
    lines = read_one_run(given.results)
    replace(given.page, between_markers(given.page.read_text(encoding="utf-8"), MARKERS, table(lines)))


def main():
    if sys.argv[1:2] == ["write"]:
        write_of(__doc__, "what `run` measured", write)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True, help="the bundle of the earlier commit")
    parser.add_argument("--bundle", type=pathlib.Path, required=True, help="the bundle of this commit")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("commits.jsonl"))
    parser.add_argument("--turns", type=positive, default=5, help="times that both are run")
    run(parser.parse_args(sys.argv[2:] if sys.argv[1:2] == ["run"] else sys.argv[1:]))


if __name__ == "__main__":
    main()
