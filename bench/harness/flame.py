"""Folds the samples that `perf script` prints into a flame graph."""

import re
from html import escape

WIDTH, ROW, MIN_WIDTH = 1200, 17, 0.4



def symbol_name(symbol):
    symbol = re.sub(r"\+0x[0-9a-f]+$", "", symbol)
    symbol = re.sub(r"::h[0-9a-f]{16}$", "", symbol)
    return symbol


def stacks(lines):
    """The frames of each sample, outermost first."""
    frames = []
    for line in lines:
        line = line.rstrip()
        if not line:
            if frames:
                yield frames[::-1]
            frames = []
        elif line[0] in "\t ":
            found = re.match(r"\s+[0-9a-f]+ (.+?) \((.*)\)$", line)
            if found and not (found.group(1) == "[unknown]" and not frames):
                frames.append(symbol_name(found.group(1)))
    if frames:
        yield frames[::-1]


class Node:
    def __init__(self):
        self.count, self.children = 0, {}


def fold(samples):
    root = Node()
    for frames in samples:
        node = root
        node.count += 1
        for frame in frames:
            node = node.children.setdefault(frame, Node())
            node.count += 1
    return root


def colour(name):
    if name.startswith("[") or name.startswith(("do_", "__", "tcp_", "sys_", "entry_")):
        return "#c9a26b"
    if "gene_registry" in name:
        return "#6f9fd8"
    return "#8fbf8f" if "::" in name else "#c9b98f"


def draw(node, total, x, depth, parts):
    for name, child in sorted(node.children.items()):
        width = WIDTH * child.count / total
        if width >= MIN_WIDTH:
            share = f"{child.count / total:.1%}"
            letters = int(width / 6.3)
            shown = name if len(name) <= letters else name[: max(0, letters - 1)] + "…"
            parts.append((depth, f'<g><title>{escape(name)} {share}</title><rect x="{x:.1f}"'
                          f' y="@{depth}@" width="{width:.1f}" height="{ROW - 1}"'
                          f' fill="{colour(name)}"/>'
                          + (f'<text x="{x + 3:.1f}" y="@{depth}t@">{escape(shown)}</text>'
                             if letters > 3 else "") + "</g>"))
            draw(child, total, x, depth + 1, parts)
        x += width


def draw_all(lines, title):
    root, parts = fold(stacks(lines)), []
    draw(root, root.count, 0, 0, parts)
    deepest = max(depth for depth, _ in parts)
    height = (deepest + 2) * ROW + 24
    y_of = lambda depth: height - (depth + 1) * ROW
    print(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">'
          "<style>text{font:11px monospace}</style>"
          f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>'
          f'<text x="4" y="16">{escape(title)} ({root.count} samples)</text>')
    for depth, part in parts:
        print(part.replace(f"@{depth}@", str(y_of(depth)))
              .replace(f"@{depth}t@", str(y_of(depth) + 12)))
    print("</svg>")
