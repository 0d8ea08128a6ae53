#!/usr/bin/env python3
"""Compares two commits of Ternion on one machine: host time of eager ops, and time from process
start to the first result.

    commits.py run --before DIR --bundle DIR --out commits.jsonl [--turns 5]
        on the GPU machine, with two bundles (`cargo xtask bundle`)
    commits.py write commits.jsonl docs/benchmarks.md
        on any machine: writes the table between the page's markers

Each turn runs both programs. The order is reversed in every second turn, so that a machine that
slows down affects both. Results are medians over all turns, with minimum and maximum. Cases of only
one commit are omitted. `write` needs only Python's standard library.
"""

import argparse
import json
import pathlib
import statistics
import sys
import tempfile

from compare import WITHOUT_CUDA_CACHE, capture_output, describe_machine, parse_json_line, positive, read_single_run, seconds_to_first_line, write_atomically
from pages import format_row, replace_between_markers, run_write_command

MARKERS = ("<!-- commits:start -->", "<!-- commits:end -->")
# Maximum ratio of the times of a single op: 1 plus the noise of medians on one machine.
MAX_HOST_RATIO = 1.05


def host_times(program):
    """Returns case -> microseconds of the host cases and None, or None and an error."""
    text, error = capture_output(program, "--only", "host/", timeout=600)
    if error is not None:
        return None, error
    lines = [line for line in map(parse_json_line, text.splitlines()) if line and "case" in line and "ms" in line]
    # Times of the driver do not depend on the commit.
    return {line["case"]: line["ms"] * 1e3 for line in lines if line["impl"] == "ternion"}, None


def start_times(program, cache):
    """Returns case -> microseconds to the first line of output, for a bare context, and for a first
    result with and without cached kernels, and None; or None and an error.
    """
    times = {}
    with tempfile.TemporaryDirectory() as empty:
        cold = {"TERNION_CACHE": empty, **WITHOUT_CUDA_CACHE}
        cases = {"context": ("context", {"TERNION_CACHE": cache}), "result": ("result", {"TERNION_CACHE": cache}), "cold": ("result", cold)}
        for case, (argument, environment) in cases.items():
            seconds, error = seconds_to_first_line([program, "start", argument], environment)
            if error is not None:
                return None, error
            times[f"start/{case}"] = seconds * 1e6
    return times, None


def measure(programs, turns, cache):
    """Measures both programs alternately. Yields (case, commit, turn, microseconds). The first turn
    fills caches and is ignored.
    """
    for turn in range(-1, turns):
        for commit, program in list(programs.items())[:: -1 if turn % 2 else 1]:
            for times, error in (host_times(program), start_times(program, f"{cache}/{commit}")):
                if error is not None:
                    raise SystemExit(f"error: {program}: {error}")
                if turn >= 0:
                    yield from ((case, commit, turn, us) for case, us in times.items())


def run(args):
    machines = {"before": describe_machine(args.before), "now": describe_machine(args.bundle)}
    programs = {commit: str((folder / "ternion-bench").absolute()) for commit, folder in (("before", args.before), ("now", args.bundle))}
    lines = [dict(run=dict(machines["now"], before=machines["before"]["commit"]))]
    with tempfile.TemporaryDirectory() as cache:
        for case, commit, turn, us in measure(programs, args.turns, cache):
            lines.append(dict(case=case, commit=commit, turn=turn, us=round(us, 4)))
    write_atomically(args.out, "".join(json.dumps(line) + "\n" for line in lines))


def times_by_case(lines):
    """Returns case -> commit -> times, for cases that both commits have."""
    times = {}
    for line in lines:
        if "us" in line:
            times.setdefault(line["case"], {}).setdefault(line["commit"], []).append(line["us"])
    return {case: times for case, times in times.items() if set(times) == {"before", "now"}}


def format_times(case, times):
    """Formats the median with the minimum and the maximum, in milliseconds for starts and in
    microseconds for ops.
    """
    scale, unit = (1e3, "ms") if case.startswith("start/") else (1, "us")
    median, minimum, maximum = (f"{time / scale:.2f}" for time in (statistics.median(times), min(times), max(times)))
    return f"{median} {unit} ({minimum} to {maximum})"


def startup_differences(times):
    """Returns the time of a first result above that of a bare context in each turn. The time of the
    context is that of the driver, which does not depend on the commit.
    """
    context, result = times.get("start/context"), times.get("start/result")
    if not context or not result:
        return {}
    differences = {commit: [total - bare for total, bare in zip(result[commit], context[commit])] for commit in result}
    return {"start/result above start/context": differences}


def render(lines):
    header = next(line["run"] for line in lines if "run" in line)
    measured = times_by_case(lines)
    if not measured:
        raise SystemExit("error: no case that both commits have")
    machine = f"{header['device']}, driver {header['driver']}, {header['cores']} cores, {header['date']}"
    heading = f"{machine}: commit {header['before']} and commit {header['commit']} in turn, medians (least to most)."
    rows = [format_row(["case", header["before"], header["commit"], "ratio"]), format_row(["---", "---:", "---:", "---:"])]
    differences = startup_differences(measured)
    for case, times in {**measured, **differences}.items():
        before, current = statistics.median(times["before"]), statistics.median(times["now"])
        ratio = f"{(current - before) / 1e3:+.1f} ms" if case in differences else f"{current / before:.2f}"
        rows.append(format_row([case, format_times(case, times["before"]), format_times(case, times["now"]), ratio]))
    return "\n".join([heading, "", *rows, "", host_ratio_sentence(measured), ""])


def host_ratio_sentence(times_by_case):
    """Returns a sentence about the time ratios of single ops and of long sequences of ops."""
    ratios = {case: statistics.median(times["now"]) / statistics.median(times["before"]) for case, times in times_by_case.items() if case.startswith("host/")}
    in_a_row = {case: ratio for case, ratio in ratios.items() if case.endswith("_sustained")}
    single = {case: ratio for case, ratio in ratios.items() if case not in in_a_row}
    sentences = []
    for name, group_ratios in (("a single op", single), ("20,000 in a row", in_a_row)):
        if group_ratios:
            slowest = max(group_ratios, key=group_ratios.get)
            mean = statistics.geometric_mean(group_ratios.values())
            sentences.append(f"of {name} {mean:.2f} in the mean and {group_ratios[slowest]:.2f} at most ({slowest})")
    verdict = ""
    if single:
        holds = "holds" if max(single.values()) <= MAX_HOST_RATIO else "**does not hold**"
        verdict = f" A single op may take {MAX_HOST_RATIO} times as long: {holds}."
    return f"Host time over that of the earlier commit: {', '.join(sentences)}.{verdict}" if sentences else ""


def write_page(args):
    lines = read_single_run(args.results)
    write_atomically(args.page, replace_between_markers(args.page.read_text(encoding="utf-8"), MARKERS, render(lines)))


def main():
    if sys.argv[1:2] == ["write"]:
        run_write_command(__doc__, "results of `run`", write_page)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=pathlib.Path, required=True, help="bundle of the earlier commit")
    parser.add_argument("--bundle", type=pathlib.Path, required=True, help="bundle of this commit")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("commits.jsonl"))
    parser.add_argument("--turns", type=positive, default=5, help="number of runs of both")
    run(parser.parse_args(sys.argv[2:] if sys.argv[1:2] == ["run"] else sys.argv[1:]))


if __name__ == "__main__":
    main()
