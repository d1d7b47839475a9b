"""The filters `file_type` and `name_contains`, and the listing by type."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from fake_scorer import FakeScorer

from shoal.engine import Engine
from shoal.errors import QueryError
from shoal.settings import Settings

SUBTITLES = "WEBVTT\n\n00:01.000 --> 00:04.000\nLava rose in the {}.\n\n00:05.000 --> 00:09.000\nAsh fell.\n"
PAGE = "<html><body><main><h1>Web</h1><p>Lava on the web page. Ash fell there too.</p></main></body></html>"


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    folder = tmp_path_factory.mktemp("types")
    settings = Settings(database_url=f"sqlite:///{folder / 'shoal.db'}", learning=False)
    with Engine(settings=settings, scorer=FakeScorer()) as opened:
        files = {
            "talk.vtt": SUBTITLES.format("film"),
            "radio.mp3.vtt": SUBTITLES.format("radio"),
            "page.html": PAGE,
        }
        for name, text in files.items():
            (folder / name).write_text(text)
            opened.ingest_file(folder / name, source_path=f"media/{name}", title=name)
        opened.ingest(content="# Notes\n\nLava in a note.", title="note", source_path="100%_note.md")
        opened.ingest(content="Lava without a path.", title="bare", format="plaintext")
        opened.ingest(content="Lava on a sign.", title="scan", metadata={"modality": "ocr"})
        opened.ingest(content="Lava, we said.", title="call", metadata={"modality": "audio_transcript"})
        yield opened


def found(engine: Engine, **filters: Any) -> set[str]:
    response = engine.search("lava ash", filters=filters, max_per_document=1)
    return {result.document_title for result in response.results}


@pytest.mark.parametrize(
    ("file_type", "titles"),
    [
        ("video", {"talk.vtt"}),
        ("audio", {"radio.mp3.vtt", "call"}),
        ("image", {"scan"}),
        ("subtitles", {"talk.vtt", "radio.mp3.vtt"}),
        ("HTML", {"page.html"}),
        ("htm", set()),
        ("markdown", {"note"}),
        (" md ", {"note"}),
        (".vtt", {"talk.vtt", "radio.mp3.vtt"}),
        ("text", {"bare", "scan", "call"}),
        ("pdf", set()),
        ("", {"talk.vtt", "radio.mp3.vtt", "page.html", "note", "bare", "scan", "call"}),
    ],
)
def test_search_and_listing_agree_on_the_type_of_a_document(
    engine: Engine, file_type: str, titles: set[str]
) -> None:
    assert found(engine, file_type=file_type) == titles
    page = engine.documents.list(file_type=file_type)
    assert {document.title for document in page.documents} == titles
    assert page.total == len(titles)


def test_the_facet_counts_types_and_only_the_suffix_that_a_filter_names(engine: Engine) -> None:
    def counted(**search: Any) -> dict[Any, int]:
        (facet,) = engine.facets(["file_type"], **search).facets
        assert facet.n_other == facet.n_missing == 0
        assert facet.n_values == len(facet.values)
        return {value.value: value.count for value in facet.values}

    types = {"text": 3, "audio": 2, "subtitles": 2, "html": 1, "image": 1, "markdown": 1, "video": 1}
    assert counted() == types
    assert counted(filter="file_type IN [html, .vtt]") == types | {".vtt": 2}
    (facet,) = engine.facets(["file_type"], filter="file_type = .vtt").facets
    assert [value.value for value in facet.values if value.is_selected] == [".vtt"]


def test_recordings_have_the_modality_of_their_type(engine: Engine) -> None:
    for file_type in ("audio", "video"):
        results = engine.search("lava ash", filters={"file_type": file_type}).results
        assert results
        assert {result.modality.split("_")[0] for result in results} == {file_type}


def test_a_name_is_compared_literally_and_in_any_case(engine: Engine) -> None:
    assert found(engine, name_contains="MEDIA/") == {"talk.vtt", "radio.mp3.vtt", "page.html"}
    assert found(engine, name_contains="%_NOTE") == {"note"}
    assert found(engine, name_contains="_") == {"note"}
    assert found(engine, name_contains="media", file_type="html") == {"page.html"}


def test_pages_of_one_type_have_the_total_of_all(engine: Engine) -> None:
    page = engine.documents.list(file_type="subtitles", q="media", limit=1, offset=1)
    assert [document.title for document in page.documents] == ["radio.mp3.vtt"]
    assert page.total == 2


def test_an_unknown_type_is_refused_with_the_known_ones(engine: Engine) -> None:
    with pytest.raises(QueryError, match="did you mean notebook") as error:
        engine.documents.list(file_type="notebok")
    assert error.value.field == "file_type"
