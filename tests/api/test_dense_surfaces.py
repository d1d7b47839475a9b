"""The dense signal as people and programs see it: over HTTP, in the console, on the command line."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

import pytest
from dense_library import QUERY, SAME, TEXTS, Vectors, ingest, opened
from fake_encoder import FakeEncoder
from flask.testing import FlaskClient
from rich.console import Console

from shoal.cli.explanation import print_explanation
from shoal.cli.results import print_search
from shoal.cli.session import json_form
from shoal.client.requests import decode
from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.mcp.document_tools import _explained
from shoal.models.scores import NearestSentence
from shoal.models.search import SearchResponse
from shoal.search.library_index import DenseScores, LibraryIndex
from shoal.search.relevance import RANKED_BY_VECTORS
from shoal.settings import Settings
from shoal_api import create_app
from shoal_api.console.figures import excerpt, runs
from shoal_api.console.rendered import Run

BOTH = f"{QUERY} rain"


@pytest.fixture
def encoder() -> FakeEncoder:
    return FakeEncoder(dimension=256, same=SAME)


@pytest.fixture
def engine(settings: Settings, encoder: FakeEncoder, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    vectors = Vectors(encoder)

    def dense(library: LibraryIndex, vector: object) -> DenseScores | None:
        return vectors.dense(library, vector)  # type: ignore[arg-type]

    monkeypatch.setattr(LibraryIndex, "dense", dense)
    with opened(settings, encoder) as engine:
        ingest(engine, vectors)
        vectors.missing = {TEXTS["Rain"]}
        yield engine


@pytest.fixture
def client(settings: Settings, engine: Engine) -> FlaskClient:
    return create_app(settings, engine=engine).test_client()


def test_http_has_the_dense_scores_and_the_nearest_sentence(client: FlaskClient) -> None:
    response = client.post("/api/v1/search", json={"query": BOTH, "include_scores": True})
    body = response.get_json()
    by_title = {result["document_title"]: result for result in body["results"]}
    assert body["weights"]["dense"] > 0
    heart = by_title["Heart"]
    assert heart["scores"]["dense"] == 1.0
    assert 0 < heart["scores"]["dense_raw"] <= 1
    nearest = heart["nearest_sentence"]
    assert heart["text"][nearest["start"] : nearest["end"]] == "Coronary occlusion damages tissue."
    assert by_title["Rain"]["scores"]["dense_raw"] is None
    assert by_title["Rain"]["scores"]["dense"] > 0
    assert by_title["Rain"]["nearest_sentence"] is None
    decoded = decode(SearchResponse, body)
    assert isinstance(
        decoded.results[0].nearest_sentence or decoded.results[1].nearest_sentence, NearestSentence
    )
    assert "nearest_sentence" not in client.get(f"/api/v1/search?q={BOTH}").get_json()["results"][0]
    explained = client.post("/api/v1/explain", json={"query": BOTH, "document_id": 1}).get_json()
    assert explained["target"]["nearest_sentence"] == nearest
    weights = {"dense": 1.0, "lexical": 0.5}
    assert client.post("/api/v1/search", json={"query": BOTH, "weights": weights}).status_code == 200
    assert client.get(f"/api/v1/search?q={QUERY}&mode=dense").get_json()["results"][0]["document_id"] == 1


def test_the_console_shows_three_parts_and_marks_the_sentence(client: FlaskClient) -> None:
    page = client.get(f"/?q={BOTH}&nearest=1").get_data(as_text=True)
    assert '<span class="near">Coronary occlusion damages tissue.</span>' in page
    assert "is near in meaning" in page
    assert 'class="sign dense">meaning' in page
    assert 'rect class="dense"' in page
    assert "not embedded yet" in page
    assert "meaning alone" in page


def test_the_console_sends_the_page_before_the_encoder_reads_sentences(
    client: FlaskClient, encoder: FakeEncoder
) -> None:
    client.get(f"/?q={BOTH}")
    before = encoder.n_embedded
    page = client.get(f"/?q={BOTH}").get_data(as_text=True)
    assert encoder.n_embedded == before
    (chunk,) = re.findall(r'data-nearest="(\d+)"', page)
    assert "nearest=1" in page.partition("<noscript>")[2].partition("</noscript>")[0]
    answer = client.get(f"/nearest?q={BOTH}&chunks={chunk},9999").get_data(as_text=True)
    assert f'data-chunk="{chunk}" data-sentence="Coronary occlusion damages tissue."' in answer
    assert "near in meaning (" in answer
    assert "encoder had no time" in answer.partition('data-chunk="9999"')[2]
    assert client.get("/nearest?q=rain&chunks=x").status_code == 422
    assert client.get("/nearest?q=&chunks=1").status_code == 422


def test_relevance_knows_that_vectors_alone_have_ranked(client: FlaskClient) -> None:
    warnings = client.get(f"/api/v1/search?q={QUERY}&mode=dense").get_json()["warnings"]
    assert RANKED_BY_VECTORS in warnings
    assert not [each for each in warnings if "nothing here" in each]
    page = client.get(f"/?q={QUERY}&mode=dense").get_data(as_text=True)
    assert "<small>similar</small>" in page
    assert "judged by its words and reefs alone" in page
    hybrid = client.get(f"/?q={QUERY}").get_data(as_text=True)
    assert "Judged by words and reefs, nothing here seems to answer this" in hybrid


def test_mode_dense_refuses_a_threshold_of_relevance(client: FlaskClient, engine: Engine) -> None:
    """It would drop what says the same in other words."""
    (best, *_) = engine.search(QUERY, mode="dense", min_relevance=0).results
    assert best.document_title == "Heart"
    assert best.relevance < 0.25
    with pytest.raises(QueryError, match="mode dense ranks by vectors alone") as raised:
        engine.search(QUERY, mode="dense", min_relevance=0.25)
    assert raised.value.field == "min_relevance"
    answer = client.get(f"/api/v1/search?q={QUERY}&mode=dense&min_relevance=0.25")
    assert answer.status_code == 422
    assert "min_relevance" in answer.get_data(as_text=True)
    page = client.get(f"/?q={QUERY}&mode=dense&min_relevance=0.25")
    assert page.status_code == 422
    assert "mode dense ranks by vectors alone" in page.get_data(as_text=True)


def test_the_command_line_names_the_sentence_and_estimates(engine: Engine) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    answer = json_form(engine.search(BOTH, include_scores=True))
    print_search(console, answer, with_scores=True, query=BOTH)
    explanation = json_form(engine.explain(BOTH, document_id=1))
    for part in (explanation["target"], *explanation["feedback"]):
        part["chunk_index"] = 0
    print_explanation(console, explanation)
    text = out.getvalue()
    assert "its sentence “Coronary occlusion damages tissue.” is near in meaning" in text
    assert "estimated from the other parts" in text
    assert "meaning 3" in text or "meaning 4" in text


def test_agents_get_the_dense_part(engine: Engine) -> None:
    explanation = engine.explain(BOTH, document_id=1)
    assert explanation.target is not None
    explained = _explained(explanation, explanation.target, explanation.target.chunk_id)
    assert [part.signal for part in explained.parts][-1] == "dense"
    assert sum(part.contribution for part in explained.parts) == pytest.approx(explained.score)
    assert "is near in meaning" in explained.nearest_sentence


def test_runs_are_split_at_the_nearest_sentence() -> None:
    nearest = NearestSentence(3, 9, 0.7, "")
    assert runs("abcdefghijkl", [(1, 4)], nearest) == [
        Run("a", False),
        Run("bc", True),
        Run("d", True, is_near=True),
        Run("efghi", False, is_near=True),
        Run("jkl", False),
    ]
    text = "word " * 400 + "The nearest one. " + "word " * 400
    shown = excerpt(text, [], NearestSentence(2000, 2016, 0.7, ""))
    assert [run.text for run in shown if run.is_near] == ["The nearest one."]
