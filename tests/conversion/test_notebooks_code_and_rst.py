"""Notebooks, source code and reStructuredText: cells, definitions and headings are sections."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from converters import convert_notebook, convert_rst, convert_source
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st
from sample_files import NOTEBOOK, PYTHON, RST

from shoal.conversion import restructured_text
from shoal.conversion.converted import ConversionError
from shoal.conversion.source_code import MAX_OUTPUT_CHARS
from shoal.engine import Engine
from shoal.formats.markdown import parse_markdown
from shoal.models.files import LocatorKind


def sections(content: str) -> list[tuple[str, ...]]:
    return [section.path for section in parse_markdown(content).sections]


def test_a_notebook_keeps_text_code_and_short_outputs() -> None:
    converted = convert_notebook(json.dumps(NOTEBOOK).encode(), "a.ipynb")
    assert converted.content.startswith(
        "# Tides\n\nHow high is *high*?\n\n```python\nheight = 7\nheight\n```\n\n```\n7\n```\n\n```\nline\nline\n"
    )
    assert "ValueError: too high" in converted.content
    assert "\x1b" not in converted.content
    assert len(converted.content) < MAX_OUTPUT_CHARS + 400
    assert [removed.reason for removed in converted.removed] == ["long output"]
    assert converted.warnings == ("1 pictures of outputs are not in the text",)


def test_cells_have_their_numbers() -> None:
    converted = convert_notebook(json.dumps(NOTEBOOK).encode(), "a.ipynb")
    assert [(locator.kind, locator.name, locator.first) for locator in converted.locators] == [
        (LocatorKind.cell, "markdown", 1),
        (LocatorKind.cell, "code", 2),
        (LocatorKind.cell, "raw", 4),
        (LocatorKind.cell, "markdown", 5),
        (LocatorKind.cell, "markdown", 6),
    ]
    last = converted.locators[-1]
    assert converted.content[last.start_char : last.end_char] == "# After"
    assert sections(converted.content) == [("Tides",), ("Tides", "End"), ("After",)], (
        "an open fence ends with its cell"
    )


def test_a_notebook_of_format_3_is_read() -> None:
    cells = [
        {"cell_type": "heading", "level": 2, "source": "Old"},
        {"cell_type": "code", "input": ["x = 1"], "language": "python"},
    ]
    data = json.dumps({"nbformat": 3, "worksheets": [{"cells": cells}]}).encode()
    assert convert_notebook(data, "").content == "## Old\n\n```python\nx = 1\n```"


@pytest.mark.parametrize(
    "data", [b"{}", b"[]", b"1", b"{", b'{"cells": 3}', b'{"cells": [1, null, {"source": 5}]}']
)
def test_json_that_is_no_notebook_is_an_error(data: bytes) -> None:
    with pytest.raises(ConversionError) as caught:
        convert_notebook(data, "a.ipynb")
    assert caught.value.code in ("broken", "no_text")


def test_definitions_of_python_are_sections_and_lines_keep_their_numbers() -> None:
    content = convert_source(PYTHON.encode(), "tides.py").content
    assert sections(content) == [
        (),
        ("def rise",),
        ("class Harbour",),
        ("class Harbour", "def enter"),
        ("class Harbour", "def leave"),
        ("tides.py",),
    ]
    lines = content.split("\n")
    for number, line in enumerate(PYTHON.split("\n")):
        assert lines[number] == (f"    {line}" if line else lines[number])
    assert lines.index("# def rise") + 1 == lines.index("    # How the sea rises.")


@given(st.text(alphabet=st.sampled_from("def class():\n #\"'\tabגx{}[]\r"), max_size=300))
def test_no_line_of_code_is_lost_or_moved(code: str) -> None:
    for name in ("a.py", "a.js", "a.toml"):
        try:
            content = convert_source(code.encode(), name).content
        except ConversionError:
            assert not code.strip()
            continue
        before = code.replace("\r\n", "\n").replace("\r", "\n").split("\n")
        after = content.split("\n")
        assert len(before) == len(after)
        for old, new in zip(before, after, strict=True):
            assert (
                new == f"    {old}"
                or not old.strip()
                or (new.startswith("#") and new.lstrip("# ") == " ".join(old.split()).lstrip("# "))
            )


@pytest.mark.parametrize(
    ("name", "code", "headings"),
    [
        (
            "a.js",
            "export class A {\n  go(x) {\n  }\n}\n\nexport const run = async (x) => {\n}\n",
            ["class A", "go()", "run"],
        ),
        ("a.go", "func (t *T) Rise(h int) {\n}\n\ntype Sea struct {\n}\n", ["func Rise", "type Sea"]),
        (
            "a.rs",
            "pub(crate) async fn rise<T>(x: T) {\n}\n\nimpl<T> Sea<T> {\n    fn go() {\n    }\n}\n",
            ["fn rise", "impl Sea", "fn go"],
        ),
        (
            "a.java",
            "public class Sea {\n\n    private int rise(int h) {\n        if (h > 1) {\n        }\n    }\n}\n",
            ["class Sea", "rise()"],
        ),
        ("a.c", "static int rise(int h)\n{\n    return h;\n}\n\nint x = f(3);\n", ["rise()"]),
        ("a.rb", "module Sea\n  def rise\n  end\nend\n", ["module Sea", "def rise"]),
        ("a.sql", "CREATE TABLE IF NOT EXISTS sea (\n  a int\n);\n", ["sea"]),
        ("a.sh", "rise() {\n  echo\n}\n", ["rise()"]),
        ("a.toml", "[tool.sea]\na = 1\n", ["tool.sea"]),
        ("a.py", "def broken(:\n    pass\n", ["def broken"]),
        ("a.json", '{"class": "x"}', []),
    ],
)
def test_definitions_of_other_languages_are_sections(name: str, code: str, headings: list[str]) -> None:
    content = convert_source(f"\n{code}".encode(), name).content
    found = [path[-1] for path in sections(content) if path]
    assert len(found) == len(headings), content
    for shown, wanted in zip(found, headings, strict=True):
        assert wanted.split()[-1].strip("()") in shown


def test_restructured_text_keeps_its_structure() -> None:
    converted = convert_rst(RST.encode(), "a.rst")
    assert converted.title == "Tides"
    assert sections(converted.content) == [
        ("Tides",),
        ("Tides", "Spring tides"),
        ("Tides", "Spring tides", "Deeper"),
        ("Tides", "Neap tides"),
    ]
    for block in (
        "Why the Moon pulls the sea and see the ports, `code_x`.",
        "- at new moon,\n  on two lines\n\n  - nested\n\n- at full moon",
        "1. first\n\n2. second",
        "Note: Beware of rocks.\n\nAnd of *currents*.",
        '```python\ndef tide():\n    return "high"\n```',
        "Example:\n\n```\nliteral text\n```",
        "| Port | Height |\n| --- | --- |\n| Brest | 7 m |\n| Dover | 6 m |",
        "| Port | Height |\n| --- | --- |\n| Lagos | 3 m |",
        "Winds\n\n| Name | Force |\n| --- | --- |\n| Föhn | 8 |",
        "`rise(height)`\n\nLet the sea rise.",
        "A note [1] and a word here.",
    ):
        assert f"\n{block}\n" in converted.content


def test_each_line_of_restructured_text_has_its_line_of_the_file() -> None:
    converted = convert_rst(RST.encode(), "a.rst")
    lines = RST.split("\n")
    found = {
        converted.content[place.start_char : place.end_char].strip(): lines[int(place.first) - 1].strip()
        for place in converted.locators
    }
    for shown, line in (
        ("# Tides", "Tides"),
        ("## Neap tides", "Neap tides"),
        ("- at new moon,", "- at new moon,"),
        ("on two lines", "on two lines"),
        ("- nested", "* nested"),
        ("2. second", "2. second"),
        ("Note: Beware of rocks.", ".. note:: Beware of rocks."),
        ("And of *currents*.", "And of *currents*."),
        ("def tide():", "def tide():"),
        ('return "high"', 'return "high"'),
        ("literal text", "literal text"),
        ("| Dover | 6 m |", "Dover   6 m"),
        ("| Lagos | 3 m |", "| Lagos | 3 m    |"),
        ("| Föhn | 8 |", "* - Föhn"),
        ("`rise(height)`", ".. py:function:: rise(height)"),
        ("Let the sea rise.", "Let the sea rise."),
        ("\\[1] The footnote.", ".. [1] The footnote."),
    ):
        assert found[shown] == line


def test_passages_of_restructured_text_are_cited_by_the_lines_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "a.rst"
    path.write_text(
        "\n" * 9 + ".. A comment.\n\nTides\n=====\n\nThe tide rose\nin the bay.\n\n.. note::\n\n   Beware.\n"
    )
    with Engine(tmp_path / "shoal.db", scorer=FakeScorer(), learning=False) as engine:
        [chunk] = engine.documents.chunks(engine.ingest_file(path).id or 0).chunks
    assert chunk.text.startswith("The tide rose")
    assert (chunk.start_line, chunk.end_line) == (15, 20)
    assert chunk.place is not None
    assert (chunk.place.label, chunk.place.beside_lines) == ("lines 15-20", None)


def test_neighbouring_lines_share_a_place_where_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restructured_text, "MAX_PLACES", 3)
    places = convert_rst(b"a\nb\nc\nd\n\ne\nf\ng\n", "a.rst").locators
    assert [(place.first, place.last) for place in places] == [(1, 3), (4, 7), (8, 8)]
    assert [(place.start_char, place.end_char) for place in places] == [(0, 5), (6, 12), (13, 14)]


def test_no_directive_reads_a_file_or_passes_html_on() -> None:
    converted = convert_rst(RST.encode(), "a.rst")
    assert "root:" not in converted.content
    assert "<script>" not in converted.content
    removed = {(removed.reason, removed.text) for removed in converted.removed}
    assert ("directive", "include /etc/passwd") in removed
    assert ("directive", "raw html <script>alert(1)</script>") in removed
    assert ("comment", "This is a comment.") in removed


@given(st.text(alphabet=st.sampled_from("=-~.:_`|*+ \nabg\t"), max_size=400))
def test_any_restructured_text_is_converted_or_refused(text: str) -> None:
    try:
        converted = convert_rst(text.encode(), "a.rst")
    except ConversionError:
        assert not re.search(r"[abg]", text) or ".." in text or "::" in text or "__" in text
        return
    assert converted.content.strip()
    ends = [0, *(place.end_char for place in converted.locators)]
    assert all(
        end <= place.start_char < place.end_char and 1 <= place.first <= place.last <= text.count("\n") + 1
        for end, place in zip(ends, converted.locators, strict=False)
    )


def test_a_page_that_only_includes_others_names_them() -> None:
    converted = convert_rst(b".. include:: ../README.rst\n\n.. automodule:: tides\n   :members:\n", "a.rst")
    assert converted.content == "include ../README.rst\n\nautomodule tides"
    assert [(place.first, place.last) for place in converted.locators] == [(1, 5)]
    assert "README" not in convert_rst(b".. include:: ../README.rst\n\nText.\n", "a.rst").content
    with pytest.raises(ConversionError):
        convert_rst(b".. image:: a.png\n", "a.rst")
