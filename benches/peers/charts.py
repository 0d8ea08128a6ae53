"""Line charts as SVG: panels in a column, with logarithmic sizes along x and a line for each
series, whose name is at its end.
"""

import collections
import html
import math

WIDTH, HEIGHT = 930, 460
# RIGHT is the width of the names of lines, of up to 30 letters.
LEFT, RIGHT, TOP, BOTTOM = 60, 220, 40, 50
# The distance between labels at the ends of lines.
SPACING = 15
# The colors from the first series to the last one: dark blue, green, orange, red.
SCALE = [(49, 54, 149), (33, 130, 141), (84, 160, 60), (224, 140, 20), (190, 30, 45)]

# A line: its name, its values by size, and its style. `values` are the same as text, for the
# tooltip.
Series = collections.namedtuple("Series", "label points values stroke style")

# The styles of series that others are compared with.
PEER = ("#000000", ' stroke-width="2" stroke-dasharray="7 4"')
OWN = ("#777777", ' stroke-width="2" stroke-dasharray="2 3"')


def color(at, count):
    """Returns the color of the series with index `at` of `count`."""
    if count < 2:
        return "rgb({},{},{})".format(*SCALE[0])
    position = at / (count - 1) * (len(SCALE) - 1)
    index = min(int(position), len(SCALE) - 2)
    part = position - index
    mixed = [round(one + (other - one) * part) for one, other in zip(SCALE[index], SCALE[index + 1])]
    return "rgb({},{},{})".format(*mixed)


def plain(at, count):
    """Returns the style of the series with index `at` of `count`."""
    return color(at, count), ' stroke-width="2"'


def spread(wanted, least, most):
    """Returns heights of labels near `wanted`, at least SPACING apart, in the same order."""
    order = sorted(range(len(wanted)), key=lambda at: wanted[at])
    heights = [0.0] * len(wanted)
    before = least - SPACING
    for at in order:
        before = heights[at] = max(wanted[at], before + SPACING)
    # Labels beyond the bottom are pushed back up.
    after = most + SPACING
    for at in reversed(order):
        after = heights[at] = min(heights[at], after - SPACING)
    return heights


def step_of(most):
    """Returns the step between marks of an axis that ends at `most`: 1, 2 or 5 times a power of
    ten, so that there are four to ten marks.
    """
    power = 10 ** math.floor(math.log10(most / 4))
    return max(step for step in (power, 2 * power, 5 * power) if step * 4 <= most * 1.0001)


class Panel:
    """One picture: a heading, the name of the sizes, and the series. The y axis starts at 0, or is
    logarithmic.
    """

    def __init__(self, heading, axis, series, top, is_logarithmic=False):
        self.heading, self.axis, self.series, self.top, self.is_logarithmic = heading, axis, series, top, is_logarithmic
        self.parts = []
        self.sizes = sorted({size for one in series for size in one.points})
        values = [value for one in series for value in one.points.values()]
        self.most = max(values) * 1.05
        if is_logarithmic:
            self.least, self.most = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.0001))

    def x(self, size):
        first, last = math.log2(self.sizes[0]), math.log2(self.sizes[-1])
        share = (math.log2(size) - first) / (last - first) if last > first else 0.5
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        share = math.log(value / self.least) / math.log(self.most / self.least) if self.is_logarithmic else value / self.most
        return self.bottom() - share * (HEIGHT - TOP - BOTTOM)

    def bottom(self):
        return self.top + HEIGHT - BOTTOM

    def marks(self):
        """Returns the values that have a grid line."""
        if self.is_logarithmic:
            decades = round(math.log10(self.most / self.least))
            return [self.least * 10**number for number in range(decades + 1)]
        step = step_of(self.most)
        return [number * step for number in range(int(self.most / step) + 1)]

    def text(self, x, y, words, anchor="start", more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{html.escape(words)}</text>')

    def line(self, x1, y1, x2, y2, stroke):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>')

    def axes(self):
        self.text(LEFT, self.top + 22, self.heading, more=' font-size="14" font-weight="bold"')
        for number, mark in enumerate(self.marks()):
            y = self.y(mark)
            self.line(LEFT, y, WIDTH - RIGHT, y, "#dddddd" if number else "#444444")
            self.text(LEFT - 8, y + 4, f"{mark:g}", "end")
        for size in self.sizes:
            self.line(self.x(size), self.bottom(), self.x(size), self.bottom() + 5, "#444444")
            self.text(self.x(size), self.bottom() + 20, str(size), "middle")
        self.text((LEFT + WIDTH - RIGHT) / 2, self.bottom() + 38, self.axis, "middle")

    def lines(self):
        ends = []
        for one in self.series:
            points = [(self.x(size), self.y(value)) for size, value in sorted(one.points.items())]
            values = html.escape(f"{one.label}: {one.values}")
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            self.parts.append(f'<polyline points="{path}" fill="none" stroke="{one.stroke}"{one.style}><title>{values}</title></polyline>')
            self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{one.stroke}"/>' for x, y in points]
            ends.append(points[-1])
        self.labels(ends)

    def labels(self, ends):
        """Draws the names at the ends of their lines, moved apart where they would overlap."""
        heights = spread([y for _, y in ends], self.top + TOP, self.bottom())
        for one, (x, y), height in zip(self.series, ends, heights):
            self.line(x + 4, y, WIDTH - RIGHT + 18, height, one.stroke)
            self.text(WIDTH - RIGHT + 22, height + 4, one.label, more=f' fill="{one.stroke}"')

    def drawn(self):
        self.axes()
        self.lines()
        return self.parts


def drawing(panels):
    """Returns panels in a column; `panels` are functions of a panel's top position."""
    parts = [part for number, panel in enumerate(panels) for part in panel(number * HEIGHT).drawn()]
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(panels)}" font-family="sans-serif" font-size="12">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"
