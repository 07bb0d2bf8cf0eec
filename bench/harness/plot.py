"""Charts as SVG, written by hand: bars, and lines over logarithmic axes."""

import math
from collections import namedtuple
from html import escape

Line = namedtuple("Line", "name points")

COLOURS = ("#7a7a7a", "#1b7f4d", "#b3541e", "#8a2f8f", "#c28a00", "#1f5fbf", "#0a9bb5", "#333333")
WIDTH, LEFT = 720, 70
STYLE = ("<style>text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:bold}"
         ".grid{stroke:#ddd}.line{fill:none;stroke-width:2}</style>")


def svg(height, title, parts):
    head = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
            f' aria-label="{escape(title)}">{STYLE}<rect width="{WIDTH}" height="{height}"'
            ' fill="#fff"/>')
    return "\n".join([head, text(LEFT, 22, title, 'class="title"'), *parts, "</svg>\n"])


def text(x, y, words, extra=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" {extra}>{escape(str(words))}</text>'


def ticks(low, high):
    """The multiples by 1, 2 and 5 of powers of ten from `low` to `high`."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    return [m * 10**e for e in range(first, last + 1) for m in (1, 2, 5)
            if low <= m * 10**e <= high]


class chart:
    @staticmethod
    def bars(title, rows):
        highest, parts, left = max(value for _, value in rows), [], 210
        for number, (name, value) in enumerate(rows):
            y = 40 + number * 26
            width = (WIDTH - left - 60) * value / highest
            colour = "#1f5fbf" if name.startswith("service") else "#9aa5b1"
            parts += [text(left - 8, y + 14, name, 'text-anchor="end"'),
                      f'<rect x="{left}" y="{y}" width="{width:.1f}" height="19" fill="{colour}"/>',
                      text(left + width + 6, y + 14, f"{value:.1f}")]
        return svg(52 + 26 * len(rows), title, parts)

    @staticmethod
    def lines(title, lines, x_title, y_title, log_y=True):
        right, top, bottom = WIDTH - 170, 45, 360
        xs = [x for line in lines for x, _ in line.points if x > 0]
        ys = [y for line in lines for _, y in line.points if y > 0]
        x_low, x_high = min(xs), max(xs)
        y_low, y_high = (min(ys) * 0.8, max(ys) * 1.25) if log_y else (0, max(ys) * 1.1)
        share = lambda v, low, high: math.log(v / low) / math.log(high / low)
        place_x = lambda x: LEFT + (right - LEFT) * share(x, x_low, x_high)
        linear = lambda y: (y - y_low) / (y_high - y_low)
        place_y = lambda y: bottom - (bottom - top) * (
            share(y, y_low, y_high) if log_y else linear(y))
        parts = []
        for x in ticks(x_low, x_high):
            parts += [f'<line class="grid" x1="{place_x(x):.1f}" x2="{place_x(x):.1f}" y1="{top}"'
                      f' y2="{bottom}"/>', text(place_x(x), bottom + 18, f"{x:g}",
                                                 'text-anchor="middle"')]
        for y in ticks(y_low, y_high) if log_y else [y_high * n / 5 for n in range(6)]:
            label = f"{y:g}" if log_y else f"{y:.0f}"
            parts += [f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{place_y(y):.1f}"'
                      f' y2="{place_y(y):.1f}"/>',
                      text(LEFT - 8, place_y(y) + 4, label, 'text-anchor="end"')]
        for number, line in enumerate(lines):
            colour = COLOURS[number % len(COLOURS)]
            points = " ".join(f"{place_x(x):.1f},{place_y(y):.1f}"
                              for x, y in line.points if x > 0 and y > 0)
            parts += [f'<polyline class="line" stroke="{colour}" points="{points}"/>',
                      f'<rect x="{right + 16}" y="{top + number * 20}" width="12" height="12"'
                      f' fill="{colour}"/>',
                      text(right + 34, top + number * 20 + 11, line.name)]
        parts += [text((LEFT + right) / 2, bottom + 38, x_title, 'text-anchor="middle"'),
                  text(LEFT - 8, top - 8, y_title, 'text-anchor="end"')]
        return svg(bottom + 50, title, parts)
