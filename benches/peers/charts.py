"""Line charts as SVG: a column of panels with a logarithmic x axis of sizes. Each series is a line
with its name at the end.
"""

import collections
import html
import math

WIDTH, HEIGHT = 930, 460
# RIGHT is the width of the names at the ends of lines, of up to 30 letters.
LEFT, RIGHT, TOP, BOTTOM = 60, 220, 40, 50
# Minimum distance between labels at the ends of lines.
SPACING = 15
# Colors from the first series to the last: dark blue, green, orange, red.
COLOR_SCALE = [(49, 54, 149), (33, 130, 141), (84, 160, 60), (224, 140, 20), (190, 30, 45)]

# A line: its name, its values by size, the same values as text for the tooltip, and its style.
Series = collections.namedtuple("Series", "label points values stroke style")

# Styles of the series that the others are compared with.
BASELINE_STYLE = ("#000000", ' stroke-width="2" stroke-dasharray="7 4"')
SERIES_STYLE = ("#777777", ' stroke-width="2" stroke-dasharray="2 3"')


def series_color(index, count):
    """Returns the color of series `index` of `count`."""
    if count < 2:
        return "rgb({},{},{})".format(*COLOR_SCALE[0])
    position = index / (count - 1) * (len(COLOR_SCALE) - 1)
    lower = min(int(position), len(COLOR_SCALE) - 2)
    fraction = position - lower
    mixed = [round(low + (high - low) * fraction) for low, high in zip(COLOR_SCALE[lower], COLOR_SCALE[lower + 1])]
    return "rgb({},{},{})".format(*mixed)


def series_style(index, count):
    """Returns color and line style of series `index` of `count`."""
    return series_color(index, count), ' stroke-width="2"'


def spread_labels(targets, top, bottom):
    """Returns y positions of labels near `targets`, at least SPACING apart, in the same order."""
    order = sorted(range(len(targets)), key=lambda index: targets[index])
    heights = [0.0] * len(targets)
    previous = top - SPACING
    for index in order:
        previous = heights[index] = max(targets[index], previous + SPACING)
    # Labels below the bottom are moved back up.
    next_height = bottom + SPACING
    for index in reversed(order):
        next_height = heights[index] = min(heights[index], next_height - SPACING)
    return heights


def axis_step(max_value):
    """Returns the distance between the marks of an axis that ends at `max_value`: 1, 2 or 5 times a
    power of ten that gives four to ten marks.
    """
    power = 10 ** math.floor(math.log10(max_value / 4))
    return max(step for step in (power, 2 * power, 5 * power) if step * 4 <= max_value * 1.0001)


class Panel:
    """One chart: heading, title of the x axis, and series. The y axis starts at 0 or is
    logarithmic.
    """

    def __init__(self, heading, axis, series, top, is_logarithmic=False):
        self.heading, self.axis, self.series, self.top, self.is_logarithmic = heading, axis, series, top, is_logarithmic
        self.parts = []
        self.sizes = sorted({size for line in series for size in line.points})
        values = [value for line in series for value in line.points.values()]
        self.max_value = max(values) * 1.05
        if is_logarithmic:
            self.min_value, self.max_value = 10 ** math.floor(math.log10(min(values))), 10 ** math.ceil(math.log10(max(values) * 1.0001))

    def x(self, size):
        first, last = math.log2(self.sizes[0]), math.log2(self.sizes[-1])
        fraction = (math.log2(size) - first) / (last - first) if last > first else 0.5
        return LEFT + fraction * (WIDTH - LEFT - RIGHT)

    def y(self, value):
        fraction = math.log(value / self.min_value) / math.log(self.max_value / self.min_value) if self.is_logarithmic else value / self.max_value
        return self.bottom() - fraction * (HEIGHT - TOP - BOTTOM)

    def bottom(self):
        return self.top + HEIGHT - BOTTOM

    def axis_marks(self):
        """Returns the values with a grid line."""
        if self.is_logarithmic:
            decades = round(math.log10(self.max_value / self.min_value))
            return [self.min_value * 10**number for number in range(decades + 1)]
        step = axis_step(self.max_value)
        return [number * step for number in range(int(self.max_value / step) + 1)]

    def draw_text(self, x, y, content, anchor="start", attributes=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{attributes}>{html.escape(content)}</text>')

    def draw_line(self, x1, y1, x2, y2, stroke):
        self.parts.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>')

    def draw_axes(self):
        self.draw_text(LEFT, self.top + 22, self.heading, attributes=' font-size="14" font-weight="bold"')
        for number, mark in enumerate(self.axis_marks()):
            y = self.y(mark)
            self.draw_line(LEFT, y, WIDTH - RIGHT, y, "#dddddd" if number else "#444444")
            self.draw_text(LEFT - 8, y + 4, f"{mark:g}", "end")
        for size in self.sizes:
            self.draw_line(self.x(size), self.bottom(), self.x(size), self.bottom() + 5, "#444444")
            self.draw_text(self.x(size), self.bottom() + 20, str(size), "middle")
        self.draw_text((LEFT + WIDTH - RIGHT) / 2, self.bottom() + 38, self.axis, "middle")

    def draw_lines(self):
        ends = []
        for series in self.series:
            points = [(self.x(size), self.y(value)) for size, value in sorted(series.points.items())]
            values = html.escape(f"{series.label}: {series.values}")
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
            self.parts.append(f'<polyline points="{path}" fill="none" stroke="{series.stroke}"{series.style}><title>{values}</title></polyline>')
            self.parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{series.stroke}"/>' for x, y in points]
            ends.append(points[-1])
        self.draw_labels(ends)

    def draw_labels(self, ends):
        """Draws the names at the ends of the lines, without overlap."""
        heights = spread_labels([y for _, y in ends], self.top + TOP, self.bottom())
        for series, (x, y), height in zip(self.series, ends, heights):
            self.draw_line(x + 4, y, WIDTH - RIGHT + 18, height, series.stroke)
            self.draw_text(WIDTH - RIGHT + 22, height + 4, series.label, attributes=f' fill="{series.stroke}"')

    def render(self):
        self.draw_axes()
        self.draw_lines()
        return self.parts


def render_panels(panels):
    """Returns the SVG of a column of panels. `panels` are functions from a top position to a Panel.
    """
    parts = [part for index, panel in enumerate(panels) for part in panel(index * HEIGHT).render()]
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT * len(panels)}" font-family="sans-serif" font-size="12">'
    return "\n".join([opening, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>"]) + "\n"
