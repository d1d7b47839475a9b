"""Converters of source code and of Jupyter notebooks.

Each line of source code stays in its place, and definitions become sections. The lines are code of Markdown,
indented by four blanks. The heading of a definition takes the place of the blank line above it and its
comments; without any, the line of the definition is the heading. So line N of the content is line N
of the file. Text cells of a notebook stay as they are; code and its output become fences.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from shoal.conversion.converted import (
    ConversionError,
    Converted,
    TextBuilder,
    escaped,
    fence,
    heading,
    one_line,
)
from shoal.conversion.main_content import RemovedTexts
from shoal.conversion.recognition import suffix_of
from shoal.conversion.texts import decode_text
from shoal.models.documents import DocFormat
from shoal.models.files import LocatorKind
from shoal.support.plain_text import words_of

MAX_DEFINITIONS = 60_000
"""Later definitions have no section of their own; a document can have 65,536."""

_MAX_PARSED_CHARS = 1024**2  # of Python, whose grammar takes up to 300 times its size in memory
_LINE_CHARS = 300
_MAX_LEVEL = 6
_MAX_COMMENT_LINES = 200
_PYTHON = frozenset({".py", ".pyi", ".pyw"})
_SECTIONED = frozenset({".toml", ".ini", ".cfg"})
_NO_DEFINITIONS = frozenset({".json", ".yaml", ".yml", ".xml", ".css", ".scss", ".less"})

_MODIFIERS = (
    r"(?:(?:export|default|public|private|protected|internal|static|final|abstract|async|override|virtual|inline|"
    r"pub(?:\([a-z ]{1,30}\))?|unsafe|extern|open|sealed|data|partial|suspend|const|declare|constexpr)\s+)*"
)
_KEYWORDS = (
    "class interface struct enum union trait impl func fn fun function def defp defmodule module namespace "
    "object protocol extension record mod sub macro type package procedure library entity architecture"
)
_DEFINITION = re.compile(
    rf"{_MODIFIERS}({'|'.join(_KEYWORDS.split())})\s*+"
    r"(?:\([^()]{0,100}\)\s*+)?(?:<[^<>]{0,100}>\s*+)?(?<=[\s)>])([\w$.:?!~@-]{1,120})"
)
_VARIANTS = (
    re.compile(r"(?:export\s+)?(?:const|let|var)\s+([\w$]{1,120})\s*=\s*(?:async\s*)?(?:function\b|\([^()]{0,150}\)[^=]{0,60}=>|\w+\s*=>)"),
    re.compile(r"([\w.]{1,120}+)\s*+(?:<-|=)\s*+function\s*+\("),
    re.compile(r"([\w-]{1,120}+)\s*+\(\)\s*+\{"),
    re.compile(r"create\s+(?:or\s+replace\s+)?(?:temp(?:orary)?\s+)?(?:table|view|function|procedure|trigger|index|type)\s+"
               r"(?:if\s+not\s+exists\s+)?([\w.\"`\[\]]{1,120})", re.IGNORECASE),
    re.compile(r"\((?:def\w*|ns)\s+([^\s()\[\]]{1,120})"),
)  # fmt: skip
# A function without a keyword, as in C and Java: a type, a name, parentheses, and no semicolon at the end.
_TYPED = re.compile(
    r"(?:[\w:<>,.*&~\[\]@?]{1,60}[ \t]+){1,6}[*&]{0,3}((?:\w+::)*~?\w{1,80})\s*\([^;]*(?<![;,])$"
)
_METHOD = re.compile(
    r"(?:async\s+|static\s+|get\s+|set\s+)*(?:#?[\w$]{1,80})\s*\([^;=]{0,200}\)\s*(?::[^;={}]{1,80})?\{$"
)
_TYPED_SUFFIXES = words_of(".c .h .cc .cpp .cxx .hh .hpp .hxx .m .mm .java .cs .dart .groovy .scala .php")
_METHOD_SUFFIXES = words_of(".js .mjs .cjs .jsx .ts .mts .cts .tsx .vue .svelte")
_NO_NAMES = words_of(
    "if for while switch return else catch do new throw case await yield with until elif sizeof"
)
_COMMENT = re.compile(r"//|#|--|;|/?\*|@|%|\[\w|<!--")
_SECTION = re.compile(r"\[{1,2}([^\[\]]{1,200})\]{1,2}")


class _Definition(NamedTuple):
    """`line`: number of its first line, decorators included, from 0; `first`: that of its own line."""

    line: int
    first: int
    level: int
    heading: str
    n_lines: int


def convert_source(data: bytes, name: str) -> Converted:
    """Convert a file of source code, whose name is its title. The language is that of the extension."""
    text = decode_text(data)
    if not text.strip():
        raise ConversionError("no_text", "the file is empty")
    lines = text.split("\n")
    suffix = suffix_of(name)
    definitions = _python_definitions(text, name) if suffix in _PYTHON else None
    if definitions is None:
        definitions = _found_definitions(lines, suffix)
    result = [f"    {line}" if line.strip() else "" for line in lines]
    for definition in definitions[:MAX_DEFINITIONS]:
        at = _place(lines, result, definition)
        if at is not None:
            title = one_line(definition.heading if at != definition.first else lines[at])[:_LINE_CHARS]
            result[at] = f"{'#' * min(definition.level, _MAX_LEVEL)} {title}"
    return Converted("\n".join(result), DocFormat.markdown, name)


def _place(lines: list[str], result: list[str], definition: _Definition) -> int | None:
    """Return the line that becomes the heading, or None if there is none that can."""
    at = definition.line - 1
    lowest = max(0, at - _MAX_COMMENT_LINES)
    while at >= lowest and _COMMENT.match(lines[at].lstrip()):
        at -= 1
    if at >= 0 and not lines[at].strip() and not result[at]:
        return at
    return definition.first if definition.n_lines > 1 and result[definition.first][:1] == " " else None


def _python_definitions(text: str, name: str) -> list[_Definition] | None:
    """Return the classes, methods and functions of Python; None if it cannot be parsed."""
    if len(text) > _MAX_PARSED_CHARS:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the code's own questionable literals
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    definitions: list[_Definition] = []
    pending: list[tuple[ast.stmt, int]] = [(node, 1) for node in reversed(tree.body)]
    after_definition = False
    while pending:
        node, level = pending.pop()
        if not isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if level == 1 and after_definition:
                # The rest of the module is not part of the definition above it.
                definitions.append(_Definition(node.lineno - 1, node.lineno - 1, 1, name or "module", 1))
                after_definition = False
            continue
        after_definition = True
        first = node.lineno - 1
        top = min([first, *(decorator.lineno - 1 for decorator in node.decorator_list)])
        is_class = isinstance(node, ast.ClassDef)
        n_lines = (node.end_lineno or node.lineno) - first
        definitions.append(
            _Definition(top, first, level, f"{'class' if is_class else 'def'} {node.name}", n_lines)
        )
        if is_class:
            pending += [(inner, level + 1) for inner in reversed(node.body)]
    return definitions


def _found_definitions(lines: list[str], suffix: str) -> list[_Definition]:
    """Return the definitions that lines of any language begin, nested by their indentation."""
    definitions: list[_Definition] = []
    if suffix in _NO_DEFINITIONS:
        return definitions
    indents: list[int] = []
    for number, line in enumerate(lines):
        body = line[:_LINE_CHARS].expandtabs(4).rstrip()
        code = body.lstrip()
        heading = _definition_heading(code, suffix, len(body) - len(code)) if code else ""
        if not heading:
            continue
        indent = len(body) - len(code)
        while indents and indents[-1] >= indent:
            indents.pop()
        indents.append(indent)
        is_alone = number + 1 >= len(lines) or not lines[number + 1].strip()
        definitions.append(_Definition(number, number, len(indents), heading, 1 if is_alone else 2))
    return definitions


def _definition_heading(code: str, suffix: str, indent: int) -> str:
    """Return the heading of a definition that a line begins; empty if it begins none."""
    if suffix in _SECTIONED:
        section = _SECTION.match(code)
        return section.group(1) if section else ""
    if code[0] in "#/*\"'":
        return ""
    match = _DEFINITION.match(code)
    if match:
        # A declaration that only names a type, as in `struct stat info;`, defines nothing.
        if code.endswith(";") and "(" not in code and "=" not in code and "{" not in code:
            return ""
        return f"{match.group(1)} {match.group(2).rstrip(':.-')}"
    for pattern in _VARIANTS:
        match = pattern.match(code)
        if match:
            return match.group(1).strip('"`[]')
    if indent <= 8 and suffix in _TYPED_SUFFIXES:
        match = _TYPED.match(code)
        if (
            match
            and match.group(1) not in _NO_NAMES
            and code.split(None, 1)[0] not in _NO_NAMES
            and "=" not in code[: match.start(1)]
        ):
            return f"{match.group(1)}()"
    if 0 < indent <= 8 and suffix in _METHOD_SUFFIXES and _METHOD.match(code):
        name = code.split("(", 1)[0].split()[-1]
        return "" if name in _NO_NAMES else f"{name}()"
    return ""


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
