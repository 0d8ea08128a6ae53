"""Figures as SVG: a title, a legend, panels in columns, and a caption.

Colors follow the reader's light or dark mode. The background belongs to the figure, so that it is
readable on pages of either color. Text is placed by an upper estimate of its width.
"""

import collections
import html
import math

from charts import axis_step

WIDTH, MARGIN, GAP = 960, 16, 22
# Name of a color -> in light mode, in dark mode. Colors of text and series differ enough from the
# page to be read (test_plots.py).
COLORS = {
    "page": ("#ffffff", "#0d1117"),
    "text": ("#24292f", "#e6edf3"),
    "muted": ("#57606a", "#9198a1"),
    "grid": ("#d8dee4", "#30363d"),
    "pale": ("#b3bcc6", "#505862"),
    "blue": ("#0969da", "#58a6ff"),
    "teal": ("#137480", "#56d4dd"),
    "green": ("#1a7f37", "#3fb950"),
    "orange": ("#bc4c00", "#f0883e"),
    "purple": ("#8250df", "#bc8cff"),
    "red": ("#cf222e", "#ff7b72"),
}
# Font size of each kind of text.
SIZES = {"title": 16, "heading": 13, "label": 12, "small": 11}
# Widths of characters in DejaVu Sans, which is wide, as a fraction of the font size.
NARROW, CAPITALS, WIDE = " .,:;'|()[]/-fijlrtI", "ABCDEFGHJKLNOPQRSTUVXYZ", "mwMW%="

# How an implementation is drawn: its name in the legend, a color, and for lines the dashes, the
# shape of the points (None: no points) and the width.
Style = collections.namedtuple("Style", "name color dash shape width", defaults=("", "circle", 2))


def text_width(content, kind):
    """Returns an upper estimate of the width of a text."""
    widths = (0.42 if one in NARROW else 0.72 if one in CAPITALS else 0.98 if one in WIDE else 0.64 for one in content)
    return sum(widths) * SIZES[kind] * (1.1 if kind in ("title", "heading") else 1.0)


def wrap(content, kind, width):
    """Returns the lines of a text, broken after commas or spaces."""
    lines = [""]
    for word in content.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if text_width(longer, kind) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def number(value):
    """Formats the number of a mark."""
    return f"{value:g}" if value == 0 or value >= 0.01 else f"{value:.0e}".replace("e-0", "e-")


def style_sheet():
    """Returns the colors and fonts as CSS, for both modes."""

    def colors(mode):
        rules = [f".f-{name}{{fill:{values[mode]}}}.s-{name}{{stroke:{values[mode]}}}" for name, values in COLORS.items()]
        # Points may be on a bar or on each other: they have an outline in the color of the page.
        return "".join([*rules, f".point{{stroke:{COLORS['page'][mode]}}}"])

    fonts = "".join(f".{kind}{{font-size:{size}px}}" for kind, size in SIZES.items())
    bold = ".title,.heading{font-weight:600}"
    text = "text{font-family:system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}"
    return f"{text}{fonts}{bold}.point{{stroke-width:1}}{colors(0)}@media(prefers-color-scheme:dark){{{colors(1)}}}"


class Canvas:
    """The elements of a figure."""

    def __init__(self):
        self.parts = []

    def text(self, x, y, content, kind="label", color="text", anchor="start", is_vertical=False):
        if not content:
            return
        turn = f' transform="rotate(-90 {x:.1f} {y:.1f})"' if is_vertical else ""
        place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
        self.parts.append(f'<text class="{kind} f-{color}" {place}{turn}>{html.escape(content)}</text>')

    def line(self, x1, y1, x2, y2, color, attributes=""):
        self.parts.append(f'<line class="s-{color}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"{attributes}/>')

    def rectangle(self, x, y, width, height, color, title=""):
        content = f"><title>{html.escape(title)}</title></rect>" if title else "/>"
        self.parts.append(f'<rect class="f-{color}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}"{content}')

    def polyline(self, points, style, title):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dash = f' stroke-dasharray="{style.dash}"' if style.dash else ""
        drawn = f'class="s-{style.color}" fill="none" stroke-width="{style.width}"{dash} stroke-linejoin="round"'
        self.parts.append(f'<polyline {drawn} points="{path}"><title>{html.escape(title)}</title></polyline>')

    def point(self, x, y, style, title=""):
        """Draws a point in the shape of a style."""
        corners = {
            "square": [(-3.8, -3.8), (3.8, -3.8), (3.8, 3.8), (-3.8, 3.8)],
            "diamond": [(0, -5.2), (5.2, 0), (0, 5.2), (-5.2, 0)],
            "triangle": [(0, -5), (4.8, 3.8), (-4.8, 3.8)],
            "tick": [(-1.5, -7), (1.5, -7), (1.5, 7), (-1.5, 7)],
        }
        content = f"><title>{html.escape(title)}</title></" if title else "/>"
        if style.shape in corners:
            path = " ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in corners[style.shape])
            self.parts.append(f'<polygon class="f-{style.color} point" points="{path}"{content}{"polygon>" if title else ""}')
        else:
            drawn = f'class="f-{style.color}" r="1.6"' if style.shape == "dot" else f'class="f-{style.color} point" r="4"'
            self.parts.append(f'<circle {drawn} cx="{x:.1f}" cy="{y:.1f}"{content}{"circle>" if title else ""}')


class Axis:
    """A range of values and its marks."""

    def __init__(self, low, high, marks, is_logarithmic=False):
        self.low, self.high, self.marks, self.is_logarithmic = low, high, marks, is_logarithmic

    @classmethod
    def from_zero(cls, high):
        """Returns a linear axis from 0."""
        step = axis_step(high)
        return cls(0.0, high, [number * step for number in range(int(high / step + 1e-9) + 1)])

    @classmethod
    def of_decades(cls, values):
        """Returns a logarithmic axis over the powers of ten around the values."""
        first, last = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values) * 1.0001))
        return cls(10.0**first, 10.0**last, [10.0**power for power in range(first, last + 1)], is_logarithmic=True)

    @classmethod
    def of_sizes(cls, sizes):
        """Returns a logarithmic axis with a mark at each size."""
        return cls(sizes[0], sizes[-1], sizes, is_logarithmic=True)

    def fraction(self, value):
        if self.low == self.high:
            return 0.5
        if self.is_logarithmic:
            return math.log(value / self.low) / math.log(self.high / self.low)
        return (value - self.low) / (self.high - self.low)


# A line of a panel: values by x. Values of 0 are drawn at the lower edge of a logarithmic axis.
Line = collections.namedtuple("Line", "style points")


class LinePanel:
    """Lines over sizes, on a logarithmic axis, or over steps, on a linear one."""

    LEFT, RIGHT, TOP, BOTTOM = 58, 10, 28, 44

    def __init__(self, heading, x_label, y_label, lines, over_steps=False, y_is_logarithmic=False, height=270):
        self.heading, self.x_label, self.y_label, self.lines, self.panel_height = heading, x_label, y_label, lines, height
        sizes = sorted({size for line in lines for size in line.points})
        self.x_axis = Axis.from_zero(sizes[-1]) if over_steps else Axis.of_sizes(sizes)
        values = [value for line in lines for value in line.points.values() if value > 0] or [1.0]
        self.y_axis = Axis.of_decades(values) if y_is_logarithmic else Axis.from_zero(max(values) * 1.05)

    def legend(self):
        return [(line.style, "line") for line in self.lines]

    def height(self, _width):
        return self.panel_height

    def draw(self, canvas, left, top, width, height):
        self.canvas, self.bottom, self.top = canvas, top + height - self.BOTTOM, top + self.TOP
        self.left, self.right = left + self.LEFT, left + width - self.RIGHT
        canvas.text(self.left, top + 14, self.heading, "heading")
        self.draw_y_axis(left)
        self.draw_x_axis()
        for line in self.lines:
            self.draw_line(line)
        # Where lines coincide, the dashes of the later one and the points of the first are on top.
        for line in reversed(self.lines):
            self.draw_points(line)

    def x(self, size):
        return self.left + self.x_axis.fraction(size) * (self.right - self.left)

    def y(self, value):
        if self.y_axis.is_logarithmic and value <= 0:
            return self.bottom
        return self.bottom - self.y_axis.fraction(value) * (self.bottom - self.top)

    def draw_y_axis(self, left):
        for mark in self.y_axis.marks:
            self.canvas.line(self.left, self.y(mark), self.right, self.y(mark), "grid")
            self.canvas.text(self.left - 6, self.y(mark) + 4, number(mark), "small", "muted", "end")
        self.canvas.text(left + 10, (self.top + self.bottom) / 2, self.y_label, "small", "muted", "middle", is_vertical=True)
        self.canvas.line(self.left, self.bottom, self.right, self.bottom, "muted")

    def draw_x_axis(self):
        """Draws the marks. A number without room next to the previous one is left out."""
        free = -math.inf
        for mark in self.x_axis.marks:
            half = text_width(number(mark), "small") / 2
            self.canvas.line(self.x(mark), self.bottom, self.x(mark), self.bottom + 4, "muted")
            if self.x(mark) - half > free:
                anchor = "end" if self.x(mark) + half > self.right + self.RIGHT else "middle"
                self.canvas.text(self.x(mark) + (self.RIGHT if anchor == "end" else 0), self.bottom + 17, number(mark), "small", "muted", anchor)
                free = self.x(mark) + half + 4
        self.canvas.text((self.left + self.right) / 2, self.bottom + 34, self.x_label, "small", "muted", "middle")

    def draw_line(self, line):
        points = sorted(line.points.items())
        size, value = points[-1]
        values = ", ".join(f"{value:.4g} at {size:g}" for size, value in points) if len(points) < 20 else f"{value:.6g} at {size:g}"
        if line.style.width:
            self.canvas.polyline([(self.x(size), self.y(value)) for size, value in points], line.style, f"{line.style.name}: {values}")

    def draw_points(self, line):
        for size, value in sorted(line.points.items()) if line.style.shape else []:
            self.canvas.point(self.x(size), self.y(value), line.style, f"{line.style.name}, {size:g}: {value:.4g}")


# A row of a BarPanel: its label, bars, and marks (style, value) on the first bar. A bar has its
# value and a text; `is_slower` colors the text.
Bar = collections.namedtuple("Bar", "style value text is_slower", defaults=(False,))
Row = collections.namedtuple("Row", "label bars marks", defaults=((),))


class BarPanel:
    """Horizontal bars in rows. Labels are left of the bars or, if long, above them."""

    TOP, BOTTOM, BAR = 26, 42, 12

    def __init__(self, heading, label, rows, labels_above=False, reference=None, texts_heading=""):
        self.heading, self.label, self.rows, self.labels_above = heading, label, rows, labels_above
        self.reference, self.texts_heading = reference, texts_heading
        values = [value for row in rows for value in [*(bar.value for bar in row.bars), *(value for _, value in row.marks)]]
        self.axis = Axis.from_zero(max(*values, reference or 0) * 1.05)

    def legend(self):
        bars = [(bar.style, "bar") for row in self.rows for bar in row.bars]
        return bars + [(style, "mark") for row in self.rows for style, _ in row.marks]

    def row_height(self, row):
        return len(row.bars) * (self.BAR + 1) + (23 if self.labels_above else 5)

    def height(self, _width):
        return self.TOP + sum(map(self.row_height, self.rows)) + self.BOTTOM

    def draw(self, canvas, left, top, width, height):
        del height
        self.canvas = canvas
        label_width = 0 if self.labels_above else max(text_width(row.label, "small") for row in self.rows) + 8
        texts_width = max(text_width(bar.text, "small") for row in self.rows for bar in row.bars) + 8
        self.left, self.right, self.end = left + label_width + 2, left + width - texts_width, left + width
        canvas.text(left, top + 14, self.heading, "heading")
        canvas.text(self.end, top + 14, self.texts_heading, "small", "muted", "end")
        y = top + self.TOP
        for row in self.rows:
            self.draw_row(row, y, left)
            y += self.row_height(row)
        self.draw_axis(y)

    def x(self, value):
        return self.left + self.axis.fraction(value) * (self.right - self.left)

    def draw_axis(self, bottom):
        """Draws the numbers of the axis and its label."""
        free = -math.inf
        for mark in self.axis.marks:
            half = text_width(number(mark), "small") / 2
            if self.x(mark) - half > free:
                self.canvas.text(self.x(mark), bottom + 14, number(mark), "small", "muted", "middle")
                free = self.x(mark) + half + 4
        self.canvas.text((self.left + self.right) / 2, bottom + 31, self.label, "small", "muted", "middle")

    def draw_grid(self, top, bottom):
        """Draws the grid lines of one row next to its bars, where they cross no label."""
        for mark in self.axis.marks:
            self.canvas.line(self.x(mark), top, self.x(mark), bottom, "grid")
        if self.reference:
            self.canvas.line(self.x(self.reference), top, self.x(self.reference), bottom, "muted", ' stroke-dasharray="3 2"')

    def draw_row(self, row, y, left):
        bottom = y + self.row_height(row)
        if self.labels_above:
            self.canvas.text(left, y + 12, row.label, "small")
            y += 17
        else:
            self.canvas.text(self.left - 8, y + (len(row.bars) * (self.BAR + 1)) / 2 + 4, row.label, "small", anchor="end")
        self.draw_grid(y - (2 if self.labels_above else 0), bottom - (4 if self.labels_above else 0))
        for index, bar in enumerate(row.bars):
            self.draw_bar(row, bar, y + index * (self.BAR + 1))
        for style, value in row.marks:
            self.canvas.point(self.x(value), y + self.BAR / 2, style, f"{row.label}, {style.name}: {value:.2f}")

    def draw_bar(self, row, bar, y):
        self.canvas.rectangle(self.left, y, self.x(bar.value) - self.left, self.BAR, bar.style.color, f"{row.label}, {bar.style.name}: {bar.text}")
        color = "red" if bar.is_slower else "text"
        # Marks may be right of the bar: then the text is at the edge of the panel.
        x, anchor = (self.end, "end") if row.marks else (self.x(bar.value) + 5, "start")
        self.canvas.text(x, y + self.BAR / 2 + 4, bar.text, "small", color, anchor)


def draw_legend(canvas, entries, top):
    """Draws the styles in lines. Returns the height."""
    x, y = MARGIN, top
    # A style that is drawn as a line and as points is listed once.
    distinct = {}
    for style, kind in entries:
        distinct.setdefault((style.name, style.color), (style, kind))
    for style, kind in distinct.values():
        width = 32 + text_width(style.name, "label") + 18
        if x + width > WIDTH - MARGIN and x > MARGIN:
            x, y = MARGIN, y + 20
        if kind == "bar":
            canvas.rectangle(x, y + 1, 24, 10, style.color)
        elif kind == "line" and style.width:
            canvas.polyline([(x, y + 6), (x + 26, y + 6)], style, style.name)
        if kind != "bar" and style.shape:
            canvas.point(x + 13, y + 6, style)
        canvas.text(x + 32, y + 10, style.name)
        x += width
    return y + 20 - top


def draw_panels(canvas, panels, columns, top):
    """Draws panels in rows. Returns their height."""
    width, y = (WIDTH - 2 * MARGIN - (columns - 1) * GAP) / columns, top
    for start in range(0, len(panels), columns):
        row = panels[start : start + columns]
        height = max(panel.height(width) for panel in row)
        for index, panel in enumerate(row):
            panel.draw(canvas, MARGIN + index * (width + GAP), y, width, height)
        y += height + 10
    return y - top


def render(title, subtitle, panels, captions, columns=2):
    """Returns the SVG of a figure. `captions` are lines below the panels."""
    canvas, y = Canvas(), 52
    canvas.text(MARGIN, 26, title, "title")
    for line in wrap(subtitle, "label", WIDTH - 2 * MARGIN):
        canvas.text(MARGIN, y - 6, line, color="muted")
        y += 16
    y += draw_legend(canvas, [entry for panel in panels for entry in panel.legend()], y)
    y += draw_panels(canvas, panels, columns, y + 8) + 8
    for line in [line for caption in captions for line in wrap(caption, "small", WIDTH - 2 * MARGIN)]:
        canvas.text(MARGIN, y + 10, line, "small", "muted")
        y += 15
    size = f'viewBox="0 0 {WIDTH} {y + 10:.0f}" width="{WIDTH}" height="{y + 10:.0f}"'
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{html.escape(title)}">'
    background = '<rect class="f-page" width="100%" height="100%"/>'
    return "\n".join([opening, f"<style>{style_sheet()}</style>", background, *canvas.parts, "</svg>"]) + "\n"
