"""The tables of docs/benchmarks.md as numbers, for plots.py."""

import re

import readme


class PlotError(Exception):
    """A figure cannot be drawn from what is committed."""


class MissingRecord(PlotError):
    """The records of a figure have not been committed yet."""


# Block of the page -> its markers.
BLOCKS = {
    "gpu": ("<!-- gpu:start -->", "<!-- gpu:end -->"),
    "wgpu": ("<!-- wgpu:start -->", "<!-- wgpu:end -->"),
    "cpu": ("<!-- table:cpu -->", "<!-- end:cpu -->"),
}
RATE = re.compile(r"([\d.,]+) (TFLOP/s|GB/s|images/s|tokens/s)")


class Case:
    """A row of a table: times in seconds by column, and the rate of Ternion."""

    def __init__(self, name, cells, own_column):
        self.name, self.cells = name, cells
        self.times = {column: seconds for column, cell in cells.items() if (seconds := readme.parse_seconds(cell))}
        self.own_column = own_column
        match = RATE.match(cells.get("rate", ""))
        self.own_rate, self.unit = (float(match[1].replace(",", "")), match[2]) if match else (None, "")

    def own_time(self):
        return self.times.get(self.own_column)

    def rate(self, column):
        """Returns the rate of a column, or None. That of others follows from the ratio of times."""
        if column == self.own_column:
            return self.own_rate
        if not self.own_rate or not self.own_time() or column not in self.times:
            return None
        return self.own_rate * self.own_time() / self.times[column]

    def speed(self, column):
        """Returns the speed of Ternion relative to a column, or None."""
        if not self.own_time() or column not in self.times:
            return None
        return self.times[column] / self.own_time()


class Block:
    """The tables between two markers of the page."""

    def __init__(self, name, text):
        start, end = self.markers = BLOCKS[name]
        if text.count(start) != 1 or text.count(end) != 1:
            raise PlotError(f"{readme.PAGE.name}: expected {start} and {end} once each")
        self.name, self.text = name, text.split(start)[1].split(end)[0]

    def provenance(self):
        """Returns the line about device, versions, commit and date."""
        lines = [line for line in self.text.splitlines() if re.search(r"\bcommit [0-9a-f]{7,40}\b", line) and not line.startswith("|")]
        if not lines:
            raise PlotError(f"{readme.PAGE.name}: block {self.name}: no line states device and commit")
        return lines[0]

    def cases(self, heading=None, own_column="Ternion"):
        """Returns the cases by name of the section with this heading, or of the whole block."""
        text = self.text
        if heading:
            match = re.search(rf"^#+ {re.escape(heading)}\n(.*?)(?=^#+ |\Z)", text, re.M | re.S)
            if not match:
                raise PlotError(f"{readme.PAGE.name}: block {self.name}: no section {heading}")
            text = match[1]
        cases = {name: Case(name, cells, own_column) for name, cells in readme.parse_tables(text).items() if name.strip(":-")}
        if not cases:
            raise PlotError(f"{readme.PAGE.name}: block {self.name}: {heading or 'the block'} has no table of cases")
        return cases


def series(cases, pattern, column):
    """Returns the rates of a column by size. `pattern` has a group for the size.

    Raises:
        PlotError: no case matches, or none has a rate in this column.
    """
    matches = [(match, case) for name, case in cases.items() if (match := re.fullmatch(pattern, name))]
    points = {int(match[1]): rate for match, case in matches if (rate := case.rate(column))}
    if not points:
        reason = f"no rate in the column {column}" if matches else "no such case"
        raise PlotError(f"{readme.PAGE.name}: {pattern}: {reason}")
    return points
