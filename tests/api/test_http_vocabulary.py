"""Learned words over HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from surface import API, assert_problem
from teaching_texts import about

from shoal.engine import Engine
from shoal.settings import Settings
from shoal_api import create_app


@pytest.fixture(scope="module")
def learned_client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlaskClient]:
    """A client of a library with learned words. It uses lagoon's scorer: the fake scorer cannot learn."""
    path = tmp_path_factory.mktemp("learned") / "shoal.db"
    settings = dataclasses.replace(Settings(), database_url=f"sqlite:///{path}", learning=True)
    with Engine(settings=settings) as engine:
        engine.ingest(title="Fire", content=about("fire", "zorblat", 6))
        engine.ingest(title="Ships", content=about("sea", "hoxley wump", 5))
        yield create_app(settings, engine=engine).test_client()


def test_learned_words_have_reefs_and_evidence(learned_client: FlaskClient) -> None:
    page = learned_client.get(f"{API}/vocabulary").get_json()
    assert set(page) == {"words", "total", "vocabulary_version", "warnings"}
    assert page["total"] == len(page["words"]) == 4
    word = page["words"][0]
    assert set(word) == {
        "word", "is_compound", "n_occurrences", "n_documents", "specificity", "from_version", "is_name",
        "reefs", "evidence",
    }  # fmt: skip
    assert (word["word"], word["n_occurrences"], word["is_compound"]) == ("zorblat", 6, False)
    assert word["evidence"] == {
        "n_occurrences": 6,
        "n_documents": 1,
        "documents": [{"document_id": 1, "title": "Fire", "n_chunks": 2, "n_occurrences": 6}],
    }
    assert set(word["reefs"][0]) == {"reef_id", "reef_name", "strength"}
    assert page["vocabulary_version"] == 2


def test_learned_words_are_paged_and_filtered_by_substring(learned_client: FlaskClient) -> None:
    all_words = [word["word"] for word in learned_client.get(f"{API}/vocabulary").get_json()["words"]]
    second = learned_client.get(f"{API}/vocabulary?limit=1&offset=1").get_json()
    assert ([word["word"] for word in second["words"]], second["total"]) == ([all_words[1]], 4)
    assert learned_client.get(f"{API}/vocabulary?q=ZORB").get_json()["total"] == 1


@pytest.mark.parametrize(
    ("parameters", "field"),
    [("limit=0", "limit"), ("limit=1001", "limit"), ("offset=-1", "offset"), ("word=x", "word")],
)
def test_invalid_listing_parameters_return_422(
    learned_client: FlaskClient, parameters: str, field: str
) -> None:
    assert_problem(learned_client.get(f"{API}/vocabulary?{parameters}"), 422, field)


def test_library_without_learned_words_has_an_empty_vocabulary(client: FlaskClient) -> None:
    assert client.get(f"{API}/vocabulary").get_json() == {
        "words": [],
        "total": 0,
        "vocabulary_version": 0,
        "warnings": [],
    }


def test_explanation_names_the_documents_a_word_was_learned_from(learned_client: FlaskClient) -> None:
    words = learned_client.post(f"{API}/explain", json={"query": "the zorblats of a volcano"}).get_json()[
        "words"
    ]
    learned = {word["text"]: word["learned"] for word in words}
    assert learned["zorblats"]["evidence"]["documents"][0]["title"] == "Fire"
    assert learned["volcano"] is None
