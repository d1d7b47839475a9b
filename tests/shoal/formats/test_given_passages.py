"""Passages that the caller has cut are taken as they are."""

from __future__ import annotations

import re
from typing import Any

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st

from shoal.chunking.analysis import cut, score_document
from shoal.errors import DocumentError, DocumentTooLargeError, InvalidFieldError
from shoal.formats import given_passages
from shoal.formats.drafts import make_draft
from shoal.models.documents import DocumentDraft, Passage, ScoredDocument
from shoal.settings import Settings

CONTENT = "# Sea\n\nThe tide rises. The moon pulls it.\n\nLeft out.\n\nBees carry pollen."


def draft(chunks: Any, **fields: Any) -> DocumentDraft:
    return make_draft(settings=Settings(), chunks=chunks, **fields)


def scored(chunks: Any, **fields: Any) -> ScoredDocument:
    return score_document(draft(chunks, **fields), FakeScorer(), Settings())


def test_without_content_the_passages_are_the_text() -> None:
    document = scored(
        [{"text": " A volcano throws lava. \n"}, {"text": "A fern has spores. A leaf."}, {"text": "x"}]
    )
    assert document.draft.content == "A volcano throws lava.\n\nA fern has spores. A leaf.\n\nx"
    assert [chunk.text for chunk in document.chunks] == document.draft.content.split("\n\n")
    assert [chunk.sentence_count for chunk in document.chunks] == [1, 2, 1]
    assert document.draft.chunk_tokens == "given"


def test_passages_are_found_in_the_content_in_order() -> None:
    document = scored(
        [{"text": "The tide rises. The moon pulls it."}, {"text": "Bees carry pollen.", "start": 54}],
        content=CONTENT,
        format="markdown",
    )
    assert document.draft.content == CONTENT
    assert [(chunk.text, chunk.start_line) for chunk in document.chunks] == [
        ("The tide rises. The moon pulls it.", 3),
        ("Bees carry pollen.", 7),
    ]
    left_out = [(CONTENT[span.start_char : span.end_char], span.reason) for span in document.left_out]
    assert left_out == [("# Sea", "no passage"), ("Left out.", "no passage")]


def test_equal_passages_are_found_one_after_the_other() -> None:
    passages = draft([{"text": "Yes."}, {"text": "Yes."}], content="Yes. No. Yes.").passages
    assert [passage.start_char for passage in passages] == [0, 9]


def test_headings_and_places_are_those_that_are_given() -> None:
    document = scored(
        [
            {"text": "# One\n\nText.", "heading": ["Sea", "Tides"], "page": 3, "page_end": 4},
            {"text": "Two.", "heading": ["Sea", "Tides"], "page": 4},
            {"text": "Three.", "heading": "Bees ", "line": 12},
            {"text": "Four.", "heading": None, "page": None},
        ]
    )
    assert [document.sections[chunk.section].path for chunk in document.chunks] == [
        ("Sea", "Tides"),
        ("Sea", "Tides"),
        ("Bees",),
        (),
    ]
    assert len(document.sections) == 3
    labels = [chunk.place and chunk.place.label for chunk in document.chunks]
    assert labels == ["pages 3-4", "page 4", "line 12", None]


@pytest.mark.parametrize(
    ("chunks", "content", "message"),
    [
        ([], None, "is empty; leave it out"),
        ("text", None, "must be a list"),
        ({"text": "a"}, None, "must be a list"),
        (["text"], None, "[0] must be an object"),
        ([{"text": "a"}, {}], None, "[1] needs `text`"),
        ([{"text": 5}], None, "[0] needs `text`"),
        ([{"text": " \n\x00"}], None, "[0] is empty"),
        ([{"text": "x" * 8001}], None, "[0] has 8,001 characters; the limit is 8,000"),
        ([{"text": "a", "sart": 1}], None, "[0] has no field 'sart'"),
        ([{"text": "absent"}], "present", "[0] is not in `content`"),
        ([{"text": "b c"}, {"text": "a b"}], "a b c", "[1] overlaps"),
        ([{"text": "a b", "start": 0}, {"text": "b c", "start": 2}], "a b c", "[1] overlaps"),
        ([{"text": "b", "start": 1}], "a b c", "another text at `start` 1"),
        ([{"text": "b", "start": 10**30}], "a b c", "another text at `start`"),
        ([{"text": "b", "start": -1}], "a b c", "must be an offset"),
        ([{"text": "b", "start": True}], "a b c", "must be an offset"),
        ([{"text": "b", "start": "2"}], "a b c", "must be an offset"),
        ([{"text": "b", "heading": 5}], None, "`heading` must be"),
        ([{"text": "b", "heading": ["a"] * 7}], None, "6 texts"),
        ([{"text": "b", "heading": "a" * 501}], None, "500 characters"),
        ([{"text": "b", "page": 0}], None, "whole numbers from 1"),
        ([{"text": "b", "page": 1.5}], None, "whole numbers from 1"),
        ([{"text": "b", "page_end": 2}], None, "whole numbers from 1"),
        ([{"text": "b", "page": 2**31}], None, "whole numbers from 1"),
        ([{"text": "b", "page": 3, "page_end": 2}], None, "is before"),
        ([{"text": "b", "page": 3, "line": 2}], None, "not both"),
    ],
)
def test_bad_passages_are_refused_with_their_number(chunks: Any, content: str | None, message: str) -> None:
    with pytest.raises(InvalidFieldError, match=re.escape(message)):
        draft(chunks, content=content)


def test_the_number_of_passages_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(given_passages, "MAX_PASSAGES", 2)
    draft([{"text": "a"}] * 2)
    with pytest.raises(DocumentTooLargeError, match="there are 3; the limit is 2"):
        draft([{"text": "a"}] * 3)


def test_passages_and_tokens_exclude_each_other() -> None:
    with pytest.raises(InvalidFieldError, match="not cut again"):
        draft([{"text": "a"}], chunk_tokens="300-800")
    with pytest.raises(InvalidFieldError, match="must be any"):
        make_draft(content="a", chunk_tokens="given", settings=Settings())


def test_how_a_text_is_cut_is_part_of_its_hash() -> None:
    plain = make_draft(content="a\n\nb", settings=Settings())
    ranged = make_draft(content="a\n\nb", chunk_tokens="300-800", settings=Settings())
    given_one, given_two = draft([{"text": "a\n\nb"}]), draft([{"text": "a"}, {"text": "b"}])
    with_page = draft([{"text": "a"}, {"text": "b", "page": 2}])
    drafts = [plain, ranged, given_one, given_two, with_page]
    assert {each.content for each in drafts} == {"a\n\nb"}
    assert len({each.content_hash for each in drafts}) == len(drafts)
    assert draft([{"text": "a "}, {"text": "b"}]).content_hash == given_two.content_hash


texts = st.text(st.sampled_from("ab. \n#*`<>-_|\r\té\x00"), min_size=1, max_size=40)


@given(st.lists(texts, min_size=1, max_size=6), st.sampled_from(["markdown", "plaintext"]), st.data())
def test_any_passages_become_chunks_as_they_are(
    chunks: list[str], text_format: str, data: st.DataObject
) -> None:
    objects = [{"text": text} for text in chunks]
    content = "".join(chunks) if data.draw(st.booleans()) else None
    try:
        document = scored(objects, content=content, format=text_format)
    except DocumentError:
        cleaned = [text.replace("\x00", " ").strip() for text in chunks]
        assert not all(cleaned) or content is not None
        return
    expected = [text.replace("\x00", " ").strip() for text in chunks]
    assert [chunk.text for chunk in document.chunks] == expected
    # A process that has only the offsets cuts in the same places.
    cuts = [chunk.start_char for chunk in document.chunks]
    again = cut(document.draft, cuts, Settings())
    assert again is not None
    assert again.cuts == cuts


def test_passages_survive_their_json() -> None:
    passage = Passage(1, 5, ("a", "b"), "page", 2, 3)
    assert Passage.of_row([1, 5, ["a", "b"], "page", 2, 3]) == passage
    assert given_passages.fields_of(passage, "01234") == {
        "text": "1234",
        "start": 1,
        "heading": ["a", "b"],
        "page": 2,
        "page_end": 3,
    }
