"""Every passage of a converted file names its place in the file, and its words stand there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks import formats
from benchmarks.formats_corpus import WRITERS, Made, Part, Section, pdf_of_pages

SEA = (
    Section(1, "The Sea", ("Whales swim past the ships. Sailors row their boats to the shore at night.",)),
    Section(2, "Tides", ("The moon pulls the water twice a day. Harbours fill and fall dry again.",)),
    Section(2, "Bread", ("Flour and water make a dough. The oven bakes the bread until it is brown.",)),
)


@pytest.mark.parametrize("suffix", WRITERS)
def test_every_citation_leads_back(suffix: str, tmp_path: Path) -> None:
    check(WRITERS[suffix](SEA, tmp_path / f"sea{suffix}"), tmp_path)


@pytest.mark.skipif(importlib.util.find_spec("pypdfium2") is None, reason="the extra pdf is missing")
def test_every_citation_of_a_pdf_leads_back(tmp_path: Path) -> None:
    check(pdf_of_pages(SEA, tmp_path / "sea.pdf"), tmp_path)


def check(made: Made, tmp_path: Path) -> None:
    sums = formats.measure([made], tmp_path)[made.format]
    assert sums.lost == []
    assert sums.n_chunks > 0
    assert sums.n_exact == sums.n_chunks
    assert sums.words["kept"] == sums.words["all"]
    assert sums.words["headings found"] == len(made.headings)


WRONG: dict[str, Callable[[Part], Part]] = {
    "other words": lambda part: part._replace(text="Stones lie in the desert"),
    "another part": lambda part: part._replace(first=part.first + 10_000, last=part.last + 10_000),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_citation_that_leads_elsewhere_is_found(wrong: str, tmp_path: Path) -> None:
    made = WRITERS[".vtt"](SEA, tmp_path / "sea.vtt")
    parts = tuple(map(WRONG[wrong], made.parts))
    made = Made(made.format, made.path, made.text, made.headings, parts)
    sums = formats.measure([made], tmp_path)[made.format]
    assert len(sums.lost) == sums.n_chunks


def test_text_that_is_cut_is_measured(tmp_path: Path) -> None:
    made = WRITERS[".html"](SEA, tmp_path / "sea.html")
    made.path.write_text(made.path.read_text().replace("The moon pulls the water twice a day.", ""))
    sums = formats.measure([made], tmp_path)[made.format]
    assert sums.words["kept"] == sums.words["all"] - 8
