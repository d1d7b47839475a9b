"""Results have a citation, highlights, neighbours and shared reefs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from fake_scorer import FakeScorer
from hypothesis import given
from hypothesis import strategies as st

from shoal.engine import Engine
from shoal.models.search import SearchMode
from shoal.search.matched_terms import find_highlights, make_highlighter
from shoal.search.query_language import parse_query
from shoal.settings import Settings

CONTENT = """# Weather

Rain falls on the monsoon coast. Clouds and rain and wind follow the storm.

## Rocks

A volcano throws lava and ash. Lava cools to basalt rock and granite.

## Courts

The court heard a witness. A judge and a jury weigh evidence of the crime.
"""


@pytest.fixture
def engine(settings: Settings) -> Iterator[Engine]:
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        opened.ingest(
            title="A mixture", content=CONTENT, format="markdown", tags=["b", "a"], source_path="mix.md"
        )
        yield opened


def test_result_can_be_located_in_its_document(engine: Engine) -> None:
    result = engine.search("lava of volcanoes").results[0]
    content = engine.documents.content(result.document_id)
    assert content[result.start_char : result.end_char] == result.text
    lines = content.split("\n")[result.start_line - 1 : result.end_line]
    assert "\n".join(lines) == result.text
    assert result.section_path == ("Weather", "Rocks")
    assert (result.document_title, result.source_path, result.tags) == ("A mixture", "mix.md", ("a", "b"))
    assert result.top_reef_name == "volcanoes and rocks"


def test_highlights_are_the_words_of_the_query_in_any_inflection(engine: Engine) -> None:
    result = engine.search("the volcanoes, the rocks").results[0]
    assert [result.text[start:end] for start, end in result.highlights] == ["volcano", "rock"]


def test_result_has_neighbours_on_request(engine: Engine) -> None:
    chunks = engine.documents.chunks(1).chunks
    middle = engine.search("volcano lava", context=1).results[0]
    i = middle.chunk_index
    assert [chunk.chunk_id for chunk in middle.before] == [chunks[i - 1].id]
    assert [chunk.text for chunk in middle.after] == [chunks[i + 1].text]
    last = engine.search("jury judge", context=5).results[0]
    assert last.after == ()
    assert [chunk.chunk_index for chunk in last.before] == list(range(last.chunk_index))
    assert engine.search("volcano lava").results[0].before == ()


def test_shared_reefs_add_up_to_the_score_in_mode_reef(engine: Engine) -> None:
    reply = engine.search("rain and lava", mode="reef", include_scores=True, max_per_document=0)
    norms = {
        chunk.id: sum(r.z_score**2 for r in chunk.reefs) ** 0.5 for chunk in engine.documents.chunks(1).chunks
    }
    assert len(reply.results) > 1
    for result in reply.results:
        assert result.shared_reefs is not None
        assert len(result.shared_reefs) == result.n_shared_reefs
        products = [reef.chunk_z * reef.query_z for reef in result.shared_reefs]
        assert products == sorted(products, reverse=True)
        assert result.match_score == pytest.approx(sum(products) / norms[result.chunk_id], rel=1e-4)
        assert result.scores.final == result.match_score
        assert result.provenance == ("reef",)


def test_shared_reefs_are_left_out_by_default(engine: Engine) -> None:
    assert engine.search("rain").results[0].shared_reefs is None


texts = st.lists(st.text(alphabet="abs -'.\nRÉé🌧", max_size=30), max_size=6)


@given(texts=texts, query=st.text(alphabet="abs RÉé", max_size=10))
def test_highlights_cover_words_of_their_own_text(texts: list[str], query: str) -> None:
    highlighter = make_highlighter(parse_query(query, max_words=9), SearchMode.reef)
    highlights = find_highlights(texts, highlighter)
    assert len(highlights) == len(texts)
    for text, spans in zip(texts, highlights, strict=True):
        assert spans == find_highlights([text], highlighter)[0]
        for start, end in spans:
            assert 0 <= start < end <= len(text)
            assert not text[start:end].isspace()
