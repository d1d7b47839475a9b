"""Converter of Jupyter notebooks: text cells as they are, code and its output in fences."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from shoal.conversion.converted import ConversionError, Converted, LocatorKind
from shoal.conversion.main_content import RemovedTexts
from shoal.conversion.markdown_text import TextBuilder, escaped, fence, heading, one_line
from shoal.conversion.texts import decode_text
from shoal.models.documents import DocFormat

MAX_OUTPUT_CHARS = 2000
MAX_OUTPUTS_PER_CELL = 20
_ANSI = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|\[[0-9;]{1,9}m")
_FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})", re.MULTILINE)
_LANGUAGE = re.compile(r"[\w+#-]{1,30}")
_BROKEN = ("the file is no notebook that can be read", "open it in Jupyter and save it again")


def convert_notebook(data: bytes, name: str) -> Converted:
    """Convert a notebook of format 3 or 4; each cell with text has a locator."""
    try:
        notebook = json.loads(decode_text(data, "utf-8"))
    except (ValueError, RecursionError):
        raise ConversionError("broken" if data.strip() else "no_text", *_BROKEN) from None
    cells = list(_cells(notebook))
    language = _language(notebook)
    text, removed = TextBuilder(), RemovedTexts()
    n_pictures = 0
    for number, cell in enumerate(cells, start=1):
        kind = cell.get("cell_type")
        source = _joined(cell.get("source", cell.get("input"))).rstrip()
        if kind in ("markdown", "heading"):
            start = text.block(_with_closed_fence(_heading_of_format_3(cell, source)))
        elif kind == "code":
            start = text.block(fence(source, language) if source.strip() else "")
            for output in _list(cell.get("outputs"))[:MAX_OUTPUTS_PER_CELL]:
                shown, is_picture = _output(output)
                n_pictures += is_picture
                if len(shown) > MAX_OUTPUT_CHARS:
                    removed.add("long output", shown[MAX_OUTPUT_CHARS:])
                    shown = shown[:MAX_OUTPUT_CHARS].rstrip() + " …"
                at = text.block(fence(shown) if shown.strip() else "")
                start = start if source.strip() else min(start, at)
        else:
            start = text.block(escaped(source))
        text.locate(start, LocatorKind.cell, kind if isinstance(kind, str) else "", number, number)
    if not text.length:
        raise ConversionError("no_text", "the notebook has no text")
    warnings = (f"{n_pictures:,} pictures of outputs are not in the text",) if n_pictures else ()
    title = notebook.get("metadata", {}).get("title") if isinstance(notebook.get("metadata"), dict) else None
    return Converted(
        text.content(),
        DocFormat.markdown,
        one_line(title)[:500] if isinstance(title, str) else "",
        tuple(text.locators),
        removed.listed(),
        warnings,
    )


def _cells(notebook: Any) -> Iterator[Mapping[str, Any]]:
    if not isinstance(notebook, dict):
        raise ConversionError("broken", *_BROKEN)
    sources = [notebook, *(sheet for sheet in _list(notebook.get("worksheets")) if isinstance(sheet, dict))]
    if not any(isinstance(source.get("cells"), list) for source in sources):
        raise ConversionError("broken", *_BROKEN)
    for source in sources:
        for cell in _list(source.get("cells")):
            if isinstance(cell, dict):
                yield cell


def _language(notebook: Mapping[str, Any]) -> str:
    metadata = notebook.get("metadata")
    for key, field in (("kernelspec", "language"), ("language_info", "name")):
        values = metadata.get(key) if isinstance(metadata, dict) else None
        language = values.get(field) if isinstance(values, dict) else None
        if isinstance(language, str) and _LANGUAGE.fullmatch(language):
            return language.lower()
    return "python"


def _output(output: Any) -> tuple[str, bool]:
    """Return the text of an output, and whether it is a picture."""
    if not isinstance(output, dict):
        return "", False
    if output.get("output_type") in ("error", "pyerr"):
        return f"{_joined(output.get('ename'))}: {_joined(output.get('evalue'))}", False
    values = output.get("data") if isinstance(output.get("data"), dict) else output
    assert isinstance(values, dict), "it was just seen"
    shown = _joined(values.get("text/markdown") or values.get("text/plain") or values.get("text"))
    is_picture = any(key.startswith("image/") or key in ("png", "jpeg", "svg") for key in values)
    return _ANSI.sub("", shown).strip("\n").rstrip(), is_picture


def _heading_of_format_3(cell: Mapping[str, Any], source: str) -> str:
    if cell.get("cell_type") != "heading":
        return source
    level = cell.get("level")
    return heading(level if isinstance(level, int) else 1, source)


def _with_closed_fence(source: str) -> str:
    """Close a fence that a cell leaves open, so that it does not contain the cells after it."""
    fence_open = ""
    for match in _FENCE.finditer(source):
        marks = match.group(1)
        if not fence_open:
            fence_open = marks
        elif marks.startswith(fence_open):
            fence_open = ""
    return f"{source}\n{fence_open}" if fence_open else source


def _joined(value: Any) -> str:
    """Return a text that is written as one string or as a list of lines."""
    if isinstance(value, str):
        return value
    return "".join(part for part in _list(value) if isinstance(part, str))


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
