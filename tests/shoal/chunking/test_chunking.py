"""Chunks of a document have exact offsets and are described by reefs."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
from examples import examples
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from shoal.chunking.analysis import MAX_GAP_CHARS, MAX_LEFT_OUT, analyze, score_document
from shoal.errors import DocumentTooLargeError, EmptyDocumentError
from shoal.formats.drafts import make_draft
from shoal.models.documents import ScoredDocument
from shoal.settings import Settings
from shoal.storage.profiles import RECORD, Profiles

TEXT = (
    "# Nature\n\nA volcano throws lava and ash. Magma rises through the crust. Granite is a rock.\n\n"
    "## Plants\r\n\r\nA fern has spores, a flower has petals.\rEvery leaf of the tree is green.\n\n"
    "<!-- a note -->\n\n## Law\n\nThe jury heard the judge. A verdict needs evidence.\n\n---\n\nThe court rose.\n"
)


def scored(
    content: str = TEXT,
    *,
    title: str = "T",
    format: str = "markdown",  # noqa: A002
    **changes: Any,
) -> ScoredDocument:
    settings = dataclasses.replace(Settings(), **changes)
    draft = make_draft(content=content, title=title, format=format, settings=settings)
    return score_document(draft, FakeScorer(), settings)


def line_of(content: str, offset: int) -> int:
    """Line of an offset, by counting line ends; `offset` is never inside a line end."""
    return content[:offset].replace("\r\n", "\n").replace("\r", "\n").count("\n") + 1


def check(document: ScoredDocument, limit: int) -> None:
    content = document.draft.content
    covered = bytearray(len(content))
    for number, chunk in enumerate(document.chunks):
        assert chunk.chunk_index == number
        assert content[chunk.start_char : chunk.end_char] == chunk.text == chunk.text.strip() != ""
        assert len(chunk.text) <= limit
        assert chunk.start_line == line_of(content, chunk.start_char)
        assert chunk.end_line == line_of(content, chunk.end_char)
        section = document.sections[chunk.section]
        assert section.start_char <= chunk.start_char
        assert chunk.end_char <= section.end_char
        for at in range(chunk.start_char, chunk.end_char):
            covered[at] += 1
    for start, end in [(s.heading_start, min(s.heading_end, s.start_char)) for s in document.sections] + [
        (span.start_char, span.end_char) for span in document.left_out
    ]:
        for at in range(start, end):
            covered[at] += 1
    assert max(covered) == 1, "no character is in two chunks, or in a chunk and left out"
    assert all(n == 1 for n, character in zip(covered, content, strict=True) if not character.isspace())
    assert document.n_sentences == sum(chunk.sentence_count for chunk in document.chunks)


def test_chunks_are_citations() -> None:
    document = scored()
    check(document, 8000)
    assert [document.sections[chunk.section].heading for chunk in document.chunks] == [
        "Nature",
        "Plants",
        "Law",
    ]
    assert (document.chunks[1].start_line, document.chunks[1].end_line) == (7, 8)


def test_chunks_are_described_by_their_strongest_reefs() -> None:
    chunk = scored().chunks[0]
    assert chunk.top_reef_name == "volcanoes and rocks"
    z_scores = Profiles.of([chunk.profile]).z_scores.tolist()
    assert z_scores[-1] > 0
    assert z_scores == sorted(z_scores, reverse=True)
    assert chunk.norm == pytest.approx(math.hypot(*z_scores), abs=1e-6)
    assert chunk.confidence > 0
    assert chunk.matched_words == 7


def test_reefs_per_chunk_limits_the_reefs_of_a_chunk() -> None:
    assert {len(chunk.profile) for chunk in scored(reefs_per_chunk=1).chunks} == {RECORD.itemsize}


def test_heading_weight_sets_the_weight_of_headings() -> None:
    content = "# Volcano\n\nIt stands there.\n"
    assert scored(content).chunks[0].top_reef_id is not None
    assert scored(content, heading_weight=0.0).chunks[0].top_reef_id is None


def test_heading_words_do_not_count_in_the_coverage() -> None:
    assert scored("# Volcano lava magma\n\nUnknown wordses only.\n").chunks[0].coverage == 0.0


def test_a_left_out_span_inside_a_chunk_is_not_reported() -> None:
    document = scored()
    assert "---" in document.chunks[2].text
    assert [span.reason for span in document.left_out] == ["comment"]


def test_a_long_comment_separates_two_chunks() -> None:
    for length, n_chunks in ((MAX_GAP_CHARS // 2, 1), (MAX_GAP_CHARS * 50, 2)):
        document = scored(f"A volcano.\n\n<!--{'x' * length}-->\n\nThe lava.\n")
        check(document, 8000)
        assert len(document.chunks) == n_chunks
        assert len(document.left_out) == n_chunks - 1


def test_a_report_lists_the_first_spans_and_counts_all() -> None:
    separated = f"\n\n<!--{'x' * MAX_GAP_CHARS}-->\n\n".join(["The lava."] * (MAX_LEFT_OUT + 2))
    document = scored(f"{separated}\n")
    assert len(document.left_out) == MAX_LEFT_OUT
    assert document.n_left_out == {"comment": MAX_LEFT_OUT + 1}


def test_a_label_is_removed_from_the_beginning_of_a_heading_only() -> None:
    contexts = {"Date: 1817": "1817", "Birthdate: 1817": "Birthdate: 1817", "The date: May": "The date: May"}
    for heading, context in contexts.items():
        content = f"# {heading}\n\nThe lava.\n"
        draft = make_draft(content=content, title="T", format="markdown", settings=Settings())
        assert analyze(draft, FakeScorer(), Settings()).contexts == [f"T\n\n{context}"]


def test_long_code_is_cut_at_max_chunk_chars() -> None:
    document = scored("```\n" + "value = other(argument)\n" * 500 + "```\n", max_chunk_chars=2500)
    check(document, 2500)
    assert len(document.chunks) >= 5


def test_markup_that_makes_a_sentence_too_long_is_cut() -> None:
    document = scored(f"A volcano and [a picture](data:{'x' * 30_000}) of it.\n")
    check(document, 8000)
    assert len(document.chunks) >= 4


def test_a_text_without_a_full_stop_becomes_many_chunks() -> None:
    document = scored("word " * 8000, format="plaintext")
    check(document, 8000)
    assert len(document.chunks) >= 5
    assert document.n_sentences >= 20


@pytest.mark.parametrize("format", ["markdown", "plaintext"])
def test_headings_alone_are_text(format: str) -> None:  # noqa: A002
    content = {
        "markdown": "# Volcanoes\n\n<!-- a note -->\n\n## How lava flows\n\n---\n",
        "plaintext": "CHAPTER I. VOLCANOES\n\n\nCHAPTER II. LAVA\n",
    }[format]
    document = scored(content, format=format)
    check(document, 4000)
    text = " ".join(content[chunk.start_char : chunk.end_char] for chunk in document.chunks)
    assert [
        word
        for word in ("Volcanoes", "lava flows", "VOLCANOES", "LAVA")
        if word in content and word not in text
    ] == []
    assert "heading" not in document.n_left_out


@pytest.mark.parametrize("content", ["---\n\n***\n", "<!-- a comment -->\n"])
def test_a_document_without_sentences_is_rejected(content: str) -> None:
    with pytest.raises(EmptyDocumentError):
        scored(content)


def test_text_without_known_words_is_a_chunk_without_reefs() -> None:
    chunk = scored("Zxqv wvut. Ponmlk jih.\n").chunks[0]
    assert (chunk.profile, chunk.top_reef_id, chunk.top_reef_name) == (b"", None, None)
    assert (chunk.norm, chunk.confidence, chunk.coverage) == (0.0, 0.0, 0.0)


def test_low_coverage_of_enough_words_gives_a_warning() -> None:
    foreign = "Das Wetter bleibt heute schön und trocken. "
    assert scored(foreign).warnings == ()
    assert scored(foreign * 3).warnings == (
        "low coverage: its language is de, and only English words have topics",
    )
    (warning,) = scored("Zxqv wvut the ponmlk of jih, and zyx is a qrst. " * 5).warnings
    assert "low coverage: only 0% of" in warning
    assert "is this English?" in warning
    assert scored("Volcano lava magma granite. " * 20).warnings == ()


def test_coverage_is_over_all_words_of_the_document() -> None:
    assert scored("# A\n\nVolcano lava magma.\n\n# B\n\nZxqv.\n").coverage == 0.75


def test_the_result_has_the_versions_of_vocabulary_and_data() -> None:
    draft = make_draft(content="A volcano.", settings=Settings())
    document = score_document(draft, FakeScorer(), Settings(), vocabulary_version=7)
    assert document.vocabulary_version == 7
    assert (document.data_version, document.data_checksum) == (
        FakeScorer.data_version,
        FakeScorer.data_checksum,
    )


PARTS = st.sampled_from(
    [
        "# A\n",
        "## B\n\n",
        "A volcano. ",
        "The jury left! ",
        "word ",
        "\n",
        "\n\n",
        "\r\n",
        "\r",
        "- item\n",
        "<!-- x -->\n",
        "---\n\n",
        "```\ncode. more\n```\n",
        "| a | b |\n|---|---|\n",
        "x" * 900 + " ",
        "[l](u) ",
        "é。",
        "> q\n",
        "\t",
    ]
)


@given(st.lists(PARTS, max_size=40).map("".join), st.sampled_from(["markdown", "plaintext"]))
@hypothesis_settings(max_examples=examples(150), deadline=None)
def test_any_text_with_a_sentence_becomes_valid_chunks(content: str, format: str) -> None:  # noqa: A002
    try:
        document = scored(f"Begin it.\n\n{content}", format=format, max_chunk_chars=2000)
    except EmptyDocumentError:
        pytest.fail("there is a sentence in it")
    check(document, 2000)


@pytest.mark.parametrize(
    ("limit", "content", "counted"),
    [
        ("shoal.formats.blocks.MAX_SECTIONS", "# Geology\nA volcano.\n\n" * 6, "5 headings"),
        ("shoal.formats.blocks.MAX_SENTENCES", "A volcano erupts. The lava flows. " * 3, "5 sentences"),
        ("shoal.chunking.analysis.MAX_CHUNKS", "# Geology\nA volcano.\n\n" * 6, "5 passages"),
    ],
)
def test_a_document_with_too_many_parts_is_rejected(
    monkeypatch: pytest.MonkeyPatch, limit: str, content: str, counted: str
) -> None:
    """Each part takes memory, however short it is."""
    monkeypatch.setattr(limit, 5)
    with pytest.raises(DocumentTooLargeError, match=f"more than {counted}.*split it"):
        scored(content)
