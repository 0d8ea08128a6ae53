#!/usr/bin/env python3
"""The attention ladder: TFLOP/s, memory and bytes moved of every rung by tokens, compared with
PyTorch, as tables and as two pictures.

    compare.py run --bundle DIR --families attention_ladder --out attention_ladder.jsonl
        on the GPU machine: measures the rungs, Ternion's and PyTorch's attention
    attention_ladder.py write attention_ladder.jsonl.. docs/kernels/attention-ladder.md
        anywhere: writes the tables between the page's markers, and attention-ladder.svg and
        attention-ladder-memory.svg next to the page

All of them show the same records: medians of all rounds in the files. `write` needs only Python's
standard library.
"""

import collections
import functools
import statistics

from charts import OWN, PEER, Panel, Series, drawing, plain
from compare import read_one_run, replace
from ladder import measured
from pages import about, between_markers, digits, row_of, write_of

MARKERS = START, END = "<!-- attention-ladder:start -->", "<!-- attention-ladder:end -->"
FAMILY = "attention_ladder"
# Implementations that are not rungs: Ternion's attention op, and PyTorch's by its backends.
TERNION, MATH, CUDNN = "ternion", "math", "cudnn"
APART = (TERNION, MATH, CUDNN)
DRAWN = {TERNION: OWN, MATH: ("#bb77bb", ' stroke-width="2" stroke-dasharray="7 4"'), CUDNN: PEER}
# Titles of names whose words are not the title.
TITLES = {TERNION: "Ternion's attention", MATH: "PyTorch, math", CUDNN: "PyTorch, cuDNN", "mma": "mma.sync", "ping_pong": "ping-pong", "warp_specialized": "warp-specialized"}
# A field of a record -> its name on the page, and its divisor.
AMOUNTS = {
    "memory_bytes": ("memory, MiB", 2**20),
    "moved_bytes": ("global memory traffic by the model, GB", 1e9),
    "tokens_per_second": ("million tokens/s", 1e6),
}
# The setting for which all of AMOUNTS are reported and drawn, if it was measured: wide heads
# without a mask.
DETAILED = ("d128", "full")

Setting = collections.namedtuple("Setting", "dtype width mask")


class Rungs:
    """The records of one dtype, width and mask: TFLOP/s, and amounts, by rung and number of tokens.
    """

    def __init__(self, setting):
        self.setting, self.rates, self.amounts, self.single = setting, {}, {}, set()

    def add(self, form, tokens, ones):
        self.rates.setdefault(form, {})[tokens] = statistics.median(one["value"] for one in ones)
        for field in AMOUNTS:
            found = [one[field] for one in ones if field in one]
            if found:
                self.amounts.setdefault(field, {}).setdefault(form, {})[tokens] = statistics.median(found)
        if any(one.get("calls") == 1 for one in ones):
            self.single.add((form, tokens))

    def tokens(self):
        return sorted({tokens for rates in self.rates.values() for tokens in rates})

    def forms(self):
        """Returns the rungs as they were measured, followed by the other implementations."""
        return sorted(self.rates, key=lambda form: APART.index(form) if form in APART else -1)

    def peer(self):
        """Returns the peer that the rungs are compared with: cuDNN if it supports the dtype,
        otherwise the composition.
        """
        return next((peer for peer in (CUDNN, MATH) if peer in self.rates), None)

    def heading(self):
        return f"{self.setting.dtype}, width {self.setting.width[1:]}, {self.setting.mask}"


def rungs(lines):
    """Returns the rungs of the records, and what could not be measured."""
    found, errors = measured(lines, FAMILY, 5)
    made = {}
    for (dtype, width, mask, form, tokens), ones in found.items():
        setting = Setting(dtype, width, mask)
        made.setdefault(setting, Rungs(setting)).add(form, int(tokens), ones)
    return list(made.values()), errors


def title(form):
    return TITLES.get(form, form.replace("_", " "))


def head(first, columns):
    return [row_of([first, *columns]), row_of(["---", *["---:"] * len(columns)])]


def rate_table(one):
    """Returns a row for each rung, a column for each number of tokens, and the fraction of the
    peer's rate at the most tokens that it supports.
    """
    tokens, peer = one.tokens(), one.peer()
    last = max(one.rates[peer]) if peer else None
    lines = head(f"{one.heading()}, TFLOP/s", [*map(str, tokens), *([f"of {title(peer)} at {last}"] if peer else [])])
    for form in one.forms():
        rates = one.rates[form]
        cells = [digits(rates[number]) + ("*" if (form, number) in one.single else "") if number in rates else "" for number in tokens]
        if peer:
            cells.append(f"{100 * rates[last] / one.rates[peer][last]:.1f} %" if last in rates else "")
        lines.append(row_of([title(form), *cells]))
    return [*lines, ""]


def detailed(made):
    """Returns the settings for which all amounts are reported: those of DETAILED, or all that were
    measured.
    """
    return [one for one in made if (one.setting.width, one.setting.mask) == DETAILED] or made


def amount_table(made, field):
    """Returns a row for each rung of all dtypes, and a column for each number of tokens."""
    what, divisor = AMOUNTS[field]
    having = [one for one in detailed(made) if field in one.amounts]
    if not having:
        return []
    tokens = sorted({number for one in having for amounts in one.amounts[field].values() for number in amounts})
    lines = head(f"width {having[0].setting.width[1:]}, {having[0].setting.mask}: {what}", [*map(str, tokens)])
    for one in having:
        for form in [form for form in one.forms() if form in one.amounts[field]]:
            amounts = one.amounts[field][form]
            cells = [digits(amounts[number] / divisor) if number in amounts else "" for number in tokens]
            lines.append(row_of([f"{one.setting.dtype}, {title(form)}", *cells]))
    return [*lines, ""]


def body(lines, pictures):
    made, errors = rungs(lines)
    text = [about(lines), "", f"![TFLOP/s of every form by tokens]({pictures[0]})", ""]
    if has_memory(made):
        text += [f"![Memory of every form by tokens]({pictures[1]})", ""]
    for one in made:
        text += rate_table(one)
    if any(one.single for one in made):
        text += ["\\* one call, which took longer than 100 ms; all others are medians.", ""]
    alone = [one.heading() for one in made if not one.peer()]
    if alone:
        text += [f"No peer was measured in this run: {'; '.join(alone)}.", ""]
    for field in AMOUNTS:
        text += amount_table(made, field)
    return [*text, *[f"- {error}".replace("\n", " ") for error in errors], *([""] if errors else [])]


def page(text, lines, pictures):
    """Returns the page with the tables between its markers."""
    return between_markers(text, MARKERS, "\n".join(body(lines, pictures)))


# ---------------------------------------------------------------- the pictures


def values_of(points):
    return ", ".join(f"{digits(value)} at {tokens}" for tokens, value in sorted(points.items()))


def rate_panel(one, top):
    """Returns the panel of a setting's TFLOP/s."""
    forms = one.forms()
    count = sum(form not in APART for form in forms)
    series = []
    for number, form in enumerate(forms):
        rates = one.rates[form]
        series.append(Series(title(form), rates, values_of(rates), *DRAWN.get(form, plain(number, count))))
    return Panel(f"{one.heading()}: TFLOP/s", "tokens", series, top)


def has_memory(made):
    return any("memory_bytes" in one.amounts for one in detailed(made))


def memory_of(made):
    """Returns lines of MiB by tokens. Rungs with equal memory, as all that do not store scores,
    share a line: (names, points).
    """
    _, divisor = AMOUNTS["memory_bytes"]
    shared = {}
    for one in detailed(made):
        for form, amounts in one.amounts.get("memory_bytes", {}).items():
            points = {tokens: amount / divisor for tokens, amount in amounts.items()}
            name = f"{one.setting.dtype}, {title(form)}"
            shared.setdefault((form in APART, one.setting.dtype, tuple(sorted(points.items()))), []).append((form, name))
    return [(names, dict(points)) for (_, _, points), names in shared.items()]


def memory_panel(made, top):
    found = memory_of(made)
    count = sum(names[0][0] not in APART for names, _ in found)
    series = []
    for number, (names, points) in enumerate(found):
        between = " and " if len(names) == 2 else " to "
        label = names[0][1] if len(names) == 1 else f"{names[0][1]}{between}{title(names[-1][0])}"
        series.append(Series(label, points, values_of(points), *DRAWN.get(names[0][0], plain(min(number, count - 1), count))))
    width, mask = detailed(made)[0].setting[1:]
    return Panel(f"width {width[1:]}, {mask}: MiB of operands, result and scratch", "tokens", series, top, is_logarithmic=True)


def write(given):
    lines = read_one_run(given.results)
    made, _ = rungs(lines)
    if not made:
        raise SystemExit(f"error: {', '.join(map(str, given.results))}: no measured case of the ladder of attention")
    rates = given.page.with_suffix(".svg")
    memory = given.page.with_name(given.page.stem + "-memory.svg")
    text = page(given.page.read_text(encoding="utf-8"), lines, (rates.name, memory.name))
    # A picture for each dtype and mask of the width that is reported in full.
    width = detailed(made)[0].setting.width
    replace(rates, drawing([functools.partial(rate_panel, one) for one in made if one.setting.width == width]))
    if has_memory(made):
        replace(memory, drawing([functools.partial(memory_panel, made)]))
    replace(given.page, text)


def main():
    write_of(__doc__, "what compare.py run measured", write)


if __name__ == "__main__":
    main()
