#!/usr/bin/env python3
"""The attention ladder: tables and plots of the TFLOP/s, memory and memory traffic of each rung by
tokens, compared with PyTorch.

    compare.py run --bundle DIR --families attention_ladder --out attention_ladder.jsonl
        on the GPU machine: measures the rungs, Ternion's and PyTorch's attention
    attention_ladder.py write attention_ladder.jsonl.. docs/kernels/attention-ladder.md
        on any machine: writes the tables between the page's markers, and attention-ladder.svg and
        attention-ladder-memory.svg next to the page

Values are medians over all rounds in the files. `write` needs only Python's standard library.
"""

import collections
import functools
import statistics

from charts import BASELINE_STYLE, SERIES_STYLE, Panel, Series, render_panels, series_style
from compare import read_single_run, write_atomically
from ladder import group_lines
from pages import format_digits, format_row, replace_between_markers, run_sentence, run_write_command

MARKERS = START, END = "<!-- attention-ladder:start -->", "<!-- attention-ladder:end -->"
FAMILY = "attention_ladder"
# Implementations that are not rungs: Ternion's attention op, and PyTorch's by its backends.
TERNION, MATH, CUDNN = "ternion", "math", "cudnn"
REFERENCES = (TERNION, MATH, CUDNN)
STYLES = {TERNION: SERIES_STYLE, MATH: ("#bb77bb", ' stroke-width="2" stroke-dasharray="7 4"'), CUDNN: BASELINE_STYLE}
# Titles that are not the name with spaces.
TITLES = {
    TERNION: "Ternion's attention",
    MATH: "PyTorch, math",
    CUDNN: "PyTorch, cuDNN",
    "mma": "mma.sync",
    "ping_pong": "ping-pong",
    "warp_specialized": "warp-specialized",
}
# Key of a result line -> title and divisor.
QUANTITIES = {
    "memory_bytes": ("memory, MiB", 2**20),
    "moved_bytes": ("global memory traffic by the model, GB", 1e9),
    "tokens_per_second": ("million tokens/s", 1e6),
}
# The head width and mask for which all QUANTITIES are reported, if it was measured.
DETAILED_SETTING = ("d128", "full")

Setting = collections.namedtuple("Setting", "dtype width mask")


class SettingResults:
    """The results of one dtype, width and mask: TFLOP/s and quantities by rung and tokens."""

    def __init__(self, setting):
        self.setting, self.rates, self.quantities, self.single_calls = setting, {}, {}, set()

    def add(self, rung, tokens, lines):
        self.rates.setdefault(rung, {})[tokens] = statistics.median(line["value"] for line in lines)
        for field in QUANTITIES:
            values = [line[field] for line in lines if field in line]
            if values:
                self.quantities.setdefault(field, {}).setdefault(rung, {})[tokens] = statistics.median(values)
        if any(line.get("calls") == 1 for line in lines):
            self.single_calls.add((rung, tokens))

    def tokens(self):
        return sorted({tokens for rates in self.rates.values() for tokens in rates})

    def rungs(self):
        """Returns the rungs in the order of measurement, followed by the references."""
        return sorted(self.rates, key=lambda rung: REFERENCES.index(rung) if rung in REFERENCES else -1)

    def baseline(self):
        """Returns the baseline: cuDNN if it supports the dtype, otherwise the composition."""
        return next((baseline for baseline in (CUDNN, MATH) if baseline in self.rates), None)

    def heading(self):
        return f"{self.setting.dtype}, width {self.setting.width[1:]}, {self.setting.mask}"


def group_results(lines):
    """Returns the results of each setting, and the errors."""
    lines_by_case, errors = group_lines(lines, FAMILY, 5)
    results_by_setting = {}
    for (dtype, width, mask, rung, tokens), group in lines_by_case.items():
        setting = Setting(dtype, width, mask)
        results_by_setting.setdefault(setting, SettingResults(setting)).add(rung, int(tokens), group)
    return list(results_by_setting.values()), errors


def format_title(rung):
    return TITLES.get(rung, rung.replace("_", " "))


def header_lines(first, columns):
    return [format_row([first, *columns]), format_row(["---", *["---:"] * len(columns)])]


def rate_table(results):
    """Returns a table with a row for each rung, a column for each number of tokens, and the
    percentage of the baseline at the largest number of tokens that the baseline supports.
    """
    tokens, baseline = results.tokens(), results.baseline()
    largest = max(results.rates[baseline]) if baseline else None
    lines = header_lines(f"{results.heading()}, TFLOP/s", [*map(str, tokens), *([f"of {format_title(baseline)} at {largest}"] if baseline else [])])
    for rung in results.rungs():
        rates = results.rates[rung]
        cells = [format_digits(rates[count]) + ("*" if (rung, count) in results.single_calls else "") if count in rates else "" for count in tokens]
        if baseline:
            cells.append(f"{100 * rates[largest] / results.rates[baseline][largest]:.1f} %" if largest in rates else "")
        lines.append(format_row([format_title(rung), *cells]))
    return [*lines, ""]


def detailed_settings(all_results):
    """Returns the results for which all quantities are reported: those of DETAILED_SETTING, or all
    if it was not measured.
    """
    return [results for results in all_results if (results.setting.width, results.setting.mask) == DETAILED_SETTING] or all_results


def quantity_table(all_results, field):
    """Returns a table of a quantity, with a row for each dtype and rung and a column for each
    number of tokens.
    """
    label, divisor = QUANTITIES[field]
    measured = [results for results in detailed_settings(all_results) if field in results.quantities]
    if not measured:
        return []
    tokens = sorted({count for results in measured for values in results.quantities[field].values() for count in values})
    lines = header_lines(f"width {measured[0].setting.width[1:]}, {measured[0].setting.mask}: {label}", [*map(str, tokens)])
    for results in measured:
        for rung in [rung for rung in results.rungs() if rung in results.quantities[field]]:
            values = results.quantities[field][rung]
            cells = [format_digits(values[count] / divisor) if count in values else "" for count in tokens]
            lines.append(format_row([f"{results.setting.dtype}, {format_title(rung)}", *cells]))
    return [*lines, ""]


def render(lines, pictures):
    all_results, errors = group_results(lines)
    text = [run_sentence(lines), "", f"![TFLOP/s of every form by tokens]({pictures[0]})", ""]
    if has_memory(all_results):
        text += [f"![Memory of every form by tokens]({pictures[1]})", ""]
    for results in all_results:
        text += rate_table(results)
    if any(results.single_calls for results in all_results):
        text += ["\\* one call, which took longer than 100 ms; all others are medians.", ""]
    without_baseline = [results.heading() for results in all_results if not results.baseline()]
    if without_baseline:
        text += [f"No peer was measured in this run: {'; '.join(without_baseline)}.", ""]
    for field in QUANTITIES:
        text += quantity_table(all_results, field)
    return [*text, *[f"- {error}".replace("\n", " ") for error in errors], *([""] if errors else [])]


def update_page(text, lines, pictures):
    """Returns the page with the tables between its markers."""
    return replace_between_markers(text, MARKERS, "\n".join(render(lines, pictures)))


# ---------------------------------------------------------------- the plots


def format_points(points):
    return ", ".join(f"{format_digits(value)} at {tokens}" for tokens, value in sorted(points.items()))


def rate_panel(results, top):
    """Returns the panel of a setting's TFLOP/s."""
    rungs = results.rungs()
    rung_count = sum(rung not in REFERENCES for rung in rungs)
    series = []
    for index, rung in enumerate(rungs):
        rates = results.rates[rung]
        series.append(Series(format_title(rung), rates, format_points(rates), *STYLES.get(rung, series_style(index, rung_count))))
    return Panel(f"{results.heading()}: TFLOP/s", "tokens", series, top)


def has_memory(all_results):
    return any("memory_bytes" in results.quantities for results in detailed_settings(all_results))


def memory_series(all_results):
    """Returns (names, points) for each line of MiB by tokens. Rungs with equal memory share a line,
    such as all that do not store scores.
    """
    _, divisor = QUANTITIES["memory_bytes"]
    names_by_points = {}
    for results in detailed_settings(all_results):
        for rung, values in results.quantities.get("memory_bytes", {}).items():
            points = {tokens: value / divisor for tokens, value in values.items()}
            name = f"{results.setting.dtype}, {format_title(rung)}"
            names_by_points.setdefault((rung in REFERENCES, results.setting.dtype, tuple(sorted(points.items()))), []).append((rung, name))
    return [(names, dict(points)) for (_, _, points), names in names_by_points.items()]


def memory_panel(all_results, top):
    series_points = memory_series(all_results)
    rung_count = sum(names[0][0] not in REFERENCES for names, _ in series_points)
    series = []
    for index, (names, points) in enumerate(series_points):
        separator = " and " if len(names) == 2 else " to "
        label = names[0][1] if len(names) == 1 else f"{names[0][1]}{separator}{format_title(names[-1][0])}"
        series.append(Series(label, points, format_points(points), *STYLES.get(names[0][0], series_style(min(index, rung_count - 1), rung_count))))
    width, mask = detailed_settings(all_results)[0].setting[1:]
    return Panel(f"width {width[1:]}, {mask}: MiB of operands, result and workspace", "tokens", series, top, is_logarithmic=True)


def write_page(args):
    lines = read_single_run(args.results)
    all_results, _ = group_results(lines)
    if not all_results:
        raise SystemExit(f"error: {', '.join(map(str, args.results))}: no measured case of the ladder of attention")
    rate_picture = args.page.with_suffix(".svg")
    memory_picture = args.page.with_name(args.page.stem + "-memory.svg")
    text = update_page(args.page.read_text(encoding="utf-8"), lines, (rate_picture.name, memory_picture.name))
    # A panel for each dtype and mask of the detailed width.
    width = detailed_settings(all_results)[0].setting.width
    write_atomically(rate_picture, render_panels([functools.partial(rate_panel, results) for results in all_results if results.setting.width == width]))
    if has_memory(all_results):
        write_atomically(memory_picture, render_panels([functools.partial(memory_panel, all_results)]))
    write_atomically(args.page, text)


def main():
    run_write_command(__doc__, "results of compare.py run", write_page)


if __name__ == "__main__":
    main()
