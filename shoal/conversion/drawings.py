"""Texts of drawings in Office Open XML: charts, and diagrams of terms (SmartArt)."""

from __future__ import annotations

from shoal.conversion.converted import Draft, cleaned_line
from shoal.conversion.package import Element, Package, child, local, whole_number

_MAX_POINTS = 10_000  # of one chart
_MAX_LEVELS = 10  # of categories
_VALUES = ("val", "yVal", "bubbleSize")
_CATEGORIES = ("cat", "xVal")


def write_drawing(draft: Draft, package: Package, part: str) -> None:
    """Write the texts of a chart, as titles and a table of its values, or of a diagram, as a list."""
    root = package.optional_xml(part)
    if root is not None and local(root) == "chartSpace":
        _write_chart(draft, root)
    elif root is not None:
        for text in diagram_texts(root):
            draft.item(0, text)


def diagram_texts(root: Element) -> list[str]:
    """Return the terms of a diagram."""
    return [text for point in _all(root, "pt") if (text := _text(point))]


def _write_chart(draft: Draft, root: Element) -> None:
    titles = [text for title in _all(root, "title") if (text := _text(title) or _cached(title))]
    draft.paragraph("; ".join(titles))
    names: list[str] = []
    rows: dict[int, dict[int, str]] = {}
    categories: dict[int, str] = {}
    left = _MAX_POINTS
    for series in _all(root, "ser"):
        name = child(series, "tx")
        names.append("" if name is None else _text(name) or _cached(name) or _direct(name))
        for element in series:
            is_shown = local(element) in (*_VALUES, *_CATEGORIES)
            points = (_levels(element, left) or _points(element, left)) if is_shown else []
            left -= len(points)
            for at, text in points:
                if local(element) in _CATEGORIES:
                    categories.setdefault(at, text)
                else:
                    cells = rows.setdefault(at, {})
                    cells[len(names)] = f"{cells[len(names)]}; {text}" if len(names) in cells else text
    table = [["", *names]]
    table += [
        [categories.get(at, ""), *(rows.get(at, {}).get(i + 1, "") for i in range(len(names)))]
        for at in sorted({*rows, *categories})
    ]
    draft.table(table)
    draft.paragraph("; ".join(text for shape in _all(root, "txBody") if (text := _text(shape))))


def _points(element: Element, most: int) -> list[tuple[int, str]]:
    """Return the values that the file keeps of a range of cells, with their numbers."""
    found = []
    for point in _all(element, "pt")[:most]:
        value = child(point, "v")
        if value is not None and value.text:
            found.append((whole_number(point.get("idx", "")), _number(cleaned_line(value.text))))
    return found


def _levels(element: Element, most: int) -> list[tuple[int, str]]:
    """Return the categories of several levels as one: an outer one goes on until the next. Empty if it has
    no levels."""
    levels = [dict(_points(level, most)) for level in _all(element, "lvl")[:_MAX_LEVELS]]
    current: dict[int, str] = {}
    found: list[tuple[int, str]] = []
    for at, inner in sorted(levels[0].items()) if levels else ():
        for depth, level in enumerate(levels[1:]):
            current[depth] = level.get(at, current.get(depth, ""))
        found.append((at, " ".join(filter(None, [*reversed(current.values()), inner]))))
    return found


def _direct(element: Element) -> str:
    """Return a text that is in the chart itself, not in cells."""
    value = child(element, "v")
    return "" if value is None else cleaned_line(value.text or "")


def _cached(element: Element) -> str:
    return " ".join(text for _, text in _points(element, _MAX_POINTS))


def _number(text: str) -> str:
    try:
        return format(float(text), ".15g")
    except ValueError:
        return text


def _text(element: Element) -> str:
    """Return the text of the paragraphs of a drawing as one line."""
    paragraphs = ("".join(run.text or "" for run in _all(p, "t")) for p in _all(element, "p"))
    return cleaned_line(" ".join(paragraphs))


def _all(element: Element, name: str) -> list[Element]:
    return [inner for inner in element.iter() if isinstance(inner.tag, str) and local(inner) == name]
